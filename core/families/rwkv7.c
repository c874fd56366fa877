// RWKV-7, in flash-linear-attention's layout.
//
//     H_t = (Diag(w_t) - (a kappa) kappa^T) H_{t-1} + k v^T,   o = H^T r     (science R09)
//
// kappa is read along, in the undecayed state; a kappa is written along (E16). Per token, with
// d = x_{t-1} - x_t and x_c = x + d mu_c for each of r, w, k, v, a, g:
//
//     r = W_r x_r,  k = W_k x_k,  v = W_v x_v,  ln w = -e^(-1/2) sigmoid(w_lora x_w)
//     a = sigmoid(a_lora x_a),  g = g_lora x_g
//     v <- v + (v_first - v) sigmoid(v_lora x_v)      layers after the first; v_first: v of layer 0
//     kappa = k k_k, normed per head;  k <- k (1 + (a - 1) k_a)
//     y = W_o ((group_norm(o) + (sum r k r_k) v) g)
//
// fuse_norm decides the eps of kappa's norm: |kappa|^2 + 1e-6 under the root when true, max(|kappa|,
// 1e-12) when false (fault B59). Sizes of the low-rank pairs are the tensors' (fault B109).
#include "core/families/fla.h"
#include "core/families/rwkv7_ffn.h"
#include "core/forward.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { MIX_R, MIX_W, MIX_K, MIX_V, MIX_A, MIX_G, MIXES } mix;

typedef struct low_rank {
    mat down, up, bias; // [rank, D], [out, rank], [1, out] or none
} low_rank;

typedef struct rwkv7 {
    module base;
    mat mu[MIXES];        // [1, D]
    mat r, k, v, o;       // [H K, D] x 2, [H V, D], [D, H V]
    low_rank w, a, g, vf; // vf: how much of v_first; none in layer 0
    mat k_k, k_a, r_k;    // [1, H K]
    mat norm, norm_bias;  // [1, H V] group norm of the read-out
    double norm_eps, kappa_eps;
    head_norm kappa_norm;
    int before; // carry: the row before the block
} rwkv7;

enum { V_FIRST = 0 }; // the slot that layer 0 leaves its values in

static void low_rank_free(low_rank *l, backend *be) {
    be->op->free(be, l->down);
    be->op->free(be, l->up);
    be->op->free(be, l->bias);
}

static void rwkv7_free(module *base, backend *be) {
    rwkv7 *d = (rwkv7 *)base;
    mat all[] = {d->r, d->k, d->v, d->o, d->k_k, d->k_a, d->r_k, d->norm, d->norm_bias};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    for (int i = 0; be && i < MIXES; i++)
        be->op->free(be, d->mu[i]);
    if (be) {
        low_rank_free(&d->w, be);
        low_rank_free(&d->a, be);
        low_rank_free(&d->g, be);
        low_rank_free(&d->vf, be);
    }
    free(d);
}

typedef mat (*linear)(fwd *f, mat x, mat w, mat bias);

// up act(down x) + bias, the last product by `up`
static mat low_rank_by(linear up, fwd *f, const low_rank *l, mat x, activation act) {
    mat low = fwd_linear(f, x, l->down, MAT_NONE);
    if (mat_none(low))
        return low;
    f->be->op->activate(f->be, low, act, 1);
    return up(f, low, l->up, l->bias);
}

static mat low_rank_run(fwd *f, const low_rank *l, mat x, activation act) {
    return low_rank_by(fwd_linear, f, l, x, act);
}

// v <- v + (v_first - v) sigmoid(share)
static void mix_first_values(rwkv7 *d, fwd *f, mat x, mat v) {
    const backend_ops *op = f->be->op;
    mat first = fwd_left(f, V_FIRST), share = low_rank_run(f, &d->vf, x, ACT_NONE);
    mat gap = fwd_tmp(f, v.rows, v.cols);
    if (mat_none(first) || mat_none(share) || mat_none(gap))
        return;
    op->activate(f->be, share, ACT_SIGMOID, 1);
    op->copy(f->be, first, gap);
    op->add(f->be, v, -1, gap);
    op->mix(f->be, v, gap, share, v);
}

