// R01-R16: every recurrence against its source's own loop, objectives, the layer around a mixer.
#include "analyses/verify/verify.h"

#include "analyses/explain_math.h"
#include "analyses/verify/on_backend.h"
#include "analyses/verify/small.h"
#include "core/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { K = EXPLAIN_K, V = EXPLAIN_V, T = 48 };

// A random row of tokens as steps, and what the source's own loop makes of it.
typedef struct row {
    double q[T * K], k[T * EXPLAIN_MICRO * K], v[T * EXPLAIN_MICRO * V], beta[T * EXPLAIN_MICRO];
    double decay[T * K], a[T * K], b[T * K];
    double H0[K * V], H1[K * V], o[T * V];
    steps s;
} row;

static void append(double *to, int64_t t, mat one) {
    if (!mat_none(one))
        memcpy(to + t * one.rows * one.cols, one.p, (size_t)(one.rows * one.cols) * sizeof *to);
}

static mat as_many(mat one, double *v) {
    if (mat_none(one))
        return one;
    one.p = v;
    one.rows *= T;
    return one;
}

static void draw(const recurrence *r, uint64_t seed, row *x) {
    explain_draw d;
    small_normals(x->H0, K * V, &seed);
    memcpy(x->H1, x->H0, sizeof x->H0);
    for (int t = 0; t < T; t++) {
        explain_draw_token(r, &seed, &d);
        memcpy(d.H, x->H1, sizeof d.H);
        steps one = explain_steps(r, &d);
        append(x->k, t, one.k);
        append(x->v, t, one.v);
        append(x->beta, t, one.beta);
        append(x->decay, t, one.decay);
        append(x->a, t, one.a);
        append(x->b, t, one.b);
        r->own(&d, x->H1);
        small_unit(x->q + t * K, K, &seed);
        for (int c = 0; c < V; c++) {
            x->o[t * V + c] = 0;
            for (int i = 0; i < K; i++)
                x->o[t * V + c] += 0.5 * x->H1[i * V + c] * x->q[t * K + i];
        }
        if (t > 0)
            continue;
        x->s = one;
        x->s.s.scale = 0.5;
    }
    x->s.T = T;
    x->s.q = (mat){x->q, T, K, K, sizeof(double)};
    x->s.k = as_many(x->s.k, x->k);
    x->s.v = as_many(x->s.v, x->v);
    x->s.beta = as_many(x->s.beta, x->beta);
    x->s.decay = as_many(x->s.decay, x->decay);
    x->s.a = as_many(x->s.a, x->a);
    x->s.b = as_many(x->s.b, x->b);
}

static double relative(const double *x, const double *want, int n) {
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    return small_difference(x, want, n) / most;
}

// R01 .. R13
static bool own_loop(const verify_case *c, double *error, err *e) {
    const recurrence *r = NULL;
    char id[8];
    row x;
    double H[K * V], o[T * V];
    snprintf(id, sizeof id, "R%02d", c->arg);
    for (size_t i = 0; i < n_recurrences; i++)
        if (strcmp(recurrences[i].id, id) == 0)
            r = &recurrences[i];
    draw(r, c->env->seed + (uint64_t)c->arg, &x);
    memcpy(H, x.H0, sizeof H);
    if (!on_backend_recurrence(c->be, &x.s, H, o, e))
        return false;
    *error = small_max(relative(H, x.H1, K * V), relative(o, x.o, T * V));
    return true;
}

