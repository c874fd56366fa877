#include "core/modules/moe.h"

#include "core/forward.h"
#include "core/mem.h"

#include <stdlib.h>

typedef struct moe {
    module base;
    router r;
    int64_t width;
    activation act;
    mat router;   // [E, D]
    double *bias; // [E] on the host, NULL: none
    mat gate, up; // [E * width, D] (gate none: act of up alone)
    mat down;     // [E * D, width]
    module *shared;
    mat shared_gate; // [1, D]
} moe;

static void moe_free(module *base, backend *be) {
    moe *m = (moe *)base;
    mat all[] = {m->router, m->gate, m->up, m->down, m->shared_gate};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    if (m->shared)
        m->shared->free(m->shared, be);
    free(m->bias);
    free(m);
}

// What the router decided for a block, sorted by expert.
typedef struct plan {
    int64_t *first; // [E + 1]: expert e has entries first[e]..first[e+1]
    int32_t *token; // [T k]
    double *weight; // [T k]
} plan;

static void plan_free(plan *p) {
    free(p->first);
    free(p->token);
    free(p->weight);
}

static bool plan_make(plan *p, const moe *m, const double *logits, int64_t T, err *e) {
    bool ok = false;
    int64_t E = m->r.experts, k = m->r.top_k, n = T * k;
    p->first = mem_zalloc((size_t)E + 1, sizeof *p->first, "a routing plan", e);
    p->token = mem_alloc((size_t)n, sizeof *p->token, "a routing plan", e);
    p->weight = mem_alloc((size_t)n, sizeof *p->weight, "a routing plan", e);
    int32_t *expert = mem_alloc((size_t)n, sizeof *expert, "a routing plan", e);
    double *weight = mem_alloc((size_t)n, sizeof *weight, "a routing plan", e);
    double *score = mem_alloc(2 * (size_t)E, sizeof *score, "router scores", e);
    int64_t *next = mem_alloc((size_t)E, sizeof *next, "a routing plan", e);
    if (!p->first || !p->token || !p->weight || !expert || !weight || !score || !next)
        goto done;
    for (int64_t t = 0; t < T; t++)
        moe_route(&m->r, logits + t * E, m->bias, score, expert + t * k, weight + t * k);
    for (int64_t i = 0; i < n; i++)
        p->first[expert[i] + 1]++;
    for (int64_t x = 0; x < E; x++) {
        p->first[x + 1] += p->first[x];
        next[x] = p->first[x];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = next[expert[i]]++;
        p->token[at] = (int32_t)(i / k);
        p->weight[at] = weight[i];
    }
    ok = true;
done:
    free(expert);
    free(weight);
    free(score);
    free(next);
    return ok;
}

static bool route(moe *m, fwd *f, mat x, plan *p) {
    mat logits = fwd_linear(f, x, m->router, MAT_NONE);
    if (mat_none(logits))
        return false;
    double *host =
        mem_alloc((size_t)(logits.rows * logits.cols), sizeof *host, "router logits", &f->fail);
    if (!host)
        return false;
    f->be->op->read(f->be, logits, host);
    bool ok = f->be->fail.code == ERR_NONE && plan_make(p, m, host, x.rows, &f->fail);
    free(host);
    return ok;
}

// y += what the experts say.
static void run_experts(moe *m, fwd *f, mat x, const plan *p, mat y) {
    const backend_ops *op = f->be->op;
    int64_t T = x.rows, D = x.cols, width = m->width;
    mat in_all = fwd_tmp(f, T, D), gate_all = fwd_tmp(f, T, width), up_all = fwd_tmp(f, T, width);
    mat out_all = fwd_tmp(f, T, D);
    if (mat_none(in_all) || mat_none(gate_all) || mat_none(up_all) || mat_none(out_all))
        return;
    for (int64_t e = 0; e < m->r.experts; e++) {
        int64_t first = p->first[e], n = p->first[e + 1] - first;
        if (n == 0)
            continue;
        mat in = mat_rows(in_all, 0, n), up = mat_rows(up_all, 0, n);
        mat out = mat_rows(out_all, 0, n);
        op->embed(f->be, x, p->token + first, in); // gathers rows of x
        op->linear(f->be, in, mat_rows(m->up, e * width, width), MAT_NONE, up);
        if (mat_none(m->gate)) {
            op->activate(f->be, up, m->act, 1);
        } else {
            mat gate = mat_rows(gate_all, 0, n);
            op->linear(f->be, in, mat_rows(m->gate, e * width, width), MAT_NONE, gate);
            op->multiply(f->be, gate, m->act, up);
        }
        op->linear(f->be, up, mat_rows(m->down, e * D, D), MAT_NONE, out);
        op->add_rows(f->be, out, p->token + first, p->weight + first, y);
    }
}

