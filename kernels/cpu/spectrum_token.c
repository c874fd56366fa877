// Eigenvalues of one token in closed form (G01, G03, G04).
#include "kernels/cpu/spectrum_impl.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

// With x = b1 - 1, y = b2 - 1 (b_j = beta_j |k_j|^2) and s = beta1 beta2 (k1.k2)^2 the two values
// solve l^2 - (s - x - y) l + x y = 0. The discriminant (s - x - y)^2 - 4 x y is written as a
// product wherever it could cancel: its sign decides between real and complex (G03).
static void pair_eigenvalues(long double x, long double y, long double s, double complex *eig) {
    long double tau = s - x - y, det = x * y, disc;
    if (x > 0 && y > 0) {
        long double p = sqrtl(x) + sqrtl(y), m = sqrtl(x) - sqrtl(y);
        disc = (s - p * p) * (s - m * m);
    } else if (x <= 0 && y <= 0) {
        long double p = sqrtl(-x) + sqrtl(-y), m = sqrtl(-x) - sqrtl(-y);
        disc = (s + p * p) * (s + m * m); // never negative for strengths of one sign: real values
    } else {
        disc = tau * tau - 4 * det; // x y < 0: a sum of squares
    }
    if (disc < 0) {
        long double im = sqrtl(-disc) / 2;
        eig[0] = CMPLX((double)(tau / 2), (double)-im);
        eig[1] = CMPLX((double)(tau / 2), (double)im);
        return;
    }
    // The larger root by addition, the other from the product: no cancellation.
    long double big = (tau + copysignl(sqrtl(disc), tau)) / 2;
    eig[0] = (double)big;
    eig[1] = big == 0 ? 0 : (double)(det / big);
}

static void times(double complex *eig, int n, long double f) {
    for (int i = 0; i < n; i++)
        eig[i] = CMPLX((double)(creal(eig[i]) * f), (double)(cimag(eig[i]) * f));
}

// n_h > 2: all K of a one-token window; the K - n_h frozen ones are exactly the decay, or lie
// nearest to it when keys repeat.
static bool token_by_window(const transitions *x, int64_t t, double complex *eig, err *e) {
    size_t K = (size_t)x->K;
    window_facts f;
    double complex *all = mem_alloc(K, sizeof *all, "the eigenvalues of a token", e);
    if (!all)
        return false;
    bool ok = spectrum_window(x, t, 1, all, NULL, &f, e);
    if (ok) {
        long double g = x->decay == TDECAY_HEAD ? expl(x->g[t]) : 1, back = expl(f.log_scale);
        times(all, x->K, back);
        int n = x->K, skip = x->K > x->n_h ? x->K - x->n_h : 0;
        for (; skip > 0; skip--) {
            int best = 0;
            for (int i = 1; i < n; i++)
                if (cabs(all[i] - (double)g) < cabs(all[best] - (double)g))
                    best = i;
            for (int i = best; i + 1 < n; i++)
                all[i] = all[i + 1];
            n--;
        }
        // More steps than dimensions: det(I - T K K^T) has the extra values at 1, times the gate.
        for (int i = 0; i < x->n_h; i++)
            eig[i] = i < n ? all[i] : (double)g;
        ok = spectrum_sort(eig, NULL, x->n_h, e);
    }
    free(all);
    return ok;
}

bool spectrum_token(const transitions *x, int64_t t, double complex *eig, err *e) {
    if (!spectrum_check(x, t, 1, e))
        return false;
    if (x->decay == TDECAY_CHANNEL)
        return err_set(e, ERR_UNSUPPORTED,
                       "no closed form for a transition with one decay per channel");
    if (x->kind == TRANSITION_DIAGONAL || x->n_h == 0)
        return true;
    size_t i = (size_t)t, K = (size_t)x->K, n_h = (size_t)x->n_h;
    long double g = x->decay == TDECAY_HEAD ? expl(x->g[t]) : 1;
    if (x->kind == TRANSITION_DPLR) { // g I + a b^T
        long double ba = 0;
        for (size_t c = 0; c < K; c++)
            ba += (long double)x->a[i * K + c] * x->b[i * K + c];
        eig[0] = (double)(g + ba);
        return true;
    }
    if (n_h > 2)
        return token_by_window(x, t, eig, e);
    const double *k = x->k + i * n_h * K, *beta = x->beta + i * n_h;
    if (n_h == 1) {
        eig[0] = (double)(g * spectrum_along_key(k, beta[0], x->K));
        return true;
    }
    long double c = 0;
    for (size_t d = 0; d < K; d++)
        c += (long double)k[d] * k[K + d];
    pair_eigenvalues(-spectrum_along_key(k, beta[0], x->K),
                     -spectrum_along_key(k + K, beta[1], x->K),
                     (long double)beta[0] * beta[1] * c * c, eig);
    times(eig, 2, g);
    return spectrum_sort(eig, NULL, 2, e);
}
