#include "core/modules/attention.h"

#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct attention {
    module base;
    attention_spec s;
    mat q, k, v, o; // [heads * d, D], [kv_heads * d, D] x 2, [D, heads * d]
    mat gate;       // [heads * d, D] or none
    mat q_bias, k_bias, v_bias, o_bias, gate_bias;
    mat q_norm, k_norm; // [1, d]
} attention;

enum { CARRY_K, CARRY_V };

static void attention_free(module *base, backend *be) {
    attention *a = (attention *)base;
    mat all[] = {a->q,      a->k,      a->v,      a->o,      a->q_bias, a->k_bias,
                 a->v_bias, a->o_bias, a->q_norm, a->k_norm, a->gate,   a->gate_bias};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    free(a);
}

// Past rows and new rows in one mat, and the carry brought up to date. Full attention keeps every
// row at its position; a window keeps the last window-1 rows at the end of the carry.
static mat join_past(fwd *f, const attention *a, int which, mat fresh, int64_t past) {
    const backend_ops *op = f->be->op;
    mat carry = fwd_carry(f, &a->base, which);
    if (a->s.window == 0) {
        op->copy(f->be, fresh, mat_rows(carry, past, fresh.rows));
        return mat_rows(carry, 0, past + fresh.rows);
    }
    mat all = fwd_tmp(f, past + fresh.rows, fresh.cols);
    if (mat_none(all))
        return all;
    if (past > 0)
        op->copy(f->be, mat_rows(carry, carry.rows - past, past), mat_rows(all, 0, past));
    op->copy(f->be, fresh, mat_rows(all, past, fresh.rows));
    int64_t keep = all.rows < carry.rows ? all.rows : carry.rows;
    if (keep > 0)
        op->copy(f->be, mat_rows(all, all.rows - keep, keep),
                 mat_rows(carry, carry.rows - keep, keep));
    return all;
}

// Over pieces as long as the weight: heads, or the whole row.
static void head_norms(fwd *f, mat x, mat w, double eps) {
    if (mat_none(w))
        return;
    mat rows = mat_reshape(x, x.rows * (x.cols / w.cols), w.cols);
    f->be->op->rms_norm(f->be, rows, w, eps, rows);
}

static void attention_run(module *base, fwd *f, mat x, mat y) {
    attention *a = (attention *)base;
    const backend_ops *op = f->be->op;
    int64_t d = a->s.head_dim, turned = a->s.turned ? a->s.turned : d;
    if (a->s.in_scale != 0 && a->s.in_scale != 1) {
        mat in = fwd_tmp(f, x.rows, x.cols);
        if (mat_none(in))
            return;
        op->copy(f->be, x, in);
        op->activate(f->be, in, ACT_NONE, a->s.in_scale);
        x = in;
    }
    mat q = fwd_linear(f, x, a->q, a->q_bias);
    mat k = fwd_linear(f, x, a->k, a->k_bias);
    mat v = fwd_linear(f, x, a->v, a->v_bias);
    mat o = fwd_tmp(f, x.rows, a->s.heads * d);
    if (mat_none(q) || mat_none(k) || mat_none(v) || mat_none(o))
        return;
    head_norms(f, q, a->q_norm, a->s.norm_eps);
    head_norms(f, k, a->k_norm, a->s.norm_eps);
    if (a->s.rope_base > 0) {
        op->rotate(f->be, q, d, turned, f->pos, a->s.rope_base);
        op->rotate(f->be, k, d, turned, f->pos, a->s.rope_base);
    }
    if (a->s.scale != 0) // the kernel divides by sqrt(d)
        op->activate(f->be, q, ACT_NONE, a->s.scale * sqrt((double)d));
    int64_t past = f->pos;
    if (a->s.window > 0 && past > a->s.window - 1)
        past = a->s.window - 1;
    mat ks = join_past(f, a, CARRY_K, k, past), vs = join_past(f, a, CARRY_V, v, past);
    if (mat_none(ks) || mat_none(vs))
        return;
    op->attention(f->be, q, ks, vs, d, past, a->s.window, o);
    if (a->s.out_gate) {
        mat gate = fwd_linear(f, x, a->gate, a->gate_bias);
        if (mat_none(gate))
            return;
        op->multiply(f->be, gate, ACT_SIGMOID, o);
    }
    fwd_output(f, base, o, a->o, a->o_bias, y);
}

