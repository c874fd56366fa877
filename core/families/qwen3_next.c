// Qwen3-Next, in the layout that transformers reads: projections fused per key head.
//
//     in_proj_qkvz   per key head: q (K rows), k (K), v (r V), z (r V)      r = value heads per key head
//     in_proj_ba     per key head: b (r rows), a (r)                       (fault B30)
//
// The convolution takes all q, all k, all v instead. The recurrence is science R07; value head i
// reads key head i / r (fault B32).
#include "core/families/qwen.h"

static bool project(fla_gated *d, builder *b, const char *prefix, const head_shape *s, err *e) {
    char name[300];
    int64_t D = b->m->info.D, K = s->K, r = s->H / s->Hk, rV = r * s->V, all = 2 * (K + rV);
    build_name(name, sizeof name, prefix, "in_proj_qkvz.weight");
    if (!build_blocks(b, &d->h.q, s->Hk, 0, K, all, D, name, e) ||
        !build_blocks(b, &d->h.k, s->Hk, K, K, all, D, name, e) ||
        !build_blocks(b, &d->h.v, s->Hk, 2 * K, rV, all, D, name, e) ||
        !build_blocks(b, &d->h.g, s->Hk, 2 * K + rV, rV, all, D, name, e))
        return false;
    build_name(name, sizeof name, prefix, "in_proj_ba.weight");
    return build_blocks(b, &d->h.b, s->Hk, 0, r, 2 * r, D, name, e) &&
           build_blocks(b, &d->decay.a, s->Hk, r, r, 2 * r, D, name, e);
}

static bool qwen3_next_build(builder *b, err *e) {
    const qwen_layout how = {
        .project = project, .root = "model.", .experts = true, .may_keep = true};
    return qwen_build(b, &how, e) &&
           build_head(b, "tie_word_embeddings", false, "model.embed_tokens.weight", e);
}

const family family_qwen3_next = {
    .names = {"qwen3_next"},
    .summary = "Qwen3-Next: gated delta rule, gated attention in every fourth layer, experts",
    .build = qwen3_next_build,
};
