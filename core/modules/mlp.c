#include "core/modules/mlp.h"

#include "core/forward.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct mlp {
    module base;
    activation act;
    mat gate, up, down;
} mlp;

static void mlp_free(module *base, backend *be) {
    mlp *m = (mlp *)base;
    if (be) {
        be->op->free(be, m->gate);
        be->op->free(be, m->up);
        be->op->free(be, m->down);
    }
    free(m);
}

static void mlp_run(module *base, fwd *f, mat x, mat y) {
    mlp *m = (mlp *)base;
    mat gate = fwd_linear(f, x, m->gate, MAT_NONE);
    mat up = fwd_linear(f, x, m->up, MAT_NONE);
    if (mat_none(gate) || mat_none(up))
        return;
    f->be->op->multiply(f->be, gate, m->act, up);
    f->be->op->linear(f->be, up, m->down, MAT_NONE, y);
}

module *mlp_new(builder *b, const char *prefix, int64_t intermediate, activation act, err *e) {
    mlp *m = mem_zalloc(1, sizeof *m, "an MLP", e);
    if (!m)
        return NULL;
    m->base = (module){.kind = "gated MLP", .run = mlp_run, .free = mlp_free};
    m->act = act;
    int64_t D = b->m->info.D, rows = 0, cols = 0, width = 0;
    char gate[300], up[300], down[300];
    snprintf(gate, sizeof gate, "%s.gate_proj.weight", prefix);
    snprintf(up, sizeof up, "%s.up_proj.weight", prefix);
    snprintf(down, sizeof down, "%s.down_proj.weight", prefix);
    build_shape(b, down, &rows, &width);
    if (width == 0)
        width = intermediate;
    if (intermediate > 0 && width != intermediate) {
        err_set(e, ERR_INPUT, "%s has %lld columns, but the config says intermediate_size %lld",
                down, (long long)width, (long long)intermediate);
        goto fail;
    }
    build_shape(b, gate, &rows, &cols);
    bool fused = rows == 2 * width && !build_has(b, "%s", up);
    if (fused) {
        if (!build_rows(b, &m->gate, 0, width, 2 * width, D, gate, e) ||
            !build_rows(b, &m->up, width, width, 2 * width, D, gate, e))
            goto fail;
        build_note(b, e, "older MLP layout: gate_proj holds gate and up rows");
    } else if (!build_weight(b, &m->gate, width, D, gate, e) ||
               !build_weight(b, &m->up, width, D, up, e)) {
        goto fail;
    }
    if (!build_weight(b, &m->down, D, width, down, e))
        goto fail;
    return &m->base;
fail:
    mlp_free(&m->base, b->be);
    return NULL;
}
