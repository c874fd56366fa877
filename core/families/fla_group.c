#include "core/families/fla_group.h"

#include "core/forward.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool fla_activation(builder *b, const char *key, const char *otherwise, activation *out, err *e) {
    static const struct {
        const char *name;
        activation act;
    } known[] = {
        {"identity", ACT_NONE},   {"relu", ACT_RELU}, {"silu", ACT_SILU},    {"swish", ACT_SILU},
        {"sigmoid", ACT_SIGMOID}, {"tanh", ACT_TANH}, {"sqrelu", ACT_RELU2}, {"relu2", ACT_RELU2},
    };
    const char *name = otherwise;
    *out = ACT_NONE;
    if (!config_text_or(b->cfg, key, otherwise, &name, e))
        return false;
    if (!name)
        return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].act;
            return true;
        }
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: %s \"%s\" is not known here (relu, silu, swish, sigmoid, tanh, sqrelu and "
                   "identity are)",
                   config_path(b->cfg), key, text_show(name));
}

bool fla_group_sizes(builder *b, int64_t heads, double expand_k, double expand_v, head_shape *s,
                     int *kv, err *e) {
    int64_t H = 0, n = 0, K = 0, V = 0;
    if (!config_int_or(b->cfg, "num_heads", 1, 65536, heads, &H, e) ||
        !config_int_or(b->cfg, "num_kv_heads", 1, 65536, H, &n, e) ||
        !config_real_or(b->cfg, "expand_k", expand_k, &expand_k, e) ||
        !config_real_or(b->cfg, "expand_v", expand_v, &expand_v, e))
        return false;
    if (H % n != 0)
        return err_set(e, ERR_INPUT, "%s: num_heads %lld is no multiple of num_kv_heads %lld",
                       config_path(b->cfg), (long long)H, (long long)n);
    if (!fla_expanded(b, expand_k, expand_v, H, &K, &V, e))
        return false;
    s->H = s->Hk = (int)H;
    s->K = (int)K;
    s->V = (int)V;
    s->n_h = 1;
    s->scale = 1 / sqrt((double)s->K);
    *kv = (int)n;
    return true;
}

static bool bind_conv(builder *b, mat *w, mat *bias, const char *prefix, const char *stem,
                      int64_t rows, int64_t width, err *e) {
    char name[300];
    snprintf(name, sizeof name, "%s.%s.weight", prefix, stem);
    if (!build_weight(b, w, rows, width, name, e))
        return false;
    snprintf(name, sizeof name, "%s.%s.bias", prefix, stem);
    return !build_has(b, "%s", name) || build_weight(b, bias, 1, rows, name, e);
}

static bool bind_convs(fla_group *g, module *m, builder *b, const char *prefix, int64_t nq,
                       int64_t nk, int64_t nv, int64_t width, err *e) {
    int64_t tail = width > 1 ? width - 1 : 1;
    g->q_tail = module_carry(m, "q tail", tail, nq);
    g->k_tail = module_carry(m, "k tail", tail, nk);
    g->v_tail = module_carry(m, "v tail", tail, nv);
    return bind_conv(b, &g->q_conv, &g->q_conv_b, prefix, "q_conv1d", nq, width, e) &&
           bind_conv(b, &g->k_conv, &g->k_conv_b, prefix, "k_conv1d", nk, width, e) &&
           bind_conv(b, &g->v_conv, &g->v_conv_b, prefix, "v_conv1d", nv, width, e);
}

static bool bind_norm(fla_group *g, builder *b, const char *prefix, int64_t V,
                      const char *const *names, err *e) {
    char name[300];
    build_name(name, sizeof name, prefix, names[0]);
    for (int i = 1; names[i] && !build_has(b, "%s", name); i++)
        if (build_has(b, "%s.%s", prefix, names[i]))
            build_name(name, sizeof name, prefix, names[i]);
    return build_weight(b, &g->o_norm, 1, V, name, e);
}

bool fla_group_bind(fla_group *g, module *m, builder *b, const char *prefix, const head_shape *s,
                    const fla_group_options *opt, err *e) {
    char name[300];
    int64_t D = b->m->info.D, nq = (int64_t)s->H * s->K, nk = (int64_t)g->kv * s->K,
            nv = (int64_t)g->kv * s->V, no = (int64_t)s->H * s->V;
    m->linear = true;
    m->heads = *s;
    m->state_carry = module_state(m, "state", nq, s->V);
    g->eps = b->m->info.norm_eps;
    if (!build_weight(b, &g->q, nq, D, build_name(name, sizeof name, prefix, "q_proj.weight"), e) ||
        !build_weight(b, &g->k, nk, D, build_name(name, sizeof name, prefix, "k_proj.weight"), e) ||
        !build_weight(b, &g->v, nv, D, build_name(name, sizeof name, prefix, "v_proj.weight"), e) ||
        !build_weight(b, &g->o, D, no, build_name(name, sizeof name, prefix, "o_proj.weight"), e))
        return false;
    if (opt->conv && !bind_convs(g, m, b, prefix, nq, nk, nv, opt->width, e))
        return false;
    if (opt->gate &&
        !build_weight(b, &g->g, no, D, build_name(name, sizeof name, prefix, "g_proj.weight"), e))
        return false;
    return !opt->o_norm || bind_norm(g, b, prefix, s->V, opt->norms, e);
}

void fla_group_free(fla_group *g, backend *be) {
    mat all[] = {g->q,        g->k,        g->v,        g->q_conv, g->k_conv, g->v_conv,
                 g->q_conv_b, g->k_conv_b, g->v_conv_b, g->o_norm, g->g,      g->o};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
}

// Without a convolution there is no activation either.
static mat project(fwd *f, const module *m, mat x, mat w, mat conv, mat bias, int tail) {
    mat y = fwd_linear(f, x, w, MAT_NONE);
    return mat_none(conv) ? y : fwd_conv(f, m, tail, y, conv, bias, ACT_SILU);
}

bool fla_group_project(fla_group *g, const module *m, fwd *f, mat x, mat *q, mat *k, mat *v) {
    *q = project(f, m, x, g->q, g->q_conv, g->q_conv_b, g->q_tail);
    *k = project(f, m, x, g->k, g->k_conv, g->k_conv_b, g->k_tail);
    *v = project(f, m, x, g->v, g->v_conv, g->v_conv_b, g->v_tail);
    return f->be->fail.code == ERR_NONE;
}

mat fla_group_repeat(const fla_group *g, const module *m, fwd *f, mat x, int64_t d) {
    if (g->kv == m->heads.H || mat_none(x))
        return x;
    mat y = x.esize == f->be->esize ? fwd_tmp(f, x.rows, m->heads.H * d)
                                    : fwd_tmp_exact(f, x.rows, m->heads.H * d);
    if (!mat_none(y))
        f->be->op->scale_heads(f->be, x, MAT_NONE, 1, d, y);
    return y;
}

void fla_group_output(fla_group *g, const module *m, fwd *f, mat o, mat x, mat y) {
    const backend_ops *op = f->be->op;
    if (mat_none(o) || f->fail.code != ERR_NONE)
        return;
    mat rows = mat_reshape(o, o.rows * m->heads.H, m->heads.V);
    if (!mat_none(g->o_norm))
        op->rms_norm(f->be, rows, g->o_norm, g->eps, rows);
    if (!mat_none(g->g)) {
        mat gate = fwd_linear(f, x, g->g, MAT_NONE);
        if (mat_none(gate))
            return;
        op->multiply(f->be, gate, g->gate_act, o);
    }
    fwd_output(f, m, o, g->o, MAT_NONE, y);
}
