// Gated DeltaNet as its authors trained it: lit-gpt's names, NVlabs' layer (model_type "hf_gpt").
//
//     x <- x + mixer(norm_1(x));  x <- x + w3 (silu(w1 n) * w2 n), n = norm_2(x)
//
// The mixer of every gated_delta_per_layer-th layer, from layer 0 on, is the gated delta rule (R07),
// others are softmax attention with one fused matrix, mostly over a sliding window:
//
//     q, k, v = silu(conv(W x));  beta = sigmoid(b_proj x + bias);  alpha as in FLA from gk_proj,
//                                 A_log, dt_bias, or sigmoid(gk_proj x + bias)^(1/16)
//     qk_norm  l2        q and k of length 1
//              longhorn  k as it is, beta / (1 + beta k.k) for beta (R11)
//              softmax   of the numbers of every head of q and k, which get no silu before
//     o = read-out / sqrt(K) (+ D v);  y = o_proj (rms_norm(o) silu(g_proj x))
//
// KNOWN, from the authors' training code: all of the above, names and shapes, the padded vocabulary
// (the loss runs over its extra rows, too), the tied head (mamba_init), the output norm's eps of 1e-5
// whatever norm_eps says, rotary base 10000 over the front rotary_percentage of a head, halves against
// each other, a window that counts the token itself.
// GUESSED: that a config in Hugging Face's form keeps lit-gpt's keys; the prefix "model." before the
// names; that the layer's own options (qk_norm, use_residual, use_input_gate, gate_logit_normalizer,
// gate_fn), which the training code never sets, stand in the config under those names. Head counts and
// sizes come from the shapes: configs of published uploads carry keys of another layer class there.
// No reference losses exist for this layout. The authors round the tables of cos and sin to bfloat16;
// that is not imitated.
// What the code leaves open or cannot run is refused by name: Mamba blocks, RetNet and GLA layers,
// convolutions inside attention, value heads that are shared, MLPs other than LLaMAMLP.
#include "core/families/fla.h"
#include "core/families/fla_group.h"
#include "core/families/hf.h"
#include "core/forward.h"
#include "core/mem.h"
#include "core/modules/mlp.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The gated delta rule ---------------------------------------------------------------------------

typedef enum { QK_L2, QK_LONGHORN, QK_SOFTMAX } qk_kind;

typedef struct lit_delta {
    module base;
    fla_heads h;        // without its b: beta has a bias here
    mat b, b_bias;      // [H, D], [1, H]
    mat gk, gk_bias;    // [H, D], [1, H] (only without A_log)
    mat a_log, dt_bias; // [1, H] or none
    mat skip;           // D: [1, H] or none
    mat unit;           // [K, K], for the softmax
    qk_kind kind;
    double divisor; // of the log decay without A_log
    bool input_gate;
} lit_delta;