// (group_norm(o) + bonus) g, through W_o. bonus = (sum over a head of r k r_k) v.
static void output(rwkv7 *d, fwd *f, const steps *s, mat o, mat g, mat y) {
    const backend_ops *op = f->be->op;
    mat sum = fwd_tmp(f, s->T, s->s.H), bonus = fwd_tmp(f, s->T, o.cols);
    if (mat_none(sum) || mat_none(bonus))
        return;
    op->layer_norm(f->be, o, d->norm, d->norm_bias, s->s.V, d->norm_eps, o);
    op->dot_heads(f->be, s->q, s->k, d->r_k, s->s.K, sum);
    op->scale_heads(f->be, s->v, sum, 1, s->s.V, bonus);
    op->add(f->be, bonus, 1, o);
    op->multiply(f->be, g, ACT_NONE, o);
    fwd_output(f, &d->base, o, d->o, MAT_NONE, y);
}

// kappa, a kappa with its sign, and the key that is written, from k and a.
static bool keys(rwkv7 *d, fwd *f, mat k, mat a, steps *s) {
    const backend_ops *op = f->be->op;
    mat kappa = fwd_tmp(f, k.rows, k.cols), along = fwd_tmp(f, k.rows, k.cols);
    mat part = fwd_tmp(f, k.rows, k.cols);
    if (mat_none(kappa) || mat_none(along) || mat_none(part))
        return false;
    op->mix(f->be, MAT_NONE, k, d->k_k, kappa);
    op->normalize_heads(f->be, kappa, s->s.K, d->kappa_norm, d->kappa_eps);
    op->mix(f->be, MAT_NONE, kappa, a, along);
    op->activate(f->be, along, ACT_NONE, -1);
    op->mix(f->be, MAT_NONE, k, d->k_a, part); // k + (k k_a) a - k k_a
    op->mix(f->be, k, part, a, k);
    op->add(f->be, part, -1, k);
    s->b = kappa;
    s->a = along;
    s->k = k;
    return true;
}

static void rwkv7_run(module *base, fwd *f, mat x, mat y) {
    rwkv7 *d = (rwkv7 *)base;
    const backend_ops *op = f->be->op;
    steps s = {.s = base->heads, .T = x.rows};
    mat shift = fwd_tmp(f, x.rows, x.cols), in[MIXES];
    if (mat_none(shift))
        return;
    op->token_shift(f->be, x, fwd_carry(f, base, d->before), shift);
    for (int i = 0; i < MIXES; i++) {
        in[i] = fwd_tmp(f, x.rows, x.cols);
        if (mat_none(in[i]))
            return;
        op->mix(f->be, x, shift, d->mu[i], in[i]);
    }
    s.q = fwd_linear(f, in[MIX_R], d->r, MAT_NONE);
    s.v = fwd_linear(f, in[MIX_V], d->v, MAT_NONE);
    s.decay = low_rank_by(fwd_linear_exact, f, &d->w, in[MIX_W], ACT_TANH);
    mat k = fwd_linear(f, in[MIX_K], d->k, MAT_NONE);
    mat a = low_rank_run(f, &d->a, in[MIX_A], ACT_NONE);
    mat g = low_rank_run(f, &d->g, in[MIX_G], ACT_SIGMOID);
    if (f->be->fail.code != ERR_NONE)
        return;
    op->activate(f->be, s.decay, ACT_SIGMOID, -exp(-0.5));
    op->activate(f->be, a, ACT_SIGMOID, 1);
    if (mat_none(d->vf.down))
        fwd_leave(f, V_FIRST, s.v);
    else
        mix_first_values(d, f, in[MIX_V], s.v);
    if (!keys(d, f, k, a, &s))
        return;
    mat o = fwd_recur(f, base, &s);
    if (!mat_none(o) && f->fail.code == ERR_NONE)
        output(d, f, &s, o, g, y);
}

// Binding -----------------------------------------------------------------------------------------

static bool bind_low_rank(builder *b, low_rank *l, const char *prefix, const char *stem,
                          const char *key, int64_t out, bool bias, err *e) {
    char down[300], up[300], shift[300];
    int64_t rank = 0, cols = 0, said = 0;
    snprintf(down, sizeof down, "%s.%s_lora.lora.0.weight", prefix, stem);
    snprintf(up, sizeof up, "%s.%s_lora.lora.2.weight", prefix, stem);
    snprintf(shift, sizeof shift, "%s.%s_lora.lora.2.bias", prefix, stem);
    build_shape(b, down, &rank, &cols);
    rank = rank ? rank : 1; // absent: reported as missing below
    if (!build_weight(b, &l->down, rank, b->m->info.D, down, e) ||
        !build_weight(b, &l->up, out, rank, up, e) ||
        (bias && !build_weight(b, &l->bias, 1, out, shift, e)) ||
        !config_int_or(b->cfg, key, 1, 1 << 24, rank, &said, e))
        return false;
    return said == rank || !build_has(b, "%s", down) ||
           build_note(b, e, "%s is %lld in the config; the tensors have rank %lld and count", key,
                      (long long)said, (long long)rank);
}