static void moe_run(module *base, fwd *f, mat x, mat y) {
    moe *m = (moe *)base;
    const backend_ops *op = f->be->op;
    plan p = {0};
    if (m->shared) {
        m->shared->run(m->shared, f, x, y);
        if (!mat_none(m->shared_gate)) {
            mat open = fwd_linear(f, x, m->shared_gate, MAT_NONE);
            if (mat_none(open))
                return;
            op->activate(f->be, open, ACT_SIGMOID, 1);
            op->scale_heads(f->be, y, open, 1, y.cols, y);
        }
    } else {
        op->zero(f->be, y);
    }
    if (f->be->fail.code == ERR_NONE && route(m, f, x, &p))
        run_experts(m, f, x, &p, y);
    plan_free(&p);
}

static bool bind_experts(moe *m, builder *b, const char *prefix, const moe_spec *s, err *e) {
    char name[300], list[300];
    int64_t D = b->m->info.D, E = s->router.experts, width = s->width;
    if (s->gate_up && build_has(b, "%s.%s", prefix, s->gate_up)) {
        build_name(name, sizeof name, prefix, s->gate_up);
        return build_slab(b, &m->gate, E, 0, width, 2 * width, D, name, e) &&
               build_slab(b, &m->up, E, width, width, 2 * width, D, name, e) &&
               build_slab(b, &m->down, E, 0, D, D, width,
                          build_name(name, sizeof name, prefix, s->down_all), e);
    }
    if (!s->list) // only the fused layout exists: name what is missing
        return build_slab(b, &m->gate, E, 0, width, 2 * width, D,
                          build_name(name, sizeof name, prefix, s->gate_up), e);
    build_name(list, sizeof list, prefix, s->list);
    return (!s->gate || build_stack(b, &m->gate, (int)E, width, D, list, s->gate, e)) &&
           build_stack(b, &m->up, (int)E, width, D, list, s->up, e) &&
           build_stack(b, &m->down, (int)E, D, width, list, s->down, e);
}

static bool check_router(const router *r, builder *b, err *e) {
    if (r->top_k < 1 || r->top_k > r->experts)
        return err_set(e, ERR_INPUT, "%s: %lld experts per token of %lld", config_path(b->cfg),
                       (long long)r->top_k, (long long)r->experts);
    if (r->groups > 1 && (r->groups > 256 || r->experts % r->groups != 0 || r->top_groups < 1 ||
                          r->top_groups > r->groups))
        return err_set(e, ERR_INPUT, "%s: %lld of %lld groups of experts, %lld experts",
                       config_path(b->cfg), (long long)r->top_groups, (long long)r->groups,
                       (long long)r->experts);
    return true;
}

module *moe_new(builder *b, const char *prefix, const moe_spec *s, err *e) {
    char name[300];
    moe *m = mem_zalloc(1, sizeof *m, "a mixture of experts", e);
    if (!m) {
        if (s->shared)
            s->shared->free(s->shared, b->be);
        return NULL;
    }
    m->base = (module){.kind = "mixture of experts", .run = moe_run, .free = moe_free};
    m->r = s->router;
    m->width = s->width;
    m->act = s->act;
    m->shared = s->shared;
    if (!check_router(&m->r, b, e) ||
        !build_weight(b, &m->router, m->r.experts, b->m->info.D,
                      build_name(name, sizeof name, prefix, s->router_name), e) ||
        (s->bias_name && !build_numbers(b, &m->bias, 1, m->r.experts,
                                        build_name(name, sizeof name, prefix, s->bias_name), e)) ||
        !bind_experts(m, b, prefix, s, e) ||
        (s->shared_gate &&
         !build_weight(b, &m->shared_gate, 1, b->m->info.D,
                       build_name(name, sizeof name, prefix, s->shared_gate), e))) {
        moe_free(&m->base, b->be);
        return NULL;
    }
    return &m->base;
}