static void delta_free(module *base, backend *be) {
    lit_delta *d = (lit_delta *)base;
    mat all[] = {d->b, d->b_bias, d->gk, d->gk_bias, d->a_log, d->dt_bias, d->skip, d->unit};
    for (size_t i = 0; be && i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    fla_heads_free(&d->h, be);
    free(d);
}

// Softmax inside every head of x [T, H K]: one query that sees K keys and values, all of them unit
// vectors, is attended to by as many heads as there are tokens times heads.
static mat softmax_heads(const lit_delta *d, fwd *f, mat x) {
    int64_t K = d->unit.rows, T = x.rows, n = x.cols;
    mat y = fwd_tmp(f, T, n);
    if (mat_none(y))
        return y;
    f->be->op->activate(f->be, x, ACT_NONE, sqrt((double)K)); // attention divides by it
    f->be->op->attention(f->be, mat_reshape(x, 1, T * n), d->unit, d->unit, K, K - 1, 0,
                         mat_reshape(y, 1, T * n));
    return y;
}

// q and k made what qk_norm says, or beta made Longhorn's. False: the failure is in the backend.
static bool norm_keys(const lit_delta *d, fwd *f, steps *s) {
    const backend_ops *op = f->be->op;
    if (d->kind == QK_SOFTMAX) {
        s->q = softmax_heads(d, f, s->q);
        s->k = softmax_heads(d, f, s->k);
        return !mat_none(s->q) && !mat_none(s->k);
    }
    if (d->kind == QK_L2) // done behind the convolution
        return true;
    mat square = fwd_tmp_exact(f, s->T, s->s.H);
    if (mat_none(square))
        return false;
    op->dot_heads(f->be, s->k, s->k, MAT_NONE, s->s.K, square);
    op->multiply(f->be, s->beta, ACT_NONE, square);
    op->divide_heads(f->be, square, 1, 1, s->beta); // beta / (beta k.k + 1)
    return true;
}

// v <- (1 - alpha) v
static bool gate_values(fwd *f, steps *s) {
    mat gone = fwd_tmp_exact(f, s->T, s->s.H), v = fwd_tmp(f, s->T, s->v.cols);
    if (mat_none(gone) || mat_none(v))
        return false;
    f->be->op->copy(f->be, s->decay, gone);
    f->be->op->activate(f->be, gone, ACT_ONE_MINUS_EXP, 1);
    f->be->op->scale_heads(f->be, s->v, gone, 1, s->s.V, v);
    s->v = v;
    return true;
}

static void delta_run(module *base, fwd *f, mat x, mat y) {
    lit_delta *d = (lit_delta *)base;
    const backend_ops *op = f->be->op;
    steps s;
    fla_qk qk = d->kind == QK_L2        ? FLA_QK_L2
                : d->kind == QK_SOFTMAX ? (fla_qk){.act = ACT_NONE}
                                        : FLA_QK_PLAIN;
    fla_heads_steps(&d->h, base, f, x, qk, &s);
    s.beta = fwd_linear_exact(f, x, d->b, d->b_bias);
    s.decay = fwd_linear_exact(f, x, d->gk, d->gk_bias);
    if (mat_none(s.q) || mat_none(s.beta) || mat_none(s.decay))
        return;
    op->activate(f->be, s.beta, ACT_SIGMOID, 1);
    if (mat_none(d->a_log))
        op->log_forget(f->be, s.decay, MAT_NONE, d->divisor, -INFINITY);
    else
        op->log_decay(f->be, s.decay, d->a_log, d->dt_bias, NAN);
    if (!norm_keys(d, f, &s) || (d->input_gate && !gate_values(f, &s)))
        return;
    mat o = fwd_recur(f, base, &s);
    if (mat_none(o) || f->fail.code != ERR_NONE)
        return;
    if (!mat_none(d->skip)) {
        mat more = fwd_tmp(f, o.rows, o.cols);
        if (mat_none(more))
            return;
        op->scale_heads(f->be, s.v, d->skip, 1, s.s.V, more);
        op->add(f->be, more, 1, o);
    }
    fla_heads_output_x(&d->h, base, f, o, x, y);
}

// Rows of PREFIX.NAME, or what the code's default makes of them.
static int64_t rows_of(builder *b, const char *prefix, const char *name, int64_t otherwise) {
    char full[300];
    int64_t rows = 0, cols = 0;
    build_shape(b, build_name(full, sizeof full, prefix, name), &rows, &cols);
    return rows ? rows : otherwise;
}

static bool delta_sizes(builder *b, const char *prefix, head_shape *s, fla_options *opt, err *e) {
    char name[300];
    int64_t D = b->m->info.D, H = rows_of(b, prefix, "b_proj.weight", 9);
    int64_t nk = rows_of(b, prefix, "q_proj.weight", D * 3 / 4);
    int64_t nv = rows_of(b, prefix, "g_proj.weight", D * 3 / 2);
    if (rows_of(b, prefix, "v_proj.weight", nv) != nv)
        return err_set(e, ERR_UNSUPPORTED,
                       "%s.v_proj.weight has other rows than g_proj.weight: heads that share keys "
                       "and values (num_kv_heads) are not known here (%s)",
                       prefix, b->family);
    if (H > 65536 || nk % H != 0 || nv % H != 0 || nk == 0 || nv == 0)
        return err_set(
            e, ERR_INPUT,
            "%s: %lld heads (b_proj) do not share %lld rows of q_proj and %lld of g_proj "
            "evenly",
            prefix, (long long)H, (long long)nk, (long long)nv);
    const tensor *conv = ckpt_get(b->ck, build_name(name, sizeof name, prefix, "q_conv1d.weight"));
    opt->conv = opt->gate = true;
    opt->width = conv ? conv->dims[conv->rank - 1] : 4;
    *s = (head_shape){.H = (int)H,
                      .Hk = (int)H,
                      .K = (int)(nk / H),
                      .V = (int)(nv / H),
                      .n_h = 1,
                      .decay = DECAY_HEAD,
                      .erase = ERASE_KEY,
                      .beta_max = 1};
    s->scale = 1 / sqrt((double)s->K);
    return true;
}

static bool qk_norm(builder *b, qk_kind *kind, err *e) {
    static const char *const known[] = {"l2", "longhorn", "softmax"}; // in the order of qk_kind
    const char *name = NULL;
    if (!config_text_or(b->cfg, "qk_norm", "l2", &name, e))
        return false;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, known[i]) == 0)
            return *kind = (qk_kind)i, true;
    return err_set(e, ERR_UNSUPPORTED,
                   "%s: qk_norm \"%s\" is not known here (l2, longhorn and softmax are)",
                   config_path(b->cfg), text_show(name));
}

