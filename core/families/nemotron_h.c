// Nemotron-H: one branch per layer, Mamba-2, attention without positions, an MLP with squared ReLU
// or experts of such MLPs.
//
//     backbone.layers.N.{norm, mixer}
//
// What a layer holds stands in the list layers_block_type or in the letters of
// hybrid_override_pattern: M Mamba-2, * attention, - MLP, E experts.
#include "core/families/hf.h"
#include "core/modules/mamba2.h"
#include "core/modules/mlp.h"
#include "core/modules/moe.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

static bool nemotron_sizes(const config *cfg, model_info *i, err *e) {
    const char *pattern = NULL;
    const json_t *list = config_json(cfg, "layers_block_type");
    int64_t listed = 0, L = 0;
    if (!config_text_or(cfg, "hybrid_override_pattern", NULL, &pattern, e))
        return false;
    listed = json_is_array(list) ? (int64_t)json_array_size(list)
             : pattern           ? (int64_t)strlen(pattern)
                                 : 0;
    if (!listed)
        return err_set(e, ERR_MISSING,
                       "%s: neither layers_block_type nor hybrid_override_pattern says what the "
                       "layers are",
                       config_path(cfg));
    if (!config_int(cfg, "hidden_size", 1, 1 << 24, &i->D, e) ||
        !config_int_or(cfg, "num_hidden_layers", 1, 4096, listed, &L, e) ||
        !config_int(cfg, "vocab_size", 1, INT32_MAX, &i->n_vocab, e) ||
        !config_int_or(cfg, "max_position_embeddings", 0, INT64_MAX / 2, 0, &i->train_length, e))
        return false;
    if (L != listed || listed > 4096)
        return err_set(e, ERR_INPUT, "%s: num_hidden_layers %lld, but %lld layers are described",
                       config_path(cfg), (long long)L, (long long)listed);
    i->n_layers = (int)L;
    return true;
}

