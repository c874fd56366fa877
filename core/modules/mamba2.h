// core/modules/mamba2.h - the Mamba-2 mixer, as five families have it.
//
//     z, x, B, C, dt = W_in u            rows of one matrix in this order; G groups of B and C
//     x, B, C        = SiLU(conv(x, B, C))
//     dt_h           = clamp(softplus(dt_h + dt_bias_h), lo, hi)
//     H_t            = exp(-exp(A_log_h) dt_h) H_{t-1} + B_g (dt_h x_h)^T       (science R03)
//     y_h            = H_t^T C_g + D_h x_h                    head h reads group g = h div (heads / G)
//     out            = W_out norm(y * SiLU(z))                RMS norm over each group's channels
//
// As steps: K = state size, V = head_dim, key B, query C, value dt x, scale 1. D x skips dt.
#ifndef DELTOP_MAMBA2_H
#define DELTOP_MAMBA2_H

#include "core/families/family.h"

typedef struct mamba2_spec {
    // 0: as the tensors say (fault B111)
    int64_t heads, head_dim, groups, state, conv;
    double dt_lo, dt_hi;
    bool conv_bias, in_bias, out_bias;
    bool plain;            // no norm, the gate alone
    bool norm_before_gate; // norm(y) * SiLU(z)
    double eps;
    // Factors (Falcon-H1), 0 = 1: of the input, and of the slices z, x, B, C, dt.
    double in_scale, slice[5];
} mamba2_spec;

// What a family calls the keys of its config; NULL: it has no such key.
typedef struct mamba2_keys {
    const char *heads, *head_dim, *groups, *state, *conv;
    const char *limits; // [lo, hi], hi may be Infinity
    const char *conv_bias, *in_bias, *out_bias;
} mamba2_keys;

// Sizes, limits and bias flags from cfg, which may be a child of the builder's config. A size that
// is absent, null or "auto" stays 0; an absent bias flag is what the file says. prefix: of the
// tensors, as for mamba2_new. eps and the rest of *s are the caller's.
bool mamba2_read(builder *b, const config *cfg, const mamba2_keys *keys, const char *prefix,
                 mamba2_spec *s, err *e);

// Reads PREFIX.{in_proj,conv1d,out_proj}.{weight,bias}, PREFIX.{A_log,D,dt_bias},
// PREFIX.norm.weight. NULL: *e is filled.
module *mamba2_new(builder *b, const char *prefix, const mamba2_spec *s, err *e);

#endif
