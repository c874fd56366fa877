// Window spectra of single recurrences against reference values from elsewhere
// (golden/steps in the shared folder), and the WY form (K02, K03) as a second way to a product.
#include "tests/eigen_match.h"
#include "tests/npy_tiny.h"
#include "tests/spectrum_cases.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

enum { T = 24, K = 8 };

static char shared[3000];

static int find_shared(void **state) {
    (void)state;
    const char *env = getenv("DELTOP_SHARED");
    snprintf(shared, sizeof shared, "%s/golden/steps", env && *env ? env : "../shared");
    return 0;
}

static double *try_load(const char *dir, const char *name, size_t *n) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s.npy", shared, dir, name);
    return npy_tiny_read(path, n);
}

// Absent reference files skip the test; a file of another size fails it.
static double *load(const char *dir, const char *name, size_t want) {
    size_t n = 0;
    double *v = try_load(dir, name, &n);
    if (!v) {
        printf("SKIP: %s/%s/%s.npy is not there\n", shared, dir, name);
        skip();
    }
    assert_int_equal(n, want);
    return v;
}

static void put(double *to, const char *dir, const char *name, size_t n) {
    double *v = load(dir, name, n);
    memcpy(to, v, n * sizeof *to);
    free(v);
}

static void put_log(double *to, const char *dir, const char *name, size_t n) {
    put(to, dir, name, n);
    for (size_t i = 0; i < n; i++)
        to[i] = log(to[i]);
}

// Distance of the window's spectrum from a reference file, in units of 1e-15 norm2 cond (the error
// of one value, as the reference itself states it) in *quotient, and plain as the result.
static double against(const tcase *c, int W, const char *dir, const char *file, double *quotient) {
    double complex eig[K], want[K];
    double cond[K], unit[K], top = 1;
    window_facts f;
    err e = {0};
    put((double *)want, dir, file, 2 * K);
    if (!spectrum_window(&c->x, T - 1, W, eig, cond, &f, &e))
        fail_msg("%s", e.text);
    for (int i = 0; i < K; i++)
        if (isfinite(cond[i]))
            top = fmax(top, cond[i]);
    for (int i = 0; i < K; i++)
        unit[i] = 1e-15 * f.norm2 * top;
    *quotient = eigen_match(eig, want, unit, K);
    return eigen_match(eig, want, NULL, K);
}

// Both solvers err by a few eps per dimension; printed as it is.
static void agrees(const tcase *c, int W, const char *dir, const char *file) {
    double q, d = against(c, W, dir, file, &q);
    printf("measured %s/%s: %.2g, that is %.2g x 1e-15 norm2 cond\n", dir, file, d, q);
    assert_true(q <= 20);
}

static void is_far(const tcase *c, int W, const char *dir, const char *file) {
    double q, d = against(c, W, dir, file, &q);
    printf("measured %s/%s: %.2g away, as it must be\n", dir, file, d);
    assert_true(d > 1e-3);
}

TEST(R08_kda_decays_before_it_corrects) {
    tcase c = case_new(TRANSITION_KEYS, TDECAY_CHANNEL, T, K, 1);
    put(c.k, "kda", "k", T * K);
    put(c.beta, "kda", "beta", T);
    put(c.g, "kda", "g", T * K);
    agrees(&c, 1, "kda", "eig_w1_last");
    agrees(&c, 8, "kda", "eig_w8_last");
    agrees(&c, 24, "kda", "eig_w24_last");
    is_far(&c, 8, "kda", "eig_w8_last_wrong_order");
    case_free(&c);
}

TEST(R09_rwkv7_writes_along_a_kappa_and_reads_along_kappa) {
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, T, K, 1);
    put(c.a, "rwkv7", "a", T * K);
    put(c.b, "rwkv7", "kappa", T * K);
    put(c.g, "rwkv7", "w_log", T * K);
    for (int i = 0; i < T * K; i++)
        c.a[i] *= -c.b[i];
    agrees(&c, 1, "rwkv7", "eig_w1_last");
    agrees(&c, 8, "rwkv7", "eig_w8_last");
    agrees(&c, 24, "rwkv7", "eig_w24_last");
    is_far(&c, 8, "rwkv7", "eig_w8_last_wrong_swapped");
    case_free(&c);
}

