// Singular values of many states (kernels/svals.h) against closed forms and LAPACKE dgesdd, and
// the numbers made of them (analyses/rank.h).
#include "analyses/rank.h"
#include "core/mem.h"
#include "kernels/svals.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NEAR(a, b, tol) assert_true(near(a, b, tol))

static bool near(double a, double b, double tol) {
    return fabs(a - b) <= tol * fmax(1, fabs(b));
}

// ---- material -----------------------------------------------------------------------------------

static uint64_t seed = 1;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static double gauss(void) {
    return sqrt(-2 * log(uniform() + 0x1p-60)) * cos(6.283185307179586 * uniform());
}

// `count` states K x V of a delta rule with random unit keys, beta in (0, 2) and a constant decay,
// walked in float32 like a model does: those after tokens first, first + 1, ... (0: the zero
// state).
static void walk_gated(float *out, int count, int first, int K, int V, double decay) {
    float *S = calloc((size_t)K * (size_t)V, sizeof *S);
    double k[512];
    for (int t = 0; t < first + count; t++) {
        if (t >= first)
            memcpy(out + (size_t)(t - first) * (size_t)(K * V), S, (size_t)(K * V) * sizeof *S);
        double norm = 0, beta = 2 / (1 + exp(-gauss()));
        for (int i = 0; i < K; i++) {
            k[i] = gauss();
            norm += k[i] * k[i];
        }
        for (int v = 0; v < V; v++) {
            double read = 0, value = gauss();
            for (int i = 0; i < K; i++)
                read += k[i] / sqrt(norm) * decay * S[i * V + v];
            for (int i = 0; i < K; i++)
                S[i * V + v] =
                    (float)(decay * S[i * V + v] + beta * k[i] / sqrt(norm) * (value - read));
        }
    }
    free(S);
}

static void walk(float *out, int count, int first, int K, int V) {
    walk_gated(out, count, first, K, V, 1);
}

