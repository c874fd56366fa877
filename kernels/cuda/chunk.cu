// The chunked form of the delta rule (kernels/chunk.h), portable: float32 arithmetic, no tensor cores.
//
// Rows are micro-steps, at most C = 64 of whole tokens a chunk. c_i is the log decay summed from the
// chunk's start up to and including row i. With H the state at the chunk's start, in residual form:
//
//     L_ij = beta_i e^{c_i - c_j} k_i.k_j  (j < i)       T = (I + L)^-1 diag(beta)
//     R = V - e^{c} K H       U = T R       o_t = scale (e^{c} q_t^T H + sum_j P_tj u_j)
//     P_tj = e^{c_i - c_j} q_t.k_j, j <= i = last row of token t
//     H <- e^{c_C} H + sum_j k_j e^{c_C - c_j} u_j^T                              (science K03, K05)
//
// Only differences c_i - c_j with i >= j are exponentiated: no positive exponent appears whatever the
// gates are. Two kernels: `prepare` makes T and P of all chunks at once (a block a chunk and head);
// `advance` walks the chunks, a block owning some columns of one head's state. In it a warp owns 32 / G
// columns and never waits for another warp but at the staging barriers: lane (g, column) keeps rows
// 4 (g + G m) .. + 3 of the state in registers, so that the lanes of a column read a key's numbers side
// by side, and sums over K are butterflies over G lanes, G rows at a time.
#include "kernels/cuda/ops.h"

#include <cuda_pipeline.h>

// Floats of the query rows in prepare; T takes their place later.
template <int K> __host__ __device__ constexpr int query_space() {
    return 64 * (K + 4 > 68 ? K + 4 : 68);
}

enum { C = 64, PAD = 68, WARPS = 8, THREADS = 32 * WARPS, PREPARE = 256 };

// Lanes that share a column of the state: sixteen where K divides into them, so that more warps are at
// work on a head; the fewer rows a lane keeps, the shorter its chain.
template <int K> __host__ __device__ constexpr int lanes() {
    return K % 64 == 0 ? 16 : 8;
}

// What prepare leaves per chunk and head: T [C, PAD], P [C, PAD], e^{c}, e^{c_C - c}, e^{c_C}.
enum {
    OFF_P = C * PAD,
    OFF_E = 2 * C * PAD,
    OFF_D = OFF_E + C,
    OFF_END = OFF_D + C,
    SLOT = OFF_END + 4
};

struct chunk_view {
    int H, Hk, V, n_h;
    int tokens;  // of a whole chunk
    int buffers; // of staged rows: 2, or 1 where shared memory is short
    int64_t T;   // tokens
    int64_t chunks;
    bool gated, has_beta;
    float scale;
};

template <int K> __device__ static float dot4(const float *a, const float *b) {
    float sum = 0;
#pragma unroll 8
    for (int k = 0; k < K; k += 4) {
        float4 x = *(const float4 *)(a + k), y = *(const float4 *)(b + k);
        sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
    }
    return sum;
}

