// bench/recurrence_gate.h - a recurrence's results against the float64 step form of the CPU.
#ifndef DELTOP_BENCH_RECURRENCE_GATE_H
#define DELTOP_BENCH_RECURRENCE_GATE_H

#include "bench/recurrence_inputs.h"

// Runs *r once from the zero state over all its tokens and compares outputs, final states and
// boundary states with the float64 step form, on the very numbers the device reads. Columns of a
// state never talk to each other, nor do heads: at most six heads are taken (the first, one that hardly forgets, the last and
// others), and where the whole would take the CPU more than a second or two fewer of them and some of
// their columns, over all tokens.
// error, state_error: relative L2. how: what was compared, in words.
bool recurrence_gate(recurrence_set *r, double *error, double *state_error, char *how, size_t size,
                     err *e);

#endif
