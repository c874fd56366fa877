// The whole model again, written from science.md section 0 and 1A with plain loops in double: the
// step form of every layer, one token after the other, all layers' inputs kept.
#include "tests/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double *zeros(int64_t n) {
    double *p = calloc((size_t)n + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static const double *weight(const tiny_model *m, int L, const char *name) {
    return tiny_get(m, "model.layers.%d.%s", L, name)->v;
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double softplus(double x) {
    return x > 30 ? x : log(1 + exp(x));
}

// y [T, n] = x [T, d] W^T
static double *apply(const double *x, int64_t T, int d, const double *W, int64_t n) {
    double *y = zeros(T * n);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j < d; j++)
                y[t * n + i] += W[i * d + j] * x[t * d + j];
    return y;
}

static double *rms_eps(const double *x, int64_t rows, int64_t n, const double *w, double eps) {
    double *y = zeros(rows * n);
    for (int64_t t = 0; t < rows; t++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[t * n + i] * x[t * n + i];
        for (int64_t i = 0; i < n; i++)
            y[t * n + i] = x[t * n + i] / sqrt(sum / (double)n + eps) * w[i];
    }
    return y;
}

static double *rms(const double *x, int64_t rows, int64_t n, const double *w) {
    return rms_eps(x, rows, n, w, 1e-6);
}

// Causal convolution of width w over the whole row, then SiLU; without one only SiLU.
static double *conv(const tiny_model *m, int L, const char *name, double *x, int64_t T, int64_t n) {
    int w = m->s.conv;
    const double *W = w ? weight(m, L, name) : NULL;
    double *y = zeros(T * n);
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < n; c++) {
            double sum = w ? 0 : x[t * n + c];
            for (int i = 0; i < w; i++)
                if (t - (w - 1) + i >= 0)
                    sum += W[c * w + i] * x[(t - (w - 1) + i) * n + c];
            y[t * n + c] = silu(sum);
        }
    free(x);
    return y;
}

static void unit(double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] /= sqrt(sum + 1e-6);
}

// Decay of every token, value head and key channel, [T, H, K]; NULL: none. x [T, D]: the layer's
// input, low [T, 3]: KDA's first projection of it.
static double *gates(const tiny_model *m, int L, const double *x, const double *low, int64_t T) {
    const tiny_spec *s = &m->s;
    bool kda = strcmp(s->family, "kda") == 0;
    if (!kda && !tiny_find(m, "model.layers.%d.attn.a_proj.weight", L))
        return NULL;
    const tiny_tensor *A = tiny_find(m, "model.layers.%d.attn.A_log", L);
    const double *dt = weight(m, L, "attn.dt_bias");
    const double *W = weight(m, L, kda ? "attn.f_proj.1.weight" : "attn.a_proj.weight");
    int width = kda ? 3 : s->D;
    const double *in = kda ? low : x;
    double *g = zeros(T * s->H * s->K);
    for (int64_t t = 0; t < T; t++)
        for (int h = 0; h < s->H; h++)
            for (int i = 0; i < s->K; i++) {
                int row = kda ? h * s->K + i : h;
                double z = dt[row], rate = A ? exp(A->v[h]) : 1;
                for (int d = 0; d < width; d++)
                    z += W[row * width + d] * in[t * width + d];
                double log_gate = kda && s->lower_bound ? s->lower_bound * sigmoid(rate * z)
                                                        : -rate * softplus(z);
                g[(t * s->H + h) * s->K + i] = exp(log_gate);
            }
    return g;
}

// One micro-step on S [K, V]: S <- S - beta k (read^T before) + beta k v^T, `read` along r.
static void delta(double *S, int K, int V, const double *k, const double *v, double beta,
                  const double *read) {
    for (int c = 0; c < V; c++)
        for (int i = 0; i < K; i++)
            S[i * V + c] += beta * k[i] * (v[c] - read[c]);
}

static void add_bias(double *x, int64_t T, int64_t n, const double *b) {
    for (int64_t i = 0; i < T * n; i++)
        x[i] += b[i % n];
}

static void read_out(const double *S, int K, int V, const double *x, double *r) {
    for (int c = 0; c < V; c++) {
        r[c] = 0;
        for (int i = 0; i < K; i++)
            r[c] += x[i] * S[i * V + c];
    }
}

