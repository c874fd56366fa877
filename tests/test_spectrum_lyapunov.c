// Lyapunov exponents: their sum against the determinant ledger (G12, G17), closed forms, singular
// factors.
#include "tests/spectrum_cases.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

#define EPS DBL_EPSILON

static void exponents(const tcase *c, int64_t first, int64_t n, double *ex) {
    err e = {0};
    if (!spectrum_lyapunov(&c->x, first, n, ex, &e))
        fail_msg("%s", e.text);
    for (int i = 0; i < c->x.K; i++) {
        assert_true(!isnan(ex[i]) && ex[i] < INFINITY);
        assert_true(i == 0 || ex[i - 1] >= ex[i]);
    }
}

// Sum of the exponents times n, and that of the ledger.
static void sums(const tcase *c, double *by_qr, double *by_ledger) {
    double *ex = malloc((size_t)c->x.K * sizeof *ex);
    double *ledger = malloc((size_t)c->x.T * sizeof *ledger);
    assert_non_null(ex);
    assert_non_null(ledger);
    exponents(c, 0, c->x.T, ex);
    spectrum_ledger(&c->x, ledger);
    *by_qr = *by_ledger = 0;
    for (int i = 0; i < c->x.K; i++)
        *by_qr += ex[i] * (double)c->x.T;
    for (int64_t t = 0; t < c->x.T; t++)
        *by_ledger += ledger[t];
    free(ledger);
    free(ex);
}

static double mismatch(const tcase *c, double *total) {
    double a, b;
    sums(c, &a, &b);
    *total = b;
    return fabs(a / b - 1);
}

TEST(G17_exponents_over_4000_tokens_sum_to_the_ledger) {
    enum { T = 4000, K = 16 };
    double worst = 0, total;
    for (int decay = 0; decay < 3; decay++)
        for (int n_h = 1; n_h <= 3; n_h++) {
            tcase c = case_random((transition_decay)decay, T, K, n_h, 2, (uint64_t)(170 + n_h));
            double d = mismatch(&c, &total);
            printf("measured G17 keys, decay kind %d, n_h %d: ln |det| %.6g, relative %.2g\n",
                   decay, n_h, total, d);
            worst = fmax(worst, d);
            case_free(&c);
        }
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, T, K, 1);
    rng r = {171};
    for (int t = 0; t < T; t++) {
        rng_unit(&r, c.b + t * K, K);
        for (int i = 0; i < K; i++) {
            c.a[t * K + i] = -rng_uniform(&r) * c.b[t * K + i];
            c.g[t * K + i] = -0.5 * rng_uniform(&r);
        }
    }
    double d = mismatch(&c, &total);
    printf("measured G17 RWKV-7 steps: ln |det| %.6g, relative %.2g\n", total, d);
    worst = fmax(worst, d);
    case_free(&c);
    // Each of the QRs may lose eps times 8,000 of the smallest growth, with either sign.
    assert_true(worst <= 1e-13);
}

TEST(G17_exponents_hold_for_decays_and_strengths_at_the_edge) {
    enum { T = 1000, K = 12 };
    double total, worst = 0;
    rng r = {172};
    tcase c = case_random(TDECAY_CHANNEL, T, K, 1, 2, 173);
    for (int i = 0; i < T * K; i++) // from no decay to e^-500 within one token
        c.g[i] = -500 * pow(rng_uniform(&r), 4);
    for (int t = 0; t < T; t += 2) // within 1e-12 of a projection
        c.beta[t] = 1 + (rng_uniform(&r) - 0.5) * 1e-12;
    worst = fmax(worst, mismatch(&c, &total));
    printf(
        "measured G17 spread of 500 a token and near projections: ln |det| %.6g, relative %.2g\n",
        total, worst);
    case_free(&c);
    tcase h = case_random(TDECAY_HEAD, T, K, 2, 2, 174);
    for (int t = 0; t < T; t++)
        h.g[t] = -500;
    double d = mismatch(&h, &total);
    printf("measured G17 head decay -500 a token: ln |det| %.6g, relative %.2g\n", total, d);
    worst = fmax(worst, d);
    case_free(&h);
    assert_true(worst <= 1e-12);
}

