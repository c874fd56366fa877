// analyses/inspect.h - what a checkpoint is, from its headers: nothing is computed, no device is
// needed (fault B99).
//
// An inspection never fails because a model is odd: what the loader refuses, what the config does
// not say and what the files contradict become findings, and the tensors are listed all the same.
// Only files that cannot be read as safetensors are an error. Names are raw bytes as in the file:
// whoever prints them escapes them.
#ifndef DELTOP_INSPECT_H
#define DELTOP_INSPECT_H

#include "core/model.h"
#include "core/progress.h"

#include <stddef.h>
#include <stdint.h>

// Tensors of one name up to numbers, one dtype and one shape.
typedef struct tensor_group {
    char *pattern;    // "model.layers.#.attn.A_log"; the name itself when nothing was folded. owned
    const tensor *of; // the first member, in natural order
    int64_t n;        // members
    int64_t count;    // elements of all members
    size_t bytes;
    char numbers[64]; // values of the first folded number: "0-2,5", cut with "..."; "" = not folded
    int64_t *number;  // the same as a list [n], owned; NULL = not folded
} tensor_group;

typedef struct tensor_groups {
    tensor_group *v; // owned
    size_t n, cap;
} tensor_groups;

// Groups the tensors i with take[i] (NULL: all), in the natural order of their first members. The
// first part of a name that is a number becomes "#"; a second one (experts) only when more than
// four groups become one by it. unfolded: one group a tensor.
bool inspect_fold(const ckpt *c, const bool *take, bool unfolded, tensor_groups *out, err *e);
void tensor_groups_free(tensor_groups *g);
// Ascending numbers as "0-2,5".
char *inspect_ranges(const int64_t *v, size_t n, char *buf, size_t size);

// Keys that training and export libraries write into every config and that say nothing about what the
// model computes.
bool inspect_routine_key(const char *key);

// Shell pattern on a whole name, bytewise: * (any run, dots too), ?, [a-c], [!a-c], \x.
bool inspect_glob(const char *pattern, const char *name);

// Population figures of the finite values of one tensor. A quantile p is the element of rank
// ceil(p n): a value that stands in the tensor, never a mean of two (F64: rounded to float).
typedef struct tensor_stats {
    bool read;      // false: the dtype is no float type, nothing below is filled
    int64_t finite; // 0: the figures are NaN
    int64_t nan, inf;
    double min, q01, q50, q99, max, mean, std;
} tensor_stats;

// Reads the tensor twice, in pieces: memory does not depend on its size.
bool inspect_stats(const ckpt *c, const tensor *t, tensor_stats *s, progress_fn progress, void *ctx,
                   int64_t done, int64_t total, err *e);

typedef struct dtype_total {
    const char *type; // the file's word
    int64_t tensors, count;
    size_t bytes;
} dtype_total;

// Layers whose branch has one kind and one shape.
typedef struct layer_kind {
    const module *body; // of the first layer
    char layers[64];    // "0-2,5"
    int n;
    int64_t state_bytes; // of one layer: H K V 4, whatever n_h is (fault B117); 0 for attention
    int64_t carry_count; // other elements that one layer carries: convolution tails, fixed windows
    int64_t growing;     // columns of carries that grow with the row (attention without a window)
} layer_kind;

typedef struct tokenizer_facts {
    char *path;   // what was looked at, owned; NULL: no tokenizer beside the model
    size_t bytes; // of the file
    bool loaded;  // false: only its beginning was scanned for the kind
    char kind[64];
    int32_t size, bos, eos; // size 0: not known; -1: none
    char adds[128];         // ids that it puts around a text, "" = none
    name_list special;      // "<s> (1)"
} tokenizer_facts;

typedef struct finding {
    bool wrong; // counts under --strict
    char *text; // owned; printable
} finding;

// A tensor that the family needs and the file lacks, layers folded.
typedef struct missing_group {
    char *pattern; // owned
    int64_t n;
    char numbers[64];
    char nearest[256]; // a name in the file, "" = nothing is near
} missing_group;

typedef struct inspect_options {
    const char *const *include, *const *exclude; // globs; without include: all
    size_t n_include, n_exclude;
    bool full;         // tensors one by one; the tokenizer is loaded however large
    bool tokenizer;    // load the tokenizer however large
    bool no_tokenizer; // do not look at it at all
    bool stats;
    progress_fn progress; // for stats
    void *progress_ctx;
} inspect_options;

typedef struct inspection {
    ckpt *c;
    config *cfg;         // NULL: none beside the file, or broken
    model *m;            // NULL: family unknown, or refused (then a finding says why)
    char type[64];       // model_type, "" = not known
    const char *nearest; // closest known family when `type` is not known here, else NULL
    const char *summary; // of the family; NULL when not known
    // As the config has them, also for unknown families; -1 = it has none.
    int64_t layers, hidden, n_vocab, train_length, bos, eos;
    const tensor *embedding; // by its name; NULL when nothing looks like one

    int64_t parameters;
    size_t bytes;
    dtype_total dtype[24];
    int n_dtypes;
    layer_kind *kind; // mixers, attention and MLPs apart; owned
    size_t n_kinds;

    bool *selected; // [ckpt_count] by the globs
    int64_t n_selected;
    tensor_groups groups;   // selected ones
    tensor_groups leftover; // that nothing reads; empty without a model
    missing_group *missing; // owned
    size_t n_missing, cap_missing;
    const char **unread; // config keys that nothing asked for, sorted; owned array, lent strings
    int n_unread, n_routine; // n_routine more are book-keeping of training and export libraries
    finding *finding;
    size_t n_findings, cap_findings;
    tokenizer_facts tokenizer;
    tensor_stats *stats; // [ckpt_count], NULL unless asked for; owned
} inspection;

// *x is zeroed first; on failure it is empty.
bool inspect_open(inspection *x, const char *path, const inspect_options *o, err *e);
void inspect_close(inspection *x);
// True when --strict should fail: a wrong finding, something missing or left over.
bool inspect_is_wrong(const inspection *x);
// For the parts of an inspection: adds a finding; printf text.
bool inspect_note(inspection *x, bool wrong, err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// The tokenizer beside PATH (a model folder or file).
bool inspect_tokenizer(inspection *x, const char *path, bool load, err *e);

// What a run needs, in bytes.
typedef struct memory_need {
    int64_t length, block; // tokens
    int64_t weights;       // in the precision
    int64_t carries;       // states (float32 or better), convolution tails, attention windows
    int64_t activations;   // an estimate: every projection of the widest branch over one block
    int64_t losses;        // float64 a token
    int64_t loading;       // for a moment while loading: the largest tensor as float64
    int64_t total;         // without `loading`
    int64_t erank;         // what `erank` adds: float64 a layer, head and token
} memory_need;
// False when there is no model to run.
bool inspect_need(const inspection *x, precision p, int64_t length, int64_t block, memory_need *n);

#endif
