// Geometry of transition products: the rows G01-G10 and G14-G16 of the science page, one token's
// closed forms, and faults B51, B59, B60, B65.
#include "tests/eigen_match.h"
#include "tests/spectrum_cases.h"

#include "core/mem.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

#define EPS DBL_EPSILON

static void window(const tcase *c, int64_t last, int64_t W, double complex *eig, double *cond,
                   window_facts *f) {
    err e = {0};
    if (!spectrum_window(&c->x, last, W, eig, cond, f, &e))
        fail_msg("%s", e.text);
}

static void product(const tcase *c, int64_t last, int64_t W, double *P) {
    err e = {0};
    if (!spectrum_product(&c->x, last, W, P, NULL, &e))
        fail_msg("%s", e.text);
}

static void token(const tcase *c, int64_t t, double complex *eig) {
    err e = {0};
    if (!spectrum_token(&c->x, t, eig, &e))
        fail_msg("%s", e.text);
}

// n_h = 2 keys in the plane at angle `between`, strengths b1, b2.
static tcase plane_pair(double between, double b1, double b2) {
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, 2, 2);
    c.k[0] = 1;
    c.k[2] = cos(between);
    c.k[3] = sin(between);
    c.beta[0] = b1;
    c.beta[1] = b2;
    return c;
}

TEST(G01_one_factor_has_ones_and_one_minus_beta_times_the_real_key_length) {
    enum { K = 7 };
    rng r = {1};
    double worst = 0, det = 0;
    for (int i = 0; i < 500; i++) {
        tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, K, 1);
        double complex eig[K], want[K], one;
        double kk = 0, ledger;
        window_facts f;
        for (int j = 0; j < K; j++) {
            c.k[j] = 0.4 * rng_normal(&r); // not of length 1
            kk += c.k[j] * c.k[j];
        }
        c.beta[0] = 2 * rng_uniform(&r);
        for (int j = 0; j < K; j++)
            want[j] = j ? 1 : 1 - c.beta[0] * kk;
        window(&c, 0, 1, eig, NULL, &f);
        token(&c, 0, &one);
        worst = fmax(worst, eigen_match(eig, want, NULL, K));
        worst = fmax(worst, cabs(one - want[0]));
        spectrum_ledger(&c.x, &ledger);
        det = fmax(det, fabs(exp(ledger) - fabs(1 - c.beta[0] * kk)));
        case_free(&c);
    }
    printf("measured G01 eigenvalues %.2g, determinant %.2g\n", worst, det);
    assert_true(worst <= 40 * EPS); // rounding of |k|^2 beta up to 10
    assert_true(det <= 40 * EPS);
}

TEST(G01_beta_0_1_2_is_identity_projection_reflection) {
    double want[] = {1, 0, -1};
    for (int beta = 0; beta <= 2; beta++) {
        tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, 3, 1);
        double complex one, eig[3];
        double ledger;
        window_facts f;
        c.k[1] = 1;
        c.beta[0] = beta;
        token(&c, 0, &one);
        window(&c, 0, 1, eig, NULL, &f);
        spectrum_ledger(&c.x, &ledger);
        assert_true(one == want[beta]);
        assert_true(eig[2] == want[beta] || eig[1] == want[beta] || beta == 0);
        assert_true(ledger == (beta == 1 ? -INFINITY : 0));
        assert_true(f.logabsdet == ledger);
        case_free(&c);
    }
}

