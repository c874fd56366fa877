// Linear attention, in flash-linear-attention's layout.
//
//     H_t = H_{t-1} + k v^T,   o = K^-1/2 H^T q                              (science R01)
//
// q and k pass a feature map: identity, relu, elu (+ 1), t2r (relu(W x)) or elementwise_product
// ((W_1 x + b_1)(W_2 x + b_2)), each W one head's, shared by all heads. norm_q and norm_k divide by
// the sum of the features + 1e-4. norm_feature_map divides the read-out by K^-1/2 q . sum k + 1e-10:
// the sum of keys is the state of a one-column recurrence with value 1.
#include "core/families/fla_group.h"
#include "core/forward.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { MAP_ACT, MAP_T2R, MAP_PRODUCT } map_kind;

// Weights of one feature map; the same matrices may serve q and k.
typedef struct feature_map {
    mat w1, b1, w2, b2; // [K, K], [1, K]
} feature_map;

typedef struct linear_attn {
    module base;
    fla_group g;
    map_kind kind;
    activation act; // MAP_ACT
    feature_map q_map, k_map;
    bool tied, norm_q, norm_k, norm_map;
    mat one;     // [1, H] the values of the sum of keys
    int key_sum; // carry [H K, 1]
} linear_attn;

static void map_free(feature_map *m, backend *be) {
    be->op->free(be, m->w1);
    be->op->free(be, m->b1);
    be->op->free(be, m->w2);
    be->op->free(be, m->b2);
}

static void linear_attn_free(module *base, backend *be) {
    linear_attn *d = (linear_attn *)base;
    fla_group_free(&d->g, be);
    if (be) {
        map_free(&d->q_map, be);
        if (!d->tied)
            map_free(&d->k_map, be);
        be->op->free(be, d->one);
    }
    free(d);
}

// The features of x [T, heads * K].
static mat features(const linear_attn *d, fwd *f, const feature_map *m, mat x) {
    int64_t K = d->base.heads.K;
    if (d->kind == MAP_ACT) {
        f->be->op->activate(f->be, x, d->act, 1);
        return x;
    }
    mat heads = mat_reshape(x, x.rows * (x.cols / K), K);
    mat y = fwd_linear(f, heads, m->w1, m->b1);
    mat z = d->kind == MAP_PRODUCT ? fwd_linear(f, heads, m->w2, m->b2) : MAT_NONE;
    if (f->be->fail.code != ERR_NONE)
        return y;
    if (d->kind == MAP_T2R)
        f->be->op->activate(f->be, y, ACT_RELU, 1);
    else
        f->be->op->multiply(f->be, z, ACT_NONE, y);
    return mat_reshape(y, x.rows, x.cols);
}

// o /= scale q . sum of all keys so far + 1e-10
static void divide_by_key_sum(linear_attn *d, fwd *f, const steps *s, mat o) {
    steps ones = *s;
    ones.s.V = 1;
    ones.v = fwd_tmp(f, s->T, s->s.H);
    mat sum = fwd_tmp(f, s->T, s->s.H);
    if (mat_none(ones.v) || mat_none(sum))
        return;
    f->be->op->broadcast(f->be, d->one, ones.v);
    f->be->op->recurrence(f->be, &ones, fwd_carry(f, &d->base, d->key_sum), sum);
    f->be->op->divide_heads(f->be, sum, 1e-10, s->s.V, o);
}

static void linear_attn_run(module *base, fwd *f, mat x, mat y) {
    linear_attn *d = (linear_attn *)base;
    const backend_ops *op = f->be->op;
    steps s = {.s = base->heads, .T = x.rows};
    mat q, k, v;
    if (!fla_group_project(&d->g, base, f, x, &q, &k, &v))
        return;
    q = features(d, f, &d->q_map, q);
    k = features(d, f, &d->k_map, k);
    if (f->be->fail.code != ERR_NONE)
        return;
    if (d->norm_q)
        op->normalize_heads(f->be, q, s.s.K, HEAD_NORM_L1, 1e-4);
    if (d->norm_k)
        op->normalize_heads(f->be, k, s.s.K, HEAD_NORM_L1, 1e-4);
    s.q = q;
    s.k = fla_group_repeat(&d->g, base, f, k, s.s.K);
    s.v = fla_group_repeat(&d->g, base, f, v, s.s.V);
    if (f->be->fail.code != ERR_NONE)
        return;
    mat o = fwd_recur(f, base, &s);
    if (mat_none(o) || f->fail.code != ERR_NONE)
        return;
    if (d->norm_map)
        divide_by_key_sum(d, f, &s, o);
    fla_group_output(&d->g, base, f, o, x, y);
}

