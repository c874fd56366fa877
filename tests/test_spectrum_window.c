// Windows: the short form against the dense oracle, G11-G13, strong decay, faults in the input.
#include "tests/eigen_match.h"
#include "tests/spectrum_cases.h"

#include "core/mem.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

#define EPS  DBL_EPSILON
#define KMAX 256

typedef struct spec {
    double complex eig[KMAX];
    double cond[KMAX];
    window_facts f;
} spec;

static void window(const tcase *c, int64_t last, int64_t W, spec *s) {
    err e = {0};
    if (!spectrum_window(&c->x, last, W, s->eig, s->cond, &s->f, &e))
        fail_msg("%s", e.text);
}

static void dense(const tcase *c, int64_t last, int64_t W, spec *s) {
    err e = {0};
    if (!spectrum_window_dense(&c->x, last, W, s->eig, s->cond, &s->f, &e))
        fail_msg("%s", e.text);
}

// Largest distance in units of eps norm2 cond. A cluster shares its digits, so the unit is that of
// the worst-conditioned value.
static double distance(const spec *a, const spec *b, int K) {
    double unit[KMAX], top = 1;
    for (int i = 0; i < K; i++)
        if (isfinite(b->cond[i]))
            top = fmax(top, b->cond[i]);
    for (int i = 0; i < K; i++)
        unit[i] = EPS * b->f.norm2 * top;
    return eigen_match(a->eig, b->eig, unit, K);
}

static void same_facts(const spec *a, const spec *b, double *worst) {
    *worst = fmax(*worst, fabs(a->f.norm2 - b->f.norm2) / b->f.norm2);
    *worst = fmax(*worst, fabs(a->f.asymmetry - b->f.asymmetry));
    assert_true(a->f.logabsdet == b->f.logabsdet);
    assert_true(a->f.log_scale == b->f.log_scale);
    assert_int_equal(a->f.frozen, b->f.frozen);
}

TEST(short_windows_agree_with_the_dense_path) {
    double worst = 0, facts = 0;
    int windows = 0;
    spec s, d;
    for (int K = 6; K <= 24; K += 6)
        for (int n_h = 1; n_h <= 3; n_h++)
            for (int decay = TDECAY_NONE; decay <= TDECAY_HEAD; decay++) {
                tcase c = case_random((transition_decay)decay, 30, K, n_h, 2,
                                      (uint64_t)(K + 100 * n_h + decay));
                for (int64_t W = 1; W <= K / n_h; W++) {
                    window(&c, 29, W, &s);
                    dense(&c, 29, W, &d);
                    worst = fmax(worst, distance(&s, &d, K));
                    same_facts(&s, &d, &facts);
                    windows++;
                }
                case_free(&c);
            }
    printf("measured %d short windows against dense: %.2g eps norm cond; norm and asymmetry %.2g\n",
           windows, worst, facts);
    assert_true(worst <= 100); // both paths, a few eps per dimension
    assert_true(facts <= 100 * EPS);
}

