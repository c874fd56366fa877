// core/forward.h - reading a row of tokens, block by block, layer by layer.
//
// A row starts from zero states. The pass walks it in blocks of tokens; each block runs through all
// layers, carrying states, convolution tails and attention windows, so memory depends on the block
// and not on the document, and results do not depend on the block.
#ifndef DELTOP_FORWARD_H
#define DELTOP_FORWARD_H

#include "core/arena.h"
#include "core/model.h"
#include "core/progress.h"

// What an analysis may be told. Unset callbacks cost nothing. A callback that returns false (with
// *e filled) stops the pass.
typedef struct probe {
    void *ctx;
    // Before the recurrence of a linear mixer: its steps and the state [H*K, V] it starts the block
    // from. t0 = position of the block's first token in the row. An intervention may write into the
    // steps' matrices (analyses/words/read.c cuts beta): the recurrence and later probes see it.
    bool (*on_steps)(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e);
    // After each branch list of a layer: the residual stream [T, D]; layer -1 is the embedding.
    bool (*on_hidden)(void *ctx, int layer, int64_t t0, mat x, backend *be, err *e);
    // loss[i] in nats of token t0 + i + 1 given those before it; NaN where there is no next token.
    // best[i]: the id that the model held for most likely there.
    bool (*on_loss)(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e);
    // logits [n_vocab] behind the row's last token, which is token t.
    bool (*on_logits)(void *ctx, int64_t t, const double *logits, int64_t n_vocab, err *e);
    // The state [H*K, V] after the row's last token, once per linear mixer.
    bool (*on_final_state)(void *ctx, int layer, mat state, backend *be, err *e);
    // What the head reads: y [T, D], normed and scaled. Logits of token t0 + i + 1 are y[i] head^T, head
    // [n_vocab, D]: whoever wants them makes a tile at a time (analyses/kl.h). y is the pass's own.
    bool (*on_output)(void *ctx, int64_t t0, mat y, mat head, backend *be, err *e);
} probe;

enum { FWD_SLOTS = 4 };

typedef struct fwd fwd;
struct fwd {
    const model *m;
    backend *be;
    arena *tmp;          // until the branch ends
    arena *kept;         // until the block ends
    mat left[FWD_SLOTS]; // what layers left for later layers of the block
    int64_t block;       // tokens per block
    int64_t longest;     // tokens of the longest row (sizes full-attention carries)
    mat *carry;          // [modules * MODULE_MAX_CARRY]
    int n_modules;
    // Valid while a block runs:
    int64_t pos; // tokens of the row before this block, since the last reset of the state
    int64_t t0;  // position in the row of the block's first token
    int64_t T;   // tokens of the block
    int layer;
    const module *onto_for; // the body whose output may go straight onto the residual stream
    mat onto;
    double onto_scale;
    const probe *const *probes;
    int n_probes;
    err fail;              // first failure of a probe
    struct fwd_reading *r; // the row between fwd_begin and fwd_end
};

// A value head: layer and head count from 0.
typedef struct head_ref {
    int layer, head;
} head_ref;

typedef struct row_options {
    int32_t reset_id;      // the state is emptied before every token with this id; -1: never
    const int64_t *starts; // further positions where the state is emptied (document starts)
    int64_t n_starts;
    const head_ref *off; // ablated heads: their read-outs o_t are zero; states go on as before
    int n_off;
} row_options;

// block: tokens at a time; 0: as many as repay it on the model's backend and fit into the memory that
// is free there, whoever else uses it. longest: an upper bound of the tokens of a row. The model is
// borrowed and must have a backend. NULL: *e is filled.
fwd *fwd_new(const model *m, int64_t block, int64_t longest, err *e);
void fwd_free(fwd *f); // NULL is fine

// Reads ids[0..n) from a zero state. opt, progress and its ctx may be NULL; starts ascend. Ids
// outside the embedding are an error that names position and id (fault B77).
bool fwd_row(fwd *f, const int32_t *ids, int64_t n, const row_options *opt,
             const probe *const *probes, int n_probes, progress_fn progress, void *progress_ctx,
             err *e);

