// core/modules/mlp.h - MLPs: y = W_down (act(c W_gate x) * (W_up x)), or W_down act(W_up x) without a
// gate matrix.
#ifndef DELTOP_MLP_H
#define DELTOP_MLP_H

#include "core/families/family.h"

// Tensors are PREFIX.STEM.weight and, with `bias`, PREFIX.STEM.bias.
typedef struct mlp_spec {
    const char *gate; // NULL: no gate matrix
    const char *up;   // NULL: `gate` has 2I rows, gate rows and then up rows
    const char *down;
    int64_t width; // I
    activation act;
    double gate_scale; // c; 0 = 1
    bool bias;
} mlp_spec;

// NULL: *e is filled.
module *mlp_make(builder *b, const char *prefix, const mlp_spec *s, err *e);

// Reads PREFIX.{gate_proj,up_proj,down_proj}.weight. An older layout has gate and up rows in one
// gate_proj of 2I rows (fault B18). intermediate: I as the config says, 0 = as the tensors say; the
// two must agree. NULL: *e is filled.
module *mlp_new(builder *b, const char *prefix, int64_t intermediate, activation act, err *e);

#endif
