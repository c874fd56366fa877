// Norms over a row and over the heads inside a row (kernels/norm.h). One warp a row or head; sums of
// squares in float over at most a few thousand values, LayerNorm's mean and variance in double.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

#include <float.h>

enum { WARPS = 8 };

template <class T, class U>
__global__ void rms_rows(view<T> x, view<U> w, int64_t groups, float eps, int64_t rows,
                         int64_t cols, view<T> y) {
    WARP_LOOP(t, rows) {
        const T *a = x.row(t);
        T *b = y.row(t);
        float sum = 0;
        for (int64_t i = threadIdx.x; i < cols; i += 32) {
            float v = get(a[i]);
            sum += v * v;
        }
        float scale = rsqrtf(in_range(warp_sum(sum)) / (float)cols + eps);
        const U *weight = w.p ? w.row(t % groups) : nullptr;
        for (int64_t i = threadIdx.x; i < cols; i += 32)
            put(&b[i], get(a[i]) * scale * (weight ? get(weight[i]) : 1.0f));
    }
}

// The same for rows of whole words: `lanes` lanes a row keep it in registers, WORDS each, and every
// group of lanes has SIDE rows on the way at once. From the last row to the first, as in
// conv_heads.cu.
template <class T, int WORDS, int SIDE>
__global__ void rms_words(view<T> x, const float *w, int lanes, int words, float eps, int64_t rows,
                          view<T> y) {
    constexpr int N = per_word<T>();
    const int lane = threadIdx.x % lanes, per_warp = 32 / lanes;
    const int64_t stride = (int64_t)gridDim.x * blockDim.y * per_warp;
    const int64_t mine =
        (blockIdx.x * (int64_t)blockDim.y + threadIdx.y) * per_warp + threadIdx.x / lanes;
    const float share = 1 / (float)(words * N);
    float own[WORDS == 1 ? N : 1]; // the weights of a lane's only word, for all of its rows
    if (WORDS == 1 && w && lane < words)
        load_floats(w + lane * N, own);
    // The loop is the same for all lanes of a warp: they shuffle together.
    for (int64_t j = mine; j - mine % per_warp < rows; j += stride * SIDE) {
        uint4 in[SIDE][WORDS];
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
            const T *a = x.row(max(rows - 1 - (j + s * stride), (int64_t)0));
#pragma unroll
            for (int i = 0; i < WORDS; i++)
                in[s][i] = lane + i * lanes < words ? load_word(a + (lane + i * lanes) * N)
                                                    : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < WORDS; i++) {
                float v[N];
                unpack(in[s][i], v);
#pragma unroll
                for (int e = 0; e < N; e++)
                    sum += v[e] * v[e];
            }
            for (int d = lanes / 2; d; d >>= 1)
                sum += __shfl_xor_sync(~0u, sum, d);
            const float scale = rsqrtf(in_range(sum) * share + eps);
            const int64_t row = rows - 1 - (j + s * stride);
#pragma unroll
            for (int i = 0; i < WORDS; i++) {
                int at = lane + i * lanes;
                if (row < 0 || at >= words)
                    continue;
                float v[N], u[N];
                unpack(in[s][i], v);
                if (WORDS > 1 && w)
                    load_floats(w + at * N, u);
#pragma unroll
                for (int e = 0; e < N; e++)
                    v[e] *= !w ? scale : scale * (WORDS == 1 ? own[e] : u[e]);
                store_word(y.row(row) + at * N, v);
            }
        }
    }
}

template <class T> static bool rms_wide(backend *be, mat x, mat w, double eps, mat y) {
    const int words = (int)(x.cols / per_word<T>());
    if (!wide(x) || !wide(y) || words < 1 || words > 32 * 16 ||
        (!mat_none(w) && (w.rows != 1 || w.esize != 4 || (uintptr_t)w.p % 16 != 0)))
        return false;
    int lanes = 1;
    while (lanes < 32 && lanes < words)
        lanes *= 2;
    const int each = (words + lanes - 1) / lanes, side = each <= 2 ? 2 : 1;
    int64_t groups = (x.rows + side - 1) / side;
    dim3 threads(32, WARPS);
    unsigned blocks = blocks_for(groups * lanes, 32 * WARPS),
             most = (unsigned)of(be)->processors * 8;
    if (each == 1 && blocks > most)
        blocks = most;
    auto go = [&](auto kernel) {
        kernel<<<blocks, threads, 0, of(be)->stream>>>(as<T>(x), (const float *)w.p, lanes, words,
                                                       (float)eps, x.rows, as<T>(y));
    };
    if (each <= 1)
        go(rms_words<T, 1, 2>);
    else if (each <= 2)
        go(rms_words<T, 2, 2>);
    else if (each <= 4)
        go(rms_words<T, 4, 1>);
    else if (each <= 8)
        go(rms_words<T, 8, 1>);
    else
        go(rms_words<T, 16, 1>);
    launched(be, "rms norm");
    return true;
}

