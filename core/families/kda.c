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
#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct kda {
    module base;
    fla_heads h;
    mat f0, f1;          // [r, D], [H * K, r]
    mat g0, g1, g1_bias; // [r, D], [H * V, r], [1, H * V]
    mat a_log, dt_bias;  // [1, H] (none: exp(A_log) = 1), [1, H * K]
    double lower_bound;  // NaN: softplus gate
} kda;

static void kda_free(module *base, backend *be) {
    kda *d = (kda *)base;
    mat all[] = {d->f0, d->f1, d->g0, d->g1, d->g1_bias, d->a_log, d->dt_bias};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    fla_heads_free(&d->h, be);
    free(d);
}

static void kda_run(module *base, fwd *f, mat x, mat y) {
    kda *d = (kda *)base;
    steps s;
    fla_heads_steps(&d->h, base, f, x, ACT_SILU, &s);
    mat low = fwd_linear(f, x, d->f0, MAT_NONE);
    if (f->be->fail.code != ERR_NONE)
        return;
    s.decay = fwd_linear_exact(f, low, d->f1, MAT_NONE);
    if (mat_none(s.decay))
        return;
    f->be->op->log_decay(f->be, s.decay, d->a_log, d->dt_bias, d->lower_bound);
    f->be->op->normalize_heads(f->be, s.q, s.s.K, HEAD_NORM_L2, 1e-6);
    f->be->op->normalize_heads(f->be, s.k, s.s.K, HEAD_NORM_L2, 1e-6);
    mat o = fwd_recur(f, base, &s);
    mat gate = fwd_linear(f, x, d->g0, MAT_NONE);
    if (mat_none(o) || mat_none(gate))
        return;
    fla_heads_output(&d->h, base, f, o, fwd_linear(f, gate, d->g1, d->g1_bias), y);
}

// The rank of a pair is whatever its first matrix says.
static bool pair(builder *b, const char *prefix, const char *stem, int64_t out, mat *first,
                 mat *second, err *e) {
    char a[300], c[300];
    int64_t rank = 0, cols = 0;
    snprintf(a, sizeof a, "%s.%s.0.weight", prefix, stem);
    snprintf(c, sizeof c, "%s.%s.1.weight", prefix, stem);
    build_shape(b, a, &rank, &cols);
    if (rank == 0)
        rank = 1; // absent: reported as missing below
    return build_weight(b, first, rank, b->m->info.D, a, e) &&
           build_weight(b, second, out, rank, c, e);
}

static bool kda_bind(kda *d, builder *b, const char *prefix, const head_shape *s,
                     const fla_options *opt, err *e) {
    char name[300];
    int64_t HK = (int64_t)s->H * s->K, HV = (int64_t)s->H * s->V;
    if (!fla_heads_bind(&d->h, &d->base, b, prefix, s, opt, e) ||
        !pair(b, prefix, "f_proj", HK, &d->f0, &d->f1, e) ||
        !pair(b, prefix, "g_proj", HV, &d->g0, &d->g1, e) ||
        !build_weight(b, &d->dt_bias, 1, HK, fla_name(name, sizeof name, prefix, "dt_bias"), e))
        return false;
    fla_name(name, sizeof name, prefix, "g_proj.1.bias");
    if (build_has(b, "%s", name) && !build_weight(b, &d->g1_bias, 1, HV, name, e))
        return false;
    fla_name(name, sizeof name, prefix, "A_log");
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
    kda *d = mem_zalloc(1, sizeof *d, "a KDA layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "Kimi delta attention", .run = kda_run, .free = kda_free};
    d->lower_bound = bound;
    if (!kda_bind(d, b, prefix, &s, &opt, e)) {
        kda_free(&d->base, b->be);
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