TEST(dplr_steps_of_any_kind) {
    tcase c = case_new(TRANSITION_DPLR, TDECAY_CHANNEL, T, K, 1);
    put(c.a, "dplr", "a", T * K);
    put(c.b, "dplr", "b", T * K);
    put(c.g, "dplr", "w_log", T * K);
    agrees(&c, 1, "dplr", "eig_w1_last");
    agrees(&c, 8, "dplr", "eig_w8_last");
    agrees(&c, 24, "dplr", "eig_w24_last");
    case_free(&c);
}

TEST(R10_comba_reads_the_undecayed_state_along_the_scaled_key) {
    tcase c = case_new(TRANSITION_DPLR, TDECAY_HEAD, T, K, 1);
    double decay;
    put(c.k, "comba", "k", T * K);
    put(c.beta, "comba", "beta", T);
    put(c.g, "comba", "g", T);
    put(&decay, "comba", "decay", 1);
    for (int t = 0; t < T; t++) {
        double kk = 0, pp = 0, s = 1 / (1 + exp(-decay));
        for (int i = 0; i < K; i++) {
            kk += pow(c.k[t * K + i], 2);
            pp += pow(c.k[t * K + i] * s, 2);
        }
        for (int i = 0; i < K; i++) {
            c.a[t * K + i] = -c.beta[t] * c.k[t * K + i] / sqrt(kk + 1e-6);
            c.b[t * K + i] = c.k[t * K + i] * s / sqrt(pp + 1e-6);
        }
    }
    agrees(&c, 8, "comba", "eig_w8_last");
    case_free(&c);
}

TEST(R11_longhorn_shortens_the_step_for_long_keys) {
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, T, K, 1);
    put(c.k, "longhorn", "k", T * K);
    put(c.beta, "longhorn", "beta", T);
    for (int t = 0; t < T; t++) {
        double kk = 0;
        for (int i = 0; i < K; i++)
            kk += pow(c.k[t * K + i], 2);
        c.beta[t] /= 1 + c.beta[t] * kk;
    }
    agrees(&c, 8, "longhorn", "eig_w8_last");
    case_free(&c);
}

TEST(R01_to_R05_diagonal_rows_of_the_table) {
    tcase c = case_new(TRANSITION_DIAGONAL, TDECAY_NONE, T, K, 0);
    double gamma;
    agrees(&c, 8, "table", "eig_w8_last_R01_linear_attention");
    c.x.decay = TDECAY_HEAD;
    put_log(&gamma, "table", "gamma", 1);
    for (int t = 0; t < T; t++)
        c.g[t] = gamma;
    agrees(&c, 8, "table", "eig_w8_last_R02_retnet");
    put_log(c.g, "table", "alpha_scalar", T);
    agrees(&c, 8, "table", "eig_w8_last_R03_mamba2");
    c.x.decay = TDECAY_CHANNEL;
    put_log(c.g, "table", "alpha_vector", T * K);
    agrees(&c, 8, "table", "eig_w8_last_R04_gla");
    agrees(&c, 8, "table", "eig_w8_last_R05_hgrn2");
    case_free(&c);
}

TEST(R06_R07_R08_delta_rows_of_the_table) {
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, T, K, 1);
    put(c.k, "table", "k", T * K);
    put(c.beta, "table", "beta", T);
    agrees(&c, 8, "table", "eig_w8_last_R06_deltanet");
    c.x.decay = TDECAY_HEAD;
    put_log(c.g, "table", "alpha_scalar", T);
    agrees(&c, 8, "table", "eig_w8_last_R07_gated_deltanet");
    c.x.decay = TDECAY_CHANNEL;
    put_log(c.g, "table", "alpha_vector", T * K);
    agrees(&c, 8, "table", "eig_w8_last_R08_kda");
    case_free(&c);
}

TEST(R10_R11_rows_of_the_table) {
    tcase c = case_new(TRANSITION_DPLR, TDECAY_HEAD, T, K, 1);
    put(c.a, "table", "k", T * K);
    put(c.b, "table", "khat", T * K);
    put(c.beta, "table", "beta", T);
    put_log(c.g, "table", "alpha_scalar", T);
    for (int i = 0; i < T * K; i++)
        c.a[i] *= -c.beta[i / K];
    agrees(&c, 8, "table", "eig_w8_last_R10_comba");
    c.x.kind = TRANSITION_KEYS;
    c.x.decay = TDECAY_NONE;
    put(c.k, "table", "k", T * K);
    for (int t = 0; t < T; t++)
        c.beta[t] /= 1 + c.beta[t]; // unit keys
    agrees(&c, 8, "table", "eig_w8_last_R11_longhorn");
    case_free(&c);
}

