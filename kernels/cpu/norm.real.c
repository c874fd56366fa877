#include "kernels/cpu/real.h"

#include "kernels/norm.h"

#include <float.h>

// Several partial sums, so that the loop vectorises without changing the order of additions.
enum { LANES = 8 };

// NaN for a sum that overflowed: divided by infinity, every value would become a harmless 0.
static real in_range(real sum) {
    return isinf(sum) ? (real)NAN : sum;
}

static real square_sum(const real *x, int64_t n) {
    real part[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            part[l] += x[i + l] * x[i + l];
    real sum = 0;
    for (; i < n; i++)
        sum += x[i] * x[i];
    for (int l = 0; l < LANES; l++)
        sum += part[l];
    return in_range(sum);
}

void FN(norm_rms)(backend *be, mat x, mat w, double eps, mat y) {
    (void)be;
    int64_t n = x.cols;
#pragma omp parallel for schedule(static) if (x.rows * n > 1 << 15)
    for (int64_t t = 0; t < x.rows; t++) {
        const real *a = row_of(x, t);
        real *b = row_of(y, t);
        const real *weight = w.p ? row_of(w, t % w.rows) : NULL;
        real scale = 1 / (real)sqrt((double)(square_sum(a, n) / (real)n) + eps);
        if (weight)
            for (int64_t i = 0; i < n; i++)
                b[i] = a[i] * scale * weight[i];
        else
            for (int64_t i = 0; i < n; i++)
                b[i] = a[i] * scale;
    }
}

void FN(norm_heads)(backend *be, mat x, int64_t head_dim, head_norm kind, double eps) {
    (void)be;
    if (kind == HEAD_NORM_NONE)
        return;
    int64_t heads = x.cols / head_dim;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 15)
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t h = 0; h < heads; h++) {
            real *a = row_of(x, t) + h * head_dim, sum = 0;
            if (kind == HEAD_NORM_L2)
                sum = (real)sqrt((double)square_sum(a, head_dim) + eps);
            else if (kind == HEAD_NORM_L2_FLOOR) {
                double root = sqrt((double)square_sum(a, head_dim));
                sum = (real)(root < eps ? eps : root); // fmax would pass over NaN
            } else
                for (int64_t i = 0; i < head_dim; i++)
                    sum += a[i];
            if (kind == HEAD_NORM_L1)
                sum = in_range(sum + (real)eps);
            for (int64_t i = 0; i < head_dim; i++)
                a[i] /= sum;
        }
}

// Mean and variance in double and in two passes: a residual stream may have a mean far above its
// spread.
static void layer_group(const real *a, const real *w, const real *bias, int64_t n, double eps,
                        real *b) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++)
        mean += (double)a[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++)
        var += ((double)a[i] - mean) * ((double)a[i] - mean);
    double scale = isinf(var) ? NAN : 1 / sqrt(var / (double)n + eps);
    for (int64_t i = 0; i < n; i++) {
        double z = ((double)a[i] - mean) * scale;
        b[i] = (real)(z * (w ? (double)w[i] : 1) + (bias ? (double)bias[i] : 0));
    }
}

void FN(norm_layer)(backend *be, mat x, mat w, mat bias, int64_t group, double eps, mat y) {
    (void)be;
    const real *weight = w.p, *shift = bias.p;
#pragma omp parallel for schedule(static) if (x.rows * x.cols > 1 << 14)
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t i = 0; i < x.cols; i += group)
            layer_group(row_of(x, t) + i, weight ? weight + i : NULL, shift ? shift + i : NULL,
                        group, eps, row_of(y, t) + i);
}

void FN(norm_of_heads)(backend *be, mat x, mat y) {
    (void)be;
    const double most = sizeof(real) == 4 ? FLT_MAX : DBL_MAX;
    int64_t n = x.rows / y.cols;
    for (int64_t h = 0; h < y.cols; h++) {
        double sum = 0;
        bool finite = true;
        for (int64_t t = h * n; t < (h + 1) * n; t++)
            for (int64_t i = 0; i < x.cols; i++) {
                double v = (double)row_of(x, t)[i];
                finite &= isfinite(v) != 0;
                sum += v * v;
            }
        ((real *)y.p)[h] = (real)(finite ? fmin(sqrt(sum), most) : NAN);
    }
}
