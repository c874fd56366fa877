#include "core/families/fla.h"

#include "core/modules/attention.h"
#include "core/modules/mlp.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool hidden_act(builder *b, activation *act, err *e) {
    const char *name = "swish";
    if (!config_text_or(b->cfg, "hidden_act", "swish", &name, e))
        return false;
    *act = ACT_SILU;
    if (strcmp(name, "swish") == 0 || strcmp(name, "silu") == 0)
        return true;
    return err_set(e, ERR_UNSUPPORTED, "%s: hidden_act \"%s\" is not known here (swish is)",
                   config_path(b->cfg), text_show(name));
}

// FLA's default MLP width: 2/3 of ratio x hidden, rounded up to a multiple of 256.
static bool intermediate_size(builder *b, int64_t *out, err *e) {
    int64_t given = 0;
    double ratio = 4;
    if (!config_int_or(b->cfg, "intermediate_size", 1, 1 << 24, 0, &given, e) ||
        !config_real_or(b->cfg, "hidden_ratio", 4, &ratio, e))
        return false;
    double width = (double)b->m->info.D * ratio * 2 / 3;
    if (!given && !(width >= 1 && width <= 1 << 24))
        return err_set(e, ERR_INPUT,
                       "%s: hidden_ratio %g of hidden_size %lld is no width of an MLP",
                       config_path(b->cfg), ratio, (long long)b->m->info.D);
    *out = given ? given : ((int64_t)width + 255) / 256 * 256;
    return true;
}

static bool layer_listed(const config *attn, int L, bool *listed, err *e) {
    *listed = false;
    json_t *layers = config_json(attn, "layers"), *item;
    size_t i;
    if (!json_is_array(layers))
        return err_set(e, ERR_INPUT, "%s: attn has no list \"layers\"", config_path(attn));
    json_array_foreach(layers, i, item) {
        if (!json_is_integer(item))
            return err_set(e, ERR_INPUT, "%s: attn.layers holds something that is no layer number",
                           config_path(attn));
        if (json_integer_value(item) == L)
            *listed = true;
    }
    return true;
}

static module *hybrid_attention(builder *b, const config *attn, const char *prefix, err *e) {
    // FLA makes the norms of q and k without naming an eps: its default, whatever norm_eps says.
    attention_spec s = {.norm_eps = 1e-5};
    if (!config_int(attn, "num_heads", 1, 65536, &s.heads, e) ||
        !config_int_or(attn, "num_kv_heads", 1, 65536, s.heads, &s.kv_heads, e) ||
        !config_int_or(attn, "window_size", 1, INT64_MAX / 4, 0, &s.window, e) ||
        !config_real_or(attn, "rope_theta", 10000, &s.rope_base, e) ||
        !config_bool_or(attn, "qkv_bias", false, &s.qkv_bias, e) ||
        !config_bool_or(attn, "qk_norm", false, &s.qk_norm, e))
        return NULL;
    if (b->m->info.D % s.heads != 0 || s.heads % s.kv_heads != 0) {
        err_set(e, ERR_INPUT,
                "%s: attn.num_heads %lld does not fit hidden_size %lld and %lld "
                "key/value heads",
                config_path(attn), (long long)s.heads, (long long)b->m->info.D,
                (long long)s.kv_heads);
        return NULL;
    }
    s.head_dim = b->m->info.D / s.heads;
    if (!(s.rope_base > 0) || s.head_dim % 2 != 0) {
        err_set(
            e, ERR_INPUT,
            "%s: attn.rope_theta %g with heads of %lld numbers: need a base above 0 and an even "
            "number",
            config_path(attn), s.rope_base, (long long)s.head_dim);
        return NULL;
    }
    return attention_new(b, prefix, &s, e);
}

// The pre-norm of a branch: today's name, or the name of 2024 when the norm lived inside it (B17).
// The old attn.norm was at first the output norm, which is as long as a value head.
static bool pre_norm(builder *b, int L, const char *today, const char *old, const fla_layout *how,
                     row_norm *out, err *e) {
    char name[256], old_name[300];
    int64_t D = b->m->info.D, rows = 0, cols = 0;
    snprintf(name, sizeof name, "model.layers.%d.%s", L, today);
    snprintf(old_name, sizeof old_name, "model.layers.%d.%s.weight", L, old);
    if (!build_has(b, "%s.weight", name)) {
        build_shape(b, old_name, &rows, &cols);
        if (cols == D) {
            build_note(b, e, "older names: %s and mlp.norm are the pre-norms", old);
            snprintf(name, sizeof name, "model.layers.%d.%s", L, old);
        }
    }
    return build_norm(b, out, how->norm, how->norm_bias, name, e);
}

