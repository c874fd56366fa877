// DeltaNet (arXiv:2406.06484), in flash-linear-attention's layout.
//
//     H_t = (I - beta k k^T) H_{t-1} + beta k v^T           (science R06)
//
// q, k: linear -> short conv -> SiLU (or relu, elu + 1, none) -> L2 (or sum) norm; v: linear ->
// short conv -> SiLU; beta = sigmoid(b) or, with allow_neg_eigval, 2 sigmoid(b) (fault B22).
// use_beta false: beta is 1, or 2 with allow_neg_eigval. use_output_norm is ignored, as in FLA: the
// norm is always there.
#include "core/families/fla.h"
#include "core/forward.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct delta_net {
    module base;
    fla_heads h;
    activation qk_act;
    head_norm qk_norm;
    bool beta_two; // use_beta false with allow_neg_eigval: 2 everywhere, no b_proj
} delta_net;

static void delta_net_free(module *base, backend *be) {
    fla_heads_free(&((delta_net *)base)->h, be);
    free(base);
}

static void delta_net_run(module *base, fwd *f, mat x, mat y) {
    delta_net *d = (delta_net *)base;
    steps s;
    fla_qk qk = {d->qk_act, d->qk_norm, d->qk_norm == HEAD_NORM_L2 ? 1e-6 : 0};
    fla_heads_steps(&d->h, base, f, x, qk, &s);
    if (d->beta_two) {
        s.beta = fwd_tmp(f, x.rows, s.s.H);
        if (mat_none(s.beta))
            return;
        f->be->op->zero(f->be, s.beta);
        f->be->op->activate(f->be, s.beta, ACT_SIGMOID, 4); // 4 sigmoid(0)
    }
    if (f->be->fail.code != ERR_NONE)
        return;
    fla_heads_output_x(&d->h, base, f, fwd_recur(f, base, &s), x, y);
}

static bool word(builder *b, const char *key, const char *otherwise, const char *const *known,
                 int *out, err *e) {
    const char *got = otherwise;
    if (!config_text_or(b->cfg, key, otherwise, &got, e))
        return false;
    for (int i = 0; known[i]; i++)
        if (strcmp(got, known[i]) == 0) {
            *out = i;
            return true;
        }
    return err_set(e, ERR_UNSUPPORTED, "%s: %s \"%s\" is not known here", config_path(b->cfg), key,
                   text_show(got));
}

static module *delta_net_new(builder *b, const char *prefix, err *e) {
    static const char *const acts[] = {"silu", "swish", "relu", "elu", "identity", NULL};
    static const activation act_of[] = {ACT_SILU, ACT_SILU, ACT_RELU, ACT_ELU1, ACT_NONE};
    static const char *const norms[] = {"l2", "sum", NULL};
    static const head_norm norm_of[] = {HEAD_NORM_L2, HEAD_NORM_L1};
    int act = 0, norm = 0;
    int64_t H = 0;
    double expand_k = 1, expand_v = 1;
    bool beta = true, neg = false;
    fla_options opt = {.width = 4};
    char g_proj[300];
    build_name(g_proj, sizeof g_proj, prefix, "g_proj.weight");
    if (!config_int_or(b->cfg, "num_heads", 1, 65536, 16, &H, e) ||
        !config_real_or(b->cfg, "expand_k", 1, &expand_k, e) ||
        !config_real_or(b->cfg, "expand_v", 1, &expand_v, e) ||
        !config_bool_or(b->cfg, "use_beta", true, &beta, e) ||
        !config_bool_or(b->cfg, "allow_neg_eigval", false, &neg, e) ||
        !config_bool_or(b->cfg, "use_short_conv", true, &opt.conv, e) ||
        !config_int_or(b->cfg, "conv_size", 1, 64, 4, &opt.width, e) ||
        !build_switch(b, "use_gate", NULL, g_proj, &opt.gate, e) ||
        !word(b, "qk_activation", "silu", acts, &act, e) ||
        !word(b, "qk_norm", "l2", norms, &norm, e))
        return NULL;
    int64_t K = 0, V = 0;
    if (!fla_expanded(b, expand_k, expand_v, H, &K, &V, e))
        return NULL;
    delta_net *d = mem_zalloc(1, sizeof *d, "a DeltaNet layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "delta rule", .run = delta_net_run, .free = delta_net_free};
    d->qk_act = act_of[act];
    d->qk_norm = norm_of[norm];
    head_shape s = {.H = (int)H,
                    .Hk = (int)H,
                    .K = (int)K,
                    .V = (int)V,
                    .n_h = 1,
                    .decay = DECAY_NONE,
                    .erase = ERASE_KEY,
                    .beta_max = !beta ? 0
                                : neg ? 2
                                      : 1};
    s.scale = 1 / sqrt((double)s.K);
    if (!fla_heads_bind(&d->h, &d->base, b, prefix, &s, &opt, e)) {
        delta_net_free(&d->base, b->be);
        return NULL;
    }
    d->beta_two = !beta && neg;
    if (d->beta_two)
        d->base.heads.beta_max = 2;
    return &d->base;
}

static bool delta_net_build(builder *b, err *e) {
    return fla_build(b, delta_net_new, e);
}

const family family_delta_net = {
    .names = {"delta_net"},
    .summary = "DeltaNet: delta rule, one key per token, no decay",
    .build = delta_net_build,
};
