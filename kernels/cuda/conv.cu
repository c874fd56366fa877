// Causal depthwise short convolution with a carried tail (kernels/conv.h).
#include "kernels/cuda/ops.h"

// Weights have the precision's element, a bias is a vector and float32.
template <class T, class U, class B>
__global__ void short_conv(view<T> x, view<U> w, view<B> bias, view<T> tail, int64_t width,
                           activation act, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        int64_t t = i / cols, d = i % cols, past = width - 1;
        float sum = bias.p ? get(bias.p[d]) : 0.0f;
        for (int64_t j = 0; j < width; j++) {
            int64_t from = t - past + j;
            sum += get(w.row(d)[j]) * get(from >= 0 ? x.row(from)[d] : tail.row(past + from)[d]);
        }
        put(&y.row(t)[d], cuda_act(act, sum));
    }
}

// The new tail is the last rows of (old tail, x); a thread owns a channel and walks forward.
template <class T>
__global__ void move_tail(view<T> x, view<T> tail, int64_t past, int64_t rows, int64_t cols) {
    GRID_LOOP(d, cols)
    for (int64_t j = 0; j < past; j++) {
        int64_t from = rows - past + j;
        tail.row(j)[d] = from >= 0 ? x.row(from)[d] : tail.row(past + from)[d];
    }
}

void cuda_short_conv(backend *be, mat x, mat w, mat bias, mat tail, activation act, mat y) {
    mat b = mat_none(bias) ? w : bias; // only for its type
    ON_TYPE(x, T,
            ON_TYPE(w, U,
                    ON_TYPE(b, B,
                            short_conv<T, U, B>
                            <<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                                as<T>(x), as<U>(w), as<B>(bias), as<T>(tail), w.cols, act, x.rows,
                                x.cols, as<T>(y)))));
    launched(be, "short convolution");
    if (w.cols < 2)
        return;
    ON_TYPE(x, T,
            move_tail<T><<<blocks_for(x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(x), as<T>(tail), w.cols - 1, x.rows, x.cols));
    launched(be, "convolution tail");
}