static module *gated_mlp(builder *b, const char *prefix, err *e) {
    int64_t intermediate = 0;
    activation act = ACT_SILU;
    if (!hidden_act(b, &act, e) || !intermediate_size(b, &intermediate, e))
        return NULL;
    return mlp_new(b, prefix, intermediate, act, e);
}

// A norm belongs to the layer once build_branch has taken it, and to this function until then.
static bool build_layer(builder *b, int L, const fla_layout *how, const config *attn, err *e) {
    char prefix[256];
    bool softmax = false;
    row_norm norm = {0}, none = {0};
    module *body = NULL;
    if (attn && !layer_listed(attn, L, &softmax, e))
        return false;
    if (!pre_norm(b, L, "attn_norm", "attn.norm", how, &norm, e))
        goto fail;
    snprintf(prefix, sizeof prefix, "model.layers.%d.attn", L);
    body = softmax ? hybrid_attention(b, attn, prefix, e) : how->mixer(b, prefix, e);
    if (!body || !build_branch_norms(b, L, norm, none, 1, body, e))
        goto fail;
    norm = none;
    snprintf(prefix, sizeof prefix, "%s_norm", how->ffn_name);
    if (!pre_norm(b, L, prefix, "mlp.norm", how, &norm, e))
        goto fail;
    snprintf(prefix, sizeof prefix, "model.layers.%d.%s", L, how->ffn_name);
    body = how->ffn(b, prefix, e);
    if (!body || !build_branch_norms(b, L, norm, none, 1, body, e))
        goto fail;
    return true;
fail:
    build_norm_free(b, &norm);
    return false;
}

static bool refuse_unknown(builder *b, err *e) {
    if (config_has(b->cfg, "attnres_block_size"))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: attnres_block_size (attention residuals) is not "
                       "known here",
                       config_path(b->cfg));
    bool affine = true;
    if (!config_bool_or(b->cfg, "elementwise_affine", true, &affine, e))
        return false;
    if (!affine)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: elementwise_affine false (norms without weights) is not known here",
                       config_path(b->cfg));
    if (config_has(b->cfg, "quantization_config"))
        return err_set(e, ERR_UNSUPPORTED, "%s: quantised weights are not read here",
                       config_path(b->cfg));
    return true;
}

// norm_eps, or the rms_norm_eps of 2024; files that carry both and disagree are told which counts
// (fault B37).
static bool read_eps(builder *b, double otherwise, err *e) {
    double old = 0;
    bool both = config_has(b->cfg, "norm_eps") && config_has(b->cfg, "rms_norm_eps");
    if (!config_real_or(b->cfg, "rms_norm_eps", otherwise, &old, e) ||
        !build_eps(b, "norm_eps", old, e))
        return false;
    double eps = b->m->info.norm_eps;
    return !both || eps == old ||
           build_note(b, e, "the config has norm_eps %g and rms_norm_eps %g: norm_eps counts", eps,
                      old);
}

bool fla_build_layout(builder *b, const fla_layout *how, err *e) {
    bool ok = false;
    config *attn = NULL;
    model_info *i = &b->m->info;
    if (!refuse_unknown(b, e) || !read_eps(b, how->eps, e))
        return false;
    if (json_is_array(config_json(b->cfg, "attn")))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: a list of attention kinds in \"attn\" is not known "
                       "here",
                       config_path(b->cfg));
    if (config_has(b->cfg, "attn") && !(attn = config_child(b->cfg, "attn", e)))
        return false;
    if (!build_weight(b, &b->m->embed, i->n_vocab, i->D, "model.embeddings.weight", e) ||
        !build_norm(b, &b->m->norm, how->norm, how->norm_bias, "model.norm", e) ||
        !build_head(b, "tie_word_embeddings", false, "model.embeddings.weight", e))
        goto done;
    for (b->layer = 0; b->layer < i->n_layers; b->layer++)
        if (!build_layer(b, b->layer, how, attn, e))
            goto done;
    ok = true;
done:
    config_close(attn);
    return ok;
}

bool fla_build(builder *b, fla_mixer mixer, err *e) {
    fla_layout how = {.mixer = mixer, .ffn = gated_mlp, .ffn_name = "mlp", .eps = 1e-6};
    return fla_build_layout(b, &how, e);
}
