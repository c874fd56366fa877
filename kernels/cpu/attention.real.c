#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/attention.h"

#include <stdlib.h>

void FN(attention_rotate)(backend *be, mat x, int64_t d, int64_t turned, int64_t first_position,
                          double base) {
    (void)be;
    int64_t half = turned / 2, heads = x.cols / d;
#pragma omp parallel for schedule(static) if (x.rows > 64)
    for (int64_t t = 0; t < x.rows; t++)
        for (int64_t i = 0; i < half; i++) {
            double angle =
                (double)(first_position + t) * pow(base, -2.0 * (double)i / (double)turned);
            real c = (real)cos(angle), s = (real)sin(angle);
            for (int64_t h = 0; h < heads; h++) {
                real *a = row_of(x, t) + h * d + i, x0 = a[0], x1 = a[half];
                a[0] = x0 * c - x1 * s;
                a[half] = x1 * c + x0 * s;
            }
        }
}

static real dot(const real *a, const real *b, int64_t n) {
    enum { LANES = 8 };
    real part[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            part[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++)
        sum += part[l];
    return sum;
}

// One query of one head, keys in pieces; the running maximum rescales what was summed before.
// k and v: the columns of its head.
static void one_query(const real *q, mat k, mat v, int64_t first, int64_t last, real *o) {
    enum { PIECE = 64 };
    int64_t d = k.cols, c = v.cols;
    real top = -INFINITY, sum = 0, score[PIECE], scale = (real)(1 / sqrt((double)d));
    memset(o, 0, (size_t)c * sizeof *o);
    for (int64_t j0 = first; j0 <= last; j0 += PIECE) {
        int64_t n = last + 1 - j0 < PIECE ? last + 1 - j0 : PIECE;
        real high = top;
        for (int64_t j = 0; j < n; j++) {
            score[j] = scale * dot(q, row_of(k, j0 + j), d);
            high = score[j] > high ? score[j] : high;
        }
        real shrink = top == -INFINITY ? 0 : real_exp(top - high);
        sum *= shrink;
        for (int64_t i = 0; i < c; i++)
            o[i] *= shrink;
        for (int64_t j = 0; j < n; j++) {
            real p = real_exp(score[j] - high);
            const real *value = row_of(v, j0 + j);
            sum += p;
            for (int64_t i = 0; i < c; i++)
                o[i] += p * value[i];
        }
        top = high;
    }
    for (int64_t i = 0; i < c; i++)
        o[i] /= sum;
}

void FN(attention_run)(backend *be, mat q, mat k, mat v, int64_t d, int64_t first_query,
                       int64_t window, mat o) {
    (void)be;
    int64_t heads = q.cols / d, kv = k.cols / d, group = heads / kv, c = v.cols / kv;
#pragma omp parallel for schedule(dynamic, 16) collapse(2)
    for (int64_t h = 0; h < heads; h++)
        for (int64_t t = 0; t < q.rows; t++) {
            int64_t i = first_query + t, first = window > 0 && i + 1 > window ? i + 1 - window : 0;
            one_query(row_of(q, t) + h * d, mat_cols(k, h / group * d, d),
                      mat_cols(v, h / group * c, c), first, i, row_of(o, t) + h * c);
        }
}
