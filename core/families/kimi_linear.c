// Kimi Linear, in the layout that transformers reads: Kimi Delta Attention (science R08) in most
// layers, latent attention without positions in the others, a mixture of experts behind them.
//
// The config's lists count layers from 1 (fault B26). The norms inside latent attention have eps 1e-6
// whatever rms_norm_eps says.
#include "core/families/fla.h"
#include "core/families/hf.h"
#include "core/modules/latent.h"
#include "core/modules/mlp.h"
#include "core/modules/moe.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct kimi {
    head_shape s;
    fla_options opt;
    latent_spec latent;
    router router;
    int64_t dense, expert, shared, first_moe, moe_every;
    config *lists; // linear_attn_config
} kimi;

// Two houses, two words for the same number.
static const char *either(const builder *b, const char *own, const char *usual) {
    return config_has(b->cfg, own) ? own : usual;
}

static bool linear_sizes(kimi *k, err *e) {
    int64_t H = 0, K = 0;
    const config *c = k->lists;
    if (!config_int(c, "num_heads", 1, 65536, &H, e) ||
        !config_int(c, "head_dim", 1, 65536, &K, e) ||
        !config_int_or(c, "short_conv_kernel_size", 1, 64, 4, &k->opt.width, e))
        return false;
    k->opt.conv = true;
    k->s = (head_shape){.H = (int)H,
                        .Hk = (int)H,
                        .K = (int)K,
                        .V = (int)K,
                        .n_h = 1,
                        .decay = DECAY_CHANNEL,
                        .erase = ERASE_KEY,
                        .scale = 1 / sqrt((double)K),
                        .beta_max = 1};
    return true;
}

static bool latent_sizes(builder *b, kimi *k, err *e) {
    latent_spec *s = &k->latent;
    bool nope = true;
    s->norm_eps = 1e-6;
    if (!config_int(b->cfg, "num_attention_heads", 1, 65536, &s->heads, e) ||
        !config_int(b->cfg, "qk_nope_head_dim", 1, 65536, &s->nope, e) ||
        !config_int(b->cfg, "qk_rope_head_dim", 0, 65536, &s->rope, e) ||
        !config_int(b->cfg, "v_head_dim", 1, 65536, &s->v, e) ||
        !config_int(b->cfg, "kv_lora_rank", 1, 1 << 20, &s->rank, e) ||
        !config_int_or(b->cfg, "q_lora_rank", 0, 1 << 20, 0, &s->q_rank, e) ||
        !config_bool_or(b->cfg, "mla_use_nope", true, &nope, e))
        return false;
    return nope || err_set(e, ERR_UNSUPPORTED,
                           "%s: mla_use_nope false (rotated latent attention) is not known here",
                           config_path(b->cfg));
}

static bool expert_sizes(builder *b, kimi *k, err *e) {
    router *r = &k->router;
    const char *kind = NULL;
    int64_t shared = 0;
    r->kind = ROUTER_SIGMOID;
    if (!config_int_or(b->cfg, either(b, "num_experts", "n_routed_experts"), 0, 65536, 0,
                       &r->experts, e))
        return false;
    if (r->experts == 0)
        return true;
    const char *top = either(b, "num_experts_per_token", "num_experts_per_tok");
    const char *norm = either(b, "moe_renormalize", "norm_topk_prob");
    const char *groups = either(b, "num_expert_group", "n_group");
    const char *common = either(b, "num_shared_experts", "n_shared_experts");
    if (!config_int(b->cfg, top, 1, 65536, &r->top_k, e) ||
        !config_bool_or(b->cfg, norm, true, &r->renormalize, e) ||
        !config_int_or(b->cfg, groups, 1, 65536, 1, &r->groups, e) ||
        !config_int_or(b->cfg, "topk_group", 1, 65536, 1, &r->top_groups, e) ||
        !config_real_or(b->cfg, "routed_scaling_factor", 1, &r->scaling, e) ||
        !config_int(b->cfg, "moe_intermediate_size", 1, 1 << 24, &k->expert, e) ||
        !config_int_or(b->cfg, common, 0, 4096, 0, &shared, e) ||
        !config_int_or(b->cfg, "first_k_dense_replace", 0, 65536, 0, &k->first_moe, e) ||
        !config_int_or(b->cfg, "moe_layer_freq", 1, 65536, 1, &k->moe_every, e) ||
        !config_text_or(b->cfg, "moe_router_activation_func", "sigmoid", &kind, e))
        return false;
    k->shared = shared * k->expert;
    if (strcmp(kind, "sigmoid") == 0)
        return true;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: moe_router_activation_func \"%s\" is not known here (sigmoid is)",
                   config_path(b->cfg), text_show(kind));
}

static bool read_sizes(builder *b, kimi *k, err *e) {
    static const char *const unknown[] = {"attention_bias", NULL};
    activation act;
    if (!hf_refuse(b, unknown, e) || !hf_activation(b, "hidden_act", "silu", &act, e) ||
        !config_int_or(b->cfg, "intermediate_size", 1, 1 << 24, 0, &k->dense, e) ||
        !linear_sizes(k, e) || !latent_sizes(b, k, e) || !expert_sizes(b, k, e))
        return false;
    return act == ACT_SILU ||
           err_set(e, ERR_UNSUPPORTED, "%s: hidden_act other than silu is not known here (%s)",
                   config_path(b->cfg), b->family);
}

