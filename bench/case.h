// bench/case.h - what is measured: an operation and a value on each of its axes.
//
// A case is written in words, in suites and on the command line alike:
//
//     gdn B=1 T=32768 H=16 Hv=32 K=128 V=128 dtype=bf16
//
// and a list of values on an axis ("T=1k,4k,16k") stands for one case each. Its name is the same
// without blanks: gdn.B1.T32768.H16.Hv32.K128.V128.bf16.cuda. Two cases are the same when all their
// parameters are (bench/record.h), whatever their order.
#ifndef DELTOP_BENCH_CASE_H
#define DELTOP_BENCH_CASE_H

#include "core/err.h"
#include "core/precision.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    AXIS_B,  // rows (sequences)
    AXIS_T,  // tokens of a row
    AXIS_H,  // key heads
    AXIS_HV, // value heads; as many as key heads unless said
    AXIS_K,
    AXIS_V,
    AXIS_N,     // micro-steps per token
    AXIS_D,     // width of a row
    AXIS_VOCAB, // rows of the head
    AXIS_W,     // taps of a convolution, tokens of a window
    AXIS_BETA,  // largest write strength
    AXIS_KEYS,  // directions of keys
    AXIS_INPUT, // zeros run faster than numbers do (fault B134)
    AXIS_FORM,  // the step form or the chunk form of a recurrence
    AXIS_DOCS,  // documents that the tokens of a row are cut into
    AXIS_EVERY, // tokens from one boundary state to the next; 0: none
    AXIS_DTYPE,
    AXIS_DEVICE,
    AXIS_THREADS, // on the CPU
    N_AXES
} axis_id;

typedef enum { BENCH_KEYS_RANDOM, BENCH_KEYS_CORRELATED, BENCH_KEYS_SAME } bench_keys;
typedef enum { INPUT_RANDOM, INPUT_ZEROS } input_kind;
typedef enum { DTYPE_F32, DTYPE_TF32, DTYPE_BF16, DTYPE_F64 } case_dtype; // as enum precision
typedef enum { ON_CPU, ON_CUDA } case_device;

typedef struct axis_spec {
    const char *name;    // "Hv"
    const char *choices; // "random|correlated|same"; NULL: a number
    int64_t lo, hi;
    const char *help;
} axis_spec;
extern const axis_spec bench_axes[N_AXES];

#define AXIS_UNSET INT64_MIN
#define BIT(axis)  (1u << (axis))

typedef struct bench_op bench_op; // bench/op.h

typedef struct bench_case {
    const bench_op *op;
    int64_t at[N_AXES]; // AXIS_UNSET: the operation has no such axis
    const char *impl;   // "deltop", or "PLUGIN:KERNEL"; lent
    const char *model;  // path, "" for operations without one; lent
    char model_id[24];  // what the model holds: the beginning of its SHA-256
    bool values_named;  // Hv was named: it does not follow H any more
} bench_case;

enum { CASE_NAME = 256 };
char *case_name(const bench_case *c, char *buf, size_t size); // returns buf
// All parameters as an object: {"op": "gdn", "B": 1, ..., "dtype": "bf16"}. NULL: no memory.
json_t *case_params(const bench_case *c);

// bytes of an activation's element
int case_esize(const bench_case *c);
// "f32" and "4k" alike: ERR_USAGE names axis, value and what is allowed.
bool axis_value(axis_id axis, const char *text, int64_t *out, err *e);
const char *axis_choice(axis_id axis, int64_t value); // NULL for a number

typedef struct case_list {
    bench_case *v;
    size_t n, cap;
} case_list;
void case_list_free(case_list *l);
// Adds the cases of a line like the one above, equal ones once.
bool case_list_read(case_list *l, const char *line, err *e);
// The case that a row's parameters name ({"op": "gdn", "T": 512 ...}); what names none of this program
// (another program's kernel, a model) adds nothing.
bool case_list_params(case_list *l, const json_t *params, err *e);
bool case_list_add(case_list *l, const bench_case *c, err *e);
// "NAME=LIST": every case that has the axis is replaced by one for each value.
bool case_list_axis(case_list *l, const char *text, err *e);
// Whether a case of the list has the axis of such a text ("op=..." belongs to all).
bool case_list_has_axis(const case_list *l, const char *text);
// Keeps what a pattern fits: shell wildcards over the whole name, or a part of it without any.
void case_list_match(case_list *l, const char *const *pattern, size_t n);

// Suites (bench/suites.c) -----------------------------------------------------------------------
typedef struct bench_suite {
    const char *name, *summary;
    const char *const *lines; // NULL at the end; no list: of a model (bench/model_cases.h)
    double seconds;           // for all its cases together on a CPU
    bool cpu_only;            // not worth a GPU: cases lie on the CPU whatever --device says
} bench_suite;
extern const bench_suite bench_suites[];
extern const size_t n_bench_suites;
const bench_suite *bench_suite_find(const char *name, err *e); // NULL: ERR_USAGE lists them

#endif
