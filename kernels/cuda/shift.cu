// Token shift and what is done around it (kernels/shift.h).
#include "kernels/cuda/ops.h"

template <class T>
__global__ void shift_rows(view<T> x, view<T> tail, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols) {
        int64_t t = i / cols, c = i % cols;
        const T *before = t > 0 ? x.row(t - 1) : tail.p;
        put(&y.row(t)[c], get(before[c]) - get(x.row(t)[c]));
    }
}

void cuda_token_shift(backend *be, mat x, mat tail, mat y) {
    if (x.rows == 0)
        return;
    ON_TYPE(x, T,
            shift_rows<T><<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                as<T>(x), as<T>(tail), x.rows, x.cols, as<T>(y)));
    launched(be, "token shift");
    be->op->copy(be, mat_rows(x, x.rows - 1, 1), tail);
}

template <class T, class U>
__global__ void mix_rows(view<T> x, view<T> d, view<U> m, bool each, int64_t rows, int64_t cols,
                         view<T> y) {
    GRID_LOOP(i, rows * cols) {
        int64_t t = i / cols, c = i % cols;
        put(&y.row(t)[c],
            (x.p ? get(x.row(t)[c]) : 0.0f) + get(d.row(t)[c]) * get(m.row(each ? t : 0)[c]));
    }
}

void cuda_mix(backend *be, mat x, mat d, mat m, mat y) {
    ON_TYPE(d, T,
            ON_TYPE(m, U,
                    mix_rows<T, U><<<blocks_for(d.rows * d.cols, 256), 256, 0, of(be)->stream>>>(
                        as<T>(x), as<T>(d), as<U>(m), m.rows != 1, d.rows, d.cols, as<T>(y))));
    launched(be, "mix");
}

template <class T, class U, class O>
__global__ void dot_heads(view<T> x, view<T> z, view<U> w, int64_t head_dim, int64_t rows,
                          int64_t heads, view<O> y) {
    WARP_LOOP(j, rows * heads) {
        int64_t t = j / heads, h = j % heads;
        const T *a = x.row(t) + h * head_dim, *b = z.row(t) + h * head_dim;
        float sum = 0;
        for (int64_t i = threadIdx.x; i < head_dim; i += 32)
            sum += (w.p ? get(w.p[h * head_dim + i]) : 1.0f) * get(a[i]) * get(b[i]);
        sum = warp_sum(sum);
        if (threadIdx.x == 0)
            put(&y.row(t)[h], sum);
    }
}

void cuda_dot_heads(backend *be, mat x, mat z, mat w, int64_t head_dim, mat y) {
    dim3 threads(32, 8);
    mat weight = mat_none(w) ? x : w;
    ON_TYPE(
        x, T,
        ON_TYPE(weight, U,
                ON_TYPE(y, O,
                        dot_heads<T, U, O>
                        <<<blocks_for(x.rows * y.cols, 8), threads, 0, of(be)->stream>>>(
                            as<T>(x), as<T>(z), as<U>(w), head_dim, x.rows, y.cols, as<O>(y)))));
    launched(be, "dot products of heads");
}

template <class T, class U>
__global__ void divide_heads(view<U> d, float eps, int64_t head_dim, int64_t rows, int64_t cols,
                             view<T> x) {
    GRID_LOOP(i, rows * cols) {
        T *p = x.row(i / cols) + i % cols;
        put(p, get(*p) / (get(d.row(i / cols)[i % cols / head_dim]) + eps));
    }
}

void cuda_divide_heads(backend *be, mat d, double eps, int64_t head_dim, mat x) {
    ON_TYPE(x, T,
            ON_TYPE(d, U,
                    divide_heads<T, U>
                    <<<blocks_for(x.rows * x.cols, 256), 256, 0, of(be)->stream>>>(
                        as<U>(d), (float)eps, head_dim, x.rows, x.cols, as<T>(x))));
    launched(be, "divide heads");
}

template <class T, class U>
__global__ void repeat_row(view<U> row, int64_t rows, int64_t cols, view<T> y) {
    GRID_LOOP(i, rows * cols)
    put(&y.row(i / cols)[i % cols], get(row.p[i % cols]));
}

void cuda_broadcast(backend *be, mat row, mat y) {
    ON_TYPE(y, T,
            ON_TYPE(row, U,
                    repeat_row<T, U><<<blocks_for(y.rows * y.cols, 256), 256, 0, of(be)->stream>>>(
                        as<U>(row), y.rows, y.cols, as<T>(y))));
    launched(be, "broadcast");
}