// The oracle, called here and not through the code under test.
static void oracle(const double *a, int K, int V, double *s) {
    size_t size = (size_t)K * (size_t)V;
    double *copy = malloc(size * sizeof *copy);
    memcpy(copy, a, size * sizeof *copy);
    assert_int_equal(LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', V, K, copy, V, s, NULL, 1, NULL, 1), 0);
    free(copy);
}

typedef struct gap {
    double rank, sigma, fro;
} gap;

// Worst differences from the oracle over `count` states: effective rank (relative, values below
// 1e-7 sigma_1 counted as zero in both), singular values and Frobenius norm (over sigma_1).
static gap gap_f32(svals_method m, const float *a, int count, int K, int V) {
    int n = K < V ? K : V;
    size_t size = (size_t)K * (size_t)V;
    double *sv = malloc((size_t)count * (size_t)n * sizeof *sv), *fro = malloc(sizeof *fro * count);
    double *s = malloc((size_t)n * sizeof *s), *d = malloc(size * sizeof *d);
    err e = {0};
    assert_true(svals_f32(m, a, count, K, V, sv, fro, &e));
    gap worst = {0};
    for (int c = 0; c < count; c++) {
        for (size_t i = 0; i < size; i++)
            d[i] = a[(size_t)c * size + i];
        oracle(d, K, V, s);
        const double *mine = sv + (size_t)c * (size_t)n;
        for (int i = 1; i < n; i++)
            assert_true(mine[i] >= 0 && mine[i] <= mine[i - 1]);
        if (s[0] == 0) {
            assert_true(mine[0] == 0 && fro[c] == 0);
            continue;
        }
        double rank = rank_effective(s, n, RANK_CUT);
        worst.rank = fmax(worst.rank, fabs(rank_effective(mine, n, RANK_CUT) / rank - 1));
        for (int i = 0; i < n; i++)
            worst.sigma = fmax(worst.sigma, fabs(mine[i] - s[i]) / s[0]);
        worst.fro = fmax(worst.fro, fabs(fro[c] - rank_frobenius(s, n)) / s[0]);
    }
    free(sv);
    free(fro);
    free(s);
    free(d);
    return worst;
}

// ---- closed forms -------------------------------------------------------------------------------

static void S01_effective_rank_matches_its_closed_forms(void **state) {
    (void)state;
    double ulp = 8 * DBL_EPSILON; // a few roundings of log and exp
    NEAR(rank_effective((double[]){2, 1}, 2, 0), 3 / cbrt(4), ulp);
    NEAR(rank_effective((double[]){2, 1}, 2, 0), 1.8898815748, 1e-10); // the printed digits
    NEAR(rank_effective((double[]){4, 2, 1}, 3, 0), 2.6004900060, 1e-10);
    NEAR(rank_effective((double[]){7, 7}, 2, 0), 2, ulp);
    double one[64], halves[64];
    for (int i = 0; i < 64; i++) {
        one[i] = 3;
        halves[i] = ldexp(1, -i);
    }
    for (int n = 1; n <= 64; n++)
        NEAR(rank_effective(one, n, 0), n, ulp);
    // sum_i i 2^-i has converged to double after 64 terms.
    NEAR(rank_effective(halves, 64, 0), 4, ulp);
}

static void S01_closed_forms_hold_through_both_methods(void **state) {
    (void)state;
    double a[9] = {0, 0, 4, -2, 0, 0, 0, 1, 0}, sv[3], fro; // a signed permutation of diag(4,2,1)
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        err e = {0};
        assert_true(svals_f64(m, a, 1, 3, 3, sv, &fro, &e));
        NEAR(rank_effective(sv, 3, RANK_CUT), 2.6004900060, 1e-10);
        NEAR(sv[0], 4, 4 * DBL_EPSILON);
        NEAR(sv[1], 2, 4 * DBL_EPSILON);
        NEAR(sv[2], 1, 4 * DBL_EPSILON);
        NEAR(fro, sqrt(21), 4 * DBL_EPSILON);
    }
}

static void S02_effective_rank_stays_within_one_and_the_rank(void **state) {
    (void)state;
    enum { COUNT = 80, K = 16, V = 32 };
    float *a = malloc(sizeof *a * COUNT * K * V);
    double sv[COUNT * K];
    err e = {0};
    walk(a, COUNT, 0, K, V);
    assert_true(svals_f32(SVALS_FAST, a, COUNT, K, V, sv, NULL, &e));
    for (int t = 1; t < COUNT; t++) {
        double r = rank_effective(sv + t * K, K, RANK_CUT);
        int rank = rank_numeric(sv + t * K, K, RANK_CUT);
        assert_true(1 <= r && r <= rank && rank <= K);
        if (t < K)
            assert_int_equal(rank, t); // t writes along t independent keys
    }
    // Equal values sit on the upper bound, one value on the lower: not an ulp beyond.
    for (int n = 1; n < 40; n++) {
        double same[40];
        for (int i = 0; i < n; i++)
            same[i] = 0.1;
        assert_true(rank_effective(same, n, 0) <= n);
        assert_true(rank_effective((double[]){0.3, 0}, 2, 0) == 1);
    }
    free(a);
}

