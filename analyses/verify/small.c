#include "analyses/verify/small.h"

#include "core/random.h"

#include <lapacke.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

void small_identity(double *a, int n) {
    for (int i = 0; i < n * n; i++)
        a[i] = i % (n + 1) == 0;
}

void small_mul(const double *a, const double *b, int n, int m, int p, double *out) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < p; j++) {
            double sum = 0;
            for (int k = 0; k < m; k++)
                sum += a[i * m + k] * b[k * p + j];
            out[i * p + j] = sum;
        }
}

void small_transpose(const double *a, int n, int m, double *out) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            out[j * n + i] = a[i * m + j];
}

void small_factor(const double *k, double beta, int n, double *F) {
    small_identity(F, n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            F[i * n + j] -= beta * k[i] * k[j];
}

void small_reflect(double *A, int n, int m, const double *k, double beta) {
    for (int c = 0; c < m; c++) {
        double r = 0;
        for (int i = 0; i < n; i++)
            r += k[i] * A[i * m + c];
        for (int i = 0; i < n; i++)
            A[i * m + c] -= beta * k[i] * r;
    }
}

double small_dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

double small_norm(const double *a, int n) {
    return sqrt(small_dot(a, a, n));
}

double small_difference(const double *a, const double *b, int n) {
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, isnan(a[i] - b[i]) ? INFINITY : fabs(a[i] - b[i]));
    return most;
}

double small_max(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

static void singular_values(const double *a, int n, double *s) {
    double copy[SMALL * SMALL];
    memcpy(copy, a, (size_t)(n * n) * sizeof *a);
    if (LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'N', n, n, copy, n, s, NULL, n, NULL, n) != 0)
        s[0] = NAN;
}

double small_norm2(const double *a, int n) {
    double s[SMALL];
    singular_values(a, n, s);
    return s[0];
}

int small_rank(const double *a, int n, double cut) {
    double s[SMALL];
    int rank = 0;
    singular_values(a, n, s);
    for (int i = 0; i < n; i++)
        rank += s[i] > cut;
    return rank;
}

void small_eigenvalues(const double *a, int n, double complex *w) {
    double copy[SMALL * SMALL], re[SMALL], im[SMALL];
    memcpy(copy, a, (size_t)(n * n) * sizeof *a);
    bool ok = LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', n, copy, n, re, im, NULL, 1, NULL, 1) == 0;
    for (int i = 0; i < n; i++)
        w[i] = ok ? CMPLX(re[i], im[i]) : NAN;
}

double small_radius(const double *a, int n) {
    double complex w[SMALL];
    double most = 0;
    small_eigenvalues(a, n, w);
    for (int i = 0; i < n; i++)
        most = small_max(most, cabs(w[i]));
    return most;
}

void small_normals(double *x, int n, uint64_t *seed) {
    for (int i = 0; i < n; i++)
        x[i] = random_normal(seed);
}

void small_unit(double *x, int n, uint64_t *seed) {
    small_normals(x, n, seed);
    double length = small_norm(x, n);
    for (int i = 0; i < n; i++)
        x[i] /= length;
}
