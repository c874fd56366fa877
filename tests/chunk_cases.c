#include "tests/chunk_cases.h"
#include "tests/spectrum_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double *numbers(int64_t rows, int64_t cols) {
    size_t n = (size_t)rows * (size_t)cols;
    double *p = calloc(n ? n : 1, sizeof *p);
    assert_non_null(p);
    return p;
}

static double pick_decay(rng *r, double kind) {
    static const double mixed[] = {-1e-6, -1, -50, -500, -INFINITY};
    if (kind == DECAY_RANDOM)
        return -2 * rng_uniform(r);
    if (kind == DECAY_MIXED) { // mostly weak: what survives must be right
        double u = rng_uniform(r);
        return u < 0.6 ? mixed[0] : mixed[1 + (int)((u - 0.6) * 10) % 4];
    }
    return kind;
}

static void fill_keys(const plan *p, rng *r, double *k, int64_t rows) {
    int K = p->s.K, Hk = p->s.Hk;
    double *base = numbers(Hk, K);
    for (int h = 0; h < Hk; h++)
        rng_unit(r, base + h * K, K);
    for (int64_t i = 0; i < rows * Hk; i++) {
        double *x = k + i * K, norm = 0;
        const double *common = base + i % Hk * K;
        rng_unit(r, x, K);
        for (int d = 0; d < K; d++) {
            if (p->keys == KEYS_SAME)
                x[d] = common[d];
            if (p->keys == KEYS_CORRELATED)
                x[d] = 3 * common[d] + x[d];
            if (p->keys == KEYS_ZERO && i / Hk % 3 == 1)
                x[d] = 0;
            norm += x[d] * x[d];
        }
        for (int d = 0; norm > 0 && d < K; d++)
            x[d] /= sqrt(norm);
    }
    free(base);
}

static void normals(rng *r, double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_normal(r);
}

static void round_all(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)x[i];
}

plan plan_of(int kind, int64_t T, int K, int V, int H, int Hk, int n_h) {
    erase_kind erase = (erase_kind)(kind / 3);
    return (plan){.s = {.H = H,
                        .Hk = Hk,
                        .K = K,
                        .V = V,
                        .n_h = erase == ERASE_PAIR ? 1 : n_h,
                        .decay = (decay_kind)(kind % 3),
                        .erase = erase,
                        .scale = 1 / sqrt((double)K),
                        .beta_max = 2},
                  .T = T,
                  .beta = BETA_RANDOM,
                  .decay = DECAY_RANDOM,
                  .keys = KEYS_RANDOM};
}

inputs inputs_new(plan p, uint64_t seed, bool rounded) {
    const head_shape *s = &p.s;
    int64_t T = p.T, M = T * s->n_h;
    int width = s->decay == DECAY_CHANNEL ? s->H * s->K : s->H;
    rng r = {seed};
    inputs x = {.p = p};
    x.q = numbers(T, s->Hk * s->K);
    x.k = numbers(M, s->Hk * s->K);
    x.v = numbers(M, s->H * s->V);
    x.beta = numbers(M, s->H);
    x.decay = numbers(T, width);
    x.a = numbers(T, s->H * s->K);
    x.b = numbers(T, s->Hk * s->K);
    x.state = numbers(s->H * s->K, s->V);
    normals(&r, x.q, T * s->Hk * s->K);
    normals(&r, x.v, M * s->H * s->V);
    normals(&r, x.state, (int64_t)s->H * s->K * s->V);
    fill_keys(&p, &r, x.k, M);
    for (int64_t i = 0; i < M * s->H; i++)
        x.beta[i] = p.beta == BETA_RANDOM ? 2 * rng_uniform(&r) : p.beta;
    for (int64_t i = 0; i < T * width; i++)
        x.decay[i] = pick_decay(&r, p.decay);
    // As in RWKV-7 (R09): b a unit vector, a = -(rates b), so that a and b are not parallel.
    fill_keys(&p, &r, x.b, T);
    for (int64_t t = 0; t < T; t++)
        for (int i = 0; i < s->H * s->K; i++) {
            int h = i / s->K, hk = h / (s->H / s->Hk);
            x.a[t * s->H * s->K + i] = -rng_uniform(&r) * x.b[(t * s->Hk + hk) * s->K + i % s->K];
        }
    if (rounded) {
        round_all(x.q, T * s->Hk * s->K);
        round_all(x.k, M * s->Hk * s->K);
        round_all(x.v, M * s->H * s->V);
        round_all(x.beta, M * s->H);
        round_all(x.decay, T * width);
        round_all(x.a, T * s->H * s->K);
        round_all(x.b, T * s->Hk * s->K);
        round_all(x.state, (int64_t)s->H * s->K * s->V);
    }
    return x;
}

