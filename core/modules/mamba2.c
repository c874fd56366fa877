#include "core/modules/mamba2.h"

#include "core/forward.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct mamba2 {
    module base;
    mamba2_spec s;
    mat in, in_bias;     // [2 X + 2 G N + H, D], X = H V channels
    mat conv, conv_bias; // [X + 2 G N, width]
    mat dt_bias;         // [1, H]
    mat rate;            // [1, H]: exp(A_log)
    mat skip;            // [1, H]: D
    mat norm;            // [G, X / G]
    mat out, out_bias;   // [D, X]
    int tail;
} mamba2;

static void mamba2_free(module *base, backend *be) {
    mamba2 *m = (mamba2 *)base;
    mat all[] = {m->in,   m->in_bias, m->conv, m->conv_bias, m->dt_bias,
                 m->rate, m->skip,    m->norm, m->out,       m->out_bias};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    free(m);
}

// Columns of the projected rows: z, then x, B, C (which the convolution sees as one), then dt.
typedef struct columns {
    int64_t X, GN, H;
} columns;

static columns columns_of(const mamba2_spec *s) {
    return (columns){s->heads * s->head_dim, s->groups * s->state, s->heads};
}

static mat project(mamba2 *m, fwd *f, mat x) {
    const backend_ops *op = f->be->op;
    if (m->s.in_scale != 1) {
        mat scaled = fwd_tmp(f, x.rows, x.cols);
        if (mat_none(scaled))
            return scaled;
        op->copy(f->be, x, scaled);
        op->activate(f->be, scaled, ACT_NONE, m->s.in_scale);
        x = scaled;
    }
    mat y = fwd_linear(f, x, m->in, m->in_bias);
    columns c = columns_of(&m->s);
    const int64_t width[5] = {c.X, c.X, c.GN, c.GN, c.H};
    int64_t first = 0;
    for (int i = 0; i < 5 && !mat_none(y); first += width[i++])
        op->activate(f->be, mat_cols(y, first, width[i]), ACT_NONE, m->s.slice[i]);
    return y;
}

// y = W_out norm(o, z)
static void output(mamba2 *m, fwd *f, mat o, mat z, mat y) {
    const backend_ops *op = f->be->op;
    if (!m->s.norm_before_gate || m->s.plain)
        op->multiply(f->be, z, ACT_SILU, o);
    if (!m->s.plain) {
        mat rows = mat_reshape(o, o.rows * m->norm.rows, m->norm.cols);
        op->rms_norm(f->be, rows, m->norm, m->s.eps, rows);
        if (m->s.norm_before_gate)
            op->multiply(f->be, z, ACT_SILU, o);
    }
    fwd_output(f, &m->base, o, m->out, m->out_bias, y);
}

static void mamba2_run(module *base, fwd *f, mat u, mat y) {
    mamba2 *m = (mamba2 *)base;
    const backend_ops *op = f->be->op;
    columns c = columns_of(&m->s);
    int64_t V = m->s.head_dim;
    mat all = project(m, f, u);
    if (mat_none(all))
        return;
    mat z = mat_cols(all, 0, c.X);
    mat xbc = fwd_conv(f, base, m->tail, mat_cols(all, c.X, c.X + 2 * c.GN), m->conv, m->conv_bias,
                       ACT_SILU);
    mat v = fwd_tmp(f, u.rows, c.X), Dx = fwd_tmp(f, u.rows, c.X);
    mat dt = fwd_tmp_exact(f, u.rows, c.H), decay = fwd_tmp_exact(f, u.rows, c.H);
    if (mat_none(xbc) || mat_none(v) || mat_none(Dx) || mat_none(dt) || mat_none(decay))
        return;
    mat x = mat_cols(xbc, 0, c.X);
    op->copy(f->be, mat_cols(all, 2 * c.X + 2 * c.GN, c.H), dt);
    op->time_step(f->be, dt, m->dt_bias, m->s.dt_lo, m->s.dt_hi);
    op->scale_heads(f->be, x, dt, 1, V, v);
    op->scale_heads(f->be, dt, m->rate, -1, 1, decay);
    op->scale_heads(f->be, x, m->skip, 1, V, Dx);
    steps s = {.s = base->heads,
               .T = u.rows,
               .q = mat_cols(xbc, c.X + c.GN, c.GN),
               .k = mat_cols(xbc, c.X, c.GN),
               .v = v,
               .decay = decay};
    mat o = fwd_recur(f, base, &s);
    if (mat_none(o) || f->be->fail.code != ERR_NONE || f->fail.code != ERR_NONE)
        return;
    op->add(f->be, Dx, 1, o);
    output(m, f, o, z, y);
}

