// Short convolutions over neighbouring columns of one matrix, with activation, head norm and the new
// tails, in one pass (conv_part in core/backend.h): each number is read once and written once.
//
// A thread owns one word (16 bytes of channels) of RUN tokens in a row; taps and the last rows stay in
// registers, the next words are on their way while it computes. The lanes of a head lie side by side
// in a warp and sum its squares by shuffles. Runs are taken from the last to the first: what the
// product before has just written is still in the L2 cache, and what the next kernel reads first is
// written last.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

enum { RUN = 64, AHEAD = 4, THREADS = 128, PARTS = 4 };

template <class T> struct conv_columns {
    const T *w;
    const float *bias;
    T *tail, *y;
    int64_t tail_ld, y_ld;
    int first, end; // columns of x
    activation act;
    head_norm norm; // over `lanes` words
    float eps;
};

template <class T> struct conv_job {
    conv_columns<T> part[PARTS];
    int n;
    int lanes; // of a head; 0: no part has a norm
    int blocks_across;
    int64_t runs;
};

template <class T, int WIDTH, bool SILU>
__global__ void __launch_bounds__(THREADS, 5)
    conv_heads(__grid_constant__ const conv_job<T> job, view<T> x, int64_t rows, int cols) {
    constexpr int N = per_word<T>(), PAST = WIDTH - 1;
    const int across = blockIdx.x % job.blocks_across;
    const int64_t t0 = (job.runs - 1 - blockIdx.x / job.blocks_across) * RUN;
    const int64_t end = min(t0 + RUN, rows);
    int column = (across * THREADS + threadIdx.x) * N;
    const bool mine = column < cols;
    if (!mine) // it shuffles with the others
        column = 0;
    int which = 0;
    while (which + 1 < job.n && column >= job.part[which].end)
        which++;
    const conv_columns<T> &p = job.part[which];
    const int at = column - p.first;
    // Taps of channel i are WIDTH numbers in a row: N WIDTH numbers are WIDTH words.
    float tap[WIDTH][N], past[PAST][N], bias[N];
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        float v[N];
        unpack(load_word(p.w + (int64_t)at * WIDTH + i * N), v);
#pragma unroll
        for (int j = 0; j < N; j++)
            tap[(i * N + j) % WIDTH][(i * N + j) / WIDTH] = v[j];
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        bias[j] = 0;
    if (p.bias)
        load_floats(p.bias + at, bias);
    uint4 before[PAST];
#pragma unroll
    for (int i = 0; i < PAST; i++) {
        int64_t from = t0 - PAST + i;
        before[i] =
            load_word(from >= 0 ? x.row(from) + column : p.tail + (PAST + from) * p.tail_ld + at);
        unpack(before[i], past[i]);
    }
    // The new tail, the last rows of (old tail, x), is left by who has read the old one.
    if (t0 == 0 && mine) {
#pragma unroll
        for (int i = 0; i < PAST; i++) {
            int64_t from = rows - PAST + i; // negative: the old tail's row PAST + from
            uint4 word = from >= 0 ? load_word(x.row(from) + column) : before[i];
#pragma unroll
            for (int k = i + 1; k < PAST; k++)
                word = PAST + from == k ? before[k] : word;
            *(uint4 *)(p.tail + i * p.tail_ld + at) = word;
        }
    }
    const bool ones = p.norm == HEAD_NORM_L1, floored = p.norm == HEAD_NORM_L2_FLOOR;
    const float under = floored ? 0 : p.eps, most = floored ? 1 / p.eps : INFINITY;
    const T *in = x.row(t0) + column; // of the words on their way
    T *out_at = p.y + t0 * p.y_ld + at;
    auto token = [&](uint4 word) {
        float v[N], out[N], sum = 0;
        unpack(word, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            float z = bias[j];
#pragma unroll
            for (int k = 0; k < PAST; k++)
                z += tap[k][j] * past[k][j];
            z += tap[PAST][j] * v[j];
            out[j] = act_for<T>(SILU ? ACT_SILU : p.act, z);
            sum += !SILU && ones ? out[j] : out[j] * out[j];
        }
        for (int d = job.lanes / 2; d; d >>= 1)
            sum += __shfl_xor_sync(~0u, sum, d);
        if (p.norm != HEAD_NORM_NONE) {
            float by;
            sum = in_range(sum);
            asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(by) : "f"(sum + under));
            by = !SILU && ones ? 1 / (sum + under) : by;
            by = by > most ? most : by; // fmin would pass over NaN
#pragma unroll
            for (int j = 0; j < N; j++)
                out[j] *= by;
        }
        if (mine)
            store_word(out_at, out);
        out_at += p.y_ld;
#pragma unroll
        for (int j = 0; j < N; j++) {
#pragma unroll
            for (int k = 0; k + 1 < PAST; k++)
                past[k][j] = past[k + 1][j];
            past[PAST - 1][j] = v[j];
        }
    };
    uint4 coming[AHEAD];
    auto fetch = [&](int i, int left) {
        if (i < left)
            coming[i] = load_word(in);
        in += x.ld;
    };
    int left = (int)(end - t0);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        fetch(i, left);
    for (; left >= AHEAD; left -= AHEAD) {
        uint4 now[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            now[i] = coming[i];
            fetch(i, left - AHEAD);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            token(now[i]);
    }
#pragma unroll
    for (int i = 0; i < AHEAD - 1; i++)
        if (i < left)
            token(coming[i]);
}

