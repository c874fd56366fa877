// core/families/fla_group.h - what the linear attentions of flash-linear-attention share: fewer
// key/value heads than query heads, optional short convolutions, a norm and a gate after the read-out.
//
// Every query head has a state of its own: key/value head j serves the query heads j g .. j g + g - 1,
// so keys, values and decays are repeated g times before they become steps.
#ifndef DELTOP_FLA_GROUP_H
#define DELTOP_FLA_GROUP_H

#include "core/families/fla.h"

typedef struct fla_group {
    int kv;                     // key/value heads
    mat q, k, v;                // [H K, D], [kv K, D], [kv V, D]
    mat q_conv, k_conv, v_conv; // [channels, width]
    mat q_conv_b, k_conv_b, v_conv_b;
    mat o_norm;                 // [1, V]
    mat g;                      // [H V, D] output gate
    mat o;                      // [D, H V]
    int q_tail, k_tail, v_tail; // carries
    double eps;                 // of o_norm
    activation gate_act;        // hidden_act, which FLA shares with the MLP
} fla_group;

// What of it a family has.
typedef struct fla_group_options {
    bool conv, gate, o_norm;
    int64_t width;
    const char *norms[3]; // names of the output norm, the first that the file has counts
} fla_group_options;

// num_heads, num_kv_heads, expand_k and expand_v into *s (H, Hk = H, K, V, scale) and *kv.
bool fla_group_sizes(builder *b, int64_t heads, double expand_k, double expand_v, head_shape *s,
                     int *kv, err *e);
// Reads q_proj, k_proj, v_proj, o_proj and what opt has (*_conv1d, g_proj, the output norm), and
// declares the carries of m (state and tails). kv and gate_act are the caller's, set before.
bool fla_group_bind(fla_group *g, module *m, builder *b, const char *prefix, const head_shape *s,
                    const fla_group_options *opt, err *e);
void fla_group_free(fla_group *g, backend *be);
// q, k, v after projection and convolution (with its SiLU), [T, heads * d] each, not yet repeated.
// False: the failure is in the backend.
bool fla_group_project(fla_group *g, const module *m, struct fwd *f, mat x, mat *q, mat *k, mat *v);
// x [T, kv * d] for all H heads: [T, H * d], of the same element
mat fla_group_repeat(const fla_group *g, const module *m, struct fwd *f, mat x, int64_t d);
// y = W_o (norm(o) * act(W_g x))
void fla_group_output(fla_group *g, const module *m, struct fwd *f, mat o, mat x, mat y);

// The activation that `key` names; names that are not known here are refused. NULL or absent: none.
bool fla_activation(builder *b, const char *key, const char *otherwise, activation *out, err *e);

#endif
