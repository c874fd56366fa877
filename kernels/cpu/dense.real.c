#include "kernels/cpu/real.h"

#include "kernels/dense.h"

#include <cblas.h>

enum { TILE = 128 }; // rows of one matrix product: enough to repay packing w

void FN(dense_embed)(backend *be, mat table, const int32_t *ids, mat y) {
    (void)be;
    for (int64_t t = 0; t < y.rows; t++)
        memcpy(row_of(y, t), row_of(table, ids[t]), (size_t)y.cols * sizeof(real));
}

void FN(dense_linear)(backend *be, mat x, mat w, mat bias, mat y) {
    (void)be;
    if (x.rows == 0)
        return;
    int64_t tiles = (x.rows + TILE - 1) / TILE;
#pragma omp parallel for schedule(dynamic) if (tiles > 1)
    for (int64_t i = 0; i < tiles; i++) {
        int64_t first = i * TILE, n = x.rows - first < TILE ? x.rows - first : TILE;
        real beta = 0;
        if (!mat_none(bias)) {
            for (int64_t t = first; t < first + n; t++)
                memcpy(row_of(y, t), bias.p, (size_t)y.cols * sizeof(real));
            beta = 1;
        }
        REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)w.rows, (int)w.cols, 1,
                  row_of(x, first), (int)x.ld, w.p, (int)w.ld, beta, row_of(y, first), (int)y.ld);
    }
}

void FN(dense_add)(backend *be, mat x, double scale, mat y) {
    (void)be;
    real s = (real)scale;
    for (int64_t t = 0; t < x.rows; t++) {
        const real *a = row_of(x, t);
        real *b = row_of(y, t);
        for (int64_t i = 0; i < x.cols; i++)
            b[i] += s * a[i];
    }
}

void FN(dense_add_rows)(backend *be, mat x, const int32_t *rows, const double *scale, mat y) {
    (void)be;
    for (int64_t i = 0; i < x.rows; i++) {
        const real *a = row_of(x, i);
        real *b = row_of(y, rows[i]), s = (real)scale[i];
        for (int64_t j = 0; j < x.cols; j++)
            b[j] += s * a[j];
    }
}
