#include "core/modules/latent.h"

#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct latent {
    module base;
    latent_spec s;
    mat q;                // [heads * (nope + rope), D], or q_rank columns
    mat q_low, q_norm;    // [q_rank, D], [1, q_rank]
    mat kv, kv_norm;      // [rank + rope, D], [1, rank]
    mat to_latent, value; // U' [heads * rank, nope], Z [heads * v, rank]
    mat o;                // [D, heads * v]
} latent;

static void latent_free(module *base, backend *be) {
    latent *a = (latent *)base;
    mat all[] = {a->q, a->q_low, a->q_norm, a->kv, a->kv_norm, a->to_latent, a->value, a->o};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    free(a);
}

static mat query(latent *a, fwd *f, mat x) {
    if (mat_none(a->q_low))
        return fwd_linear(f, x, a->q, MAT_NONE);
    mat low = fwd_linear(f, x, a->q_low, MAT_NONE);
    if (mat_none(low))
        return low;
    f->be->op->rms_norm(f->be, low, a->q_norm, a->s.norm_eps, low);
    return fwd_linear(f, low, a->q, MAT_NONE);
}

static void latent_run(module *base, fwd *f, mat x, mat y) {
    latent *a = (latent *)base;
    const backend_ops *op = f->be->op;
    const latent_spec *s = &a->s;
    int64_t wide = s->nope + s->rope, d = s->rank + s->rope;
    mat carry = mat_rows(fwd_carry(f, base, 0), 0, f->pos + x.rows);
    mat fresh = mat_rows(carry, f->pos, x.rows), c = mat_cols(fresh, 0, s->rank);
    mat q = query(a, f, x), seen = fwd_tmp(f, x.rows, s->heads * d);
    mat sum = fwd_tmp(f, x.rows, s->heads * s->rank), o = fwd_tmp(f, x.rows, s->heads * s->v);
    if (mat_none(q) || mat_none(seen) || mat_none(sum) || mat_none(o))
        return;
    op->linear(f->be, x, a->kv, MAT_NONE, fresh);
    op->rms_norm(f->be, c, a->kv_norm, s->norm_eps, c);
    // The kernel divides by sqrt(d).
    op->activate(f->be, q, ACT_NONE, sqrt((double)d / (double)wide));
    for (int64_t h = 0; h < s->heads; h++) {
        mat part = mat_cols(q, h * wide, wide), to = mat_cols(seen, h * d, d);
        op->linear(f->be, mat_cols(part, 0, s->nope), mat_rows(a->to_latent, h * s->rank, s->rank),
                   MAT_NONE, mat_cols(to, 0, s->rank));
        if (s->rope > 0)
            op->copy(f->be, mat_cols(part, s->nope, s->rope), mat_cols(to, s->rank, s->rope));
    }
    op->attention(f->be, seen, carry, mat_cols(carry, 0, s->rank), d, f->pos, 0, sum);
    for (int64_t h = 0; h < s->heads; h++)
        op->linear(f->be, mat_cols(sum, h * s->rank, s->rank), mat_rows(a->value, h * s->v, s->v),
                   MAT_NONE, mat_cols(o, h * s->v, s->v));
    fwd_output(f, base, o, a->o, MAT_NONE, y);
}

// kv_b_proj holds, head by head, U (nope rows) and Z (v rows).
static bool bind_heads(latent *a, builder *b, const char *name, err *e) {
    const latent_spec *s = &a->s;
    int64_t rows = s->nope + s->v, rank = s->rank;
    double *w = NULL, *turned = NULL;
    if (!build_numbers(b, &w, s->heads * rows, rank, name, e))
        return false;
    if (!w)
        return true;
    bool ok = false;
    turned = mem_alloc((size_t)(s->heads * rank * s->nope), sizeof *turned, "a weight", e);
    if (!turned)
        goto done;
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 0; i < s->nope; i++)
            for (int64_t j = 0; j < rank; j++)
                turned[(h * rank + j) * s->nope + i] = w[(h * rows + i) * rank + j];
    ok = build_constant(b, &a->to_latent, s->heads * rank, s->nope, turned, e) &&
         build_blocks(b, &a->value, s->heads, s->nope, s->v, rows, rank, name, e);
done:
    free(w);
    free(turned);
    return ok;
}

static bool bind(latent *a, builder *b, const char *prefix, err *e) {
    const latent_spec *s = &a->s;
    int64_t D = b->m->info.D, nq = s->heads * (s->nope + s->rope);
    struct {
        const char *name;
        mat *w;
        int64_t rows, cols;
        bool wanted;
    } part[] = {
        {"q_proj", &a->q, nq, D, s->q_rank == 0},
        {"q_a_proj", &a->q_low, s->q_rank, D, s->q_rank > 0},
        {"q_a_layernorm", &a->q_norm, 1, s->q_rank, s->q_rank > 0},
        {"q_b_proj", &a->q, nq, s->q_rank, s->q_rank > 0},
        {"kv_a_proj_with_mqa", &a->kv, s->rank + s->rope, D, true},
        {"kv_a_layernorm", &a->kv_norm, 1, s->rank, true},
        {"o_proj", &a->o, D, s->heads * s->v, true},
    };
    char name[300];
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", prefix, part[i].name);
        if (part[i].wanted && !build_weight(b, part[i].w, part[i].rows, part[i].cols, name, e))
            return false;
    }
    snprintf(name, sizeof name, "%s.kv_b_proj.weight", prefix);
    return bind_heads(a, b, name, e);
}

module *latent_new(builder *b, const char *prefix, const latent_spec *s, err *e) {
    latent *a = mem_zalloc(1, sizeof *a, "an attention layer", e);
    if (!a)
        return NULL;
    a->base = (module){.kind = "latent attention", .run = latent_run, .free = latent_free};
    a->s = *s;
    module_carry(&a->base, "latent keys and values", 0, s->rank + s->rope);
    if (bind(a, b, prefix, e))
        return &a->base;
    latent_free(&a->base, b->be);
    return NULL;
}
