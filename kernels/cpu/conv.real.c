#include "kernels/cpu/real.h"

#include "core/mem.h"
#include "kernels/conv.h"
#include "kernels/pointwise.h"

#include <stdlib.h>

void FN(conv_short)(backend *be, mat x, mat w, mat bias, mat tail, activation act, mat y) {
    int64_t width = w.cols, D = x.cols, T = x.rows, past = width - 1;
    // Taps outermost, so that the loop over channels is contiguous.
    real *tap = mem_alloc((size_t)(width * D), sizeof *tap, "convolution taps", &be->fail);
    if (!tap)
        return;
    for (int64_t d = 0; d < D; d++)
        for (int64_t i = 0; i < width; i++)
            tap[i * D + d] = row_of(w, d)[i];
#pragma omp parallel for schedule(static) if (T * D > 1 << 14)
    for (int64_t t = 0; t < T; t++) {
        real *b = row_of(y, t);
        if (mat_none(bias))
            memset(b, 0, (size_t)D * sizeof *b);
        else
            memcpy(b, bias.p, (size_t)D * sizeof *b);
        for (int64_t i = 0; i < width; i++) {
            int64_t from = t - past + i;
            const real *a = from >= 0 ? row_of(x, from) : row_of(tail, past + from);
            const real *c = tap + i * D;
            for (int64_t d = 0; d < D; d++)
                b[d] += c[d] * a[d];
        }
    }
    // The new tail is the last rows of (old tail, x); old rows move towards the front first.
    for (int64_t i = 0; i < past; i++) {
        int64_t from = T - past + i;
        const real *a = from >= 0 ? row_of(x, from) : row_of(tail, past + from);
        memmove(row_of(tail, i), a, (size_t)D * sizeof *a);
    }
    free(tap);
    FN(pointwise_activate)(be, y, act, 1);
}
