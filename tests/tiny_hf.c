#include "tests/tiny_hf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *name_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *name_of(const char *fmt, ...) {
    static char ring[8][160];
    static unsigned next;
    char *buf = ring[next++ % 8];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof ring[0], fmt, ap);
    va_end(ap);
    return buf;
}

tiny_tensor *tiny_put(tiny_model *t, const char *name, int64_t rows, int64_t cols, double mean,
                      double deviation) {
    const int64_t dims[] = {rows, cols};
    tiny_tensor *x = tiny_add(t, name, cols ? 2 : 1, dims);
    for (int64_t i = 0; i < x->n; i++)
        x->v[i] = (float)(mean + deviation * tiny_normal(&t->s.seed));
    return x;
}

tiny_model *tiny_hf(tiny_spec s) {
    s.conv = 4;
    s.gate = true;
    tiny_model *t = tiny_new(s);
    if (s.heads) {
        tiny_put(t, "model.layers.1.attn.q_norm.weight", t->s.D / t->s.heads, 0, 1, 0.2);
        tiny_put(t, "model.layers.1.attn.k_norm.weight", t->s.D / t->s.heads, 0, 1, 0.2);
    }
    for (int i = 0; i < t->n; i++)
        for (int64_t j = 0; strstr(t->t[i].name, "norm") && j < t->t[i].n; j++)
            t->t[i].v[j] = round(t->t[i].v[j] * 1024) / 1024;
    return t;
}

static void move_rows(tiny_model *t, const char *from, int64_t first, int64_t n, const char *to,
                      int64_t at) {
    const tiny_tensor *a = tiny_get(t, "%s", from), *b = tiny_get(t, "%s", to);
    int64_t w = a->n / a->dims[0];
    assert_true(b->n / b->dims[0] == w && at + n <= b->dims[0] && first + n <= a->dims[0]);
    memcpy(b->v + at * w, a->v + first * w, (size_t)(n * w) * sizeof *a->v);
}

// An empty tensor of so many rows, otherwise shaped like another one.
static const char *rows_like(tiny_model *t, const char *like, int64_t rows, const char *name) {
    const tiny_tensor *a = tiny_get(t, "%s", like);
    int64_t dims[4];
    memcpy(dims, a->dims, sizeof dims);
    dims[0] = rows;
    tiny_add(t, name, a->rank, dims);
    return name;
}

static void less_one(tiny_model *t, const char *name) {
    tiny_tensor *x = tiny_get(t, "%s", name);
    for (int64_t i = 0; i < x->n; i++)
        x->v[i] -= 1;
}

static void common_config(tiny_model *t, const char *type) {
    const tiny_spec *s = &t->s;
    json_decref(t->config);
    t->config =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:s}", "model_type", type,
                  "hidden_size", s->D, "num_hidden_layers", s->L, "vocab_size", s->n_vocab,
                  "max_position_embeddings", 16, "intermediate_size", s->inter, "rms_norm_eps",
                  1e-6, "tie_word_embeddings", s->tied, "hidden_act", "silu");
    assert_non_null(t->config);
}

static void linear_config(tiny_model *t) {
    const tiny_spec *s = &t->s;
    tiny_set(t, "linear_num_key_heads", json_integer(s->Hk));
    tiny_set(t, "linear_num_value_heads", json_integer(s->H));
    tiny_set(t, "linear_key_head_dim", json_integer(s->K));
    tiny_set(t, "linear_value_head_dim", json_integer(s->V));
    tiny_set(t, "linear_conv_kernel_dim", json_integer(s->conv));
    tiny_set(t, "num_attention_heads", json_integer(s->heads ? s->heads : 2));
    tiny_set(t, "num_key_value_heads", json_integer(s->heads ? s->kv : 1));
    json_t *kinds = json_array();
    for (int L = 0; L < s->L; L++)
        json_array_append_new(
            kinds, json_string(s->heads && L == 1 ? "full_attention" : "linear_attention"));
    tiny_set(t, "layer_types", kinds);
}

// Per key head: q, k, v, z; and b, a.
static void fuse(tiny_model *t, const char *old, const char *new) {
    const tiny_spec *s = &t->s;
    int64_t K = s->K, r = s->H / s->Hk, rV = r * s->V, block = 2 * (K + rV);
    const char *q = name_of("%s.q_proj.weight", old), *k = name_of("%s.k_proj.weight", old);
    const char *v = name_of("%s.v_proj.weight", old), *z = name_of("%s.g_proj.weight", old);
    const char *to = rows_like(t, q, s->Hk * block, name_of("%s.in_proj_qkvz.weight", new));
    for (int64_t h = 0; h < s->Hk; h++) {
        move_rows(t, q, h * K, K, to, h * block);
        move_rows(t, k, h * K, K, to, h * block + K);
        move_rows(t, v, h * rV, rV, to, h * block + 2 * K);
        move_rows(t, z, h * rV, rV, to, h * block + 2 * K + rV);
    }
    const char *b = name_of("%s.b_proj.weight", old), *a = name_of("%s.a_proj.weight", old);
    to = rows_like(t, b, 2 * s->H, name_of("%s.in_proj_ba.weight", new));
    for (int64_t h = 0; h < s->Hk; h++) {
        move_rows(t, b, h * r, r, to, h * 2 * r);
        move_rows(t, a, h * r, r, to, h * 2 * r + r);
    }
    static const char *const gone[] = {"q_proj", "k_proj", "v_proj", "g_proj", "b_proj", "a_proj"};
    for (int i = 0; i < 6; i++)
        tiny_drop(t, name_of("%s.%s.weight", old, gone[i]));
}