// R08, E16: the wrong order of KDA's factors, and RWKV-7 with its two vectors swapped, must be told
// from the right ones. 0 when the backend's result is far from theirs.
static bool wrong_forms(const verify_case *c, double *error, err *e) {
    const recurrence *r = explain_find(c->arg == 8 ? "R08" : "R09", NULL);
    row x;
    double H[K * V], wrong[K * V], g[K * V];
    draw(r, c->env->seed + 77, &x);
    memcpy(H, x.H0, sizeof H);
    if (!on_backend_recurrence(c->be, &x.s, H, NULL, e))
        return false;
    memcpy(wrong, x.H0, sizeof wrong);
    for (int t = 0; t < T; t++) {
        const double *k = x.k + t * K, *v = x.v + t * V, *w = x.decay + t * K;
        if (c->arg == 8) { // Diag(alpha) outside: decay after the erasure
            small_reflect(wrong, K, V, k, x.beta[t]);
            for (int i = 0; i < K * V; i++)
                wrong[i] = wrong[i] * exp(w[i / V]) + x.beta[t] * k[i / V] * v[i % V];
            continue;
        }
        const double *a = x.b + t * K, *b = x.a + t * K; // swapped
        memcpy(g, wrong, sizeof g);
        for (int i = 0; i < K * V; i++) {
            double read = 0;
            for (int n = 0; n < K; n++)
                read += b[n] * g[n * V + i % V];
            wrong[i] = g[i] * exp(w[i / V]) + a[i / V] * read + k[i / V] * v[i % V];
        }
    }
    double gap = 0;
    for (int i = 0; i < K * V; i++)
        gap += (H[i] - wrong[i]) * (H[i] - wrong[i]);
    *error = sqrt(gap) / small_norm(H, K * V) > 0.01 ? 0 : 1;
    return true;
}

// R14: central differences of the loss reproduce the update, where the table says they do.
static bool objectives(const verify_case *c, double *error, err *e) {
    *error = 0;
    for (size_t i = 0; i < n_recurrences; i++) {
        const recurrence *r = &recurrences[i];
        explain_figures f;
        if (r->kind == GRADIENT_FORMAL || r->kind == GRADIENT_NONE)
            continue;
        if (!explain_measure(r, 64, c->env->seed, NULL, NULL, &f, e))
            return false;
        *error = small_max(*error, f.gradient);
    }
    return true;
}

// R15: x + W_down (silu(W_gate n) * W_up n), n = x / sqrt(mean x^2 + eps) * w, by plain loops.
static bool layer_around(const verify_case *c, double *error, err *e) {
    enum { ROWS = 5, D = 24, WIDE = 40 };
    double x[ROWS * D], w[D], gate[WIDE * D], up[WIDE * D], down[D * WIDE], want[ROWS * D],
        got[ROWS * D];
    uint64_t seed = c->env->seed + 15;
    small_normals(x, ROWS * D, &seed);
    small_normals(w, D, &seed);
    small_normals(gate, WIDE * D, &seed);
    small_normals(up, WIDE * D, &seed);
    small_normals(down, D * WIDE, &seed);
    for (int t = 0; t < ROWS; t++) {
        double n[D], h[WIDE], rms = sqrt(small_dot(x + t * D, x + t * D, D) / D + 1e-6);
        for (int i = 0; i < D; i++)
            n[i] = x[t * D + i] / rms * w[i];
        for (int i = 0; i < WIDE; i++) {
            double z = small_dot(gate + i * D, n, D);
            h[i] = z / (1 + exp(-z)) * small_dot(up + i * D, n, D);
        }
        for (int i = 0; i < D; i++)
            want[t * D + i] = x[t * D + i] + small_dot(down + i * WIDE, h, WIDE);
    }
    backend *be = c->be;
    const backend_ops *op = be->op;
    mat X = on_backend_put(be, x, ROWS, D, false), W = on_backend_put(be, w, 1, D, true),
        G = on_backend_put(be, gate, WIDE, D, false), U = on_backend_put(be, up, WIDE, D, false),
        N = on_backend_put(be, down, D, WIDE, false), n = on_backend_put(be, NULL, ROWS, D, false),
        g = on_backend_put(be, NULL, ROWS, WIDE, false),
        u = on_backend_put(be, NULL, ROWS, WIDE, false);
    if (be->fail.code == ERR_NONE) {
        op->rms_norm(be, X, W, 1e-6, n);
        op->linear(be, n, G, MAT_NONE, g);
        op->linear(be, n, U, MAT_NONE, u);
        op->multiply(be, g, ACT_SILU, u);
        op->linear(be, u, N, MAT_NONE, n);
        op->add(be, n, 1, X);
        op->read(be, X, got);
    }
    mat all[] = {X, W, G, U, N, n, g, u};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        op->free(be, all[i]);
    *error = relative(got, want, ROWS * D);
    return backend_check(be, e);
}