// Query and gate rows alternate head by head.
static bool bind_gated_query(attention *a, builder *b, const char *prefix, err *e) {
    char name[300];
    int64_t H = a->s.heads, d = a->s.head_dim, D = b->m->info.D;
    snprintf(name, sizeof name, "%s.q_proj.weight", prefix);
    if (!build_blocks(b, &a->q, H, 0, d, 2 * d, D, name, e) ||
        !build_blocks(b, &a->gate, H, d, d, 2 * d, D, name, e))
        return false;
    if (!a->s.qkv_bias)
        return true;
    snprintf(name, sizeof name, "%s.q_proj.bias", prefix);
    if (!build_blocks(b, &a->q_bias, H, 0, d, 2 * d, 1, name, e) ||
        !build_blocks(b, &a->gate_bias, H, d, d, 2 * d, 1, name, e))
        return false;
    if (b->be) {
        a->q_bias = mat_reshape(a->q_bias, 1, H * d);
        a->gate_bias = mat_reshape(a->gate_bias, 1, H * d);
    }
    return true;
}

static bool bind_fused(attention *a, builder *b, const char *prefix, err *e) {
    const attention_spec *s = &a->s;
    char w[300], c[300];
    int64_t d = s->head_dim, n = s->kv_heads, each = s->heads / n, all = (each + 2) * d;
    const int64_t first[] = {0, each * d, (each + 1) * d}, rows[] = {each * d, d, d};
    mat *to[] = {&a->q, &a->k, &a->v}, *bias[] = {&a->q_bias, &a->k_bias, &a->v_bias};
    snprintf(w, sizeof w, "%s.%s.weight", prefix, s->fused);
    snprintf(c, sizeof c, "%s.%s.bias", prefix, s->fused);
    for (int i = 0; i < 3; i++) {
        if (!build_blocks(b, to[i], n, first[i], rows[i], all, b->m->info.D, w, e) ||
            (s->qkv_bias && !build_blocks(b, bias[i], n, first[i], rows[i], all, 1, c, e)))
            return false;
        if (!mat_none(*bias[i]))
            *bias[i] = mat_reshape(*bias[i], 1, n * rows[i]);
    }
    return true;
}

static bool bind(attention *a, builder *b, const char *prefix, err *e) {
    const attention_spec *s = &a->s;
    int64_t D = b->m->info.D, nq = s->heads * s->head_dim, nk = s->kv_heads * s->head_dim;
    char out[2][128];
    const bool apart = !s->fused;
    snprintf(out[0], sizeof out[0], "%s.weight", apart ? "o_proj" : s->out);
    snprintf(out[1], sizeof out[1], "%s.bias", apart ? "o_proj" : s->out);
    struct {
        const char *name;
        mat *w;
        int64_t rows, cols;
        bool wanted, offset;
    } part[] = {
        {"q_proj.weight", &a->q, nq, D, apart && !s->out_gate, false},
        {"k_proj.weight", &a->k, nk, D, apart, false},
        {"v_proj.weight", &a->v, nk, D, apart, false},
        {out[0], &a->o, D, nq, true, false},
        {"q_proj.bias", &a->q_bias, 1, nq, apart && s->qkv_bias && !s->out_gate, false},
        {"k_proj.bias", &a->k_bias, 1, nk, apart && s->qkv_bias, false},
        {"v_proj.bias", &a->v_bias, 1, nk, apart && s->qkv_bias, false},
        {out[1], &a->o_bias, 1, D, s->o_bias, false},
        {"q_norm.weight", &a->q_norm, 1, s->norm_whole ? nq : s->head_dim, s->qk_norm,
         s->norm_offset},
        {"k_norm.weight", &a->k_norm, 1, s->norm_whole ? nk : s->head_dim, s->qk_norm,
         s->norm_offset},
    };
    if (s->out_gate && !bind_gated_query(a, b, prefix, e))
        return false;
    if (s->fused && !bind_fused(a, b, prefix, e))
        return false;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[300];
        build_name(name, sizeof name, prefix, part[i].name);
        bool (*read)(builder *, mat *, int64_t, int64_t, const char *, err *) =
            part[i].offset ? build_offset : build_weight;
        if (part[i].wanted && !read(b, part[i].w, part[i].rows, part[i].cols, name, e))
            return false;
    }
    return true;
}

module *attention_new(builder *b, const char *prefix, const attention_spec *s, err *e) {
    attention *a = mem_zalloc(1, sizeof *a, "an attention layer", e);
    if (!a)
        return NULL;
    a->base = (module){.kind = s->window ? "sliding-window attention" : "attention",
                       .run = attention_run,
                       .free = attention_free,
                       .window = s->window};
    a->s = *s;
    // A window of one token has nothing to carry, but a mat needs a row.
    int64_t rows = s->window == 0 ? 0 : s->window > 1 ? s->window - 1 : 1;
    module_carry(&a->base, "keys", rows, s->kv_heads * s->head_dim);
    module_carry(&a->base, "values", rows, s->kv_heads * s->head_dim);
    if (!bind(a, b, prefix, e)) {
        attention_free(&a->base, b->be);
        return NULL;
    }
    return &a->base;
}