TEST(short_windows_survive_repeated_and_zero_keys_and_beta_0_1_2) {
    enum { K = 16 };
    double worst = 0, facts = 0;
    spec s, d;
    for (int n_h = 1; n_h <= 3; n_h++) {
        tcase c = case_random(TDECAY_HEAD, 40, K, n_h, 2, (uint64_t)(700 + n_h));
        rng r = {(uint64_t)n_h};
        for (int i = 0; i < 40 * n_h; i++) {
            double u = rng_uniform(&r);
            if (u < 0.2)
                memset(c.k + i * K, 0, K * sizeof *c.k);
            else if (u < 0.6 && i)
                memcpy(c.k + i * K, c.k + (i - 1) * K, K * sizeof *c.k);
            c.beta[i] = floor(3 * rng_uniform(&r));
        }
        for (int64_t last = 5; last < 40; last++)
            for (int64_t W = 1; W <= K / n_h && W <= last + 1; W++) {
                window(&c, last, W, &s);
                dense(&c, last, W, &d);
                // Products of projections are defective at 0 (blocks of size m lose eps^(1/m)), so
                // where the condition numbers end the spectra say less: only what is sure is asked.
                double top = 0, det_s = 0, det_d = 0;
                for (int i = 0; i < K; i++) {
                    top = fmax(top, fmax(s.cond[i], d.cond[i]));
                    det_s += creal(s.eig[i]);
                    det_d += creal(d.eig[i]);
                    assert_true(isfinite(cabs(s.eig[i])) && s.cond[i] >= 1);
                }
                if (top < 1e8)
                    worst = fmax(worst, distance(&s, &d, K));
                assert_true(fabs(det_s - det_d) <= 1e-13); // the trace is always sure
                same_facts(&s, &d, &facts);
            }
        case_free(&c);
    }
    printf("measured degenerate windows: %.2g eps norm cond; norm and asymmetry %.2g\n", worst,
           facts);
    assert_true(worst <= 100 && facts <= 100 * EPS);
}

TEST(B53_head_sizes_from_8_to_256_work) {
    int sizes[] = {1, 2, 8, 24, 80, 96, 160, 192, 256};
    double worst = 0;
    static spec s, d;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tcase c = case_random(TDECAY_HEAD, 12, sizes[i], 2, 2, (uint64_t)sizes[i]);
        window(&c, 11, 10, &s);
        dense(&c, 11, 10, &d);
        worst = fmax(worst, distance(&s, &d, sizes[i]) / sizes[i]);
        case_free(&c);
    }
    printf("measured head sizes 1..256: %.2g K eps norm cond\n", worst);
    assert_true(worst <= 10);
}

TEST(condition_numbers_of_the_short_form_are_those_of_the_whole_matrix) {
    enum { K = 12 };
    double worst = 0;
    spec s, d;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tcase c = case_random(TDECAY_NONE, 4, K, 2, 2, seed);
        window(&c, 3, 3, &s);
        dense(&c, 3, 3, &d);
        for (int i = 0; i < K; i++)
            for (int j = 0; j < K; j++)
                // The moving values, found by value; the frozen ones share a space (1 here).
                if (cabs(s.eig[i] - 1) > 1e-6 && cabs(s.eig[i] - d.eig[j]) < 1e-10)
                    worst = fmax(worst, fabs(s.cond[i] / d.cond[j] - 1));
        case_free(&c);
    }
    printf("measured condition numbers, short against dense: %.2g\n", worst);
    assert_true(worst <= 1e-9);
}

TEST(order_is_modulus_descending_then_angle_ascending) {
    enum { K = 20 };
    spec s;
    tcase c = case_random(TDECAY_NONE, 40, K, 2, 2, 4);
    for (int64_t W = 1; W <= 40; W++) {
        window(&c, 39, W, &s);
        assert_true(s.f.radius == cabs(s.eig[0]));
        for (int i = 1; i < K; i++) {
            double m0 = cabs(s.eig[i - 1]), m1 = cabs(s.eig[i]);
            assert_true(m0 > m1 || (m0 == m1 && carg(s.eig[i - 1]) <= carg(s.eig[i])));
            assert_true(carg(s.eig[i]) > -M_PI);
        }
    }
    case_free(&c);
}

