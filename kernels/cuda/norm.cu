// Norms over a row and over the heads inside a row (kernels/norm.h). One warp a row or head; sums of
// squares in float over at most a few thousand values, LayerNorm's mean and variance in double.
#include "kernels/cuda/ops.h"

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
        float scale = rsqrtf(warp_sum(sum) / (float)cols + eps);
        const U *weight = w.p ? w.row(t % groups) : nullptr;
        for (int64_t i = threadIdx.x; i < cols; i += 32)
            put(&b[i], get(a[i]) * scale * (weight ? get(weight[i]) : 1.0f));
    }
}

void cuda_rms_norm(backend *be, mat x, mat w, double eps, mat y) {
    if (x.rows == 0)
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
        sum = warp_sum(sum);
        float by = kind == HEAD_NORM_L2   ? sqrtf(sum + eps)
                   : kind == HEAD_NORM_L1 ? sum + eps
                                          : fmaxf(sqrtf(sum), eps);
        for (int64_t i = threadIdx.x; i < head_dim; i += 32)
            put(&a[i], get(a[i]) / by);
    }
}

void cuda_normalize_heads(backend *be, mat x, int64_t head_dim, head_norm kind, double eps) {
    if (kind == HEAD_NORM_NONE || x.rows == 0)
        return;
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
