// Projections, convolutions and output of the delta-rule mixers of flash-linear-attention.
#include "core/families/fla.h"
#include "core/forward.h"

#include <stdio.h>

// PREFIX.STEM.weight, or the list PREFIX.STEMs.0.weight ... when the file has that (B19).
static bool bind_steps(builder *b, mat *out, const char *prefix, const char *stem, int n_h,
                       int64_t rows, int64_t cols, err *e) {
    char name[300], list[300];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, stem);
    snprintf(list, sizeof list, "%s.%ss", prefix, stem);
    if (!build_has(b, "%s", name) && build_has(b, "%s.0.weight", list)) {
        build_note(b, e, "list layout of the DeltaProduct authors: %ss.0 ... are joined step-major",
                   stem);
        return build_stack(b, out, n_h, rows, cols, list, ".weight", e);
    }
    return build_weight(b, out, n_h * rows, cols, name, e);
}

static bool bind_conv(builder *b, mat *w, mat *bias, const char *prefix, const char *stem, int n_h,
                      int64_t rows, int64_t width, err *e) {
    char name[300];
    if (!bind_steps(b, w, prefix, stem, n_h, rows, width, e))
        return false;
    snprintf(name, sizeof name, "%s.%s.bias", prefix, stem);
    return !build_has(b, "%s", name) || build_weight(b, bias, 1, n_h * rows, name, e);
}

// Only the first query convolution of the list layout is live; the others are dead weights.
static bool bind_query_conv(fla_heads *h, builder *b, const char *prefix, int n_h, int64_t rows,
                            int64_t width, err *e) {
    char name[300];
    if (!build_has(b, "%s.q_conv1ds.0.weight", prefix))
        return bind_conv(b, &h->q_conv, &h->q_conv_b, prefix, "q_conv1d", 1, rows, width, e);
    for (int j = 1; j < n_h; j++) {
        snprintf(name, sizeof name, "%s.q_conv1ds.%d.weight", prefix, j);
        build_dead(b, "only the first query convolution is live in the list layout", name);
    }
    snprintf(name, sizeof name, "%s.q_conv1ds.0.weight", prefix);
    return build_weight(b, &h->q_conv, rows, width, name, e);
}

bool fla_heads_bind_output(fla_heads *h, builder *b, const char *prefix, const head_shape *s,
                           bool gate, err *e) {
    char name[300], old[300];
    int64_t D = b->m->info.D, rows = 0, cols = 0;
    // Before 2024-06 the output norm was called attn.norm; a value head's length tells it from the
    // later pre-norm of that name.
    build_name(name, sizeof name, prefix, "o_norm.weight");
    build_name(old, sizeof old, prefix, "norm.weight");
    build_shape(b, old, &rows, &cols);
    if (!build_has(b, "%s", name) && cols == s->V && cols != D) {
        build_note(b, e, "older names: attn.norm is the output norm");
        snprintf(name, sizeof name, "%s", old);
    }
    if (!build_weight(b, &h->o_norm, 1, s->V, name, e))
        return false;
    if (gate && !build_weight(b, &h->g, (int64_t)s->H * s->V, D,
                              build_name(name, sizeof name, prefix, "g_proj.weight"), e))
        return false;
    return build_weight(b, &h->o, D, (int64_t)s->H * s->V,
                        build_name(name, sizeof name, prefix, "o_proj.weight"), e);
}

void fla_heads_declare(fla_heads *h, module *m, const head_shape *s, const fla_options *opt,
                       double eps) {
    int64_t nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V;
    m->linear = true;
    m->heads = *s;
    m->state_carry = module_state(m, "state", (int64_t)s->H * s->K, s->V);
    h->eps = eps;
    h->gate_act = ACT_SILU;
    if (!opt->conv)
        return;
    int64_t tail = opt->width > 1 ? opt->width - 1 : 1;
    h->q_tail = module_carry(m, "q tail", tail, nk);
    h->k_tail = module_carry(m, "k tail", tail, s->n_h * nk);
    h->v_tail = module_carry(m, "v tail", tail, s->n_h * nv);
}

bool fla_heads_project(fla_heads *h, builder *b, const char *prefix, const head_shape *s, err *e) {
    char name[300];
    int64_t D = b->m->info.D, nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V;
    if (!build_weight(b, &h->q, nk, D, build_name(name, sizeof name, prefix, "q_proj.weight"), e) ||
        !bind_steps(b, &h->k, prefix, "k_proj", s->n_h, nk, D, e) ||
        !bind_steps(b, &h->v, prefix, "v_proj", s->n_h, nv, D, e))
        return false;
    return s->beta_max <= 0 || bind_steps(b, &h->b, prefix, "b_proj", s->n_h, s->H, D, e);
}

