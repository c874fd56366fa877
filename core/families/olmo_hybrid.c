// OLMo hybrid, in the layouts that transformers reads and writes.
//
// Linear layers (Gated DeltaNet, science R07, beta up to 2) have norms before their branches,
// attention layers norms after them (fault B28):
//
//     linear      x + mixer(attention_layer_norm(x)),        x + mlp(feedforward_layer_norm(x))
//     attention   x + post_attention_layernorm(attn(x)),     x + post_feedforward_layernorm(mlp(x))
//
// Files that transformers has written again differ: the joined convolution is cut into three equal
// parts whatever the widths of q, k and v, and post_attention_layernorm is called
// feedforward_layer_norm.
#include "core/families/fla.h"
#include "core/families/hf.h"
#include "core/modules/mlp.h"

#include <stdio.h>
#include <string.h>

typedef struct olmo {
    head_shape s;
    int64_t width; // of the convolution
    attention_spec attention;
    int64_t mlp;
} olmo;

// No base, no rotation: at the top level or inside rope_parameters.
static bool rotates(const builder *b, bool *yes, err *e) {
    *yes = config_has(b->cfg, "rope_theta");
    if (*yes || !config_has(b->cfg, "rope_parameters"))
        return true;
    config *c = config_child(b->cfg, "rope_parameters", e);
    *yes = c && config_has(c, "rope_theta");
    config_close(c);
    return c != NULL;
}

static bool read_sizes(builder *b, olmo *o, err *e) {
    static const char *const unknown[] = {"use_sliding_window", "clip_qkv", NULL};
    attention_spec *a = &o->attention;
    activation act;
    fla_options opt;
    bool turned = false, neg = true;
    if (!hf_refuse(b, unknown, e) || !hf_activation(b, "hidden_act", "silu", &act, e) ||
        !build_eps(b, "rms_norm_eps", 1e-6, e) || !fla_linear_sizes(b, &o->s, &opt, e) ||
        !config_bool_or(b->cfg, "linear_allow_neg_eigval", true, &neg, e) ||
        !hf_attention(b, a, e) || !rotates(b, &turned, e) ||
        !config_int(b->cfg, "intermediate_size", 1, 1 << 24, &o->mlp, e))
        return false;
    if (turned && !hf_rotary(b, 10000, 1, a, e))
        return false;
    if (act != ACT_SILU || (turned && a->turned != a->head_dim))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: hidden_act other than silu and partial_rotary_factor other than 1 are "
                       "not known here (%s)",
                       config_path(b->cfg), b->family);
    o->s.beta_max = neg ? 2 : 1;
    o->width = opt.width;
    a->qk_norm = a->norm_whole = true;
    a->norm_eps = b->m->info.norm_eps;
    return true;
}

// The three convolutions, cut at the true widths or, as one matrix, into thirds.
static bool bind_conv(builder *b, fla_gated *d, const olmo *o, const char *prefix, err *e) {
    static const char stem[] = "qkv";
    char name[3][300];
    const char *const names[] = {name[0], name[1], name[2]};
    int64_t nk = (int64_t)o->s.Hk * o->s.K, nv = (int64_t)o->s.H * o->s.V, all = 2 * nk + nv;
    int64_t third = (all + 2) / 3, at = 0;
    const int64_t want[] = {nk, nk, nv};
    mat *out[] = {&d->h.q_conv, &d->h.k_conv, &d->h.v_conv};
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s.%c_conv1d.weight", prefix, stem[i]);
    const tensor *first = ckpt_get(b->ck, name[0]);
    bool thirds = nk != third && first && first->dims[0] == third;
    if (thirds && !build_note(b, e,
                              "convolutions cut into three equal parts are joined and cut at the "
                              "widths of q, k and v"))
        return false;
    for (int i = 0; i < 3; at += want[i], i++)
        if (!(thirds ? build_joined(b, out[i], at, want[i], all, o->width, names, 3, e)
                     : build_weight(b, out[i], want[i], o->width, name[i], e)))
            return false;
    return true;
}

