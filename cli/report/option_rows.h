// cli/report/option_rows.h - rows of the option table that `report` and `watch` share. Their own structs
// begin with a report_options. Each has a row of its own for --doc.
#ifndef DELTOP_REPORT_OPTION_ROWS_H
#define DELTOP_REPORT_OPTION_ROWS_H

#include "analyses/resample.h"
#include "cli/report/tasks.h"

// clang-format off
#define REPORT_DEFAULTS {.samples = 16, .resamples = RESAMPLE_DEFAULT, .jump = 3}

#define REPORT_OPTION_ROWS \
    {"rules", OPT_TEXT, offsetof(report_options, rules), .value = "FILE", \
     .help = "check these rules (docs/facts.md names the numbers); a broken one ends with 4"}, \
    {"baseline", OPT_TEXT, offsetof(report_options, baseline), .value = "FILE", \
     .help = "results.jsonl of another run, or its folder: what `baseline` in rules means"}, \
    {"every", OPT_INT, offsetof(report_options, every), .lo = 1, .hi = 1 << 30, \
     .help = "tokens between samples of the states (default: 128 to 256 samples a row)"}, \
    {"samples", OPT_INT, offsetof(report_options, samples), .lo = 2, .hi = 1 << 16, \
     .help = \
         "window products of each length in a row (default 16; fewer for models of many heads)"}, \
    {"resamples", OPT_INT, offsetof(report_options, resamples), .lo = 0, .hi = 100000, \
     .help = "bootstrap resamples for intervals (default 2000; 0 = none)"}, \
    {"jump", OPT_REAL, offsetof(report_options, jump), .lo = 0, .hi = 1000, .above_lo = true, \
     .value = "NATS", .help = "rise of the mean of 64 losses that is flagged (default 3)"}, \
    {"timing", OPT_FLAG, offsetof(report_options, timing), \
     .help = "write times and throughput of the tasks run now to timing.json"}, \
    {"workers", OPT_INT, offsetof(report_options, workers), .lo = 1, .hi = 1024, \
     .help = \
         "processes that share the rows on this machine (default 1; with --device cuda:all one a " \
         "card)"}
// clang-format on

#endif
