// Gated DeltaNet in lit-gpt's names against plain loops that share no code with the program: every
// layer token by token in double, attention over stored keys. No reference dump of this layout exists.
#include "core/families/family.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/hf_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Four heads of four numbers in attention, two of three and five in the delta rule; 23 tokens padded
// to 24.
enum {
    D = 16,
    L = 4,
    H = 2,
    K = 3,
    V = 5,
    HEADS = 4,
    GROUPS = 2,
    HS = 4,
    WIDE = 10,
    N = 23,
    PAD = 24
};

typedef struct kind {
    const char *root; // before all names
    const char *qk;   // NULL: the config does not say
    const char *gate; // NULL: the fused norm with SiLU
    bool plain_gate;  // logsigmoid / 16 for A_log and dt_bias
    bool residual, input_gate, bias, layer_norm, parallel, no_mlp, untied, nope;
    int every, window, full; // 0: 2, 5, 4
    double rotary;           // 0: 0.5
    double eps;              // 0: 1e-5
} kind;

// The kind with its defaults.
static kind filled(kind k) {
    k.root = k.root ? k.root : "";
    k.every = k.every ? k.every : 2;
    k.window = k.window ? k.window : 5;
    k.full = k.full ? k.full : 4;
    k.rotary = k.rotary != 0 ? k.rotary : 0.5;
    k.eps = k.eps != 0 ? k.eps : 1e-5;
    return k;
}

static void put_norm(tiny_model *t, const kind *k, const char *name) {
    tiny_put(t, hf_name("%s.weight", name), D, 0, 1, 0.2);
    if (k->layer_norm)
        tiny_put(t, hf_name("%s.bias", name), D, 0, 0, 0.2);
}

static void put_conv(tiny_model *t, const char *name, int64_t n) {
    const int64_t dims[] = {n, 1, 4};
    tiny_tensor *w = tiny_add(t, name, 3, dims);
    for (int64_t i = 0; i < w->n; i++)
        w->v[i] = (float)(0.2 + 0.5 * tiny_normal(&t->s.seed));
}

static void put_delta(tiny_model *t, const kind *k, const char *p) {
    tiny_put(t, hf_name("%s.q_proj.weight", p), H * K, D, 0, 0.4);
    tiny_put(t, hf_name("%s.k_proj.weight", p), H * K, D, 0, 0.4);
    tiny_put(t, hf_name("%s.v_proj.weight", p), H * V, D, 0, 0.4);
    tiny_put(t, hf_name("%s.g_proj.weight", p), H * V, D, 0, 0.4);
    tiny_put(t, hf_name("%s.b_proj.weight", p), H, D, 0, 0.4);
    tiny_put(t, hf_name("%s.b_proj.bias", p), H, 0, 0.5, 0.5);
    tiny_put(t, hf_name("%s.gk_proj.weight", p), H, D, 0, 0.4);
    put_conv(t, hf_name("%s.q_conv1d.weight", p), H * K);
    put_conv(t, hf_name("%s.k_conv1d.weight", p), H * K);
    put_conv(t, hf_name("%s.v_conv1d.weight", p), H * V);
    if (k->plain_gate) {
        tiny_put(t, hf_name("%s.gk_proj.bias", p), H, 0, 0, 1);
    } else {
        tiny_put(t, hf_name("%s.A_log", p), H, 0, 0, 0.5);
        tiny_put(t, hf_name("%s.dt_bias", p), H, 0, -2, 0.5);
    }
    if (!k->plain_gate || k->residual)
        tiny_put(t, hf_name("%s.D", p), H, 0, 1, 0.5);
    tiny_put(t, hf_name("%s.%s.weight", p, k->gate ? "g_norm" : "g_norm_swish_gate"), V, 0, 1, 0.2);
    tiny_put(t, hf_name("%s.o_proj.weight", p), D, H * V, 0, 0.4);
}

static void put_attention(tiny_model *t, const kind *k, const char *p) {
    enum { ROWS = (HEADS + 2 * GROUPS) * HS };
    tiny_put(t, hf_name("%s.attn.weight", p), ROWS, D, 0, 0.5);
    tiny_put(t, hf_name("%s.proj.weight", p), D, D, 0, 0.4);
    if (k->bias) {
        tiny_put(t, hf_name("%s.attn.bias", p), ROWS, 0, 0, 0.5);
        tiny_put(t, hf_name("%s.proj.bias", p), D, 0, 0, 0.5);
    }
}