// Six tensors, or the rows r, w, k, v, a, g of the older x_x (fault B20).
static bool bind_mixes(rwkv7 *d, builder *b, const char *prefix, err *e) {
    static const char *const names[MIXES] = {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"};
    char old[300], name[300];
    int64_t D = b->m->info.D;
    build_name(old, sizeof old, prefix, "x_x");
    bool joined = build_has(b, "%s", old) && !build_has(b, "%s.x_r", prefix);
    if (joined &&
        !build_note(b, e, "older names: x_x holds the token-shift weights r, w, k, v, a, g"))
        return false;
    for (int i = 0; i < MIXES; i++) {
        build_name(name, sizeof name, prefix, names[i]);
        if (joined ? !build_rows(b, &d->mu[i], i, 1, MIXES, D, old, e)
                   : !build_weight(b, &d->mu[i], 1, D, name, e))
            return false;
    }
    return true;
}

// value_dim: one number, or one per layer; silent: hidden_size.
static bool value_dim(builder *b, int64_t *out, err *e) {
    json_t *v = config_json(b->cfg, "value_dim");
    if (!json_is_array(v))
        return config_int_or(b->cfg, "value_dim", 1, 1 << 24, b->m->info.D, out, e);
    json_t *mine = json_array_get(v, (size_t)b->layer);
    if (!json_is_integer(mine) || json_integer_value(mine) < 1 ||
        json_integer_value(mine) > 1 << 24)
        return err_set(e, ERR_INPUT, "%s: value_dim lists no size for layer %d",
                       config_path(b->cfg), b->layer);
    *out = json_integer_value(mine);
    return true;
}

// head_dim rules; num_heads counts only where there is no head_dim, and may be null (fault B25).
static bool sizes(builder *b, head_shape *s, err *e) {
    int64_t K = 0, H = 0, V = 0, D = b->m->info.D;
    if (!config_int_or(b->cfg, "num_heads", 1, 65536, 0, &H, e) ||
        !config_int_or(b->cfg, "head_dim", 1, 65536, H ? D / H : 64, &K, e) || !value_dim(b, &V, e))
        return false;
    if (K < 1 || D % K != 0 || (H && H != D / K))
        return err_set(e, ERR_INPUT,
                       "%s: head_dim %lld and num_heads %lld do not fit hidden_size %lld",
                       config_path(b->cfg), (long long)K, (long long)H, (long long)D);
    H = D / K;
    if (V % H != 0)
        return err_set(e, ERR_INPUT, "%s: value_dim %lld does not divide among %lld heads",
                       config_path(b->cfg), (long long)V, (long long)H);
    *s = (head_shape){.H = (int)H,
                      .Hk = (int)H,
                      .K = (int)K,
                      .V = (int)(V / H),
                      .n_h = 1,
                      .decay = DECAY_CHANNEL,
                      .erase = ERASE_PAIR,
                      .scale = 1};
    return true;
}

// Layer 0 has no earlier values to mix in: a v_lora of its own is dead (fault B106).
static bool bind_first_values(rwkv7 *d, builder *b, const char *prefix, int64_t nv, err *e) {
    static const char *const parts[] = {"0.weight", "2.weight", "2.bias"};
    const char *why = "layer 0 has no earlier values to mix in";
    if (b->layer == 0) {
        for (int i = 0; i < 3; i++) {
            char name[300];
            snprintf(name, sizeof name, "%s.v_lora.lora.%s", prefix, parts[i]);
            build_dead(b, why, name);
        }
        return true;
    }
    const module *first = b->m->layers[0].branch[0].body;
    if (!first->linear || first->heads.H * first->heads.V != nv)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: layer %d mixes in the values of layer 0, which has none of that size",
                       config_path(b->cfg), b->layer);
    return bind_low_rank(b, &d->vf, prefix, "v", "v_low_rank_dim", nv, true, e);
}

