#include "tests/tiny_model.h"

#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

uint64_t tiny_next(uint64_t *seed) { // splitmix64
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double tiny_uniform(uint64_t *seed) {
    return 2 * ((double)(tiny_next(seed) >> 11) + 0.5) / 9007199254740992.0 - 1;
}

double tiny_normal(uint64_t *seed) {
    double u = (tiny_uniform(seed) + 1) / 2, w = tiny_uniform(seed);
    return sqrt(-2 * log(u)) * cos(M_PI * w);
}

tiny_tensor *tiny_add(tiny_model *m, const char *name, int rank, const int64_t *dims) {
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->t = realloc(m->t, (size_t)m->cap * sizeof *m->t);
        assert_non_null(m->t);
    }
    tiny_tensor *t = &m->t[m->n++];
    *t = (tiny_tensor){.dtype = "F32", .rank = rank, .n = 1};
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int i = 0; i < rank; i++) {
        t->dims[i] = dims[i];
        t->n *= dims[i];
    }
    t->v = calloc((size_t)t->n + 1, sizeof *t->v);
    assert_non_null(t->v);
    return t;
}

// mean + deviation x normal, rounded to float so that every reader sees the same number.
static tiny_tensor *put(tiny_model *m, int L, const char *name, int64_t rows, int64_t cols,
                        double mean, double deviation) {
    char full[160];
    if (L >= 0)
        snprintf(full, sizeof full, "model.layers.%d.%s", L, name);
    else
        snprintf(full, sizeof full, "%s", name);
    const int64_t dims[] = {rows, cols};
    tiny_tensor *t = cols ? tiny_add(m, full, 2, dims) : tiny_add(m, full, 1, dims);
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = (float)(mean + deviation * tiny_normal(&m->s.seed));
    return t;
}

static void put_conv(tiny_model *m, int L, const char *name, int64_t channels) {
    char full[160];
    const int64_t dims[] = {channels, 1, m->s.conv};
    snprintf(full, sizeof full, "model.layers.%d.%s", L, name);
    tiny_tensor *t = tiny_add(m, full, 3, dims);
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = (float)(0.2 + 0.5 * tiny_normal(&m->s.seed));
}

static bool is(const tiny_model *m, const char *family) {
    return strcmp(m->s.family, family) == 0;
}

static void put_mixer(tiny_model *m, int L) {
    const tiny_spec *s = &m->s;
    int64_t D = s->D, nk = (int64_t)s->Hk * s->K, nv = (int64_t)s->H * s->V;
    double w = 1.2 / sqrt((double)D);
    put(m, L, "attn.q_proj.weight", nk, D, 0, w);
    put(m, L, "attn.k_proj.weight", s->n_h * nk, D, s->key_bias, w);
    put(m, L, "attn.v_proj.weight", s->n_h * nv, D, 0, w);
    put(m, L, "attn.b_proj.weight", (int64_t)s->n_h * s->H, D, 0, 2 * w);
    if (s->conv) {
        put_conv(m, L, "attn.q_conv1d.weight", nk);
        put_conv(m, L, "attn.k_conv1d.weight", s->n_h * nk);
        put_conv(m, L, "attn.v_conv1d.weight", s->n_h * nv);
    }
    if (is(m, "gated_deltanet") || is(m, "comba") || (is(m, "gated_deltaproduct") && s->forget)) {
        put(m, L, "attn.a_proj.weight", s->H, D, 0, w);
        put(m, L, "attn.A_log", s->H, 0, -1, 0.5);
        put(m, L, "attn.dt_bias", s->H, 0, -1, 0.5);
    }
    if (is(m, "comba")) {
        put(m, L, "attn.decay", s->Hk, 0, 1, 0.5);
        put(m, L, "attn.D", s->Hk, 0, 0.5, 0.3);
    }
    if (is(m, "kda")) {
        int64_t r = 3;
        put(m, L, "attn.f_proj.0.weight", r, D, 0, w);
        put(m, L, "attn.f_proj.1.weight", (int64_t)s->H * s->K, r, 0, 0.6);
        put(m, L, "attn.A_log", s->H, 0, -1, 0.5);
        put(m, L, "attn.dt_bias", (int64_t)s->H * s->K, 0, -1, 0.5);
        put(m, L, "attn.g_proj.0.weight", r, D, 0, w);
        put(m, L, "attn.g_proj.1.weight", nv, r, 0, 0.6);
        put(m, L, "attn.g_proj.1.bias", nv, 0, 0.2, 0.3);
    } else if (s->gate) {
        put(m, L, "attn.g_proj.weight", nv, D, 0, w);
    }
    put(m, L, "attn.o_norm.weight", s->V, 0, 1, 0.2);
    put(m, L, "attn.o_proj.weight", D, nv, 0, 1 / sqrt((double)nv));
}

