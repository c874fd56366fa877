// core/order.h - doubles in order.
#ifndef DELTOP_ORDER_H
#define DELTOP_ORDER_H

#include <stddef.h>

// For qsort of doubles: ascending. Not for NaN, which has no place.
int order_ascending(const void *a, const void *b);

// Sorts v [n], which holds no NaN, and gives its median: of two middle ones their mean. NaN for n = 0.
double order_median(double *v, size_t n);

#endif
