#include "kernels/cpu/real.h"

#include "kernels/shift.h"

void FN(shift_tokens)(backend *be, mat x, mat tail, mat y) {
    (void)be;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 14)
    for (int64_t t = 0; t < x.rows; t++) {
        const real *before = t > 0 ? row_of(x, t - 1) : row_of(tail, 0), *a = row_of(x, t);
        real *b = row_of(y, t);
        for (int64_t i = 0; i < x.cols; i++)
            b[i] = before[i] - a[i];
    }
    if (x.rows > 0)
        memcpy(row_of(tail, 0), row_of(x, x.rows - 1), (size_t)x.cols * sizeof(real));
}

void FN(shift_mix)(backend *be, mat x, mat d, mat m, mat y) {
    (void)be;
#pragma omp parallel for schedule(static) if (d.rows * d.cols > 1 << 14)
    for (int64_t t = 0; t < d.rows; t++) {
        const real *a = mat_none(x) ? NULL : row_of(x, t), *b = row_of(d, t);
        const real *c = row_of(m, m.rows == 1 ? 0 : t);
        real *out = row_of(y, t);
        if (a)
            for (int64_t i = 0; i < d.cols; i++)
                out[i] = a[i] + b[i] * c[i];
        else
            for (int64_t i = 0; i < d.cols; i++)
                out[i] = b[i] * c[i];
    }
}

void FN(shift_dot_heads)(backend *be, mat x, mat z, mat w, int64_t head_dim, mat y) {
    (void)be;
    const real *weight = w.p;
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t h = 0; h < y.cols; h++) {
            const real *a = row_of(x, t) + h * head_dim, *b = row_of(z, t) + h * head_dim;
            const real *c = weight ? weight + h * head_dim : NULL;
            real sum = 0;
            for (int64_t i = 0; i < head_dim; i++)
                sum += (c ? c[i] : 1) * a[i] * b[i];
            row_of(y, t)[h] = sum;
        }
}

void FN(shift_divide_heads)(backend *be, mat d, double eps, int64_t head_dim, mat x) {
    (void)be;
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t h = 0; h < d.cols; h++) {
            real by = row_of(d, t)[h] + (real)eps, *a = row_of(x, t) + h * head_dim;
            for (int64_t i = 0; i < head_dim; i++)
                a[i] /= by;
        }
}

void FN(shift_broadcast)(backend *be, mat row, mat y) {
    (void)be;
    for (int64_t t = 0; t < y.rows; t++)
        memcpy(row_of(y, t), row_of(row, 0), (size_t)y.cols * sizeof(real));
}
