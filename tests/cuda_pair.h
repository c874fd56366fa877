// tests/cuda_pair.h - the same numbers on a GPU and on the CPU in float64.
//
// A pair is one matrix twice. What is written to it is rounded by the device first and read back, so
// that both sides compute with the same inputs. Rows have gaps and the whole surroundings are NaN: an
// operation that reads outside its view shows it in the results, one that writes there is caught by
// pair_error.
#ifndef DELTOP_TESTS_CUDA_PAIR_H
#define DELTOP_TESTS_CUDA_PAIR_H

#include "core/backend.h"

// A device in precision p. Without one the test is skipped with a line "SKIP: no device ...", or
// fails when $DELTOP_NEED_GPU is set.
backend *cuda_or_skip(precision p);

enum { PAIR_MOST = 32 };

typedef struct pair {
    mat all[2]; // with its surroundings
    mat at[2];  // [0] on the device, [1] float64
} pair;

typedef struct both {
    backend *be[2]; // device, CPU in float64
    pair made[PAIR_MOST];
    int n;
    int gap; // columns of NaN on either side: 3 unless changed; 8 keeps rows of 8 n numbers aligned
    uint64_t seed;
} both;

void both_open(both *b, precision p); // skips like cuda_or_skip
void both_close(both *b);
void both_reset(both *b); // frees all pairs
// Fails the test when an operation failed on either side.
void both_check(both *b, const char *what);

double both_uniform(both *b, double lo, double hi);
// Uniform numbers; exact: in float32 whatever the precision.
pair pair_new(both *b, int64_t rows, int64_t cols, bool exact, double lo, double hi);
void pair_write(both *b, const pair *p, const double *numbers);
// 0: device, 1: float64. free it
double *pair_read(both *b, const pair *p, int side);

// Largest difference over the largest entry; NaN where one side alone has a NaN or infinity. Fails
// the test when the surroundings were written.
double pair_error(both *b, const pair *p);
// The largest difference, each over its own entry (over `floor` at least).
double pair_error_each(both *b, const pair *p, double floor);

// Fails the test unless error <= bound (NaN is not); the worst error of each WHAT (a literal, at most 48) is
// kept from both_open until pair_print_worst says them.
void pair_note(const both *b, const char *what, const pair *y, double error, double bound);
void pair_print_worst(const both *b);

#endif
