// RetNet (arXiv:2307.08621), in flash-linear-attention's layout.
//
//     H_t = gamma_h H_{t-1} + k v^T,   gamma_h = 1 - 2^(-5-h),   o = K^-1/2 H^T q     (science R02)
//
// q and k pass the feature map, then rotary positions, before keys are repeated for their group. The
// output is normed per head and gated by SiLU(g_proj x), fused (g_norm_swish_gate) or not (g_norm).
// share_conv_kernel and use_short_conv of older configs never reach FLA's layer.
#include "core/families/fla_group.h"
#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

typedef struct retnet {
    module base;
    fla_group g;
    mat decay; // [1, H] natural logs
    activation feature;
} retnet;

static void retnet_free(module *base, backend *be) {
    retnet *d = (retnet *)base;
    fla_group_free(&d->g, be);
    if (be)
        be->op->free(be, d->decay);
    free(d);
}

static void retnet_run(module *base, fwd *f, mat x, mat y) {
    retnet *d = (retnet *)base;
    const backend_ops *op = f->be->op;
    steps s = {.s = base->heads, .T = x.rows};
    mat q, k, v;
    if (!fla_group_project(&d->g, base, f, x, &q, &k, &v))
        return;
    op->activate(f->be, q, d->feature, 1);
    op->activate(f->be, k, d->feature, 1);
    op->rotate(f->be, q, s.s.K, s.s.K, f->pos, 10000);
    op->rotate(f->be, k, s.s.K, s.s.K, f->pos, 10000);
    s.q = q;
    s.k = fla_group_repeat(&d->g, base, f, k, s.s.K);
    s.v = fla_group_repeat(&d->g, base, f, v, s.s.V);
    s.decay = fwd_tmp_exact(f, x.rows, s.s.H);
    if (mat_none(s.decay))
        return;
    op->broadcast(f->be, d->decay, s.decay);
    fla_group_output(&d->g, base, f, fwd_recur(f, base, &s), x, y);
}

static bool retnet_bind(retnet *d, builder *b, const char *prefix, const head_shape *s,
                        const fla_group_options *opt, err *e) {
    double *log_gamma = mem_alloc((size_t)s->H, sizeof *log_gamma, "decays", e);
    if (!log_gamma)
        return false;
    for (int h = 0; h < s->H; h++)
        log_gamma[h] = log1p(-ldexp(1, -5 - h));
    bool ok = build_constant(b, &d->decay, 1, s->H, log_gamma, e) &&
              fla_group_bind(&d->g, &d->base, b, prefix, s, opt, e);
    free(log_gamma);
    return ok;
}

static module *retnet_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.decay = DECAY_HEAD, .erase = ERASE_NONE};
    fla_group_options opt = {.o_norm = true,
                             .norms = {"g_norm_swish_gate.weight", "g_norm.weight"}};
    char gate[300];
    int kv = 0;
    activation feature = ACT_NONE, act = ACT_SILU;
    build_name(gate, sizeof gate, prefix, "g_proj.weight");
    opt.conv = build_has(b, "%s.q_conv1d.weight", prefix);
    if (!fla_group_sizes(b, 8, 1, 2, &s, &kv, e) ||
        !config_int_or(b->cfg, "conv_size", 1, 64, 4, &opt.width, e) ||
        !fla_activation(b, "feature_map", NULL, &feature, e) ||
        !fla_activation(b, "hidden_act", "swish", &act, e) ||
        !build_switch(b, "use_output_gate", NULL, gate, &opt.gate, e))
        return NULL;
    if (s.K % 2 != 0) {
        err_set(e, ERR_INPUT, "%s: rotary positions need an even key size, heads have %d",
                config_path(b->cfg), s.K);
        return NULL;
    }
    retnet *d = mem_zalloc(1, sizeof *d, "a RetNet layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "retention", .run = retnet_run, .free = retnet_free};
    d->g.kv = kv;
    d->g.gate_act = act;
    d->feature = feature;
    if (!retnet_bind(d, b, prefix, &s, &opt, e)) {
        retnet_free(&d->base, b->be);
        return NULL;
    }
    return &d->base;
}

static bool retnet_build(builder *b, err *e) {
    return fla_build(b, retnet_new, e);
}

const family family_retnet = {
    .names = {"retnet"},
    .summary = "RetNet: linear attention with a fixed decay per head",
    .build = retnet_build,
};
