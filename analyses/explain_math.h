// analyses/explain_math.h - the functions behind the rows of analyses/explain.h.
//
// Everything is small and dense and plain float64: K = 8, V = 6. Nothing here is fast.
#ifndef DELTOP_EXPLAIN_MATH_H
#define DELTOP_EXPLAIN_MATH_H

#include "analyses/explain.h"

struct explain_draw {
    double H[EXPLAIN_K * EXPLAIN_V]; // the state before the token
    double k[EXPLAIN_MICRO * EXPLAIN_K], v[EXPLAIN_MICRO * EXPLAIN_V], beta[EXPLAIN_MICRO];
    double w[EXPLAIN_K];                  // decay of each key channel; all 1 without a decay
    double read[EXPLAIN_K];               // kappa (RWKV-7), p (Comba), b (DPLR)
    double rate[EXPLAIN_K];               // RWKV-7: the in-context learning rate a
    double a[EXPLAIN_K];                  // ERASE_PAIR: written along
    double log_w[EXPLAIN_K], strength[1]; // lent to the steps
    int n_h;
};

void explain_draw_token(const recurrence *r, uint64_t *seed, explain_draw *d);
// The token as core/steps.h has it; lends the arrays of *d.
steps explain_steps(const recurrence *r, explain_draw *d);
// A [K, K] and B [K, V] of a one-token block, by the definitions in core/steps.h.
void explain_dense(const steps *s, double *A, double *B);

double explain_loss_write(const explain_draw *d, int j, const double *X);
double explain_loss_regression(const explain_draw *d, int j, const double *X);
double explain_loss_kept(const explain_draw *d, int j, const double *X);
double explain_loss_implicit(const explain_draw *d, int j, const double *X);

void explain_own_write(const explain_draw *d, double *out);
void explain_own_delta(const explain_draw *d, double *out);
void explain_own_longhorn(const explain_draw *d, double *out);
void explain_own_comba(const explain_draw *d, double *out);
void explain_own_rwkv7(const explain_draw *d, double *out);
void explain_own_dplr(const explain_draw *d, double *out);

void explain_draw_retnet(explain_draw *d, uint64_t *seed);
void explain_draw_hgrn2(explain_draw *d, uint64_t *seed);
void explain_draw_longhorn(explain_draw *d, uint64_t *seed);
void explain_draw_comba(explain_draw *d, uint64_t *seed);
void explain_draw_rwkv7(explain_draw *d, uint64_t *seed);
void explain_draw_dplr(explain_draw *d, uint64_t *seed);

double explain_known_rotation(void); // degrees, G02
double explain_known_rwkv7(void);    // spectral radius, G15

#endif
