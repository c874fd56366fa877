// analyses/words/mechanism_fit.h - does a head represent the group? The part of mechanism.h that needs
// no model: mean transitions in, errors out.
#ifndef DELTOP_MECHANISM_FIT_H
#define DELTOP_MECHANISM_FIT_H

#include "analyses/words/mechanism.h"

// Fills dims, fit_median, fit_rms, error, angle and determinant of *h. A [n_inputs, K, K] are the mean
// transitions, cov [K, K] the second moments of the states, which is overwritten.
bool mechanism_fit(const double *A, double *cov, const word_task *t, mechanism_head *h, err *e);

// Eigenvalues w [n] of the symmetric a [n, n], ascending; columns of a become the vectors.
bool mechanism_symmetric(double *a, int n, double *w, err *e);
// Sum of squares of a - b, n numbers.
double mechanism_distance2(const double *a, const double *b, int n);

#endif
