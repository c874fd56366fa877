// kernels/spectrum_batch.h - what a device that solves many spectra at a time shares with the CPU: which
// problems suit it, and how its numbers become the answers of kernels/spectrum.h. C and C++.
#ifndef DELTOP_SPECTRUM_BATCH_H
#define DELTOP_SPECTRUM_BATCH_H

#include "core/backend.h"

// Rows of the matrix whose eigenvalues tell the window's: K, or the W n_h of its core in a short window
// (W n_h < K, delta rule without channel decay). 0: not for a device (diagonal kinds, a wiped channel,
// numbers that are not finite, windows that leave the row): window_spectrum does it or names the fault.
int window_suits(const transitions *x, int64_t last, int64_t W);

// One solved window, from kernels/cuda/windows.h. Without the scalar decays of delta kinds and without
// the largest of each token's channel decays, 2^exponent taken out.
typedef struct window_raw {
    int n;
    const double *re, *im;   // [n]
    double norm2, skew, all; // |P|_2, |P - P^T|_F^2, |P|_F^2
    int exponent;
} window_raw;

// Fills eig and facts of each job that raw[i].n > 0 was solved for and marks it done. Uses OpenMP.
bool windows_finish(window_job *jobs, const window_raw *raw, int64_t n, err *e);

// Lyapunov exponents as a list of operations on a basis Q.
typedef enum {
    LYAPUNOV_KEY,  // Q += factor k (k^T Q), k the key of micro-step `at`
    LYAPUNOV_ROWS, // row c of Q times exp((g_c - mean) factor), g of token `at`
    LYAPUNOV_PAIR, // Q = Diag(e^g) Q + a (b^T Q) of token `at`
    LYAPUNOV_QR    // Q R = Q, ln |R_ii| to the growth of i
} lyapunov_kind;
typedef struct lyapunov_op {
    lyapunov_kind kind;
    int64_t at; // counted from the job's first token
    double factor, mean;
} lyapunov_op;

typedef struct lyapunov_plan {
    lyapunov_op *op; // ends with a QR
    int64_t n, room;
    double common[2]; // growth that all directions share, and what a double loses of it
} lyapunov_plan;

// False: not for a device (a singular factor, ...), or out of memory. Free with lyapunov_plan_free.
bool lyapunov_plan_make(const lyapunov_job *job, lyapunov_plan *plan);
void lyapunov_plan_free(lyapunov_plan *plan);
// growth: [K]. Marks the job done unless a number is not finite.
void lyapunov_finish(lyapunov_job *job, const lyapunov_plan *plan, const double *growth);

#endif
