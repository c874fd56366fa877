// kernels/svals.h - singular values of many small states, and the numbers made of them.
//
//     sigma_1 >= ... >= sigma_n of each K x V matrix, n = min(K, V)
//
// Two methods behind one call: SVALS_FAST takes the eigenvalues of the Gram matrix of the smaller
// side in float64, many matrices side by side in SIMD lanes (error about 1e-8 sigma_1: right for
// float32 states), and does those few again by dgesdd that have a value so near SVALS_CUT sigma_1
// (core/backend.h) that this error decides whether it counts; SVALS_EXACT is LAPACKE dgesdd, one
// matrix at a time (error about 1e-16 sigma_1). Scale is taken out before squaring, so states of
// size 1e-20 or 1e20 are as good as any (science S02).
#ifndef DELTOP_SVALS_H
#define DELTOP_SVALS_H

#include "core/err.h"

#include <stdint.h>

typedef enum { SVALS_FAST, SVALS_EXACT } svals_method;

// a: count matrices, each K x V row-major and contiguous. sv: [count, min(K,V)], descending, never
// negative; fro: [count] Frobenius norms (NULL: not wanted). A matrix that holds a NaN or Inf gives
// NaN values; a zero matrix gives zeros. `a` stays intact. Uses the OpenMP threads of the caller's
// setting.
bool svals_f32(svals_method m, const float *a, int64_t count, int K, int V, double *sv, double *fro,
               err *e);
bool svals_f64(svals_method m, const double *a, int64_t count, int K, int V, double *sv,
               double *fro, err *e);

#endif
