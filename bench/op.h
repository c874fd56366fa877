// bench/op.h - an operation that can be measured: how its inputs are made, how it is called, what a
// right result is, and what it costs at least.
//
// One file bench/op_NAME.c per kind of operation and one line in bench/ops.c. Inputs and results lie
// on the backend; an operation knows no clock and prints nothing.
#ifndef DELTOP_BENCH_OP_H
#define DELTOP_BENCH_OP_H

#include "bench/case.h"
#include "core/backend.h"

// What the gate found. Errors are relative L2 distances from the float64 result.
typedef struct bench_gate {
    double error;       // of the outputs
    double state_error; // of final states; NaN: none
    double stress;    // the worse of outputs and final states with correlated and repeated keys and
                      // beta up to 2; NaN: not run
    double tolerance; // each of them must be at most this
    bool passed;
    char how[160];  // "3 heads, 16 of 128 columns, all 32768 tokens, against the float64 step form"
    char what[200]; // why it did not pass; ""
} bench_gate;

// The least that any implementation does.
typedef struct bench_cost {
    double flop;
    double bytes;     // read once, written once
    double chain;     // steps that follow one another (chunks of a row); 0: none
    double items;     // what a rate counts
    const char *item; // "tokens", "states"
} bench_cost;

typedef struct bench_setup {
    const bench_case *c;
    backend *be; // of the case's device and number format
    uint64_t seed;
    const struct plugin_kernel *kernel; // NULL: the backend's own (bench/plugin_load.h)
} bench_setup;

struct bench_op {
    const char *name, *summary;
    unsigned axes;     // BIT(AXIS_T) | ...; dtype, device and threads belong to all
    const char *usual; // "B=1 T=4096 ...": where nothing else is said
    int kind;          // the op file's own
    bool needs_model;
    // False: a combination of sizes that makes no sense, or one that the operation does not do.
    bool (*check)(const bench_case *c, err *e);
    void *(*prepare)(const bench_setup *s, err *e);
    // Queues the work once. share < 1: about that share of it (for the test of a slowed build).
    void (*run)(void *work, double share);
    bool (*gate)(void *work, bench_gate *g, err *e);
    void (*cost)(const bench_case *c, const void *work, bench_cost *out);
    const char *(*kernel)(const void *work); // what ran, after a run
    void (*free)(void *work);                // NULL is fine
    double (*bytes)(const bench_case *c);    // of inputs and outputs, for the plan of memory
};

extern const bench_op *const bench_ops[];
extern const size_t n_bench_ops;
const bench_op *bench_op_find(const char *name, err *e); // NULL: ERR_USAGE lists them

// A row of that table, of the file's own functions of these names; what not every file has follows
// (.bytes = bytes, ...).
#define BENCH_OP(name_, kind_, axes_, usual_, summary_, ...)                                       \
    const bench_op bench_op_##name_ = {.name = #name_,                                             \
                                       .summary = summary_,                                        \
                                       .kind = kind_,                                              \
                                       .axes = axes_,                                              \
                                       .usual = usual_,                                            \
                                       .prepare = prepare,                                         \
                                       .run = run,                                                 \
                                       .gate = gate,                                               \
                                       .cost = cost,                                               \
                                       .kernel = kernel,                                           \
                                       .free = release,                                            \
                                       __VA_ARGS__};

// What gates need: a matrix of one backend to another's of the same size, by way of v; nothing when
// there is none. And a relative L2 distance: squares of differences and of the reference are added up,
// then divided; NaN where nothing is there to compare with or something is not finite.
void bench_bring(backend *from, mat a, backend *to, mat b, double *v);
void bench_add_squares(const double *x, const double *ref, int64_t n, double *off, double *all);
double bench_relative(double off, double all);

// The recurrence that steps of this kind are (bench/op_recurrence.c); NULL: none of them.
const bench_op *bench_op_of_shape(const head_shape *s);

// Allowed error: bf16 keeps 8 bits, and the peers' kernels err by 4.4e-3 to 4.8e-3; float32 loses up
// to 6e-5 where keys repeat (kernels/chunk.h).
double bench_tolerance(const bench_case *c);
// Fills what follows from the errors: passed, and `what` when not.
void bench_judge(bench_gate *g);

#endif