static bool bind_conv(builder *b, const char *prefix, char which, int64_t rows, int64_t width,
                      mat *w, mat *bias, err *e) {
    char name[300];
    snprintf(name, sizeof name, "%s.%c_conv1d.weight", prefix, which);
    if (!build_weight(b, w, rows, width, name, e))
        return false;
    snprintf(name, sizeof name, "%s.%c_conv1d.bias", prefix, which);
    return !build_has(b, "%s", name) || build_weight(b, bias, 1, rows, name, e);
}

// The norm that a SiLU gate is fused with, or a norm and the gate that gate_fn names.
static bool bind_output(lit_delta *d, builder *b, const char *prefix, const head_shape *s, err *e) {
    char name[300];
    int64_t D = b->m->info.D, nv = (int64_t)s->H * s->V;
    build_name(name, sizeof name, prefix, "g_norm.weight");
    bool apart = build_has(b, "%s", name);
    if (!fla_activation(b, "gate_fn", "swish", &d->h.gate_act, e))
        return false;
    if (!apart && d->h.gate_act == ACT_SILU)
        build_name(name, sizeof name, prefix, "g_norm_swish_gate.weight");
    return build_weight(b, &d->h.o_norm, 1, s->V, name, e) &&
           build_weight(b, &d->h.g, nv, D, build_name(name, sizeof name, prefix, "g_proj.weight"),
                        e) &&
           build_weight(b, &d->h.o, D, nv, build_name(name, sizeof name, prefix, "o_proj.weight"),
                        e);
}

static bool bind_decay(lit_delta *d, builder *b, const char *prefix, int64_t H, err *e) {
    char name[300];
    bool mamba = false;
    if (!build_weight(b, &d->gk, H, b->m->info.D,
                      build_name(name, sizeof name, prefix, "gk_proj.weight"), e) ||
        !build_switch(b, "use_mamba_gate", NULL, build_name(name, sizeof name, prefix, "A_log"),
                      &mamba, e))
        return false;
    if (mamba)
        return build_weight(b, &d->a_log, 1, H, name, e) &&
               build_weight(b, &d->dt_bias, 1, H, build_name(name, sizeof name, prefix, "dt_bias"),
                            e);
    if (!config_real_or(b->cfg, "gate_logit_normalizer", 16, &d->divisor, e))
        return false;
    if (!(d->divisor > 0))
        return err_set(e, ERR_INPUT, "%s: gate_logit_normalizer %g is not positive",
                       config_path(b->cfg), d->divisor);
    return build_weight(b, &d->gk_bias, 1, H, build_name(name, sizeof name, prefix, "gk_proj.bias"),
                        e);
}