static void put_mlp(tiny_model *t, const kind *k, const char *p) {
    for (int i = 1; i <= 3; i++) {
        tiny_put(t, hf_name("%s.w%d.weight", p, i), i < 3 ? WIDE : D, i < 3 ? D : WIDE, 0, 0.4);
        if (k->bias)
            tiny_put(t, hf_name("%s.w%d.bias", p, i), i < 3 ? WIDE : D, 0, 0, 0.4);
    }
}

static json_t *config_of(const kind *k) {
    // num_heads is a key of another layer class: it does not apply.
    json_t *c = json_pack(
        "{s:s, s:n, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
        "model_type", "hf_gpt", "hidden_size", "n_embd", D, "n_layer", L, "n_head", HEADS,
        "n_query_groups", GROUPS, "intermediate_size", WIDE, "vocab_size", N, "padding_multiple", 8,
        "padded_vocab_size", PAD, "block_size", 64, "gated_delta_per_layer", k->every,
        "local_window", k->window, "full_per_layer", k->full, "mb_per_layer", -1, "num_heads", 16);
    json_t *more = json_pack(
        "{s:s, s:s, s:f, s:f, s:b, s:b, s:b, s:b, s:b, s:b}", "_norm_class",
        k->layer_norm ? "LayerNorm" : "FusedRMSNorm", "_mlp_class", "LLaMAMLP", "rotary_percentage",
        k->rotary, "norm_eps", k->eps, "mamba_init", !k->untied, "bias", k->bias, "mlp", !k->no_mlp,
        "nope", k->nope, "parallel_residual", k->parallel, "shared_attention_norm", k->parallel);
    assert_true(c && more && json_object_update(c, more) == 0);
    json_decref(more);
    if (k->qk)
        json_object_set_new(c, "qk_norm", json_string(k->qk));
    if (k->gate)
        json_object_set_new(c, "gate_fn", json_string(k->gate));
    if (k->residual)
        json_object_set_new(c, "use_residual", json_true());
    if (k->input_gate)
        json_object_set_new(c, "use_input_gate", json_true());
    return c;
}

static bool is_delta(const kind *k, int layer) {
    return k->every > 0 && layer % k->every == 0;
}

static tiny_model *lit(kind given, uint64_t seed) {
    kind k = filled(given);
    tiny_model *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->s.seed = seed;
    tiny_put(t, hf_name("%stransformer.wte.weight", k.root), PAD, D, 0, 0.8);
    if (k.untied)
        tiny_put(t, hf_name("%slm_head.weight", k.root), PAD, D, 0, 0.5);
    put_norm(t, &k, hf_name("%stransformer.ln_f", k.root));
    for (int b = 0; b < L; b++) {
        const char *layer = hf_name("%stransformer.h.%d", k.root, b);
        char at[100], part[120];
        snprintf(at, sizeof at, "%s", layer);
        snprintf(part, sizeof part, "%s.norm_1", at);
        put_norm(t, &k, part);
        snprintf(part, sizeof part, "%s.attn", at);
        (is_delta(&k, b) ? put_delta : put_attention)(t, &k, part);
        if (k.no_mlp)
            continue;
        snprintf(part, sizeof part, "%s.norm_2", at);
        if (!k.parallel)
            put_norm(t, &k, part);
        snprintf(part, sizeof part, "%s.mlp.swiglu", at);
        put_mlp(t, &k, part);
    }
    t->config = config_of(&k);
    return t;
}

// Plain loops ------------------------------------------------------------------------------------

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double silu(double x) {
    return x * sigmoid(x);
}

// y = W x (+ bias) of the tensors p.name
static void times(const tiny_model *t, const char *p, const char *name, const double *x,
                  double *y) {
    const tiny_tensor *w = tiny_get(t, "%s.%s.weight", p, name);
    const tiny_tensor *bias = tiny_find(t, "%s.%s.bias", p, name);
    for (int64_t i = 0; i < w->dims[0]; i++) {
        y[i] = bias ? bias->v[i] : 0;
        for (int64_t j = 0; j < w->dims[1]; j++)
            y[i] += w->v[i * w->dims[1] + j] * x[j];
    }
}

