// HGRN2 (arXiv:2404.07904), in flash-linear-attention's layout.
//
//     H_t = Diag(w_t) H_{t-1} + (1 - w_t) v^T,   o = K^-1/2 H^T q            (science R05)
//
//     w = l + (1 - l) sigmoid(f_proj x),   l = row L of cumsum(softmax(lower_bounds)) - row 0
//
// q = SiLU(q_proj x). Layer 0 has no lower bound; softmax and sum run over layers. The output norm
// spans all heads; its eps is that of FLA's fused kernel, 1e-5, whatever norm_eps says.
#include "core/families/fla.h"
#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct hgrn2 {
    module base;
    mat q, f, i, o, g_norm;     // [H K, D] x 2, [D, D] x 2, [1, D]
    mat q_conv, f_conv, i_conv; // [channels, width]
    mat q_bias, f_bias, i_bias; // of the convolutions
    mat least;                  // [1, H K] lower bound of w; none: 0
    int q_tail, f_tail, i_tail;
} hgrn2;

static void hgrn2_free(module *base, backend *be) {
    hgrn2 *d = (hgrn2 *)base;
    mat all[] = {d->q,      d->f,      d->i,      d->o,      d->g_norm, d->q_conv,
                 d->f_conv, d->i_conv, d->q_bias, d->f_bias, d->i_bias, d->least};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    free(d);
}

// What the forget gate is made from, exact: a log decay counts once per token.
static mat gate(hgrn2 *d, fwd *f, mat x) {
    if (mat_none(d->f_conv))
        return fwd_linear_exact(f, x, d->f, MAT_NONE);
    mat z = fwd_conv(f, &d->base, d->f_tail, fwd_linear(f, x, d->f, MAT_NONE), d->f_conv, d->f_bias,
                     ACT_NONE);
    mat y = fwd_tmp_exact(f, z.rows, z.cols);
    if (!mat_none(y))
        f->be->op->copy(f->be, z, y);
    return y;
}

static void hgrn2_run(module *base, fwd *f, mat x, mat y) {
    hgrn2 *d = (hgrn2 *)base;
    const backend_ops *op = f->be->op;
    steps s = {.s = base->heads, .T = x.rows};
    s.q = fwd_conv(f, base, d->q_tail, fwd_linear(f, x, d->q, MAT_NONE), d->q_conv, d->q_bias,
                   ACT_SILU);
    s.decay = gate(d, f, x);
    s.v = fwd_conv(f, base, d->i_tail, fwd_linear(f, x, d->i, MAT_NONE), d->i_conv, d->i_bias,
                   ACT_NONE);
    mat gone = fwd_tmp_exact(f, x.rows, (int64_t)s.s.H * s.s.K);
    s.k = fwd_tmp(f, gone.rows, gone.cols);
    if (f->be->fail.code != ERR_NONE)
        return;
    op->log_forget(f->be, s.decay, d->least, 1, -INFINITY);
    op->copy(f->be, s.decay, gone);
    op->activate(f->be, gone, ACT_ONE_MINUS_EXP, 1);
    op->copy(f->be, gone, s.k);
    mat o = fwd_recur(f, base, &s);
    if (mat_none(o) || f->fail.code != ERR_NONE)
        return;
    op->rms_norm(f->be, o, d->g_norm, 1e-5, o);
    fwd_output(f, base, o, d->o, MAT_NONE, y);
}

static bool bind_convs(hgrn2 *d, builder *b, const char *prefix, int64_t nk, int64_t width,
                       err *e) {
    struct {
        const char *stem;
        mat *w, *bias;
        int *tail;
        int64_t rows;
    } part[] = {{"q_conv1d", &d->q_conv, &d->q_bias, &d->q_tail, nk},
                {"f_conv1d", &d->f_conv, &d->f_bias, &d->f_tail, nk},
                {"i_conv1d", &d->i_conv, &d->i_bias, &d->i_tail, b->m->info.D}};
    for (int i = 0; i < 3; i++) {
        char name[300];
        *part[i].tail =
            module_carry(&d->base, part[i].stem, width > 1 ? width - 1 : 1, part[i].rows);
        snprintf(name, sizeof name, "%s.%s.weight", prefix, part[i].stem);
        if (!build_weight(b, part[i].w, part[i].rows, width, name, e))
            return false;
        snprintf(name, sizeof name, "%s.%s.bias", prefix, part[i].stem);
        if (build_has(b, "%s", name) && !build_weight(b, part[i].bias, 1, part[i].rows, name, e))
            return false;
    }
    return true;
}