template <class T, int WIDTH>
static void launch(backend *be, const conv_job<T> &job, bool silu, mat x) {
    unsigned blocks = (unsigned)(job.runs * job.blocks_across);
    int cols = (int)x.cols;
    cudaStream_t stream = of(be)->stream;
    if (silu)
        conv_heads<T, WIDTH, true><<<blocks, THREADS, 0, stream>>>(job, as<T>(x), x.rows, cols);
    else
        conv_heads<T, WIDTH, false><<<blocks, THREADS, 0, stream>>>(job, as<T>(x), x.rows, cols);
    launched(be, "short convolutions");
}

// Lanes of a head of p; 0 without a norm, -1: not for this kernel.
static int lanes_of(const conv_part *p, int64_t first, int per) {
    if (p->norm == HEAD_NORM_NONE)
        return 0;
    int64_t n = p->head_dim / per;
    bool fits = p->head_dim % per == 0 && n >= 1 && n <= 32 && (n & (n - 1)) == 0 &&
                first % p->head_dim == 0 && p->y.cols % p->head_dim == 0;
    return fits ? (int)n : -1;
}

template <class T> static bool run(backend *be, mat x, const conv_part *part, int n) {
    const int per = per_word<T>(), width = (int)part[0].w.cols;
    conv_job<T> job = {};
    int64_t at = 0;
    bool silu = true;
    for (int i = 0; i < n; i++) {
        const conv_part *p = &part[i];
        int lanes = lanes_of(p, at, per);
        if (p->w.cols != width || p->w.ld != width || p->w.esize != (int)sizeof(T) ||
            p->y.esize != (int)sizeof(T) || p->y.cols % per != 0 || (uintptr_t)p->w.p % 16 != 0 ||
            !on_words(p->y) || !on_words(p->tail) || (uintptr_t)p->bias.p % 16 != 0 || lanes < 0 ||
            (!mat_none(p->bias) && p->bias.esize != 4) ||
            (lanes > 0 && job.lanes > 0 && lanes != job.lanes))
            return false;
        job.lanes = lanes > 0 ? lanes : job.lanes;
        silu &= p->act == ACT_SILU && p->norm != HEAD_NORM_L1;
        job.part[i] = {(const T *)p->w.p,
                       (const float *)p->bias.p,
                       (T *)p->tail.p,
                       (T *)p->y.p,
                       p->tail.ld,
                       p->y.ld,
                       (int)at,
                       (int)(at + p->y.cols),
                       p->act,
                       p->norm,
                       (float)p->eps};
        at += p->y.cols;
    }
    if (at != x.cols)
        return false;
    job.n = n;
    job.runs = (x.rows + RUN - 1) / RUN;
    job.blocks_across = (int)((x.cols / per + THREADS - 1) / THREADS);
    if (job.runs * job.blocks_across > INT32_MAX)
        return false;
    switch (width) {
    case 2:
        return launch<T, 2>(be, job, silu, x), true;
    case 3:
        return launch<T, 3>(be, job, silu, x), true;
    case 4:
        return launch<T, 4>(be, job, silu, x), true;
    }
    return false;
}

bool cuda_conv_heads(backend *be, mat x, const conv_part *part, int n) {
    traced span(be, "conv_heads");
    if (n < 1 || n > PARTS || x.rows < 1 || x.cols > INT32_MAX / 2 || !on_words(x))
        return false;
    ON_TYPE(x, T, return run<T>(be, x, part, n));
}