static void S02_effective_rank_does_not_depend_on_scale(void **state) {
    (void)state;
    enum { N = 32 };
    static const double scale[] = {1e-20, 1e20, -3, 0x1p-300, 0x1p+900, 0x1p-1000};
    double a[N * N], b[N * N], sv[N], sw[N];
    err e = {0};
    for (int i = 0; i < N * N; i++)
        a[i] = gauss();
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        assert_true(svals_f64(m, a, 1, N, N, sv, NULL, &e));
        double r = rank_effective(sv, N, 0), worst = 0;
        for (size_t c = 0; c < sizeof scale / sizeof *scale; c++) {
            for (int i = 0; i < N * N; i++)
                b[i] = a[i] * scale[c];
            assert_true(svals_f64(m, b, 1, N, N, sw, NULL, &e));
            double off = fabs(rank_effective(sw, N, 0) / r - 1);
            worst = fmax(worst, off);
            // A power of two changes no digit anywhere.
            if (c > 2)
                assert_true(off == 0);
        }
        printf("measured erank(cH)/erank(H) - 1, %s: %.1e\n", m == SVALS_FAST ? "fast" : "exact",
               worst);
        // Scaling by 1e20 rounds every entry (1e-16 relative each); the fast method sees that
        // through a squared condition number, here a few hundred.
        assert_true(worst <= (m == SVALS_FAST ? 1e-13 : 2e-15));
        // The formula itself.
        for (size_t c = 0; c < 3; c++) {
            for (int i = 0; i < N; i++)
                sw[i] = sv[i] * fabs(scale[c]);
            assert_true(fabs(rank_effective(sw, N, 0) / r - 1) <= 2e-15);
        }
    }
}

static void S03_zero_state_is_nan_and_zero_only_for_authors(void **state) {
    (void)state;
    double zero[3] = {0}, tiny[2] = {2e-16, 1e-16}, mixed[3] = {2, 1, 2.2e-16};
    assert_true(isnan(rank_effective(zero, 3, 0)) && isnan(rank_effective(zero, 3, RANK_CUT)));
    assert_true(rank_effective_authors(zero, 3) == 0);
    assert_true(isnan(rank_stable(zero, 3)) && isnan(rank_condition(zero, 3)));
    assert_true(isnan(rank_energy(zero, 3, 1)));
    assert_true(rank_nuclear(zero, 3) == 0 && rank_spectral(zero, 3) == 0);
    assert_true(rank_frobenius(zero, 3) == 0 && rank_numeric(zero, 3, RANK_CUT) == 0);
    // Their cut is absolute: a small state vanishes, and 2.2e-16 itself is dropped.
    assert_true(rank_effective_authors(tiny, 2) == 0);
    NEAR(rank_effective(tiny, 2, 0), 1.8898815748, 1e-10);
    NEAR(rank_effective_authors(mixed, 3), 1.8898815748, 1e-10);
}

static void S04_companion_numbers_of_diag_4_2_1(void **state) {
    (void)state;
    double sv[3] = {4, 2, 1}, ulp = 4 * DBL_EPSILON;
    NEAR(rank_frobenius(sv, 3), 4.5825757, 1e-8); // the printed digits
    NEAR(rank_frobenius(sv, 3), sqrt(21), ulp);
    NEAR(rank_spectral(sv, 3), 4, 0);
    NEAR(rank_stable(sv, 3), 21. / 16, ulp);
    NEAR(rank_nuclear(sv, 3), 7, 0);
    NEAR(rank_condition(sv, 3), 4, 0);
    NEAR(rank_energy(sv, 3, 1), 16. / 21, ulp);
    NEAR(rank_energy(sv, 3, 2), 20. / 21, ulp);
    assert_true(rank_energy(sv, 3, 0) == 0 && rank_energy(sv, 3, 3) == 1);
    assert_true(rank_energy(sv, 3, -5) == 0 && rank_energy(sv, 3, 99) == 1);
    assert_true(isinf(rank_condition((double[]){4, 0}, 2)));
    // Squares of these would under- or overflow.
    for (int k = -200; k <= 200; k += 400) {
        double c = pow(10, k), s[3] = {4 * c, 2 * c, c};
        NEAR(rank_frobenius(s, 3) / c, sqrt(21), ulp);
        NEAR(rank_stable(s, 3), 21. / 16, ulp);
        NEAR(rank_energy(s, 3, 1), 16. / 21, ulp);
    }
}

