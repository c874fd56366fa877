// core/model.h - a trained model: sizes, weights on a backend, and the branches of its layers.
//
// A model never changes after opening; what changes while a document is read lives in
// core/forward.h.
// A layer is a list of residual branches (mixer, MLP ...), each
//
//     x <- x + scale * post_norm(body(pre_norm(x)))
//
// so pre-norm, post-norm and parallel layouts (`beside`) are the same loop. Which tensors a branch
// needs is known in core/families only.
#ifndef DELTOP_MODEL_H
#define DELTOP_MODEL_H

#include "core/backend.h"
#include "core/ckpt.h"
#include "core/config.h"
#include "core/module.h"

typedef struct model_info {
    char family[64]; // model_type as in the config
    int64_t D, n_vocab;
    int n_layers;
    int64_t train_length; // max_position_embeddings; 0 = the config names none
    int32_t bos, eos;     // -1 = none
    double norm_eps;
    bool tied; // the head is the embedding
} model_info;

typedef enum { NORM_RMS, NORM_LAYER } norm_kind;

// A norm of the residual stream.
typedef struct row_norm {
    mat w;    // [1, D]; none: no norm at all
    mat bias; // [1, D] or none (NORM_LAYER)
    norm_kind kind;
    double eps; // 0: the model's
} row_norm;

typedef struct branch {
    row_norm pre_norm, post_norm;
    double scale;
    module *body; // owned
    bool beside;  // reads what the branch before it read, which has a pre-norm
} branch;

enum { MODEL_MAX_BRANCHES = 4 };

typedef struct layer {
    branch branch[MODEL_MAX_BRANCHES];
    int n;
} layer;

// Names collected while loading; printed by `inspect`.
typedef struct name_list {
    char **v;
    size_t n, cap;
} name_list;

typedef struct model {
    model_info info;
    backend *be;                     // borrowed; NULL when opened for inspection
    mat embed;                       // [n_vocab, D]
    row_norm embed_norm;             // of the embedding, before layer 0; mostly none
    row_norm norm;                   // before the head
    mat head;                        // [n_vocab, D], the embedding again when tied
    double embed_scale, logit_scale; // factors on the embedding's rows and on the logits
    layer *layers;                   // info.n_layers
    // About the file, not about the model:
    name_list leftover; // tensors in the file that nothing read
    name_list missing;  // tensors the family needs and the file lacks (inspection only)
    name_list notes;    // sentences: stray files, old names, contradictions resolved
} model;

// Opens PATH (a folder or a .safetensors file beside its config). With a backend, weights are
// converted to its precision and copied to it; be = NULL checks names and shapes only. A missing
// tensor is an error that names family, tensor, layer and the nearest existing name; with be = NULL
// it is collected in `missing` instead. Nothing is ever filled by a default.
model *model_open(const char *path, backend *be, err *e);
// The same from parts that the caller opened and keeps.
model *model_load(const ckpt *c, const config *cfg, backend *be, err *e);
void model_free(model *m); // NULL is fine

// The tensors that a config asks for when there is no file yet: FN is told each name once or more, with
// n = 1 a matrix [rows, cols] (a vector has one row), else a tensor [n, rows, cols]. What a family
// makes depend on a tensor's presence, it decides by the config alone. ERR_UNSUPPORTED when a family
// leaves the cut of a matrix to its file.
typedef void (*model_wants_fn)(void *ctx, const char *name, int64_t n, int64_t rows, int64_t cols);
bool model_wants(const config *cfg, model_wants_fn fn, void *ctx, err *e);

// The mixer of layer L that has a recurrent state, or NULL (attention layers).
const module *model_mixer(const model *m, int L);
bool model_has_states(const model *m); // of any layer: is there a mixer?
// Bytes of the states that a row carries, in float32: the sum of 4 H K V. And of all that is carried
// (states, convolution tails, attention windows) at esize bytes an element; full attention, which
// carries a row per token, counts nothing there.
int64_t model_state_bytes(const model *m);
int64_t model_carry_bytes(const model *m, int esize);

bool name_list_add(name_list *l, err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void name_list_free(name_list *l);

#endif
