// A_g A_h = A_gh on the leading directions of the states.
#include "analyses/words/mechanism_fit.h"

#include "core/mem.h"
#include "core/order.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool mechanism_symmetric(double *a, int n, double *w, err *e) {
    return LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'V', 'U', n, a, n, w) == 0 ||
           err_set(e, ERR_NUMERIC, "the eigenvalues of a symmetric matrix did not converge");
}

double mechanism_distance2(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// B_g = U^T A_g U for the r last columns of U [K, K].
static void restrict_to(const double *A, const double *U, int K, int r, double *B) {
    for (int a = 0; a < r; a++)
        for (int b = 0; b < r; b++) {
            double sum = 0;
            for (int i = 0; i < K; i++) {
                double row = 0;
                for (int j = 0; j < K; j++)
                    row += A[i * K + j] * U[j * K + K - 1 - b];
                sum += U[i * K + K - 1 - a] * row;
            }
            B[a * r + b] = sum;
        }
}

typedef struct fit {
    double median, rms;
    bool faithful;
} fit;

// error(g, h) [n, n] of B [n, r, r].
static fit fit_pairs(const double *B, int r, const word_task *t, double *error, double *scratch) {
    int n = t->n_inputs, rr = r * r;
    double unit = 0, sum = 0;
    int64_t pairs = 0;
    for (int g = 0; g < n; g++)
        for (int h = 0; h < g; h++) {
            double d =
                mechanism_distance2(B + (size_t)g * (size_t)rr, B + (size_t)h * (size_t)rr, rr);
            scratch[pairs++] = d;
            unit += d;
        }
    unit /= (double)(pairs > 0 ? pairs : 1);
    qsort(scratch, (size_t)pairs, sizeof *scratch, order_ascending);
    // A tenth of the pairs may coincide: one element that a trained model gets wrong.
    fit f = {.faithful = unit > 1e-12 && pairs > 0 && scratch[pairs / 10] > 0.04 * unit};
    for (int g = 0; g < n && f.faithful; g++)
        for (int h = 0; h < n; h++) {
            const double *a = B + (size_t)g * (size_t)rr, *b = B + (size_t)h * (size_t)rr;
            int to = t->left ? group_mul(t->g, g, h) : group_mul(t->g, h, g);
            const double *c = B + (size_t)to * (size_t)rr;
            double d2 = 0;
            for (int i = 0; i < r; i++)
                for (int j = 0; j < r; j++) {
                    double v = -c[i * r + j];
                    for (int k = 0; k < r; k++)
                        v += a[i * r + k] * b[k * r + j];
                    d2 += v * v;
                }
            error[(size_t)g * (size_t)n + (size_t)h] = sqrt(d2 / unit);
            sum += d2 / unit;
        }
    if (!f.faithful)
        return f;
    memcpy(scratch, error, (size_t)n * (size_t)n * sizeof *error);
    f.median = order_median(scratch, (size_t)n * (size_t)n);
    f.rms = sqrt(sum / n / n);
    return f;
}

// Eigenvalues of B [r, r], the largest angle among them, and their product.
static void turns(const double *B, int r, double complex *eig, double *angle, double *determinant) {
    double a[MECHANISM_DIMS * MECHANISM_DIMS], re[MECHANISM_DIMS], im[MECHANISM_DIMS];
    *angle = *determinant = NAN;
    for (int i = 0; i < r; i++)
        eig[i] = NAN;
    memcpy(a, B, (size_t)(r * r) * sizeof *a);
    if (LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', r, a, r, re, im, NULL, 1, NULL, 1) != 0)
        return;
    *angle = 0;
    double re_product = 1, im_product = 0;
    int negative = 0; // two real ones are half a turn
    for (int i = 0; i < r; i++) {
        eig[i] = CMPLX(re[i], im[i]);
        double x = re_product * re[i] - im_product * im[i];
        im_product = re_product * im[i] + im_product * re[i];
        re_product = x;
        if (im[i] > 0)
            *angle = fmax(*angle, atan2(im[i], re[i]) * 180 / M_PI);
        negative += im[i] == 0 && re[i] < 0;
    }
    if (negative >= 2)
        *angle = 180;
    *determinant = re_product;
}

// The best number of directions, and what it gives. A [n, K, K], cov [K, K] is overwritten.
bool mechanism_fit(const double *A, double *cov, const word_task *t, mechanism_head *h, err *e) {
    int n = t->n_inputs, K = h->K, most = K < MECHANISM_DIMS ? K : MECHANISM_DIMS, best = 0;
    size_t nn = (size_t)n * (size_t)n;
    double *B = mem_alloc((size_t)n * MECHANISM_DIMS * MECHANISM_DIMS, sizeof *B, "a fit", e);
    double *error = mem_alloc(nn, sizeof *error, "a fit", e);
    double *scratch = mem_alloc(nn, sizeof *scratch, "a fit", e);
    double *w = mem_alloc((size_t)K, sizeof *w, "a fit", e);
    bool ok = B && error && scratch && w && mechanism_symmetric(cov, K, w, e);
    // Directions that no state has are none; and the chosen number is computed once more, at the end.
    for (int r = 1; ok && r <= most + 1; r++) {
        int now = r <= most ? r : best;
        if (now == 0 || (r <= most && w[K - now] < 1e-9 * w[K - 1]))
            continue;
        for (int g = 0; g < n; g++)
            restrict_to(A + (size_t)g * (size_t)(K * K), cov, K, now,
                        B + (size_t)g * (size_t)(now * now));
        fit f = fit_pairs(B, now, t, error, scratch);
        if (f.faithful && (best == 0 || f.median < h->fit_median)) {
            best = now;
            h->fit_median = f.median;
            h->fit_rms = f.rms;
        }
    }
    h->dims = best;
    for (int g = 0; ok && best && g < n; g++) {
        for (int k = 0; k < n; k++) {
            scratch[2 * k] = error[(size_t)g * (size_t)n + (size_t)k];
            scratch[2 * k + 1] = error[(size_t)k * (size_t)n + (size_t)g];
        }
        h->error[g] = n >= 2 ? order_median(scratch, 2 * (size_t)n) : 0;
        turns(B + (size_t)g * (size_t)(best * best), best, h->eig + (size_t)g * (size_t)best,
              &h->angle[g], &h->determinant[g]);
    }
    free(B);
    free(error);
    free(scratch);
    free(w);
    return ok;
}

int mechanism_odd(const mechanism_head *h, int n_inputs, int *list, int most) {
    int n = 0;
    for (int g = 0; g < n_inputs && h->dims && h->fit_median < 0.1; g++)
        if (h->error[g] > 0.5) {
            if (n < most)
                list[n] = g;
            n++;
        }
    return n;
}
