// analyses/words/mechanism.h - how a model represents the elements of a group (science.md X03).
//
// One random word is read. Every head's transitions are gathered by the token they belong to:
//
//     beta_gj   write strength of micro-step j at element g: near 2 where it reflects
//     key PCA   how many directions the keys of all elements need (DeltaProduct 4.3: three for S4)
//     A_g       mean transition matrix of element g. Where the mean misses single tokens, the
//               context matters and A_g is no function of the element alone (spread)
//     fit       A_g A_h = A_gh (A_hg for the order y_t = y_{t-1} . x_t), which the paper did not test:
//               on the r leading directions of the states that occur, B_g = U^T A_g U,
//
//                   error(g, h) = |B_g B_h - B_gh|_F / root mean square |B_g - B_h|_F
//
//               0 is a representation, 1 as wrong as a random other element. r is the number of
//               directions (at most MECHANISM_DIMS) with the smallest median among those that tell
//               elements apart: unfaithful ones, such as the sign alone, do not count.
#ifndef DELTOP_MECHANISM_H
#define DELTOP_MECHANISM_H

#include "analyses/figure.h"
#include "analyses/words/task.h"
#include "core/forward.h"

#include <complex.h>

enum { MECHANISM_DIMS = 8, MECHANISM_PCA = 8 };

typedef struct mechanism_head {
    int layer, head, n_h, K;
    double *beta;              // [n_inputs, n_h] mean; NaN without a write strength
    double spread;             // root mean square of |A_t - A_g|_F / root mean square |A_g - A_h|_F
    double pca[MECHANISM_PCA]; // cumulative share of the keys' squared length, not centred
    double pca_centred[MECHANISM_PCA]; // of their variance
    int dims;                          // r; 0: no faithful one, or no group
    double fit_median, fit_rms;        // over pairs (g, h); NaN with dims 0
    double *error;       // [n_inputs] median over h and over both sides of error(g, .)
    double *angle;       // [n_inputs] largest rotation angle of B_g in degrees
    double *determinant; // [n_inputs] of B_g: -1 a mirror, 1 a rotation
    double complex *eig; // [n_inputs, dims] eigenvalues of B_g; roots of unity where it is one
} mechanism_head;

typedef struct mechanism {
    int n_inputs;
    mechanism_head *head; // best fit first, then by layer and head
    int n_heads;
} mechanism;

// ERR_UNSUPPORTED for a model without matrix states.
bool mechanism_run(const model *m, const word_task *t, uint64_t seed, mechanism *out, err *e);
void mechanism_free(mechanism *x); // an empty one is fine

// Elements of the best head whose error is above 0.5 where the median is below 0.1: the group is
// represented but for them. Their number; the first `most` into list.
int mechanism_odd(const mechanism_head *h, int n_inputs, int *list, int most);

// Strengths of the best head (of every head with `all`) as bars, and the keys' PCA of all heads.
bool mechanism_figures(const mechanism *x, const word_task *t, const char *model, const char *how,
                       bool all, figures *out, err *e);

#endif
