// RWKV-4, in the layout that transformers reads (model_type "rwkv").
//
//     x <- x + W_o (sigmoid(r) wkv(k, v))                time mix     kernels/wkv.h
//     x <- x + sigmoid(r) W_v relu(k)^2                  channel mix
//
// r, k, v read x_t m + x_{t-1} (1 - m) with their own m. What a channel carries is a weighted average,
// no matrix: there is no state for the analyses to look at. rescale_every halves weights and stream
// together, for the range of float16: without effect here, and ignored.
#include "core/families/family.h"
#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { R, K, V, PARTS };
static const char *const part_name[] = {"receptance", "key", "value"};

// Time mix: all three read x; channel mix: r and k do, v reads k.
typedef struct rwkv4 {
    module base;
    mat mix[PARTS];   // [1, D]: 1 - m, the share of the token before
    mat w[PARTS], o;  // projections
    mat first, decay; // [1, C]: u, and w = -exp(time_decay)
    int carry_token, carry_average;
} rwkv4;

static void rwkv4_free(module *base, backend *be) {
    rwkv4 *m = (rwkv4 *)base;
    for (int i = 0; be && i < PARTS; i++) {
        be->op->free(be, m->mix[i]);
        be->op->free(be, m->w[i]);
    }
    if (be) {
        be->op->free(be, m->o);
        be->op->free(be, m->first);
        be->op->free(be, m->decay);
    }
    free(m);
}

// W_i (x + share_i (before - x))
static mat project(rwkv4 *m, fwd *f, mat x, mat shift, int i) {
    mat in = fwd_tmp(f, x.rows, x.cols);
    if (mat_none(in))
        return in;
    f->be->op->mix(f->be, x, shift, m->mix[i], in);
    return fwd_linear(f, in, m->w[i], MAT_NONE);
}

static void time_mix(module *base, fwd *f, mat x, mat y) {
    rwkv4 *m = (rwkv4 *)base;
    const backend_ops *op = f->be->op;
    mat shift = fwd_tmp(f, x.rows, x.cols);
    if (mat_none(shift))
        return;
    op->token_shift(f->be, x, fwd_carry(f, base, m->carry_token), shift);
    mat r = project(m, f, x, shift, R), k = project(m, f, x, shift, K);
    mat v = project(m, f, x, shift, V);
    if (mat_none(r) || mat_none(k) || mat_none(v))
        return;
    mat o = fwd_tmp(f, k.rows, k.cols);
    if (mat_none(o))
        return;
    op->wkv(f->be, k, v, m->first, m->decay, fwd_carry(f, base, m->carry_average), o);
    op->multiply(f->be, r, ACT_SIGMOID, o);
    fwd_output(f, base, o, m->o, MAT_NONE, y);
}

static void channel_mix(module *base, fwd *f, mat x, mat y) {
    rwkv4 *m = (rwkv4 *)base;
    const backend_ops *op = f->be->op;
    mat shift = fwd_tmp(f, x.rows, x.cols);
    if (mat_none(shift))
        return;
    op->token_shift(f->be, x, fwd_carry(f, base, m->carry_token), shift);
    mat r = project(m, f, x, shift, R), k = project(m, f, x, shift, K);
    if (mat_none(r) || mat_none(k))
        return;
    op->activate(f->be, k, ACT_RELU2, 1);
    op->linear(f->be, k, m->w[V], MAT_NONE, y);
    op->multiply(f->be, r, ACT_SIGMOID, y);
}

// PREFIX.NAME through f, as a row [1, n].
static bool bind_row(builder *b, mat *out, int64_t n, double (*f)(double), const char *prefix,
                     const char *name, err *e) {
    char full[300];
    double *v = NULL;
    build_name(full, sizeof full, prefix, name);
    if (!build_numbers(b, &v, 1, n, full, e))
        return false;
    if (!v)
        return true;
    for (int64_t i = 0; i < n; i++)
        v[i] = f(v[i]);
    bool ok = build_constant(b, out, 1, n, v, e);
    free(v);
    return ok;
}

static double rest(double m) {
    return 1 - m;
}
static double rate(double w) {
    return -exp(w);
}

static bool bind_matrix(builder *b, mat *out, int64_t rows, int64_t cols, const char *prefix,
                        const char *name, err *e) {
    char full[300];
    snprintf(full, sizeof full, "%s.%s.weight", prefix, name);
    return build_weight(b, out, rows, cols, full, e);
}

static bool bind_mixes(rwkv4 *m, builder *b, const char *prefix, int last, err *e) {
    char name[64];
    for (int i = R; i <= last; i++) {
        snprintf(name, sizeof name, "time_mix_%s", part_name[i]);
        if (!bind_row(b, &m->mix[i], b->m->info.D, rest, prefix, name, e))
            return false;
    }
    return true;
}

