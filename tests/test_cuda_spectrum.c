// Window spectra and Lyapunov exponents, many at a time on a GPU (kernels/cuda/windows.cu), against
// LAPACKE on products that are multiplied out (windows) and against the CPU, which its own tests check
// (exponents). Needs build/tests/deltop-cuda.so and a device; skips without.
#include "tests/cuda_pair.h"
#include "tests/eigen_match.h"
#include "tests/spectrum_cases.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

enum { MOST_JOBS = 256 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// One head, or several that are alike.
typedef struct heads {
    tcase c[8];
    int n, K;
} heads;

static heads heads_new(transition_kind kind, transition_decay decay, int n, int64_t T, int K,
                       int n_h) {
    heads h = {.n = n, .K = K};
    for (int i = 0; i < n; i++) {
        uint64_t seed = (uint64_t)(K * 100 + n_h * 10 + i);
        if (kind == TRANSITION_KEYS) {
            h.c[i] = case_random(decay, T, K, n_h, 2, seed);
            continue;
        }
        h.c[i] = case_new(kind, decay, T, K, n_h);
        rng r = {seed};
        for (int64_t j = 0; j < T * K; j++) {
            h.c[i].a[j] = rng_normal(&r) / K;
            h.c[i].b[j] = rng_normal(&r);
        }
        int64_t wide = decay == TDECAY_CHANNEL ? K : decay == TDECAY_HEAD ? 1 : 0;
        for (int64_t j = 0; j < T * wide; j++)
            h.c[i].g[j] = -0.1 * rng_uniform(&r);
    }
    return h;
}

static void heads_free(heads *h) {
    for (int i = 0; i < h->n; i++)
        case_free(&h->c[i]);
}

typedef struct batch {
    window_job job[MOST_JOBS];
    window_facts facts[MOST_JOBS];
    complex_f64 *eig; // [MOST_JOBS][K]
    int n;
} batch;

static void batch_add(batch *b, const heads *h, int head, int64_t last, int64_t W) {
    assert_true(b->n < MOST_JOBS);
    int64_t at = (int64_t)b->n * h->K;
    for (int i = 0; i < h->K; i++)
        b->eig[at + i] = NAN; // what is not written must not pass
    b->job[b->n] = (window_job){
        .x = &h->c[head].x, .last = last, .W = W, .eig = b->eig + at, .facts = &b->facts[b->n]};
    b->n++;
}

// Eigenvalues in units of what dgeev itself is good for, eps |P|_2 times their condition; the rest
// relative. The product is multiplied out from whole matrices.
static void compare(const heads *h, const batch *b, const char *name) {
    int K = h->K;
    double *P = malloc((size_t)K * (size_t)K * sizeof *P), *s = malloc((size_t)K * sizeof *s);
    double *cond = malloc((size_t)K * sizeof *cond), *unit = malloc((size_t)K * sizeof *unit);
    complex_f64 *want = malloc((size_t)K * sizeof *want);
    double worst = 0, norm = 0, asymmetry = 0, det = 0;
    assert_true(P && s && cond && unit && want);
    for (int i = 0; i < b->n; i++) {
        const window_job *j = &b->job[i];
        window_facts f;
        err e = {0};
        assert_true(j->done);
        case_product(j->x, j->last - j->W + 1, j->last, P);
        matrix_svals(P, K, s);
        // The oracle: LAPACKE dgeevx on the product, with condition numbers.
        assert_true(spectrum_window_dense(j->x, j->last, j->W, want, cond, &f, &e));
        for (int k = 0; k < K; k++)
            unit[k] = 1e-14 * s[0] * (1 + cond[k]);
        worst = worse(worst, eigen_match(j->eig, want, unit, K));
        norm = worse(norm, fabs(j->facts->norm2 / s[0] - 1));
        asymmetry = worse(asymmetry, fabs(j->facts->asymmetry - f.asymmetry));
        if (isfinite(f.logabsdet))
            det = worse(det, fabs(j->facts->logabsdet - f.logabsdet));
        assert_true(j->facts->log_scale == 0 && f.log_scale == 0);
        assert_int_equal(j->facts->frozen, f.frozen);
    }
    printf("measured %s: %d windows, eigenvalues %.2g (of 1e-14 |P| (1 + condition)), norm %.2g, "
           "asymmetry %.2g, ln det %.2g\n",
           name, b->n, worst, norm, asymmetry, det);
    // 100: rounding of the product, of K x K sums in another order, and of the QR iterations.
    assert_true(worst < 100 && norm < 1e-12 && asymmetry < 1e-12 && det < 1e-9);
    free(P);
    free(s);
    free(cond);
    free(unit);
    free(want);
}

static void windows(backend *be, transition_kind kind, transition_decay decay, int K, int n_h,
                    const int64_t *W, int n_W) {
    heads h = heads_new(kind, decay, 2, 150, K, n_h);
    batch b = {.eig = malloc(MOST_JOBS * (size_t)K * sizeof *b.eig)};
    err e = {0};
    char name[96];
    assert_non_null(b.eig);
    for (int w = 0; w < n_W; w++)
        for (int head = 0; head < 2; head++) {
            batch_add(&b, &h, head, W[w] - 1, W[w]);
            batch_add(&b, &h, head, 149, W[w]);
        }
    if (!be->op->window_spectra(be, b.job, b.n, &e))
        fail_msg("%s", e.text);
    snprintf(name, sizeof name, "K %d n_h %d %s decay %d", K, n_h,
             kind == TRANSITION_KEYS ? "keys" : "pairs", (int)decay);
    compare(&h, &b, name);
    free(b.eig);
    heads_free(&h);
}

static void windows_match_lapack(void **state) {
    (void)state;
    backend *be = cuda_or_skip(PRECISION_F32);
    const int64_t W[] = {1, 2, 3, 7, 16, 31, 32, 64, 100, 150};
    windows(be, TRANSITION_KEYS, TDECAY_NONE, 16, 1, W, 10);
    windows(be, TRANSITION_KEYS, TDECAY_HEAD, 24, 2, W, 10);
    windows(be, TRANSITION_KEYS, TDECAY_CHANNEL, 33, 1, W, 10);
    windows(be, TRANSITION_KEYS, TDECAY_HEAD, 64, 3, W, 10);
    windows(be, TRANSITION_KEYS, TDECAY_NONE, 128, 2, W, 10);
    windows(be, TRANSITION_KEYS, TDECAY_HEAD, 200, 1, W, 6);
    windows(be, TRANSITION_DPLR, TDECAY_CHANNEL, 64, 1, W, 8);
    windows(be, TRANSITION_DPLR, TDECAY_NONE, 16, 1, W, 4);
    windows(be, TRANSITION_KEYS, TDECAY_NONE, 1, 1, W, 3);
    backend_close(be);
}

// The same key twice with beta = 2 gives the identity (K03); beta = 0 too; one key many times; a zero key.
static void hard_windows_match_lapack(void **state) {
    (void)state;
    backend *be = cuda_or_skip(PRECISION_F32);
    enum { K = 32, T = 48 };
    for (int what = 0; what < 4; what++) {
        heads h = heads_new(TRANSITION_KEYS, TDECAY_NONE, 1, T, K, 1);
        tcase *c = &h.c[0];
        for (int t = 0; t < T; t++) {
            c->beta[t] = what == 0 ? 2 : what == 1 ? 0 : what == 2 ? 1.5 : c->beta[t];
            for (int i = 0; i < K; i++)
                c->k[t * K + i] = what == 0                 ? c->k[t / 2 * 2 * K + i]
                                  : what == 2               ? c->k[i]
                                  : what == 3 && t % 3 == 0 ? 0
                                                            : c->k[t * K + i];
        }
        batch b = {.eig = malloc(MOST_JOBS * (size_t)K * sizeof *b.eig)};
        err e = {0};
        assert_non_null(b.eig);
        for (int64_t W = 1; W <= 48; W += W < 4 ? 1 : 11)
            batch_add(&b, &h, 0, 47, W);
        if (!be->op->window_spectra(be, b.job, b.n, &e))
            fail_msg("%s", e.text);
        compare(&h, &b,
                what == 0   ? "keys twice"
                : what == 1 ? "beta 0"
                : what == 2 ? "one key"
                            : "zero keys");
        free(b.eig);
        heads_free(&h);
    }
    backend_close(be);
}

// What the CPU has words for stays undone: a wiped token, NaN, a window before the row.
static void special_windows_are_left(void **state) {
    (void)state;
    backend *be = cuda_or_skip(PRECISION_F32);
    heads h = heads_new(TRANSITION_KEYS, TDECAY_HEAD, 2, 20, 16, 1);
    batch b = {.eig = malloc(MOST_JOBS * 16 * sizeof *b.eig)};
    err e = {0};
    assert_non_null(b.eig);
    h.c[0].g[5] = -INFINITY;
    h.c[1].k[9 * 16 + 3] = NAN;
    batch_add(&b, &h, 0, 10, 8);  // holds the wiped token
    batch_add(&b, &h, 0, 19, 10); // does not
    batch_add(&b, &h, 1, 10, 4);  // holds the NaN
    batch_add(&b, &h, 1, 8, 9);
    batch_add(&b, &h, 1, 8, 12); // begins before the row
    assert_true(be->op->window_spectra(be, b.job, b.n, &e));
    assert_false(b.job[0].done);
    assert_true(b.job[1].done);
    assert_false(b.job[2].done);
    assert_true(b.job[3].done);
    assert_false(b.job[4].done);
    double y[16];
    lyapunov_job l = {.x = &h.c[0].x, .first = 0, .n = 20, .exponents = y};
    assert_true(be->op->lyapunov_spectra(be, &l, 1, &e));
    assert_false(l.done);
    free(b.eig);
    heads_free(&h);
    backend_close(be);
}

static void exponents_match_the_cpu(void **state) {
    (void)state;
    backend *be = cuda_or_skip(PRECISION_F32);
    const struct {
        transition_kind kind;
        transition_decay decay;
        int K, n_h, T;
    } at[] = {
        {TRANSITION_KEYS, TDECAY_NONE, 16, 1, 400},    {TRANSITION_KEYS, TDECAY_HEAD, 33, 2, 200},
        {TRANSITION_KEYS, TDECAY_CHANNEL, 64, 1, 200}, {TRANSITION_KEYS, TDECAY_NONE, 128, 2, 300},
        {TRANSITION_DPLR, TDECAY_CHANNEL, 64, 1, 150}, {TRANSITION_KEYS, TDECAY_HEAD, 1, 1, 50}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        int K = at[i].K;
        heads h = heads_new(at[i].kind, at[i].decay, 2, at[i].T, K, at[i].n_h);
        double *got = malloc(2 * (size_t)K * sizeof *got), *want = malloc((size_t)K * sizeof *want);
        lyapunov_job job[2];
        err e = {0};
        double worst = 0;
        assert_true(got && want);
        for (int j = 0; j < 2; j++)
            job[j] = (lyapunov_job){
                .x = &h.c[j].x, .first = 3 * j, .n = at[i].T - 7 * j, .exponents = got + j * K};
        if (!be->op->lyapunov_spectra(be, job, 2, &e))
            fail_msg("%s", e.text);
        for (int j = 0; j < 2; j++) {
            assert_true(job[j].done);
            assert_true(spectrum_lyapunov(job[j].x, job[j].first, job[j].n, want, &e));
            for (int k = 0; k < K; k++)
                worst =
                    fmax(worst, isnan(got[j * K + k]) ? INFINITY : fabs(got[j * K + k] - want[k]));
        }
        printf("measured exponents K %d n_h %d kind %d decay %d: error %.2g nats a token\n", K,
               at[i].n_h, (int)at[i].kind, (int)at[i].decay, worst);
        // |R_ii| is right to eps e^9 = 2e-12 each time.
        assert_true(worst < 1e-11);
        free(got);
        free(want);
        heads_free(&h);
    }
    backend_close(be);
}

// One layer of a model: 8 heads, windows of 128 tokens at 31 places and exponents over 2048 tokens, on the
// device and, a few of them, on the host.
static void rates_are_measured(void **state) {
    (void)state;
    backend *be = cuda_or_skip(PRECISION_F32);
    enum { K = 128, T = 2048, PLACES = 31 };
    heads h = heads_new(TRANSITION_KEYS, TDECAY_HEAD, 8, T, K, 2);
    batch b = {.eig = malloc(MOST_JOBS * (size_t)K * sizeof *b.eig)};
    err e = {0};
    assert_non_null(b.eig);
    for (int head = 0; head < 8; head++)
        for (int i = 0; i < PLACES; i++)
            batch_add(&b, &h, head, 200 + 50 * i, 128);
    double took = 0;
    for (int pass = 0; pass < 2; pass++) {
        double start = seconds();
        assert_true(be->op->window_spectra(be, b.job, b.n, &e));
        took = seconds() - start;
    }
    double start = seconds();
    window_facts f;
    for (int i = 0; i < 4; i++)
        assert_true(spectrum_window(b.job[i].x, b.job[i].last, 128, b.eig, NULL, &f, &e));
    double host = (seconds() - start) / 4;
    printf(
        "measured %d windows of 128 tokens, K 128, n_h 2: %.4f s on the device, %.2f ms each; %.2f "
        "ms each on one core\n",
        b.n, took, 1e3 * took / b.n, 1e3 * host);
    static double y[8 * K];
    lyapunov_job job[8];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 8; i++)
            job[i] = (lyapunov_job){.x = &h.c[i].x, .n = T, .exponents = y + i * K};
        start = seconds();
        assert_true(be->op->lyapunov_spectra(be, job, 8, &e));
        took = seconds() - start;
    }
    start = seconds();
    assert_true(spectrum_lyapunov(&h.c[0].x, 0, T / 8, y, &e));
    host = (seconds() - start) * 8;
    printf("measured exponents of 8 heads over 2048 tokens: %.4f s on the device; %.2f s a head on "
           "one core\n",
           took, host);
    free(b.eig);
    heads_free(&h);
    backend_close(be);
}

int main(int argc, char **argv) {
    if (argc > 1) // one test alone (scripts/gpu_check.sh)
        cmocka_set_test_filter(argv[1]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_match_lapack),     cmocka_unit_test(hard_windows_match_lapack),
        cmocka_unit_test(special_windows_are_left), cmocka_unit_test(exponents_match_the_cpu),
        cmocka_unit_test(rates_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
