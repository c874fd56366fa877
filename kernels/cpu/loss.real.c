#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/loss.h"

#include <cblas.h>
#include <stdlib.h>

enum { ROWS = 64, WORDS = 4096 }; // one tile of logits: 1 MB of floats

// Folds a tile of logits into the running maximum and sum of exponentials of each token.
static void fold(const real *logits, int64_t n, int64_t first, double *top, double *sum,
                 int32_t *best) {
    real high = logits[0];
    for (int64_t j = 1; j < n; j++)
        high = logits[j] > high ? logits[j] : high;
    if (high > *top) {
        *sum *= exp(*top - (double)high);
        *top = (double)high;
        int64_t j = 0;
        while (j + 1 < n && logits[j] != high)
            j++;
        *best = (int32_t)(first + j);
    }
    // Short stretches in the tile's own type, then in double: a float sum of 4096 terms would lose
    // what small probabilities add.
    real from = (real)*top;
    for (int64_t j = 0; j < n;) {
        int64_t stop = j + 64 < n ? j + 64 : n;
        real part[8] = {0};
        for (; j + 8 <= stop; j += 8)
            for (int l = 0; l < 8; l++)
                part[l] += real_exp(logits[j + l] - from);
        for (; j < stop; j++)
            part[0] += real_exp(logits[j] - from);
        for (int l = 0; l < 8; l++)
            *sum += (double)part[l];
    }
}

static void some_tokens(mat x, mat head, const int32_t *targets, double *loss, int32_t *best,
                        real *logits) {
    double top[ROWS], sum[ROWS], at[ROWS];
    for (int64_t t = 0; t < x.rows; t++) {
        top[t] = -INFINITY;
        sum[t] = 0;
        at[t] = NAN;
        best[t] = 0;
    }
    for (int64_t j0 = 0; j0 < head.rows; j0 += WORDS) {
        int64_t n = head.rows - j0 < WORDS ? head.rows - j0 : WORDS;
        REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (int)x.rows, (int)n, (int)x.cols, 1, x.p,
                  (int)x.ld, row_of(head, j0), (int)head.ld, 0, logits, (int)n);
        for (int64_t t = 0; t < x.rows; t++) {
            fold(logits + t * n, n, j0, &top[t], &sum[t], &best[t]);
            if (targets[t] >= j0 && targets[t] < j0 + n)
                at[t] = (double)logits[t * n + targets[t] - j0];
        }
    }
    for (int64_t t = 0; t < x.rows; t++)
        loss[t] = log(sum[t]) + top[t] - at[t];
}

void FN(loss_tokens)(backend *be, mat x, mat head, const int32_t *targets, double *loss,
                     int32_t *best) {
    int64_t tiles = (x.rows + ROWS - 1) / ROWS, words = head.rows < WORDS ? head.rows : WORDS;
    bool failed = false;
#pragma omp parallel if (tiles > 1)
    {
        real *logits = mem_alloc((size_t)(ROWS * words), sizeof *logits, "logits", NULL);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < tiles; i++) {
            int64_t first = i * ROWS, n = x.rows - first < ROWS ? x.rows - first : ROWS;
            if (logits)
                some_tokens(mat_rows(x, first, n), head, targets + first, loss + first,
                            best + first, logits);
            else
#pragma omp atomic write
                failed = true;
        }
        free(logits);
    }
    if (failed)
        err_set(&be->fail, ERR_NOMEM, "out of memory: a tile of logits");
}