static module *linear_layer(builder *b, const olmo *o, const char *layer, err *e) {
    char prefix[256];
    const fla_options opt = {.conv = true, .gate = true, .width = o->width};
    fla_gated *d = fla_gated_new(e);
    if (!d)
        return NULL;
    snprintf(prefix, sizeof prefix, "%s.linear_attn", layer);
    fla_heads_declare(&d->h, &d->base, &o->s, &opt, 1e-5); // whatever rms_norm_eps says
    if (fla_heads_project(&d->h, b, prefix, &o->s, e) && bind_conv(b, d, o, prefix, e) &&
        fla_heads_bind_output(&d->h, b, prefix, &o->s, true, e) &&
        fla_gate_bind(&d->decay, b, prefix, o->s.H, e))
        return &d->base;
    d->base.free(&d->base, b->be);
    return NULL;
}

static bool is_full(builder *b, int L, bool *full, err *e) {
    const char *kind = NULL;
    if (!hf_layer_name(b, "layer_types", L, &kind, e))
        return false;
    if (!kind) // the default of the config class: every fourth, and the last
        return *full = (L + 1) % 4 == 0 || L + 1 == b->m->info.n_layers, true;
    *full = strcmp(kind, "full_attention") == 0;
    if (*full || strcmp(kind, "linear_attention") == 0)
        return true;
    return err_set(e, ERR_UNSUPPORTED, "%s: layer_types[%d] \"%s\" is not known here (%s)",
                   config_path(b->cfg), L, kind, b->family);
}

// One branch with its norm, before or after the body.
static bool add_branch(builder *b, int L, const char *layer, const char *norm_name, bool after,
                       module *body, err *e) {
    char name[300];
    mat norm = MAT_NONE;
    if (!body)
        return false;
    if (!build_weight(b, &norm, 1, b->m->info.D, build_name(name, sizeof name, layer, norm_name),
                      e)) {
        body->free(body, b->be);
        return false;
    }
    if (build_branch(b, L, after ? MAT_NONE : norm, after ? norm : MAT_NONE, 1, body, e))
        return true;
    if (b->be)
        b->be->op->free(b->be, norm);
    return false;
}

static bool build_layer(builder *b, const olmo *o, int L, err *e) {
    char layer[200], prefix[256];
    const char *first = "attention_layer_norm.weight", *second = "feedforward_layer_norm.weight";
    bool full = false;
    if (!is_full(b, L, &full, e))
        return false;
    snprintf(layer, sizeof layer, "model.layers.%d", L);
    if (full) {
        first = "post_attention_layernorm.weight";
        second = "post_feedforward_layernorm.weight";
        if (!build_has(b, "%s.%s", layer, first) &&
            build_has(b, "%s.feedforward_layer_norm.weight", layer))
            first = "feedforward_layer_norm.weight";
    }
    snprintf(prefix, sizeof prefix, "%s.self_attn", layer);
    module *mixer =
        full ? attention_new(b, prefix, &o->attention, e) : linear_layer(b, o, layer, e);
    if (!add_branch(b, L, layer, first, full, mixer, e))
        return false;
    snprintf(prefix, sizeof prefix, "%s.mlp", layer);
    return add_branch(b, L, layer, second, full, mlp_new(b, prefix, o->mlp, ACT_SILU, e), e);
}

static bool olmo_hybrid_build(builder *b, err *e) {
    model_info *i = &b->m->info;
    olmo o = {0};
    if (!read_sizes(b, &o, e) ||
        !build_weight(b, &b->m->embed, i->n_vocab, i->D, "model.embed_tokens.weight", e) ||
        !build_weight(b, &b->m->norm.w, 1, i->D, "model.norm.weight", e) ||
        !build_head(b, "tie_word_embeddings", false, "model.embed_tokens.weight", e))
        return false;
    for (b->layer = 0; b->layer < i->n_layers; b->layer++)
        if (!build_layer(b, &o, b->layer, e))
            return false;
    return true;
}

const family family_olmo_hybrid = {
    .names = {"olmo_hybrid"},
    .summary = "OLMo hybrid: gated delta rule and softmax attention",
    .build = olmo_hybrid_build,
};
