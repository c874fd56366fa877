#include "tests/tiny_mamba.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tiny_mamba_spec filled(tiny_mamba_spec s) {
    s.D = s.D ? s.D : 12;
    s.L = s.L ? s.L : 2;
    s.H = s.H ? s.H : 4;
    s.V = s.V ? s.V : 3;
    s.G = s.G ? s.G : 2;
    s.N = s.N ? s.N : 5;
    s.n_vocab = s.n_vocab ? s.n_vocab : 24;
    s.width = s.width ? s.width : 4;
    s.hi = s.hi != 0 ? s.hi : INFINITY;
    return s;
}

static void put(tiny_model *m, int64_t rows, int64_t cols, double mean, double deviation,
                const char *name) {
    const int64_t dims[] = {rows, cols};
    tiny_tensor *t = tiny_add(m, name, cols ? 2 : 1, dims);
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = (float)(mean + deviation * tiny_normal(&m->s.seed));
}

static void put_layer(tiny_model *m, const tiny_mamba_spec *s, int L) {
    char p[64], name[128];
    int64_t X = (int64_t)s->H * s->V, mixed = X + 2 * (int64_t)s->G * s->N;
    int64_t all = X + mixed + s->H;
    snprintf(p, sizeof p, "backbone.layers.%d", L);
#define NAME(tail) (snprintf(name, sizeof name, "%s.%s", p, tail), name)
    put(m, s->D, 0, 1, 0.2, NAME("norm.weight"));
    put(m, all, s->D, 0, 1.5 / sqrt(s->D), NAME("mixer.in_proj.weight"));
    put(m, s->D, X, 0, 1 / sqrt((double)X), NAME("mixer.out_proj.weight"));
    if (s->bias) {
        put(m, all, 0, 0, 0.3, NAME("mixer.in_proj.bias"));
        put(m, s->D, 0, 0, 0.3, NAME("mixer.out_proj.bias"));
    }
    const int64_t taps[] = {mixed, 1, s->width};
    tiny_tensor *conv = tiny_add(m, NAME("mixer.conv1d.weight"), 3, taps);
    for (int64_t i = 0; i < conv->n; i++)
        conv->v[i] = (float)(0.2 + 0.5 * tiny_normal(&m->s.seed));
    put(m, mixed, 0, 0.1, 0.3, NAME("mixer.conv1d.bias"));
    put(m, s->H, 0, -0.5, 0.7, NAME("mixer.A_log"));
    put(m, s->H, 0, 1, 0.5, NAME("mixer.D"));
    put(m, s->H, 0, -0.5, 0.7, NAME("mixer.dt_bias"));
    if (!s->plain) {
        put(m, X, 0, 1, 0.3, NAME("mixer.norm.weight"));
        // Groups of clearly different size: a norm over all of them would show.
        tiny_tensor *w = tiny_get(m, "%s", NAME("mixer.in_proj.weight"));
        for (int64_t i = 0; i < X * s->D; i++)
            w->v[i] = (float)(w->v[i] * (1 + 2 * (double)(i / s->D * s->G / X)));
    }
#undef NAME
}

tiny_model *tiny_mamba(tiny_mamba_spec s) {
    s = filled(s);
    tiny_model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->s.seed = s.seed;
    put(m, s.n_vocab, s.D, 0, 0.8, "backbone.embeddings.weight");
    put(m, s.D, 0, 1, 0.2, "backbone.norm_f.weight");
    if (!s.tied)
        put(m, s.n_vocab, s.D, 0, 0.5, "lm_head.weight");
    for (int L = 0; L < s.L; L++)
        put_layer(m, &s, L);
    m->config = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:b, s:b}",
                          "model_type", "mamba2", "hidden_size", s.D, "num_hidden_layers", s.L,
                          "vocab_size", s.n_vocab, "num_heads", s.H, "head_dim", s.V, "n_groups",
                          s.G, "state_size", s.N, "conv_kernel", s.width, "norm_eps", 1e-5,
                          "tie_word_embeddings", s.tied, "use_bias", s.bias, "use_conv_bias", 1);
    assert_non_null(m->config);
    tiny_set(m, "rmsnorm", json_boolean(!s.plain));
    tiny_set(m, "norm_before_gate", json_boolean(s.norm_first));
    if (!isinf(s.hi))
        tiny_set(m, "dt_limit", json_pack("[f, f]", s.lo, s.hi));
    return m;
}

// y = W x + b; b may be NULL.
static void times(const tiny_tensor *w, const tiny_tensor *b, const double *x, double *y) {
    int64_t rows = w->dims[0], cols = w->dims[1];
    for (int64_t i = 0; i < rows; i++) {
        y[i] = b ? b->v[i] : 0;
        for (int64_t j = 0; j < cols; j++)
            y[i] += w->v[i * cols + j] * x[j];
    }
}

static void rms(const double *x, const double *w, int64_t n, double *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + 1e-5) * w[i];
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

typedef struct mixer {
    double *past; // [width - 1, mixed]
    double *S;    // [H, N, V]
    double *row, *xbc, *o;
} mixer;

