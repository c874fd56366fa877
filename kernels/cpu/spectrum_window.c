// Eigenvalues of window products: the dense problem, and short windows in their own small space.
//
// A short window of delta factors touches only the span of its r = W n_h keys. With K^T = Q R,
// columns of Q orthonormal, and Q' a basis of the complement:
//     F_r .. F_1 = Q C Q^T + Q' Q'^T,    C = prod (I - beta_j r_j r_j^T),  r_j the columns of R.
// This is an orthogonal block-diagonal form, so C (r x r) has the eigenvalues of P other than the
// K - r frozen ones (G11), with the same condition numbers, and its norm and asymmetry give P's.
// The other well-known core, I - T K K^T (K03), has the same eigenvalues but not their condition:
// a key written twice with beta = 2 makes P = I, while T K K^T = [[2,2],[-2,-2]] is a Jordan block
// whose two zeros a solver finds to 1e-8 only.
#include "kernels/cpu/spectrum_impl.h"

#include "core/mem.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct eig_entry {
    double complex value;
    double modulus, angle, cond;
} eig_entry;

static int by_modulus(const void *pa, const void *pb) {
    const eig_entry *a = pa, *b = pb;
    if (a->modulus != b->modulus)
        return a->modulus > b->modulus ? -1 : 1;
    return (a->angle > b->angle) - (a->angle < b->angle);
}

bool spectrum_sort(double complex *eig, double *cond, int n, err *e) {
    eig_entry *v = mem_alloc((size_t)n, sizeof *v, "sorting eigenvalues", e);
    if (!v)
        return false;
    for (int i = 0; i < n; i++) {
        // An imaginary part of -0 would put a negative real value at -pi; + 0.0 makes it +0.
        v[i].value = CMPLX(creal(eig[i]) + 0.0, cimag(eig[i]) + 0.0);
        v[i].modulus = cabs(v[i].value);
        v[i].angle = carg(v[i].value);
        v[i].cond = cond ? cond[i] : 0;
    }
    qsort(v, (size_t)n, sizeof *v, by_modulus);
    for (int i = 0; i < n; i++) {
        eig[i] = v[i].value;
        if (cond)
            cond[i] = v[i].cond;
    }
    free(v);
    return true;
}

static bool lapack_failed(const char *what, int n, lapack_int info, err *e) {
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return err_set(e, ERR_NOMEM, "%s of a %dx%d matrix", what, n, n);
    return err_set(e, ERR_NUMERIC, "%s of a %dx%d matrix: info=%d", what, n, n, (int)info);
}

// 1 / |y^H x| from LAPACK's unit vectors; a complex pair lies in two columns, real and imaginary.
// A defective eigenvalue has y^H x = 0 and the condition number inf.
static void conditions(const double *wi, const double *vl, const double *vr, int n, double *cond) {
    for (int j = 0; j < n; j++) {
        const double *yr = vl + (size_t)j * (size_t)n, *xr = vr + (size_t)j * (size_t)n;
        double re = 0, im = 0;
        bool pair = wi[j] != 0 && j + 1 < n;
        for (int c = 0; c < n; c++) {
            re += yr[c] * xr[c];
            if (pair) {
                re += yr[n + c] * xr[n + c];
                im += yr[c] * xr[n + c] - yr[n + c] * xr[c];
            }
        }
        double d = hypot(re, im);
        // Rounding may leave |y^H x| a little above 1.
        cond[j] = d == 0 ? INFINITY : d < 1 ? 1 / d : 1;
        if (pair) {
            cond[j + 1] = cond[j];
            j++;
        }
    }
}

bool spectrum_solve(double *M, int n, double complex *eig, double *cond, double *norm2, err *e) {
    bool ok = false;
    size_t N = (size_t)n, NN = N * N;
    double *w = NULL, *v = NULL;
    // One block: copy of M, then real parts, imaginary parts, scale (dgeevx), singular values.
    double *copy = mem_alloc(NN + 4 * N, sizeof *copy, "an eigenvalue problem", e);
    if (!copy)
        goto done;
    w = copy + NN;
    if (cond && !(v = mem_alloc(2 * NN, sizeof *v, "eigenvectors", e)))
        goto done;
    memcpy(copy, M, NN * sizeof *copy);
    lapack_int info =
        LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', n, n, copy, n, w + 3 * N, NULL, 1, NULL, 1);
    if (info != 0) {
        lapack_failed("singular values", n, info, e);
        goto done;
    }
    *norm2 = w[3 * N];
    // Row-major M read by columns is M^T: the same eigenvalues, left and right vectors change
    // places. Vectors come back in the coordinates before balancing, which the reciprocal
    // conditions that dgeevx offers would not.
    lapack_int lo, hi;
    double norm1, dummy[1];
    char job = cond ? 'V' : 'N';
    info = LAPACKE_dgeevx(LAPACK_COL_MAJOR, 'B', job, job, 'N', n, M, n, w, w + N, v ? v : dummy,
                          v ? n : 1, v ? v + NN : dummy, v ? n : 1, &lo, &hi, w + 2 * N, &norm1,
                          dummy, dummy);
    if (info != 0) {
        lapack_failed("eigenvalues", n, info, e);
        goto done;
    }
    for (size_t i = 0; i < N; i++)
        eig[i] = CMPLX(w[i], w[N + i]);
    if (cond)
        conditions(w + N, v, v + NN, n, cond);
    ok = true;
done:
    free(v);
    free(copy);
    return ok;
}

