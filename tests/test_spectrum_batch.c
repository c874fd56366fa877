// What a device that solves many spectra shares with the CPU (kernels/spectrum_batch.h), without a
// device: LAPACK and a plain Gram-Schmidt stand in for it.
#include "kernels/spectrum_batch.h"
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
#include <string.h>

#include <cmocka.h>

enum { K = 12, T = 30 };

// The raw numbers of a window from the product of its factors alone, 2^exponent out.
static window_raw raw_of(const tcase *c, int64_t last, int64_t W, int exponent, double *re,
                         double *im) {
    static double P[K * K], s[K];
    complex_f64 eig[K];
    case_product(&c->x, last - W + 1, last, P);
    // Scalar decays and the largest of each token's channel decays are not in it.
    double left = 0;
    for (int64_t t = last - W + 1; t <= last && c->x.decay != TDECAY_NONE; t++) {
        double most = -INFINITY;
        int64_t wide = c->x.decay == TDECAY_HEAD ? 1 : K;
        for (int64_t i = 0; i < wide; i++)
            most = fmax(most, c->x.g[t * wide + i]);
        left += most;
    }
    double factor = ldexp(exp(-left), -exponent);
    window_raw r = {.n = K, .re = re, .im = im, .exponent = exponent};
    for (int i = 0; i < K * K; i++)
        P[i] *= factor;
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            double d = P[i * K + j] - P[j * K + i];
            r.skew += d * d;
            r.all += P[i * K + j] * P[i * K + j];
        }
    matrix_svals(P, K, s);
    matrix_eigs(P, K, eig);
    r.norm2 = s[0];
    for (int i = 0; i < K; i++) {
        re[i] = creal(eig[i]);
        im[i] = cimag(eig[i]);
    }
    return r;
}

static void raw_windows_become_answers(void **state) {
    (void)state;
    double worst = 0, facts_worst = 0;
    for (int decay = 0; decay < 3; decay++) {
        tcase c = case_random((transition_decay)decay, T, K, 2, 2, 7);
        complex_f64 eig[2][K], want[K];
        window_facts facts[2], f;
        double re[2][K], im[2][K];
        window_job job[2];
        window_raw raw[2];
        err e = {0};
        const int64_t W[2] = {6, 20}, last[2] = {9, 29};
        for (int i = 0; i < 2; i++) {
            job[i] = (window_job){
                .x = &c.x, .last = last[i], .W = W[i], .eig = eig[i], .facts = &facts[i]};
            assert_int_equal(window_suits(&c.x, last[i], W[i]), K);
            raw[i] = raw_of(&c, last[i], W[i], i ? -7 : 3, re[i], im[i]);
        }
        assert_true(windows_finish(job, raw, 2, &e));
        for (int i = 0; i < 2; i++) {
            assert_true(job[i].done);
            assert_true(spectrum_window_dense(&c.x, last[i], W[i], want, NULL, &f, &e));
            worst = worse(worst, eigen_match(eig[i], want, NULL, K));
            facts_worst = worse(facts_worst, fabs(facts[i].norm2 / f.norm2 - 1));
            facts_worst = worse(facts_worst, fabs(facts[i].asymmetry - f.asymmetry));
            facts_worst = worse(facts_worst, fabs(facts[i].logabsdet - f.logabsdet));
            assert_true(facts[i].radius == cabs(eig[i][0]) && facts[i].frozen == f.frozen);
        }
        // A window that was not solved stays undone.
        job[0].done = false;
        raw[0].n = 0;
        assert_true(windows_finish(job, raw, 1, &e));
        assert_false(job[0].done);
        case_free(&c);
    }
    printf("measured raw windows: eigenvalues %.2g, facts %.2g\n", worst, facts_worst);
    assert_true(worst < 1e-13 && facts_worst < 1e-12); // products in two orders, |P| <= 1
}

// A core of one factor: K - 1 frozen eigenvalues beside 1 - beta.
static void frozen_directions_are_put_back(void **state) {
    (void)state;
    tcase c = case_random(TDECAY_HEAD, T, K, 1, 2, 3);
    double along = 1 - c.beta[4], zero = 0, scaled = along / 8;
    complex_f64 eig[K];
    window_facts f;
    err e = {0};
    window_job job = {.x = &c.x, .last = 4, .W = 1, .eig = eig, .facts = &f};
    assert_int_equal(window_suits(&c.x, 4, 1), 1);
    window_raw raw = {.n = 1,
                      .re = &scaled,
                      .im = &zero,
                      .norm2 = fabs(scaled),
                      .all = scaled * scaled,
                      .exponent = 3};
    assert_true(windows_finish(&job, &raw, 1, &e) && job.done);
    double g = exp(c.g[4]), worst = fabs(f.norm2 / (g * fmax(1, fabs(along))) - 1);
    int at_g = 0;
    for (int i = 0; i < K; i++)
        at_g += cabs(eig[i] - g) < 1e-14;
    printf("measured one factor: norm %.2g, %d of %d frozen\n", worst, at_g, K - 1);
    assert_true(worst < 1e-14 && at_g >= K - 1 && f.frozen == K - 1);
    case_free(&c);
}