static void gate_and_norm(const tiny_model *m, const tiny_mamba_spec *s, int L, const double *z,
                          mamba_mistake wrong, double *o) {
    int64_t X = (int64_t)s->H * s->V, G = wrong == WHOLE_WIDTH_NORM ? 1 : s->G;
    for (int64_t i = 0; i < X && (!s->norm_first || s->plain); i++)
        o[i] *= silu(z[i]);
    if (s->plain)
        return;
    const tiny_tensor *w = tiny_get(m, "backbone.layers.%d.mixer.norm.weight", L);
    for (int64_t g = 0; g < G; g++)
        rms(o + g * X / G, w->v + g * X / G, X / G, o + g * X / G);
    for (int64_t i = 0; i < X && s->norm_first; i++)
        o[i] *= silu(z[i]);
}

static void step(const tiny_model *m, const tiny_mamba_spec *s, int L, mixer *k, const double *u,
                 mamba_mistake wrong, double *y) {
#define GET(tail) tiny_get(m, "backbone.layers.%d.mixer." tail, L)
    int64_t X = (int64_t)s->H * s->V, GN = (int64_t)s->G * s->N, mixed = X + 2 * GN, w = s->width;
    times(GET("in_proj.weight"), s->bias ? GET("in_proj.bias") : NULL, u, k->row);
    const double *taps = GET("conv1d.weight")->v, *bias = GET("conv1d.bias")->v;
    for (int64_t d = 0; d < mixed; d++) {
        double sum = bias[d] + taps[d * w + w - 1] * k->row[X + d];
        for (int64_t i = 0; i < w - 1; i++)
            sum += taps[d * w + i] * k->past[i * mixed + d];
        k->xbc[d] = silu(sum);
    }
    memmove(k->past, k->past + mixed, (size_t)((w - 2) * mixed) * sizeof(double));
    memcpy(k->past + (w - 2) * mixed, k->row + X, (size_t)mixed * sizeof(double));
    for (int64_t h = 0; h < s->H; h++) {
        double dt = log1p(exp(k->row[X + mixed + h] + GET("dt_bias")->v[h]));
        if (wrong != NO_LIMITS)
            dt = fmin(fmax(dt, s->lo), s->hi);
        int64_t g = wrong == GROUP_MODULO ? h % s->G : h / (s->H / s->G);
        const double *x = k->xbc + h * s->V, *B = k->xbc + X + g * s->N, *C = B + GN;
        double *S = k->S + h * s->N * s->V, fade = exp(-exp(GET("A_log")->v[h]) * dt);
        for (int64_t v = 0; v < s->V; v++) {
            double sum = GET("D")->v[h] * x[v];
            for (int64_t n = 0; n < s->N; n++) {
                S[n * s->V + v] = fade * S[n * s->V + v] + B[n] * dt * x[v];
                sum += C[n] * S[n * s->V + v];
            }
            k->o[h * s->V + v] = sum;
        }
    }
    gate_and_norm(m, s, L, k->row, wrong, k->o);
    times(GET("out_proj.weight"), s->bias ? GET("out_proj.bias") : NULL, k->o, y);
#undef GET
}

void tiny_mamba_run(const tiny_model *m, tiny_mamba_spec s, const int32_t *ids, int64_t T,
                    mamba_mistake wrong, double *loss) {
    s = filled(s);
    int64_t X = (int64_t)s.H * s.V, mixed = X + 2 * (int64_t)s.G * s.N;
    mixer *k = calloc((size_t)s.L, sizeof *k);
    double *x = calloc((size_t)s.D * 3, sizeof *x), *n = x + s.D, *y = n + s.D;
    double *logits = calloc((size_t)s.n_vocab, sizeof *logits);
    for (int L = 0; L < s.L; L++)
        k[L] = (mixer){calloc((size_t)(s.width * mixed), sizeof(double)),
                       calloc((size_t)(s.H * s.N * s.V), sizeof(double)),
                       calloc((size_t)(X + mixed + s.H), sizeof(double)),
                       calloc((size_t)mixed, sizeof(double)), calloc((size_t)X, sizeof(double))};
    const tiny_tensor *embed = tiny_get(m, "backbone.embeddings.weight");
    const tiny_tensor *head = s.tied ? embed : tiny_get(m, "lm_head.weight");
    for (int64_t t = 0; t + 1 < T; t++) {
        memcpy(x, embed->v + (int64_t)ids[t] * s.D, (size_t)s.D * sizeof *x);
        for (int L = 0; L < s.L; L++) {
            rms(x, tiny_get(m, "backbone.layers.%d.norm.weight", L)->v, s.D, n);
            step(m, &s, L, &k[L], n, wrong, y);
            for (int i = 0; i < s.D; i++)
                x[i] += y[i];
        }
        rms(x, tiny_get(m, "backbone.norm_f.weight")->v, s.D, n);
        times(head, NULL, n, logits);
        double sum = 0;
        for (int i = 0; i < s.n_vocab; i++)
            sum += exp(logits[i]);
        loss[t] = log(sum) - logits[ids[t + 1]];
    }
    for (int L = 0; L < s.L; L++) {
        free(k[L].past);
        free(k[L].S);
        free(k[L].row);
        free(k[L].xbc);
        free(k[L].o);
    }
    free(k);
    free(x);
    free(logits);
}