static void rms(const double *w, const double *x, int n, double eps, double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / n + eps) * w[i];
}

static void norm(const tiny_model *t, const kind *k, const char *name, const double *x, double *y) {
    const double *w = tiny_get(t, "%s.weight", name)->v;
    double mean = 0, var = 0;
    if (!k->layer_norm) {
        rms(w, x, D, k->eps, y);
        return;
    }
    const double *bias = tiny_get(t, "%s.bias", name)->v;
    for (int i = 0; i < D; i++)
        mean += x[i] / D;
    for (int i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / D;
    for (int i = 0; i < D; i++)
        y[i] = (x[i] - mean) / sqrt(var + k->eps) * w[i] + bias[i];
}

// Causal convolution over raw[0..i], newest last; SiLU unless bare.
static void convolve(const tiny_model *t, const char *p, char which, double (*raw)[H * V], int i,
                     int n, bool bare, double *y) {
    const double *w = tiny_get(t, "%s.%c_conv1d.weight", p, which)->v;
    for (int c = 0; c < n; c++) {
        y[c] = 0;
        for (int j = 0; j < 4; j++)
            if (i - 3 + j >= 0)
                y[c] += w[c * 4 + j] * raw[i - 3 + j][c];
        y[c] = bare ? y[c] : silu(y[c]);
    }
}

static double largest; // number that a softmax was taken of

// What qk_norm makes of one head; returns k.k before.
static double scale_head(const char *qk, double *x) {
    double square = 0, sum = 0;
    for (int i = 0; i < K; i++) {
        square += x[i] * x[i];
        sum += exp(x[i]);
        largest = fmax(largest, x[i]);
    }
    for (int i = 0; i < K; i++)
        x[i] = strcmp(qk, "softmax") == 0 ? exp(x[i]) / sum
               : strcmp(qk, "l2") == 0    ? x[i] / sqrt(square + 1e-6)
                                          : x[i];
    return square;
}

static void delta(const tiny_model *t, const kind *k, const char *p, double (*x)[D],
                  double (*out)[D]) {
    static double qr[HF_T][H * V], kr[HF_T][H * V], vr[HF_T][H * V];
    double S[H][K][V] = {0};
    const char *qk = k->qk ? k->qk : "l2";
    bool bare = strcmp(qk, "softmax") == 0;
    for (int i = 0; i < HF_T; i++) {
        double q[H * K], key[H * K], v[H * V], g[H * V], b[H], gk[H], o[H * V];
        times(t, p, "q_proj", x[i], qr[i]);
        times(t, p, "k_proj", x[i], kr[i]);
        times(t, p, "v_proj", x[i], vr[i]);
        times(t, p, "g_proj", x[i], g);
        times(t, p, "b_proj", x[i], b);
        times(t, p, "gk_proj", x[i], gk);
        convolve(t, p, 'q', qr, i, H * K, bare, q);
        convolve(t, p, 'k', kr, i, H * K, bare, key);
        convolve(t, p, 'v', vr, i, H * V, false, v);
        for (int h = 0; h < H; h++) {
            double alpha, beta = sigmoid(b[h]);
            if (k->plain_gate)
                alpha = pow(sigmoid(gk[h]), 1.0 / 16);
            else
                alpha = exp(-exp(tiny_get(t, "%s.A_log", p)->v[h]) *
                            log(1 + exp(gk[h] + tiny_get(t, "%s.dt_bias", p)->v[h])));
            scale_head(qk, q + h * K);
            double square = scale_head(qk, key + h * K);
            if (strcmp(qk, "longhorn") == 0)
                beta = beta / (1 + beta * square);
            for (int c = 0; c < V; c++) {
                double *value = &v[h * V + c], seen = 0, read = 0;
                if (k->input_gate)
                    *value *= 1 - alpha;
                for (int a = 0; a < K; a++) {
                    S[h][a][c] *= alpha;
                    seen += key[h * K + a] * S[h][a][c];
                }
                for (int a = 0; a < K; a++) {
                    S[h][a][c] += beta * key[h * K + a] * (*value - seen);
                    read += q[h * K + a] * S[h][a][c];
                }
                o[h * V + c] = read / sqrt(K);
                if (k->residual)
                    o[h * V + c] += tiny_get(t, "%s.D", p)->v[h] * *value;
            }
            // 1e-5 whatever norm_eps says
            rms(tiny_get(t, "%s.%s.weight", p, k->gate ? "g_norm" : "g_norm_swish_gate")->v,
                o + h * V, V, 1e-5, o + h * V);
        }
        bool soft = k->gate && strcmp(k->gate, "sigmoid") == 0;
        for (int c = 0; c < H * V; c++)
            o[c] *= soft ? sigmoid(g[c]) : silu(g[c]);
        times(t, p, "o_proj", o, out[i]);
    }
}

static void turn(double *x, int position, int turned) {
    for (int i = 0; i < turned / 2; i++) {
        double a = x[i], b = x[i + turned / 2];
        double angle = position / pow(10000, 2.0 * i / turned);
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + turned / 2] = b * cos(angle) + a * sin(angle);
    }
}