template <class T, int K>
__global__ void __launch_bounds__(PREPARE)
    prepare(chunk_view s, view<T> q, view<T> k, view<float> beta, view<float> decay, float *slots) {
    extern __shared__ float shared[];
    float *Ks = shared, *Qs = Ks + C * (K + 4), *L = Qs + query_space<K>(), *b = L + C * PAD;
    double *c = (double *)(b + C);
    const int h = blockIdx.y, hk = h / (s.H / s.Hk), tid = threadIdx.x;
    const int64_t chunk = blockIdx.x, t0 = chunk * s.tokens;
    const int n = (int)min((int64_t)s.tokens, s.T - t0), m = n * s.n_h;
    float *slot = slots + (chunk * s.H + h) * SLOT, *Tm = slot, *P = slot + OFF_P;
    for (int i = tid; i < C * K; i += PREPARE) {
        int r = i / K, x = i % K;
        Ks[r * (K + 4) + x] = r < m ? get(k.row(t0 * s.n_h + r)[(int64_t)hk * K + x]) : 0.0f;
        Qs[r * (K + 4) + x] = r < n ? get(q.row(t0 + r)[(int64_t)hk * K + x]) : 0.0f;
    }
    if (tid < C)
        b[tid] = tid < m ? s.has_beta ? beta.row(t0 * s.n_h + tid)[h] : 1.0f : 0.0f;
    // In double, so that weak decays behind a strong one keep their value when differences are taken. A
    // gate of zero (log decay -inf) counts as e^-10000: as much nothing, but a number.
    if (tid == 0) {
        double sum = 0;
        for (int i = 0; i < C; i++) {
            if (s.gated && i < m && i % s.n_h == 0) {
                double w = (double)decay.row(t0 + i / s.n_h)[h];
                sum += w < -10000 ? -10000 : w;
            }
            c[i] = sum;
        }
    }
    __syncthreads();
    const int tx = tid % 16, ty = tid / 16;
    for (int a = 0; a < 4; a++)
        for (int d = 0; d < 4; d++) {
            int i = ty + 16 * a, j = tx + 16 * d;
            float x = j < i ? b[i] * expf((float)(c[i] - c[j])) *
                                  dot4<K>(Ks + i * (K + 4), Ks + j * (K + 4))
                            : 0.0f;
            L[i * PAD + j] = x;
            // Row i of P is token i; its last row in the chunk is i n_h + n_h - 1.
            int last = i * s.n_h + s.n_h - 1;
            P[i * PAD + j] = i < n && j <= last ? expf((float)(c[last] - c[j])) *
                                                      dot4<K>(Qs + i * (K + 4), Ks + j * (K + 4))
                                                : 0.0f;
        }
    __syncthreads();
    // Column x of T by substitution, four threads a column, all in one warp; T overwrites nothing of L
    // that is still to be read: it lives in Qs.
    float *Ts = Qs;
    const int x = tid / 4, part = tid % 4;
    for (int i = 0; i < C; i++) {
        double sum = 0;
        if (i > x)
            for (int j = x + part; j < i; j += 4)
                sum += (double)L[i * PAD + j] * (double)Ts[j * PAD + x];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (part == 0)
            Ts[i * PAD + x] = i < x ? 0.0f : i == x ? b[x] : (float)-sum;
        __syncwarp();
    }
    __syncthreads();
    for (int i = tid; i < C * PAD; i += PREPARE)
        Tm[i] = i % PAD < C ? Ts[i] : 0.0f;
    if (tid < C) {
        slot[OFF_E + tid] = expf((float)c[tid]);
        slot[OFF_D + tid] = tid < m ? expf((float)(c[C - 1] - c[tid])) : 0.0f;
    }
    if (tid == 0)
        slot[OFF_END] = expf((float)c[C - 1]);
}

// Sums v[0..N-1] over the lanes of a column (lane = g W + column) so that lane g ends with the sum of
// v[g mod N]: at every step a lane keeps one half of the values and gives the other away.
template <int N, int W> __device__ __forceinline__ float scatter_sum(float (&v)[N], int g) {
    if constexpr (N == 1) {
        return v[0];
    } else {
        float half[N / 2];
        bool upper = g & (N / 2);
#pragma unroll
        for (int r = 0; r < N / 2; r++) {
            float keep = upper ? v[r + N / 2] : v[r], give = upper ? v[r] : v[r + N / 2];
            half[r] = keep + __shfl_xor_sync(~0u, give, W * (N / 2));
        }
        return scatter_sum<N / 2, W>(half, g);
    }
}

// Starts copying the raw rows of a chunk; rows behind its end are not touched (T and P hold zeros
// there, and what an earlier chunk left is finite).
template <class T, int K>
__device__ static void fetch_rows(T *to, view<T> from, int64_t row, int rows, int64_t column) {
    const int per = K * sizeof(T) / 16;
    for (int i = threadIdx.x; i < rows * per; i += THREADS) {
        int r = i / per, x = i % per;
        __pipeline_memcpy_async((char *)(to + r * K) + 16 * x,
                                (const char *)(from.row(row + r) + column) + 16 * x, 16);
    }
}

__device__ static void fetch_slot(float *to, const float *slot) {
    for (int i = threadIdx.x; i < SLOT / 4; i += THREADS)
        __pipeline_memcpy_async(to + 4 * i, slot + 4 * i, 16);
}

template <class T, int K> __device__ static void widen(float *to, const T *raw, int rows) {
    for (int i = threadIdx.x; i < rows * K; i += THREADS)
        to[i] = get(raw[i]);
}