TEST(R12_R13_two_micro_steps_a_token) {
    tcase c = case_new(TRANSITION_KEYS, TDECAY_NONE, T, K, 2);
    put(c.k, "table", "k_micro", T * 2 * K);
    put(c.beta, "table", "beta_micro", T * 2);
    agrees(&c, 8, "table", "eig_w8_last_R12_deltaproduct2");
    c.x.decay = TDECAY_HEAD;
    put_log(c.g, "table", "alpha_scalar", T);
    agrees(&c, 8, "table", "eig_w8_last_R13_gated_deltaproduct2");
    case_free(&c);
}

// I - K^T T K with T = (I + tril(diag(beta) K K^T, -1))^-1 diag(beta), by LAPACK's triangular
// solve.
TEST(K02_K03_the_wy_form_of_a_window_is_its_product_and_the_small_core_has_its_eigenvalues) {
    enum { D = 24, N = 6, R = 2 * N };
    double worst = 0, eigs = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        tcase c = case_random(TDECAY_NONE, N, D, 2, 2, seed);
        double L[R * R] = {0}, TK[R * D], TG[R * R] = {0}, P[D * D], Q[D * D];
        double complex eig[D], want[D];
        double cond[D], unit[D], top = 1;
        window_facts f;
        for (int i = 0; i < R; i++) {
            for (int j = 0; j < i; j++)
                for (int d = 0; d < D; d++)
                    L[i * R + j] += c.beta[i] * c.k[i * D + d] * c.k[j * D + d];
            for (int d = 0; d < D; d++)
                TK[i * D + d] = c.beta[i] * c.k[i * D + d];
        }
        assert_int_equal(LAPACKE_dtrtrs(LAPACK_ROW_MAJOR, 'L', 'N', 'U', R, D, L, R, TK, D), 0);
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) {
                Q[i * D + j] = i == j;
                for (int r = 0; r < R; r++)
                    Q[i * D + j] -= c.k[r * D + i] * TK[r * D + j];
            }
        assert_true(spectrum_product(&c.x, N - 1, N, P, NULL, NULL));
        worst = fmax(worst, matrix_diff(P, Q, D * D));
        for (int i = 0; i < R; i++)
            for (int j = 0; j < R; j++)
                for (int d = 0; d < D; d++)
                    TG[i * R + j] += TK[i * D + d] * c.k[j * D + d];
        matrix_eigs(TG, R, want);
        for (int i = 0; i < D; i++)
            want[i] = i < R ? 1 - want[i] : 1;
        assert_true(spectrum_window(&c.x, N - 1, N, eig, cond, &f, NULL));
        for (int i = 0; i < D; i++)
            top = fmax(top, cond[i]);
        for (int i = 0; i < D; i++)
            unit[i] = DBL_EPSILON * f.norm2 * top;
        eigs = fmax(eigs, eigen_match(eig, want, unit, D));
        case_free(&c);
    }
    printf("measured K02 product %.2g, K03 core eigenvalues %.2g eps norm cond\n", worst, eigs);
    assert_true(worst <= 100 * DBL_EPSILON);
    // The core of K03 is conditioned worse than the product: entries of T up to 4.
    assert_true(eigs <= 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(R08_kda_decays_before_it_corrects),
        cmocka_unit_test(R09_rwkv7_writes_along_a_kappa_and_reads_along_kappa),
        cmocka_unit_test(dplr_steps_of_any_kind),
        cmocka_unit_test(R10_comba_reads_the_undecayed_state_along_the_scaled_key),
        cmocka_unit_test(R11_longhorn_shortens_the_step_for_long_keys),
        cmocka_unit_test(R01_to_R05_diagonal_rows_of_the_table),
        cmocka_unit_test(R06_R07_R08_delta_rows_of_the_table),
        cmocka_unit_test(R10_R11_rows_of_the_table),
        cmocka_unit_test(R12_R13_two_micro_steps_a_token),
        cmocka_unit_test(
            K02_K03_the_wy_form_of_a_window_is_its_product_and_the_small_core_has_its_eigenvalues),
    };
    return cmocka_run_group_tests(tests, find_shared, NULL);
}