// D is in every file with A_log, but takes part only with use_residual.
static bool bind_skip(lit_delta *d, builder *b, const char *prefix, int64_t H, err *e) {
    char name[300];
    bool residual = false;
    if (!config_bool_or(b->cfg, "use_residual", false, &residual, e) ||
        !config_bool_or(b->cfg, "use_input_gate", false, &d->input_gate, e))
        return false;
    build_name(name, sizeof name, prefix, "D");
    if (residual)
        return build_weight(b, &d->skip, 1, H, name, e);
    build_dead(b, "without use_residual D has no part in the output", name);
    return true;
}

static bool bind_unit(lit_delta *d, builder *b, int64_t K, err *e) {
    if (d->kind != QK_SOFTMAX || !b->be)
        return true;
    double *v = mem_zalloc((size_t)K * (size_t)K, sizeof *v, "unit vectors", e);
    if (!v)
        return false;
    for (int64_t i = 0; i < K; i++)
        v[i * K + i] = 1;
    bool ok = build_constant(b, &d->unit, K, K, v, e);
    free(v);
    return ok;
}

static bool bind_delta(lit_delta *d, builder *b, const char *prefix, const head_shape *s,
                       int64_t width, err *e) {
    char name[300];
    int64_t D = b->m->info.D, nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V;
    head_shape without_beta = *s;
    without_beta.beta_max = 0;
    return fla_heads_project(&d->h, b, prefix, &without_beta, e) &&
           build_weight(b, &d->b, s->H, D, build_name(name, sizeof name, prefix, "b_proj.weight"),
                        e) &&
           build_weight(b, &d->b_bias, 1, s->H,
                        build_name(name, sizeof name, prefix, "b_proj.bias"), e) &&
           bind_conv(b, prefix, 'q', nk, width, &d->h.q_conv, &d->h.q_conv_b, e) &&
           bind_conv(b, prefix, 'k', nk, width, &d->h.k_conv, &d->h.k_conv_b, e) &&
           bind_conv(b, prefix, 'v', nv, width, &d->h.v_conv, &d->h.v_conv_b, e) &&
           bind_decay(d, b, prefix, s->H, e) && bind_skip(d, b, prefix, s->H, e) &&
           bind_output(d, b, prefix, s, e) && bind_unit(d, b, s->K, e);
}

static module *delta_new(builder *b, const char *prefix, err *e) {
    static const char *const kinds[] = {"gated delta rule",
                                        "gated delta rule with Longhorn's write strength",
                                        "gated delta rule with softmax keys"};
    head_shape s;
    fla_options opt = {0};
    qk_kind kind = QK_L2;
    if (!delta_sizes(b, prefix, &s, &opt, e) || !qk_norm(b, &kind, e))
        return NULL;
    lit_delta *d = mem_zalloc(1, sizeof *d, "a gated delta rule layer", e);
    if (!d)
        return NULL;
    d->base = (module){.kind = kinds[kind], .run = delta_run, .free = delta_free};
    d->kind = kind;
    fla_heads_declare(&d->h, &d->base, &s, &opt, 1e-5);
    if (bind_delta(d, b, prefix, &s, opt.width, e))
        return &d->base;
    delta_free(&d->base, b->be);
    return NULL;
}

// Attention --------------------------------------------------------------------------------------

