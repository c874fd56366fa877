// bench/run.h - measures a list of cases: gate first, then warm-up, then rounds of samples over all
// cases, so that a disturbance of some seconds meets a little of every case and not all of one.
#ifndef DELTOP_BENCH_RUN_H
#define DELTOP_BENCH_RUN_H

#include "bench/case.h"
#include "bench/plugin_load.h"
#include "bench/record.h"
#include "core/progress.h"

typedef struct bench_plan {
    const case_list *cases;
    const plugins *plugins; // where impl "PLUGIN:KERNEL" is looked up; NULL: none
    double seconds;         // for the timing of all cases together
    double precision;       // stop a case when its median is known to this share; 0.005
    int rounds;
    bool cold;
    uint64_t seed;
    int gpu;             // N of cuda:N
    const char *slow_op; // NULL, or an operation that does slow_share of its work once more
    double slow_share;
    progress_fn progress; // counts blocks
    void *progress_ctx;
} bench_plan;

// Adds a row for every case to *out, also for those that are wrong or fail. False only for what
// concerns the run as a whole: no such device, no memory for results, cancelled.
bool bench_run(const bench_plan *p, record *out, err *e);

// A baseline's noise: what the medians of `times` runs of the plan differ by, as a share, into `noise`
// of the rows of *out, whose samples are those of all runs (each run's rounds behind the one's before).
bool bench_calibrate(const bench_plan *p, int times, record *out, err *e);

#endif
