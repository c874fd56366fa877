#include "core/families/hf_mamba.h"

#include "core/modules/mlp.h"

bool hf_mamba_read(builder *b, const char *prefix, const char *out_bias_key, mamba2_spec *s,
                   err *e) {
    const mamba2_keys keys = {.heads = "mamba_n_heads",
                              .head_dim = "mamba_d_head",
                              .groups = "mamba_n_groups",
                              .state = "mamba_d_state",
                              .conv = "mamba_d_conv",
                              .limits = "time_step_limit",
                              .conv_bias = "mamba_conv_bias",
                              .in_bias = "mamba_proj_bias",
                              .out_bias = out_bias_key};
    activation act = ACT_SILU;
    if (!mamba2_read(b, b->cfg, &keys, prefix, s, e) ||
        !hf_activation(b, "hidden_act", "silu", &act, e))
        return false;
    s->eps = b->m->info.norm_eps;
    return act == ACT_SILU ||
           err_set(e, ERR_UNSUPPORTED, "%s: a Mamba-2 with another hidden_act than silu",
                   config_path(b->cfg));
}

module *hf_mamba_mlp(builder *b, const char *prefix, double gate_scale, err *e) {
    mlp_spec s = {
        .gate = "gate_proj", .up = "up_proj", .down = "down_proj", .gate_scale = gate_scale};
    if (!config_int(b->cfg, "intermediate_size", 1, 1 << 24, &s.width, e) ||
        !hf_activation(b, "hidden_act", "silu", &s.act, e) ||
        !config_bool_or(b->cfg, "mlp_bias", false, &s.bias, e))
        return NULL;
    return mlp_make(b, prefix, &s, e);
}
