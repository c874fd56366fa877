// analyses/resample.h - intervals by resampling: quantiles and the paired block bootstrap.
#ifndef DELTOP_RESAMPLE_H
#define DELTOP_RESAMPLE_H

#include "core/err.h"

#include <stdint.h>

// What commands draw unless told otherwise. Beyond each end of a 95 % interval lie 50 of 2000; of 200 it
// would be 5, and of four rows the ends would move from seed to seed by half of what they tell.
enum { RESAMPLE_DEFAULT = 2000 };

// Sorts v [n] and gives its 2.5% and 97.5% quantiles. n >= 1.
void resample_interval(double *v, int n, double *lo, double *hi);

// 2.5% and 97.5% quantiles of the mean of x [n] (rows, say), drawn `resamples` times with replacement; scratch:
// [resamples]. NaN with fewer than two values or draws, or when a mean is no number.
void resample_mean(const double *x, int64_t n, int resamples, uint64_t seed, double *scratch,
                   double *lo, double *hi);

// A change of losses between two readings of the same tokens.
typedef struct paired_change {
    int64_t n;     // pairs that hold two numbers; others are left out
    int64_t block; // tokens of a block as used
    double mean;   // of after - before, nats/token; NaN for n = 0
    double lo, hi; // 95%; NaN when fewer than 4 blocks fit
} paired_change;

// Mean of after[i] - before[i], i < n, and its interval by the circular block bootstrap (Politis &
// Romano 1992): neighbouring losses are not independent, so whole blocks of `block` neighbours are
// drawn with replacement. block 0: 128, at most an eighth of n.
bool resample_paired(const double *before, const double *after, int64_t n, int64_t block,
                     int resamples, uint64_t seed, paired_change *out, err *e);

#endif