static void a_nan_among_the_values_makes_every_number_nan(void **state) {
    (void)state;
    double sv[3] = {4, NAN, 1};
    assert_true(isnan(rank_effective(sv, 3, 0)) && isnan(rank_effective_authors(sv, 3)));
    assert_true(isnan(rank_stable(sv, 3)) && isnan(rank_nuclear(sv, 3)));
    assert_true(isnan(rank_spectral(sv, 3)) && isnan(rank_frobenius(sv, 3)));
    assert_true(isnan(rank_condition(sv, 3)) && isnan(rank_energy(sv, 3, 1)));
    assert_int_equal(rank_numeric(sv, 3, 0), -1);
}

// ---- against dgesdd -----------------------------------------------------------------------------

static void delta_rule_states_agree_with_dgesdd(void **state) {
    (void)state;
    // From the zero state through the rank-deficient start (t < K) into full rank.
    static const int shape[][3] = {{16, 16, 70},  {24, 24, 90},  {32, 32, 110},
                                   {64, 64, 150}, {16, 32, 70},  {32, 16, 70},
                                   {64, 128, 90}, {128, 64, 90}, {128, 128, 40}};
    for (size_t c = 0; c < sizeof shape / sizeof *shape; c++) {
        int K = shape[c][0], V = shape[c][1], count = shape[c][2];
        float *a = malloc(sizeof *a * (size_t)count * (size_t)K * (size_t)V);
        walk(a, count, 0, K, V);
        gap start = gap_f32(SVALS_FAST, a, count, K, V);
        walk(a, 24, 3 * K, K, V);
        gap full = gap_f32(SVALS_FAST, a, 24, K, V);
        printf("measured erank error %3d x %-3d: %.1e from t = 0, %.1e from t = %d (sigma error "
               "%.1e)\n",
               K, V, start.rank, full.rank, 3 * K, fmax(start.sigma, full.sigma));
        // The target of the program. The Gram gives sigma_i up to eps sigma_1^2 / (2 sigma_i).
        assert_true(start.rank <= 1e-6 && full.rank <= 1e-6);
        // sqrt(n eps), the fate of a zero eigenvalue of the Gram.
        assert_true(fmax(start.sigma, full.sigma) <= 5e-8);
        assert_true(fmax(start.fro, full.fro) <= 1e-14);
        gap exact = gap_f32(SVALS_EXACT, a, 24, K, V);
        assert_true(exact.rank <= 1e-13 && exact.sigma <= 1e-13 && exact.fro <= 1e-13);
        free(a);
    }
}

static void gated_states_count_the_same_values_as_dgesdd_at_the_cut(void **state) {
    (void)state;
    // Under decay the values fall geometrically through 1e-7 sigma_1, and one that lands on the
    // other side of the cut moves the effective rank by 1e-6 to 2e-6.
    enum { COUNT = 600, K = 24 };
    static const double decay[] = {0.03, 0.1, 0.3, 0.5, 0.7, 0.9};
    float *a = malloc(sizeof *a * COUNT * K * K);
    double worst = 0;
    for (size_t c = 0; c < sizeof decay / sizeof *decay; c++) {
        walk_gated(a, COUNT, 1, K, K, decay[c]);
        worst = fmax(worst, gap_f32(SVALS_FAST, a, COUNT, K, K).rank);
    }
    printf("measured erank error 24 x 24, decay 0.03 to 0.9: %.1e\n", worst);
    // Values just above the cut are good to eps / 2e-14 = 1 %, and weigh 1e-7 each.
    assert_true(worst <= 1e-7);
    free(a);
    // The same on purpose: one value a hair on either side of the cut.
    double d[2 * 4] = {1, 0, 0, RANK_CUT * (1 + 1e-6), 1, 0, 0, RANK_CUT * (1 - 1e-6)}, sv[4];
    double h = sqrt(0.5);
    for (int i = 0; i < 2; i++) { // turned by 45 degrees, or the Gram would be exact
        double y = d[i * 4 + 3];
        double turned[4] = {h, -h * y, h, h * y};
        memcpy(d + i * 4, turned, sizeof turned);
    }
    err e = {0};
    assert_true(svals_f64(SVALS_FAST, d, 2, 2, 2, sv, NULL, &e));
    assert_int_equal(rank_numeric(sv, 2, RANK_CUT), 2);
    assert_int_equal(rank_numeric(sv + 2, 2, RANK_CUT), 1);
}

