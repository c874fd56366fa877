// What modules call while a block runs (core/forward.h, "For modules"): scratch, products,
// convolutions, the recurrence. Fused operations are composed here where the backend has none.
#include "core/forward.h"

#include "core/forward_row.h"

mat fwd_tmp(fwd *f, int64_t rows, int64_t cols) {
    return arena_mat(f->tmp, rows, cols);
}

mat fwd_tmp_exact(fwd *f, int64_t rows, int64_t cols) {
    return arena_mat_exact(f->tmp, rows, cols);
}

mat fwd_carry(fwd *f, const module *m, int i) {
    return f->carry[m->index * MODULE_MAX_CARRY + i];
}

void fwd_leave(fwd *f, int slot, mat x) {
    mat y = arena_mat(f->kept, x.rows, x.cols);
    if (!mat_none(y))
        f->be->op->copy(f->be, x, y);
    f->left[slot] = y;
}

mat fwd_left(const fwd *f, int slot) {
    return f->left[slot];
}

typedef void (*linear_op)(backend *be, mat x, mat w, mat bias, mat y);

// y = x w^T + bias. A matrix of one row was kept like a vector, in the exact element; a product wants
// both factors in one.
static mat product(fwd *f, linear_op linear, mat x, mat w, mat bias, mat y) {
    if (w.esize != x.esize && !mat_none(x)) {
        mat same =
            x.esize == f->be->esize ? fwd_tmp(f, w.rows, w.cols) : fwd_tmp_exact(f, w.rows, w.cols);
        if (mat_none(same))
            return same;
        f->be->op->copy(f->be, w, same);
        w = same;
    }
    if (!mat_none(y))
        linear(f->be, x, w, bias, y);
    return y;
}

mat fwd_linear(fwd *f, mat x, mat w, mat bias) {
    return product(f, f->be->op->linear, x, w, bias, fwd_tmp(f, x.rows, w.rows));
}

mat fwd_linear_gated(fwd *f, mat x, mat w, activation act, double scale) {
    const backend_ops *op = f->be->op;
    const int64_t width = w.rows / 2;
    mat both = fwd_tmp(f, x.rows, w.rows);
    if (mat_none(both))
        return both;
    // In the same scratch, dense: what declines has not taken more than the product needs.
    mat y = {.p = both.p, .rows = x.rows, .cols = width, .ld = width, .esize = both.esize};
    if (op->linear_gated && scale == 1 && !mat_none(x) && op->linear_gated(f->be, x, w, act, y))
        return y;
    both = product(f, op->linear, x, w, MAT_NONE, both);
    if (mat_none(both))
        return both;
    mat gate = mat_cols(both, 0, width), up = mat_cols(both, width, width);
    op->activate(f->be, gate, ACT_NONE, scale);
    op->multiply(f->be, gate, act, up);
    return up;
}

mat fwd_linear_exact(fwd *f, mat x, mat w, mat bias) {
    return product(f, f->be->op->linear_exact, x, w, bias, fwd_tmp_exact(f, x.rows, w.rows));
}

mat fwd_conv(fwd *f, const module *m, int tail, mat x, mat w, mat bias, activation act) {
    if (mat_none(x))
        return x;
    if (mat_none(w)) {
        f->be->op->activate(f->be, x, act, 1);
        return x;
    }
    mat y = fwd_tmp(f, x.rows, x.cols);
    if (!mat_none(y))
        f->be->op->short_conv(f->be, x, w, bias, fwd_carry(f, m, tail), act, y);
    return y;
}

// Without weights only the activation, in place.
static mat part_alone(fwd *f, mat x, conv_part *p) {
    const backend_ops *op = f->be->op;
    if (mat_none(p->w)) {
        op->activate(f->be, x, p->act, 1);
        p->y = x;
    } else {
        op->short_conv(f->be, x, p->w, p->bias, p->tail, p->act, p->y);
    }
    op->normalize_heads(f->be, p->y, p->head_dim, p->norm, p->eps);
    return p->y;
}

// Scratch for the results of those with weights. *all: there is none without.
static bool part_results(fwd *f, int64_t rows, conv_part *part, int n, bool *all) {
    *all = true;
    for (int i = 0; i < n; i++) {
        if (mat_none(part[i].w)) { // n = 1: x is the part
            *all = false;
            continue;
        }
        if (mat_none(part[i].y))
            part[i].y = fwd_tmp(f, rows, part[i].w.rows);
        if (mat_none(part[i].y))
            return false;
    }
    return true;
}

bool fwd_linear_conv(fwd *f, mat x, mat w, conv_part *part, int n) {
    bool all;
    if (mat_none(x) || !part_results(f, x.rows, part, n, &all))
        return false;
    if (all && f->be->op->linear_conv && f->be->op->linear_conv(f->be, x, w, part, n))
        return f->be->fail.code == ERR_NONE;
    return fwd_conv_heads(f, fwd_linear(f, x, w, MAT_NONE), part, n);
}

bool fwd_conv_heads(fwd *f, mat x, conv_part *part, int n) {
    int64_t at = 0;
    bool fused;
    if (mat_none(x) || !part_results(f, x.rows, part, n, &fused))
        return false;
    fused = fused && f->be->op->conv_heads;
    if (fused && f->be->op->conv_heads(f->be, x, part, n))
        return f->be->fail.code == ERR_NONE;
    for (int i = 0; i < n; i++) {
        mat columns = n == 1 ? x : mat_cols(x, at, part[i].w.rows);
        at += part_alone(f, columns, &part[i]).cols;
    }
    return f->be->fail.code == ERR_NONE;
}

void fwd_output(fwd *f, const module *m, mat x, mat w, mat bias, mat y) {
    const backend_ops *op = f->be->op;
    if (m != f->onto_for || !op->linear_add) {
        op->linear(f->be, x, w, bias, y);
        return;
    }
    op->linear_add(f->be, x, w, bias, f->onto_scale, f->onto);
    f->onto_for = NULL; // done: the branch adds nothing more
}

mat fwd_recur(fwd *f, const module *m, const steps *s) {
    mat o = fwd_tmp(f, s->T, (int64_t)s->s.H * s->s.V);
    if (mat_none(o) || f->be->fail.code != ERR_NONE || f->fail.code != ERR_NONE)
        return o;
    mat state = fwd_carry(f, m, m->state_carry);
    for (int i = 0; i < f->n_probes; i++) {
        const probe *p = f->probes[i];
        if (p->on_steps && !p->on_steps(p->ctx, f->layer, f->t0, s, state, f->be, &f->fail))
            return o;
    }
    f->be->op->recurrence(f->be, s, state, o);
    const row_options *opt = f->r ? f->r->opt : NULL;
    for (int i = 0; opt && i < opt->n_off; i++)
        if (opt->off[i].layer == f->layer)
            f->be->op->zero(f->be, mat_cols(o, (int64_t)opt->off[i].head * s->s.V, s->s.V));
    return o;
}