static void attention(const tiny_model *t, const kind *k, const char *p, int layer, double (*x)[D],
                      double (*out)[D]) {
    enum { EACH = HEADS / GROUPS, ROWS = (HEADS + 2 * GROUPS) * HS };
    static double r[HF_T][ROWS];
    int turned = k->nope ? 0 : (int)(k->rotary * HS);
    bool full = k->window <= 0 || layer % k->full >= k->full - 1;
    for (int i = 0; i < HF_T; i++) {
        double o[D];
        times(t, p, "attn", x[i], r[i]);
        for (int g = 0; g < GROUPS; g++)
            for (int j = 0; j < EACH + 1; j++) // the last is the value
                turn(r[i] + (g * (EACH + 2) + j) * HS, i, turned);
        for (int h = 0; h < HEADS; h++) {
            int group = h / EACH * (EACH + 2) * HS;
            const double *q = r[i] + group + h % EACH * HS;
            double sum = 0, part[HS] = {0};
            for (int j = full || i < k->window ? 0 : i - k->window + 1; j <= i; j++) {
                const double *key = r[j] + group + EACH * HS;
                double dot = 0;
                for (int c = 0; c < HS; c++)
                    dot += q[c] * key[c];
                dot = exp(dot / sqrt(HS));
                sum += dot;
                for (int c = 0; c < HS; c++)
                    part[c] += dot * key[HS + c];
            }
            for (int c = 0; c < HS; c++)
                o[h * HS + c] = part[c] / sum;
        }
        times(t, p, "proj", o, out[i]);
    }
}

static void mlp(const tiny_model *t, const char *p, const double *x, double *y) {
    double a[WIDE], b[WIDE];
    times(t, p, "w1", x, a);
    times(t, p, "w2", x, b);
    for (int i = 0; i < WIDE; i++)
        a[i] = silu(a[i]) * b[i];
    times(t, p, "w3", a, y);
}

static void plain(const tiny_model *t, kind given, double *loss) {
    static double x[HF_T][D], n[HF_T][D], y[HF_T][D];
    kind k = filled(given);
    const tiny_tensor *embed = tiny_get(t, "%stransformer.wte.weight", k.root);
    const tiny_tensor *head = k.untied ? tiny_get(t, "%slm_head.weight", k.root) : embed;
    for (int i = 0; i < HF_T; i++)
        memcpy(x[i], embed->v + hf_ids[i] * D, sizeof x[i]);
    for (int b = 0; b < L; b++) {
        char p[120];
        for (int i = 0; i < HF_T; i++)
            norm(t, &k, hf_name("%stransformer.h.%d.norm_1", k.root, b), x[i], n[i]);
        snprintf(p, sizeof p, "%stransformer.h.%d.attn", k.root, b);
        if (is_delta(&k, b))
            delta(t, &k, p, n, y);
        else
            attention(t, &k, p, b, n, y);
        snprintf(p, sizeof p, "%stransformer.h.%d.mlp.swiglu", k.root, b);
        for (int i = 0; i < HF_T; i++) {
            double more[D] = {0};
            for (int c = 0; c < D; c++)
                x[i][c] += y[i][c];
            if (!k.no_mlp && !k.parallel)
                norm(t, &k, hf_name("%stransformer.h.%d.norm_2", k.root, b), x[i], n[i]);
            if (!k.no_mlp)
                mlp(t, p, n[i], more);
            for (int c = 0; c < D; c++)
                x[i][c] += more[c];
        }
    }
    for (int i = 0; i + 1 < HF_T; i++) {
        double last[D], sum = 0, target = 0;
        norm(t, &k, hf_name("%stransformer.ln_f", k.root), x[i], last);
        for (int c = 0; c < PAD; c++) { // the padding takes part
            double dot = 0;
            for (int j = 0; j < D; j++)
                dot += head->v[c * D + j] * last[j];
            sum += exp(dot);
            target = c == hf_ids[i + 1] ? dot : target;
        }
        loss[i] = log(sum) - target;
    }
}

