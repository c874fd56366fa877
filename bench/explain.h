// bench/explain.h - a row in words: how far from the floor, and what holds it there.
#ifndef DELTOP_BENCH_EXPLAIN_H
#define DELTOP_BENCH_EXPLAIN_H

#include "bench/record.h"

// One paragraph, no newline. A row without a time says why.
char *bench_explain(const bench_row *row, char *buf, size_t size);

// "0.1234", "12.3", "1.23e+04": four significant digits for people; "-" for NaN.
char *bench_number(double x, char *buf, size_t size);
// 1234567 -> "1.23 M", for rates; "-" for NaN.
char *bench_rate(double x, char *buf, size_t size);
// Name of the case without what its source adds: rows of one case by several programs.
bool bench_same_shape(const bench_row *a, const bench_row *b);

#endif
