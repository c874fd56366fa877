// Causal depthwise short convolution with a carried tail (kernels/conv.h).
#include "kernels/cuda/ops.h"
#include "kernels/cuda/trace.h"

enum { RUN = 16, WIDEST = 8 };

// A thread owns one channel of RUN tokens in a row: neighbouring threads read neighbouring channels,
// and the last rows stay in registers.
template <class T, class U>
__global__ void short_conv(view<T> x, view<U> w, view<float> bias, view<T> tail, int width,
                           activation act, int64_t rows, int64_t cols, view<T> y) {
    int64_t d = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, t0 = blockIdx.y * (int64_t)RUN;
    if (d >= cols)
        return;
    float tap[WIDEST], past[WIDEST];
    for (int j = 0; j < WIDEST; j++) {
        tap[j] = j < width ? get(w.row(d)[j]) : 0.0f;
        int64_t from = t0 - (width - 1) + j;
        past[j] =
            j < width - 1 ? get(from >= 0 ? x.row(from)[d] : tail.row(width - 1 + from)[d]) : 0.0f;
    }
    float first = bias.p ? get(bias.p[d]) : 0.0f;
    int64_t end = t0 + RUN < rows ? t0 + RUN : rows;
    for (int64_t t = t0; t < end; t++) {
        float now = get(x.row(t)[d]), sum = first;
#pragma unroll
        for (int j = 0; j < WIDEST; j++)
            if (j < width - 1)
                sum += tap[j] * past[j];
            else if (j == width - 1)
                sum += tap[j] * now;
        put(&y.row(t)[d], cuda_act(act, sum));
#pragma unroll
        for (int j = 0; j < WIDEST - 1; j++)
            past[j] = j == width - 2 ? now : past[j + 1];
    }
}

// Any width.
template <class T, class U>
__global__ void wide_conv(view<T> x, view<U> w, view<float> bias, view<T> tail, int64_t width,
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
    if (x.rows == 0)
        return;
    const conv_part alone = {w, bias, tail, act, HEAD_NORM_NONE, 1, 0, y};
    if (cuda_conv_heads(be, x, &alone, 1))
        return;
    traced span(be, "short_conv");
    mat weight = w;
    int64_t runs = (x.rows + RUN - 1) / RUN;
    if (w.cols <= WIDEST && runs < 65536) {
        dim3 grid((unsigned)((x.cols + 127) / 128), (unsigned)runs);
        ON_TYPE(x, T,
                ON_TYPE(weight, U,
                        short_conv<T, U><<<grid, 128, 0, of(be)->stream>>>(
                            as<T>(x), as<U>(w), as<float>(bias), as<T>(tail), (int)w.cols, act,
                            x.rows, x.cols, as<T>(y))));
    } else {
        ON_TYPE(x, T,
                ON_TYPE(weight, U,
                        wide_conv<T, U>
                        <<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                            as<T>(x), as<U>(w), as<float>(bias), as<T>(tail), w.cols, act, x.rows,
                            x.cols, as<T>(y))));
    }
    launched(be, "short convolution");
    if (w.cols < 2)
        return;
    ON_TYPE(x, T,
            move_tail<T><<<blocks_for(x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(x), as<T>(tail), w.cols - 1, x.rows, x.cols));
    launched(be, "convolution tail");
}