TEST(diagonal_kinds_have_their_mean_log_decays) {
    enum { T = 500, K = 5 };
    tcase c = case_random(TDECAY_CHANNEL, T, K, 1, 2, 18);
    double ex[K], want[K] = {0}, worst = 0;
    c.x.kind = TRANSITION_DIAGONAL;
    c.x.n_h = 0;
    for (int i = 0; i < T * K; i++)
        c.g[i] *= i % K + 1; // rates apart, so that the order is known: channel 0 first
    for (int i = 0; i < T * K; i++)
        want[i % K] += c.g[i] / T;
    exponents(&c, 0, T, ex);
    for (int i = 0; i < K; i++)
        worst = fmax(worst, fabs(ex[i] - want[i]));
    printf("measured diagonal exponents: %.2g\n", worst);
    assert_true(worst <= 1e-13);
    c.x.decay = TDECAY_NONE;
    exponents(&c, 0, T, ex);
    for (int i = 0; i < K; i++)
        assert_true(ex[i] == 0);
    case_free(&c);
}

TEST(a_constant_step_has_the_log_moduli_of_its_eigenvalues) {
    enum { T = 4000, K = 4 };
    // Distinct moduli: QR iteration converges, and what the start costs is O(1/T).
    tcase c = case_random(TDECAY_HEAD, T, K, 3, 2, 19);
    double complex eig[K];
    double ex[K], worst = 0;
    window_facts f;
    c.beta[0] = 0.3;
    c.beta[1] = 0.6;
    c.beta[2] = 0.8;
    for (int t = 1; t < T; t++) {
        memcpy(c.k + t * 3 * K, c.k, 3 * K * sizeof *c.k);
        memcpy(c.beta + t * 3, c.beta, 3 * sizeof *c.beta);
        c.g[t] = c.g[0];
    }
    assert_true(spectrum_window(&c.x, 0, 1, eig, NULL, &f, NULL));
    exponents(&c, 0, T, ex);
    for (int i = 0; i < K; i++)
        worst = fmax(worst, fabs(ex[i] - log(cabs(eig[i]))));
    printf("measured exponents of a constant step: %.2g off (expected about 1/T = %.2g)\n", worst,
           1.0 / T);
    assert_true(worst <= 5.0 / T);
    case_free(&c);
}

TEST(reflections_neither_grow_nor_decay) {
    enum { T = 3000, K = 10 };
    tcase c = case_random(TDECAY_NONE, T, K, 2, 2, 20);
    double ex[K];
    for (int i = 0; i < 2 * T; i++)
        c.beta[i] = 2;
    exponents(&c, 0, T, ex);
    printf("measured exponents of reflections: %.2g to %.2g\n", ex[K - 1], ex[0]);
    assert_true(fabs(ex[0]) <= 1e-14 && fabs(ex[K - 1]) <= 1e-14);
    case_free(&c);
}