TEST(G02_keys_at_60_degrees_with_beta_2_rotate_by_120_and_the_cube_is_the_identity) {
    double h = sqrt(3) / 2, want[] = {-0.5, -h, h, -0.5}, eye[] = {1, 0, 0, 1}, P[4];
    tcase c = plane_pair(M_PI / 3, 2, 2);
    double complex eig[2];
    product(&c, 0, 1, P);
    double d1 = matrix_diff(P, want, 4);
    token(&c, 0, eig);
    double d2 = fmax(cabs(eig[0] - CMPLX(-0.5, -h)), cabs(eig[1] - CMPLX(-0.5, h)));
    tcase three = case_new(TRANSITION_KEYS, TDECAY_NONE, 3, 2, 2);
    for (int t = 0; t < 3; t++) {
        memcpy(three.k + 4 * t, c.k, 4 * sizeof *c.k);
        memcpy(three.beta + 2 * t, c.beta, 2 * sizeof *c.beta);
    }
    product(&three, 2, 3, P);
    double d3 = matrix_diff(P, eye, 4);
    printf("measured G02 matrix %.2g, eigenvalues %.2g, cube %.2g\n", d1, d2, d3);
    assert_true(d1 <= 4 * EPS && d2 <= 4 * EPS && d3 <= 16 * EPS);
    case_free(&three);
    case_free(&c);
}

TEST(G03_complex_or_real_agrees_with_lapack_on_20000_pairs) {
    rng r = {3};
    int wrong = 0, edge = 0, complex_pairs = 0;
    double worst = 0;
    for (int i = 0; i < 20000; i++) {
        // Half of the keys are not of length 1.
        double l1 = i % 2 ? 0.7 + rng_uniform(&r) / 2 : 1,
               l2 = i % 2 ? 0.7 + rng_uniform(&r) / 2 : 1;
        double angle = 2 * M_PI * rng_uniform(&r);
        tcase c = plane_pair(angle, 2 * rng_uniform(&r), 2 * rng_uniform(&r));
        double complex eig[2], want[2];
        double P[4];
        c.k[0] *= l1;
        c.k[2] *= l2;
        c.k[3] *= l2;
        case_product(&c.x, 0, 0, P);
        matrix_eigs(P, 2, want);
        token(&c, 0, eig);
        double b1 = c.beta[0] * l1 * l1, b2 = c.beta[1] * l2 * l2, co = cos(angle);
        double tau = 2 - b1 - b2 + b1 * b2 * co * co, disc = tau * tau - 4 * (1 - b1) * (1 - b2);
        bool near = fabs(disc) < 1e-9;
        edge += near;
        complex_pairs += cimag(eig[0]) != 0;
        if ((cimag(eig[0]) != 0) != (cimag(want[0]) != 0) && !near)
            wrong++;
        if (!near) // distance of the two roots: their error grows like eps / sqrt(disc)
            worst = fmax(worst, eigen_match(eig, want, NULL, 2) * sqrt(fabs(disc)));
        case_free(&c);
    }
    printf("measured G03 mismatches %d of 20000 (%d within 1e-9 of the boundary, %d complex), "
           "error times root distance %.2g\n",
           wrong, edge, complex_pairs, worst);
    assert_int_equal(wrong, 0);
    assert_true(edge < 20 && complex_pairs > 500);
    assert_true(worst <= 100 * EPS);
}

TEST(G03_the_inequality_of_square_roots_says_the_same) {
    rng r = {33};
    int wrong = 0;
    for (int i = 0; i < 20000; i++) {
        double x = rng_uniform(&r), y = rng_uniform(&r), angle = 2 * M_PI * rng_uniform(&r);
        tcase c = plane_pair(angle, 1 + x, 1 + y);
        double complex eig[2];
        double co = c.k[2], s = (1 + x) * (1 + y) * co * co;
        double lo = sqrt(x) - sqrt(y), hi = sqrt(x) + sqrt(y);
        token(&c, 0, eig);
        bool want = lo * lo < s && s < hi * hi;
        if (want != (cimag(eig[0]) != 0) && fabs(s - lo * lo) > 1e-9 && fabs(s - hi * hi) > 1e-9)
            wrong++;
        case_free(&c);
    }
    printf("measured G03 square roots: mismatches %d of 20000\n", wrong);
    assert_int_equal(wrong, 0);
}