// The same in pieces, for whoever reads on later, goes back, or shares its time with other work.
// fwd_begin: a row at its first token, zero states; ids and opt are borrowed until fwd_end.
// fwd_block reads the next block of at most `most` (>= 1, at most the fwd's block) tokens; nothing
// once the row is over. layers: only the first so many layers are run, and no losses are computed
// below info.n_layers; whoever does that goes back with fwd_return before reading on.
bool fwd_begin(fwd *f, const int32_t *ids, int64_t n, const row_options *opt, err *e);
bool fwd_block(fwd *f, int64_t most, int layers, const probe *const *probes, int n_probes, err *e);
int64_t fwd_tokens(const fwd *f); // of the row, read so far
// Tells on_final_state as fwd_row does at the row's end.
bool fwd_final_states(fwd *f, const probe *const *probes, int n_probes, err *e);
void fwd_end(fwd *f);

// A place in the row to come back to: copies of all that is carried there, in the backend's memory.
// Full attention's rows are copied only where states are emptied inside the row; otherwise they
// stay where they are, and going back overwrites them with the same numbers.
typedef struct fwd_point fwd_point;
fwd_point *fwd_point_new(fwd *f, err *e); // of the place where f is
bool fwd_return(fwd *f, const fwd_point *p, err *e);
int64_t fwd_point_tokens(const fwd_point *p);
void fwd_point_free(fwd_point *p); // NULL is fine; before its fwd
int64_t fwd_point_bytes(const fwd *f);

// False, ERR_USAGE, when a head of the list is not there: "layer 3 is attention ...".
bool fwd_check_heads(const model *m, const head_ref *off, int n, err *e);

// For modules ---------------------------------------------------------------------------------
mat fwd_tmp(fwd *f, int64_t rows, int64_t cols); // scratch until the branch ends
// The same in the backend's exact element: for decays, and what they are made from.
mat fwd_tmp_exact(fwd *f, int64_t rows, int64_t cols);
mat fwd_carry(fwd *f, const module *m, int i); // the i-th carry that m declared
// Leaves a copy of x for later layers of the same block (RWKV-7: the values of its first layer), in
// one of FWD_SLOTS places; fwd_left is MAT_NONE before.
void fwd_leave(fwd *f, int slot, mat x);
mat fwd_left(const fwd *f, int slot);
// y = x w^T in fresh scratch
mat fwd_linear(fwd *f, mat x, mat w, mat bias);
// y = act(scale x gate^T) * (x up^T) with gate the upper and up the lower half of w's rows, in fresh
// scratch. MAT_NONE: the failure is in the backend.
mat fwd_linear_gated(fwd *f, mat x, mat w, activation act, double scale);
// As fwd_linear for gates, betas and decays, which are never rounded below float32.
mat fwd_linear_exact(fwd *f, mat x, mat w, mat bias);
// Short convolution with its carried tail (index into the module's carries) into fresh scratch;
// without weights (w none) only the activation.
mat fwd_conv(fwd *f, const module *m, int tail, mat x, mat w, mat bias, activation act);
// n convolutions with their activations and head norms over neighbouring columns of x, in the order of
// the parts: y of each in fresh scratch unless it is set (clear it for each block), its tail brought up
// to date. One part may lack weights: then y is x, activated and normed in place. False: the failure is
// in the backend.
bool fwd_conv_heads(fwd *f, mat x, conv_part *part, int n);
// The same over the columns of x w^T, which are not kept.
bool fwd_linear_conv(fwd *f, mat x, mat w, conv_part *part, int n);
// The last product of module m's body: y = x w^T + bias. Where m is the body of the running branch and
// the backend can, it goes straight onto the residual stream, and y stays as it is: call it last.
void fwd_output(fwd *f, const module *m, mat x, mat w, mat bias, mat y);
// Shows the steps to the probes, then runs the recurrence on the module's state: o [T, H*V].
mat fwd_recur(fwd *f, const module *m, const steps *s);

#endif
