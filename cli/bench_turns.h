// cli/bench_turns.h - `deltop bench` with two sides: --ab and --git-bisect.
#ifndef DELTOP_CLI_BENCH_TURNS_H
#define DELTOP_CLI_BENCH_TURNS_H

#include "cli/bench_setup.h"
#include "cli/output.h"

// Two builds or two kernels in turns; prints the comparison. Returns the exit code.
int bench_ab(const options *o, bench_setting *s, output *x, err *e);
// The first slow commit between two.
int bench_find_commit(const options *o, bench_setting *s, output *x, err *e);

// What stands around every result (output_head), then the members of V, which is taken. NULL: no memory.
json_t *bench_with_head(output *x, json_t *v);

#endif