TEST(G04_modulus_and_angle_of_a_pair) {
    tcase c = plane_pair(acos(0.4), 1.6, 1.9);
    double complex eig[2];
    token(&c, 0, eig);
    double m = cabs(eig[1]) - 0.734846923, a = carg(eig[1]) - 2.331826;
    printf("measured G04 modulus %.2g, angle %.2g from the printed digits\n", fabs(m), fabs(a));
    assert_true(fabs(m) < 5e-10 && fabs(a) < 5e-7); // half of the last printed digit
    assert_true(carg(eig[0]) < 0);                  // angle ascending
    case_free(&c);
}

TEST(G05_the_same_key_twice_is_one_factor_with_the_joint_strength) {
    enum { K = 6 };
    rng r = {5};
    double worst = 0;
    for (int i = 0; i < 200; i++) {
        tcase two = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, K, 2);
        tcase one = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, K, 1);
        double P[K * K], Q[K * K];
        double complex eig[2], want[2];
        rng_unit(&r, two.k, K);
        memcpy(two.k + K, two.k, K * sizeof *two.k);
        memcpy(one.k, two.k, K * sizeof *one.k);
        two.beta[0] = 2 * rng_uniform(&r);
        two.beta[1] = 2 * rng_uniform(&r);
        one.beta[0] = 1 - (1 - two.beta[0]) * (1 - two.beta[1]);
        product(&two, 0, 1, P);
        product(&one, 0, 1, Q);
        worst = fmax(worst, matrix_diff(P, Q, K * K));
        token(&two, 0, eig);
        want[0] = 1;
        want[1] = 1 - one.beta[0];
        worst = fmax(worst, eigen_match(eig, want, NULL, 2));
        case_free(&one);
        case_free(&two);
    }
    printf("measured G05 %.2g\n", worst);
    assert_true(worst <= 20 * EPS);
}

// Rows of an orthogonal matrix: Householder reflection of the axes along a random direction.
static void orthonormal_keys(rng *r, double *k, int n, int K) {
    double v[64];
    rng_unit(r, v, K);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < K; c++)
            k[i * K + c] = (i == c) - 2 * v[i] * v[c];
}

TEST(G06_orthogonal_keys_give_a_symmetric_product_whatever_the_order) {
    enum { K = 8, N = 3 };
    rng r = {6};
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, K, N);
    double P[K * K], want[K * K];
    double complex eig[K];
    window_facts f;
    orthonormal_keys(&r, c.k, N, K);
    for (int j = 0; j < N; j++)
        c.beta[j] = 2 * rng_uniform(&r);
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            want[i * K + j] = i == j;
            for (int h = 0; h < N; h++)
                want[i * K + j] -= c.beta[h] * c.k[h * K + i] * c.k[h * K + j];
        }
    product(&c, 0, 1, P);
    window(&c, 0, 1, eig, NULL, &f);
    double d = matrix_diff(P, want, K * K);
    printf("measured G06 product %.2g, asymmetry %.2g\n", d, f.asymmetry);
    assert_true(d <= 10 * EPS && f.asymmetry <= 10 * EPS);
    // Keys that are not orthogonal: |A - A^T|_F / |A|_F from the definition, both paths.
    tcase q = case_random(TDECAY_NONE, 1, K, N, 2, 66);
    double skew = 0, all = 0;
    window_facts dense;
    product(&q, 0, 1, P);
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            skew += pow(P[i * K + j] - P[j * K + i], 2);
            all += pow(P[i * K + j], 2);
        }
    window(&q, 0, 1, eig, NULL, &f);
    assert_true(spectrum_window_dense(&q.x, 0, 1, eig, NULL, &dense, NULL));
    printf("measured G06 oblique keys: asymmetry %.6f, short %.2g, dense %.2g off\n", f.asymmetry,
           f.asymmetry - sqrt(skew / all), dense.asymmetry - f.asymmetry);
    assert_true(fabs(f.asymmetry - sqrt(skew / all)) <= 20 * EPS && f.asymmetry > 0.01);
    assert_true(fabs(dense.asymmetry - f.asymmetry) <= 20 * EPS);
    case_free(&q);
    case_free(&c);
}

