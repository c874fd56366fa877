// The gated delta rule as a module: what Gated DeltaNet, DeltaProduct and the hybrids built on them
// compute.
#include "core/families/fla.h"
#include "core/forward.h"
#include "core/mem.h"

#include <stdlib.h>

static void gated_free(module *base, backend *be) {
    fla_gated *d = (fla_gated *)base;
    fla_heads_free(&d->h, be);
    fla_gate_free(&d->decay, be);
    free(d);
}

static void gated_run(module *base, fwd *f, mat x, mat y) {
    fla_gated *d = (fla_gated *)base;
    steps s;
    fla_heads_steps(&d->h, base, f, x, FLA_QK_L2, &s);
    if (base->heads.decay == DECAY_HEAD)
        s.decay = fla_gate_run(&d->decay, f, x);
    if (f->be->fail.code != ERR_NONE)
        return;
    fla_heads_output_x(&d->h, base, f, fwd_recur(f, base, &s), x, y);
}

fla_gated *fla_gated_new(err *e) {
    fla_gated *d = mem_zalloc(1, sizeof *d, "a gated delta rule layer", e);
    if (d)
        d->base = (module){.kind = "gated delta rule", .run = gated_run, .free = gated_free};
    return d;
}
