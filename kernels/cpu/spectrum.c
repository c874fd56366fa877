// Products of transitions and the determinant ledger (kernels/spectrum.h).
#include "kernels/cpu/spectrum_impl.h"

#include "core/mem.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool all_finite(const double *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

bool spectrum_check(const transitions *x, int64_t first, int64_t n, err *e) {
    assert(x->K > 0);
    if (n < 1 || first < 0 || first > x->T - n)
        return err_set(e, ERR_USAGE,
                       "a window of %lld tokens from token %lld leaves the row of %lld",
                       (long long)n, (long long)first, (long long)x->T);
    size_t K = (size_t)x->K, n_h = (size_t)x->n_h;
    for (int64_t t = first; t < first + n; t++) {
        size_t i = (size_t)t;
        const char *what = NULL;
        if (x->kind == TRANSITION_KEYS) {
            if (!all_finite(x->k + i * n_h * K, n_h * K))
                what = "a key";
            else if (!all_finite(x->beta + i * n_h, n_h))
                what = "a write strength";
        } else if (x->kind == TRANSITION_DPLR) {
            if (!all_finite(x->a + i * K, K) || !all_finite(x->b + i * K, K))
                what = "an erase vector";
        }
        size_t n_g = x->decay == TDECAY_NONE ? 0 : x->decay == TDECAY_HEAD ? 1 : K;
        for (size_t c = 0; c < n_g; c++)
            if (isnan(x->g[i * n_g + c]) || x->g[i * n_g + c] == INFINITY)
                what = "a log decay";
        if (what)
            return err_set(e, ERR_NUMERIC, "transition of token %lld: %s is not a finite number",
                           (long long)(x->token0 + t), what);
    }
    return true;
}

void spectrum_rank1(double *restrict M, int rows, int cols, int ld, const double *a,
                    const double *b, double s, double *restrict u) {
    // Row by row, so that both loops run along contiguous memory and need no reordered sums.
    memset(u, 0, (size_t)cols * sizeof *u);
    for (int c = 0; c < rows; c++) {
        const double *restrict row = M + (size_t)c * (size_t)ld;
        double f = b[c];
        for (int j = 0; j < cols; j++)
            u[j] += f * row[j];
    }
    for (int c = 0; c < rows; c++) {
        double *restrict row = M + (size_t)c * (size_t)ld;
        double f = s * a[c];
        for (int j = 0; j < cols; j++)
            row[j] += f * u[j];
    }
}

void spectrum_renorm(double *M, size_t n, bool always, int64_t *exp2) {
    double max = 0;
    for (size_t i = 0; i < n; i++)
        max = fabs(M[i]) > max ? fabs(M[i]) : max;
    if (max == 0 || !isfinite(max))
        return;
    int ex;
    frexp(max, &ex);
    if (!always && abs(ex) <= 64)
        return;
    // In two steps: 2^-ex alone may lie outside the doubles.
    double f = ldexp(1, -(ex / 2)), h = ldexp(1, -(ex - ex / 2));
    for (size_t i = 0; i < n; i++)
        M[i] = M[i] * f * h;
    *exp2 += ex;
}

static double largest(const double *v, int n) {
    double m = -INFINITY;
    for (int c = 0; c < n; c++)
        m = v[c] > m ? v[c] : m;
    return m;
}

// Rows of P times e^(g - m), m the largest g, which is returned: one token's decay may lie below
// the doubles although its channels compare well with each other.
static double decay_rows(double *P, int K, const double *g) {
    double m = largest(g, K);
    if (m == -INFINITY)
        return m;
    for (int c = 0; c < K; c++) {
        double w = exp(g[c] - m), *row = P + (size_t)c * (size_t)K;
        for (int j = 0; j < K; j++)
            row[j] *= w;
    }
    return m;
}

// P <- (D_t + a b^T) P; b reads the undecayed state (R09, R10).
static void apply_dplr(const transitions *x, size_t t, double *P, double *u) {
    int K = x->K;
    size_t ld = (size_t)K;
    const double *a = x->a + t * ld, *b = x->b + t * ld;
    memset(u, 0, ld * sizeof *u);
    for (int c = 0; c < K; c++)
        for (int j = 0; j < K; j++)
            u[j] += b[c] * P[(size_t)c * ld + (size_t)j];
    double w = x->decay == TDECAY_HEAD ? exp(x->g[t]) : 1;
    for (int c = 0; c < K; c++) {
        double *row = P + (size_t)c * ld;
        if (x->decay == TDECAY_CHANNEL)
            w = exp(x->g[t * ld + (size_t)c]);
        for (int j = 0; j < K; j++)
            row[j] = w * row[j] + a[c] * u[j];
    }
}