// The definition, spelled out: Gram-Schmidt in long double after every token, columns kept in the
// order of the flag e_1, e_1 e_2, .. that the kernel starts from as well.
static void by_definition(const tcase *c, double *ex) {
    size_t K = (size_t)c->x.K;
    double A[16 * 16];
    long double Q[16][16] = {{0}}, M[16][16], growth[16] = {0};
    for (size_t i = 0; i < K; i++)
        Q[i][i] = 1; // Q[j] is column j
    for (int64_t t = 0; t < c->x.T; t++) {
        case_product(&c->x, t, t, A);
        for (size_t j = 0; j < K; j++)
            for (size_t i = 0; i < K; i++) {
                M[j][i] = 0;
                for (size_t d = 0; d < K; d++)
                    M[j][i] += A[i * K + d] * Q[j][d];
            }
        for (size_t j = 0; j < K; j++) {
            long double dot, norm = 0;
            for (size_t l = 0; l < 2 * j; l++) { // twice is enough
                dot = 0;
                for (size_t i = 0; i < K; i++)
                    dot += Q[l % j][i] * M[j][i];
                for (size_t i = 0; i < K; i++)
                    M[j][i] -= dot * Q[l % j][i];
            }
            for (size_t i = 0; i < K; i++)
                norm += M[j][i] * M[j][i];
            norm = sqrtl(norm);
            growth[j] += logl(norm);
            for (size_t i = 0; i < K; i++)
                Q[j][i] = M[j][i] / norm;
        }
    }
    for (size_t j = 0; j < K; j++) {
        ex[j] = (double)(growth[j] / c->x.T);
        for (size_t i = j; i > 0 && ex[i] > ex[i - 1]; i--) {
            double swap = ex[i];
            ex[i] = ex[i - 1];
            ex[i - 1] = swap;
        }
    }
}

TEST(G17_every_exponent_is_that_of_gram_schmidt_after_each_token) {
    enum { T = 400, K = 10 };
    double ex[K], want[K], worst = 0;
    for (int kind = 0; kind < 2; kind++)
        for (int decay = 0; decay < 3; decay++) {
            tcase c = case_random((transition_decay)decay, T, K, kind ? 1 : 2, 1.9, 26);
            rng r = {27};
            c.x.kind = (transition_kind)kind;
            for (int i = 0; i < T * K; i++) {
                c.a[i] = -0.4 * rng_normal(&r);
                c.b[i] = 0.4 * rng_normal(&r);
            }
            exponents(&c, 0, T, ex);
            by_definition(&c, want);
            for (int i = 0; i < K; i++)
                worst = fmax(worst, fabs(ex[i] - want[i]));
            case_free(&c);
        }
    printf("measured exponents against Gram-Schmidt in long double: %.2g nats per token\n", worst);
    assert_true(worst <= 1e-11); // eps times the 8,000 that a block may reach
}

static int annihilated(const double *ex, int K) {
    int n = 0;
    for (int i = 0; i < K; i++)
        n += ex[i] == -INFINITY;
    return n;
}

TEST(G13_a_projection_annihilates_only_a_direction_that_is_still_there) {
    enum { T = 300, K = 8 };
    double ex[K];
    // Axes and (1, 1, 1, 1) / 2 are of length 1 in doubles: exact projections.
    tcase c = case_random(TDECAY_HEAD, T, K, 1, 1.9, 21);
    double *one = c.k + 100 * K, *again = c.k + 101 * K, *later = c.k + 200 * K;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 0);
    memset(one, 0, K * sizeof *one);
    one[2] = 1;
    c.beta[100] = 1;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 1);
    assert_true(isfinite(ex[K - 2]));
    // The same projection right after the first finds nothing along its key.
    memcpy(again, one, K * sizeof *one);
    c.beta[101] = 1;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 1);
    // Nor does a later one along a key outside the 7 dimensions that are left: rank stays 7.
    memset(later, 0, K * sizeof *later);
    later[0] = later[3] = later[5] = later[6] = 0.5;
    c.beta[200] = 1;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 1);
    assert_true(isfinite(ex[K - 2]));
    // Right behind the first, with an orthogonal key, it does.
    memset(again, 0, K * sizeof *again);
    again[0] = again[3] = again[5] = again[6] = 0.5;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 2);
    case_free(&c);
}