// a := H a (rows) or a H (columns) with a random reflection H = I - 2 w w^T / w.w.
static void reflect(double *a, int n, bool rows) {
    double w[128], norm = 0;
    for (int i = 0; i < n; i++) {
        w[i] = gauss();
        norm += w[i] * w[i];
    }
    for (int j = 0; j < n; j++) {
        size_t first = rows ? (size_t)j : (size_t)j * (size_t)n, step = rows ? (size_t)n : 1;
        double dot = 0;
        for (int i = 0; i < n; i++)
            dot += w[i] * a[first + (size_t)i * step];
        for (int i = 0; i < n; i++)
            a[first + (size_t)i * step] -= 2 * dot / norm * w[i];
    }
}

static void many_large_values_do_not_blur_those_at_the_cut(void **state) {
    (void)state;
    // Rounding grows with lambda_1, not with the trace. `large` ones, then values 4 % to 10 % off
    // the cut: too far for the second opinion of dgesdd, so the Gram itself has to place them.
    enum { N = 96, COUNT = 64 };
    double *a = calloc((size_t)COUNT * N * N, sizeof *a), *sv = malloc(sizeof *sv * COUNT * N);
    double s[N], worst = 0;
    err e = {0};
    for (int c = 0; c < COUNT; c++) {
        double *x = a + c * N * N;
        int large = 1 + c;
        for (int i = 0; i < N; i++)
            x[i * N + i] = i < large ? 1
                           : i < large + 30
                               ? RANK_CUT * (1 + (i % 2 ? 1 : -1) * (0.04 + 0.06 * uniform()))
                               : 0;
        for (int turn = 0; turn < 6; turn++)
            reflect(x, N, turn % 2);
    }
    assert_true(svals_f64(SVALS_FAST, a, COUNT, N, N, sv, NULL, &e));
    for (int c = 0; c < COUNT; c++) {
        oracle(a + c * N * N, N, N, s);
        assert_int_equal(rank_numeric(sv + c * N, N, RANK_CUT), rank_numeric(s, N, RANK_CUT));
        worst = fmax(
            worst,
            fabs(rank_effective(sv + c * N, N, RANK_CUT) / rank_effective(s, N, RANK_CUT) - 1));
    }
    printf("measured erank error with 30 values at the cut: %.1e\n", worst);
    // 30 values of 1e-7, each good to 1 % (eps / 2e-14), beside a sum of 1 or more.
    assert_true(worst <= 5e-7);
    free(a);
    free(sv);
}

static void every_size_and_a_count_that_fills_no_lane_is_right(void **state) {
    (void)state;
    double worst = 0, rank = 0;
    for (int K = 1; K <= 512; K += K < 20    ? 1
                                   : K < 80  ? 13
                                   : K < 300 ? 97
                                   : 512 - K ? 512 - K
                                             : 1) {
        int other[] = {K, 1, K / 2 + 1, K < 256 ? K + 5 : 7, K < 128 ? 2 * K + 1 : K};
        for (size_t c = 0; c < (K > 128 ? 2 : 5); c++) {
            int V = other[c], count = K > 128 ? 1 : 1 + (K * 7 + V) % 11;
            size_t size = (size_t)count * (size_t)K * (size_t)V;
            float *a = malloc(size * sizeof *a);
            for (size_t i = 0; i < size; i++)
                a[i] = (float)gauss();
            gap g = gap_f32(SVALS_FAST, a, count, K, V);
            worst = fmax(worst, g.sigma);
            rank = fmax(rank, g.rank);
            free(a);
        }
    }
    printf("measured 1..512, Gaussian entries: sigma error %.1e, erank error %.1e\n", worst, rank);
    // A square Gaussian matrix has sigma_n near sigma_1 / 2n; 1 x 1 and 2 x 2 can be worse.
    assert_true(worst <= 5e-8 && rank <= 1e-6);
}

