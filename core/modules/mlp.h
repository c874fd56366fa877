// core/modules/mlp.h - gated MLP: y = W_down (act(W_gate x) * (W_up x)).
#ifndef DELTOP_MLP_H
#define DELTOP_MLP_H

#include "core/families/family.h"

// Reads PREFIX.{gate_proj,up_proj,down_proj}.weight. An older layout has gate and up rows in one
// gate_proj of 2I rows (fault B18). intermediate: I as the config says, 0 = as the tensors say; the
// two must agree. NULL: *e is filled.
module *mlp_new(builder *b, const char *prefix, int64_t intermediate, activation act, err *e);

#endif
