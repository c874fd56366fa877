#include "core/families/qwen.h"

#include "core/families/hf.h"
#include "core/modules/mlp.h"
#include "core/modules/moe.h"

#include <stdio.h>
#include <string.h>

// What all layers have in common.
typedef struct qwen {
    const qwen_layout *how;
    head_shape s;
    fla_options opt;
    attention_spec attention;
    router router;
    int64_t dense, expert, shared; // widths of MLPs
    int64_t every, sparse_step;    // full attention in each every-th layer, mixtures in each ...
    bool experts;
} qwen;

static bool attention_sizes(builder *b, qwen *q, err *e) {
    attention_spec *a = &q->attention;
    bool gate = true;
    if (!hf_attention(b, a, e) || !hf_rotary(b, 10000, 0.25, a, e) ||
        !config_bool_or(b->cfg, "attn_output_gate", true, &gate, e))
        return false;
    if (!gate)
        return err_set(e, ERR_UNSUPPORTED, "%s: attn_output_gate false is not known here",
                       config_path(b->cfg));
    a->qk_norm = a->norm_offset = a->out_gate = true;
    a->norm_eps = b->m->info.norm_eps;
    return true;
}

static bool expert_sizes(builder *b, qwen *q, err *e) {
    router *r = &q->router;
    r->kind = ROUTER_SOFTMAX;
    if (!config_bool_or(b->cfg, "norm_topk_prob", true, &r->renormalize, e) ||
        !config_int(b->cfg, "num_experts", 0, 65536, &r->experts, e))
        return false;
    q->experts = r->experts > 0;
    if (!q->experts)
        return true;
    if (!r->renormalize && !q->how->may_keep)
        return err_set(e, ERR_UNSUPPORTED, "%s: norm_topk_prob false is not known here (%s)",
                       config_path(b->cfg), b->family);
    return config_int(b->cfg, "num_experts_per_tok", 1, 65536, &r->top_k, e) &&
           config_int(b->cfg, "moe_intermediate_size", 1, 1 << 24, &q->expert, e) &&
           config_int(b->cfg, "shared_expert_intermediate_size", 1, 1 << 24, &q->shared, e) &&
           config_int_or(b->cfg, "decoder_sparse_step", 1, 65536, 1, &q->sparse_step, e);
}

static bool read_sizes(builder *b, qwen *q, err *e) {
    static const char *const unknown[] = {"use_sliding_window", NULL};
    activation act;
    if (!hf_refuse(b, unknown, e) || !hf_activation(b, "hidden_act", "silu", &act, e) ||
        !build_eps(b, "rms_norm_eps", 1e-6, e) || !fla_linear_sizes(b, &q->s, &q->opt, e) ||
        !attention_sizes(b, q, e) ||
        !config_int_or(b->cfg, "full_attention_interval", 1, 65536, 4, &q->every, e) ||
        !config_int_or(b->cfg, "intermediate_size", 1, 1 << 24, 0, &q->dense, e))
        return false;
    // The convolutions take it too.
    if (act != ACT_SILU)
        return err_set(e, ERR_UNSUPPORTED, "%s: hidden_act other than silu is not known here (%s)",
                       config_path(b->cfg), b->family);
    return !q->how->experts || expert_sizes(b, q, e);
}

static module *linear_layer(builder *b, const qwen *q, const char *layer, err *e) {
    char prefix[256], name[300];
    const head_shape *s = &q->s;
    int64_t nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V, all = 2 * nk + nv;
    fla_gated *d = fla_gated_new(e);
    if (!d)
        return NULL;
    snprintf(prefix, sizeof prefix, "%s.linear_attn", layer);
    fla_heads_declare(&d->h, &d->base, s, &q->opt, b->m->info.norm_eps);
    build_name(name, sizeof name, prefix, "conv1d.weight");
    int64_t w = q->opt.width;
    if (q->how->project(d, b, prefix, s, e) &&
        build_rows(b, &d->h.q_conv, 0, nk, all, w, name, e) &&
        build_rows(b, &d->h.k_conv, nk, nk, all, w, name, e) &&
        build_rows(b, &d->h.v_conv, 2 * nk, nv, all, w, name, e) &&
        build_weight(b, &d->decay.a_log, 1, s->H, build_name(name, sizeof name, prefix, "A_log"),
                     e) &&
        build_weight(b, &d->decay.dt_bias, 1, s->H,
                     build_name(name, sizeof name, prefix, "dt_bias"), e) &&
        build_weight(b, &d->h.o_norm, 1, s->V, build_name(name, sizeof name, prefix, "norm.weight"),
                     e) &&
        build_weight(b, &d->h.o, b->m->info.D, nv,
                     build_name(name, sizeof name, prefix, "out_proj.weight"), e))
        return &d->base;
    d->base.free(&d->base, b->be);
    return NULL;
}

