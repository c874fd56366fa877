// bench/ab.h - two builds, or two kernels of one build, measured in turns: A B B A A B ... so that
// whatever the machine does meets both alike.
#ifndef DELTOP_BENCH_AB_H
#define DELTOP_BENCH_AB_H

#include "bench/run.h"

// a, b: paths of programs (they hold a slash), which are started anew for every turn with `bench` and
// these arguments (words as on a command line, NULL at the end), ending each in one round. Their rows
// come into *ra and *rb. ERR_INPUT when one of them gives no result.
bool ab_builds(const char *a, const char *b, const char *const *arguments, int turns,
               progress_fn progress, void *progress_ctx, record *ra, record *rb, err *e);

// a, b: "auto", "step", "chunk" or "portable" (forms of our own recurrences), "deltop", or "PLUGIN:KERNEL". Every
// recurrence of the plan is measured with both, round by round. The rows of *ra and *rb carry the
// same parameters, so that they can be compared; `source` says which is which.
bool ab_kernels(const bench_plan *p, const char *a, const char *b, record *ra, record *rb, err *e);

#endif
