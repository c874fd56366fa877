// The step form of every recurrence (kernels/recurrence.h, core/steps.h): exact, any sizes up to
// K = 512; the truth that faster kernels are held against.
//
// A block owns COLUMNS columns of one head's state for the whole block of tokens; columns never talk
// to each other. A column is spread over LANES neighbouring lanes of a warp, row i of the state in
// lane i % LANES, so a thread holds ROWS = K / LANES numbers in registers and a product along K is a
// sum over registers and three shuffles. What the tokens bring (q, k, v, beta, decay, a, b) is staged
// in shared memory for TOKENS tokens at a time.
#include "kernels/cuda/ops.h"

enum {
    LANES = 8,
    WARP_COLUMNS = 32 / LANES,
    WARPS = 4,
    COLUMNS = WARPS * WARP_COLUMNS,
    STAGE = 16
};

struct recurrence_view {
    int H, Hk, K, V, n_h;
    int decay; // decay_kind
    int erase; // erase_kind
    float scale;
    int64_t T;
    bool has_beta, decay_is_16;
    const int *marks; // [H][columns / COLUMNS]: of which columns; NULL: all
};
static_assert((int)COLUMNS == (int)MARK_COLUMNS, "a block does what one mark stands for");

__device__ static float lane_sum(float x) {
    for (int d = 1; d < LANES; d <<= 1)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}

// Copies `count` rows of `width` numbers into shared memory as floats.
template <class T>
__device__ static void stage(float *to, view<T> from, int64_t row, int count, int64_t column,
                             int width, int space) {
    for (int i = threadIdx.x; i < count * space; i += blockDim.x) {
        int r = i / space, c = i % space;
        to[i] = c < width ? get(from.row(row + r)[column + c]) : 0.0f;
    }
}

template <class T, int ROWS>
__global__ void __launch_bounds__(32 * WARPS)
    run_steps(recurrence_view s, view<T> q, view<T> k, view<T> v, view<float> beta,
              view<float> decay, view<T> a, view<T> b, view<float> start, view<float> state,
              view<T> o, int tokens) {
    extern __shared__ float shared[];
    if (s.marks && !s.marks[(int64_t)blockIdx.x * gridDim.y + blockIdx.y])
        return;
    const int h = blockIdx.x, hk = h / (s.H / s.Hk), v0 = blockIdx.y * COLUMNS;
    const int lane = threadIdx.x % LANES, mine = threadIdx.x / LANES; // column inside the block
    const int K = s.K, column = v0 + mine;
    const int micro = tokens * s.n_h, wide = s.decay == DECAY_CHANNEL ? K : 1;
    float *sk = shared, *sq = sk + micro * K, *sv = sq + tokens * K, *sbeta = sv + micro * COLUMNS,
          *sw = sbeta + micro, *sa = sw + tokens * wide,
          *sb = sa + (s.erase == ERASE_PAIR ? tokens * K : 0);
    float S[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int r = i * LANES + lane;
        S[i] = r < K && column < s.V ? start.row((int64_t)h * K + r)[column] : 0.0f;
    }
    for (int64_t t0 = 0; t0 < s.T; t0 += tokens) {
        int n = (int)min((int64_t)tokens, s.T - t0), m = n * s.n_h;
        int columns = min((int)COLUMNS, s.V - v0);
        __syncthreads();
        stage(sk, k, t0 * s.n_h, m, (int64_t)hk * K, K, K);
        stage(sq, q, t0, n, (int64_t)hk * K, K, K);
        stage(sv, v, t0 * s.n_h, m, (int64_t)h * s.V + v0, columns, COLUMNS);
        if (s.has_beta)
            stage(sbeta, beta, t0 * s.n_h, m, h, 1, 1);
        const int64_t first = s.decay == DECAY_CHANNEL ? (int64_t)h * K : h;
        if (s.decay_is_16)
            stage(sw, view<bf16>{(bf16 *)decay.p, decay.ld}, t0, n, first, wide, wide);
        else if (s.decay != DECAY_NONE)
            stage(sw, decay, t0, n, first, wide, wide);
        if (s.erase == ERASE_PAIR) {
            stage(sa, a, t0, n, (int64_t)h * K, K, K);
            stage(sb, b, t0, n, (int64_t)hk * K, K, K);
        }
        __syncthreads();
        for (int t = 0; t < n; t++) {
            float r = 0;
            if (s.erase == ERASE_PAIR) { // b reads the undecayed state
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * LANES + lane < K)
                        r += sb[t * K + i * LANES + lane] * S[i];
                r = lane_sum(r);
            }
            if (s.decay == DECAY_HEAD) {
                float g = expf(sw[t]);
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    S[i] *= g;
            } else if (s.decay == DECAY_CHANNEL) {
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * LANES + lane < K)
                        S[i] *= expf(sw[t * K + i * LANES + lane]);
            }
            if (s.erase == ERASE_PAIR) {
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * LANES + lane < K)
                        S[i] += sa[t * K + i * LANES + lane] * r;
            }
            for (int j = 0; j < s.n_h; j++) {
                const float *key = sk + (t * s.n_h + j) * K;
                float u = sv[(t * s.n_h + j) * COLUMNS + mine];
                if (s.erase == ERASE_KEY) {
                    float x = 0;
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        if (i * LANES + lane < K)
                            x += key[i * LANES + lane] * S[i];
                    u -= lane_sum(x);
                }
                if (s.has_beta)
                    u *= sbeta[t * s.n_h + j];
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    if (i * LANES + lane < K)
                        S[i] += key[i * LANES + lane] * u;
            }
            float x = 0;
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                if (i * LANES + lane < K)
                    x += sq[t * K + i * LANES + lane] * S[i];
            x = lane_sum(x);
            if (lane == 0 && column < s.V)
                put(&o.row(t0 + t)[(int64_t)h * s.V + column], s.scale * x);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int r = i * LANES + lane;
        if (r < K && column < s.V)
            state.row((int64_t)h * K + r)[column] = S[i];
    }
}