static bool read_map(builder *b, linear_attn *d, err *e) {
    static const struct {
        const char *name;
        map_kind kind;
        activation act;
    } known[] = {{"identity", MAP_ACT, ACT_NONE},
                 {"relu", MAP_ACT, ACT_RELU},
                 {"elu", MAP_ACT, ACT_ELU1},
                 {"t2r", MAP_T2R, ACT_NONE},
                 {"elementwise_product", MAP_PRODUCT, ACT_NONE}};
    const char *name = "elementwise_product";
    if (!config_text_or(b->cfg, "feature_map", name, &name, e))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            d->kind = known[i].kind;
            d->act = known[i].act;
            return true;
        }
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: feature_map \"%s\" is not known here (identity, relu, elu, t2r and "
                   "elementwise_product are)",
                   config_path(b->cfg), text_show(name));
}

static bool bind_map(builder *b, feature_map *m, map_kind kind, const char *prefix,
                     const char *stem, int64_t K, err *e) {
    char name[300];
    const char *first = kind == MAP_T2R ? "layer" : "layer1";
    snprintf(name, sizeof name, "%s.%s.%s.weight", prefix, stem, first);
    if (!build_weight(b, &m->w1, K, K, name, e))
        return false;
    snprintf(name, sizeof name, "%s.%s.%s.bias", prefix, stem, first);
    if ((kind == MAP_PRODUCT || build_has(b, "%s", name)) &&
        !build_weight(b, &m->b1, 1, K, name, e))
        return false;
    if (kind == MAP_T2R)
        return true;
    snprintf(name, sizeof name, "%s.%s.layer2.weight", prefix, stem);
    if (!build_weight(b, &m->w2, K, K, name, e))
        return false;
    snprintf(name, sizeof name, "%s.%s.layer2.bias", prefix, stem);
    return build_weight(b, &m->b2, 1, K, name, e);
}

// A tied map is stored under one of the two names, or under both with the same numbers.
static bool bind_maps(linear_attn *d, builder *b, const char *prefix, int64_t K, err *e) {
    bool tied = false;
    if (!config_bool_or(b->cfg, "tie_feature_map_qk", false, &tied, e))
        return false;
    if (d->kind == MAP_ACT)
        return true;
    const char *first = d->kind == MAP_T2R ? "layer" : "layer1";
    const char *q = "feature_map_q", *k = "feature_map_k";
    bool has_q = build_has(b, "%s.%s.%s.weight", prefix, q, first);
    bool has_k = build_has(b, "%s.%s.%s.weight", prefix, k, first);
    if (!tied || (has_q && has_k))
        return bind_map(b, &d->q_map, d->kind, prefix, q, K, e) &&
               bind_map(b, &d->k_map, d->kind, prefix, k, K, e);
    d->tied = true;
    bool ok = bind_map(b, &d->q_map, d->kind, prefix, has_k ? k : q, K, e);
    d->k_map = d->q_map;
    return ok;
}

static bool linear_attn_bind(linear_attn *d, builder *b, const char *prefix, err *e) {
    head_shape s = {.decay = DECAY_NONE, .erase = ERASE_NONE};
    fla_group_options opt = {.norms = {"norm.weight"}};
    const char *norm = "rmsnorm";
    if (!read_map(b, d, e) || !fla_group_sizes(b, 4, 1, 1, &s, &d->g.kv, e) ||
        !config_bool_or(b->cfg, "norm_q", false, &d->norm_q, e) ||
        !config_bool_or(b->cfg, "norm_k", false, &d->norm_k, e) ||
        !config_bool_or(b->cfg, "norm_feature_map", false, &d->norm_map, e) ||
        !config_text_or(b->cfg, "output_norm", norm, &norm, e))
        return false;
    if (strcmp(norm, "rmsnorm") != 0 && strcmp(norm, "identity") != 0)
        return err_set(e, ERR_UNSUPPORTED, "%s: output_norm \"%s\" is not known here",
                       config_path(b->cfg), text_show(norm));
    opt.o_norm = strcmp(norm, "rmsnorm") == 0;
    if (!fla_group_bind(&d->g, &d->base, b, prefix, &s, &opt, e) ||
        !bind_maps(d, b, prefix, s.K, e))
        return false;
    if (!d->norm_map)
        return true;
    d->key_sum = module_state(&d->base, "sum of keys", (int64_t)s.H * s.K, 1);
    double *one = mem_alloc((size_t)s.H, sizeof *one, "ones", e);
    for (int h = 0; one && h < s.H; h++)
        one[h] = 1;
    bool ok = one && build_constant(b, &d->one, 1, s.H, one, e);
    free(one);
    return ok;
}

static module *linear_attn_new(builder *b, const char *prefix, err *e) {
    linear_attn *d = mem_zalloc(1, sizeof *d, "a linear attention layer", e);
    if (!d)
        return NULL;
    d->base =
        (module){.kind = "linear attention", .run = linear_attn_run, .free = linear_attn_free};
    if (!linear_attn_bind(d, b, prefix, e)) {
        linear_attn_free(&d->base, b->be);
        return NULL;
    }
    return &d->base;
}

static bool linear_attn_build(builder *b, err *e) {
    return fla_build(b, linear_attn_new, e);
}

const family family_linear_attn = {
    .names = {"linear_attn"},
    .summary = "linear attention: sums of k v^T, with a feature map and no decay",
    .build = linear_attn_build,
};
