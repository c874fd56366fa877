// tests/spectrum_cases.h - transitions to try the spectrum kernel on.
#ifndef DELTOP_TESTS_SPECTRUM_CASES_H
#define DELTOP_TESTS_SPECTRUM_CASES_H

#include "kernels/spectrum.h"

#include <stddef.h>

// A small generator (splitmix64), so that failures repeat everywhere.
typedef struct rng {
    uint64_t s;
} rng;
double rng_uniform(rng *r); // [0, 1)
double rng_normal(rng *r);
void rng_unit(rng *r, double *v, int n); // unit vector

// Owned arrays behind x; write through k, beta, a, b, g.
typedef struct tcase {
    transitions x;
    double *k, *beta, *a, *b, *g;
} tcase;

// Zeroed arrays of the right sizes. Aborts the test when memory runs out.
tcase case_new(transition_kind kind, transition_decay decay, int64_t T, int K, int n_h);

// Random unit keys, beta uniform in [0, top), log decays in (-0.5, 0].
tcase case_random(transition_decay decay, int64_t T, int K, int n_h, double top, uint64_t seed);
void case_free(tcase *c);

// P of tokens first..last by multiplying whole K x K matrices, written out from the definition.
void case_product(const transitions *x, int64_t first, int64_t last, double *P);

// Singular values, descending, and eigenvalues of M [n, n] by LAPACKE; M stays.
void matrix_svals(const double *M, int n, double *s);
void matrix_eigs(const double *M, int n, double complex *eig);
double matrix_diff(const double *A, const double *B, size_t n); // largest |A - B|

#endif