static void values_do_not_depend_on_batch_or_neighbours(void **state) {
    (void)state;
    enum { COUNT = 67, N = 24 };
    float *a = malloc(sizeof *a * COUNT * N * N);
    double *all = malloc(sizeof *all * COUNT * N), one[N];
    err e = {0};
    walk(a, COUNT, 5, N, N);
    assert_true(svals_f32(SVALS_FAST, a, COUNT, N, N, all, NULL, &e));
    for (int c = 0; c < COUNT; c++) {
        assert_true(svals_f32(SVALS_FAST, a + c * N * N, 1, N, N, one, NULL, &e));
        assert_memory_equal(one, all + c * N, sizeof one);
    }
    free(a);
    free(all);
}

// ---- hard states --------------------------------------------------------------------------------

static void B81_zero_rank_one_and_scaled_states(void **state) {
    (void)state;
    enum { K = 24, V = 32, COUNT = 6 };
    float *a = calloc((size_t)COUNT * K * V, sizeof *a), *x = a;
    double sv[COUNT * K], fro[COUNT];
    err e = {0};
    // 0: zero. 1: exactly rank one. 2: identical columns. 3, 4: x 1e-20, x 1e20. 5: plain.
    for (int i = 0; i < K * V; i++) {
        x[K * V + i] = (float)((i / V + 1) * (i % V - 7)); // integers: exact products
        x[2 * K * V + i] = (float)(1 + i / V);
        float g = (float)gauss();
        x[3 * K * V + i] = g * 1e-20f;
        x[4 * K * V + i] = g * 1e20f;
        x[5 * K * V + i] = g;
    }
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        assert_true(svals_f32(m, a, COUNT, K, V, sv, fro, &e));
        for (int i = 0; i < K; i++)
            assert_true(sv[i] == 0);
        assert_true(fro[0] == 0 && isnan(rank_effective(sv, K, RANK_CUT)));
        for (int c = 1; c <= 2; c++) {
            NEAR(rank_effective(sv + c * K, K, RANK_CUT), 1, 1e-15);
            assert_int_equal(rank_numeric(sv + c * K, K, RANK_CUT), 1);
            NEAR(sv[c * K] / fro[c], 1, 1e-14);
        }
        double plain = rank_effective(sv + 5 * K, K, RANK_CUT);
        // float32 rounds the scaled entries anew: 6e-8 relative each, averaging out.
        NEAR(rank_effective(sv + 3 * K, K, RANK_CUT) / plain, 1, 1e-7);
        NEAR(rank_effective(sv + 4 * K, K, RANK_CUT) / plain, 1, 1e-7);
        NEAR(sv[3 * K] * 1e20 / sv[5 * K], 1, 1e-7);
        NEAR(sv[4 * K] * 1e-20 / sv[5 * K], 1, 1e-7);
    }
    free(a);
}