static bool rwkv7_bind(rwkv7 *d, builder *b, const char *prefix, err *e) {
    head_shape s;
    bool fused = true;
    if (!sizes(b, &s, e) || !config_bool_or(b->cfg, "fuse_norm", true, &fused, e))
        return false;
    int64_t D = b->m->info.D, nk = (int64_t)s.H * s.K, nv = (int64_t)s.H * s.V;
    d->base.linear = true;
    d->base.heads = s;
    d->base.state_carry = module_state(&d->base, "state", nk, s.V);
    d->before = module_carry(&d->base, "token before", 1, D);
    d->kappa_norm = fused ? HEAD_NORM_L2 : HEAD_NORM_L2_FLOOR;
    d->kappa_eps = fused ? 1e-6 : 1e-12;
    d->norm_eps = s.K * b->m->info.norm_eps;
    struct {
        const char *name;
        mat *w;
        int64_t rows, cols;
    } part[] = {
        {"r_proj.weight", &d->r, nk, D},
        {"k_proj.weight", &d->k, nk, D},
        {"v_proj.weight", &d->v, nv, D},
        {"o_proj.weight", &d->o, D, nv},
        {"k_k", &d->k_k, 1, nk},
        {"k_a", &d->k_a, 1, nk},
        {"g_norm.weight", &d->norm, 1, nv},
        {"g_norm.bias", &d->norm_bias, 1, nv},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[300];
        if (!build_weight(b, part[i].w, part[i].rows, part[i].cols,
                          build_name(name, sizeof name, prefix, part[i].name), e))
            return false;
    }
    char name[300];
    if (!build_weight(b, &d->r_k, s.H, s.K, build_name(name, sizeof name, prefix, "r_k"), e))
        return false;
    if (b->be)
        d->r_k = mat_reshape(d->r_k, 1, nk);
    return bind_mixes(d, b, prefix, e) &&
           bind_low_rank(b, &d->w, prefix, "w", "decay_low_rank_dim", nk, true, e) &&
           bind_low_rank(b, &d->a, prefix, "a", "a_low_rank_dim", nk, true, e) &&
           bind_low_rank(b, &d->g, prefix, "g", "gate_low_rank_dim", nv, false, e) &&
           bind_first_values(d, b, prefix, nv, e);
}

static module *rwkv7_new(builder *b, const char *prefix, err *e) {
    rwkv7 *d = mem_zalloc(1, sizeof *d, "an RWKV-7 layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = "RWKV-7 time mix", .run = rwkv7_run, .free = rwkv7_free};
    if (!rwkv7_bind(d, b, prefix, e)) {
        rwkv7_free(&d->base, b->be);
        return NULL;
    }
    return &d->base;
}

// RWKV-5 and -6, and the native names of RWKV-7, told by tensors that only one of them has (fault
// B107).
static bool refuse_relatives(builder *b, err *e) {
    static const struct {
        const char *part, *what;
    } mark[] = {
        {"time_maa_", "RWKV-6"},
        {".x_proj.", "RWKV-6 in FLA's layout"},
        {"time_mix_r", "RWKV-5 or older"},
        {"time_mix_k", "RWKV-5 or older"},
        {"time_faaaa", "RWKV-5 or RWKV-6"},
        {"time_first", "RWKV-4 or RWKV-5"},
        {".att.r_k", "RWKV-7 under its native names; convert it to FLA's layout"},
    };
    for (size_t m = 0; m < sizeof mark / sizeof *mark; m++)
        for (int64_t i = 0; i < ckpt_count(b->ck); i++)
            if (strstr(ckpt_at(b->ck, i)->name, mark[m].part))
                return err_set(e, ERR_UNSUPPORTED,
                               "%s says model_type \"%s\", but tensor %s belongs to %s",
                               config_path(b->cfg), b->m->info.family,
                               text_show(ckpt_at(b->ck, i)->name), mark[m].what);
    return true;
}

static bool rwkv7_build(builder *b, err *e) {
    fla_layout how = {.mixer = rwkv7_new,
                      .ffn = rwkv7_ffn_new,
                      .ffn_name = "ffn",
                      .norm = NORM_LAYER,
                      .norm_bias = true,
                      .eps = 1e-5};
    bool first = false;
    if (!refuse_relatives(b, e) || !config_bool_or(b->cfg, "norm_bias", true, &how.norm_bias, e) ||
        !build_switch(b, "norm_first", NULL, "model.layers.0.pre_norm.weight", &first, e))
        return false;
    // The norm in front of layer 0 replaces the embedding in the residual stream.
    if (first &&
        !build_norm(b, &b->m->embed_norm, NORM_LAYER, how.norm_bias, "model.layers.0.pre_norm", e))
        return false;
    return fla_build_layout(b, &how, e);
}

const family family_rwkv7 = {
    .names = {"rwkv7", "rwkv7_fla"},
    .summary = "RWKV-7: decay per channel, erases along one key and writes another",
    .build = rwkv7_build,
};