static double *mixer(const tiny_model *m, int L, const double *x, int64_t T, double *state) {
    const tiny_spec *s = &m->s;
    int D = s->D, H = s->H, Hk = s->Hk, K = s->K, V = s->V, n_h = s->n_h;
    int64_t nk = (int64_t)Hk * K, nv = (int64_t)H * V;
    bool comba = strcmp(s->family, "comba") == 0, kda = strcmp(s->family, "kda") == 0;
    double *q = conv(m, L, "attn.q_conv1d.weight",
                     apply(x, T, D, weight(m, L, "attn.q_proj.weight"), nk), T, nk);
    double *k = conv(m, L, "attn.k_conv1d.weight",
                     apply(x, T, D, weight(m, L, "attn.k_proj.weight"), n_h * nk), T, n_h * nk);
    double *v = conv(m, L, "attn.v_conv1d.weight",
                     apply(x, T, D, weight(m, L, "attn.v_proj.weight"), n_h * nv), T, n_h * nv);
    const tiny_tensor *wb = tiny_find(m, "model.layers.%d.attn.b_proj.weight", L);
    double *b = wb ? apply(x, T, D, wb->v, (int64_t)n_h * H) : NULL;
    double *low = kda ? apply(x, T, D, weight(m, L, "attn.f_proj.0.weight"), 3) : zeros(T * 3);
    double *g = gates(m, L, x, low, T);
    double *p = zeros(T * nk), *o = zeros(T * nv), *r = zeros(V), *gate = NULL;
    const double *inner = comba ? weight(m, L, "attn.decay") : NULL;
    const double *correction = comba ? weight(m, L, "attn.D") : NULL;
    if (comba)
        for (int64_t t = 0; t < T; t++)
            for (int h = 0; h < Hk; h++)
                for (int i = 0; i < K; i++) {
                    int64_t at = t * nk + h * K + i;
                    p[at] = k[at] * sigmoid(inner[h]);
                    q[at] -= correction[h] * p[at];
                }
    for (int64_t t = 0; t < T; t++)
        for (int h = 0; h < Hk; h++) {
            unit(q + t * nk + h * K, K);
            unit(p + t * nk + h * K, K);
            for (int j = 0; j < n_h; j++)
                unit(k + (t * n_h + j) * nk + h * K, K);
        }
    for (int h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++) {
            double *S = state + (int64_t)h * K * V;
            int hk = h / (H / Hk);
            read_out(S, K, V, p + t * nk + hk * K, r); // Comba: before the decay
            for (int i = 0; g && i < K; i++)
                for (int c = 0; c < V; c++)
                    S[i * V + c] *= g[(t * H + h) * K + i];
            for (int j = 0; j < n_h; j++) {
                const double *key = k + (t * n_h + j) * nk + hk * K;
                if (!comba)
                    read_out(S, K, V, key, r);
                delta(S, K, V, key, v + (t * n_h + j) * nv + h * V,
                      (s->neg ? 2 : 1) * (b ? sigmoid(b[(t * n_h + j) * H + h]) : 1), r);
            }
            read_out(S, K, V, q + t * nk + hk * K, o + t * nv + h * V);
            for (int c = 0; c < V; c++)
                o[t * nv + h * V + c] /= sqrt((double)K);
        }
    double *n =
        rms_eps(o, T * H, V, weight(m, L, "attn.o_norm.weight"), s->o_eps > 0 ? s->o_eps : 1e-6);
    if (kda) {
        double *first = apply(x, T, D, weight(m, L, "attn.g_proj.0.weight"), 3);
        gate = apply(first, T, 3, weight(m, L, "attn.g_proj.1.weight"), nv);
        add_bias(gate, T, nv, weight(m, L, "attn.g_proj.1.bias"));
        free(first);
    } else if (s->gate) {
        gate = apply(x, T, D, weight(m, L, "attn.g_proj.weight"), nv);
    }
    for (int64_t i = 0; gate && i < T * nv; i++)
        n[i] *= kda || comba ? sigmoid(gate[i]) : silu(gate[i]);
    double *y = apply(n, T, (int)nv, weight(m, L, "attn.o_proj.weight"), D);
    double *all[] = {q, k, v, b, low, g, p, o, r, gate, n};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return y;
}

static void turn(double *x, int64_t T, int64_t n, int d) {
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < n / d; h++)
            for (int i = 0; i < d / 2; i++) {
                double *a = x + t * n + h * d + i, u = a[0], w = a[d / 2];
                double angle = (double)t / pow(10000, 2.0 * i / d);
                a[0] = u * cos(angle) - w * sin(angle);
                a[d / 2] = w * cos(angle) + u * sin(angle);
            }
}

