// Kimi Delta Attention, in flash-linear-attention's layout.
//
//     H_t = (I - beta k k^T) Diag(w_t) H_{t-1} + beta k v^T     (science R08)
//
//     ln w = -exp(A_log) softplus(f(x) + dt_bias)               no lower_bound in the config
//     ln w = lower_bound sigmoid(exp(A_log) (f(x) + dt_bias))   with one (faults B34, B35)
//
// A_log per value head, dt_bias per value head and key channel; f and the output gate are low-rank
// pairs (numbered 0 and 1); the output gate is a sigmoid.
#include "core/families/fla.h"

#include <math.h>

static bool kda_bind(fla_kda *d, builder *b, const char *prefix, const head_shape *s,
                     const fla_options *opt, err *e) {
    char name[300];
    int64_t HK = (int64_t)s->H * s->K, HV = (int64_t)s->H * s->V;
    if (!fla_heads_bind(&d->h, &d->base, b, prefix, s, opt, e) ||
        !fla_kda_pair(b, prefix, "f_proj.0", "f_proj.1", HK, &d->f0, &d->f1, e) ||
        !fla_kda_pair(b, prefix, "g_proj.0", "g_proj.1", HV, &d->g0, &d->g1, e) ||
        !build_weight(b, &d->dt_bias, 1, HK, build_name(name, sizeof name, prefix, "dt_bias"), e))
        return false;
    build_name(name, sizeof name, prefix, "g_proj.1.bias");
    if (build_has(b, "%s", name) && !build_weight(b, &d->g1_bias, 1, HV, name, e))
        return false;
    build_name(name, sizeof name, prefix, "A_log");
    // With a bounded gate the factor exp(A_log) is optional (B35); the softplus gate needs it (B33).
    if (!isnan(d->lower_bound) && !build_has(b, "%s", name))
        return true;
    return build_weight(b, &d->a_log, 1, s->H, name, e);
}

static module *kda_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.n_h = 1, .decay = DECAY_CHANNEL, .erase = ERASE_KEY};
    fla_options opt = {0};
    double bound = NAN;
    if (!fla_head_sizes(b, 16, 128, 1, &s, &opt, e) ||
        !config_real_or(b->cfg, "lower_bound", NAN, &bound, e))
        return NULL;
    if (bound >= 0) {
        err_set(e, ERR_INPUT, "%s: lower_bound %g is not below zero", config_path(b->cfg), bound);
        return NULL;
    }
    fla_kda *d = fla_kda_new(e);
    if (!d)
        return NULL;
    d->lower_bound = bound;
    if (!kda_bind(d, b, prefix, &s, &opt, e)) {
        d->base.free(&d->base, b->be);
        return NULL;
    }
    d->h.gate_act = ACT_SIGMOID;
    return &d->base;
}

static bool kda_build(builder *b, err *e) {
    return fla_build(b, kda_new, e);
}

const family family_kda = {
    .names = {"kda"},
    .summary = "Kimi Delta Attention: delta rule with a forget gate per key channel",
    .build = kda_build,
};