// |M - M^T|_F^2 into *skew, |M|_F^2 into *all.
static void squares(const double *M, int n, double *skew, double *all) {
    double d2 = 0, a2 = 0;
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t j = 0; j < (size_t)n; j++) {
            double x = M[i * (size_t)n + j], d = x - M[j * (size_t)n + i];
            a2 += x * x;
            d2 += d * d;
        }
    *skew = d2;
    *all = a2;
}

bool spectrum_window_short(const transitions *x, int64_t W) {
    // W < K first: W n_h could overflow.
    return x->kind == TRANSITION_KEYS && x->decay != TDECAY_CHANNEL && (W < x->K || x->n_h == 0) &&
           W * x->n_h < x->K;
}

// Largest |ln| that goes back into the numbers; beyond it they stay near 1 and facts->log_scale
// says what was taken out.
#define FOLD_LIMIT 600.0L

bool spectrum_finish(const transitions *x, int64_t last, int64_t W, matrix_scale s,
                     double complex *eig, double *cond, window_facts *f, err *e) {
    long double total = spectrum_total(s);
    f->log_scale = (double)total;
    if (f->norm2 == 0) {
        f->log_scale = 0;
    } else if (fabsl(total + logl(f->norm2)) < FOLD_LIMIT) {
        long double back = spectrum_unscale(s);
        for (int i = 0; i < x->K; i++)
            eig[i] = CMPLX((double)(creal(eig[i]) * back), (double)(cimag(eig[i]) * back));
        f->norm2 = (double)(f->norm2 * back);
        f->log_scale = 0;
    }
    if (!spectrum_sort(eig, cond, x->K, e))
        return false;
    f->radius = cabs(eig[0]);
    long double det = 0;
    for (int64_t t = last - W + 1; t <= last; t++)
        det += spectrum_token_ledger(x, t);
    f->logabsdet = (double)det;
    f->frozen = spectrum_window_short(x, W) ? x->K - (int)(W * x->n_h) : 0;
    return true;
}

void spectrum_frozen(int K, int r, double frozen, double complex *eig, double *cond, double *norm2,
                     double *all) {
    for (int i = r; i < K; i++) {
        eig[i] = frozen;
        if (cond)
            cond[i] = 1;
    }
    *norm2 = fmax(*norm2, frozen);
    *all += (K - r) * frozen * frozen;
}

bool spectrum_window_dense(const transitions *x, int64_t last, int64_t W, double complex *eig,
                           double *cond, window_facts *facts, err *e) {
    size_t K = (size_t)x->K;
    window_facts f = {0};
    matrix_scale s;
    double skew, all;
    double *P = mem_alloc(K * K, sizeof *P, "a window product", e);
    bool ok = P && spectrum_product_scaled(x, last - W + 1, W, P, &s, e);
    if (ok) {
        squares(P, x->K, &skew, &all);
        f.asymmetry = all > 0 ? sqrt(skew / all) : 0;
        ok = spectrum_solve(P, x->K, eig, cond, &f.norm2, e) &&
             spectrum_finish(x, last, W, s, eig, cond, &f, e);
    }
    if (ok)
        *facts = f;
    free(P);
    return ok;
}

