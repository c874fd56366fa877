// bench/measure.h - taking times of one prepared operation. Knows clocks and nothing of verdicts.
//
// A sample is the time of one call: on a GPU between two events round each call of a queued batch, on
// a CPU by the monotonic clock round as many calls as take about a millisecond. Cold samples empty the
// caches in front of every call, outside the timed part. A sample that was interrupted, or taken while a
// GPU was throttled, is marked and taken again; it stays in the record, and counts only when there is no
// other (then with the processor time that its thread had).
//
// Beside the time, each sample has a number of cycles, which does not change when the clock does: SM
// cycles on a GPU (time x SM clock read while the queue was busy). On a CPU, where nobody may read the
// cycle counter, processor time in units of a yardstick: a fixed loop of multiplications timed right
// before and after the sample, which slows down with it when a neighbour takes the core's clock or its
// other half.
#ifndef DELTOP_BENCH_MEASURE_H
#define DELTOP_BENCH_MEASURE_H

#include "bench/op.h"
#include "bench/record.h"
#include "core/nvml.h"

typedef struct meter {
    backend *be;
    const bench_op *op;
    void *work;
    double extra;             // share of the work done once more in every call (test switch); 0
    const nvml *card;         // NULL: no GPU, or its library is not there
    bool shared;              // CPU: somebody else wants this core
    int calls;                // per sample; found by measure_warm_up
    double first_ms, call_ms; // of the very first call; about one
    double clock_mhz, watt, celsius; // last readings; NaN
    unsigned throttle;               // reasons seen, as in core/nvml.h
    double max_clock_mhz;
} meter;

typedef struct measure_limits {
    double seconds;   // of one call of measure_block
    double precision; // stop when the interval of the median is within this share of it
    int least, most;  // samples of a block
} measure_limits;

// Runs until times have settled, at most `seconds`: compiles, autotunes, pages in; sets calls.
bool measure_warm_up(meter *m, double seconds, err *e);
// A block of samples, warm or cold, appended to *s as round `round`.
bool measure_block(meter *m, bool cold, const measure_limits *l, int round, timings *s, err *e);
// Medians of the phases of an operation that is made of several kernels; none where it is one.
bool measure_phases(meter *m, bench_row *row, err *e);

#endif
