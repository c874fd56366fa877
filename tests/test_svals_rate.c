// How many sets of singular values per second, beside LAPACK's float32 dgesdd twin on one thread in
// the same process. The figures are printed; what is asserted is that the numbers agree and that
// the fast path is the fast one (timings on shared machines are too noisy for more).
#include "analyses/rank.h"
#include "kernels/svals.h"

#include <lapacke.h>
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double gauss(void) {
    static uint64_t seed = 7;
    double u[2];
    for (int i = 0; i < 2; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        u[i] = (double)(seed >> 11) * 0x1p-53;
    }
    return sqrt(-2 * log(u[0] + 0x1p-60)) * cos(6.283185307179586 * u[1]);
}

// States of an ungated delta rule after 3 n tokens and on, random unit keys, beta in (0, 2): full
// rank, the usual case.
static float *states(int count, int n) {
    size_t size = (size_t)n * (size_t)n;
    float *all = malloc((size_t)count * size * sizeof *all), *S = calloc(size, sizeof *S);
    double k[128], read[128];
    for (int t = 0; t < count + 3 * n; t++) {
        double norm = 0, beta = 2 / (1 + exp(-gauss()));
        memset(read, 0, sizeof read);
        for (int i = 0; i < n; i++) {
            k[i] = gauss();
            norm += k[i] * k[i];
        }
        for (int i = 0; i < n; i++) {
            k[i] /= sqrt(norm);
            for (int v = 0; v < n; v++)
                read[v] += k[i] * S[i * n + v];
        }
        for (int v = 0; v < n; v++)
            read[v] = beta * (gauss() - read[v]);
        for (int i = 0; i < n; i++)
            for (int v = 0; v < n; v++)
                S[i * n + v] += (float)(k[i] * read[v]);
        if (t >= 3 * n)
            memcpy(all + (size_t)(t - 3 * n) * size, S, size * sizeof *S);
    }
    free(S);
    return all;
}

// Values and effective ranks of all states; returns seconds.
static double ours(const float *a, int count, int n, double *sv, double *rank) {
    err e = {0};
    double start = now();
    assert_true(svals_f32(SVALS_FAST, a, count, n, n, sv, NULL, &e));
#pragma omp parallel for
    for (int c = 0; c < count; c++)
        rank[c] = rank_effective(sv + (size_t)c * (size_t)n, n, RANK_CUT);
    return now() - start;
}

// The same for the first states, one after the other with sgesdd on one thread: seconds for
// `count`, values in s.
static double sgesdd(const float *a, int count, int n, float *s, double *rank) {
    size_t size = (size_t)n * (size_t)n;
    float *copy = malloc(size * sizeof *copy), best = 0;
    double wide[128];
    lapack_int iwork[8 * 128];
    LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, 'N', n, n, copy, n, s, NULL, 1, NULL, 1, &best, -1,
                        iwork);
    lapack_int lwork = (lapack_int)best;
    float *work = malloc((size_t)lwork * sizeof *work);
    double start = now();
    for (int c = 0; c < count; c++) {
        memcpy(copy, a + (size_t)c * size, size * sizeof *copy);
        assert_int_equal(LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, 'N', n, n, copy, n, s, NULL, 1, NULL,
                                             1, work, lwork, iwork),
                         0);
        for (int i = 0; i < n; i++)
            wide[i] = s[i];
        rank[c] = rank_effective(wide, n, RANK_CUT);
        s += n;
    }
    double took = now() - start;
    free(work);
    free(copy);
    return took;
}

static void fast_values_beat_sgesdd_and_agree_with_it(void **state) {
    (void)state;
    static const int sizes[][3] = {{32, 4096, 1024}, {64, 2048, 256}, {128, 384, 64}};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        int n = sizes[c][0], count = sizes[c][1], few = sizes[c][2];
        float *a = states(count, n), *s = malloc(sizeof *s * (size_t)few * (size_t)n);
        double *sv = malloc(sizeof *sv * (size_t)count * (size_t)n);
        double *rank = malloc(sizeof *rank * (size_t)count);
        double *theirs = malloc(sizeof *theirs * (size_t)few);
        double mine = 0, other = 0; // over all turns, like the peer's script: no best-of
        ours(a, few, n, sv, rank);  // starts the threads, touches the memory
        for (int turn = 0; turn < 3; turn++) {
            mine += ours(a, count, n, sv, rank);
            other += sgesdd(a, few, n, s, theirs);
        }
        double rate = 3 * count / mine, reference = 3 * few / other;
        printf("measured svals %dx%d f32: %.0f matrices/s with %d threads; sgesdd %.0f/s with one; "
               "ratio %.1f\n",
               n, n, rate, omp_get_max_threads(), reference, rate / reference);
        // float32 rounding of sgesdd: about n 6e-8 of sigma_1.
        for (int i = 0; i < few * n; i++)
            assert_true(fabs(sv[i] - s[i]) <= n * 6e-8 * sv[i / n * n]);
        for (int i = 0; i < few; i++)
            assert_true(fabs(rank[i] / theirs[i] - 1) <= 1e-5);
#ifndef __SANITIZE_ADDRESS__
        assert_true(rate > reference);
#endif
        free(a);
        free(s);
        free(sv);
        free(rank);
        free(theirs);
    }
}

void openblas_set_num_threads(int n);

int main(void) {
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_values_beat_sgesdd_and_agree_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