TEST(what_projections_leave_grows_as_the_singular_values_say) {
    enum { T = 6, K = 5 };
    // Short enough to form the product: nonzero singular values multiply to the volume growth of
    // the surviving subspace only for a projection that comes first.
    tcase c = case_random(TDECAY_NONE, T, K, 1, 1.8, 22);
    double ex[K], P[K * K], s[K], sum = 0, want = 0;
    memset(c.k, 0, K * sizeof *c.k);
    c.k[3] = 1;
    c.beta[0] = 1;
    exponents(&c, 0, T, ex);
    case_product(&c.x, 0, T - 1, P);
    matrix_svals(P, K, s);
    assert_int_equal(annihilated(ex, K), 1);
    for (int i = 0; i + 1 < K; i++) {
        sum += ex[i] * T;
        want += log(s[i]);
    }
    printf("measured growth behind a projection: %.2g off\n", fabs(sum - want));
    assert_true(fabs(sum - want) <= 1e-12);
    case_free(&c);
}

TEST(G13_orthonormal_projections_leave_nothing) {
    enum { K = 6 };
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, K, K, 1);
    double ex[K];
    for (int t = 0; t < K; t++) {
        c.k[t * K + (t * 5 + 2) % K] = 1;
        c.beta[t] = 1;
    }
    exponents(&c, 0, K - 1, ex);
    assert_int_equal(annihilated(ex, K), K - 1);
    assert_true(ex[0] == 0);
    exponents(&c, 0, K, ex);
    assert_int_equal(annihilated(ex, K), K);
    case_free(&c);
}

TEST(wiped_channels_and_heads_are_annihilated) {
    enum { T = 50, K = 6 };
    double ex[K];
    tcase c = case_random(TDECAY_CHANNEL, T, K, 1, 1.9, 23);
    c.g[20 * K + 1] = c.g[20 * K + 4] = -INFINITY;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 2);
    case_free(&c);
    tcase h = case_random(TDECAY_HEAD, T, K, 1, 1.9, 24);
    h.g[20] = -INFINITY;
    exponents(&h, 0, T, ex);
    assert_int_equal(annihilated(ex, K), K);
    case_free(&h);
}

TEST(singular_dplr_steps_are_annihilated_too) {
    enum { T = 60, K = 6 };
    double ex[K];
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, T, K, 1);
    rng r = {25};
    for (int t = 0; t < T; t++) {
        rng_unit(&r, c.b + t * K, K);
        for (int i = 0; i < K; i++) {
            c.a[t * K + i] = -0.7 * rng_uniform(&r) * c.b[t * K + i];
            c.g[t * K + i] = -0.3 * rng_uniform(&r);
        }
    }
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 0);
    // I - e_2 e_2^T, then a rank-one step.
    memset(c.a + 30 * K, 0, K * sizeof *c.a);
    memset(c.b + 30 * K, 0, K * sizeof *c.b);
    memset(c.g + 30 * K, 0, K * sizeof *c.g);
    c.a[30 * K + 2] = -1;
    c.b[30 * K + 2] = 1;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), 1);
    for (int i = 0; i < K; i++)
        c.g[40 * K + i] = -INFINITY;
    exponents(&c, 0, T, ex);
    assert_int_equal(annihilated(ex, K), K - 1);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(G17_exponents_over_4000_tokens_sum_to_the_ledger),
        cmocka_unit_test(G17_exponents_hold_for_decays_and_strengths_at_the_edge),
        cmocka_unit_test(G17_every_exponent_is_that_of_gram_schmidt_after_each_token),
        cmocka_unit_test(diagonal_kinds_have_their_mean_log_decays),
        cmocka_unit_test(a_constant_step_has_the_log_moduli_of_its_eigenvalues),
        cmocka_unit_test(reflections_neither_grow_nor_decay),
        cmocka_unit_test(G13_a_projection_annihilates_only_a_direction_that_is_still_there),
        cmocka_unit_test(what_projections_leave_grows_as_the_singular_values_say),
        cmocka_unit_test(G13_orthonormal_projections_leave_nothing),
        cmocka_unit_test(wiped_channels_and_heads_are_annihilated),
        cmocka_unit_test(singular_dplr_steps_are_annihilated_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
