// tests/worst.h - the larger of two errors; NaN when either is: fmax would drop it, and a failed
// computation would look like a small error.
#ifndef DELTOP_TESTS_WORST_H
#define DELTOP_TESTS_WORST_H

#include <math.h>

static inline double worse(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

#endif
