// cli/bench_print.h - results and comparisons of benchmarks as text: terminal, Markdown, CSV, JUnit.
#ifndef DELTOP_CLI_BENCH_PRINT_H
#define DELTOP_CLI_BENCH_PRINT_H

#include "bench/match.h"
#include "bench/record.h"

#include <stdio.h>

// Rows as they are in the record; rows of other programs stand behind ours of the same shape and say
// how many times ours they take. width: columns of the terminal, for wrapping what --explain says.
void bench_print_table(const record *r, bool explain, int width, FILE *f);
void bench_print_markdown(const record *r, FILE *f);
void bench_print_csv(const record *r, const char *command, FILE *f);
void bench_print_junit(const record *r, FILE *f);

// The rows that matter first (WRONG, SLOWER, ...), SAME ones only as a count unless all.
// old, new: what the two sides are called ("old", "new").
void compare_print_table(const comparison *c, bool all, const char *old, const char *new, FILE *f);
// At most max_bytes (0: no limit): WRONG and SLOWER rows always, the others while there is room, and
// how many were left out (fault B136).
void compare_print_markdown(const comparison *c, size_t max_bytes, FILE *f);
void compare_print_csv(const comparison *c, const char *command, FILE *f);
void compare_print_junit(const comparison *c, bool strict, FILE *f);
// "3 SLOWER, 14 SAME"
void compare_print_counts(const comparison *c, FILE *f);

#endif
