// Numbers for the words of a row: central differences of its loss against its update, and the
// eigenvalues of its transition matrices.
#include "analyses/explain_math.h"

#include "core/mem.h"
#include "core/order.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { K = EXPLAIN_K, V = EXPLAIN_V };

// The losses are quadratic, so central differences have no truncation error and a wide step costs
// nothing: rounding leaves about 1e-16 |L| / h. A power of two adds none of its own.
#define STEP (1.0 / 256)

static void gradient(const recurrence *r, const explain_draw *d, int j, const double *X,
                     double *out) {
    double y[K * V];
    memcpy(y, X, sizeof y);
    for (int i = 0; i < K * V; i++) {
        y[i] = X[i] + STEP;
        double above = r->loss_at(d, j, y);
        y[i] = X[i] - STEP;
        double below = r->loss_at(d, j, y);
        y[i] = X[i];
        out[i] = (above - below) / (2 * STEP);
    }
}

static double largest(const double *x, int n) {
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

// |x - y| / |y|, largest entries.
static double difference(const double *x, const double *y, int n) {
    double d[K * V];
    for (int i = 0; i < n; i++)
        d[i] = x[i] - y[i];
    return largest(d, n) / largest(y, n);
}

// By how much n_h gradient steps from the (decayed) state miss the update.
static double descent_error(const recurrence *r, const explain_draw *d, bool decayed) {
    double X[K * V], grad[K * V], want[K * V];
    for (int i = 0; i < K * V; i++)
        X[i] = d->H[i] * (decayed ? d->w[i / V] : 1);
    for (int j = 0; j < r->n_h; j++) {
        gradient(r, d, j, X, grad);
        for (int i = 0; i < K * V; i++)
            X[i] -= grad[i];
    }
    r->own(d, want);
    return difference(X, want, K * V);
}

static double implicit_error(const recurrence *r, const explain_draw *d) {
    double X[K * V], grad[K * V];
    r->own(d, X);
    gradient(r, d, 0, X, grad);
    return largest(grad, K * V) / largest(X, K * V);
}

// *miss and *old: this token's share of the medians.
static void measure_gradient(const recurrence *r, const explain_draw *d, explain_figures *f,
                             double *miss, double *old) {
    *miss = *old = NAN;
    if (!r->loss_at)
        return;
    bool decayed = r->kind == GRADIENT_DECAYED || r->kind == GRADIENT_STEPS;
    double x = r->kind == GRADIENT_IMPLICIT ? implicit_error(r, d) : descent_error(r, d, decayed);
    f->gradient = fmax(f->gradient, x); // fmax drops the NaN it starts from
    *miss = x;
    if (r->kind == GRADIENT_IMPLICIT || (decayed && r->decay != DECAY_NONE))
        *old = descent_error(r, d, false);
    if (r->own == explain_own_comba) {
        explain_draw same = *d;
        memcpy(same.read, same.k, sizeof same.read);
        f->tied = fmax(f->tied, descent_error(r, &same, false));
    }
}

static void multiply(const double *X, const double *Y, int n, double *out) {
    for (int i = 0; i < K; i++)
        for (int c = 0; c < n; c++) {
            double sum = 0;
            for (int j = 0; j < K; j++)
                sum += X[i * K + j] * Y[j * n + c];
            out[i * n + c] = sum;
        }
}

static void measure_steps(const recurrence *r, const explain_draw *d, const double *A,
                          const double *B, explain_figures *f) {
    double got[K * V], want[K * V];
    multiply(A, d->H, V, got);
    for (int i = 0; i < K * V; i++)
        got[i] += B[i];
    r->own(d, want);
    f->steps = fmax(f->steps, difference(got, want, K * V));
}

static bool spectrum(const double *A, double re[K], double im[K], double *norm, err *e) {
    double x[K * K], s[K], none;
    memcpy(x, A, sizeof x);
    int bad = LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', K, x, K, re, im, NULL, 1, NULL, 1);
    memcpy(x, A, sizeof x);
    bad |= LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', K, K, x, K, s, &none, 1, &none, 1);
    *norm = s[0];
    return bad ? err_set(e, ERR_NUMERIC, "eigenvalues of a transition matrix: LAPACK says %d", bad)
               : true;
}

static double asymmetry(const double *A) {
    double odd = 0, all = 0;
    for (int i = 0; i < K; i++)
        for (int j = 0; j < K; j++) {
            odd += pow(A[i * K + j] - A[j * K + i], 2);
            all += pow(A[i * K + j], 2);
        }
    return sqrt(odd / all);
}

static bool measure_spectrum(const double *A, explain_figures *f, err *e) {
    double re[K], im[K], norm;
    if (!spectrum(A, re, im, &norm, e))
        return false;
    for (int i = 0; i < K; i++) {
        f->real_lo = fmin(f->real_lo, re[i]);
        f->real_hi = fmax(f->real_hi, re[i]);
        f->imag = fmax(f->imag, fabs(im[i]));
        f->radius = fmax(f->radius, hypot(re[i], im[i]));
    }
    f->norm = fmax(f->norm, norm);
    f->asymmetry = fmax(f->asymmetry, asymmetry(A));
    return true;
}

static bool measure_window(const double *P, explain_figures *f, err *e) {
    double re[K], im[K], norm;
    if (!spectrum(P, re, im, &norm, e))
        return false;
    for (int i = 0; i < K; i++)
        f->window_radius = fmax(f->window_radius, hypot(re[i], im[i]));
    f->window_norm = fmax(f->window_norm, norm);
    return true;
}

static double median(double *x, int n) {
    if (isnan(x[0])) // all of them are: the row has no such figure
        return NAN;
    return order_median(x, (size_t)n);
}

bool explain_measure(const recurrence *r, int draws, uint64_t seed, progress_fn progress,
                     void *progress_ctx, explain_figures *f, err *e) {
    *f = (explain_figures){.draws = draws,
                           .steps = 0,
                           .gradient = NAN,
                           .gradient_median = NAN,
                           .at_old = NAN,
                           .tied = NAN,
                           .real_lo = NAN,
                           .real_hi = NAN,
                           .known = r->known ? r->known() : NAN};
    double P[K * K], next[K * K];
    double *miss = mem_alloc((size_t)draws, 2 * sizeof *miss, "measured errors", e);
    double *old = miss ? miss + draws : NULL;
    bool ok = miss != NULL;
    for (int n = 0; ok && n < draws; n++) {
        explain_draw d;
        double A[K * K], B[K * V];
        explain_draw_token(r, &seed, &d);
        steps s = explain_steps(r, &d);
        explain_dense(&s, A, B);
        measure_steps(r, &d, A, B, f);
        measure_gradient(r, &d, f, &miss[n], &old[n]);
        ok = measure_spectrum(A, f, e);
        if (n % EXPLAIN_WINDOW == 0) {
            memcpy(P, A, sizeof P);
        } else {
            multiply(A, P, K, next); // newest on the left
            memcpy(P, next, sizeof P);
        }
        if (n % EXPLAIN_WINDOW == EXPLAIN_WINDOW - 1)
            ok = ok && measure_window(P, f, e);
        if (ok && progress && !progress(progress_ctx, n + 1, draws))
            ok = err_set(e, ERR_CANCELLED, "stopped at draw %d of %d", n + 1, draws);
    }
    if (ok) {
        f->gradient_median = median(miss, draws);
        f->at_old = median(old, draws);
    }
    free(miss);
    return ok;
}
