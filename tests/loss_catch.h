// tests/loss_catch.h - a probe that keeps the losses of a row.
#ifndef DELTOP_TESTS_LOSS_CATCH_H
#define DELTOP_TESTS_LOSS_CATCH_H

#include "core/forward.h"

typedef struct loss_catch {
    double *loss; // [n]
    int64_t n;
} loss_catch;

static inline bool loss_caught(void *ctx, int64_t t0, int64_t n, const double *loss,
                               const int32_t *best, err *e) {
    (void)best, (void)e;
    loss_catch *c = (loss_catch *)ctx;
    for (int64_t i = 0; i < n && t0 + i < c->n; i++)
        c->loss[t0 + i] = loss[i];
    return true;
}

#endif