static double *softmax_layer(const tiny_model *m, int L, const double *x, int64_t T) {
    const tiny_spec *s = &m->s;
    int D = s->D, d = D / s->heads;
    int64_t n = (int64_t)d * s->kv;
    double *q = apply(x, T, D, weight(m, L, "attn.q_proj.weight"), D);
    double *k = apply(x, T, D, weight(m, L, "attn.k_proj.weight"), n);
    double *v = apply(x, T, D, weight(m, L, "attn.v_proj.weight"), n);
    double *o = zeros(T * D), *p = zeros(T);
    add_bias(q, T, D, weight(m, L, "attn.q_proj.bias"));
    add_bias(k, T, n, weight(m, L, "attn.k_proj.bias"));
    add_bias(v, T, n, weight(m, L, "attn.v_proj.bias"));
    const tiny_tensor *norm = tiny_find(m, "model.layers.%d.attn.q_norm.weight", L);
    if (norm) { // eps of FLA's RMSNorm where none is given
        double *u = q, *w = k, eps = s->qk_eps > 0 ? s->qk_eps : 1e-5;
        q = rms_eps(u, T * s->heads, d, norm->v, eps);
        k = rms_eps(w, T * s->kv, d, weight(m, L, "attn.k_norm.weight"), eps);
        free(u), free(w);
    }
    turn(q, T, D, d);
    turn(k, T, n, d);
    for (int h = 0; h < s->heads; h++)
        for (int64_t t = 0; t < T; t++) {
            int hk = h / (s->heads / s->kv);
            // B66: the window counts the token itself.
            int64_t first = s->window && t + 1 > s->window ? t + 1 - s->window : 0;
            double sum = 0;
            for (int64_t j = first; j <= t; j++) {
                double dot = 0;
                for (int i = 0; i < d; i++)
                    dot += q[t * D + h * d + i] * k[j * n + hk * d + i];
                p[j] = exp(dot / sqrt((double)d));
                sum += p[j];
            }
            for (int64_t j = first; j <= t; j++)
                for (int i = 0; i < d; i++)
                    o[t * D + h * d + i] += p[j] / sum * v[j * n + hk * d + i];
        }
    double *y = apply(o, T, D, weight(m, L, "attn.o_proj.weight"), D);
    free(q), free(k), free(v), free(o), free(p);
    return y;
}

static double *mlp(const tiny_model *m, int L, const double *x, int64_t T) {
    int I = m->s.inter, D = m->s.D;
    double *g = apply(x, T, D, weight(m, L, "mlp.gate_proj.weight"), I);
    double *u = apply(x, T, D, weight(m, L, "mlp.up_proj.weight"), I);
    for (int64_t i = 0; i < T * I; i++)
        u[i] *= silu(g[i]);
    double *y = apply(u, T, I, weight(m, L, "mlp.down_proj.weight"), D);
    free(g), free(u);
    return y;
}

static void branch(double *x, int64_t T, int D, double *in, double *y) {
    for (int64_t i = 0; i < T * D; i++)
        x[i] += y[i];
    free(in), free(y);
}

naive naive_run(const tiny_model *m, const int32_t *ids, int64_t T) {
    int D = m->s.D, N = m->s.n_vocab;
    const double *E = tiny_get(m, "model.embeddings.weight")->v;
    const tiny_tensor *head = tiny_find(m, "lm_head.weight");
    const double *W = head ? head->v : E;
    naive r = {.loss = zeros(T), .L = m->s.L};
    double *x = zeros(T * D), *in;
    r.state = calloc((size_t)m->s.L, sizeof *r.state);
    for (int64_t i = 0; i < T * D; i++)
        x[i] = E[(int64_t)ids[i / D] * D + i % D];
    for (int L = 0; L < m->s.L; L++) {
        in = rms(x, T, D, weight(m, L, "attn_norm.weight"));
        if (m->s.heads && L == 1) {
            branch(x, T, D, in, softmax_layer(m, L, in, T));
        } else {
            r.state[L] = zeros((int64_t)m->s.H * m->s.K * m->s.V);
            branch(x, T, D, in, mixer(m, L, in, T, r.state[L]));
        }
        in = rms(x, T, D, weight(m, L, "mlp_norm.weight"));
        branch(x, T, D, in, mlp(m, L, in, T));
    }
    in = rms(x, T, D, tiny_get(m, "model.norm.weight")->v);
    for (int64_t t = 0; t + 1 < T; t++) {
        double sum = 0, target = 0;
        for (int j = 0; j < N; j++) {
            double dot = 0;
            for (int i = 0; i < D; i++)
                dot += W[j * D + i] * in[t * D + i];
            sum += exp(dot);
            target = j == ids[t + 1] ? dot : target;
        }
        r.loss[t] = log(sum) - target;
    }
    free(x), free(in);
    return r;
}

void naive_free(naive *r) {
    free(r->loss);
    for (int L = 0; L < r->L; L++)
        free(r->state[L]);
    free(r->state);
}