static module *attention_make(builder *b, const char *prefix, bool bias, err *e) {
    attention_spec s = {.fused = "attn", .out = "proj", .qkv_bias = bias, .o_bias = bias};
    int64_t D = b->m->info.D, window = 0, full = 0;
    double part = 0;
    bool unturned = false;
    if (!config_int(b->cfg, "n_head", 1, 65536, &s.heads, e) ||
        !config_int_or(b->cfg, "n_query_groups", 1, 65536, s.heads, &s.kv_heads, e) ||
        !config_int(b->cfg, "local_window", -1, INT32_MAX, &window, e) ||
        !config_int_or(b->cfg, "full_per_layer", 1, INT32_MAX, 1000000, &full, e) ||
        !config_bool_or(b->cfg, "nope", false, &unturned, e) ||
        !config_real_or(b->cfg, "rotary_percentage", -1, &part, e))
        return NULL;
    if (D % s.heads != 0 || s.heads % s.kv_heads != 0) {
        err_set(e, ERR_INPUT,
                "%s: n_embd %lld, n_head %lld and n_query_groups %lld do not divide one another",
                config_path(b->cfg), (long long)D, (long long)s.heads, (long long)s.kv_heads);
        return NULL;
    }
    // The training code's default is a quarter, all its published settings say 1: none is assumed.
    if (!unturned && !(part >= 0 && part <= 1)) {
        err_set(e, ERR_INPUT, "%s: rotary_percentage is missing, or not between 0 and 1",
                config_path(b->cfg));
        return NULL;
    }
    s.head_dim = D / s.heads;
    s.turned = unturned ? 0 : (int64_t)(part * (double)s.head_dim);
    if (s.turned % 2 != 0) {
        err_set(e, ERR_UNSUPPORTED,
                "%s: rotary_percentage %g turns %lld numbers of a head: an odd number has no pairs "
                "(%s)",
                config_path(b->cfg), part, (long long)s.turned, b->family);
        return NULL;
    }
    s.rope_base = s.turned > 0 ? 10000 : 0;
    // The last of every full_per_layer layers sees everything.
    s.window = b->layer % full < full - 1 && window > 0 ? window : 0;
    return attention_new(b, prefix, &s, e);
}

// The model --------------------------------------------------------------------------------------

enum { AS_FILED = -2 };

typedef struct lit {
    const char *root; // "" or "model."
    int64_t every;    // gated_delta_per_layer; below 1: no layer, AS_FILED: as the names say
    bool bias, mlp, parallel;
    int64_t width; // of the MLP
    norm_kind norm;
} lit;

// Kinds of layers that the training code names and does not hold.
static bool refuse_others(builder *b, err *e) {
    static const char *const flags[] = {"mamba", "sc_attn", "condense_ratio", NULL};
    static const char *const layers[] = {"mb_per_layer", "ret_per_layer", "gla_per_layer"};
    // Without effect outside of Mamba blocks, or on names and training only.
    static const char *const known[] = {"rms_norm", "residual_in_fp32", "fused_add_norm", "name",
                                        "org"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        (void)config_has(b->cfg, known[i]);
    if (!hf_refuse(b, flags, e))
        return false;
    for (int i = 0; i < 3; i++) {
        int64_t n = -1;
        if (!config_int_or(b->cfg, layers[i], -1, INT32_MAX, -1, &n, e))
            return false;
        if (n > 0)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: %s is %lld, and such layers are not known here "
                           "(%s)",
                           config_path(b->cfg), layers[i], (long long)n, b->family);
    }
    if (config_has(b->cfg, "attn_layer_pos"))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: attn_layer_pos is set, and that is not known here (%s)",
                       config_path(b->cfg), b->family);
    return true;
}

// n_embd and padded_vocab_size may be null (fault B24): the embedding knows them.
static bool fill_sizes(builder *b, const char *embed, err *e) {
    model_info *i = &b->m->info;
    int64_t rows = 0, cols = 0, vocab = 0, multiple = 0;
    build_shape(b, embed, &rows, &cols);
    if (i->D == 0) {
        i->D = cols;
        if (cols == 0)
            return err_set(e, ERR_INPUT,
                           "%s: neither n_embd nor hidden_size says how wide the model is, and "
                           "there is no %s to take it from",
                           config_path(b->cfg), embed);
        if (!build_note(b, e, "the config names no width: %lld, from %s", (long long)cols, embed))
            return false;
    }
    if (!config_int_or(b->cfg, "vocab_size", 1, INT32_MAX, 0, &vocab, e) ||
        !config_int_or(b->cfg, "padding_multiple", 1, INT32_MAX, 0, &multiple, e))
        return false;
    if (i->n_vocab == 0)
        i->n_vocab = vocab && multiple ? (vocab + multiple - 1) / multiple * multiple
                     : rows            ? rows
                                       : vocab;
    if (i->n_vocab > 0 && i->n_vocab >= vocab)
        return true;
    return err_set(e, ERR_INPUT, "%s: vocab_size %lld, but %lld rows of the embedding",
                   config_path(b->cfg), (long long)vocab, (long long)i->n_vocab);
}