TEST(G07_rank_of_A_minus_gI_is_at_most_n_h_while_A_has_full_rank) {
    enum { K = 8, N = 3 };
    tcase c = case_random(TDECAY_HEAD, 1, K, N, 0.9, 7);
    double P[K * K], s[K], full[K];
    product(&c, 0, 1, P);
    matrix_svals(P, K, full);
    for (int i = 0; i < K; i++)
        P[i * K + i] -= exp(c.g[0]);
    matrix_svals(P, K, s);
    int rank = 0;
    for (int i = 0; i < K; i++)
        rank += s[i] > 1e-15;
    printf("measured G07 singular values of A - gI: 3rd %.3g, 4th %.2g; smallest of A %.3g\n",
           s[N - 1], s[N], full[K - 1]);
    assert_true(s[N - 1] > 1e-3 && s[N] < 10 * EPS);
    assert_in_range(rank, N, K);
    assert_true(full[K - 1] > 1e-3);
    case_free(&c);
}

TEST(G08_products_of_factors_do_not_grow_for_beta_up_to_2_and_do_beyond) {
    enum { K = 12 };
    double worst = 0;
    double complex eig[K];
    window_facts f;
    for (int n_h = 1; n_h <= 3; n_h++)
        for (int64_t W = 1; W <= 144; W = W * 3 + 1) {
            tcase c = case_random(n_h == 2 ? TDECAY_HEAD : TDECAY_NONE, W, K, n_h, 2,
                                  (uint64_t)(80 + n_h + 10 * W));
            c.beta[0] = 2;
            window(&c, W - 1, W, eig, NULL, &f);
            worst = fmax(worst, f.norm2);
            case_free(&c);
        }
    printf("measured G08 largest norm - 1: %.2g\n", worst - 1);
    assert_true(worst <= 1 + 1e-12);
    tcase c = case_random(TDECAY_NONE, 1, K, 1, 2, 88);
    c.beta[0] = 2.1;
    window(&c, 0, 1, eig, NULL, &f);
    printf("measured G08 beta 2.1: norm - 1.1 = %.2g\n", f.norm2 - 1.1);
    assert_true(fabs(f.norm2 - 1.1) <= 10 * EPS && fabs(f.radius - 1.1) <= 10 * EPS);
    case_free(&c);
}

TEST(G09_a_contraction_does_not_bound_the_state) {
    enum { K = 3, T = 50 };
    tcase c = case_random(TDECAY_NONE, T, K, 1, 0, 9); // beta 0: every A_t is the identity
    double complex eig[K];
    double P[K * K], H = 0;
    window_facts f;
    for (int t = 0; t < T; t++) { // one entry of H_t = A_t H_(t-1) + B, B = 1
        product(&c, t, 1, P);
        H = P[0] * H + 1;
    }
    window(&c, T - 1, T, eig, NULL, &f);
    assert_true(f.norm2 == 1 && f.radius == 1 && H == T);
    case_free(&c);
}

TEST(G10_two_reflections_along_one_key_multiply_to_the_identity_but_their_sum_has_minus_3) {
    enum { K = 4 };
    rng r = {10};
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, 1, K, 2);
    double P[K * K], eye[K * K] = {0}, sum[K * K];
    double complex eig[K], ones[K] = {1, 1, 1, 1}, s[K], want[K] = {-3, 1, 1, 1};
    double cond[K];
    window_facts f;
    rng_unit(&r, c.k, K);
    memcpy(c.k + K, c.k, K * sizeof *c.k);
    c.beta[0] = c.beta[1] = 2;
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            eye[i * K + j] = i == j;
            sum[i * K + j] = (i == j) - 4 * c.k[i] * c.k[j];
        }
    product(&c, 0, 1, P);
    window(&c, 0, 1, eig, cond, &f);
    matrix_eigs(sum, K, s);
    double d = matrix_diff(P, eye, K * K), de = eigen_match(eig, ones, NULL, K);
    double ds = eigen_match(s, want, NULL, K);
    printf("measured G10 product %.2g, its eigenvalues %.2g, sum %.2g\n", d, de, ds);
    // The r x r core I - T K K^T has a Jordan block here and would lose half of the digits.
    assert_true(d <= 10 * EPS && de <= 10 * EPS && ds <= 20 * EPS);
    case_free(&c);
}

