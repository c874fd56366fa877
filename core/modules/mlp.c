#include "core/modules/mlp.h"

#include "core/forward.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct mlp {
    module base;
    activation act;
    double gate_scale;
    mat both;           // [2 width, D]: gate and up in one, which are its rows then; or none
    mat gate, up, down; // [width, D] (gate none: act of up alone), [width, D], [D, width]
    mat gate_bias, up_bias, down_bias;
} mlp;

static void mlp_free(module *base, backend *be) {
    mlp *m = (mlp *)base;
    if (!mat_none(m->both))
        m->gate = m->up = MAT_NONE;
    mat all[] = {m->both, m->gate, m->up, m->down, m->gate_bias, m->up_bias, m->down_bias};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    free(m);
}

static void mlp_run(module *base, fwd *f, mat x, mat y) {
    mlp *m = (mlp *)base;
    const backend_ops *op = f->be->op;
    if (!mat_none(m->both)) {
        mat z = fwd_linear_gated(f, x, m->both, m->act, m->gate_scale);
        if (f->be->fail.code == ERR_NONE)
            fwd_output(f, base, z, m->down, m->down_bias, y);
        return;
    }
    mat up = fwd_linear(f, x, m->up, m->up_bias);
    mat gate = mat_none(m->gate) ? MAT_NONE : fwd_linear(f, x, m->gate, m->gate_bias);
    if (f->be->fail.code != ERR_NONE)
        return;
    if (mat_none(gate)) {
        op->activate(f->be, up, m->act, 1);
    } else {
        op->activate(f->be, gate, ACT_NONE, m->gate_scale);
        op->multiply(f->be, gate, m->act, up);
    }
    fwd_output(f, base, up, m->down, m->down_bias, y);
}

static bool bind_part(builder *b, const char *prefix, const char *stem, int64_t first, int64_t rows,
                      int64_t total, int64_t cols, bool bias, mat *w, mat *w_bias, err *e) {
    char name[300];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, stem);
    if (!build_rows(b, w, first, rows, total, cols, name, e))
        return false;
    snprintf(name, sizeof name, "%s.%s.bias", prefix, stem);
    // A bias is one row; of a fused one, only the whole could be read.
    return !bias || build_weight(b, w_bias, 1, rows, name, e);
}

module *mlp_make(builder *b, const char *prefix, const mlp_spec *s, err *e) {
    mlp *m = mem_zalloc(1, sizeof *m, "an MLP", e);
    if (!m)
        return NULL;
    m->base = (module){.kind = s->gate ? "gated MLP" : "MLP", .run = mlp_run, .free = mlp_free};
    m->act = s->act;
    m->gate_scale = s->gate_scale != 0 ? s->gate_scale : 1;
    int64_t D = b->m->info.D, width = s->width;
    bool fused = s->gate && !s->up, ok;
    if (fused)
        ok = bind_part(b, prefix, s->gate, 0, width, 2 * width, D, false, &m->gate, NULL, e) &&
             bind_part(b, prefix, s->gate, width, width, 2 * width, D, false, &m->up, NULL, e);
    else
        ok = (!s->gate || bind_part(b, prefix, s->gate, 0, width, width, D, s->bias, &m->gate,
                                    &m->gate_bias, e)) &&
             bind_part(b, prefix, s->up, 0, width, width, D, s->bias, &m->up, &m->up_bias, e);
    if (ok && bind_part(b, prefix, s->down, 0, D, D, width, s->bias, &m->down, &m->down_bias, e) &&
        (!s->gate || s->bias || build_pack(b, &m->both, (mat *[]){&m->gate, &m->up}, 2, e)))
        return &m->base;
    mlp_free(&m->base, b->be);
    return NULL;
}

module *mlp_new(builder *b, const char *prefix, int64_t intermediate, activation act, err *e) {
    int64_t rows = 0, cols = 0, width = 0;
    char gate[300], down[300];
    snprintf(gate, sizeof gate, "%s.gate_proj.weight", prefix);
    snprintf(down, sizeof down, "%s.down_proj.weight", prefix);
    build_shape(b, down, &rows, &width);
    if (width == 0)
        width = intermediate;
    if (intermediate > 0 && width != intermediate) {
        err_set(e, ERR_INPUT, "%s: %s has %lld columns, but the config says intermediate_size %lld",
                config_path(b->cfg), down, (long long)width, (long long)intermediate);
        return NULL;
    }
    build_shape(b, gate, &rows, &cols);
    bool fused = rows == 2 * width && !build_has(b, "%s.up_proj.weight", prefix);
    if (fused && !build_note(b, e, "older MLP layout: gate_proj holds gate and up rows"))
        return NULL;
    mlp_spec s = {.gate = "gate_proj",
                  .up = fused ? NULL : "up_proj",
                  .down = "down_proj",
                  .width = width,
                  .act = act};
    return mlp_make(b, prefix, &s, e);
}