bool spectrum_product_scaled(const transitions *x, int64_t first, int64_t W, double *P,
                             matrix_scale *s, err *e) {
    size_t K = (size_t)x->K, KK, n_h = (size_t)x->n_h;
    *s = (matrix_scale){0, 0};
    if (!spectrum_check(x, first, W, e))
        return false;
    if (!mem_mul(K, K, &KK))
        return err_set(e, ERR_NOMEM, "a transition of %zu dimensions", K);
    double *u = mem_alloc(K, sizeof *u, "a window product", e);
    if (!u)
        return false;
    memset(P, 0, KK * sizeof *P);
    for (size_t c = 0; c < K; c++)
        P[c * K + c] = 1;
    int64_t pending = 0; // factors since the size of P was looked at
    for (int64_t i = first; i < first + W; i++) {
        size_t t = (size_t)i;
        if (x->kind == TRANSITION_DPLR) {
            apply_dplr(x, t, P, u);
            pending++;
        } else if (x->decay == TDECAY_HEAD) {
            s->log += x->g[t];
        } else if (x->decay == TDECAY_CHANNEL) {
            s->log += decay_rows(P, x->K, x->g + t * K);
            pending++;
        }
        if (x->kind == TRANSITION_KEYS) {
            for (size_t j = 0; j < n_h; j++) {
                const double *k = x->k + (t * n_h + j) * K;
                spectrum_rank1(P, x->K, x->K, x->K, k, k, -x->beta[t * n_h + j], u);
            }
            pending += (int64_t)n_h;
        }
        if (pending >= 8) {
            spectrum_renorm(P, KK, false, &s->exp2);
            pending = 0;
        }
    }
    free(u);
    if (isinf(s->log)) { // a wiped state; finite log decays cannot sum to this
        memset(P, 0, KK * sizeof *P);
        *s = (matrix_scale){0, 0};
    }
    spectrum_renorm(P, KK, true, &s->exp2);
    if (!all_finite(P, KK))
        return err_set(e, ERR_NUMERIC, "the product of tokens %lld to %lld overflows",
                       (long long)(x->token0 + first), (long long)(x->token0 + first + W - 1));
    return true;
}

long double spectrum_unscale(matrix_scale s) {
    // Apart where both parts fit, so that a pure power of two is exact; the range of long double is
    // far wider than what a double can take back.
    if (fabsl(s.log) < 5000 && s.exp2 > -8000 && s.exp2 < 8000)
        return ldexpl(expl(s.log), (int)s.exp2);
    return expl(spectrum_total(s));
}

long double spectrum_total(matrix_scale s) {
    return s.log + (long double)s.exp2 * logl(2);
}

bool spectrum_product(const transitions *x, int64_t last, int64_t W, double *P, double *log_scale,
                      err *e) {
    matrix_scale s;
    if (!spectrum_product_scaled(x, last - W + 1, W, P, &s, e))
        return false;
    if (log_scale) {
        *log_scale = (double)spectrum_total(s);
        return true;
    }
    long double back = spectrum_unscale(s);
    size_t KK = (size_t)x->K * (size_t)x->K;
    for (size_t i = 0; i < KK; i++)
        P[i] = (double)(P[i] * back);
    return true;
}

long double spectrum_along_key(const double *k, double beta, int K) {
    long double kk = 0;
    for (int c = 0; c < K; c++)
        kk += (long double)k[c] * k[c];
    return 1 - beta * kk;
}

// det(D + a b^T) = prod d (1 + sum a_i b_i / d_i), in logarithms: with s = max(0, max -ln d_i) the
// bracket is e^s (e^-s + sum a_i b_i e^(-ln d_i - s)), and nothing overflows.
static double ledger_dplr(const double *a, const double *b, const double *g, bool channel, int K) {
    long double sum_g = 0, s = 0;
    int zeros = 0, at = 0;
    for (int c = 0; c < K; c++) {
        double l = !g ? 0 : channel ? g[c] : *g;
        if (l == -INFINITY) {
            zeros++;
            at = c;
        } else {
            sum_g += l;
            s = -l > s ? -(long double)l : s;
        }
    }
    // d_i = 0: only the terms without the factor d_i are left.
    if (zeros == 1)
        return (double)(sum_g + logl(fabsl((long double)a[at] * b[at])));
    if (zeros > 1)
        return -INFINITY;
    long double bracket = expl(-s);
    for (int c = 0; c < K; c++) {
        double l = !g ? 0 : channel ? g[c] : *g;
        bracket += (long double)a[c] * b[c] * expl(-(long double)l - s);
    }
    return (double)(sum_g + s + logl(fabsl(bracket)));
}

double spectrum_token_ledger(const transitions *x, int64_t token) {
    size_t t = (size_t)token, K = (size_t)x->K, n_h = (size_t)x->n_h;
    const double *g = x->decay == TDECAY_NONE   ? NULL
                      : x->decay == TDECAY_HEAD ? x->g + t
                                                : x->g + t * K;
    if (x->kind == TRANSITION_DPLR)
        return ledger_dplr(x->a + t * K, x->b + t * K, g, x->decay == TDECAY_CHANNEL, x->K);
    long double sum = 0;
    if (x->decay == TDECAY_HEAD)
        sum = (long double)x->K * *g;
    else if (x->decay == TDECAY_CHANNEL)
        for (size_t c = 0; c < K; c++)
            sum += g[c];
    if (x->kind == TRANSITION_KEYS)
        for (size_t j = 0; j < n_h; j++)
            sum += logl(
                fabsl(spectrum_along_key(x->k + (t * n_h + j) * K, x->beta[t * n_h + j], x->K)));
    return (double)sum;
}

void spectrum_ledger(const transitions *x, double *ledger) {
    for (int64_t t = 0; t < x->T; t++)
        ledger[t] = spectrum_token_ledger(x, t);
}

double spectrum_half_life(double modulus, double log_scale, int64_t W) {
    if (isnan(modulus) || isnan(log_scale))
        return NAN;
    if (modulus <= 0)
        return 0;
    double loss = -(log(modulus) + log_scale);
    return loss <= 0 ? INFINITY : M_LN2 * (double)W / loss;
}
