// Lyapunov exponents by re-orthogonalised products (G17).
//
// Q [K, m] holds an orthonormal basis of the images of a fixed flag of subspaces; each factor is
// applied to Q, and now and then Q R = (factors) Q moves the growth into the diagonal of R. Sums of
// ln |R_ii| over n tokens, divided by n, are the exponents.
//
// |R_ii| comes out with an error of eps times the condition number of the factors since the last
// QR, so that number is kept below e^9 (8,000): a QR comes before it would be passed, and a factor
// that passes it alone is cut into equal powers, which for one key and for a diagonal is exact
// (G05: the same key twice is one factor with 1 - b = (1-b1)(1-b2)).
// A singular factor annihilates one direction of the flag. Its column leaves Q, with exponent -inf;
// the columns behind it must not lean on the rounding noise that is left of it.
#include "kernels/cpu/spectrum_basis.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECES_LIMIT 4096

// Q += factor k (k^T Q)
static bool add_key(basis *b, const double *k, double factor, int64_t at, err *e) {
    if (b->plan)
        return basis_list(b, LYAPUNOV_KEY, at, factor, 0, e);
    spectrum_rank1(b->Q, b->K, b->m, b->m, k, k, factor, b->u);
    return true;
}

// Q <- (I - beta k k^T / |k|^2) Q, cut into pieces by powers of the eigenvalue along k.
static bool apply_key(basis *b, const double *k, double beta, int64_t at, err *e) {
    long double along = spectrum_along_key(k, beta, b->K);
    if (along == 1 || b->m == 0)
        return true;
    double kk = 0;
    for (int c = 0; c < b->K; c++)
        kk += k[c] * k[c];
    if (along == 0) {
        if (!basis_listable(b, e) || !basis_orthogonalise(b, e))
            return false;
        for (int c = 0; c < b->K; c++)
            b->co[c] = k[c] / sqrt(kk);
        int at = basis_annihilated(b, b->co);
        spectrum_rank1(b->Q, b->K, b->m, b->m, b->co, b->co, -1, b->u);
        b->count = 1;
        if (at >= 0)
            basis_drop_column(b, at);
        return basis_orthogonalise(b, e);
    }
    double ln_cond = (double)fabsl(logl(fabsl(along)));
    int pieces = (int)ceil(fmin(ln_cond / COND_LIMIT, PIECES_LIMIT));
    pieces = pieces < 1 ? 1 : pieces;
    if (pieces == 1) { // the caller's beta as it is
        return basis_make_room(b, ln_cond, e) && add_key(b, k, -beta, at, e);
    }
    long double part = powl(fabsl(along), 1.0L / pieces);
    for (int i = 0; i < pieces; i++) {
        long double value = i == 0 && along < 0 ? -part : part;
        if (!basis_make_room(b, ln_cond / pieces, e) ||
            !add_key(b, k, (double)((value - 1) / kk), at, e))
            return false;
    }
    return true;
}

static void scale_rows(basis *b, const double *w) {
    for (int c = 0; c < b->K; c++)
        for (int j = 0; j < b->m; j++)
            b->Q[(size_t)c * (size_t)b->m + (size_t)j] *= w[c];
}

