// bench/stats.h - numbers made of samples. Pure; NaN in, NaN out; nothing here knows a clock.
#ifndef DELTOP_BENCH_STATS_H
#define DELTOP_BENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// x is sorted in place. q in 0..1, linear between neighbours; NaN for n = 0.
double stats_quantile(double *x, size_t n, double q);
void stats_sort(double *x, size_t n);

typedef struct summary {
    size_t n;
    double min, p5, median, p95;
    double mad;    // median absolute deviation from the median
    double lo, hi; // 95 % interval of the median from order statistics, free of any distribution
} summary;

// All fields NaN for n = 0; with n < 6 lo and hi are the extremes.
summary stats_summary(const double *x, size_t n);

// Student's t: the value that |t| exceeds with probability p (two-sided), dof degrees of freedom (may
// be broken). p in (0, 1), dof > 0.
double stats_t(double p, double dof);

// Difference of the q-quantiles of two sets of groups and how sure it is.
typedef struct difference {
    double estimate; // quantile(b) - quantile(a)
    double error;    // its standard error, by bootstrap over the groups
    double dof;      // Welch's degrees of freedom
} difference;
// a, b: one number a group (a round of the measurement). Deterministic for a seed. n of 1: error NaN.
difference stats_difference(const double *a, size_t n_a, const double *b, size_t n_b, double q,
                            uint64_t seed);

// Entropy stop rule (as nvbench has it): the entropy of the distribution of samples is
// followed; when it has stopped growing, more samples tell nothing new.
enum { ENTROPY_WINDOW = 64 };
typedef struct entropy {
    double seen[512]; // distinct times, rounded to 0.5 %
    size_t count[512], n_seen, n;
    double history[ENTROPY_WINDOW]; // of entropies, ring
} entropy;
void entropy_add(entropy *s, double x);
// True when a line through the last values has a slope below 0.0005 bits a sample.
bool entropy_settled(const entropy *s);

#endif