// Binding ------------------------------------------------------------------------------------

static bool bind_rate(mamba2 *m, builder *b, const char *name, err *e) {
    double *a = NULL;
    if (!build_numbers(b, &a, 1, m->s.heads, name, e))
        return false;
    for (int64_t h = 0; a && h < m->s.heads; h++)
        a[h] = exp(a[h]);
    bool ok = !a || build_constant(b, &m->rate, 1, m->s.heads, a, e);
    free(a);
    return ok;
}

static bool bind(mamba2 *m, builder *b, const char *prefix, err *e) {
    const mamba2_spec *s = &m->s;
    columns c = columns_of(s);
    int64_t D = b->m->info.D, mixed = c.X + 2 * c.GN, all = c.X + mixed + c.H;
    struct {
        const char *name;
        mat *w;
        int64_t rows, cols;
        bool wanted;
    } part[] = {
        {"in_proj.weight", &m->in, all, D, true},
        {"in_proj.bias", &m->in_bias, 1, all, s->in_bias},
        {"conv1d.weight", &m->conv, mixed, s->conv, true},
        {"conv1d.bias", &m->conv_bias, 1, mixed, s->conv_bias},
        {"dt_bias", &m->dt_bias, 1, c.H, true},
        {"D", &m->skip, 1, c.H, true},
        {"norm.weight", &m->norm, 1, c.X, !s->plain},
        {"out_proj.weight", &m->out, D, c.X, true},
        {"out_proj.bias", &m->out_bias, 1, D, s->out_bias},
    };
    char name[300];
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].wanted && !build_weight(b, part[i].w, part[i].rows, part[i].cols,
                                            build_name(name, sizeof name, prefix, part[i].name), e))
            return false;
    if (!mat_none(m->norm))
        m->norm = mat_reshape(m->norm, s->groups, c.X / s->groups);
    return bind_rate(m, b, build_name(name, sizeof name, prefix, "A_log"), e);
}

// Sizes ---------------------------------------------------------------------------------------

// Side `which` of a tensor, -1: the last; 0 when it is not there.
static int64_t side(const builder *b, const char *prefix, const char *name, int which) {
    char full[300];
    const tensor *t = ckpt_get(b->ck, build_name(full, sizeof full, prefix, name));
    if (t && which < 0)
        which = t->rank - 1;
    return t && which >= 0 && which < t->rank ? t->dims[which] : 0;
}

// What the config leaves open, from the shapes of A_log [H], out_proj [D, X], conv1d [X + 2GN, 1, w].
static bool fill_sizes(builder *b, const char *prefix, mamba2_spec *s, err *e) {
    int64_t X = side(b, prefix, "out_proj.weight", 1);
    int64_t mixed = side(b, prefix, "conv1d.weight", 0), GN = (mixed - X) / 2;
    if (s->heads == 0)
        s->heads = side(b, prefix, "A_log", 0);
    if (s->head_dim == 0 && s->heads > 0)
        s->head_dim = X / s->heads;
    if (s->conv == 0)
        s->conv = side(b, prefix, "conv1d.weight", -1);
    // G and N stand in the shapes as a product only; without both, N is what the authors' code
    // takes when nobody says otherwise.
    if (s->groups == 0 && s->state == 0)
        s->state = 128;
    if (s->groups == 0)
        s->groups = GN > 0 && GN % s->state == 0 ? GN / s->state : 0;
    if (s->state == 0)
        s->state = GN > 0 && GN % s->groups == 0 ? GN / s->groups : 0;
    if (s->heads < 1 || s->head_dim < 1 || s->groups < 1 || s->state < 1 || s->conv < 1)
        return err_set(
            e, ERR_MISSING,
            "%s: the config leaves sizes of the Mamba-2 layers open (%lld heads of %lld, "
            "%lld groups, state %lld, convolution %lld), and %s.* do not tell them",
            config_path(b->cfg), (long long)s->heads, (long long)s->head_dim, (long long)s->groups,
            (long long)s->state, (long long)s->conv, prefix);
    if (s->heads % s->groups != 0 || s->heads > 65536 || s->state > 65536 || s->head_dim > 65536)
        return err_set(e, ERR_INPUT, "%s: %lld heads do not fall into %lld groups",
                       config_path(b->cfg), (long long)s->heads, (long long)s->groups);
    return true;
}