// Shared memory of `tokens` tokens; the layout is that of run_steps.
static size_t stage_bytes(const head_shape *p, int tokens) {
    int64_t wide = p->decay == DECAY_CHANNEL ? p->K : 1, micro = (int64_t)tokens * p->n_h;
    int64_t n = micro * p->K + (int64_t)tokens * p->K + micro * COLUMNS + micro + tokens * wide;
    if (p->erase == ERASE_PAIR)
        n += 2 * (int64_t)tokens * p->K;
    return (size_t)n * sizeof(float);
}

template <class T, int ROWS>
static void launch(backend *be, const steps *s, mat start, const int *marks, mat state, mat o) {
    const head_shape *p = &s->s;
    recurrence_view r = {p->H,
                         p->Hk,
                         p->K,
                         p->V,
                         p->n_h,
                         (int)p->decay,
                         (int)p->erase,
                         (float)p->scale,
                         s->T,
                         !mat_none(s->beta),
                         s->decay.esize == 2,
                         marks};
    int tokens = STAGE / p->n_h > 0 ? STAGE / p->n_h : 1;
    int most = 48 << 10; // what every device has
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, of(be)->device);
    while (tokens > 1 && stage_bytes(p, tokens) > (size_t)most)
        tokens /= 2;
    size_t bytes = stage_bytes(p, tokens);
    if (!cuda_ok(be,
                 cudaFuncSetAttribute(run_steps<T, ROWS>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                 "shared memory of the recurrence"))
        return;
    dim3 grid((unsigned)p->H, (unsigned)((p->V + COLUMNS - 1) / COLUMNS));
    run_steps<T, ROWS><<<grid, 32 * WARPS, bytes, of(be)->stream>>>(
        r, as<T>(s->q), as<T>(s->k), as<T>(s->v), as<float>(s->beta), as<float>(s->decay),
        as<T>(s->a), as<T>(s->b), as<float>(start), as<float>(state), as<T>(o), tokens);
    launched(be, "recurrence");
}

template <class T>
static void pick_rows(backend *be, const steps *s, mat start, const int *marks, mat state, mat o) {
    int K = s->s.K;
    if (K <= 64)
        launch<T, 8>(be, s, start, marks, state, o);
    else if (K <= 128)
        launch<T, 16>(be, s, start, marks, state, o);
    else if (K <= 256)
        launch<T, 32>(be, s, start, marks, state, o);
    else if (K <= 512)
        launch<T, 64>(be, s, start, marks, state, o);
    else
        err_set(&be->fail, ERR_UNSUPPORTED, "recurrence: no kernel for K = %d (at most 512)", K);
}

void cuda_steps_where_marked(backend *be, const steps *s, mat start, const int *marks, mat state,
                             mat o) {
    ON_TYPE(s->q, T, pick_rows<T>(be, s, start, marks, state, o));
}

// Betas and decays as float: families keep them so, except where they come from a rounded product.
static mat as_float(backend *be, mat m, bool *made) {
    *made = !mat_none(m) && m.esize != 4;
    if (!*made)
        return m;
    mat f = be->op->alloc_exact(be, m.rows, m.cols);
    if (!mat_none(f))
        be->op->copy(be, m, f);
    return f;
}

// Steps with such betas and decays, for a while.
struct exact_steps {
    backend *be;
    steps t;
    bool made_beta, made_decay;
    exact_steps(backend *of, const steps *s) : be(of), t(*s) {
        t.beta = as_float(be, s->beta, &made_beta);
        t.decay = as_float(be, s->decay, &made_decay);
    }
    ~exact_steps() {
        if (made_beta)
            be->op->free(be, t.beta);
        if (made_decay)
            be->op->free(be, t.decay);
    }
};

void cuda_recurrence(backend *be, const steps *s, mat state, mat o) {
    if (s->T == 0 || cuda_linear_recurrence(be, s, state, o) ||
        cuda_erase_recurrence(be, s, state, o))
        return;
    exact_steps x(be, s);
    if (be->fail.code == ERR_NONE && !cuda_delta_recurrence(be, &x.t, NULL, state, o) &&
        !cuda_chunk_recurrence(be, &x.t, state, o)) {
        be->kernel = "cuda step, f32 FMA";
        be->kernel_why[0] = 0;
        cuda_steps_where_marked(be, &x.t, state, NULL, state, o);
    }
}

bool cuda_recurrence_rows(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    exact_steps x(be, s);
    return be->fail.code != ERR_NONE || cuda_delta_recurrence(be, &x.t, r, state, o);
}