static void nan_or_inf_spoils_its_own_state_only(void **state) {
    (void)state;
    enum { N = 16, COUNT = 21 };
    static float a[COUNT * N * N], b[COUNT * N * N];
    static double sv[COUNT * N], clean[COUNT * N], fro[COUNT];
    err e = {0};
    for (int i = 0; i < COUNT * N * N; i++)
        a[i] = b[i] = (float)gauss();
    b[3 * N * N + 17] = NAN;
    b[4 * N * N] = -INFINITY;
    b[20 * N * N + N * N - 1] = -NAN;
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        assert_true(svals_f32(m, a, COUNT, N, N, clean, NULL, &e));
        assert_true(svals_f32(m, b, COUNT, N, N, sv, fro, &e));
        for (int c = 0; c < COUNT; c++) {
            bool bad = c == 3 || c == 4 || c == 20;
            assert_true(bad == !!isnan(fro[c]));
            for (int i = 0; i < N; i++)
                assert_true(bad ? isnan(sv[c * N + i]) : sv[c * N + i] == clean[c * N + i]);
            assert_true(bad == !!isnan(rank_effective(sv + c * N, N, RANK_CUT)));
        }
    }
    double d[4] = {1, 2, INFINITY, 3}, s[2];
    assert_true(svals_f64(SVALS_FAST, d, 1, 2, 2, s, NULL, &e));
    assert_true(isnan(s[0]) && isnan(s[1]));
}

static void one_huge_value_among_small_ones_is_good_to_the_promise(void **state) {
    (void)state;
    enum { N = 32 };
    double a[N * N] = {0}, fast[N], exact[N];
    err e = {0};
    // Orthogonal reflection Q = I - 2 w w^T times diag(1, 1e-3, 1e-6, 1e-9, ...).
    double w[N], norm = 0;
    for (int i = 0; i < N; i++) {
        w[i] = gauss();
        norm += w[i] * w[i];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i * N + j] = ((i == j) - 2 * w[i] * w[j] / norm) * pow(10, -3 * j);
    assert_true(svals_f64(SVALS_FAST, a, 1, N, N, fast, NULL, &e));
    assert_true(svals_f64(SVALS_EXACT, a, 1, N, N, exact, NULL, &e));
    double worst = 0;
    for (int i = 0; i < N; i++) {
        worst = fmax(worst, fabs(fast[i] - exact[i]));
        assert_true(fabs(exact[i] - pow(10, -3 * i)) <= 1e-15);
    }
    printf("measured graded values 1, 1e-3, 1e-6 ...: sigma error %.1e\n", worst);
    assert_true(worst <= 5e-8);
}

static void subnormal_and_largest_entries_keep_their_values(void **state) {
    (void)state;
    double sv[2], fro;
    float f[4] = {3e-45f, 0, 0, 1e-40f};
    err e = {0};
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        assert_true(svals_f32(m, f, 1, 2, 2, sv, &fro, &e));
        NEAR(sv[0] / f[3], 1, 1e-15);
        NEAR(sv[1] / f[0], 1, 1e-15);
        double tiny[4] = {0, 0x1p-1074, 0x1p-1060, 0}, big[4] = {DBL_MAX / 4, 0, 0, -DBL_MAX / 2};
        assert_true(svals_f64(m, tiny, 1, 2, 2, sv, &fro, &e));
        assert_true(sv[0] == 0x1p-1060 && sv[1] == 0x1p-1074 && fro == 0x1p-1060);
        assert_true(svals_f64(m, big, 1, 2, 2, sv, &fro, &e));
        NEAR(sv[0] / (DBL_MAX / 2), 1, 1e-15);
        NEAR(sv[1] / (DBL_MAX / 4), 1, 1e-15);
    }
}

static void patterns_that_split_or_stall_the_iteration(void **state) {
    (void)state;
    enum { N = 33, CASES = 8 };
    static double a[CASES * N * N];
    double *sv = malloc(sizeof *sv * CASES * N), s[N];
    err e = {0};
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double *x = a + i * N + j;
            x[0 * N * N] = i == j;                   // identity
            x[1 * N * N] = i == j ? (i % 3) : 0;     // repeated, with zeros
            x[2 * N * N] = 1;                        // all ones
            x[3 * N * N] = i >= j;                   // triangle of ones
            x[4 * N * N] = 1. / (i + j + 1);         // Hilbert
            x[5 * N * N] = i == j || i + j == N - 1; // cross: pairs of values 0 and 2
            x[6 * N * N] = i == 7 && j == 9;         // one entry
            x[7 * N * N] = abs(i - j) == 1 && i / 2 == j / 2 ? 1 : 0; // blocks, last row zero
        }
    }
    assert_true(svals_f64(SVALS_FAST, a, CASES, N, N, sv, NULL, &e));
    for (int c = 0; c < CASES; c++) {
        oracle(a + c * N * N, N, N, s);
        for (int i = 0; i < N; i++)
            assert_true(fabs(sv[c * N + i] - s[i]) <= 5e-8 * s[0]);
        NEAR(rank_effective(sv + c * N, N, RANK_CUT) / rank_effective(s, N, RANK_CUT), 1, 1e-6);
    }
    free(sv);
}