// q, k, v one under the other.
static void stack(tiny_model *t, const char *old, const char *kind, const char *to) {
    const tiny_spec *s = &t->s;
    int64_t nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V, at = 0;
    rows_like(t, name_of("%s.q_%s.weight", old, kind), 2 * nk + nv, to);
    for (int i = 0; i < 3; i++) {
        const char *from = name_of("%s.%c_%s.weight", old, "qkv"[i], kind);
        move_rows(t, from, 0, i < 2 ? nk : nv, to, at);
        at += i < 2 ? nk : nv;
        tiny_drop(t, from);
    }
}

static void qwen_linear(tiny_model *t, const char *old, const char *new, bool fused) {
    static const char *const names[][2] = {
        {"g_proj.weight", "in_proj_z.weight"},
        {"b_proj.weight", "in_proj_b.weight"},
        {"a_proj.weight", "in_proj_a.weight"},
        {"A_log", "A_log"},
        {"dt_bias", "dt_bias"},
        {"o_norm.weight", "norm.weight"},
        {"o_proj.weight", "out_proj.weight"},
    };
    stack(t, old, "conv1d", name_of("%s.conv1d.weight", new));
    if (fused)
        fuse(t, old, new);
    else
        stack(t, old, "proj", name_of("%s.in_proj_qkv.weight", new));
    for (size_t i = fused ? 3 : 0; i < sizeof names / sizeof *names; i++)
        tiny_rename(t, name_of("%s.%s", old, names[i][0]), name_of("%s.%s", new, names[i][1]));
}

static void qwen_attention(tiny_model *t, const char *old, const char *new) {
    int64_t d = t->s.D / t->s.heads;
    static const char *const tails[] = {"weight", "bias"};
    for (int i = 0; i < 2; i++) {
        const char *q = name_of("%s.q_proj.%s", old, tails[i]);
        const char *to =
            rows_like(t, q, 2 * (int64_t)t->s.D, name_of("%s.q_proj.%s", new, tails[i]));
        for (int64_t h = 0; h < t->s.heads; h++)
            move_rows(t, q, h * d, d, to, 2 * h * d);
        tiny_drop(t, q);
        tiny_rename(t, name_of("%s.k_proj.%s", old, tails[i]),
                    name_of("%s.k_proj.%s", new, tails[i]));
        tiny_rename(t, name_of("%s.v_proj.%s", old, tails[i]),
                    name_of("%s.v_proj.%s", new, tails[i]));
    }
    const char *o = name_of("%s.o_proj.weight", new);
    tiny_rename(t, name_of("%s.o_proj.weight", old), o);
    tiny_tensor *w = tiny_get(t, "%s", o);
    for (int64_t i = 0; i < w->n; i++)
        w->v[i] *= 2;
    const int64_t dims[] = {t->s.D};
    tiny_add(t, name_of("%s.o_proj.bias", new), 1, dims);
    for (int i = 0; i < 2; i++) {
        const char *norm = name_of("%s.%c_norm.weight", new, "qk"[i]);
        tiny_rename(t, name_of("%s.%c_norm.weight", old, "qk"[i]), norm);
        less_one(t, norm);
    }
}

void tiny_to_qwen(tiny_model *t, const char *type, const char *root) {
    bool fused = strcmp(type, "qwen3_next") == 0;
    char old[64], new[96], layer[80];
    for (int L = 0; L < t->s.L; L++) {
        bool full = t->s.heads && L == 1;
        snprintf(old, sizeof old, "model.layers.%d.attn", L);
        snprintf(layer, sizeof layer, "%slayers.%d", root, L);
        snprintf(new, sizeof new, "%s.%s", layer, full ? "self_attn" : "linear_attn");
        if (full)
            qwen_attention(t, old, new);
        else
            qwen_linear(t, old, new, fused);
        static const char *const names[][2] = {
            {"attn_norm", "input_layernorm"},   {"mlp_norm", "post_attention_layernorm"},
            {"mlp.gate_proj", "mlp.gate_proj"}, {"mlp.up_proj", "mlp.up_proj"},
            {"mlp.down_proj", "mlp.down_proj"},
        };
        for (int i = 0; i < 5; i++) {
            const char *to = name_of("%s.%s.weight", layer, names[i][1]);
            tiny_rename(t, name_of("model.layers.%d.%s.weight", L, names[i][0]), to);
            if (i < 2)
                less_one(t, to);
        }
    }
    tiny_rename(t, "model.embeddings.weight", name_of("%sembed_tokens.weight", root));
    const char *norm = name_of("%snorm.weight", root);
    tiny_rename(t, "model.norm.weight", norm);
    less_one(t, norm);
    common_config(t, type);
    linear_config(t);
    if (fused)
        tiny_set(t, "num_experts", json_integer(0));
    tiny_set(t, "attention_bias", json_true());
    tiny_set(t, "rope_parameters",
             json_pack("{s:s, s:f, s:f}", "rope_type", "default", "rope_theta", 10000.0,
                       "partial_rotary_factor", 1.0));
}

