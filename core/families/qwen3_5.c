// Qwen3.5, in the layout that transformers reads: Qwen3-Next with plain projections, as a text model
// or inside a container for pictures and text.
//
//     in_proj_qkv    all q, all k, all v        in_proj_z, in_proj_b, in_proj_a
//
// A container keeps the text model's config under text_config and its tensors under
// model.language_model; its other tensors are skipped and counted (fault B38).
#include "core/families/qwen.h"

#include <stdio.h>
#include <string.h>

static bool project(fla_gated *d, builder *b, const char *prefix, const head_shape *s, err *e) {
    char name[300];
    int64_t D = b->m->info.D, H = s->H, nk = (int64_t)s->Hk * s->K, nv = H * s->V;
    build_name(name, sizeof name, prefix, "in_proj_qkv.weight");
    return build_rows(b, &d->h.q, 0, nk, 2 * nk + nv, D, name, e) &&
           build_rows(b, &d->h.k, nk, nk, 2 * nk + nv, D, name, e) &&
           build_rows(b, &d->h.v, 2 * nk, nv, 2 * nk + nv, D, name, e) &&
           build_weight(b, &d->h.g, nv, D,
                        build_name(name, sizeof name, prefix, "in_proj_z.weight"), e) &&
           build_weight(b, &d->h.b, H, D, build_name(name, sizeof name, prefix, "in_proj_b.weight"),
                        e) &&
           build_weight(b, &d->decay.a, H, D,
                        build_name(name, sizeof name, prefix, "in_proj_a.weight"), e);
}

static bool qwen3_5_sizes(const config *cfg, model_info *i, err *e) {
    if (!config_has(cfg, "text_config"))
        return family_sizes(cfg, i, e);
    config *text = config_child(cfg, "text_config", e);
    bool ok = text && family_sizes(text, i, e);
    config_close(text);
    return ok;
}

// bos and eos of the container count, and the text model's where it has none.
static bool end_tokens(const config *text, model_info *i, err *e) {
    int32_t bos = -1, eos = -1;
    if (!family_token(text, "bos_token_id", &bos, e) ||
        !family_token(text, "eos_token_id", &eos, e))
        return false;
    i->bos = i->bos < 0 ? bos : i->bos;
    i->eos = i->eos < 0 ? eos : i->eos;
    return true;
}

// Both configs of a container may hold the flag. Where they differ, the file says which is meant.
static bool head(builder *b, const config *text, const char *root, err *e) {
    static const char key[] = "tie_word_embeddings";
    char embed[80];
    snprintf(embed, sizeof embed, "%sembed_tokens.weight", root);
    const config *outer = b->cfg;
    if (text && config_has(text, key)) {
        bool inside = false, outside = false;
        if (!config_bool_or(text, key, false, &inside, e) ||
            !config_bool_or(outer, key, inside, &outside, e))
            return false;
        if (inside == outside || inside != build_has(b, "lm_head.weight"))
            b->cfg = text;
        if (inside != outside &&
            !build_note(b, e, "%s and text_config.%s differ: the file decides", key, key))
            return false;
    }
    bool ok = build_head(b, key, false, embed, e);
    b->cfg = outer;
    return ok;
}

static bool qwen3_5_build(builder *b, err *e) {
    qwen_layout how = {.project = project, .root = "model."};
    const config *outer = b->cfg;
    config *text = NULL;
    if (build_has(b, "model.language_model.embed_tokens.weight"))
        how.root = "model.language_model.";
    how.experts = strstr(b->m->info.family, "moe") != NULL;
    if (config_has(outer, "text_config") && !(text = config_child(outer, "text_config", e)))
        return false;
    bool ok = !text || end_tokens(text, &b->m->info, e);
    if (text)
        b->cfg = text;
    ok = ok && qwen_build(b, &how, e);
    b->cfg = outer;
    ok =
        ok && head(b, text, how.root, e) && build_skip(b, "model.visual.", "the part that sees", e);
    config_close(text);
    return ok;
}

const family family_qwen3_5 = {
    .names = {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"},
    .summary = "Qwen3.5: gated delta rule, gated attention in every fourth layer",
    .sizes = qwen3_5_sizes,
    .build = qwen3_5_build,
};