void cuda_rms_norm(backend *be, mat x, mat w, double eps, mat y) {
    traced span(be, x.cols <= 256 ? "rms_norm, heads" : "rms_norm");
    if (x.rows == 0)
        return;
    bool done = false;
    ON_TYPE(x, T, done = rms_wide<T>(be, x, w, eps, y));
    if (done)
        return;
    dim3 threads(32, WARPS);
    mat weight = mat_none(w) ? x : w; // only for its type
    ON_TYPE(x, T,
            ON_TYPE(weight, U,
                    rms_rows<T, U><<<blocks_for(x.rows, WARPS), threads, 0, of(be)->stream>>>(
                        as<T>(x), as<U>(w), mat_none(w) ? 1 : w.rows, (float)eps, x.rows, x.cols,
                        as<T>(y))));
    launched(be, "rms norm");
}

template <class T>
__global__ void norm_heads(view<T> x, int64_t head_dim, int64_t heads, int64_t n, head_norm kind,
                           float eps) {
    WARP_LOOP(j, n) {
        T *a = x.row(j / heads) + j % heads * head_dim;
        float sum = 0;
        for (int64_t i = threadIdx.x; i < head_dim; i += 32) {
            float v = get(a[i]);
            sum += kind == HEAD_NORM_L1 ? v : v * v;
        }
        sum = in_range(warp_sum(sum));
        const float root = sqrtf(sum);
        float by = kind == HEAD_NORM_L2   ? sqrtf(sum + eps)
                   : kind == HEAD_NORM_L1 ? sum + eps
                   : root < eps           ? eps
                                          : root; // fmax would pass over NaN
        for (int64_t i = threadIdx.x; i < head_dim; i += 32)
            put(&a[i], get(a[i]) / by);
    }
}

void cuda_normalize_heads(backend *be, mat x, int64_t head_dim, head_norm kind, double eps) {
    if (kind == HEAD_NORM_NONE || x.rows == 0)
        return;
    traced span(be, "normalize_heads");
    int64_t heads = x.cols / head_dim, n = x.rows * heads;
    dim3 threads(32, WARPS);
    ON_TYPE(x, T,
            norm_heads<T><<<blocks_for(n, WARPS), threads, 0, of(be)->stream>>>(
                as<T>(x), head_dim, heads, n, kind, (float)eps));
    launched(be, "head norm");
}

template <class T, class U>
__global__ void layer_groups(view<T> x, view<U> w, view<U> bias, int64_t group, int64_t groups,
                             int64_t n, double eps, view<T> y) {
    WARP_LOOP(j, n) {
        int64_t at = j % groups * group;
        const T *a = x.row(j / groups) + at;
        T *b = y.row(j / groups) + at;
        double sum = 0, var = 0;
        for (int64_t i = threadIdx.x; i < group; i += 32)
            sum += (double)get(a[i]);
        double mean = warp_sum(sum) / (double)group;
        for (int64_t i = threadIdx.x; i < group; i += 32)
            var += ((double)get(a[i]) - mean) * ((double)get(a[i]) - mean);
        float scale = (float)(1 / sqrt(warp_sum(var) / (double)group + eps));
        for (int64_t i = threadIdx.x; i < group; i += 32) {
            float z = (float)((double)get(a[i]) - mean) * scale;
            put(&b[i], z * (w.p ? get(w.p[at + i]) : 1.0f) + (bias.p ? get(bias.p[at + i]) : 0.0f));
        }
    }
}

void cuda_layer_norm(backend *be, mat x, mat w, mat bias, int64_t group, double eps, mat y) {
    if (x.rows == 0)
        return;
    int64_t groups = x.cols / group, n = x.rows * groups;
    dim3 threads(32, WARPS);
    mat weight = mat_none(w) ? mat_none(bias) ? x : bias : w;
    ON_TYPE(x, T,
            ON_TYPE(weight, U,
                    layer_groups<T, U><<<blocks_for(n, WARPS), threads, 0, of(be)->stream>>>(
                        as<T>(x), as<U>(w), as<U>(bias), group, groups, n, eps, as<T>(y))));
    launched(be, "layer norm");
}

// A block a head.
__global__ void __launch_bounds__(1024)
    heads_of_state(view<float> x, int64_t n, int64_t cols, float *y) {
    __shared__ double part[32];
    const int64_t first = blockIdx.x * n;
    double sum = 0;
    for (int64_t t = threadIdx.x / 32; t < n; t += blockDim.x / 32)
        for (int64_t i = threadIdx.x % 32; i < cols; i += 32) {
            double v = (double)x.row(first + t)[i];
            sum += v * v; // no float's square is beyond a double: infinite only where v is
        }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    sum = warp_sum(threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0);
    if (threadIdx.x == 0)
        y[blockIdx.x] = isfinite(sum) ? (float)fmin(sqrt(sum), (double)FLT_MAX) : NAN;
}

void cuda_head_norms(backend *be, mat x, mat y) {
    traced span(be, "head_norms");
    if (y.cols == 0)
        return;
    heads_of_state<<<(unsigned)y.cols, 1024, 0, of(be)->stream>>>(as<float>(x), x.rows / y.cols,
                                                                  x.cols, (float *)y.p);
    launched(be, "norms of heads");
}