// Tests ------------------------------------------------------------------------------------------

// Float64 in blocks that cut anywhere, and float32. A tiny random model may answer rounding a
// thousandfold; float64 shows how much this one does, and float32 rounds 2^29 times as far.
static void same(const char *what, const tiny_model *t, const double *want) {
    const int64_t blocks[] = {1, 7, 40};
    double got[HF_T], worst = 0;
    const char *folder = tiny_save(t, "model");
    for (int i = 0; i < 3; i++) {
        hf_read(folder, hf_ids, HF_T, PRECISION_F64, blocks[i], got);
        worst = fmax(worst, hf_away(want, got, HF_T - 1));
    }
    hf_read(folder, hf_ids, HF_T, PRECISION_F32, 16, got);
    double single = hf_away(want, got, HF_T - 1);
    print_message("measured %s: %.1e nats in float64, %.1e in float32\n", what, worst, single);
    assert_true(worst <= 1e-11);                             // 40 tokens, sums of a few hundred
    assert_true(single <= fmax(1e-4, 4 * ldexp(worst, 29))); // 1e-4: golden/README.md
}

static void agrees(const char *what, kind k, uint64_t seed) {
    double want[HF_T];
    tiny_model *t = lit(k, seed);
    plain(t, k, want);
    same(what, t, want);
    tiny_free(t);
}

static void every_norm_of_q_and_k_agrees_with_plain_loops_R07_R11(void **state) {
    (void)state;
    agrees("qk_norm absent", (kind){0}, 1);
    agrees("qk_norm l2", (kind){.qk = "l2"}, 2);
    agrees("qk_norm longhorn", (kind){.qk = "longhorn"}, 3);
    agrees("qk_norm softmax", (kind){.qk = "softmax"}, 4);
}

static void options_of_the_layer_agree_with_plain_loops(void **state) {
    (void)state;
    agrees("use_residual", (kind){.residual = true}, 5);
    agrees("use_input_gate", (kind){.input_gate = true}, 6);
    agrees("both, with longhorn", (kind){.residual = true, .input_gate = true, .qk = "longhorn"},
           7);
    agrees("no mamba gate", (kind){.plain_gate = true}, 8);
    agrees("norm and gate apart", (kind){.gate = "swish"}, 9);
    agrees("sigmoid gate", (kind){.gate = "sigmoid"}, 10);
}

static void options_of_the_model_agree_with_plain_loops(void **state) {
    (void)state;
    agrees("prefix model.", (kind){.root = "model.", .untied = true}, 11);
    agrees("biases, LayerNorm, own head", (kind){.bias = true, .layer_norm = true, .untied = true},
           12);
    agrees("parallel residual", (kind){.parallel = true}, 13);
    agrees("no MLP", (kind){.no_mlp = true}, 14);
    agrees("all delta layers", (kind){.every = 1}, 15);
    agrees("only attention, whole heads turned", (kind){.every = -1, .rotary = 1}, 16);
    agrees("no rotation, window of one", (kind){.nope = true, .window = 1}, 17);
    agrees("window of two", (kind){.window = 2}, 18);
    agrees("no window", (kind){.window = -1}, 19);
    agrees("large eps", (kind){.eps = 1e-1}, 20);
}