bool fla_heads_bind(fla_heads *h, module *m, builder *b, const char *prefix, const head_shape *s,
                    const fla_options *opt, err *e) {
    int64_t nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V;
    fla_heads_declare(h, m, s, opt, b->m->info.norm_eps);
    if (!fla_heads_project(h, b, prefix, s, e))
        return false;
    if (opt->conv) {
        if (!bind_query_conv(h, b, prefix, s->n_h, nk, opt->width, e) ||
            !bind_conv(b, &h->k_conv, &h->k_conv_b, prefix, "k_conv1d", s->n_h, nk, opt->width,
                       e) ||
            !bind_conv(b, &h->v_conv, &h->v_conv_b, prefix, "v_conv1d", s->n_h, nv, opt->width, e))
            return false;
    }
    // Without convolutions q, k and v are what the product leaves, and must lie apart.
    return (!opt->conv || build_pack(b, &h->qkv, (mat *[]){&h->q, &h->k, &h->v}, 3, e)) &&
           fla_heads_bind_output(h, b, prefix, s, opt->gate, e);
}

void fla_heads_free(fla_heads *h, backend *be) {
    if (!mat_none(h->qkv))
        h->q = h->k = h->v = MAT_NONE;
    mat all[] = {h->qkv,      h->q,      h->k,      h->v,        h->b,
                 h->q_conv,   h->k_conv, h->v_conv, h->q_conv_b, h->k_conv_b,
                 h->v_conv_b, h->o_norm, h->g,      h->g_bias,   h->o};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
}

// Projections and what follows them, into part[i].y. False: the failure is in the backend.
static bool run_parts(fla_heads *h, fwd *f, mat x, conv_part part[3]) {
    if (!mat_none(h->qkv))
        return fwd_linear_conv(f, x, h->qkv, part, 3);
    const mat w[] = {h->q, h->k, h->v};
    for (int i = 0; i < 3; i++)
        if (!fwd_conv_heads(f, fwd_linear(f, x, w[i], MAT_NONE), &part[i], 1))
            return false;
    return true;
}

void fla_heads_steps(fla_heads *h, const module *m, fwd *f, mat x, fla_qk qk, steps *s) {
    const head_shape *p = &m->heads;
    int64_t micro = x.rows * p->n_h;
    *s = (steps){.s = *p, .T = x.rows};
    conv_part part[3] = {{.w = h->q_conv, .bias = h->q_conv_b},
                         {.w = h->k_conv, .bias = h->k_conv_b},
                         {.w = h->v_conv, .bias = h->v_conv_b}};
    const int tail[] = {h->q_tail, h->k_tail, h->v_tail};
    for (int i = 0; i < 3; i++) {
        part[i].act = i < 2 ? qk.act : ACT_SILU;
        part[i].norm = i < 2 ? qk.norm : HEAD_NORM_NONE;
        part[i].head_dim = i < 2 ? p->K : p->V;
        part[i].eps = qk.eps;
        if (!mat_none(part[i].w))
            part[i].tail = fwd_carry(f, m, tail[i]);
    }
    if (!run_parts(h, f, x, part))
        return;
    s->q = part[0].y;
    s->k = mat_reshape(part[1].y, micro, (int64_t)p->Hk * p->K);
    s->v = mat_reshape(part[2].y, micro, (int64_t)p->H * p->V);
    if (mat_none(h->b))
        return;
    mat beta = fwd_linear_exact(f, x, h->b, MAT_NONE);
    if (mat_none(beta))
        return;
    f->be->op->activate(f->be, beta, ACT_SIGMOID, p->beta_max);
    s->beta = mat_reshape(beta, micro, p->H);
}

void fla_heads_output(fla_heads *h, const module *m, fwd *f, mat o, mat gate, mat y) {
    if (mat_none(o) || f->fail.code != ERR_NONE)
        return;
    mat rows = mat_reshape(o, o.rows * m->heads.H, m->heads.V);
    f->be->op->rms_norm(f->be, rows, h->o_norm, h->eps, rows);
    if (!mat_none(gate))
        f->be->op->multiply(f->be, gate, h->gate_act, o);
    fwd_output(f, m, o, h->o, MAT_NONE, y);
}

void fla_heads_output_x(fla_heads *h, const module *m, fwd *f, mat o, mat x, mat y) {
    mat gate = mat_none(h->g) ? MAT_NONE : fwd_linear(f, x, h->g, h->g_bias);
    fla_heads_output(h, m, f, o, gate, y);
}
