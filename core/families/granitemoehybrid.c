// Granite's hybrid: Mamba-2 or attention, then experts and a shared MLP on the same input.
//
//     x <- x + r mixer(rms_norm(x))
//     x <- x + r (experts(n) + shared(n))        n = rms_norm(x), r = residual_multiplier
//
// Router: softmax over the chosen logits. Attention scale = attention_multiplier; rotary only when
// position_embedding_type is "rope". Logits are divided by logits_scaling.
#include "core/families/hf_mamba.h"
#include "core/modules/mlp.h"
#include "core/modules/moe.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

static bool rotary(builder *b, attention_spec *s, err *e) {
    const char *type = NULL;
    if (!config_text_or(b->cfg, "position_embedding_type", NULL, &type, e))
        return false;
    if (!type || strcmp(type, "nope") == 0)
        return true;
    if (strcmp(type, "rope") != 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: position_embedding_type \"%s\" is not known here (rope and nope are)",
                       config_path(b->cfg), text_show(type));
    return hf_rotary(b, 10000, 1, s, e);
}

static module *attention(builder *b, const char *prefix, err *e) {
    attention_spec s = {0};
    if (!hf_attention(b, &s, e) || !rotary(b, &s, e) ||
        !config_real_or(b->cfg, "attention_multiplier", 1, &s.scale, e))
        return NULL;
    if (s.scale == 0) {
        err_set(e, ERR_INPUT, "%s: attention_multiplier is 0", config_path(b->cfg));
        return NULL;
    }
    return attention_new(b, prefix, &s, e);
}

static module *mamba(builder *b, const char *prefix, err *e) {
    mamba2_spec s;
    return hf_mamba_read(b, prefix, "mamba_proj_bias", &s, e) ? mamba2_new(b, prefix, &s, e) : NULL;
}

// Experts with the shared MLP inside, or that one alone in the dense models.
static module *experts(builder *b, int L, err *e) {
    char prefix[128];
    moe_spec s = {.router = {.kind = ROUTER_CHOSEN_SOFTMAX},
                  .router_name = "router.layer.weight",
                  .gate_up = "input_linear.weight",
                  .down_all = "output_linear.weight"};
    mlp_spec shared = {.gate = "input_linear", .down = "output_linear"};
    if (!config_int_or(b->cfg, "num_local_experts", 0, 65536, 0, &s.router.experts, e) ||
        !config_int_or(b->cfg, "num_experts_per_tok", 0, 65536, 2, &s.router.top_k, e) ||
        !config_int(b->cfg, "shared_intermediate_size", 1, 1 << 24, &shared.width, e) ||
        !hf_activation(b, "hidden_act", "silu", &s.act, e))
        return NULL;
    shared.act = s.act;
    snprintf(prefix, sizeof prefix, "model.layers.%d.shared_mlp", L);
    s.shared = mlp_make(b, prefix, &shared, e);
    if (!s.shared || s.router.experts == 0)
        return s.shared;
    if (!config_int(b->cfg, "intermediate_size", 1, 1 << 24, &s.width, e)) {
        s.shared->free(s.shared, b->be);
        return NULL;
    }
    snprintf(prefix, sizeof prefix, "model.layers.%d.block_sparse_moe", L);
    return moe_new(b, prefix, &s, e);
}

static bool build_layer(builder *b, int L, double residual, err *e) {
    char prefix[128];
    const char *type = NULL;
    if (!hf_layer_name(b, "layer_types", L, &type, e))
        return false;
    bool softmax = type && (strcmp(type, "full_attention") == 0 || strcmp(type, "attention") == 0);
    snprintf(prefix, sizeof prefix, "model.layers.%d.%s", L, softmax ? "self_attn" : "mamba");
    return hf_branch(b, "model.layers", L, "input_layernorm", residual,
                     (softmax ? attention : mamba)(b, prefix, e), e) &&
           hf_branch(b, "model.layers", L, "post_attention_layernorm", residual, experts(b, L, e),
                     e);
}

static bool granite_build(builder *b, err *e) {
    static const char *const unknown[] = {"sliding_window", "mlp_bias", NULL};
    double divisor = 1, residual = 1;
    if (!hf_refuse(b, unknown, e) ||
        !config_real_or(b->cfg, "embedding_multiplier", 1, &b->m->embed_scale, e) ||
        !config_real_or(b->cfg, "logits_scaling", 1, &divisor, e) ||
        !config_real_or(b->cfg, "residual_multiplier", 1, &residual, e) ||
        !hf_ends(b, "model.embed_tokens.weight", "model.norm.weight", "rms_norm_eps", 1e-6, e))
        return false;
    if (divisor == 0)
        return err_set(e, ERR_INPUT, "%s: logits_scaling is 0", config_path(b->cfg));
    b->m->logit_scale = 1 / divisor;
    for (b->layer = 0; b->layer < b->m->info.n_layers; b->layer++)
        if (!build_layer(b, b->layer, residual, e))
            return false;
    return true;
}

const family family_granitemoehybrid = {
    .names = {"granitemoehybrid"},
    .summary = "Granite: Mamba-2 and attention layers with experts and a shared MLP",
    .build = granite_build,
};