static void what_is_special_does_not_suit(void **state) {
    (void)state;
    tcase c = case_random(TDECAY_HEAD, T, K, 1, 2, 3);
    assert_int_equal(window_suits(&c.x, 3, 5), 0);  // begins before the row
    assert_int_equal(window_suits(&c.x, T, 5), 0);  // ends behind it
    assert_int_equal(window_suits(&c.x, 10, 5), 5); // short: its core
    assert_int_equal(window_suits(&c.x, 20, K), K);
    c.g[9] = -INFINITY;
    assert_int_equal(window_suits(&c.x, 10, 5), 0); // wiped
    c.g[9] = NAN;
    assert_int_equal(window_suits(&c.x, 10, 5), 0);
    double y[K];
    lyapunov_job job = {.x = &c.x, .n = T, .exponents = y};
    lyapunov_plan plan;
    assert_false(lyapunov_plan_make(&job, &plan));
    c.g[9] = -0.1;
    assert_true(lyapunov_plan_make(&job, &plan));
    lyapunov_plan_free(&plan);
    for (int i = 0; i < K; i++) // beta |k|^2 = 1 exactly: a direction is annihilated
        c.k[12 * K + i] = i == 0;
    c.beta[12] = 1;
    assert_false(lyapunov_plan_make(&job, &plan));
    c.x.kind = TRANSITION_DIAGONAL;
    assert_int_equal(window_suits(&c.x, 20, K), 0);
    c.x.kind = TRANSITION_KEYS;
    case_free(&c);
}

// Q += s a (b^T Q)
static void rank1(double *Q, double s, const double *a, const double *b) {
    for (int j = 0; j < K; j++) {
        double x = 0;
        for (int i = 0; i < K; i++)
            x += b[i] * Q[i * K + j];
        for (int i = 0; i < K; i++)
            Q[i * K + j] += s * a[i] * x;
    }
}

// Gram-Schmidt, twice.
static void plain_qr(double *Q, double *growth) {
    for (int j = 0; j < K; j++) {
        double norm = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int l = 0; l < j; l++) {
                double dot = 0;
                for (int i = 0; i < K; i++)
                    dot += Q[i * K + l] * Q[i * K + j];
                for (int i = 0; i < K; i++)
                    Q[i * K + j] -= dot * Q[i * K + l];
            }
        for (int i = 0; i < K; i++)
            norm += Q[i * K + j] * Q[i * K + j];
        norm = sqrt(norm);
        growth[j] += log(norm);
        for (int i = 0; i < K; i++)
            Q[i * K + j] /= norm;
    }
}

static void plans_give_the_exponents(void **state) {
    (void)state;
    double worst = 0;
    for (int what = 0; what < 4; what++) { // three decays of keys, a DPLR
        tcase c = what < 3 ? case_random((transition_decay)what, T, K, 2, 2, 11)
                           : case_new(TRANSITION_DPLR, TDECAY_CHANNEL, T, K, 1);
        rng r = {5};
        for (int i = 0; what == 3 && i < T * K; i++) {
            c.a[i] = rng_normal(&r) / K;
            c.b[i] = rng_normal(&r);
            c.g[i] = -rng_uniform(&r);
        }
        if (what == 2) // far apart: the token is cut into pieces
            for (int i = 0; i < K; i++)
                c.g[5 * K + i] = -3.0 * i;
        static double Q[K * K];
        double growth[K] = {0}, got[K], want[K];
        lyapunov_job job = {.x = &c.x, .first = 2, .n = T - 3, .exponents = got};
        lyapunov_plan plan;
        err e = {0};
        assert_true(lyapunov_plan_make(&job, &plan));
        assert_true(plan.op[plan.n - 1].kind == LYAPUNOV_QR);
        memset(Q, 0, sizeof Q);
        for (int i = 0; i < K; i++)
            Q[i * K + i] = 1;
        for (int64_t o = 0; o < plan.n; o++) {
            const lyapunov_op *op = &plan.op[o];
            const double *k = c.k ? c.k + (2 * c.x.n_h + op->at) * K : NULL;
            const double *g = c.g ? c.g + (2 + op->at) * K : NULL; // of a channel decay
            if (op->kind == LYAPUNOV_KEY) {
                rank1(Q, op->factor, k, k);
            } else if (op->kind == LYAPUNOV_ROWS) {
                for (int i = 0; i < K * K; i++)
                    Q[i] *= exp((g[i / K] - op->mean) * op->factor);
            } else if (op->kind == LYAPUNOV_PAIR) {
                double D[K * K], A[K * K] = {0};
                memcpy(D, Q, sizeof D);
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++)
                        A[i * K + j] = c.a[(2 + op->at) * K + i] * c.b[(2 + op->at) * K + j] +
                                       (i == j ? exp(g[i]) : 0);
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++) {
                        Q[i * K + j] = 0;
                        for (int l = 0; l < K; l++)
                            Q[i * K + j] += A[i * K + l] * D[l * K + j];
                    }
            } else {
                plain_qr(Q, growth);
            }
        }
        lyapunov_finish(&job, &plan, growth);
        assert_true(job.done);
        assert_true(spectrum_lyapunov(&c.x, 2, T - 3, want, &e));
        for (int i = 0; i < K; i++)
            worst = worse(worst, fabs(got[i] - want[i]));
        lyapunov_plan_free(&plan);
        case_free(&c);
    }
    printf("measured plans of exponents: error %.2g nats a token\n", worst);
    assert_true(worst < 1e-11); // eps e^9 = 2e-12 a QR
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_windows_become_answers),
        cmocka_unit_test(frozen_directions_are_put_back),
        cmocka_unit_test(what_is_special_does_not_suit),
        cmocka_unit_test(plans_give_the_exponents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
