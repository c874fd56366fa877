// Kimi Delta Attention as a module (science R08); where its weights come from is the families' affair.
#include "core/families/fla.h"
#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void kda_free(module *base, backend *be) {
    fla_kda *d = (fla_kda *)base;
    mat all[] = {d->f0, d->f1, d->g0, d->g1, d->g1_bias, d->a_log, d->dt_bias};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    fla_heads_free(&d->h, be);
    free(d);
}

static void kda_run(module *base, fwd *f, mat x, mat y) {
    fla_kda *d = (fla_kda *)base;
    steps s;
    fla_heads_steps(&d->h, base, f, x, FLA_QK_L2, &s);
    mat low = fwd_linear(f, x, d->f0, MAT_NONE);
    if (f->be->fail.code != ERR_NONE)
        return;
    s.decay = fwd_linear_exact(f, low, d->f1, MAT_NONE);
    if (mat_none(s.decay))
        return;
    f->be->op->log_decay(f->be, s.decay, d->a_log, d->dt_bias, d->lower_bound);
    mat o = fwd_recur(f, base, &s);
    mat gate = fwd_linear(f, x, d->g0, MAT_NONE);
    if (mat_none(o) || mat_none(gate))
        return;
    fla_heads_output(&d->h, base, f, o, fwd_linear(f, gate, d->g1, d->g1_bias), y);
}

fla_kda *fla_kda_new(err *e) {
    fla_kda *d = mem_zalloc(1, sizeof *d, "a KDA layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "Kimi delta attention", .run = kda_run, .free = kda_free};
    d->lower_bound = NAN;
    return d;
}

// The rank of a pair is whatever its first matrix says.
bool fla_kda_pair(builder *b, const char *prefix, const char *one, const char *two, int64_t out,
                  mat *first, mat *second, err *e) {
    char a[300], c[300];
    int64_t rank = 0, cols = 0;
    snprintf(a, sizeof a, "%s.%s.weight", prefix, one);
    snprintf(c, sizeof c, "%s.%s.weight", prefix, two);
    build_shape(b, a, &rank, &cols);
    if (rank == 0)
        rank = 1; // absent: reported as missing below
    return build_weight(b, first, rank, b->m->info.D, a, e) &&
           build_weight(b, second, out, rank, c, e);
}