TEST(G14_radius_one_does_not_bound_the_norm) {
    tcase c = case_new(TRANSITION_DPLR, TDECAY_NONE, 100, 2, 1); // I + e1 e2^T = [[1,1],[0,1]]
    double complex eig[2];
    double cond[2];
    window_facts f;
    for (int t = 0; t < 100; t++)
        c.a[2 * t] = c.b[2 * t + 1] = 1;
    window(&c, 99, 100, eig, cond, &f);
    double want = 50 + sqrt(2501); // largest singular value of [[1,100],[0,1]]
    printf("measured G14 radius - 1 %.2g, norm %.6g, relative error %.2g, condition %.3g\n",
           f.radius - 1, f.norm2, f.norm2 / want - 1, cond[0]);
    assert_true(f.radius == 1 && fabs(f.norm2 / want - 1) <= 10 * EPS);
    assert_true(fabs(f.norm2 - 100.01) < 5e-3);
    assert_true(cond[0] > 1e12); // defective: inf up to rounding, and nothing crashes
    case_free(&c);
}

// Our reconstruction: the source quotes the radius without matrices. kap = (1/2, sqrt3/2) with
// a = (1, 0), kap' = (sqrt3/2, 1/2) with a' = (0, 1); column form w = 1, written along -c a.kap,
// read along kap.
static double g15_radius(double w, double lo, double hi, double factor, double *single) {
    double h = sqrt(3) / 2, kap[2][2] = {{0.5, h}, {h, 0.5}}, icl[2][2] = {{hi, lo}, {lo, hi}};
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, 2, 2, 1);
    double complex eig[2];
    window_facts f;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++) {
            c.a[2 * t + i] = -factor * icl[t][i] * kap[t][i];
            c.b[2 * t + i] = kap[t][i];
            c.g[2 * t + i] = log(w);
        }
    *single = 0;
    for (int t = 0; t < 2; t++) {
        double complex want[2] = {1, 0.75};
        window(&c, t, 1, eig, NULL, &f);
        *single = fmax(*single, eigen_match(eig, want, NULL, 2));
    }
    window(&c, 1, 2, eig, NULL, &f);
    case_free(&c);
    return f.radius;
}

TEST(G15_our_reconstruction_of_two_rwkv7_steps_with_radius_above_one_matches_the_quoted_value) {
    double single, dummy, want = (27 + 3 * sqrt(17)) / 32;
    double r = g15_radius(1, 0, 1, 1, &single);
    double inside = g15_radius(0.999, 0.001, 0.999, 1, &dummy),
           two = g15_radius(1, 0, 1, 2, &dummy);
    printf(
        "measured G15 radius %.9f (error %.2g), single steps {1, 3/4} %.2g, inside the box %.4f, "
        "factor 2 %.4f\n",
        r, fabs(r - want), single, inside, two);
    assert_true(fabs(r - want) <= 10 * EPS && single <= 10 * EPS);
    assert_true(fabs(inside - 1.2275) < 5e-5 && fabs(two - 1.5931) < 5e-5);
}