static bool size_of(const config *cfg, const char *key, int64_t *out, err *e) {
    *out = 0;
    const json_t *v = key ? config_json(cfg, key) : NULL;
    if (json_is_string(v) && strcmp(json_string_value(v), "auto") == 0)
        return true;
    return !key || config_int_or(cfg, key, 1, 65536, 0, out, e);
}

// build_switch asks the builder's own config; the keys may stand in a child of it.
static bool flag_of(builder *b, const config *cfg, const char *key, const char *prefix,
                    const char *tensor_name, bool *out, err *e) {
    char name[300];
    build_name(name, sizeof name, prefix, tensor_name);
    if (!key) {
        *out = build_has(b, "%s", name);
        return true;
    }
    const config *own = b->cfg;
    b->cfg = cfg;
    bool ok = build_switch(b, key, NULL, name, out, e);
    b->cfg = own;
    return ok;
}

bool mamba2_read(builder *b, const config *cfg, const mamba2_keys *k, const char *prefix,
                 mamba2_spec *s, err *e) {
    *s = (mamba2_spec){.dt_lo = 0, .dt_hi = INFINITY};
    return size_of(cfg, k->heads, &s->heads, e) && size_of(cfg, k->head_dim, &s->head_dim, e) &&
           size_of(cfg, k->groups, &s->groups, e) && size_of(cfg, k->state, &s->state, e) &&
           size_of(cfg, k->conv, &s->conv, e) &&
           (!k->limits || config_limits_or(cfg, k->limits, 0, INFINITY, &s->dt_lo, &s->dt_hi, e)) &&
           flag_of(b, cfg, k->conv_bias, prefix, "conv1d.bias", &s->conv_bias, e) &&
           flag_of(b, cfg, k->in_bias, prefix, "in_proj.bias", &s->in_bias, e) &&
           flag_of(b, cfg, k->out_bias, prefix, "out_proj.bias", &s->out_bias, e);
}

module *mamba2_new(builder *b, const char *prefix, const mamba2_spec *spec, err *e) {
    mamba2_spec s = *spec;
    if (!fill_sizes(b, prefix, &s, e))
        return NULL;
    mamba2 *m = mem_zalloc(1, sizeof *m, "a Mamba-2 layer", e);
    if (!m)
        return NULL;
    s.in_scale = s.in_scale != 0 ? s.in_scale : 1;
    for (int i = 0; i < 5; i++)
        s.slice[i] = s.slice[i] != 0 ? s.slice[i] : 1;
    m->s = s;
    m->base = (module){.kind = "Mamba-2",
                       .run = mamba2_run,
                       .free = mamba2_free,
                       .linear = true,
                       .heads = {.H = (int)s.heads,
                                 .Hk = (int)s.groups,
                                 .K = (int)s.state,
                                 .V = (int)s.head_dim,
                                 .n_h = 1,
                                 .decay = DECAY_HEAD,
                                 .erase = ERASE_NONE,
                                 .scale = 1}};
    columns c = columns_of(&s);
    m->base.state_carry = module_state(&m->base, "state", s.heads * s.state, s.head_dim);
    m->tail = module_carry(&m->base, "conv tail", s.conv > 1 ? s.conv - 1 : 1, c.X + 2 * c.GN);
    bool ok = bind(m, b, prefix, e);
    if (ok && !s.plain && s.groups > 1) // fault B122
        ok = build_note(b, e, "Mamba-2: the gated norm runs over %lld group%s of %lld channels",
                        (long long)s.groups, s.groups == 1 ? "" : "s", (long long)(c.X / s.groups));
    if (ok)
        return &m->base;
    mamba2_free(&m->base, b->be);
    return NULL;
}