static rwkv4 *new_module(builder *b, const char *kind, void (*run)(module *, fwd *, mat, mat),
                         err *e) {
    rwkv4 *m = mem_zalloc(1, sizeof *m, "an RWKV-4 layer", e);
    if (!m)
        return NULL;
    m->base = (module){.kind = kind, .run = run, .free = rwkv4_free};
    m->carry_token = module_carry(&m->base, "token before", 1, b->m->info.D);
    return m;
}

static module *time_mix_new(builder *b, const char *prefix, int64_t C, err *e) {
    char first[300];
    int64_t D = b->m->info.D;
    rwkv4 *m = new_module(b, "RWKV-4 time mix (a weighted average per channel, no matrix state)",
                          time_mix, e);
    if (!m)
        return NULL;
    m->carry_average = module_state(&m->base, "weighted average", 3, C);
    snprintf(first, sizeof first, "%s.time_first", prefix);
    bool ok = bind_mixes(m, b, prefix, V, e) && build_weight(b, &m->first, 1, C, first, e) &&
              bind_row(b, &m->decay, C, rate, prefix, "time_decay", e) &&
              bind_matrix(b, &m->o, D, C, prefix, "output", e);
    for (int i = R; ok && i <= V; i++)
        ok = bind_matrix(b, &m->w[i], C, D, prefix, part_name[i], e);
    if (ok)
        return &m->base;
    rwkv4_free(&m->base, b->be);
    return NULL;
}

static module *channel_mix_new(builder *b, const char *prefix, int64_t width, err *e) {
    int64_t D = b->m->info.D;
    rwkv4 *m = new_module(b, "RWKV-4 channel mix", channel_mix, e);
    if (!m)
        return NULL;
    if (bind_mixes(m, b, prefix, K, e) && bind_matrix(b, &m->w[R], D, D, prefix, "receptance", e) &&
        bind_matrix(b, &m->w[K], width, D, prefix, "key", e) &&
        bind_matrix(b, &m->w[V], D, width, prefix, "value", e))
        return &m->base;
    rwkv4_free(&m->base, b->be);
    return NULL;
}

// Takes body.
static bool add_branch(builder *b, int L, const char *norm_name, module *body, err *e) {
    char name[300];
    row_norm norm = {0};
    if (!body)
        return false;
    snprintf(name, sizeof name, "rwkv.blocks.%d.%s", L, norm_name);
    if (!build_norm(b, &norm, NORM_LAYER, true, name, e)) {
        build_norm_free(b, &norm);
        body->free(body, b->be);
        return false;
    }
    if (build_branch_norms(b, L, norm, (row_norm){0}, 1, body, e))
        return true;
    build_norm_free(b, &norm);
    return false;
}

static bool rwkv4_build(builder *b, err *e) {
    char prefix[256];
    model *m = b->m;
    int64_t C = 0, width = 0;
    if (!build_eps(b, "layer_norm_epsilon", 1e-5, e) ||
        !config_int_or(b->cfg, "attention_hidden_size", 1, 1 << 24, m->info.D, &C, e) ||
        !config_int_or(b->cfg, "intermediate_size", 1, 1 << 26, 4 * m->info.D, &width, e) ||
        !build_weight(b, &m->embed, m->info.n_vocab, m->info.D, "rwkv.embeddings.weight", e) ||
        !build_norm(b, &m->embed_norm, NORM_LAYER, true, "rwkv.blocks.0.pre_ln", e) ||
        !build_norm(b, &m->norm, NORM_LAYER, true, "rwkv.ln_out", e) ||
        !build_head_named(b, "tie_word_embeddings", false, "rwkv.embeddings.weight", "head.weight",
                          e))
        return false;
    m->norm.eps = 1e-5; // whatever layer_norm_epsilon says
    (void)config_has(b->cfg, "rescale_every");
    for (b->layer = 0; b->layer < m->info.n_layers; b->layer++) {
        snprintf(prefix, sizeof prefix, "rwkv.blocks.%d.attention", b->layer);
        if (!add_branch(b, b->layer, "ln1", time_mix_new(b, prefix, C, e), e))
            return false;
        snprintf(prefix, sizeof prefix, "rwkv.blocks.%d.feed_forward", b->layer);
        if (!add_branch(b, b->layer, "ln2", channel_mix_new(b, prefix, width, e), e))
            return false;
    }
    return true;
}

static bool rwkv4_sizes(const config *cfg, model_info *i, err *e) {
    return family_sizes(cfg, i, e) &&
           (i->train_length > 0 ||
            config_int_or(cfg, "context_length", 0, INT64_MAX / 2, 0, &i->train_length, e));
}

const family family_rwkv4 = {
    .names = {"rwkv"},
    .summary = "RWKV-4: a weighted average per channel, no matrix state",
    .sizes = rwkv4_sizes,
    .build = rwkv4_build,
};