TEST(G16_single_rwkv7_steps_are_real_with_modulus_below_one_and_deltanet_keeps_ones) {
    enum { K = 6, N = 5000 };
    rng r = {16};
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, N, K, 1);
    tcase d = case_random(TDECAY_NONE, 100, K, 1, 2, 161);
    double complex eig[K];
    double cond[K], worst = 0, radius = 0;
    window_facts f;
    for (int t = 0; t < N; t++) {
        double kap[K];
        rng_unit(&r, kap, K);
        for (int i = 0; i < K; i++) {
            c.g[t * K + i] = log(0.6 + 0.4 * rng_uniform(&r));
            c.a[t * K + i] = -rng_uniform(&r) * kap[i];
            c.b[t * K + i] = kap[i];
        }
        window(&c, t, 1, eig, cond, &f);
        radius = fmax(radius, f.radius);
        for (int i = 0; i < K; i++)
            worst = fmax(worst, fabs(cimag(eig[i])) / (EPS * f.norm2 * cond[i]));
    }
    printf("measured G16 largest modulus %.6f, largest imaginary part %.2g eps norm cond\n", radius,
           worst);
    assert_true(radius < 1);
    assert_true(worst <= 10); // real up to the error of an eigenvalue
    for (int t = 0; t < 100; t++) {
        int ones = 0;
        window(&d, t, 1, eig, NULL, &f);
        for (int i = 0; i < K; i++)
            ones += eig[i] == 1;
        assert_in_range(ones, K - 1, K);
    }
    case_free(&d);
    case_free(&c);
}

TEST(kda_steps_have_the_real_spectrum_of_the_similar_symmetric_matrix) {
    // (I - beta k k^T) D is similar to D^1/2 (I - beta k k^T) D^1/2, which is symmetric.
    enum { K = 8, N = 500 };
    tcase c = case_random(TDECAY_CHANNEL, N, K, 1, 2, 17);
    double complex eig[K], want[K];
    double cond[K], unit[K], values[K], worst = 0, imag = 0;
    window_facts f;
    for (int t = 0; t < N; t++) {
        double S[K * K];
        for (int i = 0; i < K; i++)
            for (int j = 0; j < K; j++)
                S[i * K + j] = exp((c.g[t * K + i] + c.g[t * K + j]) / 2) *
                               ((i == j) - c.beta[t] * c.k[t * K + i] * c.k[t * K + j]);
        assert_int_equal(LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'N', 'U', K, S, K, values), 0);
        window(&c, t, 1, eig, cond, &f);
        double top = 1;
        for (int i = 0; i < K; i++) {
            want[i] = values[i];
            imag = fmax(imag, fabs(cimag(eig[i])));
            top = fmax(top, cond[i]);
        }
        for (int i = 0; i < K; i++)
            unit[i] = EPS * f.norm2 * top;
        worst = fmax(worst, eigen_match(eig, want, unit, K));
    }
    printf(
        "measured KDA steps against the symmetric form: %.2g eps norm cond, imaginary parts %.2g\n",
        worst, imag);
    assert_true(worst <= 5 * K); // both solvers: a few eps per dimension
    assert_true(imag == 0);
    case_free(&c);
}

TEST(token_with_three_or_more_steps_matches_the_dense_window_and_keeps_the_gate) {
    double worst = 0;
    for (int n_h = 3; n_h <= 5; n_h++)
        for (int K = 4; K <= 9; K += 5) {
            tcase c = case_random(TDECAY_HEAD, 20, K, n_h, 2, (uint64_t)(300 + n_h + K));
            for (int t = 0; t < 20; t++) {
                double complex got[16], all[16];
                window_facts f;
                for (int i = 0; i < 16; i++)
                    got[i] = all[i] = exp(c.g[t]);
                token(&c, t, got);
                assert_true(spectrum_window_dense(&c.x, t, 1, all, NULL, &f, NULL));
                worst = fmax(worst, eigen_match(got, all, NULL, K > n_h ? K : n_h));
            }
            case_free(&c);
        }
    printf("measured token n_h 3..5 against dense: %.2g\n", worst);
    assert_true(worst <= 1e-12); // condition numbers to a few thousand
}

