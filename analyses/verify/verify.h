// analyses/verify/verify.h - every formula of science.md as a self-test with its measured error.
//
// A check is a row: an id, one sentence, what it measures (0 when the formula holds) and how large
// that may be. Checks of recurrences, forms and states run on a backend: in float64 on the CPU and in
// float32 on the device; the others are host mathematics in float64. Reference values are closed
// forms, LAPACK, or plain loops that share no code with what they check.
#ifndef DELTOP_VERIFY_H
#define DELTOP_VERIFY_H

#include "analyses/figure.h"
#include "core/backend.h"
#include "core/progress.h"

typedef struct verify_env {
    backend *exact;     // the CPU in float64
    backend *device;    // what --device named, in float32
    const char *folder; // an empty one, for checkpoints
    uint64_t seed;
} verify_env;

typedef struct verify_case {
    const verify_env *env;
    backend *be; // where this run computes
    int arg;     // of the row
    // For what a check runs that takes longer than a moment; counts nothing.
    progress_fn go_on;
    void *go_on_ctx;
} verify_case;

typedef struct check {
    const char *id;   // "R07", "G12"
    const char *what; // at most 52 columns
    double exact;     // largest error allowed in float64; NaN: not run there
    double device;    // in float32 on the device; NaN: not run there
    // The error. False: it could not be computed (*e).
    bool (*run)(const verify_case *c, double *error, err *e);
    int arg;
} check;

typedef struct verify_row {
    const check *c;
    bool on_device;
    double error, allowed;
    bool pass;
    char why[200]; // what kept it from being computed; "" otherwise
} verify_row;

typedef struct verify_result {
    verify_row *row; // owned
    size_t n, failed;
} verify_result;

// Runs the checks whose id begins with one of the comma-separated words of `only` ("G,K05"; NULL:
// all). ERR_USAGE when none does. progress counts checks, and is called within long ones too.
bool verify_run(const verify_env *env, const char *only, progress_fn progress, void *progress_ctx,
                verify_result *r, err *e);
void verify_free(verify_result *r); // an empty one is fine

// The tables, one file each.
extern const check verify_recurrences[], verify_geometry[], verify_parallel[], verify_states[],
    verify_theorems[];
extern const size_t n_verify_recurrences, n_verify_geometry, n_verify_parallel, n_verify_states,
    n_verify_theorems;

// Where two Householder factors with keys at cosine c make complex eigenvalues (G03, DeltaProduct
// Proposition 1 and figure 11): the pair's angle over (beta_1, beta_2) in [0, 2]^2, NaN where the
// eigenvalues are real, and the boundary for several cosines.
bool verify_region(double cosine, figures *out, err *e);

#endif