// Whether layer L, counted from 0, stands in a list that counts from 1.
static bool listed(builder *b, const config *c, const char *key, int L, bool *in, err *e) {
    json_t *list = config_json(c, key), *item;
    size_t i;
    *in = false;
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s: linear_attn_config.%s is no list of layers",
                       config_path(c), key);
    json_array_foreach(list, i, item) {
        int64_t x = json_is_integer(item) ? json_integer_value(item) : 0;
        if (x < 1 || x > b->m->info.n_layers)
            return err_set(
                e, ERR_INPUT,
                "%s: linear_attn_config.%s holds something that is no layer from 1 to %d",
                config_path(c), key, b->m->info.n_layers);
        *in |= x == L + 1;
    }
    return true;
}

static bool is_full(builder *b, const kimi *k, int L, bool *full, err *e) {
    bool linear = false;
    if (!listed(b, k->lists, "full_attn_layers", L, full, e) ||
        !listed(b, k->lists, "kda_layers", L, &linear, e))
        return false;
    if (*full != linear)
        return true;
    return err_set(e, ERR_INPUT,
                   "%s: layer %d (counted from 1) is in %s of linear_attn_config.kda_layers and "
                   "full_attn_layers",
                   config_path(b->cfg), L + 1, linear ? "both" : "neither");
}

static module *linear_layer(builder *b, const kimi *k, const char *prefix, err *e) {
    char name[300];
    int64_t H = k->s.H, HK = H * k->s.K, HV = H * k->s.V;
    fla_kda *d = fla_kda_new(e);
    if (!d)
        return NULL;
    if (fla_heads_bind(&d->h, &d->base, b, prefix, &k->s, &k->opt, e) &&
        fla_kda_pair(b, prefix, "f_a_proj", "f_b_proj", HK, &d->f0, &d->f1, e) &&
        fla_kda_pair(b, prefix, "g_a_proj", "g_b_proj", HV, &d->g0, &d->g1, e) &&
        build_weight(b, &d->dt_bias, 1, HK, build_name(name, sizeof name, prefix, "dt_bias"), e) &&
        build_weight(b, &d->a_log, 1, H, build_name(name, sizeof name, prefix, "A_log"), e)) {
        d->h.gate_act = ACT_SIGMOID;
        return &d->base;
    }
    d->base.free(&d->base, b->be);
    return NULL;
}

static module *mixture(builder *b, const kimi *k, const char *prefix, err *e) {
    char shared[300];
    moe_spec s = {.router = k->router,
                  .width = k->expert,
                  .act = ACT_SILU,
                  .router_name = "gate.weight",
                  .bias_name = "gate.e_score_correction_bias",
                  .gate_up = "experts.gate_up_proj",
                  .down_all = "experts.down_proj",
                  .list = "experts",
                  .gate = ".w1.weight",
                  .up = ".w3.weight",
                  .down = ".w2.weight"};
    snprintf(shared, sizeof shared, "%s.shared_experts", prefix);
    if (k->shared > 0 && !(s.shared = mlp_new(b, shared, k->shared, ACT_SILU, e)))
        return NULL;
    return moe_new(b, prefix, &s, e);
}

static module *ffn(builder *b, const kimi *k, int L, const char *layer, err *e) {
    char prefix[256], dense[256];
    snprintf(prefix, sizeof prefix, "%s.block_sparse_moe", layer);
    snprintf(dense, sizeof dense, "%s.mlp", layer);
    if (k->router.experts > 0 && L >= k->first_moe && L % k->moe_every == 0)
        return mixture(b, k, prefix, e);
    // transformers writes dense layers under the name of the mixtures.
    bool resaved =
        !build_has(b, "%s.down_proj.weight", dense) && build_has(b, "%s.down_proj.weight", prefix);
    return mlp_new(b, resaved ? prefix : dense, k->dense, ACT_SILU, e);
}

static bool build_layer(builder *b, const kimi *k, int L, err *e) {
    static const char layers[] = "model.layers";
    char layer[200], prefix[256];
    bool full = false;
    snprintf(layer, sizeof layer, "%s.%d", layers, L);
    snprintf(prefix, sizeof prefix, "%s.self_attn", layer);
    if (!is_full(b, k, L, &full, e))
        return false;
    module *mixer = full ? latent_new(b, prefix, &k->latent, e) : linear_layer(b, k, prefix, e);
    return hf_branch(b, layers, L, "input_layernorm", 1, mixer, e) &&
           hf_branch(b, layers, L, "post_attention_layernorm", 1, ffn(b, k, L, layer, e), e);
}

static bool build_model(builder *b, kimi *k, err *e) {
    model_info *i = &b->m->info;
    if (!hf_ends(b, "model.embed_tokens.weight", "model.norm.weight", "rms_norm_eps", 1e-6, e) ||
        !read_sizes(b, k, e))
        return false;
    for (b->layer = 0; b->layer < i->n_layers; b->layer++)
        if (!build_layer(b, k, b->layer, e))
            return false;
    return true;
}

static bool kimi_linear_build(builder *b, err *e) {
    kimi k = {0};
    if (!config_has(b->cfg, "linear_attn_config"))
        return err_set(e, ERR_MISSING, "%s: linear_attn_config is absent, so no layer has a kind",
                       config_path(b->cfg));
    k.lists = config_child(b->cfg, "linear_attn_config", e);
    bool ok = k.lists && build_model(b, &k, e);
    config_close(k.lists);
    return ok;
}

static bool kimi_linear_sizes(const config *cfg, model_info *i, err *e) {
    return family_sizes(cfg, i, e) &&
           (i->train_length > 0 ||
            config_int_or(cfg, "model_max_length", 0, INT64_MAX / 2, 0, &i->train_length, e));
}

const family family_kimi_linear = {
    .names = {"kimi_linear"},
    .summary = "Kimi Linear: Kimi Delta Attention, latent attention, experts",
    .sizes = kimi_linear_sizes,
    .build = kimi_linear_build,
};
