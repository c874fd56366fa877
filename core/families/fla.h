// core/families/fla.h - the skeleton that all of flash-linear-attention's language models share.
//
//     model.embeddings, model.layers.N.{attn_norm, attn, mlp_norm, mlp}, model.norm, lm_head
//
// with the older names of faults.md C2 (attn.norm and mlp.norm as pre-norms, fused MLP gate), tied
// and untied heads, and hybrids: the config's `attn` lists layers that hold softmax attention.
#ifndef DELTOP_FLA_H
#define DELTOP_FLA_H

#include "core/families/family.h"

// Makes the mixer of one layer from the tensors PREFIX.* ("model.layers.3.attn").
typedef module *(*fla_mixer)(builder *b, const char *prefix, err *e);

bool fla_build(builder *b, fla_mixer mixer, err *e);

// A model that departs from the skeleton's RMS norms and gated MLP.
typedef struct fla_layout {
    fla_mixer mixer;
    fla_mixer ffn;        // makes the second branch from PREFIX.* ("model.layers.3.ffn")
    const char *ffn_name; // "mlp", "ffn"; its norm is NAME_norm
    norm_kind norm;       // of all norms of the residual stream
    bool norm_bias;
    double eps; // of the norms when the config is silent
} fla_layout;
bool fla_build_layout(builder *b, const fla_layout *how, err *e);

// What delta-rule mixers have in common: projections, short convolutions, output norm. A part that
// the model lacks is MAT_NONE.
typedef struct fla_heads {
    mat qkv;                          // q, k and v in one, which are its rows then; or none
    mat q, k, v, b;                   // projections; k, v, b with n_h times the rows
    mat q_conv, k_conv, v_conv;       // [channels, width]
    mat q_conv_b, k_conv_b, v_conv_b; // [1, channels]
    mat o_norm;                       // [1, V]
    mat g, g_bias;                    // output gate, one matrix
    mat o;                            // [D, H * V]
    int q_tail, k_tail, v_tail;       // carries
    double eps;                       // of o_norm
    activation gate_act;              // of the output gate
} fla_heads;

typedef struct fla_options {
    bool conv, gate; // short convolution, output gate in one matrix (g_proj.weight)
    int64_t width;   // of the convolution
} fla_options;

// Reads q_proj, k_proj, v_proj, b_proj (when beta_max > 0), *_conv1d, o_norm, g_proj, o_proj for
// the sizes in s, and declares the carries of m (state and tails). n_h > 1 reads fused step-major
// tensors or, when the file has them, the lists k_projs.j ... of the DeltaProduct authors (B19).
bool fla_heads_bind(fla_heads *h, module *m, builder *b, const char *prefix, const head_shape *s,
                    const fla_options *opt, err *e);
// The part of it that reads nothing: shape, state, and tails when opt has a convolution.
void fla_heads_declare(fla_heads *h, module *m, const head_shape *s, const fla_options *opt,
                       double eps);
// And the parts that read: q_proj, k_proj, v_proj and b_proj; o_norm, g_proj (gate) and o_proj.
bool fla_heads_project(fla_heads *h, builder *b, const char *prefix, const head_shape *s, err *e);
bool fla_heads_bind_output(fla_heads *h, builder *b, const char *prefix, const head_shape *s,
                           bool gate, err *e);
void fla_heads_free(fla_heads *h, backend *be);
// What follows the convolution of q and k: an activation (SiLU everywhere but in some DeltaNets) and a
// norm over heads.
typedef struct fla_qk {
    activation act;
    head_norm norm;
    double eps;
} fla_qk;
#define FLA_QK_PLAIN ((fla_qk){ACT_SILU, HEAD_NORM_NONE, 0})
#define FLA_QK_L2    ((fla_qk){ACT_SILU, HEAD_NORM_L2, 1e-6})
// q, k, v after projection, convolution, activation and the norm of q and k; beta; into *s (T, shape,
// q, k, v, beta).
void fla_heads_steps(fla_heads *h, const module *m, struct fwd *f, mat x, fla_qk qk, steps *s);
// y = W_o (rms_norm(o) * act(gate)); gate none: plain norm. _x: the gate is g x, where there is a g.
void fla_heads_output(fla_heads *h, const module *m, struct fwd *f, mat o, mat gate, mat y);
void fla_heads_output_x(fla_heads *h, const module *m, struct fwd *f, mat o, mat x, mat y);

// The scalar forget gate of a value head: g = exp(-exp(A_log) softplus(a_proj x + dt_bias)).
typedef struct fla_gate {
    mat a;              // [H, D]
    mat a_log, dt_bias; // [1, H]
} fla_gate;
bool fla_gate_bind(fla_gate *g, builder *b, const char *prefix, int64_t H, err *e);
void fla_gate_free(fla_gate *g, backend *be);
// log g [T, H]
mat fla_gate_run(fla_gate *g, struct fwd *f, mat x);

// The body of every mixer with a gated delta rule (R07) or product (R12, R13): q, k, v, beta, norms of
// q and k, decay, recurrence, gated output norm. Made empty; whoever makes it fills h, and decay where
// heads.decay says so, and frees it through base.free when that fails.
typedef struct fla_gated {
    module base;
    fla_heads h;
    fla_gate decay; // DECAY_HEAD only
} fla_gated;
fla_gated *fla_gated_new(err *e);

// The body of Kimi Delta Attention (R08), made empty like fla_gated. The decay's and the output
// gate's matrices are low-rank pairs.
typedef struct fla_kda {
    module base;
    fla_heads h;
    mat f0, f1;          // [r, D], [H * K, r]
    mat g0, g1, g1_bias; // [r, D], [H * V, r], [1, H * V]
    mat a_log, dt_bias;  // [1, H] (none: exp(A_log) = 1), [1, H * K]
    double lower_bound;  // NaN: softplus gate
} fla_kda;
fla_kda *fla_kda_new(err *e);
// PREFIX.ONE.weight [r, D] and PREFIX.TWO.weight [out, r].
bool fla_kda_pair(builder *b, const char *prefix, const char *one, const char *two, int64_t out,
                  mat *first, mat *second, err *e);

// num_heads, num_v_heads, head_dim, expand_v and allow_neg_eigval of the gated families into *s,
// checked against each other; conv and width into *opt. decay and erase are the caller's.
bool fla_head_sizes(builder *b, int64_t heads, int64_t head_dim, double expand_v, head_shape *s,
                    fla_options *opt, err *e);

// The gated delta rule's sizes from the linear_* keys of Hugging Face's hybrids, with beta below 1.
bool fla_linear_sizes(builder *b, head_shape *s, fla_options *opt, err *e);

// Sizes of a head where the config multiplies hidden_size: K = expand_k D / H, V = expand_v D / H.
bool fla_expanded(builder *b, double expand_k, double expand_v, int64_t H, int64_t *K, int64_t *V,
                  err *e);

#endif