// 'M', '*', '-' or 'E'; 0 with *e filled.
static char layer_letter(builder *b, int L, err *e) {
    static const struct {
        const char *name;
        char letter;
    } known[] = {{"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
                 {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
    const char *name = NULL, *pattern = NULL;
    if (!hf_layer_name(b, "layers_block_type", L, &name, e) ||
        !config_text_or(b->cfg, "hybrid_override_pattern", NULL, &pattern, e))
        return 0;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].letter;
    if (!name && strchr("M*-E", pattern[L]))
        return pattern[L];
    char one[2] = {name ? 0 : pattern[L], 0};
    err_set(e, ERR_UNSUPPORTED, "%s: layer %d is of the kind \"%s\", which is not known here",
            config_path(b->cfg), L, text_show(name ? name : one));
    return 0;
}

static module *mamba(builder *b, const char *prefix, err *e) {
    // The bias flags have had two names each; what the file holds counts.
    const mamba2_keys keys = {.heads = "mamba_num_heads",
                              .head_dim = "mamba_head_dim",
                              .groups = "n_groups",
                              .state = "ssm_state_size",
                              .conv = "conv_kernel",
                              .limits = "time_step_limit",
                              .conv_bias = "use_conv_bias"};
    mamba2_spec s;
    activation act = ACT_SILU;
    if (!mamba2_read(b, b->cfg, &keys, prefix, &s, e) ||
        !hf_activation(b, "mamba_hidden_act", "silu", &act, e))
        return NULL;
    if (act != ACT_SILU) {
        err_set(e, ERR_UNSUPPORTED, "%s: a Mamba-2 with another mamba_hidden_act than silu",
                config_path(b->cfg));
        return NULL;
    }
    s.eps = b->m->info.norm_eps;
    return mamba2_new(b, prefix, &s, e);
}

static module *attention(builder *b, const char *prefix, err *e) {
    attention_spec s = {0};
    if (!hf_attention(b, &s, e) ||
        !config_int_or(b->cfg, "sliding_window", 1, INT64_MAX / 4, 0, &s.window, e))
        return NULL;
    return attention_new(b, prefix, &s, e);
}

static module *mlp(builder *b, const char *prefix, const char *width_key, err *e) {
    mlp_spec s = {.up = "up_proj", .down = "down_proj"};
    if (!config_int(b->cfg, width_key, 1, 1 << 24, &s.width, e) ||
        !hf_activation(b, "mlp_hidden_act", "relu2", &s.act, e) ||
        !config_bool_or(b->cfg, "mlp_bias", false, &s.bias, e))
        return NULL;
    return mlp_make(b, prefix, &s, e);
}

static module *experts(builder *b, const char *prefix, err *e) {
    char shared[160];
    moe_spec s = {.router = {.kind = ROUTER_SIGMOID},
                  .router_name = "gate.weight",
                  .bias_name = "gate.e_score_correction_bias",
                  .list = "experts",
                  .up = ".up_proj.weight",
                  .down = ".down_proj.weight"};
    int64_t n_shared = 0;
    if (config_has(b->cfg, "moe_latent_size")) {
        err_set(e, ERR_UNSUPPORTED, "%s: moe_latent_size is set, and that is not known here",
                config_path(b->cfg));
        return NULL;
    }
    if (!config_int(b->cfg, "n_routed_experts", 1, 65536, &s.router.experts, e) ||
        !config_int(b->cfg, "num_experts_per_tok", 1, 65536, &s.router.top_k, e) ||
        !config_int(b->cfg, "moe_intermediate_size", 1, 1 << 24, &s.width, e) ||
        !config_int_or(b->cfg, "n_group", 1, 65536, 1, &s.router.groups, e) ||
        !config_int_or(b->cfg, "topk_group", 1, 65536, 1, &s.router.top_groups, e) ||
        !config_int_or(b->cfg, "n_shared_experts", 0, 65536, 0, &n_shared, e) ||
        !config_bool_or(b->cfg, "norm_topk_prob", true, &s.router.renormalize, e) ||
        !config_real_or(b->cfg, "routed_scaling_factor", 1, &s.router.scaling, e) ||
        !hf_activation(b, "mlp_hidden_act", "relu2", &s.act, e))
        return NULL;
    snprintf(shared, sizeof shared, "%s.shared_experts", prefix);
    if (n_shared > 0 && !(s.shared = mlp(b, shared, "moe_shared_expert_intermediate_size", e)))
        return NULL;
    return moe_new(b, prefix, &s, e);
}

static bool build_layer(builder *b, int L, err *e) {
    char prefix[128];
    module *body = NULL;
    snprintf(prefix, sizeof prefix, "backbone.layers.%d.mixer", L);
    switch (layer_letter(b, L, e)) {
    case 'M':
        body = mamba(b, prefix, e);
        break;
    case '*':
        body = attention(b, prefix, e);
        break;
    case '-':
        body = mlp(b, prefix, "intermediate_size", e);
        break;
    case 'E':
        body = experts(b, prefix, e);
        break;
    default:
        return false;
    }
    return hf_branch(b, "backbone.layers", L, "norm", 1, body, e);
}

static bool nemotron_build(builder *b, err *e) {
    static const char *const none[] = {NULL};
    const char *eps =
        config_has(b->cfg, "layer_norm_epsilon") ? "layer_norm_epsilon" : "rms_norm_eps";
    if (!hf_refuse(b, none, e) ||
        !hf_ends(b, "backbone.embeddings.weight", "backbone.norm_f.weight", eps, 1e-5, e))
        return false;
    for (b->layer = 0; b->layer < b->m->info.n_layers; b->layer++)
        if (!build_layer(b, b->layer, e))
            return false;
    return true;
}

const family family_nemotron_h = {
    .names = {"nemotron_h"},
    .summary = "Nemotron-H: Mamba-2, attention, MLP or experts, one per layer",
    .build = nemotron_build,
    .sizes = nemotron_sizes,
};
