// A place in a row to come back to (core/forward.h).
#include "core/forward.h"

#include "core/forward_row.h"
#include "core/mem.h"

#include <stdlib.h>

struct fwd_point {
    backend *be;
    int64_t at, next_start, pos;
    mat *carry; // [n]; MAT_NONE: nothing to copy
    int n;
};

// Rows of a carry that a point copies: all, or of full attention those in use when a later reset
// would overwrite them.
static int64_t copied_rows(const fwd *f, const carry_spec *c, mat carry) {
    if (c->rows)
        return carry.rows;
    const row_options *opt = f->r->opt;
    bool resets = opt && (opt->n_starts || opt->reset_id >= 0);
    return resets ? f->pos : 0;
}

typedef bool (*visit_fn)(fwd *f, const carry_spec *c, int i, void *ctx);

static bool each_carry(fwd *f, visit_fn visit, void *ctx) {
    for (int L = 0; L < f->m->info.n_layers; L++)
        for (int b = 0; b < f->m->layers[L].n; b++) {
            const module *body = f->m->layers[L].branch[b].body;
            for (int i = 0; i < body->n_carry; i++)
                if (!visit(f, &body->carry[i], body->index * MODULE_MAX_CARRY + i, ctx))
                    return false;
        }
    return true;
}

static bool take(fwd *f, const carry_spec *c, int i, void *ctx) {
    fwd_point *p = ctx;
    int64_t rows = copied_rows(f, c, f->carry[i]);
    if (rows == 0)
        return true;
    p->carry[i] = c->exact ? f->be->op->alloc_exact(f->be, rows, c->cols)
                           : f->be->op->alloc(f->be, rows, c->cols);
    if (mat_none(p->carry[i]))
        return false;
    f->be->op->copy(f->be, mat_rows(f->carry[i], 0, rows), p->carry[i]);
    return true;
}

fwd_point *fwd_point_new(fwd *f, err *e) {
    fwd_point *p = mem_zalloc(1, sizeof *p, "a place in a row", e);
    if (!p)
        return NULL;
    *p = (fwd_point){.be = f->be,
                     .at = f->r->at,
                     .next_start = f->r->next_start,
                     .pos = f->pos,
                     .n = f->n_modules * MODULE_MAX_CARRY};
    p->carry = mem_zalloc((size_t)p->n, sizeof *p->carry, "a place in a row", e);
    if (p->carry && each_carry(f, take, p) && backend_check(f->be, e))
        return p;
    backend_check(f->be, e);
    fwd_point_free(p);
    return NULL;
}

bool fwd_return(fwd *f, const fwd_point *p, err *e) {
    for (int i = 0; i < p->n; i++)
        if (!mat_none(p->carry[i]))
            f->be->op->copy(f->be, p->carry[i], mat_rows(f->carry[i], 0, p->carry[i].rows));
    f->r->at = p->at;
    f->r->next_start = p->next_start;
    f->pos = p->pos;
    return backend_check(f->be, e);
}

int64_t fwd_point_tokens(const fwd_point *p) {
    return p->at;
}

void fwd_point_free(fwd_point *p) {
    if (!p)
        return;
    for (int i = 0; p->carry && i < p->n; i++)
        if (!mat_none(p->carry[i]))
            p->be->op->free(p->be, p->carry[i]);
    free(p->carry);
    free(p);
}

static bool weigh(fwd *f, const carry_spec *c, int i, void *ctx) {
    int64_t *bytes = ctx;
    (void)i;
    *bytes += c->rows * c->cols * (c->exact ? f->be->exact_esize : f->be->esize);
    return true;
}

int64_t fwd_point_bytes(const fwd *f) {
    int64_t bytes = 0;
    each_carry((fwd *)f, weigh, &bytes);
    return bytes;
}