static void large_numbers_do_not_overflow_the_softmax(void **state) {
    (void)state;
    kind k = {.qk = "softmax"};
    double want[HF_T], got[HF_T];
    tiny_model *t = lit(k, 21);
    for (int i = 0; i < 2; i++) {
        tiny_tensor *w = tiny_get(t, "transformer.h.%d.attn.k_conv1d.weight", 2 * i);
        for (int64_t j = 0; j < w->n; j++)
            w->v[j] = (float)(w->v[j] * 80);
    }
    largest = 0;
    plain(t, k, want);
    assert_true(largest > 90 && largest < 700); // e^90 is no float32, e^700 still a double
    hf_read(tiny_save(t, "model"), hf_ids, HF_T, PRECISION_F32, 16, got);
    print_message("measured softmax of numbers up to %.0f: %.1e in float32\n", largest,
                  hf_away(want, got, HF_T - 1));
    // In float32 a weight is right to its exponent times 6e-8.
    assert_true(hf_away(want, got, HF_T - 1) <= 1e-3);
    tiny_free(t);
}

static void steps_are_those_of_a_gated_delta_rule(void **state) {
    (void)state;
    tiny_model *t = lit((kind){.qk = "longhorn"}, 22);
    model *m = hf_inspected(t);
    for (int b = 0; b < L; b++) {
        const module *x = model_mixer(m, b);
        assert_true((x != NULL) == (b % 2 == 0));
        if (!x)
            continue;
        assert_int_equal(x->heads.erase, ERASE_KEY);
        assert_int_equal(x->heads.decay, DECAY_HEAD);
        assert_true(x->heads.H == H && x->heads.K == K && x->heads.V == V && x->heads.n_h == 1);
        assert_non_null(strstr(x->kind, "Longhorn"));
    }
    // Layer 1 slides, the last of every four sees all.
    assert_int_equal(m->layers[1].branch[0].body->window, 5);
    assert_int_equal(m->layers[3].branch[0].body->window, 0);
    assert_int_equal(m->info.train_length, 64);
    assert_int_equal(m->info.n_vocab, PAD);
    assert_true(m->info.tied);
    model_free(m);
    tiny_free(t);
}

static void b24_a_null_width_comes_from_n_embd_or_the_embedding(void **state) {
    (void)state;
    double want[HF_T], got[HF_T];
    kind k = {0};
    tiny_model *t = lit(k, 23); // hidden_size null, n_embd given
    plain(t, k, want);
    tiny_set(t, "n_embd", json_null());
    tiny_set(t, "padded_vocab_size", json_null());
    model *m = hf_inspected(t);
    assert_int_equal(m->info.D, D);
    assert_int_equal(m->info.n_vocab, PAD);
    assert_true(hf_noted(m, "names no width: 16"));
    model_free(m);
    hf_losses(t, got);
    assert_true(hf_away(want, got, HF_T - 1) <= 1e-11);
    tiny_set(t, "padding_multiple", NULL);
    tiny_set(t, "intermediate_size", json_null());
    hf_losses(t, got);
    assert_true(hf_away(want, got, HF_T - 1) <= 1e-11);
    tiny_set(t, "n_layer", json_null());
    REFUSED(t, ERR_MISSING, "n_layer");
    tiny_set(t, "n_layer", json_integer(L));
    tiny_drop(t, "transformer.wte.weight");
    REFUSED(t, ERR_INPUT, "n_embd", "transformer.wte.weight");
    tiny_free(t);
    // Widths that contradict the file.
    t = lit(k, 24);
    tiny_set(t, "n_embd", json_integer(20));
    REFUSED(t, ERR_INPUT, "transformer.wte.weight", "[24, 16]", "[24, 20]");
    tiny_set(t, "n_embd", json_integer(D));
    tiny_set(t, "vocab_size", json_integer(25));
    REFUSED(t, ERR_INPUT, "vocab_size 25");
    tiny_free(t);
}