TEST(G11_a_window_keeps_d_minus_W_n_h_directions_at_the_gate) {
    enum { K = 8, N = 2 };
    int want[] = {6, 4, 2, 0, 0};
    spec s;
    for (int gated = 0; gated < 2; gated++) {
        tcase c = case_random(gated ? TDECAY_HEAD : TDECAY_NONE, 5, K, N, 2, 11);
        double worst = 0;
        for (int W = 1; W <= 5; W++) {
            double gate = 1, err_dense = 0;
            int n = 0;
            spec d;
            for (int t = 5 - W; t < 5 && gated; t++)
                gate *= exp(c.g[t]);
            window(&c, 4, W, &s);
            dense(&c, 4, W, &d);
            for (int i = 0; i < K; i++) {
                n += cabs(s.eig[i] - gate) < 1e-12;
                err_dense += cabs(d.eig[i] - gate) < 1e-12;
            }
            assert_int_equal(n, want[W - 1]);
            assert_int_equal((int)err_dense, want[W - 1]);
            assert_int_equal(s.f.frozen, want[W - 1]);
            for (int i = 0; i < K; i++)
                if (cabs(s.eig[i] - gate) < 1e-12)
                    worst = fmax(worst, cabs(s.eig[i] - gate));
            if (want[W - 1])
                assert_true(fabs(s.f.radius - gate) <= 4 * EPS); // rho is the gate till then
        }
        printf("measured G11 %s: counts 6 4 2 0 0, frozen values off by %.2g\n",
               gated ? "gated" : "ungated", worst);
        assert_true(worst <= 4 * EPS);
        case_free(&c);
    }
}

TEST(G12_the_determinant_ledger_equals_the_product_of_lapack_eigenvalues) {
    enum { K = 8, W = 12 };
    double worst = 0;
    for (int decay = 0; decay < 3; decay++)
        for (int n_h = 1; n_h <= 3; n_h++) {
            tcase c = case_random((transition_decay)decay, W, K, n_h, 1.8, 12);
            double P[K * K], ledger[W], sum = 0, lapack = 0;
            double complex eig[K];
            spec s;
            case_product(&c.x, 0, W - 1, P);
            matrix_eigs(P, K, eig);
            spectrum_ledger(&c.x, ledger);
            for (int i = 0; i < W; i++)
                sum += ledger[i];
            for (int i = 0; i < K; i++)
                lapack += log(cabs(eig[i]));
            window(&c, W - 1, W, &s);
            worst = fmax(worst, fabs(sum - lapack));
            assert_true(fabs(s.f.logabsdet - sum) <= 1e-12 * fabs(sum));
            case_free(&c);
        }
    printf("measured G12 ledger against LAPACK over 12 tokens: %.2g in the logarithm\n", worst);
    // LAPACK finds the smallest eigenvalues to eps norm cond only.
    assert_true(worst <= 1e-5);
}

TEST(G12_the_ledger_of_dplr_steps_is_their_determinant) {
    enum { K = 6, T = 200 };
    rng r = {121};
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, T, K, 1);
    double ledger[T], worst = 0;
    for (int i = 0; i < T * K; i++) {
        c.a[i] = rng_normal(&r);
        c.b[i] = rng_normal(&r);
        c.g[i] = -2 * rng_uniform(&r);
    }
    spectrum_ledger(&c.x, ledger);
    for (int t = 0; t < T; t++) {
        double P[K * K], s[K], want = 0, low;
        case_product(&c.x, t, t, P);
        matrix_svals(P, K, s);
        for (int i = 0; i < K; i++)
            want += log(s[i]);
        low = s[K - 1] / s[0];
        worst = fmax(worst, fabs(ledger[t] - want) * low);
    }
    printf("measured G12 DPLR ledger against singular values: %.2g times their ratio\n", worst);
    assert_true(worst <= 20 * EPS);
    // Singular ones: D = diag(0, 1, ..): det = a_0 b_0; two zeros: -inf; far underflow: finite.
    for (int i = 0; i < K; i++)
        c.g[i] = i ? 0 : -INFINITY;
    for (int i = K; i < 2 * K; i++)
        c.g[i] = i < K + 2 ? -INFINITY : 0;
    for (int i = 2 * K; i < 3 * K; i++) {
        c.g[i] = -2000;
        c.a[i] = 0;
    }
    spectrum_ledger(&c.x, ledger);
    assert_true(fabs(ledger[0] - log(fabs(c.a[0] * c.b[0]))) <= 4 * EPS);
    assert_true(ledger[1] == -INFINITY);
    assert_true(fabs(ledger[2] + 2000 * K) <= 1e-9);
    case_free(&c);
}

