// tests/chunk_cases.h - random inputs for a recurrence, a plain loop over them in double, and a run
// of the backend on them.
#ifndef DELTOP_TESTS_CHUNK_CASES_H
#define DELTOP_TESTS_CHUNK_CASES_H

#include "core/backend.h"

#define BETA_RANDOM  (-1.0)
#define DECAY_RANDOM 1.0 // uniform in (-2, 0)
#define DECAY_MIXED  2.0 // -1e-6, -1, -50, -500 and -infinity in no order

typedef enum {
    KEYS_RANDOM,
    KEYS_SAME,      // one key for all tokens (B39)
    KEYS_ZERO,      // every third key is zero
    KEYS_CORRELATED // cosines near 0.9
} key_kind;

typedef struct plan {
    head_shape s;
    int64_t T;
    double beta, decay; // a value for all, or one of the names above
    key_kind keys;
} plan;

// Kinds 0..8: decay kind % 3, erase kind / 3. Random keys, betas up to 2 and decays; pairs have one micro-step.
plan plan_of(int kind, int64_t T, int K, int V, int H, int Hk, int n_h);

// Host doubles, rows without gaps; shapes as in core/steps.h.
typedef struct inputs {
    plan p;
    double *q, *k, *v, *beta, *decay, *a, *b;
    double *state; // [H * K, V], not zero
} inputs;

// rounded: to float, so that float runs see the same numbers.
inputs inputs_new(plan p, uint64_t seed, bool rounded);
void inputs_free(inputs *x);

// Plain loops over tokens, micro-steps, rows and columns in double. o [T, H * V], state in place.
void inputs_loop(const inputs *x, double *o, double *state);

// The backend's recurrence on mats whose rows have gaps, everything outside filled with NaN, in
// blocks that end at cuts[0..n_cuts) (ascending) and at T. Fails the test when the backend does or
// when something outside o was written.
void inputs_run(const inputs *x, backend *be, recurrence_form form, const int64_t *cuts, int n_cuts,
                double *o, double *state);

// Relative errors: L2 over everything, and the worst row of `cols` numbers (a row smaller than 1e-3
// of the average counts as that).
double error_all(const double *a, const double *ref, size_t n);
double error_row(const double *a, const double *ref, size_t rows, size_t cols);

#endif