// ---- failures -----------------------------------------------------------------------------------

static void sizes_below_one_are_errors_and_count_zero_is_nothing(void **state) {
    (void)state;
    float a[4] = {0};
    double sv[2] = {5, 6};
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        err e = {0};
        assert_true(svals_f32(m, a, 0, 2, 2, sv, NULL, &e));
        assert_true(sv[0] == 5 && sv[1] == 6 && e.code == ERR_NONE);
        assert_false(svals_f32(m, a, 1, 0, 2, sv, NULL, &e));
        assert_int_equal(e.code, ERR_INPUT);
        err_clear(&e);
        assert_false(svals_f32(m, a, -1, 2, 2, sv, NULL, &e));
        assert_int_equal(e.code, ERR_INPUT);
        err_clear(&e);
        assert_false(svals_f64(m, NULL, 1, 2, -3, sv, NULL, &e));
        assert_non_null(strstr(e.text, "2 x -3"));
    }
}

static void failing_allocations_are_reported_and_leak_nothing(void **state) {
    (void)state;
    float a[5 * 16] = {1, 2, 3};
    double sv[5 * 4];
    for (svals_method m = SVALS_FAST; m <= SVALS_EXACT; m++) {
        bool ok = false;
        int tries = 0;
        for (; !ok; tries++) {
            err e = {0};
            mem_fail_after(tries + 1);
            ok = svals_f32(m, a, 5, 4, 4, sv, NULL, &e);
            mem_fail_after(0);
            assert_true(ok ? e.code == ERR_NONE : e.code == ERR_NOMEM);
            assert_true(tries < 1000);
        }
        assert_true(tries > 3);
    }
}

void openblas_set_num_threads(int n);

int main(void) {
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S01_effective_rank_matches_its_closed_forms),
        cmocka_unit_test(S01_closed_forms_hold_through_both_methods),
        cmocka_unit_test(S02_effective_rank_stays_within_one_and_the_rank),
        cmocka_unit_test(S02_effective_rank_does_not_depend_on_scale),
        cmocka_unit_test(S03_zero_state_is_nan_and_zero_only_for_authors),
        cmocka_unit_test(S04_companion_numbers_of_diag_4_2_1),
        cmocka_unit_test(a_nan_among_the_values_makes_every_number_nan),
        cmocka_unit_test(delta_rule_states_agree_with_dgesdd),
        cmocka_unit_test(gated_states_count_the_same_values_as_dgesdd_at_the_cut),
        cmocka_unit_test(many_large_values_do_not_blur_those_at_the_cut),
        cmocka_unit_test(every_size_and_a_count_that_fills_no_lane_is_right),
        cmocka_unit_test(values_do_not_depend_on_batch_or_neighbours),
        cmocka_unit_test(B81_zero_rank_one_and_scaled_states),
        cmocka_unit_test(nan_or_inf_spoils_its_own_state_only),
        cmocka_unit_test(one_huge_value_among_small_ones_is_good_to_the_promise),
        cmocka_unit_test(subnormal_and_largest_entries_keep_their_values),
        cmocka_unit_test(patterns_that_split_or_stall_the_iteration),
        cmocka_unit_test(sizes_below_one_are_errors_and_count_zero_is_nothing),
        cmocka_unit_test(failing_allocations_are_reported_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
