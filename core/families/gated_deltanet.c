// Gated DeltaNet (arXiv:2412.06464), in flash-linear-attention's layout.
//
//     H_t = (I - beta k k^T) g_t H_{t-1} + beta k v^T            (science R07)
//
// Value head h reads key head h / (H / Hk). The output gate is SiLU on the normed read-out.
#include "core/families/fla.h"
#include "core/forward.h"
#include "core/mem.h"

#include <stdlib.h>

typedef struct gated_deltanet {
    module base;
    fla_heads h;
    fla_gate decay;
} gated_deltanet;

static void gated_deltanet_free(module *base, backend *be) {
    gated_deltanet *d = (gated_deltanet *)base;
    fla_heads_free(&d->h, be);
    fla_gate_free(&d->decay, be);
    free(d);
}

static void gated_deltanet_run(module *base, fwd *f, mat x, mat y) {
    gated_deltanet *d = (gated_deltanet *)base;
    steps s;
    fla_heads_steps(&d->h, base, f, x, ACT_SILU, &s);
    s.decay = fla_gate_run(&d->decay, f, x);
    if (f->be->fail.code != ERR_NONE)
        return;
    f->be->op->normalize_heads(f->be, s.q, s.s.K, HEAD_NORM_L2, 1e-6);
    f->be->op->normalize_heads(f->be, s.k, s.s.K, HEAD_NORM_L2, 1e-6);
    fla_heads_output_x(&d->h, base, f, fwd_recur(f, base, &s), x, y);
}

static module *gated_deltanet_new(builder *b, const char *prefix, err *e) {
    head_shape s = {.n_h = 1, .decay = DECAY_HEAD, .erase = ERASE_KEY};
    fla_options opt = {0};
    char name[300];
    fla_name(name, sizeof name, prefix, "g_proj.weight");
    if (!fla_head_sizes(b, 6, 256, 2, &s, &opt, e) ||
        !build_switch(b, "use_gate", NULL, name, &opt.gate, e))
        return NULL;
    gated_deltanet *d = mem_zalloc(1, sizeof *d, "a Gated DeltaNet layer", e);
    if (!d)
        return NULL;
    d->base = (module){
        .kind = "gated delta rule", .run = gated_deltanet_run, .free = gated_deltanet_free};
    if (!fla_heads_bind(&d->h, &d->base, b, prefix, &s, &opt, e) ||
        !fla_gate_bind(&d->decay, b, prefix, s.H, e)) {
        gated_deltanet_free(&d->base, b->be);
        return NULL;
    }
    // Files written before 2025-03 carry a D that no forward pass ever read.
    build_dead(b, "D of early Gated DeltaNet files was never read",
               fla_name(name, sizeof name, prefix, "D"));
    return &d->base;
}

static bool gated_deltanet_build(builder *b, err *e) {
    return fla_build(b, gated_deltanet_new, e);
}

const family family_gated_deltanet = {
    .names = {"gated_deltanet", "gated_delta_net"},
    .summary = "Gated DeltaNet: delta rule with one forget gate per head",
    .build = gated_deltanet_build,
};