// R16: windowed softmax attention by a masked softmax over all pairs.
static bool sliding_window(const verify_case *c, double *error, err *e) {
    enum { N = 40, D = 16, WINDOW = 7 };
    double q[N * D], k[N * D], v[N * D], want[N * D] = {0}, got[N * D];
    uint64_t seed = c->env->seed + 16;
    small_normals(q, N * D, &seed);
    small_normals(k, N * D, &seed);
    small_normals(v, N * D, &seed);
    for (int t = 0; t < N; t++) {
        double sum = 0;
        for (int j = t - WINDOW + 1 < 0 ? 0 : t - WINDOW + 1; j <= t; j++) {
            double p = exp(small_dot(q + t * D, k + j * D, D) / sqrt(D));
            sum += p;
            for (int i = 0; i < D; i++)
                want[t * D + i] += p * v[j * D + i];
        }
        for (int i = 0; i < D; i++)
            want[t * D + i] /= sum;
    }
    backend *be = c->be;
    mat Q = on_backend_put(be, q, N, D, false), Kk = on_backend_put(be, k, N, D, false),
        Vv = on_backend_put(be, v, N, D, false), o = on_backend_put(be, NULL, N, D, false);
    if (be->fail.code == ERR_NONE) {
        be->op->attention(be, Q, Kk, Vv, D, 0, WINDOW, o);
        be->op->read(be, o, got);
    }
    mat all[] = {Q, Kk, Vv, o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    *error = relative(got, want, N * D);
    return backend_check(be, e);
}

// float64 loops of 48 tokens: 1e-12. float32: 48 tokens with rounding of 6e-8 each on states near 10.
#define LOOP 1e-12, 2e-5, own_loop
const check verify_recurrences[] = {
    {"R01", "linear attention against its own loop, 48 tokens", LOOP, 1},
    {"R02", "RetNet against its own loop", LOOP, 2},
    {"R03", "Mamba-2 against its own loop", LOOP, 3},
    {"R04", "GLA against its own loop", LOOP, 4},
    {"R05", "HGRN2 against its own loop", LOOP, 5},
    {"R06", "DeltaNet: erase and write, token by token", LOOP, 6},
    {"R07", "Gated DeltaNet: decay, then correct", LOOP, 7},
    {"R08", "KDA: decay per channel, then correct", LOOP, 8},
    {"R08", "KDA is not the form with the decay outside", 0, 0, wrong_forms, 8},
    {"R09", "RWKV-7 against the transposed row-state recursion", LOOP, 9},
    {"R09", "RWKV-7 is not the form with a and b swapped (E16)", 0, 0, wrong_forms, 9},
    {"R10", "Comba: the erase key reads the undecayed state", LOOP, 10},
    {"R11", "Longhorn against its implicit minimiser", LOOP, 11},
    {"R12", "DeltaProduct, n_h = 2", LOOP, 12},
    {"R13", "Gated DeltaProduct, n_h = 2, gate once a token", LOOP, 13},
    {"R14", "gradients of the losses are the updates", 1e-9, NAN, objectives, 0},
    {"R15", "RMSNorm, SwiGLU and residual by plain loops", 1e-12, 2e-5, layer_around, 0},
    {"R16", "sliding window against a masked softmax", 1e-12, 2e-5, sliding_window, 0},
};
const size_t n_verify_recurrences = sizeof verify_recurrences / sizeof *verify_recurrences;