template <class T, int K>
__global__ void __launch_bounds__(THREADS)
    advance(chunk_view s, view<T> q, view<T> k, view<T> v, const float *slots, view<float> state,
            view<T> o) {
    extern __shared__ __align__(16) char bytes[];
    constexpr int G = lanes<K>(), W = 32 / G, M = K / (4 * G), ROUNDS = C / G;
    const int q_rows = s.tokens;
    float *Ks = (float *)bytes, *Qs = Ks + C * K, *slot2 = Qs + q_rows * K,
          *R = slot2 + s.buffers * SLOT;
    T *raw = (T *)(R + WARPS * W * PAD); // two buffers of K and Q
    const int raw_size = (C + q_rows) * K;
    const int h = blockIdx.x, hk = h / (s.H / s.Hk), warp = threadIdx.x / 32,
              lane = threadIdx.x % 32;
    const int g = lane / W, col = lane % W, column = (blockIdx.y * WARPS + warp) * W + col;
    const bool mine = column < s.V;
    float *Rw = R + warp * W * PAD; // [W columns][PAD]: R, then U
    float S[M][4];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 4; j++)
            S[i][j] = mine ? state.row((int64_t)h * K + 4 * (g + G * i) + j)[column] : 0.0f;
    for (int i = threadIdx.x; i < s.buffers * raw_size; i += THREADS)
        put(&raw[i], 0.0f);
    __syncthreads();
    int64_t chunk = 0;
    auto begin = [&](int64_t at, int buffer) {
        int n = (int)min((int64_t)s.tokens, s.T - at * s.tokens);
        fetch_rows<T, K>(raw + buffer * raw_size, k, at * s.tokens * s.n_h, n * s.n_h,
                         (int64_t)hk * K);
        fetch_rows<T, K>(raw + buffer * raw_size + C * K, q, at * s.tokens, n, (int64_t)hk * K);
        fetch_slot(slot2 + buffer * SLOT, slots + (at * s.H + h) * SLOT);
        __pipeline_commit();
    };
    float value[ROUNDS], coming[ROUNDS]; // rows G r + g of V, of this chunk and the next
    auto fetch_values = [&](int64_t at) {
        int m = (int)min((int64_t)s.tokens, s.T - at * s.tokens) * s.n_h;
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int row = G * r + g;
            coming[r] = mine && row < m
                            ? get(v.row(at * s.tokens * s.n_h + row)[(int64_t)h * s.V + column])
                            : 0.0f;
        }
    };
    begin(0, 0);
    fetch_values(0);
    for (; chunk < s.chunks; chunk++) {
        const int buffer = s.buffers == 2 ? (int)(chunk & 1) : 0;
        const int64_t t0 = chunk * s.tokens;
        const int n = (int)min((int64_t)s.tokens, s.T - t0);
        __pipeline_wait_prior(0);
        __syncthreads(); // the buffer is full; everybody is done with Ks, Qs and the other buffer
        widen<T, K>(Ks, raw + buffer * raw_size, C);
        widen<T, K>(Qs, raw + buffer * raw_size + C * K, q_rows);
        if (s.buffers == 2 && chunk + 1 < s.chunks)
            begin(chunk + 1, 1 - buffer);
#pragma unroll
        for (int r = 0; r < ROUNDS; r++)
            value[r] = coming[r];
        if (chunk + 1 < s.chunks)
            fetch_values(chunk + 1);
        __syncthreads(); // Ks and Qs are there
        const float *Tm = slot2 + buffer * SLOT, *P = Tm + OFF_P, *E = Tm + OFF_E, *D = Tm + OFF_D;
        auto along = [&](const float *row) { // this lane's share of row . S
            float sum = 0;
#pragma unroll
            for (int i = 0; i < M; i++) {
                float4 x = *(const float4 *)(row + 4 * (g + G * i));
                sum += x.x * S[i][0] + x.y * S[i][1] + x.z * S[i][2] + x.w * S[i][3];
            }
            return sum;
        };
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            float part[G];
#pragma unroll
            for (int i = 0; i < G; i++)
                part[i] = along(Ks + (G * r + i) * K);
            Rw[col * PAD + G * r + g] = value[r] - E[G * r + g] * scatter_sum<G, W>(part, g);
        }
        __syncwarp();
        float u[ROUNDS]; // rows g + G r of U = T R, T lower triangular
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            u[r] = 0;
#pragma unroll 4
            for (int j = 0; j < G * r + G; j += 4) {
                float4 t = *(const float4 *)(Tm + (g + G * r) * PAD + j),
                       x = *(const float4 *)(Rw + col * PAD + j);
                u[r] += t.x * x.x + t.y * x.y + t.z * x.z + t.w * x.w;
            }
        }
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROUNDS; r++)
            Rw[col * PAD + g + G * r] = u[r];
        __syncwarp();
        for (int r = 0; G * r < n; r++) {
            float part[G];
#pragma unroll
            for (int i = 0; i < G; i++)
                part[i] = G * r + i < q_rows ? along(Qs + (G * r + i) * K) : 0.0f;
            int t = G * r + g, last = t * s.n_h + s.n_h - 1;
            float out = scatter_sum<G, W>(part, g) * (last < C ? E[last] : 0.0f);
#pragma unroll 4
            for (int j = 0; j < C; j += 4) {
                float4 p = *(const float4 *)(P + t * PAD + j),
                       x = *(const float4 *)(Rw + col * PAD + j);
                out += p.x * x.x + p.y * x.y + p.z * x.z + p.w * x.w;
            }
            if (mine && t < n)
                put(&o.row(t0 + t)[(int64_t)h * s.V + column], s.scale * out);
        }
        const float end = Tm[OFF_END];
#pragma unroll
        for (int i = 0; i < M; i++)
            for (int j = 0; j < 4; j++)
                S[i][j] *= end;