static void put_attention(tiny_model *m, int L) {
    const tiny_spec *s = &m->s;
    int64_t D = s->D, n = D / s->heads * s->kv;
    double w = 1.2 / sqrt((double)D);
    put(m, L, "attn.q_proj.weight", D, D, 0, w);
    put(m, L, "attn.k_proj.weight", n, D, 0, w);
    put(m, L, "attn.v_proj.weight", n, D, 0, w);
    put(m, L, "attn.q_proj.bias", D, 0, 0, 0.3);
    put(m, L, "attn.k_proj.bias", n, 0, 0, 0.3);
    put(m, L, "attn.v_proj.bias", n, 0, 0, 0.3);
    put(m, L, "attn.o_proj.weight", D, D, 0, w);
}

void tiny_set(tiny_model *m, const char *key, json_t *value) {
    if (value)
        json_object_set_new(m->config, key, value);
    else
        json_object_del(m->config, key);
}

static void put_config(tiny_model *m) {
    const tiny_spec *s = &m->s;
    m->config = json_object();
    tiny_set(m, "model_type", json_string(s->family));
    tiny_set(m, "hidden_size", json_integer(s->D));
    tiny_set(m, "num_hidden_layers", json_integer(s->L));
    tiny_set(m, "vocab_size", json_integer(s->n_vocab));
    tiny_set(m, "max_position_embeddings", json_integer(128));
    tiny_set(m, "intermediate_size", json_integer(s->inter));
    tiny_set(m, "norm_eps", json_real(1e-6));
    tiny_set(m, "tie_word_embeddings", json_boolean(s->tied));
    tiny_set(m, "use_short_conv", json_boolean(s->conv > 0));
    if (s->conv)
        tiny_set(m, "conv_size", json_integer(s->conv));
    tiny_set(m, "allow_neg_eigval", json_boolean(s->neg));
    if (is(m, "delta_net")) {
        tiny_set(m, "num_heads", json_integer(s->H));
        tiny_set(m, "expand_k", json_real((double)(s->H * s->K) / s->D));
        tiny_set(m, "expand_v", json_real((double)(s->H * s->V) / s->D));
        tiny_set(m, "use_gate", json_boolean(s->gate));
    } else {
        tiny_set(m, "num_heads", json_integer(s->Hk));
        tiny_set(m, "num_v_heads", json_integer(s->H));
        tiny_set(m, "head_dim", json_integer(s->K));
        tiny_set(m, "expand_v", json_real((double)s->V / s->K));
    }
    if (is(m, "gated_deltanet"))
        tiny_set(m, "use_gate", json_boolean(s->gate));
    if (is(m, "comba"))
        tiny_set(m, "use_output_gate", json_boolean(s->gate));
    if (is(m, "gated_deltaproduct")) {
        tiny_set(m, "num_householder", json_integer(s->n_h));
        tiny_set(m, "use_output_gate", json_boolean(s->gate));
        tiny_set(m, "use_forget_gate", json_boolean(s->forget));
    }
    if (is(m, "kda") && s->lower_bound != 0) {
        tiny_set(m, "safe_gate", json_true());
        tiny_set(m, "lower_bound", json_real(s->lower_bound));
    }
    if (s->heads) {
        json_t *attn = json_pack("{s:[i], s:i, s:i, s:b, s:f}", "layers", 1, "num_heads", s->heads,
                                 "num_kv_heads", s->kv, "qkv_bias", 1, "rope_theta", 10000.0);
        if (s->window)
            json_object_set_new(attn, "window_size", json_integer(s->window));
        tiny_set(m, "attn", attn);
    }
}

tiny_model *tiny_new(tiny_spec s) {
    tiny_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    s.family = s.family ? s.family : "delta_net";
    s.D = s.D ? s.D : 12;
    s.L = s.L ? s.L : 2;
    s.H = s.H ? s.H : 2;
    s.Hk = s.Hk ? s.Hk : s.H;
    s.K = s.K ? s.K : 6;
    s.V = s.V ? s.V : s.K;
    s.n_h = s.n_h ? s.n_h : 1;
    s.n_vocab = s.n_vocab ? s.n_vocab : 23;
    s.inter = s.inter ? s.inter : 16;
    s.kv = s.kv ? s.kv : s.heads;
    m->s = s;
    put(m, -1, "model.embeddings.weight", s.n_vocab, s.D, 0, 0.8);
    put(m, -1, "model.norm.weight", s.D, 0, 1, 0.2);
    if (!s.tied)
        put(m, -1, "lm_head.weight", s.n_vocab, s.D, 0, 0.5);
    for (int L = 0; L < s.L; L++) {
        put(m, L, "attn_norm.weight", s.D, 0, 1, 0.2);
        put(m, L, "mlp_norm.weight", s.D, 0, 1, 0.2);
        if (s.heads && L == 1)
            put_attention(m, L);
        else
            put_mixer(m, L);
        put(m, L, "mlp.gate_proj.weight", s.inter, s.D, 0, 0.3);
        put(m, L, "mlp.up_proj.weight", s.inter, s.D, 0, 0.3);
        put(m, L, "mlp.down_proj.weight", s.D, s.inter, 0, 0.3);
    }
    put_config(m);
    return m;
}

