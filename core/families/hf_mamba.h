// core/families/hf_mamba.h - config keys that Bamba, Granite and Falcon-H1 have in common: mamba_*.
#ifndef DELTOP_HF_MAMBA_H
#define DELTOP_HF_MAMBA_H

#include "core/families/hf.h"
#include "core/modules/mamba2.h"

// mamba_n_heads, mamba_d_head, mamba_d_state, mamba_n_groups, mamba_d_conv, biases and
// time_step_limit into *s; eps is the model's. prefix: of the tensors.
bool hf_mamba_read(builder *b, const char *prefix, const char *out_bias_key, mamba2_spec *s,
                   err *e);

// A gated MLP with gate_proj, up_proj, down_proj, intermediate_size, hidden_act and mlp_bias.
module *hf_mamba_mlp(builder *b, const char *prefix, double gate_scale, err *e);

#endif