TEST(G13_orthonormal_projections_clear_the_state_and_spanning_ones_leave_rank_7) {
    enum { K = 8 };
    rng r = {13};
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, K, K, 1);
    double v[K], P[K * K], s[K];
    spec w;
    rng_unit(&r, v, K);
    for (int t = 0; t < K; t++) {
        c.beta[t] = 1;
        for (int i = 0; i < K; i++)
            c.k[t * K + i] = (t == i) - 2 * v[t] * v[i];
    }
    window(&c, K - 1, K, &w);
    printf("measured G13 orthonormal keys: norm of the window %.2g\n", w.f.norm2);
    assert_true(w.f.norm2 <= 1e-15);
    for (int t = 0; t < K; t++)
        rng_unit(&r, c.k + t * K, K);
    err e = {0};
    assert_true(spectrum_product(&c.x, K - 1, K, P, NULL, &e));
    matrix_svals(P, K, s);
    int rank = 0;
    for (int i = 0; i < K; i++)
        rank += s[i] > 1e-14;
    window(&c, K - 1, K, &w);
    printf("measured G13 random unit keys: rank %d of 8, norm %.3f, next singular value %.2g\n",
           rank, w.f.norm2, s[K - 1]);
    assert_int_equal(rank, 7);
    assert_true(w.f.norm2 > 0.1);
    case_free(&c);
}

TEST(decay_far_below_the_doubles_goes_into_log_scale) {
    enum { K = 10, T = 20 };
    spec strong, plain;
    for (int W = 2; W <= 12; W += 10) { // the short and the dense path
        tcase c = case_random(TDECAY_HEAD, T, K, 1, 2, 500);
        tcase u = case_random(TDECAY_NONE, T, K, 1, 2, 500); // same keys and strengths
        for (int t = 0; t < T; t++)
            c.g[t] = -500;
        window(&c, T - 1, W, &strong);
        window(&u, T - 1, W, &plain);
        // The scale may also hold the power of two that keeps the product near 1.
        double shift = strong.f.log_scale + 500.0 * W;
        double back = exp(shift);
        for (int i = 0; i < K; i++)
            strong.eig[i] *= back;
        printf(
            "measured decay -500 over %d tokens: log scale %.6g, eigenvalues %.2g eps norm cond\n",
            W, strong.f.log_scale, distance(&strong, &plain, K));
        assert_true(fabs(shift) < 50 && distance(&strong, &plain, K) <= 100);
        assert_true(fabs(strong.f.norm2 * back / plain.f.norm2 - 1) <= 1e-12);
        assert_true(fabs(strong.f.logabsdet - plain.f.logabsdet + 500.0 * W * K) <= 1e-8);
        assert_true(fabs(spectrum_half_life(strong.f.radius, strong.f.log_scale, W) /
                             (M_LN2 * W / (500.0 * W - log(plain.f.radius))) -
                         1) <= 1e-12);
        case_free(&u);
        case_free(&c);
    }
    // A channel decay of -500 a token for all channels, one of them at -499.
    tcase c = case_random(TDECAY_CHANNEL, T, K, 1, 0, 501);
    double P[K * K], ls;
    for (int i = 0; i < T * K; i++)
        c.g[i] = i % K == 3 ? -499 : -500;
    window(&c, T - 1, T, &strong);
    assert_true(fabs(strong.f.log_scale + 499 * T + log(strong.f.radius)) < 1e-9);
    assert_true(fabs(cabs(strong.eig[1]) / cabs(strong.eig[0]) / exp(-T) - 1) < 1e-12);
    assert_true(spectrum_product(&c.x, T - 1, T, P, &ls, NULL));
    assert_true(fabs(ls + log(P[3 * K + 3]) + 499 * T) < 1e-9 && P[3 * K + 3] >= 0.5);
    assert_true(spectrum_product(&c.x, T - 1, T, P, NULL, NULL) && P[3 * K + 3] == 0);
    case_free(&c);
}