// Only decays: the eigenvalues are theirs.
static bool window_diagonal(const transitions *x, int64_t last, int64_t W, double complex *eig,
                            double *cond, window_facts *facts, err *e) {
    size_t K = (size_t)x->K;
    window_facts f = {0};
    matrix_scale s = {-INFINITY, 0};
    if (!spectrum_check(x, last - W + 1, W, e))
        return false;
    long double *sum = mem_zalloc(K, sizeof *sum, "a window product", e);
    if (!sum)
        return false;
    for (int64_t t = last - W + 1; t <= last && x->decay != TDECAY_NONE; t++)
        for (size_t c = 0; c < K; c++)
            sum[c] += x->decay == TDECAY_HEAD ? x->g[t] : x->g[(size_t)t * K + c];
    for (size_t c = 0; c < K; c++)
        s.log = sum[c] > s.log ? sum[c] : s.log;
    bool wiped = isinf(s.log);
    for (size_t c = 0; c < K; c++) {
        eig[c] = wiped ? 0 : (double)expl(sum[c] - s.log);
        if (cond)
            cond[c] = 1;
    }
    f.norm2 = wiped ? 0 : 1;
    free(sum);
    if (wiped)
        s.log = 0;
    if (!spectrum_finish(x, last, W, s, eig, cond, &f, e))
        return false;
    *facts = f;
    return true;
}

// Keys [r, K] become columns of R in place; reflectors stay below. C = prod (I - beta r_j r_j^T).
static bool core_matrix(double *keys, const double *beta, int r, int K, double *C, int64_t *exp2,
                        err *e) {
    bool ok = false;
    size_t R = (size_t)r;
    double *work = mem_alloc(3 * R, sizeof *work, "a short window", e);
    if (!work)
        return false;
    double *u = work + R, *key = work + 2 * R;
    lapack_int info = LAPACKE_dgeqrf(LAPACK_COL_MAJOR, K, r, keys, K, work);
    if (info != 0) {
        lapack_failed("QR", K, info, e);
        goto done;
    }
    memset(C, 0, R * R * sizeof *C);
    for (size_t i = 0; i < R; i++)
        C[i * R + i] = 1;
    for (int j = 0; j < r; j++) {
        // r_j has j+1 entries, and so far only the leading block of C differs from I.
        memcpy(key, keys + (size_t)j * (size_t)K, ((size_t)j + 1) * sizeof *key);
        spectrum_rank1(C, j + 1, j + 1, r, key, key, -beta[j], u);
        if (j % 8 == 7)
            spectrum_renorm(C, R * R, false, exp2);
    }
    ok = true;
    for (size_t i = 0; i < R * R; i++)
        if (!isfinite(C[i]))
            ok = err_set(e, ERR_NUMERIC, "the product of %d delta factors overflows", r);
done:
    free(work);
    return ok;
}

static bool window_short(const transitions *x, int64_t last, int64_t W, double complex *eig,
                         double *cond, window_facts *facts, err *e) {
    bool ok = false;
    int K = x->K, r = (int)W * x->n_h;
    size_t first = (size_t)(last - W + 1), n_h = (size_t)x->n_h, R = (size_t)r;
    window_facts f = {0};
    matrix_scale s = {0, 0};
    double *C = NULL, *keys = NULL;
    double skew = 0, all = 0;
    if (!spectrum_check(x, last - W + 1, W, e))
        return false;
    if (!(keys = mem_alloc(R * (size_t)K, sizeof *keys, "the keys of a window", e)) ||
        !(C = mem_alloc(R * R, sizeof *C, "a window product", e)))
        goto done;
    memcpy(keys, x->k + first * n_h * (size_t)K, R * (size_t)K * sizeof *keys);
    for (int64_t t = last - W + 1; t <= last && x->decay == TDECAY_HEAD; t++)
        s.log += x->g[t];
    bool wiped = isinf(s.log);
    if (wiped)
        s.log = 0;
    if (r > 0 && !core_matrix(keys, x->beta + first * n_h, r, K, C, &s.exp2, e))
        goto done;
    squares(C, r, &skew, &all);
    if (r > 0 && !spectrum_solve(C, r, eig, cond, &f.norm2, e))
        goto done;
    for (int i = 0; i < r && wiped; i++)
        eig[i] = 0;
    f.norm2 = wiped ? 0 : f.norm2;
    spectrum_frozen(K, r,
                    wiped    ? 0
                    : s.exp2 ? ldexp(1, (int)-s.exp2)
                             : 1,
                    eig, cond, &f.norm2, &all);
    f.asymmetry = wiped || all == 0 ? 0 : sqrt(skew / all);
    ok = spectrum_finish(x, last, W, s, eig, cond, &f, e);
    if (ok)
        *facts = f;
done:
    free(C);
    free(keys);
    return ok;
}

bool spectrum_window(const transitions *x, int64_t last, int64_t W, double complex *eig,
                     double *cond, window_facts *facts, err *e) {
    if (x->kind == TRANSITION_DIAGONAL)
        return window_diagonal(x, last, W, eig, cond, facts, e);
    if (spectrum_window_short(x, W))
        return window_short(x, last, W, eig, cond, facts, e);
    return spectrum_window_dense(x, last, W, eig, cond, facts, e);
}
