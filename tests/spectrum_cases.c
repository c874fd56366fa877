#include "tests/spectrum_cases.h"

#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next(rng *r) {
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double rng_uniform(rng *r) {
    return (double)(next(r) >> 11) * 0x1p-53;
}

double rng_normal(rng *r) {
    double u = 1 - rng_uniform(r), v = rng_uniform(r);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

void rng_unit(rng *r, double *v, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) {
        v[i] = rng_normal(r);
        s += v[i] * v[i];
    }
    for (int i = 0; i < n; i++)
        v[i] /= sqrt(s);
}

static double *zeros(size_t n) {
    double *p = calloc(n ? n : 1, sizeof *p);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        abort();
    }
    return p;
}

tcase case_new(transition_kind kind, transition_decay decay, int64_t T, int K, int n_h) {
    size_t n = (size_t)T, k = (size_t)K, h = (size_t)n_h;
    tcase c = {.x = {.kind = kind, .decay = decay, .T = T, .K = K, .n_h = n_h}};
    c.k = zeros(n * h * k);
    c.beta = zeros(n * h);
    c.a = zeros(n * k);
    c.b = zeros(n * k);
    c.g = zeros(n * k);
    c.x.k = c.k;
    c.x.beta = c.beta;
    c.x.a = c.a;
    c.x.b = c.b;
    c.x.g = c.g;
    return c;
}

tcase case_random(transition_decay decay, int64_t T, int K, int n_h, double top, uint64_t seed) {
    tcase c = case_new(TRANSITION_KEYS, decay, T, K, n_h);
    rng r = {seed};
    for (int64_t i = 0; i < T * n_h; i++) {
        rng_unit(&r, c.k + i * K, K);
        c.beta[i] = top * rng_uniform(&r);
    }
    int64_t n = decay == TDECAY_NONE ? 0 : decay == TDECAY_HEAD ? T : T * K;
    for (int64_t i = 0; i < n; i++)
        c.g[i] = -0.5 * rng_uniform(&r);
    return c;
}

void case_free(tcase *c) {
    free(c->k);
    free(c->beta);
    free(c->a);
    free(c->b);
    free(c->g);
}

// M <- F M
static void multiply(const double *F, double *M, int K) {
    size_t n = (size_t)K;
    double *out = zeros(n * n);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < n; c++)
            for (size_t j = 0; j < n; j++)
                out[i * n + j] += F[i * n + c] * M[c * n + j];
    memcpy(M, out, n * n * sizeof *M);
    free(out);
}

void case_product(const transitions *x, int64_t first, int64_t last, double *P) {
    size_t K = (size_t)x->K, n_h = (size_t)x->n_h;
    double *F = zeros(K * K);
    memset(P, 0, K * K * sizeof *P);
    for (size_t c = 0; c < K; c++)
        P[c * K + c] = 1;
    for (size_t t = (size_t)first; t <= (size_t)last; t++) {
        memset(F, 0, K * K * sizeof *F);
        for (size_t c = 0; c < K; c++)
            F[c * K + c] = x->decay == TDECAY_NONE   ? 1
                           : x->decay == TDECAY_HEAD ? exp(x->g[t])
                                                     : exp(x->g[t * K + c]);
        if (x->kind == TRANSITION_DPLR)
            for (size_t i = 0; i < K; i++)
                for (size_t j = 0; j < K; j++)
                    F[i * K + j] += x->a[t * K + i] * x->b[t * K + j];
        multiply(F, P, x->K);
        for (size_t h = 0; x->kind == TRANSITION_KEYS && h < n_h; h++) {
            const double *k = x->k + (t * n_h + h) * K;
            for (size_t i = 0; i < K; i++)
                for (size_t j = 0; j < K; j++)
                    F[i * K + j] = (i == j) - x->beta[t * n_h + h] * k[i] * k[j];
            multiply(F, P, x->K);
        }
    }
    free(F);
}

void matrix_svals(const double *M, int n, double *s) {
    size_t nn = (size_t)n * (size_t)n;
    double *copy = zeros(nn), *work = zeros((size_t)n);
    memcpy(copy, M, nn * sizeof *copy);
    if (LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'N', 'N', n, n, copy, n, s, NULL, 1, NULL, 1, work))
        s[0] = NAN;
    free(work);
    free(copy);
}

void matrix_eigs(const double *M, int n, double complex *eig) {
    size_t nn = (size_t)n * (size_t)n;
    double *copy = zeros(nn), *wr = zeros((size_t)n), *wi = zeros((size_t)n);
    memcpy(copy, M, nn * sizeof *copy);
    if (LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', n, copy, n, wr, wi, NULL, 1, NULL, 1))
        wr[0] = NAN;
    for (int i = 0; i < n; i++)
        eig[i] = CMPLX(wr[i], wi[i]);
    free(wi);
    free(wr);
    free(copy);
}

double matrix_diff(const double *A, const double *B, size_t n) {
    double d = 0;
    for (size_t i = 0; i < n; i++)
        d = fabs(A[i] - B[i]) > d || isnan(A[i] - B[i]) ? fabs(A[i] - B[i]) : d;
    return d;
}
