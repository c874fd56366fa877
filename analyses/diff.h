// analyses/diff.h - what is different between the tensors of two checkpoints.
//
// Tensors are matched by name; in which files they lie and in which order does not matter. Each one is
// in one of five classes:
//
//     equal         the same type, shape and bits
//     differs       comparable, but type, shape or values are not the same
//     missing       only A has it
//     extra         only B has it
//     incompatible  another number of elements, or types that cannot be compared
//
// Values are compared as they are stored (float64 holds all of them exactly), in their order in memory.
// Files are read in pieces: memory does not depend on a tensor's size. Sums are in float64 and do not
// depend on the number of threads.
#ifndef DELTOP_DIFF_H
#define DELTOP_DIFF_H

#include "core/ckpt.h"
#include "core/progress.h"

#include <stdint.h>

typedef enum {
    DIFF_EQUAL,
    DIFF_DIFFERS,
    DIFF_MISSING,
    DIFF_EXTRA,
    DIFF_INCOMPATIBLE,
    DIFF_CLASSES,
} diff_class;
const char *diff_class_name(diff_class c); // "equal", "differs" ...

// Two lists of elements a, b, compared one by one. Pairs in which either is NaN or infinite are left out
// of all but the counts.
typedef struct value_diff {
    int64_t changed;    // elements that are not the same number
    int64_t not_finite; // pairs with a NaN or an infinity in A or in B
    double norm_a, norm_b;
    double l2;      // |a - b|
    double cosine;  // a.b / (|a| |b|); NaN when one is zero
    double largest; // max |a_i - b_i|
    int64_t at;     // the first i that has it; -1: none differs
    double a_at, b_at;
} value_diff;

typedef struct tensor_diff {
    const char *name; // lent by a checkpoint; may hold any bytes
    diff_class how;
    const tensor *a, *b; // lent; NULL: it has none
    bool retyped;        // the types differ
    bool reshaped;       // the shapes differ, with as many elements
    bool
        transposed; // they agree better (or at all) with B's sides swapped: then so were they compared
    bool measured; // v is filled: values of float types that are not the same bits
    value_diff v;
    // Missing: a tensor of B with the same type, shape and bits; extra: one of A. NULL: there is none.
    const tensor *twin;
    // The twin's name is in both files with these bits: the same weights, stored once here and twice
    // there. Otherwise the tensor has another name.
    bool stored_once;
} tensor_diff;

typedef struct ckpt_diff {
    tensor_diff *v; // owned; natural order of the names
    size_t n;
    int64_t count[DIFF_CLASSES];
    int64_t elements[DIFF_CLASSES]; // of A, of B for extra ones
    int64_t retyped, reshaped, stored_once, renamed;
    int64_t left_out; // names that the globs do not take
} ckpt_diff;

typedef struct diff_options {
    const char *const *include, *const *exclude; // globs on whole names; without include: all
    size_t n_include, n_exclude;
    progress_fn progress; // bytes; may be NULL
    void *progress_ctx;
} diff_options;

// a and b must outlive the result. On failure *out is empty.
bool ckpt_diff_make(const ckpt *a, const ckpt *b, const diff_options *o, ckpt_diff *out, err *e);
void ckpt_diff_free(ckpt_diff *d); // an empty one is fine
// Nothing is different: all equal.
bool ckpt_diff_same(const ckpt_diff *d);

// Keys of the two configs that do not have the same value; keys of objects inside are joined by dots. What
// training and export libraries note about themselves (inspect_routine_key) and keys that are null on one
// side and absent on the other are no difference.
typedef struct config_change {
    char *key;   // owned; may hold any bytes
    char *a, *b; // as in the file, cut when long; "" = absent. owned
} config_change;
typedef struct config_diff {
    config_change *v; // sorted by key
    size_t n, room;
    size_t taken;      // keys that the globs take, equal ones too
    bool has_a, has_b; // there is a config.json; without both nothing is compared
} config_diff;
// a, b: paths of models. The globs choose among "config:KEY". On failure *out is empty.
// analyses/diff_config.c
bool config_diff_make(const char *a, const char *b, const diff_options *o, config_diff *out,
                      err *e);
void config_diff_free(config_diff *d); // an empty one is fine

// Tensors that are different in the same way and whose names agree up to numbers: "layers.#.up.weight".
typedef struct diff_group {
    char *pattern;            // owned; the name itself for a single tensor
    const tensor_diff *first; // class, types and shapes are those of all
    int64_t n;
    char numbers[64]; // of the first number in the names: "0-2,5"; "" = there is none
    // Where values were compared, over all members:
    double norm_a, l2;       // of all elements together
    double cosine;           // the least
    const tensor_diff *most; // has the largest change; NULL: nothing changed
    int64_t most_number;     // the first number in its name
    int64_t changed, not_finite;
    int64_t *number; // [n] owned
} diff_group;
typedef struct diff_groups {
    diff_group *v; // in the order of their first members
    size_t n, room;
} diff_groups;
// unfolded: a group a tensor. On failure *out is empty. analyses/diff_fold.c
bool diff_fold(const ckpt_diff *d, bool unfolded, diff_groups *out, err *e);
void diff_groups_free(diff_groups *g); // an empty one is fine

// Decays that were rounded (fault B114). A pair of tensors called "...A_log" says how fast heads forget
// at a gate input of 0: g = exp(-exp(A_log) softplus(dt_bias)) a token, with the "...dt_bias" beside it (0
// without one) as each file has it; one decay a head, or a channel where dt_bias has more (Gated
// DeltaNet, Mamba-2: arXiv:2412.06464, arXiv:2405.21060). Bounded gates have another formula.
#define DIFF_DECAY_TOKENS 16384
typedef struct decay_diff {
    int64_t n;                   // decays compared
    double median_a, median_b;   // half-lives in tokens, ln 2 / -ln g
    double longest_a, longest_b; // of the decay that is slowest in A, and of the same one in B
    double kept;                 // of that one: what B keeps over 16384 tokens by what A keeps
    double largest;              // largest relative change of a half-life
    int64_t at;                  // where
} decay_diff;
// False: the tensor is no such pair (*ok stays true), or reading failed (*ok false, *e filled).
bool decay_diff_make(const ckpt *a, const ckpt *b, const tensor_diff *t, decay_diff *out, bool *ok,
                     err *e);

// Do the globs take this name?
bool diff_takes(const diff_options *o, const char *name);

// For the parts of a comparison ------------------------------------------------------------------

// Are the bits of two tensors of one type and size the same? *same; false: *e.
bool diff_same_bits(const ckpt *ca, const tensor *a, const ckpt *cb, const tensor *b, bool *same,
                    err *e);
// A number that equal bits share.
bool diff_mark(const ckpt *c, const tensor *t, uint64_t *mark, err *e);
// The values of two tensors with the same number of elements; transposed: a [m, n], b [n, m].
bool diff_values(const ckpt *ca, const tensor *a, const ckpt *cb, const tensor *b, bool transposed,
                 value_diff *out, err *e);
// Finds the twins of what is missing and extra. analyses/diff_twins.c
bool diff_twins(const ckpt *a, const ckpt *b, ckpt_diff *d, err *e);

#endif
