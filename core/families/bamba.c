// Bamba: Mamba-2 layers with some attention layers, a gated MLP after each.
//
//     model.layers.N.{input_layernorm, mamba or self_attn, pre_ff_layernorm, feed_forward}
//
// Attention turns half of each head, also when the config does not say so.
#include "core/families/hf_mamba.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_attention(builder *b, int L, bool *yes, err *e) {
    const char *name = NULL;
    if (!hf_layer_listed(b, "attn_layer_indices", L, yes, e) ||
        !hf_layer_name(b, "layer_types", L, &name, e))
        return false;
    if (name)
        *yes = strcmp(name, "full_attention") == 0 || strcmp(name, "attention") == 0;
    return true;
}

static module *attention(builder *b, const char *prefix, err *e) {
    attention_spec s = {0};
    if (!hf_attention(b, &s, e) || !hf_rotary(b, 10000, 0.5, &s, e))
        return NULL;
    return attention_new(b, prefix, &s, e);
}

static module *mamba(builder *b, const char *prefix, err *e) {
    mamba2_spec s;
    return hf_mamba_read(b, prefix, "mamba_proj_bias", &s, e) ? mamba2_new(b, prefix, &s, e) : NULL;
}

static bool build_layer(builder *b, int L, err *e) {
    char prefix[128];
    bool softmax = false;
    if (!is_attention(b, L, &softmax, e))
        return false;
    snprintf(prefix, sizeof prefix, "model.layers.%d.%s", L, softmax ? "self_attn" : "mamba");
    if (!hf_branch(b, "model.layers", L, "input_layernorm", 1,
                   (softmax ? attention : mamba)(b, prefix, e), e))
        return false;
    snprintf(prefix, sizeof prefix, "model.layers.%d.feed_forward", L);
    return hf_branch(b, "model.layers", L, "pre_ff_layernorm", 1, hf_mamba_mlp(b, prefix, 1, e), e);
}

static bool bamba_build(builder *b, err *e) {
    static const char *const unknown[] = {"sliding_window", "num_local_experts", NULL};
    if (!hf_refuse(b, unknown, e) ||
        !hf_ends(b, "model.embed_tokens.weight", "model.final_layernorm.weight", "rms_norm_eps",
                 1e-5, e))
        return false;
    for (b->layer = 0; b->layer < b->m->info.n_layers; b->layer++)
        if (!build_layer(b, b->layer, e))
            return false;
    return true;
}

const family family_bamba = {
    .names = {"bamba"},
    .summary = "Bamba: Mamba-2 with attention layers in between",
    .build = bamba_build,
};