#pragma unroll 4
        for (int j = 0; j < C; j++) {
            float w = D[j] * Rw[col * PAD + j];
#pragma unroll
            for (int i = 0; i < M; i++) {
                float4 x = *(const float4 *)(Ks + j * K + 4 * (g + G * i));
                S[i][0] += x.x * w;
                S[i][1] += x.y * w;
                S[i][2] += x.z * w;
                S[i][3] += x.w * w;
            }
        }
        if (s.buffers == 1 && chunk + 1 < s.chunks) {
            __syncthreads(); // nobody reads the buffer any more
            begin(chunk + 1, 0);
        }
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < 4; j++)
            if (mine)
                state.row((int64_t)h * K + 4 * (g + G * i) + j)[column] = S[i][j];
}

// Shared memory of advance.
static size_t advance_bytes(int K, int tokens, int buffers, int esize) {
    return (size_t)(C * K + tokens * K + buffers * SLOT + WARPS * 4 * PAD) * sizeof(float) +
           (size_t)buffers * (C + tokens) * K * esize;
}

template <class T, int K>
static bool run(backend *be, const steps *s, int buffers, mat state, mat o) {
    const head_shape *p = &s->s;
    chunk_view c = {};
    c.H = p->H;
    c.Hk = p->Hk;
    c.V = p->V;
    c.n_h = p->n_h;
    c.tokens = C / p->n_h;
    c.buffers = buffers;
    c.T = s->T;
    c.gated = p->decay == DECAY_HEAD;
    c.has_beta = !mat_none(s->beta);
    c.scale = (float)p->scale;
    c.chunks = (s->T + c.tokens - 1) / c.tokens;
    float *slots =
        (float *)device_scratch(be, (size_t)c.chunks * (size_t)p->H * SLOT * sizeof(float));
    if (!slots)
        return true; // the failure is kept
    size_t a = (size_t)(C * (K + 4) + query_space<K>() + C * PAD + 3 * C) * sizeof(float);
    size_t b = advance_bytes(K, c.tokens, buffers, sizeof(T));
    if (!cuda_ok(be,
                 cudaFuncSetAttribute(prepare<T, K>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)a),
                 "shared memory of the chunks") ||
        !cuda_ok(be,
                 cudaFuncSetAttribute(advance<T, K>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)b),
                 "shared memory of the chunks"))
        return true;
    dim3 all((unsigned)c.chunks, (unsigned)p->H),
        columns((unsigned)p->H,
                (unsigned)((p->V + WARPS * 32 / lanes<K>() - 1) / (WARPS * 32 / lanes<K>())));
    prepare<T, K><<<all, PREPARE, a, of(be)->stream>>>(
        c, as<T>(s->q), as<T>(s->k), as<float>(s->beta), as<float>(s->decay), slots);
    cuda_ok(be, cudaGetLastError(), "chunks");
    phase_done(be, "prepare");
    advance<T, K><<<columns, THREADS, b, of(be)->stream>>>(c, as<T>(s->q), as<T>(s->k), as<T>(s->v),
                                                           slots, as<float>(state), as<T>(o));
    cuda_ok(be, cudaGetLastError(), "recurrence in chunks");
    phase_done(be, "advance");
    be->kernel = "cuda chunk (prepare, advance), f32 FMA";
    be->kernel_why[0] = 0;
    return true;
}

static bool aligned(mat m) {
    return (uintptr_t)m.p % 16 == 0 && m.ld * m.esize % 16 == 0;
}

bool cuda_chunk_recurrence(backend *be, const steps *s, mat state, mat o) {
    const head_shape *p = &s->s;
    if (be->recurrence == RECURRENCE_STEP || p->erase != ERASE_KEY || p->decay == DECAY_CHANNEL ||
        p->n_h > C || s->T * p->n_h < C || !aligned(s->q) || !aligned(s->k) ||
        s->k.esize != s->q.esize || s->v.esize != s->q.esize)
        return false;
    int most = 0, K = p->K, buffers = 2;
    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, of(be)->device);
    if (advance_bytes(K, C / p->n_h, buffers, s->q.esize) > (size_t)most)
        buffers = 1;
    if (advance_bytes(K, C / p->n_h, buffers, s->q.esize) > (size_t)most)
        return false;
    switch (K) {
    case 32:
        ON_TYPE(s->q, T, return run<T, 32>(be, s, buffers, state, o));
    case 64:
        ON_TYPE(s->q, T, return run<T, 64>(be, s, buffers, state, o));
    case 96:
        ON_TYPE(s->q, T, return run<T, 96>(be, s, buffers, state, o));
    case 128:
        ON_TYPE(s->q, T, return run<T, 128>(be, s, buffers, state, o));
    }
    return false;
}
