// Falcon-H1: Mamba-2 and attention side by side in every layer, then a gated MLP; factors all over.
//
//     n = rms_norm(x)
//     x <- x + ssm_out mamba(ssm_in n) + attn_out attention(attn_in n)      keys times key_multiplier
//     x <- x + m_1 W_down (SiLU(m_0 W_gate n') * W_up n')                   n' = rms_norm(x)
//
// ssm_multipliers scale the slices z, x, B, C, dt of in_proj; the embedding and the logits have
// factors of their own. With mamba_rms_norm false the mixer has a gate and no norm.
#include "core/families/hf_mamba.h"

#include <math.h>
#include <stdio.h>

// Factors in a list of n numbers; absent: all 1. A factor of 0 would silence a part of the model.
static bool factors(builder *b, const char *key, int n, double *out, err *e) {
    const json_t *v = config_json(b->cfg, key);
    for (int i = 0; i < n; i++) {
        const json_t *x = v ? json_array_get(v, (size_t)i) : NULL;
        out[i] = v ? json_number_value(x) : 1;
        if (v && (json_array_size(v) != (size_t)n || out[i] == 0))
            return err_set(e, ERR_INPUT, "%s: %s is no list of %d factors", config_path(b->cfg),
                           key, n);
    }
    return true;
}

static bool factor(builder *b, const char *key, double *out, err *e) {
    if (!config_real_or(b->cfg, key, 1, out, e))
        return false;
    return *out != 0 ||
           err_set(e, ERR_INPUT, "%s: %s is 0, need a factor", config_path(b->cfg), key);
}

static module *mamba(builder *b, const char *prefix, err *e) {
    char name[160];
    bool norm = false;
    mamba2_spec s;
    snprintf(name, sizeof name, "%s.norm.weight", prefix);
    if (!hf_mamba_read(b, prefix, "projectors_bias", &s, e) ||
        !build_switch(b, "mamba_rms_norm", NULL, name, &norm, e) ||
        !config_bool_or(b->cfg, "mamba_norm_before_gate", true, &s.norm_before_gate, e) ||
        !factor(b, "ssm_in_multiplier", &s.in_scale, e) ||
        !factors(b, "ssm_multipliers", 5, s.slice, e))
        return NULL;
    s.plain = !norm;
    return mamba2_new(b, prefix, &s, e);
}

static module *attention(builder *b, const char *prefix, err *e) {
    attention_spec s = {0};
    double keys = 1;
    if (!hf_attention(b, &s, e) || !hf_rotary(b, 100000, 1, &s, e) ||
        !factor(b, "key_multiplier", &keys, e) ||
        !factor(b, "attention_in_multiplier", &s.in_scale, e))
        return NULL;
    s.scale = keys / sqrt((double)s.head_dim);
    return attention_new(b, prefix, &s, e);
}

static bool build_layer(builder *b, int L, err *e) {
    char prefix[128];
    double from_mamba = 1, from_attention = 1, mlp[2];
    if (!factor(b, "ssm_out_multiplier", &from_mamba, e) ||
        !factor(b, "attention_out_multiplier", &from_attention, e) ||
        !factors(b, "mlp_multipliers", 2, mlp, e))
        return false;
    snprintf(prefix, sizeof prefix, "model.layers.%d.mamba", L);
    if (!hf_branch(b, "model.layers", L, "input_layernorm", from_mamba, mamba(b, prefix, e), e))
        return false;
    snprintf(prefix, sizeof prefix, "model.layers.%d.self_attn", L);
    module *body = attention(b, prefix, e);
    if (!body || !build_beside(b, L, from_attention, body, e))
        return false;
    snprintf(prefix, sizeof prefix, "model.layers.%d.feed_forward", L);
    return hf_branch(b, "model.layers", L, "pre_ff_layernorm", mlp[1],
                     hf_mamba_mlp(b, prefix, mlp[0], e), e);
}

static bool falcon_h1_build(builder *b, err *e) {
    static const char *const unknown[] = {"sliding_window", "num_local_experts", NULL};
    if (!hf_refuse(b, unknown, e) || !factor(b, "embedding_multiplier", &b->m->embed_scale, e) ||
        !factor(b, "lm_head_multiplier", &b->m->logit_scale, e) ||
        !hf_ends(b, "model.embed_tokens.weight", "model.final_layernorm.weight", "rms_norm_eps",
                 1e-5, e))
        return false;
    for (b->layer = 0; b->layer < b->m->info.n_layers; b->layer++)
        if (!build_layer(b, b->layer, e))
            return false;
    return true;
}

const family family_falcon_h1 = {
    .names = {"falcon_h1"},
    .summary = "Falcon-H1: Mamba-2 and attention side by side",
    .build = falcon_h1_build,
};