void inputs_free(inputs *x) {
    double *all[] = {x->q, x->k, x->v, x->beta, x->decay, x->a, x->b, x->state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// One head's state H [K, V] through token t.
static void loop_token(const inputs *x, int h, int64_t t, double *H, double *read) {
    const head_shape *s = &x->p.s;
    int K = s->K, V = s->V, hk = h / (s->H / s->Hk);
    const double *b = x->b + (t * s->Hk + hk) * K, *a = x->a + (t * s->H + h) * K;
    memset(read, 0, (size_t)V * sizeof *read);
    if (s->erase == ERASE_PAIR)
        for (int i = 0; i < K; i++)
            for (int v = 0; v < V; v++)
                read[v] += b[i] * H[i * V + v];
    for (int i = 0; i < K; i++) {
        double w = s->decay == DECAY_NONE   ? 1
                   : s->decay == DECAY_HEAD ? exp(x->decay[t * s->H + h])
                                            : exp(x->decay[(t * s->H + h) * K + i]);
        for (int v = 0; v < V; v++)
            H[i * V + v] = w * H[i * V + v] + (s->erase == ERASE_PAIR ? a[i] * read[v] : 0);
    }
    for (int64_t m = t * s->n_h; m < (t + 1) * s->n_h; m++) {
        const double *k = x->k + (m * s->Hk + hk) * K, *val = x->v + (m * s->H + h) * V;
        double beta = x->beta[m * s->H + h];
        memset(read, 0, (size_t)V * sizeof *read);
        if (s->erase == ERASE_KEY)
            for (int i = 0; i < K; i++)
                for (int v = 0; v < V; v++)
                    read[v] += k[i] * H[i * V + v];
        for (int i = 0; i < K; i++)
            for (int v = 0; v < V; v++)
                H[i * V + v] += beta * k[i] * (val[v] - read[v]);
    }
}

void inputs_loop(const inputs *x, double *o, double *state) {
    const head_shape *s = &x->p.s;
    int K = s->K, V = s->V;
    double *read = numbers(1, V);
    memcpy(state, x->state, sizeof *state * (size_t)s->H * (size_t)K * (size_t)V);
    for (int h = 0; h < s->H; h++)
        for (int64_t t = 0; t < x->p.T; t++) {
            double *H = state + (int64_t)h * K * V, *out = o + (t * s->H + h) * V;
            const double *q = x->q + (t * s->Hk + h / (s->H / s->Hk)) * K;
            loop_token(x, h, t, H, read);
            memset(out, 0, (size_t)V * sizeof *out);
            for (int i = 0; i < K; i++)
                for (int v = 0; v < V; v++)
                    out[v] += s->scale * q[i] * H[i * V + v];
        }
    free(read);
}

enum { GAP = 3, MORE_ROWS = 2 };

// All bits set is a NaN in either precision.
static mat among_nans(backend *be, const double *from, int64_t rows, int64_t cols, int gap) {
    size_t bytes = (size_t)(rows + MORE_ROWS) * (size_t)(cols + gap) * (size_t)be->esize;
    mat m = {malloc(bytes), rows, cols, cols + gap, be->esize};
    assert_non_null(m.p);
    memset(m.p, 0xff, bytes);
    if (from)
        be->op->write(be, from, m);
    return m;
}

static void assert_gaps_intact(mat m) {
    const unsigned char *p = m.p;
    int64_t line = m.ld * m.esize, used = m.cols * m.esize, written = 0;
    for (int64_t i = 0; i < m.rows + MORE_ROWS; i++)
        for (int64_t c = i < m.rows ? used : 0; c < line; c++)
            written += p[i * line + c] != 0xff;
    assert_int_equal(written, 0);
}

void inputs_run(const inputs *x, backend *be, recurrence_form form, const int64_t *cuts, int n_cuts,
                double *o, double *state) {
    const head_shape *p = &x->p.s;
    int64_t T = x->p.T, M = T * p->n_h, n_h = p->n_h;
    bool pair = p->erase == ERASE_PAIR, none = p->decay == DECAY_NONE;
    int width = p->decay == DECAY_CHANNEL ? p->H * p->K : p->H;
    mat q = among_nans(be, x->q, T, p->Hk * p->K, GAP);
    mat k = among_nans(be, x->k, M, p->Hk * p->K, GAP);
    mat v = among_nans(be, x->v, M, p->H * p->V, GAP);
    mat beta = among_nans(be, x->beta, M, p->H, GAP);
    mat decay = none ? MAT_NONE : among_nans(be, x->decay, T, width, GAP);
    mat a = pair ? among_nans(be, x->a, T, p->H * p->K, GAP) : MAT_NONE;
    mat b = pair ? among_nans(be, x->b, T, p->Hk * p->K, GAP) : MAT_NONE;
    mat S = among_nans(be, x->state, p->H * p->K, p->V, 0);
    mat out = among_nans(be, NULL, T, p->H * p->V, GAP);
    be->recurrence = form;
    int64_t from = 0;
    for (int i = 0; i <= n_cuts; i++) {
        int64_t n = (i < n_cuts ? cuts[i] : T) - from;
        steps s = {.s = *p,
                   .T = n,
                   .q = mat_rows(q, from, n),
                   .k = mat_rows(k, from * n_h, n * n_h),
                   .v = mat_rows(v, from * n_h, n * n_h),
                   .beta = mat_rows(beta, from * n_h, n * n_h),
                   .decay = none ? decay : mat_rows(decay, from, n),
                   .a = pair ? mat_rows(a, from, n) : a,
                   .b = pair ? mat_rows(b, from, n) : b};
        be->op->recurrence(be, &s, S, mat_rows(out, from, n));
        from += n;
    }
    err e = {0};
    assert_true(backend_check(be, &e));
    assert_gaps_intact(out);
    assert_gaps_intact(S);
    be->op->read(be, out, o);
    be->op->read(be, S, state);
    mat all[] = {q, k, v, beta, decay, a, b, S, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i].p);
}

double error_all(const double *a, const double *ref, size_t n) {
    double d = 0, r = 0;
    for (size_t i = 0; i < n; i++) {
        d += (a[i] - ref[i]) * (a[i] - ref[i]);
        r += ref[i] * ref[i];
    }
    return r > 0 ? sqrt(d / r) : sqrt(d);
}

double error_row(const double *a, const double *ref, size_t rows, size_t cols) {
    double total = 0, worst = 0;
    for (size_t i = 0; i < rows * cols; i++)
        total += ref[i] * ref[i];
    double floor = 1e-3 * sqrt(total / (double)(rows ? rows : 1));
    for (size_t r = 0; r < rows; r++) {
        double d = 0, n = 0;
        for (size_t c = r * cols; c < (r + 1) * cols; c++) {
            d += (a[c] - ref[c]) * (a[c] - ref[c]);
            n += ref[c] * ref[c];
        }
        double scale = fmax(sqrt(n), floor), e = scale > 0 ? sqrt(d) / scale : sqrt(d);
        worst = e > worst || e != e ? e : worst;
    }
    return worst;
}