// Q <- Diag(e^g) Q; the mean of the finite g goes into *common, the rest in pieces.
static bool apply_channels(basis *b, const double *g, long double *common, err *e) {
    long double sum = 0;
    double lo = INFINITY, hi = -INFINITY;
    int finite = 0;
    for (int c = 0; c < b->K; c++)
        if (g[c] != -INFINITY) {
            sum += g[c];
            lo = g[c] < lo ? g[c] : lo;
            hi = g[c] > hi ? g[c] : hi;
            finite++;
        }
    // A wiped channel is a projection along its axis.
    for (int c = 0; c < b->K && b->m > 0; c++) {
        if (g[c] != -INFINITY)
            continue;
        if (!basis_listable(b, e) || !basis_orthogonalise(b, e))
            return false;
        memset(b->co, 0, (size_t)b->K * sizeof *b->co);
        b->co[c] = 1;
        int at = basis_annihilated(b, b->co);
        memset(b->Q + (size_t)c * (size_t)b->m, 0, (size_t)b->m * sizeof *b->Q);
        b->count = 1;
        if (at >= 0)
            basis_drop_column(b, at);
        if (!basis_orthogonalise(b, e))
            return false;
    }
    if (finite == 0 || b->m == 0)
        return true;
    double mean = (double)(sum / finite);
    *common += mean;
    int pieces = (int)ceil(fmin((hi - lo) / COND_LIMIT, PIECES_LIMIT));
    pieces = pieces < 1 ? 1 : pieces;
    for (int i = 0; i < pieces; i++) {
        if (!basis_make_room(b, (hi - lo) / pieces, e))
            return false;
        if (b->plan) {
            if (!basis_list(b, LYAPUNOV_ROWS, b->token, 1.0 / pieces, mean, e))
                return false;
            continue;
        }
        for (int c = 0; c < b->K; c++)
            b->co[c] = g[c] == -INFINITY ? 0 : exp((g[c] - mean) / pieces);
        scale_rows(b, b->co);
    }
    return true;
}

// cond(D + a b^T) <= cond(D) cond(I + u b^T), u = D^-1 a. The latter's singular values are ones and
// a pair with product |1 + b.u| and sum of squares 2 + 2 b.u + |u|^2 |b|^2.
static double ln_cond_dplr(const double *a, const double *b, const double *w, int K) {
    double bu = 0, uu = 0, bb = 0, lo = INFINITY, hi = 0;
    for (int c = 0; c < K; c++) {
        double u = a[c] / w[c];
        bu += b[c] * u;
        uu += u * u;
        bb += b[c] * b[c];
        lo = w[c] < lo ? w[c] : lo;
        hi = w[c] > hi ? w[c] : hi;
    }
    double det = fabs(1 + bu), sq = 2 + 2 * bu + uu * bb;
    double big = (sq + sqrt(fmax(sq * sq - 4 * det * det, 0))) / 2; // square of the larger
    double ln = log(fmax(big, 1)) / 2 - log(fmin(det / sqrt(big), 1)) + log(hi / lo);
    return isfinite(ln) ? ln : 1e300;
}

// A rank-one term that is not symmetric cannot be cut into powers; an ill-conditioned one stands
// alone between two QRs and costs the digits it costs. A channel below e^-700 counts as wiped.
static bool apply_dplr(basis *b, const transitions *x, size_t t, err *e) {
    size_t K = (size_t)x->K, m = (size_t)b->m;
    const double *va = x->a + t * K, *vb = x->b + t * K;
    for (size_t c = 0; c < K; c++)
        b->co[c] = x->decay == TDECAY_NONE   ? 1
                   : x->decay == TDECAY_HEAD ? exp(x->g[t])
                                             : exp(x->g[t * K + c]);
    bool singular = spectrum_token_ledger(x, (int64_t)t) == -INFINITY;
    double ln_cond = ln_cond_dplr(va, vb, b->co, x->K);
    singular = singular || ln_cond == 1e300;
    if (singular && !basis_listable(b, e))
        return false;
    if (singular ? !basis_orthogonalise(b, e) : !basis_make_room(b, ln_cond, e))
        return false;
    if (b->plan)
        return basis_list(b, LYAPUNOV_PAIR, b->token, 0, 0, e);
    memset(b->u, 0, m * sizeof *b->u);
    for (size_t c = 0; c < K; c++)
        for (size_t j = 0; j < m; j++)
            b->u[j] += vb[c] * b->Q[c * m + j];
    for (size_t c = 0; c < K; c++)
        for (size_t j = 0; j < m; j++)
            b->Q[c * m + j] = b->co[c] * b->Q[c * m + j] + va[c] * b->u[j];
    if (singular)
        basis_orthogonalise_dropping(b);
    return true;
}

