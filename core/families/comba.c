// Comba, in flash-linear-attention's layout.
//
//     H_t = (g_t I - beta k p^T) H_{t-1} + beta k v^T, p reads the UNDECAYED state   (science R10)
//
//     p = k sigmoid(decay_h),  q <- q - D_h p,  then q, k and p are L2-normed per head
//
// The config keys use_inner_decay, use_output_correction and correction_factor never reach FLA's
// layer: decay and D are always in the file and always used. The output gate is a sigmoid.
#include "core/families/fla.h"
#include "core/forward.h"
#include "core/mem.h"

#include <stdlib.h>

typedef struct comba {
    module base;
    fla_heads h;
    fla_gate decay;
    mat inner; // [1, Hk] sigmoid(decay)
    mat D;     // [1, Hk]
} comba;

static void comba_free(module *base, backend *be) {
    comba *d = (comba *)base;
    fla_heads_free(&d->h, be);
    fla_gate_free(&d->decay, be);
    if (be) {
        be->op->free(be, d->inner);
        be->op->free(be, d->D);
    }
    free(d);
}

static void comba_run(module *base, fwd *f, mat x, mat y) {
    comba *d = (comba *)base;
    const backend_ops *op = f->be->op;
    steps s;
    fla_heads_steps(&d->h, base, f, x, FLA_QK_PLAIN, &s);
    s.decay = fla_gate_run(&d->decay, f, x);
    if (f->be->fail.code != ERR_NONE)
        return;
    int64_t K = s.s.K;
    mat p = fwd_tmp(f, s.T, s.k.cols), correction = fwd_tmp(f, s.T, s.k.cols);
    s.a = fwd_tmp(f, s.T, (int64_t)s.s.H * K);
    if (mat_none(p) || mat_none(correction) || mat_none(s.a))
        return;
    op->scale_heads(f->be, s.k, d->inner, 1, K, p);
    op->scale_heads(f->be, p, d->D, 1, K, correction);
    op->add(f->be, correction, -1, s.q);
    op->normalize_heads(f->be, s.q, K, HEAD_NORM_L2, 1e-6);
    op->normalize_heads(f->be, s.k, K, HEAD_NORM_L2, 1e-6);
    op->normalize_heads(f->be, p, K, HEAD_NORM_L2, 1e-6);
    op->scale_heads(f->be, s.k, s.beta, -1, K, s.a); // a = -beta k, for every value head
    s.b = p;
    fla_heads_output_x(&d->h, base, f, fwd_recur(f, base, &s), x, y);
}

static bool comba_bind(comba *d, builder *b, const char *prefix, const head_shape *s,
                       const fla_options *opt, err *e) {
    char name[300];
    if (!fla_heads_bind(&d->h, &d->base, b, prefix, s, opt, e) ||
        !fla_gate_bind(&d->decay, b, prefix, s->H, e) ||
        !build_weight(b, &d->inner, 1, s->Hk, build_name(name, sizeof name, prefix, "decay"), e) ||
        !build_weight(b, &d->D, 1, s->Hk, build_name(name, sizeof name, prefix, "D"), e))
        return false;
    if (b->be)
        b->be->op->activate(b->be, d->inner, ACT_SIGMOID, 1);
    d->h.gate_act = ACT_SIGMOID;
    return true;
}

static module *comba_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.n_h = 1, .decay = DECAY_HEAD, .erase = ERASE_PAIR};
    fla_options opt = {0};
    char name[300];
    build_name(name, sizeof name, prefix, "g_proj.weight");
    if (!fla_head_sizes(b, 6, 256, 2, &s, &opt, e) ||
        !build_switch(b, "use_output_gate", "use_gate", name, &opt.gate, e))
        return NULL;
    comba *d = mem_zalloc(1, sizeof *d, "a Comba layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "Comba", .run = comba_run, .free = comba_free};
    if (!comba_bind(d, b, prefix, &s, &opt, e)) {
        comba_free(&d->base, b->be);
        return NULL;
    }
    return &d->base;
}

static bool comba_build(builder *b, err *e) {
    return fla_build(b, comba_new, e);
}

const family family_comba = {
    .names = {"comba"},
    .summary = "Comba: scalar decay, erase along a key of its own, query correction",
    .build = comba_build,
};