// The list of kinds, or every so-many-th layer.
static bool is_full(builder *b, const qwen *q, int L, bool *full, err *e) {
    const char *kind = NULL;
    if (!hf_layer_name(b, "layer_types", L, &kind, e))
        return false;
    *full = kind ? strcmp(kind, "full_attention") == 0 : (L + 1) % q->every == 0;
    if (!kind || *full || strcmp(kind, "linear_attention") == 0)
        return true;
    return err_set(e, ERR_UNSUPPORTED, "%s: layer_types[%d] \"%s\" is not known here (%s)",
                   config_path(b->cfg), L, kind, b->family);
}

static module *mixture(builder *b, const qwen *q, const char *prefix, err *e) {
    char shared[300];
    moe_spec s = {.router = q->router,
                  .width = q->expert,
                  .act = ACT_SILU,
                  .router_name = "gate.weight",
                  .gate_up = "experts.gate_up_proj",
                  .down_all = "experts.down_proj",
                  .list = "experts",
                  .gate = ".gate_proj.weight",
                  .up = ".up_proj.weight",
                  .down = ".down_proj.weight",
                  .shared_gate = "shared_expert_gate.weight"};
    snprintf(shared, sizeof shared, "%s.shared_expert", prefix);
    s.shared = mlp_new(b, shared, q->shared, ACT_SILU, e);
    return s.shared ? moe_new(b, prefix, &s, e) : NULL;
}

static module *ffn(builder *b, const qwen *q, int L, const char *layer, err *e) {
    char prefix[256];
    bool dense = !q->experts || (L + 1) % q->sparse_step != 0;
    if (!dense && !hf_layer_listed(b, "mlp_only_layers", L, &dense, e))
        return NULL;
    snprintf(prefix, sizeof prefix, "%s.mlp", layer);
    return dense ? mlp_new(b, prefix, q->dense, ACT_SILU, e) : mixture(b, q, prefix, e);
}

static bool build_layer(builder *b, const qwen *q, int L, err *e) {
    char layer[200], prefix[256], name[300];
    bool full = false;
    mat norm = MAT_NONE;
    module *body = NULL;
    snprintf(layer, sizeof layer, "%slayers.%d", q->how->root, L);
    snprintf(prefix, sizeof prefix, "%s.self_attn", layer);
    if (!is_full(b, q, L, &full, e) ||
        !build_offset(b, &norm, 1, b->m->info.D,
                      build_name(name, sizeof name, layer, "input_layernorm.weight"), e))
        goto fail;
    body = full ? attention_new(b, prefix, &q->attention, e) : linear_layer(b, q, layer, e);
    if (!body || !build_branch(b, L, norm, MAT_NONE, 1, body, e))
        goto fail;
    norm = MAT_NONE;
    if (!build_offset(b, &norm, 1, b->m->info.D,
                      build_name(name, sizeof name, layer, "post_attention_layernorm.weight"), e))
        goto fail;
    body = ffn(b, q, L, layer, e);
    if (body && build_branch(b, L, norm, MAT_NONE, 1, body, e))
        return true;
fail:
    if (b->be)
        b->be->op->free(b->be, norm);
    return false;
}

bool qwen_build(builder *b, const qwen_layout *how, err *e) {
    char name[300];
    model_info *i = &b->m->info;
    qwen q = {.how = how};
    if (!read_sizes(b, &q, e))
        return false;
    snprintf(name, sizeof name, "%sembed_tokens.weight", how->root);
    if (!build_weight(b, &b->m->embed, i->n_vocab, i->D, name, e))
        return false;
    snprintf(name, sizeof name, "%snorm.weight", how->root);
    if (!build_offset(b, &b->m->norm.w, 1, i->D, name, e))
        return false;
    for (b->layer = 0; b->layer < i->n_layers; b->layer++)
        if (!build_layer(b, &q, b->layer, e))
            return false;
    b->layer = -1;
    return build_skip(b, "mtp.", "prediction of further tokens", e);
}
