// cli/bench_setup.h - the options of `deltop bench` and how they choose cases.
#ifndef DELTOP_CLI_BENCH_SETUP_H
#define DELTOP_CLI_BENCH_SETUP_H

#include "bench/run.h"
#include "cli/options.h"

typedef struct bench_options {
    const char *suite, *model, *slow, *ab, *bisect, *build;
    text_list cases, axes, plugins, external;
    int64_t rounds, times;
    double budget, threshold;
    bool list, no_cold, explain, calibrate, markdown;
    const char *junit;
} bench_options;

typedef struct bench_setting {
    plugins plugins;
    case_list cases;
    const bench_suite *suite;
    bench_plan plan;
    char slow[32]; // operation of --slow
} bench_setting;

// Chooses the suite, applies --axis, --case, --device, --threads, --model, adds the plugins' kernels,
// fills the plan. ERR_USAGE when nothing is left. Free it also after a failure.
bool bench_setup_make(const options *o, bench_setting *s, err *e);
void bench_setup_free(bench_setting *s);

#endif
