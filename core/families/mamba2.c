// Mamba-2 in three layouts: flash-linear-attention's, Hugging Face's (other words for eps and the
// limits of dt, same tensors) and the authors' own (state-spaces), which names no model_type.
//
//     backbone.embeddings (or embedding), backbone.layers.N.{norm, mixer}, backbone.norm_f, lm_head
#include "core/modules/mamba2.h"
#include "core/families/hf.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

// The authors' configs: sizes of the mixer stand in "ssm_cfg".
static bool authors(const config *cfg) {
    return config_has(cfg, "ssm_cfg") && config_has(cfg, "d_model");
}

static bool mamba2_sizes(const config *cfg, model_info *i, err *e) {
    int64_t L = 0, multiple = 1;
    if (!authors(cfg))
        return family_sizes(cfg, i, e);
    if (!config_int(cfg, "d_model", 1, 1 << 24, &i->D, e) ||
        !config_int(cfg, "n_layer", 1, 4096, &L, e) ||
        !config_int(cfg, "vocab_size", 1, INT32_MAX, &i->n_vocab, e) ||
        !config_int_or(cfg, "pad_vocab_size_multiple", 1, 1 << 20, 8, &multiple, e))
        return false;
    i->n_layers = (int)L;
    // Their embedding has rows up to the next multiple.
    i->n_vocab = (i->n_vocab + multiple - 1) / multiple * multiple;
    return true;
}

static bool own_layout(builder *b, mamba2_spec *s, const char *prefix, err *e) {
    const mamba2_keys keys = {.heads = "num_heads",
                              .head_dim = "head_dim",
                              .groups = "n_groups",
                              .state = "state_size",
                              .conv = "conv_kernel",
                              .limits =
                                  config_has(b->cfg, "dt_limit") ? "dt_limit" : "time_step_limit",
                              .conv_bias = "use_conv_bias",
                              .in_bias = "use_bias",
                              .out_bias = "use_bias"};
    bool norm = true;
    activation act = ACT_SILU;
    char name[300];
    snprintf(name, sizeof name, "%s.norm.weight", prefix);
    if (!mamba2_read(b, b->cfg, &keys, prefix, s, e) ||
        !hf_activation(b, "hidden_act", "silu", &act, e) ||
        !build_switch(b, "rmsnorm", NULL, name, &norm, e) ||
        !config_bool_or(b->cfg, "norm_before_gate", false, &s->norm_before_gate, e))
        return false;
    if (act != ACT_SILU)
        return err_set(e, ERR_UNSUPPORTED, "%s: a Mamba-2 with another hidden_act than silu",
                       config_path(b->cfg));
    s->plain = !norm;
    return true;
}

static bool authors_layout(builder *b, mamba2_spec *s, const char *prefix, err *e) {
    const mamba2_keys keys = {.heads = NULL, // d_inner / headdim
                              .head_dim = "headdim",
                              .groups = "ngroups",
                              .state = "d_state",
                              .conv = "d_conv",
                              .limits = "dt_limit",
                              .conv_bias = "conv_bias",
                              .in_bias = "bias",
                              .out_bias = "bias"};
    const char *layer = "Mamba1";
    bool norm = true, per_channel = false;
    config *c = config_child(b->cfg, "ssm_cfg", e);
    bool ok = c && config_text_or(c, "layer", "Mamba1", &layer, e);
    if (ok && strcmp(layer, "Mamba2") != 0)
        ok = err_set(e, ERR_UNSUPPORTED, "%s: ssm_cfg.layer \"%s\" is not known here (Mamba2 is)",
                     config_path(b->cfg), text_show(layer));
    ok = ok && mamba2_read(b, c, &keys, prefix, s, e) &&
         config_bool_or(c, "rmsnorm", true, &norm, e) &&
         config_bool_or(c, "norm_before_gate", false, &s->norm_before_gate, e) &&
         config_bool_or(c, "D_has_hdim", false, &per_channel, e);
    if (ok && per_channel)
        ok = err_set(e, ERR_UNSUPPORTED, "%s: ssm_cfg.D_has_hdim is not known here",
                     config_path(b->cfg));
    // Their code's defaults, where the tensors alone cannot tell (G and N come as a product).
    s->groups = s->groups == 0 && s->state == 0 ? 1 : s->groups;
    s->plain = !norm;
    config_close(c);
    return ok;
}

static bool refuse_unknown(builder *b, err *e) {
    static const char *const keys[] = {"D_has_hdim", "attn", "d_intermediate", "attn_layer_idx",
                                       NULL};
    bool rms = true;
    if (!hf_refuse(b, keys, e) || !config_bool_or(b->cfg, "rms_norm", true, &rms, e))
        return false;
    return rms || err_set(e, ERR_UNSUPPORTED, "%s: rms_norm false (LayerNorm) is not known here",
                          config_path(b->cfg));
}

static bool build_layer(builder *b, int L, err *e) {
    char prefix[128];
    mamba2_spec s;
    snprintf(prefix, sizeof prefix, "backbone.layers.%d.mixer", L);
    if (!(authors(b->cfg) ? authors_layout : own_layout)(b, &s, prefix, e))
        return false;
    s.eps = b->m->info.norm_eps;
    return hf_branch(b, "backbone.layers", L, "norm", 1, mamba2_new(b, prefix, &s, e), e);
}

static bool mamba2_build(builder *b, err *e) {
    model_info *i = &b->m->info;
    bool theirs = authors(b->cfg);
    const char *embed = build_has(b, "backbone.embedding.weight") ? "backbone.embedding.weight"
                                                                  : "backbone.embeddings.weight";
    const char *eps = config_has(b->cfg, "norm_eps") ? "norm_eps" : "layer_norm_epsilon";
    if (!refuse_unknown(b, e) || !build_eps(b, eps, 1e-5, e) ||
        !build_weight(b, &b->m->embed, i->n_vocab, i->D, embed, e) ||
        !build_weight(b, &b->m->norm.w, 1, i->D, "backbone.norm_f.weight", e) ||
        !build_head(b, theirs ? "tie_embeddings" : "tie_word_embeddings",
                    theirs || !build_has(b, "lm_head.weight"), embed, e))
        return false;
    for (b->layer = 0; b->layer < i->n_layers; b->layer++)
        if (!build_layer(b, b->layer, e))
            return false;
    return true;
}

const family family_mamba2 = {
    .names = {"mamba2"},
    .summary = "Mamba-2: a decay per head, no erasing, gate and norm per group",
    .build = mamba2_build,
    .claims = authors,
    .sizes = mamba2_sizes,
};
