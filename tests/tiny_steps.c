#include "tests/tiny_steps.h"

#include "kernels/cpu/cpu.h"
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

static double *unit_vectors(int64_t count, int K, uint64_t *seed) {
    double *x = zeros(count * K);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int j = 0; j < K; j++) {
            x[i * K + j] = tiny_normal(seed);
            sum += x[i * K + j] * x[i * K + j];
        }
        for (int j = 0; j < K; j++)
            x[i * K + j] = (float)(x[i * K + j] / sqrt(sum));
    }
    return x;
}

static double *normals(int64_t n, uint64_t *seed) {
    double *x = zeros(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)tiny_normal(seed);
    return x;
}

static double *uniforms(int64_t n, double lo, double hi, uint64_t *seed) {
    double *x = zeros(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(lo + (hi - lo) * (tiny_uniform(seed) + 1) / 2);
    return x;
}

tiny_steps tiny_steps_new(head_shape s, int64_t T, uint64_t seed) {
    int64_t micro = T * s.n_h;
    s.scale = s.scale == 0 ? 1 / sqrt((double)s.K) : s.scale;
    s.beta_max = s.beta_max == 0 ? 2 : s.beta_max;
    tiny_steps x = {.s = s, .T = T};
    x.q = unit_vectors(T * s.Hk, s.K, &seed);
    x.k = unit_vectors(micro * s.Hk, s.K, &seed);
    x.v = normals(micro * s.H * s.V, &seed);
    x.beta = uniforms(micro * s.H, 0, s.beta_max, &seed);
    if (s.decay != DECAY_NONE)
        x.decay = uniforms(T * s.H * (s.decay == DECAY_CHANNEL ? s.K : 1), -1, 0, &seed);
    if (s.erase == ERASE_PAIR) {
        x.a = unit_vectors(T * s.H, s.K, &seed);
        for (int64_t i = 0; i < T * s.H * s.K; i++)
            x.a[i] *= -0.5;
        x.b = unit_vectors(T * s.Hk, s.K, &seed);
    }
    x.start = normals((int64_t)s.H * s.K * s.V, &seed);
    x.o = zeros(T * s.H * s.V);
    x.end = zeros((int64_t)s.H * s.K * s.V);
    return x;
}

void tiny_steps_free(tiny_steps *x) {
    double *all[] = {x->q, x->k, x->v, x->beta, x->decay, x->a, x->b, x->start, x->o, x->end};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// r = S^T x
static void read_out(const double *S, const double *x, int K, int V, double *r) {
    for (int c = 0; c < V; c++)
        r[c] = 0;
    for (int i = 0; i < K; i++)
        for (int c = 0; c < V; c++)
            r[c] += x[i] * S[i * V + c];
}

static void one_token(const tiny_steps *x, int h, int64_t t, double *S, double *r) {
    const head_shape *s = &x->s;
    int K = s->K, V = s->V, hk = h / (s->H / s->Hk);
    if (s->erase == ERASE_PAIR)
        read_out(S, x->b + (t * s->Hk + hk) * K, K, V, r);
    for (int i = 0; i < K; i++) {
        double g = !x->decay                   ? 1
                   : s->decay == DECAY_CHANNEL ? exp(x->decay[(t * s->H + h) * K + i])
                                               : exp(x->decay[t * s->H + h]);
        for (int c = 0; c < V; c++)
            S[i * V + c] *= g;
    }
    for (int i = 0; s->erase == ERASE_PAIR && i < K; i++)
        for (int c = 0; c < V; c++)
            S[i * V + c] += x->a[(t * s->H + h) * K + i] * r[c];
    for (int j = 0; j < s->n_h; j++) {
        int64_t m = t * s->n_h + j;
        const double *k = x->k + (m * s->Hk + hk) * K, *v = x->v + (m * s->H + h) * V;
        double beta = x->beta ? x->beta[m * s->H + h] : 1;
        memset(r, 0, (size_t)V * sizeof *r);
        if (s->erase == ERASE_KEY)
            read_out(S, k, K, V, r);
        for (int i = 0; i < K; i++)
            for (int c = 0; c < V; c++)
                S[i * V + c] += beta * k[i] * (v[c] - r[c]);
    }
}

void tiny_steps_loop(tiny_steps *x) {
    const head_shape *s = &x->s;
    double *r = zeros(s->V);
    memcpy(x->end, x->start, (size_t)(s->H * s->K * s->V) * sizeof *r);
    for (int h = 0; h < s->H; h++) {
        double *S = x->end + (int64_t)h * s->K * s->V;
        for (int64_t t = 0; t < x->T; t++) {
            one_token(x, h, t, S, r);
            read_out(S, x->q + (t * s->Hk + h / (s->H / s->Hk)) * s->K, s->K, s->V, r);
            for (int c = 0; c < s->V; c++)
                x->o[(t * s->H + h) * s->V + c] = s->scale * r[c];
        }
    }
    free(r);
}

static mat put(backend *be, const double *from, int64_t rows, int64_t cols) {
    if (!from)
        return MAT_NONE;
    mat m = be->op->alloc(be, rows, cols);
    be->op->write(be, from, m);
    return m;
}

static mat part(mat m, int64_t first, int64_t n) {
    return mat_none(m) ? m : mat_rows(m, first, n);
}

void tiny_steps_kernel(tiny_steps *x, precision p, int64_t block) {
    const head_shape *s = &x->s;
    err e = {0};
    backend *be = cpu_open(p, 1, &e);
    assert_non_null(be);
    int64_t T = x->T, micro = T * s->n_h, width = (int64_t)s->H * s->V;
    mat q = put(be, x->q, T, (int64_t)s->Hk * s->K), k = put(be, x->k, micro, q.cols);
    mat v = put(be, x->v, micro, width), beta = put(be, x->beta, micro, s->H);
    mat decay = put(be, x->decay, T, (int64_t)s->H * (s->decay == DECAY_CHANNEL ? s->K : 1));
    mat a = put(be, x->a, T, (int64_t)s->H * s->K), b = put(be, x->b, T, q.cols);
    mat S = put(be, x->start, (int64_t)s->H * s->K, s->V), o = be->op->alloc(be, T, width);
    for (int64_t t = 0; t < T; t += block) {
        int64_t n = T - t < block ? T - t : block;
        steps st = {.s = *s,
                    .T = n,
                    .q = part(q, t, n),
                    .k = part(k, t * s->n_h, n * s->n_h),
                    .v = part(v, t * s->n_h, n * s->n_h),
                    .beta = part(beta, t * s->n_h, n * s->n_h),
                    .decay = part(decay, t, n),
                    .a = part(a, t, n),
                    .b = part(b, t, n)};
        be->op->recurrence(be, &st, S, part(o, t, n));
    }
    be->op->read(be, S, x->end);
    be->op->read(be, o, x->o);
    if (!backend_check(be, &e))
        fail_msg("%s", e.text);
    mat all[] = {q, k, v, beta, decay, a, b, S, o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->op->free(be, all[i]);
    backend_close(be);
}

double tiny_difference(const double *a, const double *b, int64_t n) {
    double top = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        if (isnan(d))
            return NAN;
        worst = fmax(worst, d);
        top = fmax(top, fabs(a[i]));
    }
    return top > 0 ? worst / top : worst;
}

double tiny_steps_error(tiny_steps *x, precision p, int64_t block) {
    int64_t no = x->T * x->s.H * x->s.V, ne = (int64_t)x->s.H * x->s.K * x->s.V;
    double *o = zeros(no), *end = zeros(ne);
    tiny_steps_loop(x);
    memcpy(o, x->o, (size_t)no * sizeof *o);
    memcpy(end, x->end, (size_t)ne * sizeof *end);
    tiny_steps_kernel(x, p, block);
    double a = tiny_difference(o, x->o, no), b = tiny_difference(end, x->end, ne);
    free(o);
    free(end);
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}