void tiny_to_olmo(tiny_model *t, bool thirds) {
    char old[64], new[64];
    int64_t nk = (int64_t)t->s.Hk * t->s.K, nv = (int64_t)t->s.H * t->s.V, all = 2 * nk + nv;
    for (int L = 0; L < t->s.L; L++) {
        snprintf(old, sizeof old, "model.layers.%d.attn", L);
        snprintf(new, sizeof new, "model.layers.%d.linear_attn", L);
        if (thirds) {
            const char *whole = name_of("%s.joined", old);
            stack(t, old, "conv1d", whole);
            for (int64_t i = 0, at = 0, third = (all + 2) / 3; i < 3; i++) {
                int64_t n = i < 2 ? third : all - 2 * third;
                const char *to =
                    rows_like(t, whole, n, name_of("%s.%c_conv1d.weight", old, "qkv"[i]));
                move_rows(t, whole, at, n, to, 0);
                at += n;
            }
            tiny_drop(t, whole);
        }
        for (int i = 0; i < t->n; i++)
            if (strncmp(t->t[i].name, old, strlen(old)) == 0 && t->t[i].name[strlen(old)] == '.') {
                char *was = t->t[i].name;
                snprintf(was, sizeof t->t[i].name, "%s",
                         name_of("%s%s", new, name_of("%s", was + strlen(old))));
            }
        tiny_rename(t, name_of("model.layers.%d.attn_norm.weight", L),
                    name_of("model.layers.%d.attention_layer_norm.weight", L));
        tiny_rename(t, name_of("model.layers.%d.mlp_norm.weight", L),
                    name_of("model.layers.%d.feedforward_layer_norm.weight", L));
    }
    tiny_rename(t, "model.embeddings.weight", "model.embed_tokens.weight");
    common_config(t, "olmo_hybrid");
    linear_config(t);
    tiny_set(t, "linear_allow_neg_eigval", json_boolean(t->s.neg));
}

void tiny_to_kimi(tiny_model *t) {
    static const char *const names[][2] = {
        {"f_proj.0", "f_a_proj"}, {"f_proj.1", "f_b_proj"}, {"g_proj.0", "g_a_proj"},
        {"g_proj.1", "g_b_proj"}, {"q_proj", "q_proj"},     {"k_proj", "k_proj"},
        {"v_proj", "v_proj"},     {"b_proj", "b_proj"},     {"q_conv1d", "q_conv1d"},
        {"k_conv1d", "k_conv1d"}, {"v_conv1d", "v_conv1d"}, {"o_norm", "o_norm"},
        {"o_proj", "o_proj"},
    };
    json_t *kda = json_array();
    for (int L = 0; L < t->s.L; L++) {
        json_array_append_new(kda, json_integer(L + 1));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            tiny_rename(t, name_of("model.layers.%d.attn.%s.weight", L, names[i][0]),
                        name_of("model.layers.%d.self_attn.%s.weight", L, names[i][1]));
        tiny_rename(t, name_of("model.layers.%d.attn.A_log", L),
                    name_of("model.layers.%d.self_attn.A_log", L));
        tiny_rename(t, name_of("model.layers.%d.attn.dt_bias", L),
                    name_of("model.layers.%d.self_attn.dt_bias", L));
        tiny_drop(t, name_of("model.layers.%d.attn.g_proj.1.bias", L));
        tiny_rename(t, name_of("model.layers.%d.attn_norm.weight", L),
                    name_of("model.layers.%d.input_layernorm.weight", L));
        tiny_rename(t, name_of("model.layers.%d.mlp_norm.weight", L),
                    name_of("model.layers.%d.post_attention_layernorm.weight", L));
    }
    tiny_rename(t, "model.embeddings.weight", "model.embed_tokens.weight");
    common_config(t, "kimi_linear");
    tiny_set(t, "num_attention_heads", json_integer(2));
    tiny_set(t, "qk_nope_head_dim", json_integer(4));
    tiny_set(t, "qk_rope_head_dim", json_integer(2));
    tiny_set(t, "v_head_dim", json_integer(3));
    tiny_set(t, "kv_lora_rank", json_integer(5));
    tiny_set(t, "linear_attn_config",
             json_pack("{s:o, s:[], s:i, s:i, s:i}", "kda_layers", kda, "full_attn_layers",
                       "head_dim", t->s.K, "num_heads", t->s.H, "short_conv_kernel_size", 4));
}