// A class name among those that the training code holds; NULL: the config is silent.
static bool class_name(builder *b, const char *key, const char *const *known, const char **name,
                       err *e) {
    if (!config_text_or(b->cfg, key, NULL, name, e))
        return false;
    for (; *name && *known; known++)
        if (strcmp(*known, *name) == 0)
            return true;
    return !*name || err_set(e, ERR_UNSUPPORTED, "%s: %s \"%s\" is not known here (%s)",
                             config_path(b->cfg), key, text_show(*name), b->family);
}

static bool read_settings(builder *b, lit *x, err *e) {
    static const char *const norms[] = {"FusedRMSNorm", "RMSNorm", "LayerNorm", NULL};
    static const char *const mlps[] = {"LLaMAMLP", NULL};
    const char *norm = NULL, *mlp = NULL;
    char w1[300], layer[200];
    bool shared = false;
    snprintf(layer, sizeof layer, "%stransformer.h.0", x->root);
    build_name(w1, sizeof w1, layer, "mlp.swiglu.w1.weight");
    if (!class_name(b, "_norm_class", norms, &norm, e) ||
        !class_name(b, "_mlp_class", mlps, &mlp, e) || !build_eps(b, "norm_eps", 1e-5, e) ||
        !build_switch(b, "mlp", NULL, w1, &x->mlp, e) ||
        !config_int_or(b->cfg, "gated_delta_per_layer", -1, INT32_MAX, AS_FILED, &x->every, e))
        return false;
    bool layer_norm = norm ? strcmp(norm, "LayerNorm") == 0 : build_has(b, "%s.norm_1.bias", layer);
    x->norm = layer_norm ? NORM_LAYER : NORM_RMS;
    if (!config_bool_or(b->cfg, "bias", build_has(b, "%s.mlp.swiglu.w1.bias", layer), &x->bias,
                        e) ||
        !config_bool_or(b->cfg, "parallel_residual",
                        x->mlp && !build_has(b, "%s.norm_2.weight", layer), &x->parallel, e) ||
        !config_bool_or(b->cfg, "shared_attention_norm", x->parallel, &shared, e) ||
        (x->mlp && !config_int_or(b->cfg, "intermediate_size", 1, 1 << 26,
                                  rows_of(b, layer, "mlp.swiglu.w1.weight", 0), &x->width, e)))
        return false;
    if (x->parallel != shared && (x->parallel || x->mlp))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: parallel_residual and shared_attention_norm differ, and that is not "
                       "known here (%s)",
                       config_path(b->cfg), b->family);
    if (x->mlp && x->width == 0)
        return err_set(e, ERR_INPUT, "%s: no intermediate_size, and no %s to take it from",
                       config_path(b->cfg), w1);
    return true;
}

// Takes body.
static bool add_branch(builder *b, const lit *x, const char *norm_name, module *body, err *e) {
    row_norm norm = {0};
    if (!body)
        return false;
    if (!build_norm(b, &norm, x->norm, x->norm == NORM_LAYER, norm_name, e)) {
        build_norm_free(b, &norm);
        body->free(body, b->be);
        return false;
    }
    if (build_branch_norms(b, b->layer, norm, (row_norm){0}, 1, body, e))
        return true;
    build_norm_free(b, &norm);
    return false;
}

