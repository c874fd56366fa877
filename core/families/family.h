// core/families/family.h - what a family file offers, and the tools it builds a model with.
//
// One file per family: which tensors under which names (old and new), which defaults, and how
// inputs become steps. A family never knows another one. Its file ends in one `const family`, and
// core/families/table.c has one line for it.
#ifndef DELTOP_FAMILY_H
#define DELTOP_FAMILY_H

#include "core/model.h"

typedef struct builder builder;

typedef struct family {
    const char *names[4]; // model_type values, today's first
    const char *summary;  // "DeltaNet: delta rule, one key per token"
    bool (*build)(builder *b, err *e);
    // Optional: a config without model_type is this family's.
    bool (*claims)(const config *cfg);
    // Optional: the sizes, when the config has them under other keys than family_sizes reads.
    bool (*sizes)(const config *cfg, model_info *i, err *e);
} family;

extern const family *const families[]; // NULL-terminated
// NULL when unknown; *nearest (NULL allowed) is the closest known name.
const family *family_find(const char *model_type, const char **nearest);
// The config's model_type, or the first name of the family that claims it, or NULL. false: *e.
bool family_type(const config *cfg, const char **type, err *e);
// hidden_size, num_hidden_layers, vocab_size, max_position_embeddings into D, n_layers, n_vocab,
// train_length.
bool family_sizes(const config *cfg, model_info *i, err *e);
// A token id; of a list, as some configs have for their end tokens, the first counts. -1: none.
bool family_token(const config *cfg, const char *key, int32_t *out, err *e);

// Building --------------------------------------------------------------------------------------

struct builder {
    const config *cfg;
    const ckpt *ck;
    backend *be; // NULL: names and shapes only
    model *m;    // being filled
    const char *family;
    int layer;            // current layer, for messages; -1 outside
    bool *used;           // [ckpt_count]
    model_wants_fn wants; // NULL, or told of every tensor the file lacks
    void *wants_ctx;
};

// A weight [rows, cols]; a 1-D tensor is taken as [1, n]. Every shape that says the same is
// accepted ([D, 1, w] convolutions, [1, 1, H, 1] gates) as long as dims other than 1 agree. NaN or
// Inf in it is an error that names the tensor and counts them (fault B15). On a missing tensor see
// model_open. false: *e is filled.
bool build_weight(builder *b, mat *out, int64_t rows, int64_t cols, const char *name, err *e);
// Rows first..first+rows of a tensor that has `total` rows: parts of a fused matrix.
bool build_rows(builder *b, mat *out, int64_t first, int64_t rows, int64_t total, int64_t cols,
                const char *name, err *e);
// n tensors PREFIX.0SUFFIX, PREFIX.1SUFFIX ... of [rows, cols] each, one under the other (fault
// B19).
bool build_stack(builder *b, mat *out, int n, int64_t rows, int64_t cols, const char *prefix,
                 const char *suffix, err *e);
// n blocks of `rows` rows, the i-th from row first + i stride on, of a tensor of n stride rows: the
// parts of a matrix that is fused per head.
bool build_blocks(builder *b, mat *out, int64_t n, int64_t first, int64_t rows, int64_t stride,
                  int64_t cols, const char *name, err *e);
// Rows first..first+rows of the n tensors `names`, one under the other, which have `total` rows
// together, cut wherever.
bool build_joined(builder *b, mat *out, int64_t first, int64_t rows, int64_t total, int64_t cols,
                  const char *const *names, int n, err *e);
// A weight that is stored as its difference from 1.
bool build_offset(builder *b, mat *out, int64_t rows, int64_t cols, const char *name, err *e);
// One 3-D tensor [n, total, cols]: rows first..first+rows of each of its n matrices, one under the
// other: out [n * rows, cols]. All experts of a layer in one tensor.
bool build_slab(builder *b, mat *out, int64_t n, int64_t first, int64_t rows, int64_t total,
                int64_t cols, const char *name, err *e);
// A tensor [rows, cols] as numbers on the host, checked like a weight; free() it. NULL and true
// when the model is only inspected (or the tensor missing then).
bool build_numbers(builder *b, double **out, int64_t rows, int64_t cols, const char *name, err *e);
// A weight [rows, cols] that the family computed itself; none when the model is only inspected.
bool build_constant(builder *b, mat *out, int64_t rows, int64_t cols, const double *v, err *e);
// Weights that the same rows are multiplied with become one: *out holds the n parts one under the
// other, and the parts become views of it, to be freed with it. Parts that differ in columns or
// element, or are none (inspection), stay as they are, and *out is none.
bool build_pack(builder *b, mat *out, mat *const *part, int n, err *e);
// PREFIX.NAME into buf; returns buf.
const char *build_name(char *buf, size_t size, const char *prefix, const char *name);
// Puts family and layer in front of a message. Returns false.
bool build_where(const builder *b, err *e);
// Is there such a tensor? The name is built as by printf.
bool build_has(const builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Marks a tensor as known but unused (dead weights) and says so in the notes once per kind.
void build_dead(builder *b, const char *why, const char *name);
// Marks all tensors PREFIX* as belonging to something that no text passes through, and counts them
// in a note (fault B38).
bool build_skip(builder *b, const char *prefix, const char *what, err *e);
// Rows and columns of a 2-D tensor (0, 0 when absent).
void build_shape(const builder *b, const char *name, int64_t *rows, int64_t *cols);
// A sentence for `inspect` and for standard error.
bool build_note(builder *b, err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// A flag whose truth is also visible in the file: the config's value, or the tensor's presence when
// the config is silent; a contradiction is an error (fault B21). keys: up to two names, today's
// first.
bool build_switch(builder *b, const char *key, const char *old_key, const char *tensor, bool *out,
                  err *e);
// The eps of all norms, from KEY: 0 <= eps < 1.
bool build_eps(builder *b, const char *key, double otherwise, err *e);
// PREFIX.weight (and PREFIX.bias) of a norm of the residual stream.
bool build_norm(builder *b, row_norm *out, norm_kind kind, bool bias, const char *prefix, err *e);
void build_norm_free(builder *b, row_norm *n);
// Appends a branch to a layer; takes body, and on success the norms. build_branch: RMS norms.
bool build_branch(builder *b, int layer, mat pre_norm, mat post_norm, double scale, module *body,
                  err *e);
bool build_branch_norms(builder *b, int layer, row_norm pre_norm, row_norm post_norm, double scale,
                        module *body, err *e);
// The same for a body that reads what the branch before it read, after that one's norm: mixers side
// by side.
bool build_beside(builder *b, int layer, double scale, module *body, err *e);
// The head: lm_head.weight, or the embedding (read before, under EMBED) when TIE_KEY says so. Flag
// and file must agree: a tied model may hold a second copy but no other head (fault B11). otherwise:
// for a config without the key.
bool build_head(builder *b, const char *tie_key, bool otherwise, const char *embed, err *e);
// The same for a head of another name.
bool build_head_named(builder *b, const char *tie_key, bool otherwise, const char *embed,
                      const char *head, err *e);

#endif
