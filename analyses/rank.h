// analyses/rank.h - what a state's singular values say about its shape and its size.
//
// Everything here is a pure function of sv[0..n-1], descending and not negative (kernels/svals.h
// gives them so). H is the state, p_i = sigma_i / sum sigma:
//
//     effective rank   exp(-sum p_i ln p_i)                        (science S01; Roy & Vetterli)
//     stable rank      |H|_F^2 / |H|_2^2 = sum sigma_i^2 / sigma_1^2                       (S04)
//     nuclear norm     sum sigma_i                                                         (S04)
//     condition        sigma_1 / sigma_n                                                   (S04)
//     top-k energy     sum_{i<=k} sigma_i^2 / sum sigma_i^2                                (S04)
//
// Ranks, condition and energy do not depend on the size of H (S02): they are formed from
// sigma_i / sigma_1, so no square over- or underflows. They are undefined for a zero state, which
// gives NaN and is to be masked, never shown as 0 (S03). A NaN among the values gives NaN
// everywhere. n >= 1.
#ifndef DELTOP_RANK_H
#define DELTOP_RANK_H

#include "core/backend.h"

// 1 <= effective rank <= number of values that count. Values <= cut sv[0] count as zero; cut = 0
// keeps all that are not zero. RANK_CUT suits SVALS_FAST, whose values carry an error near
// 1e-8 sv[0].
#define RANK_CUT SVALS_CUT
double rank_effective(const double *sv, int n, double cut);

// As the published analysis scripts count: values <= 2.2e-16 (absolute, so size matters) are
// dropped, and a state without any other gives 0 (S03, --compat=authors).
double rank_effective_authors(const double *sv, int n);

// How many values exceed cut sv[0]: 0 for a zero state, -1 when a value is NaN.
int rank_numeric(const double *sv, int n, double cut);

double rank_stable(const double *sv, int n);
double rank_nuclear(const double *sv, int n);
double rank_spectral(const double *sv, int n);
double rank_frobenius(const double *sv, int n);

// +inf when sv[n-1] is zero but sv[0] is not.
double rank_condition(const double *sv, int n);

// k below 1 counts as 0 values, k above n as n.
double rank_energy(const double *sv, int n, int k);

#endif
