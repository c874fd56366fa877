// Gated linear attention (arXiv:2312.06635), in flash-linear-attention's layout.
//
//     H_t = Diag(w_t) H_{t-1} + k v^T,   o = K^-1/2 H^T q                    (science R04)
//
//     ln w = max(clamp_min, ln sigmoid(gk_1 gk_0 x + bias) / 16)
//
// q, k, v are plain projections; with short convolutions they pass those and SiLU. feature_map acts on
// q and k. The output is normed per head and gated by SiLU(g_proj x); FLA names the norm
// g_norm_swish_gate when it is fused with the gate and g_norm when not: the same formula.
#include "core/families/fla_group.h"
#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

enum { DIVISOR = 16 }; // of the log gate

typedef struct gla {
    module base;
    fla_group g;
    mat low, high, bias; // [r, D], [kv K, r], [1, kv K]
    activation feature;
    double clamp;
} gla;

static void gla_free(module *base, backend *be) {
    gla *d = (gla *)base;
    fla_group_free(&d->g, be);
    if (be) {
        be->op->free(be, d->low);
        be->op->free(be, d->high);
        be->op->free(be, d->bias);
    }
    free(d);
}

static void gla_run(module *base, fwd *f, mat x, mat y) {
    gla *d = (gla *)base;
    const backend_ops *op = f->be->op;
    steps s = {.s = base->heads, .T = x.rows};
    mat q, k, v;
    if (!fla_group_project(&d->g, base, f, x, &q, &k, &v))
        return;
    mat low = fwd_linear(f, x, d->low, MAT_NONE);
    if (mat_none(low))
        return;
    mat decay = fwd_linear_exact(f, low, d->high, d->bias);
    if (mat_none(decay))
        return;
    op->log_forget(f->be, decay, MAT_NONE, DIVISOR, d->clamp);
    op->activate(f->be, q, d->feature, 1);
    op->activate(f->be, k, d->feature, 1);
    s.q = q;
    s.k = fla_group_repeat(&d->g, base, f, k, s.s.K);
    s.v = fla_group_repeat(&d->g, base, f, v, s.s.V);
    s.decay = fla_group_repeat(&d->g, base, f, decay, s.s.K);
    if (f->be->fail.code != ERR_NONE)
        return;
    fla_group_output(&d->g, base, f, fwd_recur(f, base, &s), x, y);
}

static bool gla_bind(gla *d, builder *b, const char *prefix, const head_shape *s,
                     const fla_group_options *opt, err *e) {
    char low[300], high[300], bias[300];
    int64_t rank = 0, cols = 0, nk = (int64_t)d->g.kv * s->K;
    build_name(low, sizeof low, prefix, "gk_proj.0.weight");
    build_name(high, sizeof high, prefix, "gk_proj.1.weight");
    build_name(bias, sizeof bias, prefix, "gk_proj.1.bias");
    build_shape(b, low, &rank, &cols);
    rank = rank ? rank : 1; // absent: reported as missing below
    return fla_group_bind(&d->g, &d->base, b, prefix, s, opt, e) &&
           build_weight(b, &d->low, rank, b->m->info.D, low, e) &&
           build_weight(b, &d->high, nk, rank, high, e) &&
           build_weight(b, &d->bias, 1, nk, bias, e);
}

// Keys that never reach FLA's layer: only the values it behaves as are taken.
static bool check_fixed(builder *b, err *e) {
    double divisor = DIVISOR;
    bool gk = true, gv = false;
    if (!config_real_or(b->cfg, "gate_logit_normalizer", DIVISOR, &divisor, e) ||
        !config_bool_or(b->cfg, "use_gk", true, &gk, e) ||
        !config_bool_or(b->cfg, "use_gv", false, &gv, e))
        return false;
    if (divisor != DIVISOR)
        return err_set(e, ERR_UNSUPPORTED, "%s: gate_logit_normalizer %g is not known here (%d is)",
                       config_path(b->cfg), divisor, DIVISOR);
    if (!gk || gv)
        return err_set(e, ERR_UNSUPPORTED, "%s: use_gk %s with use_gv %s is not known here",
                       config_path(b->cfg), gk ? "true" : "false", gv ? "true" : "false");
    return true;
}

static module *gla_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.decay = DECAY_CHANNEL, .erase = ERASE_NONE};
    fla_group_options opt = {.o_norm = true,
                             .norms = {"g_norm_swish_gate.weight", "g_norm.weight"}};
    char gate[300], conv[300];
    int kv = 0;
    double clamp = -INFINITY;
    activation feature = ACT_NONE, act = ACT_SILU;
    build_name(gate, sizeof gate, prefix, "g_proj.weight");
    build_name(conv, sizeof conv, prefix, "q_conv1d.weight");
    if (!check_fixed(b, e) || !fla_group_sizes(b, 4, 0.5, 1, &s, &kv, e) ||
        !config_real_or(b->cfg, "clamp_min", -INFINITY, &clamp, e) ||
        !config_int_or(b->cfg, "conv_size", 1, 64, 4, &opt.width, e) ||
        !fla_activation(b, "feature_map", NULL, &feature, e) ||
        !fla_activation(b, "hidden_act", "swish", &act, e) ||
        !build_switch(b, "use_short_conv", NULL, conv, &opt.conv, e) ||
        !build_switch(b, "use_output_gate", NULL, gate, &opt.gate, e))
        return NULL;
    gla *d = mem_zalloc(1, sizeof *d, "a GLA layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "gated linear attention", .run = gla_run, .free = gla_free};
    d->g.kv = kv;
    d->g.gate_act = act;
    d->feature = feature;
    d->clamp = clamp;
    if (!gla_bind(d, b, prefix, &s, &opt, e)) {
        gla_free(&d->base, b->be);
        return NULL;
    }
    return &d->base;
}

static bool gla_build(builder *b, err *e) {
    return fla_build(b, gla_new, e);
}

const family family_gla = {
    .names = {"gla"},
    .summary = "GLA: linear attention with a forget gate per key channel",
    .build = gla_build,
};