TEST(a_wiped_state_has_all_eigenvalues_zero) {
    spec s;
    for (int decay = 1; decay < 3; decay++)
        for (int W = 1; W <= 10; W += 9) {
            tcase c = case_random((transition_decay)decay, 10, 5, 1, 2, 3);
            for (int i = 0; i < (decay == 1 ? 1 : 5); i++)
                c.g[(decay == 1 ? 9 : 45) + i] = -INFINITY;
            window(&c, 9, W, &s);
            for (int i = 0; i < 5; i++)
                assert_true(s.eig[i] == 0);
            assert_true(s.f.norm2 == 0 && s.f.radius == 0 && s.f.logabsdet == -INFINITY);
            assert_true(s.f.log_scale == 0);
            case_free(&c);
        }
}

TEST(diagonal_kinds_have_their_decays_as_eigenvalues) {
    enum { K = 6, T = 9 };
    spec s, d;
    for (int decay = 0; decay < 3; decay++) {
        tcase c = case_random((transition_decay)decay, T, K, 1, 2, 21);
        c.x.kind = TRANSITION_DIAGONAL;
        c.x.n_h = 0;
        window(&c, T - 1, T, &s);
        dense(&c, T - 1, T, &d);
        assert_true(distance(&s, &d, K) <= 4 && s.f.frozen == 0);
        assert_true(fabs(s.f.norm2 - d.f.norm2) <= 4 * EPS);
        if (decay == TDECAY_NONE)
            assert_true(s.eig[0] == 1 && s.eig[K - 1] == 1);
        case_free(&c);
    }
}

TEST(defective_windows_do_not_crash_and_say_so) {
    enum { K = 6 };
    // Nilpotent: A = e1 e2^T + e2 e3^T + .. in K - 1 steps is out of reach of one rank-one term, so
    // take D = 0 and a b^T with b.a = 0: eigenvalues 0 in a Jordan block.
    tcase c = case_new(TRANSITION_DPLR, TDECAY_HEAD, 1, K, 1);
    spec s;
    c.g[0] = -INFINITY;
    c.a[0] = c.b[1] = 1;
    window(&c, 0, 1, &s);
    bool large = false;
    for (int i = 0; i < K; i++) {
        assert_true(cabs(s.eig[i]) == 0 && s.cond[i] >= 1 && !isnan(s.cond[i]));
        large = large || s.cond[i] > 1e12;
    }
    assert_true(large && s.f.norm2 == 1 && s.f.radius == 0);
    case_free(&c);
}

TEST(numbers_that_are_none_are_an_error_that_names_the_token) {
    enum { K = 6 };
    double bad[] = {NAN, INFINITY};
    for (int kind = 0; kind < 3; kind++)
        for (int where = 0; where < 5; where++)
            for (int b = 0; b < 2; b++) {
                tcase c = case_random(TDECAY_CHANNEL, 8, K, 1, 2, 1);
                double *at[] = {c.k, c.beta, c.a, c.b, c.g};
                bool used = where == 4 || (kind == 0 && where < 2) || (kind == 1 && where > 1);
                spec s;
                double P[K * K], ex[K];
                err e = {0};
                c.x.kind = (transition_kind)kind;
                at[where][where == 1 ? 5 : 5 * K + 2] = bad[b];
                bool ok = spectrum_window(&c.x, 7, 3, s.eig, NULL, &s.f, &e);
                assert_true(ok == !used);
                if (used) {
                    assert_int_equal(e.code, ERR_NUMERIC);
                    assert_non_null(strstr(e.text, "token 5"));
                    assert_false(spectrum_product(&c.x, 7, 3, P, NULL, NULL));
                    assert_false(spectrum_lyapunov(&c.x, 0, 8, ex, NULL));
                    assert_false(spectrum_window_dense(&c.x, 7, 3, s.eig, NULL, &s.f, NULL));
                    // A window without that token is well.
                    assert_true(spectrum_window(&c.x, 4, 3, s.eig, NULL, &s.f, NULL));
                }
                case_free(&c);
            }
}