// The bound of this layer: softmax over all layers, summed from layer 1 to this one.
static bool bind_least(hgrn2 *d, builder *b, int64_t n, err *e) {
    int64_t L = b->m->info.n_layers;
    double *v = NULL;
    if (!build_numbers(b, &v, L, n, "model.lower_bounds", e))
        return false;
    if (!v)
        return true;
    double *sum = mem_zalloc((size_t)n, sizeof *sum, "lower bounds", e);
    for (int64_t c = 0; sum && c < n; c++) {
        double top = v[c], all = 0;
        for (int64_t l = 1; l < L; l++)
            top = fmax(top, v[l * n + c]);
        for (int64_t l = 0; l < L; l++)
            all += exp(v[l * n + c] - top);
        for (int64_t l = 1; l <= b->layer; l++)
            sum[c] += exp(v[l * n + c] - top) / all;
    }
    bool ok = sum && (b->layer == 0 || build_constant(b, &d->least, 1, n, sum, e));
    free(sum);
    free(v);
    return ok;
}

// expand_ratio is the key size; num_heads counts only where there is no expand_ratio.
static bool sizes(builder *b, head_shape *s, err *e) {
    int64_t H = 0, K = 0, D = b->m->info.D;
    bool heads = config_has(b->cfg, "num_heads"), ratio = config_has(b->cfg, "expand_ratio");
    if (!config_int_or(b->cfg, "num_heads", 1, 65536, 0, &H, e) ||
        !config_int_or(b->cfg, "expand_ratio", 1, 65536, 128, &K, e))
        return false;
    if (heads && !ratio)
        K = D / H;
    if (K < 1 || K > D || D % K != 0 || (heads && H != D / K))
        return err_set(e, ERR_INPUT,
                       "%s: expand_ratio %lld and num_heads %lld do not fit hidden_size %lld",
                       config_path(b->cfg), (long long)K, (long long)H, (long long)D);
    s->H = s->Hk = (int)(D / K);
    s->K = (int)K;
    s->V = (int)(D / s->H);
    s->n_h = 1;
    s->scale = 1 / sqrt((double)K);
    return true;
}

static bool hgrn2_bind(hgrn2 *d, builder *b, const char *prefix, err *e) {
    head_shape s = {.decay = DECAY_CHANNEL, .erase = ERASE_NONE};
    char name[300];
    int64_t D = b->m->info.D, width = 4;
    bool conv = false, bounds = false;
    build_name(name, sizeof name, prefix, "q_conv1d.weight");
    if (!sizes(b, &s, e) || !config_int_or(b->cfg, "conv_size", 1, 64, 4, &width, e) ||
        !build_switch(b, "use_short_conv", NULL, name, &conv, e) ||
        !build_switch(b, "use_lower_bound", NULL, "model.lower_bounds", &bounds, e))
        return false;
    int64_t nk = (int64_t)s.H * s.K;
    d->base.linear = true;
    d->base.heads = s;
    d->base.state_carry = module_state(&d->base, "state", nk, s.V);
    return build_weight(b, &d->q, nk, D, build_name(name, sizeof name, prefix, "q_proj.weight"),
                        e) &&
           build_weight(b, &d->f, nk, D, build_name(name, sizeof name, prefix, "f_proj.weight"),
                        e) &&
           build_weight(b, &d->i, D, D, build_name(name, sizeof name, prefix, "i_proj.weight"),
                        e) &&
           build_weight(b, &d->o, D, D, build_name(name, sizeof name, prefix, "o_proj.weight"),
                        e) &&
           build_weight(b, &d->g_norm, 1, D, build_name(name, sizeof name, prefix, "g_norm.weight"),
                        e) &&
           (!conv || bind_convs(d, b, prefix, nk, width, e)) &&
           (!bounds || bind_least(d, b, nk, e));
}

static module *hgrn2_new(builder *b, const char *prefix, err *e) {
    hgrn2 *d = mem_zalloc(1, sizeof *d, "an HGRN2 layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "gated linear RNN", .run = hgrn2_run, .free = hgrn2_free};
    if (!hgrn2_bind(d, b, prefix, e)) {
        hgrn2_free(&d->base, b->be);
        return NULL;
    }
    return &d->base;
}

static bool hgrn2_build(builder *b, err *e) {
    return fla_build(b, hgrn2_new, e);
}

const family family_hgrn2 = {
    .names = {"hgrn2"},
    .summary = "HGRN2: forget gate per channel, written key is what the gate lets go",
    .build = hgrn2_build,
};
