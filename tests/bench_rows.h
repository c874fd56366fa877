// tests/bench_rows.h - made-up benchmark results for tests of verdicts.
#ifndef DELTOP_TESTS_BENCH_ROWS_H
#define DELTOP_TESTS_BENCH_ROWS_H

#include "bench/record.h"

typedef struct made {
    double ms;
    double between; // relative spread of rounds
    double within;  // of the samples of a round: only upwards, as disturbances are
    int rounds, per_round;
    double clock; // cycles = ms x clock; 0: none
} made;

// Adds a row of case number `id` with such samples; seed decides the noise.
bench_row *made_row(record *r, int id, made how, uint64_t seed);
// The same with these samples, one round.
bench_row *made_samples(record *r, int id, const double *ms, size_t n);
// Where it was measured.
void made_place(record *r, const char *cpu, const char *sha256);

#endif
