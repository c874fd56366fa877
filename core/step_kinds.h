// core/step_kinds.h - step kinds that papers define and no family here uses: Longhorn and
// the generic DPLR recurrence, as constructors of core/steps.h.
//
//   Longhorn (R11)  eps = beta / (1 + beta k.k)          H_t = (I - eps k k^T) H_{t-1} + eps k v^T
//                   ERASE_KEY with eps as the write strength; keys are NOT normalised. H_t is the
//                   minimiser over X of |X - H_{t-1}|_F^2 / 2 + beta |X^T k - v|^2 / 2. eps stands
//                   in the write, too: sources that print beta there are wrong (E17).
//   DPLR (1A)       H_t = (Diag(w) + a b^T) H_{t-1} + k v^T
//                   ERASE_PAIR with a decay per key channel; b reads the undecayed state. FLA's
//                   operator has the names the other way round: its `a` is our b.
//
// One head, float64, host memory: the matrices of the steps lend the arrays that they were given.
#ifndef DELTOP_STEP_KINDS_H
#define DELTOP_STEP_KINDS_H

#include "core/steps.h"

// Tokens in reading order; what a kind does not use is NULL.
typedef struct step_inputs {
    int64_t T;
    int K, V;
    double scale;            // of the read-out
    const double *q, *k, *v; // [T, K], [T, K], [T, V]
    const double *beta;      // [T]     Longhorn: the weight of the new pair, > 0
    const double *w_log;     // [T, K]  DPLR: natural log of the decay, <= 0
    const double *a, *b;     // [T, K]  DPLR: written along, read along
} step_inputs;

// beta / (1 + beta k.k): the write strength, and what is taken out along k.
double longhorn_strength(const double *k, int K, double beta);

// eps: room for T numbers, filled here and lent to the result.
steps step_longhorn(const step_inputs *x, double *eps);
steps step_dplr(const step_inputs *x);

// A float64 matrix of host memory; NULL gives MAT_NONE.
mat step_matrix(const double *x, int64_t rows, int64_t cols);

#endif