void tiny_free(tiny_model *m) {
    for (int i = 0; i < m->n; i++)
        free(m->t[i].v);
    free(m->t);
    json_decref(m->config);
    free(m);
}

static tiny_tensor *find(const tiny_model *m, const char *name) {
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0)
            return &m->t[i];
    return NULL;
}

tiny_tensor *tiny_find(const tiny_model *m, const char *fmt, ...) {
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return find(m, name);
}

tiny_tensor *tiny_get(const tiny_model *m, const char *fmt, ...) {
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    tiny_tensor *t = find(m, name);
    if (!t)
        fail_msg("the tiny model has no %s", name);
    return t;
}

void tiny_rename(tiny_model *m, const char *old, const char *name) {
    tiny_tensor *t = tiny_get(m, "%s", old);
    snprintf(t->name, sizeof t->name, "%s", name);
}

void tiny_drop(tiny_model *m, const char *name) {
    tiny_tensor *t = tiny_get(m, "%s", name);
    free(t->v);
    *t = m->t[--m->n];
}

void tiny_dtype(tiny_model *m, const char *dtype) {
    for (int i = 0; i < m->n; i++)
        m->t[i].dtype = dtype;
}

// Round to nearest even, for values inside the range of normal halves (and zero).
static uint16_t half_bits(double x) {
    if (x == 0)
        return 0;
    int exponent;
    double f = frexp(fabs(x), &exponent); // f in [0.5, 1)
    int e = exponent - 1 < -14 ? -14 : exponent - 1;
    long mantissa = lrint(ldexp(f, exponent - e + 10)); // units of 2^(e - 10)
    if (mantissa == 2048) {
        mantissa = 1024;
        e++;
    }
    unsigned biased = mantissa < 1024 ? 0 : (unsigned)(e + 15);
    return (uint16_t)((x < 0 ? 0x8000u : 0) | biased << 10 | ((unsigned long)mantissa & 0x3ff));
}

static uint16_t bfloat_bits(double x) {
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (isnan(x))
        return 0x7fc0;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static size_t element(const char *dtype) {
    return strcmp(dtype, "F64") == 0      ? 8
           : strcmp(dtype, "F32") == 0    ? 4
           : strncmp(dtype, "F8", 2) == 0 ? 1
                                          : 2;
}

static void encode(const tiny_tensor *t, unsigned char *to) {
    size_t size = element(t->dtype);
    for (int64_t i = 0; i < t->n; i++) {
        double d = t->v[i];
        float f = (float)d;
        uint16_t h = strcmp(t->dtype, "F16") == 0 ? half_bits(d) : bfloat_bits(d);
        unsigned char one = 0x38;
        memcpy(to + (size_t)i * size,
               size == 8   ? (void *)&d
               : size == 4 ? (void *)&f
               : size == 2 ? (void *)&h
                           : (void *)&one,
               size);
    }
}

const char *tiny_save(const tiny_model *m, const char *name) {
    const char *folder = files_path("%s", name);
    mkdir(folder, 0777);
    json_t *header = json_object();
    size_t total = 0;
    for (int i = 0; i < m->n; i++)
        total += (size_t)m->t[i].n * element(m->t[i].dtype);
    unsigned char *data = malloc(total + 1);
    assert_non_null(data);
    size_t at = 0;
    for (int i = 0; i < m->n; i++) {
        const tiny_tensor *t = &m->t[i];
        size_t bytes = (size_t)t->n * element(t->dtype);
        json_t *shape = json_array();
        for (int d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer(t->dims[d]));
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I,I]}", "dtype", t->dtype, "shape", shape,
                                      "data_offsets", (json_int_t)at, (json_int_t)(at + bytes)));
        encode(t, data + at);
        at += bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    files_safetensors(files_path("%s/model.safetensors", name), text, data, total);
    free(text);
    json_decref(header);
    free(data);
    text = json_dumps(m->config, JSON_INDENT(1));
    files_text(files_path("%s/config.json", name), text);
    free(text);
    return folder;
}
