// bench/recurrence_inputs.h - what a recurrence reads, on the device, and one call of it.
//
// The one place that knows how a case's B x T x H becomes core/steps.h: rows of a batch are folded
// into heads (a batch of B rows of H heads is B H heads over T tokens; they never talk to each
// other), activations have the case's number format, betas and decays per head are exact, decays
// per channel have the activations' format (as the peers' inputs have).
#ifndef DELTOP_BENCH_RECURRENCE_INPUTS_H
#define DELTOP_BENCH_RECURRENCE_INPUTS_H

#include "bench/op.h"
#include "core/rows.h"

typedef struct recurrence_set {
    backend *be;
    steps s;
    mat state, o;
    step_rows rows;  // documents and boundary states of a case that has them; else nothing
    int64_t *starts; // rows.starts, owned
    recurrence_form form;
    const struct plugin_kernel *kernel; // NULL: the backend's operation
} recurrence_set;

// The shape of a case: heads folded, kinds of its operation.
head_shape recurrence_shape(const bench_case *c, decay_kind decay, erase_kind erase);

// T: tokens (a gate may want fewer than the case has). Keys and betas as the arguments say. Every
// fourth head hardly forgets; rates go up to 16 times that of the first head. Documents are cut at
// uniformly random tokens, so that many are short and few are long. False: *r is empty.
bool recurrence_make(recurrence_set *r, const bench_setup *set, head_shape s, int64_t T,
                     bench_keys keys, double beta_max, err *e);
void recurrence_free(recurrence_set *r);

// How many rows of states there are: of documents, or 1.
int64_t recurrence_docs(const recurrence_set *r);

// Tokens 0..T-1 (T at most the set's) of the first key_heads heads and their value heads, from the
// state that is there to the state behind them. Documents end where the tokens do.
void recurrence_call(recurrence_set *r, int64_t T, int key_heads);

#endif