static bool build_layer(builder *b, const lit *x, err *e) {
    char layer[200], name[300];
    snprintf(layer, sizeof layer, "%stransformer.h.%d", x->root, b->layer);
    bool delta = x->every > 0           ? b->layer % x->every == 0
                 : x->every == AS_FILED ? build_has(b, "%s.attn.q_proj.weight", layer)
                                        : false;
    build_name(name, sizeof name, layer, "attn");
    module *mixer = delta ? delta_new(b, name, e) : attention_make(b, name, x->bias, e);
    if (!add_branch(b, x, build_name(name, sizeof name, layer, "norm_1"), mixer, e))
        return false;
    if (!x->mlp)
        return true;
    mlp_spec s = {.gate = "w1",
                  .up = "w2",
                  .down = "w3",
                  .width = x->width,
                  .act = ACT_SILU,
                  .bias = x->bias};
    module *mlp = mlp_make(b, build_name(name, sizeof name, layer, "mlp.swiglu"), &s, e);
    if (x->parallel)
        return mlp && build_beside(b, b->layer, 1, mlp, e);
    return add_branch(b, x, build_name(name, sizeof name, layer, "norm_2"), mlp, e);
}

// mamba_init ties the head in the training code.
static bool build_ends(builder *b, const lit *x, const char *embed, err *e) {
    char norm[64], head[64];
    model *m = b->m;
    snprintf(norm, sizeof norm, "%stransformer.ln_f", x->root);
    snprintf(head, sizeof head, "%slm_head.weight", x->root);
    if (!build_has(b, "%s", head) && build_has(b, "lm_head.weight"))
        snprintf(head, sizeof head, "lm_head.weight");
    const char *key = config_has(b->cfg, "mamba_init") ? "mamba_init" : "tie_word_embeddings";
    return build_weight(b, &m->embed, m->info.n_vocab, m->info.D, embed, e) &&
           build_norm(b, &m->norm, x->norm, x->norm == NORM_LAYER, norm, e) &&
           build_head_named(b, key, !build_has(b, "%s", head), embed, head, e);
}

static bool lit_build(builder *b, err *e) {
    char embed[64];
    lit x = {.root = build_has(b, "model.transformer.wte.weight") ? "model." : ""};
    snprintf(embed, sizeof embed, "%stransformer.wte.weight", x.root);
    if (!refuse_others(b, e) || !fill_sizes(b, embed, e) || !read_settings(b, &x, e) ||
        !build_ends(b, &x, embed, e))
        return false;
    for (b->layer = 0; b->layer < b->m->info.n_layers; b->layer++)
        if (!build_layer(b, &x, e))
            return false;
    return true;
}

// Lit-gpt's key, or Hugging Face's where that one is absent. D and n_vocab may stay 0 here.
static const char *either(const config *cfg, const char *key, const char *other) {
    return config_has(cfg, key) || !config_has(cfg, other) ? key : other;
}

static bool lit_sizes(const config *cfg, model_info *i, err *e) {
    int64_t L = 0;
    if (!config_int(cfg, either(cfg, "n_layer", "num_hidden_layers"), 1, 4096, &L, e) ||
        !config_int_or(cfg, either(cfg, "n_embd", "hidden_size"), 1, 1 << 24, 0, &i->D, e) ||
        !config_int_or(cfg, "padded_vocab_size", 1, INT32_MAX, 0, &i->n_vocab, e) ||
        !config_int_or(cfg, either(cfg, "block_size", "max_position_embeddings"), 0, INT64_MAX / 2,
                       0, &i->train_length, e))
        return false;
    i->n_layers = (int)L;
    return true;
}

static bool lit_claims(const config *cfg) {
    return config_has(cfg, "n_embd") && config_has(cfg, "n_layer") &&
           config_has(cfg, "gated_delta_per_layer");
}

const family family_lit_gpt = {
    .names = {"hf_gpt"},
    .summary = "Gated DeltaNet in lit-gpt's names, with sliding-window attention",
    .claims = lit_claims,
    .sizes = lit_sizes,
    .build = lit_build,
};
