// core/modules/latent.h - attention whose keys and values are kept as one short vector per token.
//
//     c_t = rms_norm(W_a x_t)[0..rank), r_t = (W_a x_t)[rank..rank+rope)
//     k_t,h = (U_h c_t, r_t),  v_t,h = Z_h c_t,  scale (nope + rope)^-1/2
//
// r is shared by all heads. Neither r nor the query is rotated. U_h goes to the query's side and Z_h
// behind the sum, so that only (c_t, r_t) is carried: q . U c = (U' q) . c.
#ifndef DELTOP_LATENT_H
#define DELTOP_LATENT_H

#include "core/families/family.h"

typedef struct latent_spec {
    int64_t heads, nope, rope, v; // numbers of a head: of the query's two parts, of the value
    int64_t rank;
    int64_t q_rank; // 0: q_proj alone
    double norm_eps;
} latent_spec;

// Reads PREFIX.q_proj (or q_a_proj, q_a_layernorm, q_b_proj), kv_a_proj_with_mqa, kv_a_layernorm,
// kv_b_proj, o_proj. NULL: *e is filled.
module *latent_new(builder *b, const char *prefix, const latent_spec *s, err *e);

#endif