static bool apply_token(basis *b, const transitions *x, size_t t, long double *common, err *e) {
    size_t K = (size_t)x->K, n_h = (size_t)x->n_h;
    if (x->kind == TRANSITION_DPLR)
        return apply_dplr(b, x, t, e);
    if (x->decay == TDECAY_HEAD) {
        if (x->g[t] == -INFINITY) {
            if (!basis_listable(b, e))
                return false;
            b->m = 0;
        } else
            *common += x->g[t];
    } else if (x->decay == TDECAY_CHANNEL && !apply_channels(b, x->g + t * K, common, e)) {
        return false;
    }
    if (x->kind == TRANSITION_KEYS)
        for (size_t j = 0; j < n_h; j++)
            if (!apply_key(b, x->k + (t * n_h + j) * K, x->beta[t * n_h + j],
                           b->token * x->n_h + (int64_t)j, e))
                return false;
    return true;
}

int spectrum_descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

bool spectrum_lyapunov(const transitions *x, int64_t first, int64_t n, double *exponents, err *e) {
    bool ok = false;
    size_t K = (size_t)x->K;
    if (!spectrum_check(x, first, n, e))
        return false;
    long double common = 0; // growth that all directions share
    basis b = {.K = x->K, .m = x->K};
    b.Q = mem_zalloc(K * K, sizeof *b.Q, "Lyapunov exponents", e);
    b.growth = mem_zalloc(K, sizeof *b.growth, "Lyapunov exponents", e);
    b.u = mem_alloc(3 * K, sizeof *b.u, "Lyapunov exponents", e);
    if (!b.Q || !b.growth || !b.u)
        goto done;
    b.tau = b.u + K;
    b.co = b.tau + K;
    for (size_t c = 0; c < K; c++)
        b.Q[c * K + c] = 1;
    for (int64_t t = first; t < first + n && b.m > 0; t++)
        if (!apply_token(&b, x, (size_t)t, &common, e))
            goto done;
    if (!basis_orthogonalise(&b, e))
        goto done;
    for (int i = 0; i < x->K; i++)
        exponents[i] = i < b.m ? (double)((b.growth[i] + common) / n) : -INFINITY;
    for (int i = 0; i < b.m; i++)
        if (isnan(exponents[i]) || exponents[i] == INFINITY) {
            err_set(e, ERR_NUMERIC, "Lyapunov exponents of tokens %lld to %lld overflow",
                    (long long)(x->token0 + first), (long long)(x->token0 + first + n - 1));
            goto done;
        }
    qsort(exponents, K, sizeof *exponents, spectrum_descending);
    ok = true;
done:
    free(b.u);
    free(b.growth);
    free(b.Q);
    return ok;
}

bool lyapunov_plan_make(const lyapunov_job *job, lyapunov_plan *plan) {
    const transitions *x = job->x;
    err e = {0};
    *plan = (lyapunov_plan){0};
    if (x->kind == TRANSITION_DIAGONAL || !spectrum_check(x, job->first, job->n, &e))
        return false;
    long double common = 0;
    basis b = {.K = x->K, .m = x->K, .plan = plan};
    bool ok = (b.co = mem_alloc((size_t)x->K, sizeof *b.co, "a plan of exponents", &e)) != NULL;
    for (; ok && b.token < job->n; b.token++)
        ok = apply_token(&b, x, (size_t)(job->first + b.token), &common, &e);
    b.count = 1; // the last QR, whatever came before
    ok = ok && basis_orthogonalise(&b, &e);
    free(b.co);
    plan->common[0] = (double)common;
    plan->common[1] = (double)(common - plan->common[0]);
    if (!ok)
        lyapunov_plan_free(plan);
    return ok;
}