TEST(a_product_that_overflows_its_scale_is_an_error_not_a_nan) {
    tcase c = case_random(TDECAY_NONE, 8, 4, 1, 2, 1);
    spec s;
    err e = {0};
    for (int t = 0; t < 8; t++)
        c.beta[t] = 1e300;
    assert_false(spectrum_window(&c.x, 7, 2, s.eig, NULL, &s.f, &e));
    assert_int_equal(e.code, ERR_NUMERIC);
    case_free(&c);
}

TEST(windows_outside_the_row_are_refused) {
    tcase c = case_random(TDECAY_NONE, 8, 4, 1, 2, 1);
    spec s;
    int64_t bad[][2] = {{8, 1}, {3, 5}, {-1, 1}, {3, 0}, {3, -2}, {INT64_MAX, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err e = {0};
        assert_false(spectrum_window(&c.x, bad[i][0], bad[i][1], s.eig, NULL, &s.f, &e));
        assert_int_equal(e.code, ERR_USAGE);
    }
    case_free(&c);
}

TEST(failing_allocations_are_errors) {
    enum { K = 6 };
    tcase c = case_random(TDECAY_HEAD, 10, K, 3, 2, 1);
    tcase d = case_random(TDECAY_CHANNEL, 10, K, 1, 2, 1);
    tcase g = case_new(TRANSITION_DIAGONAL, TDECAY_HEAD, 10, K, 0);
    int failures = 0;
    for (int what = 0; what < 6; what++)
        for (long n = 1;; n++) {
            spec s;
            double P[K * K];
            err e = {0};
            mem_fail_after(n);
            bool ok = what == 0   ? spectrum_window(&c.x, 9, 1, s.eig, s.cond, &s.f, &e)
                      : what == 1 ? spectrum_window(&c.x, 9, 9, s.eig, s.cond, &s.f, &e)
                      : what == 2 ? spectrum_product(&d.x, 9, 9, P, NULL, &e)
                      : what == 3 ? spectrum_lyapunov(&d.x, 0, 9, P, &e)
                      : what == 4 ? spectrum_token(&c.x, 3, s.eig, &e)
                                  : spectrum_window(&g.x, 9, 9, s.eig, s.cond, &s.f, &e);
            mem_fail_after(0);
            if (ok)
                break;
            assert_int_equal(e.code, ERR_NOMEM);
            failures++;
        }
    printf("measured failing allocations: %d, all reported\n", failures);
    assert_true(failures >= 15);
    case_free(&g);
    case_free(&d);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_windows_agree_with_the_dense_path),
        cmocka_unit_test(short_windows_survive_repeated_and_zero_keys_and_beta_0_1_2),
        cmocka_unit_test(B53_head_sizes_from_8_to_256_work),
        cmocka_unit_test(condition_numbers_of_the_short_form_are_those_of_the_whole_matrix),
        cmocka_unit_test(order_is_modulus_descending_then_angle_ascending),
        cmocka_unit_test(G11_a_window_keeps_d_minus_W_n_h_directions_at_the_gate),
        cmocka_unit_test(G12_the_determinant_ledger_equals_the_product_of_lapack_eigenvalues),
        cmocka_unit_test(G12_the_ledger_of_dplr_steps_is_their_determinant),
        cmocka_unit_test(
            G13_orthonormal_projections_clear_the_state_and_spanning_ones_leave_rank_7),
        cmocka_unit_test(decay_far_below_the_doubles_goes_into_log_scale),
        cmocka_unit_test(a_wiped_state_has_all_eigenvalues_zero),
        cmocka_unit_test(diagonal_kinds_have_their_decays_as_eigenvalues),
        cmocka_unit_test(defective_windows_do_not_crash_and_say_so),
        cmocka_unit_test(numbers_that_are_none_are_an_error_that_names_the_token),
        cmocka_unit_test(a_product_that_overflows_its_scale_is_an_error_not_a_nan),
        cmocka_unit_test(windows_outside_the_row_are_refused),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
