// tests/tiny_steps.h - inputs of a recurrence as plain arrays, plain loops over them (science.md
// 1A, sharing nothing with the kernels), and the CPU kernel on the same numbers.
#ifndef DELTOP_TESTS_TINY_STEPS_H
#define DELTOP_TESTS_TINY_STEPS_H

#include "core/precision.h"
#include "core/steps.h"

#include <stdint.h>

typedef struct tiny_steps {
    head_shape s;
    int64_t T;
    double *q, *k, *v; // [T, Hk K], [T n_h, Hk K], [T n_h, H V]
    double *beta;      // [T n_h, H]; NULL: 1
    double *decay;     // [T, H] or [T, H K]; NULL: none
    double *a, *b;     // [T, H K], [T, Hk K]; NULL unless ERASE_PAIR
    double *start;     // [H K, V]
    double *o, *end;   // results of the last run: [T, H V], [H K, V]
} tiny_steps;

// Random: unit keys, queries and b, normal values and start state, beta uniform in [0, beta_max],
// log decays in [-1, 0]; all rounded to float.
tiny_steps tiny_steps_new(head_shape s, int64_t T, uint64_t seed);
void tiny_steps_free(tiny_steps *x);

// Plain loops in double into o and end.
void tiny_steps_loop(tiny_steps *x);
// The kernel in blocks of `block` tokens into o and end.
void tiny_steps_kernel(tiny_steps *x, precision p, int64_t block);
// Loop against kernel: the largest difference of o and end, each over its largest entry; NaN when
// anything is not finite.
double tiny_steps_error(tiny_steps *x, precision p, int64_t block);

// max |a - b| / max |a|, NaN kept.
double tiny_difference(const double *a, const double *b, int64_t n);

#endif