TEST(token_refuses_channel_decay_and_lists_nothing_for_diagonal_kinds) {
    tcase c = case_random(TDECAY_CHANNEL, 1, 4, 1, 2, 1);
    tcase d = case_new(TRANSITION_DIAGONAL, TDECAY_HEAD, 1, 4, 0);
    double complex eig[4] = {7};
    err e = {0};
    assert_false(spectrum_token(&c.x, 0, eig, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_true(spectrum_token(&d.x, 0, eig, NULL) && eig[0] == 7);
    case_free(&d);
    case_free(&c);
}

TEST(B51_channel_decay_comes_before_the_correction) {
    // K = 2, k = (1, 0) then (0.6, 0.8) twice, dyadic gates: exact up to the rounding of 0.6, 0.8.
    tcase c = case_new(TRANSITION_KEYS, TDECAY_CHANNEL, 3, 2, 1);
    double keys[] = {1, 0, 0.6, 0.8, 0.6, 0.8}, gates[] = {0.5, 0.25, 0.25, 0.5, 1, 0.5}, P[4];
    memcpy(c.k, keys, sizeof keys);
    for (int i = 0; i < 6; i++)
        c.g[i] = log(gates[i]);
    c.beta[0] = 0.5;
    c.beta[1] = 1;
    c.beta[2] = 2;
    product(&c, 2, 3, P);
    // A1 = diag(1/4, 1/4); A2 = [[.16,-.24],[-.12,.18]]; A3 = [[.28,-.48],[-.96,-.14]]
    double want[] = {0.25 * (0.28 * 0.16 + 0.48 * 0.12), 0.25 * (-0.28 * 0.24 - 0.48 * 0.18),
                     0.25 * (-0.96 * 0.16 + 0.14 * 0.12), 0.25 * (0.96 * 0.24 - 0.14 * 0.18)};
    printf("measured B51 %.2g\n", matrix_diff(P, want, 4));
    assert_true(matrix_diff(P, want, 4) <= 2 * EPS);
    case_free(&c);
}

TEST(B59_a_zero_key_leaves_the_token_alone) {
    tcase c = case_random(TDECAY_HEAD, 1, 5, 2, 2, 59);
    double complex eig[5], two[2];
    window_facts f;
    memset(c.k, 0, 10 * sizeof *c.k);
    window(&c, 0, 1, eig, NULL, &f);
    token(&c, 0, two);
    for (int i = 0; i < 5; i++)
        assert_true(cabs(eig[i] - exp(c.g[0])) <= EPS);
    assert_true(cabs(two[0] - exp(c.g[0])) <= EPS && cabs(two[1] - exp(c.g[0])) <= EPS);
    case_free(&c);
}

TEST(B60_beta_2_stays_on_the_unit_circle_over_100000_steps) {
    enum { K = 16, T = 100000 };
    tcase c = case_random(TDECAY_NONE, T, K, 1, 2, 60);
    double complex eig[K];
    window_facts f;
    for (int t = 0; t < T; t++)
        c.beta[t] = 2;
    window(&c, T - 1, T, eig, NULL, &f);
    printf("measured B60 radius - 1 %.2g, smallest modulus - 1 %.2g, ln |det| %.2g\n", f.radius - 1,
           cabs(eig[K - 1]) - 1, f.logabsdet);
    assert_true(f.radius <= 1 + 1e-4);
    assert_true(fabs(f.radius - 1) < 1e-9 && cabs(eig[K - 1]) > 1 - 1e-9); // float64: much closer
    case_free(&c);
}

TEST(B65_two_reflections_that_do_not_commute_multiply_newest_on_the_left) {
    tcase c = plane_pair(0.3, 2, 2);
    // First along (1,0), then along (cos .3, sin .3): rotation by +2 x 0.3.
    double want[] = {cos(0.6), -sin(0.6), sin(0.6), cos(0.6)}, P[4];
    product(&c, 0, 1, P);
    printf("measured B65 %.2g\n", matrix_diff(P, want, 4));
    assert_true(matrix_diff(P, want, 4) <= 4 * EPS);
    case_free(&c);
}

TEST(products_of_all_kinds_match_plain_matrix_multiplication) {
    enum { K = 9, T = 30 };
    double P[K * K], Q[K * K], worst = 0;
    for (int kind = 0; kind < 3; kind++)
        for (int decay = 0; decay < 3; decay++)
            for (int n_h = 1; n_h <= 3; n_h++) {
                tcase c = case_random((transition_decay)decay, T, K, n_h, 2, 1000);
                rng r = {(uint64_t)(kind + 7 * decay)};
                c.x.kind = (transition_kind)kind;
                if (kind == TRANSITION_DIAGONAL)
                    c.x.n_h = 0;
                for (int i = 0; i < T * K; i++) {
                    c.a[i] = -0.3 * rng_normal(&r);
                    c.b[i] = 0.3 * rng_normal(&r);
                }
                for (int W = 1; W <= T; W += 7) {
                    double size = 0;
                    product(&c, T - 2, W < T ? W : T - 1, P);
                    case_product(&c.x, T - 1 - (W < T ? W : T - 1), T - 2, Q);
                    for (int i = 0; i < K * K; i++)
                        size = fmax(size, fabs(Q[i]));
                    worst = fmax(worst, matrix_diff(P, Q, K * K) / size);
                }
                case_free(&c);
            }
    printf("measured products against plain multiplication: %.2g of the largest entry\n", worst);
    assert_true(worst <= 200 * EPS); // up to 90 factors
}

TEST(half_life_of_a_mode) {
    assert_true(spectrum_half_life(0.5, 0, 3) == 3);
    assert_true(isinf(spectrum_half_life(1, 0, 3)) && isinf(spectrum_half_life(1.5, 0, 3)));
    assert_true(spectrum_half_life(0, 0, 3) == 0);
    assert_true(fabs(spectrum_half_life(1, -1000, 10) - 10 * M_LN2 / 1000) <= EPS);
    assert_true(isnan(spectrum_half_life(NAN, 0, 3)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(G01_one_factor_has_ones_and_one_minus_beta_times_the_real_key_length),
        cmocka_unit_test(G01_beta_0_1_2_is_identity_projection_reflection),
        cmocka_unit_test(
            G02_keys_at_60_degrees_with_beta_2_rotate_by_120_and_the_cube_is_the_identity),
        cmocka_unit_test(G03_complex_or_real_agrees_with_lapack_on_20000_pairs),
        cmocka_unit_test(G03_the_inequality_of_square_roots_says_the_same),
        cmocka_unit_test(G04_modulus_and_angle_of_a_pair),
        cmocka_unit_test(G05_the_same_key_twice_is_one_factor_with_the_joint_strength),
        cmocka_unit_test(G06_orthogonal_keys_give_a_symmetric_product_whatever_the_order),
        cmocka_unit_test(G07_rank_of_A_minus_gI_is_at_most_n_h_while_A_has_full_rank),
        cmocka_unit_test(G08_products_of_factors_do_not_grow_for_beta_up_to_2_and_do_beyond),
        cmocka_unit_test(G09_a_contraction_does_not_bound_the_state),
        cmocka_unit_test(
            G10_two_reflections_along_one_key_multiply_to_the_identity_but_their_sum_has_minus_3),
        cmocka_unit_test(G14_radius_one_does_not_bound_the_norm),
        cmocka_unit_test(
            G15_our_reconstruction_of_two_rwkv7_steps_with_radius_above_one_matches_the_quoted_value),
        cmocka_unit_test(
            G16_single_rwkv7_steps_are_real_with_modulus_below_one_and_deltanet_keeps_ones),
        cmocka_unit_test(kda_steps_have_the_real_spectrum_of_the_similar_symmetric_matrix),
        cmocka_unit_test(
            token_with_three_or_more_steps_matches_the_dense_window_and_keeps_the_gate),
        cmocka_unit_test(token_refuses_channel_decay_and_lists_nothing_for_diagonal_kinds),
        cmocka_unit_test(B51_channel_decay_comes_before_the_correction),
        cmocka_unit_test(B59_a_zero_key_leaves_the_token_alone),
        cmocka_unit_test(B60_beta_2_stays_on_the_unit_circle_over_100000_steps),
        cmocka_unit_test(B65_two_reflections_that_do_not_commute_multiply_newest_on_the_left),
        cmocka_unit_test(products_of_all_kinds_match_plain_matrix_multiplication),
        cmocka_unit_test(half_life_of_a_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
