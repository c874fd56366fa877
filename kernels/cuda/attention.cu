// Rotary positions and causal softmax attention (kernels/attention.h). A warp owns one query of one
// head; keys pass by 32 at a time with an online softmax.
#include "kernels/cuda/ops.h"

// The angle in double: float32 loses it beyond some ten thousand positions.
template <class T>
__global__ void rotate(view<T> x, int64_t head_dim, int64_t turned, int64_t first, double base,
                       int64_t rows, int64_t heads) {
    int64_t half = turned / 2;
    GRID_LOOP(i, rows * half) {
        int64_t t = i / half, j = i % half;
        double angle = (double)(first + t) * pow(base, -2.0 * (double)j / (double)turned), sd, cd;
        sincos(angle, &sd, &cd);
        float s = (float)sd, c = (float)cd;
        for (int64_t h = 0; h < heads; h++) {
            T *a = x.row(t) + h * head_dim + j;
            float x0 = get(a[0]), x1 = get(a[half]);
            put(&a[0], x0 * c - x1 * s);
            put(&a[half], x1 * c + x0 * s);
        }
    }
}

void cuda_rotate(backend *be, mat x, int64_t head_dim, int64_t turned, int64_t first_position,
                 double base) {
    ON_TYPE(x, T,
            rotate<T><<<blocks_for(x.rows * turned / 2, 128), 128, 0, of(be)->stream>>>(
                as<T>(x), head_dim, turned, first_position, base, x.rows, x.cols / head_dim));
    launched(be, "rotary positions");
}

enum { WARPS = 4, LARGEST = 24 };

// Heads of up to 32 MOST numbers; values have c numbers a head, keys d.
template <class T, int MOST>
__global__ void __launch_bounds__(32 * WARPS)
    attend(view<T> q, view<T> k, view<T> v, int64_t d, int64_t c, int64_t heads, int64_t group,
           int64_t first_query, int64_t window, int64_t rows, float scale, view<T> o) {
    int64_t j = blockIdx.x * (int64_t)WARPS + threadIdx.y;
    if (j >= rows * heads)
        return;
    int64_t t = j / heads, h = j % heads, at = h / group * d, value_at = h / group * c;
    int64_t last = first_query + t, first = window > 0 && last + 1 > window ? last + 1 - window : 0;
    int lane = threadIdx.x;
    float query[MOST], sum[MOST], top = -INFINITY, mass = 0;
    for (int i = 0; i < MOST; i++) {
        query[i] = i * 32 + lane < d ? get(q.row(t)[h * d + i * 32 + lane]) * scale : 0.0f;
        sum[i] = 0;
    }
    for (int64_t key = first; key <= last; key++) {
        const T *a = k.row(key) + at, *b = v.row(key) + value_at;
        float dot = 0;
        for (int i = 0; i < MOST; i++)
            if (i * 32 + lane < d)
                dot += query[i] * get(a[i * 32 + lane]);
        dot = warp_sum(dot);
        float high = fmaxf(top, dot), shrink = expf(top - high), p = expf(dot - high);
        mass = mass * shrink + p;
        for (int i = 0; i < MOST; i++)
            if (i * 32 + lane < c)
                sum[i] = sum[i] * shrink + p * get(b[i * 32 + lane]);
        top = high;
    }
    for (int i = 0; i < MOST; i++)
        if (i * 32 + lane < c)
            put(&o.row(t)[h * c + i * 32 + lane], sum[i] / mass);
}

template <class T, int MOST>
static void attend_all(backend *be, mat q, mat k, mat v, int64_t d, int64_t first_query,
                       int64_t window, mat o) {
    int64_t heads = q.cols / d, kv = k.cols / d, c = v.cols / kv;
    dim3 threads(32, WARPS);
    attend<T, MOST>
        <<<(unsigned)((q.rows * heads + WARPS - 1) / WARPS), threads, 0, of(be)->stream>>>(
            as<T>(q), as<T>(k), as<T>(v), d, c, heads, heads / kv, first_query, window, q.rows,
            (float)(1 / sqrt((double)d)), as<T>(o));
}

void cuda_attention(backend *be, mat q, mat k, mat v, int64_t head_dim, int64_t first_query,
                    int64_t window, mat o) {
    if (q.rows == 0)
        return;
    int64_t widest = v.cols / (k.cols / head_dim);
    widest = widest > head_dim ? widest : head_dim;
    if (widest > 32 * LARGEST) {
        err_set(&be->fail, ERR_UNSUPPORTED, "attention: no kernel for heads of %lld (at most %d)",
                (long long)widest, 32 * LARGEST);
        return;
    }
    if (widest <= 256)
        ON_TYPE(q, T, attend_all<T, 8>(be, q, k, v, head_dim, first_query, window, o));
    else
        ON_TYPE(q, T, attend_all<T, LARGEST>(be, q, k, v, head_dim, first_query, window, o));
    launched(be, "attention");
}