static void layers_are_told_by_their_names_when_the_config_is_silent(void **state) {
    (void)state;
    static const char *const silent[] = {
        "gated_delta_per_layer", "_norm_class",           "_mlp_class", "bias",    "mlp",
        "parallel_residual",     "shared_attention_norm", "mamba_init", "norm_eps"};
    const kind kinds[] = {{0},
                          {.bias = true, .layer_norm = true, .untied = true},
                          {.parallel = true},
                          {.no_mlp = true}};
    for (int i = 0; i < 4; i++) {
        double want[HF_T];
        tiny_model *t = lit(kinds[i], 30 + (uint64_t)i);
        plain(t, kinds[i], want);
        for (size_t j = 0; j < sizeof silent / sizeof *silent; j++)
            tiny_set(t, silent[j], NULL);
        same("a silent config", t, want);
        tiny_free(t);
    }
}

// lit-gpt's own settings file has no model_type.
static void a_config_without_model_type_is_claimed(void **state) {
    (void)state;
    double want[HF_T];
    tiny_model *t = lit((kind){0}, 40);
    plain(t, (kind){0}, want);
    tiny_set(t, "model_type", NULL);
    hf_same(t, want);
    tiny_free(t);
}

static void dead_leftover_and_missing_tensors_are_named(void **state) {
    (void)state;
    tiny_model *t = lit((kind){.root = "model."}, 41);
    model *m = hf_inspected(t);
    assert_int_equal(m->leftover.n + m->missing.n, 0);
    assert_true(hf_noted(m, "model.transformer.h.0.attn.D"));
    model_free(m);
    tiny_put(t, "model.transformer.h.1.attn.q_norm.weight", 4, 0, 1, 0);
    tiny_put(t, "transformer.wte.weight", 4, 4, 1, 0); // of the other spelling
    tiny_drop(t, "model.transformer.h.2.attn.gk_proj.weight");
    tiny_drop(t, "model.transformer.h.3.attn.attn.weight");
    REFUSED(t, ERR_MISSING, "model.transformer.h.2.attn.gk_proj.weight", "hf_gpt, layer 2");
    m = hf_inspected(t);
    assert_int_equal(m->leftover.n, 2);
    assert_string_equal(m->leftover.v[0], "model.transformer.h.1.attn.q_norm.weight");
    assert_int_equal(m->missing.n, 2);
    assert_string_equal(m->missing.v[0], "model.transformer.h.2.attn.gk_proj.weight");
    model_free(m);
    tiny_free(t);
}

// The head outside of the prefix, as wrappers keep it, and copies of a tied one (fault B11).
static void heads_lie_under_either_name_and_must_be_what_the_config_says(void **state) {
    (void)state;
    double want[HF_T];
    kind k = {.root = "model.", .untied = true};
    tiny_model *t = lit(k, 42);
    plain(t, k, want);
    tiny_rename(t, "model.lm_head.weight", "lm_head.weight");
    hf_same(t, want);
    tiny_set(t, "mamba_init", json_true());
    REFUSED(t, ERR_INPUT, "mamba_init true", "lm_head.weight differs");
    k.untied = false;
    memcpy(tiny_get(t, "lm_head.weight")->v, tiny_get(t, "model.transformer.wte.weight")->v,
           PAD * D * sizeof(double));
    plain(t, k, want);
    hf_same(t, want);
    tiny_drop(t, "lm_head.weight");
    hf_same(t, want);
    tiny_set(t, "mamba_init", json_false());
    REFUSED(t, ERR_MISSING, "lm_head.weight");
    tiny_free(t);
}

