// The tridiagonal eigenvalues that one GPU thread computes (kernels/cuda/tridiag.h), on the host,
// against LAPACKE dstev.
#include "kernels/cuda/tridiag.h"

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

enum { MOST = 128, STRIDE = 3 };

static uint64_t seed = 3;

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static int falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Largest error over lambda_1. Neighbours in the interleaved layout must stay as they are.
static double error_of(const double *d, const double *e, int n) {
    static double D[MOST * STRIDE], E[MOST * STRIDE];
    double want[MOST], off[MOST], got[MOST], none = 0, worst = 0, top = 0;
    for (int i = 0; i < n * STRIDE; i++)
        D[i] = E[i] = 77;
    for (int i = 0; i < n; i++) {
        D[i * STRIDE + 1] = want[i] = d[i];
        off[i] = i < n - 1 ? e[i] : 0;
        E[i * STRIDE + 1] = off[i] * off[i];
    }
    assert_true(tridiag_eigenvalues(D + 1, E + 1, n, STRIDE));
    assert_int_equal(LAPACKE_dstev(LAPACK_COL_MAJOR, 'N', n, want, off, &none, 1), 0);
    for (int i = 0; i < n; i++) {
        got[i] = D[i * STRIDE + 1];
        assert_true(D[i * STRIDE] == 77 && E[i * STRIDE + 2] == 77);
    }
    qsort(got, (size_t)n, sizeof *got, falling);
    for (int i = 0; i < n; i++) { // dstev: rising
        worst = fmax(worst, fabs(got[i] - want[n - 1 - i]));
        top = fmax(top, fabs(want[i]));
    }
    return top > 0 ? worst / top : worst;
}

static void random_matrices_match_dstev(void **state) {
    (void)state;
    double worst = 0;
    for (int round = 0; round < 200; round++) {
        int n = 1 + (int)(uniform() * MOST);
        double d[MOST], e[MOST];
        for (int i = 0; i < n; i++) {
            d[i] = 1 + uniform();
            e[i] = uniform() - 0.5;
        }
        worst = fmax(worst, error_of(d, e, n));
    }
    printf("measured random tridiagonals: error %.2g lambda_1\n", worst);
    assert_true(worst < 1e-14); // some dozens of roundings
}

static void graded_split_and_rank_deficient_matrices_match_dstev(void **state) {
    (void)state;
    double worst = 0, d[MOST], e[MOST];
    for (int kind = 0; kind < 5; kind++) {
        for (int i = 0; i < MOST; i++) {
            double grade = pow(10, -0.12 * (kind == 1 ? MOST - 1 - i : i));
            d[i] = kind < 2 ? grade : kind == 2 ? 1 : kind == 3 ? (i < 3 ? 4 - i : 0) : 0;
            e[i] = kind < 2 ? 0.3 * grade : kind == 2 ? (i % 5 ? 0.4 : 0) : kind == 3 ? 1e-17 : 0;
        }
        worst = fmax(worst, error_of(d, e, MOST));
    }
    printf("measured graded, split, rank-deficient, zero: error %.2g lambda_1\n", worst);
    assert_true(worst < 1e-14);
}

static void a_matrix_that_is_not_finite_is_refused(void **state) {
    (void)state;
    double d[4] = {1, NAN, 1, 1}, e[4] = {0.1, 0.1, 0.1, 0};
    assert_false(tridiag_eigenvalues(d, e, 4, 1));
    double d2[4] = {1, 1, 1, 1}, e2[4] = {0.1, INFINITY, 0.1, 0};
    assert_false(tridiag_eigenvalues(d2, e2, 4, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_matrices_match_dstev),
        cmocka_unit_test(graded_split_and_rank_deficient_matrices_match_dstev),
        cmocka_unit_test(a_matrix_that_is_not_finite_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