static void what_the_code_leaves_open_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *word;
        err_code code;
    } row[] = {
        {"qk_norm", "\"sum\"", "qk_norm \"sum\"", ERR_UNSUPPORTED},
        {"qk_norm", "\"Longhorn\"", "l2, longhorn and softmax are", ERR_UNSUPPORTED},
        {"gate_fn", "\"gelu\"", "gate_fn \"gelu\"", ERR_UNSUPPORTED},
        {"mamba", "true", "mamba is set", ERR_UNSUPPORTED},
        {"sc_attn", "true", "sc_attn is set", ERR_UNSUPPORTED},
        {"condense_ratio", "2", "condense_ratio is set", ERR_UNSUPPORTED},
        {"mb_per_layer", "1", "mb_per_layer is 1", ERR_UNSUPPORTED},
        {"gla_per_layer", "2", "gla_per_layer is 2", ERR_UNSUPPORTED},
        {"ret_per_layer", "3", "ret_per_layer is 3", ERR_UNSUPPORTED},
        {"attn_layer_pos", "\"[1, 3]\"", "attn_layer_pos is set", ERR_UNSUPPORTED},
        {"_norm_class", "\"GroupNorm\"", "_norm_class \"GroupNorm\"", ERR_UNSUPPORTED},
        {"_mlp_class", "\"GptNeoxMLP\"", "_mlp_class \"GptNeoxMLP\"", ERR_UNSUPPORTED},
        {"parallel_residual", "true", "shared_attention_norm differ", ERR_UNSUPPORTED},
        {"shared_attention_norm", "true", "shared_attention_norm differ", ERR_UNSUPPORTED},
        {"rotary_percentage", "null", "rotary_percentage is missing", ERR_INPUT},
        {"rotary_percentage", "1.5", "rotary_percentage", ERR_INPUT},
        {"rotary_percentage", "0.25", "turns 1 numbers", ERR_UNSUPPORTED},
        {"local_window", "null", "local_window", ERR_MISSING},
        {"n_head", "null", "n_head", ERR_MISSING},
        {"n_head", "3", "do not divide", ERR_INPUT},
        {"n_query_groups", "3", "do not divide", ERR_INPUT},
        {"intermediate_size", "11", "mlp.swiglu.w1.weight", ERR_INPUT},
        {"use_mamba_gate", "false", "use_mamba_gate false", ERR_INPUT},
        {"mlp", "false", "mlp false", ERR_INPUT},
        {"gated_delta_per_layer", "3", "transformer.h.2.attn.attn.weight", ERR_MISSING},
        {"quantization_config", "{\"bits\": 4}", "quantised", ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tiny_model *t = lit((kind){0}, 50);
        tiny_set(t, row[i].key, json_loads(row[i].value, JSON_DECODE_ANY, NULL));
        REFUSED(t, row[i].code, row[i].word);
        tiny_free(t);
    }
}

static void sizes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    tiny_model *t = lit((kind){0}, 51);
    tiny_drop(t, "transformer.h.0.attn.v_proj.weight");
    tiny_put(t, "transformer.h.0.attn.v_proj.weight", V, D, 0, 1);
    REFUSED(t, ERR_UNSUPPORTED, "transformer.h.0.attn.v_proj.weight", "num_kv_heads");
    tiny_free(t);
    t = lit((kind){0}, 52);
    tiny_drop(t, "transformer.h.2.attn.b_proj.weight");
    tiny_put(t, "transformer.h.2.attn.b_proj.weight", 4, D, 0, 1);
    REFUSED(t, ERR_INPUT, "transformer.h.2.attn", "4 heads", "6 rows");
    tiny_free(t);
    // Flags that ask for what the file lacks.
    t = lit((kind){.plain_gate = true}, 53);
    tiny_set(t, "use_residual", json_true());
    REFUSED(t, ERR_MISSING, "transformer.h.0.attn.D");
    tiny_set(t, "use_residual", NULL);
    tiny_set(t, "gate_logit_normalizer", json_real(0));
    REFUSED(t, ERR_INPUT, "gate_logit_normalizer");
    tiny_free(t);
}

static void every_failing_allocation_is_an_error(void **state) {
    (void)state;
    tiny_model *t = lit((kind){.qk = "softmax", .bias = true, .layer_norm = true}, 54);
    hf_every_allocation(t);
    tiny_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_norm_of_q_and_k_agrees_with_plain_loops_R07_R11),
        cmocka_unit_test(options_of_the_layer_agree_with_plain_loops),
        cmocka_unit_test(options_of_the_model_agree_with_plain_loops),
        cmocka_unit_test(large_numbers_do_not_overflow_the_softmax),
        cmocka_unit_test(steps_are_those_of_a_gated_delta_rule),
        cmocka_unit_test(b24_a_null_width_comes_from_n_embd_or_the_embedding),
        cmocka_unit_test(layers_are_told_by_their_names_when_the_config_is_silent),
        cmocka_unit_test(a_config_without_model_type_is_claimed),
        cmocka_unit_test(dead_leftover_and_missing_tensors_are_named),
        cmocka_unit_test(heads_lie_under_either_name_and_must_be_what_the_config_says),
        cmocka_unit_test(what_the_code_leaves_open_is_refused_by_name),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
