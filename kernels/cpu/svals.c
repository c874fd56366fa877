#include "kernels/svals.h"

#include "core/backend.h"
#include "core/mem.h"
#include "kernels/cpu/svals_lanes.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

// What a call is about: `a` is float or double by `wide`.
typedef struct job {
    const void *a;
    bool wide;
    int64_t count;
    int K, V, n; // n = min(K, V)
    double *sv, *fro;
} job;

// A matrix is divided by 2^exponent, exactly, so that its largest entry lies in [1, 2): squares
// neither over- nor underflow, and a state times a power of two gives the same digits.
typedef struct norm {
    double down, down2; // down * down2 = 2^-exponent; two factors, for 2^-exponent may not exist
    int exponent;
    bool finite, zero;
} norm;

// The largest |entry| from the bit patterns: as integers they compare like the magnitudes do, and
// NaN and Inf come out above every number.
static norm norm_f32(const float *a, size_t size) {
    uint32_t top = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t bits;
        memcpy(&bits, a + i, sizeof bits);
        bits &= 0x7fffffffu;
        top = bits > top ? bits : top;
    }
    norm x = {1, 1, 0, top < 0x7f800000u, top == 0};
    float largest;
    memcpy(&largest, &top, sizeof largest);
    if (x.finite && !x.zero) {
        x.exponent = ilogb(largest);
        x.down = ldexp(1, -x.exponent);
    }
    return x;
}

static norm norm_f64(const double *a, size_t size) {
    uint64_t top = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t bits;
        memcpy(&bits, a + i, sizeof bits);
        bits &= 0x7fffffffffffffffu;
        top = bits > top ? bits : top;
    }
    norm x = {1, 1, 0, top < 0x7ff0000000000000u, top == 0};
    double largest;
    memcpy(&largest, &top, sizeof largest);
    if (x.finite && !x.zero) {
        x.exponent = ilogb(largest);
        int half = x.exponent / 2;
        x.down = ldexp(1, -half);
        x.down2 = ldexp(1, half - x.exponent);
    }
    return x;
}

static norm norm_of(const job *j, int64_t index) {
    size_t size = (size_t)j->K * (size_t)j->V, at = (size_t)index * size;
    return j->wide ? norm_f64((const double *)j->a + at, size)
                   : norm_f32((const float *)j->a + at, size);
}

static int falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Descending. The values come out of the iteration almost sorted, where insertion is quickest;
// large sets that are not are left to qsort.
static void sort(double *s, int n) {
    int64_t moves = 0;
    for (int i = 1; i < n; i++) {
        double x = s[i];
        int k = i;
        for (; k > 0 && s[k - 1] < x; k--)
            s[k] = s[k - 1];
        s[k] = x;
        moves += i - k;
        if (moves > 64 * (int64_t)n) {
            qsort(s, (size_t)n, sizeof *s, falling);
            return;
        }
    }
}

static void fill_result(const job *j, int64_t index, double value) {
    for (int i = 0; i < j->n; i++)
        j->sv[index * j->n + i] = value;
    if (j->fro)
        j->fro[index] = value;
}

// ---- one matrix at a time -----------------------------------------------------------------------

typedef struct dense {
    double *a, *work;
    lapack_int *iwork;
    lapack_int lwork;
} dense;

static bool dense_new(dense *x, const job *j, err *e) {
    double best = 0;
    double none = 0;
    lapack_int inone = 0;
    *x = (dense){0};
    lapack_int info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', j->V, j->K, &none, j->V, &none,
                                          NULL, 1, NULL, 1, &best, -1, &inone);
    if (info != 0)
        return err_set(e, ERR_NUMERIC, "dgesdd gives no workspace size for %d x %d: info %d", j->V,
                       j->K, (int)info);
    x->lwork = (lapack_int)best;
    size_t size = 0;
    if (!mem_mul((size_t)j->K, (size_t)j->V, &size))
        return err_set(e, ERR_NOMEM, "out of memory: a %d x %d state", j->K, j->V);
    x->a = mem_alloc(size, sizeof *x->a, "a copy of one state", e);
    x->work = mem_alloc((size_t)x->lwork, sizeof *x->work, "workspace of dgesdd", e);
    x->iwork = mem_alloc(8 * (size_t)j->n, sizeof *x->iwork, "workspace of dgesdd", e);
    return x->a && x->work && x->iwork;
}

static void dense_free(dense *x) {
    free(x->a);
    free(x->work);
    free(x->iwork);
}

static bool dense_values(const job *j, int64_t index, dense *x, err *e) {
    norm scale = norm_of(j, index);
    if (!scale.finite || scale.zero) {
        fill_result(j, index, scale.finite ? 0 : NAN);
        return true;
    }
    size_t size = (size_t)j->K * (size_t)j->V, at = (size_t)index * size;
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
        double v = j->wide ? ((const double *)j->a)[at + i] : ((const float *)j->a)[at + i];
        x->a[i] = v * scale.down * scale.down2;
        sum += x->a[i] * x->a[i];
    }
    double *s = j->sv + index * j->n;
    // Row-major K x V is column-major V x K: the transpose has the same singular values.
    lapack_int info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', j->V, j->K, x->a, j->V, s, NULL, 1,
                                          NULL, 1, x->work, x->lwork, x->iwork);
    if (info != 0)
        return err_set(e, ERR_NUMERIC, "dgesdd on state %lld (%d x %d): info %d", (long long)index,
                       j->K, j->V, (int)info);
    for (int i = 0; i < j->n; i++)
        s[i] = ldexp(s[i], scale.exponent);
    if (j->fro)
        j->fro[index] = ldexp(sqrt(sum), scale.exponent);
    return true;
}

// All states, or those marked in `only`.
static bool run_dense(const job *j, const unsigned char *only, err *e) {
    int threads = omp_get_max_threads();
    if (threads > j->count)
        threads = (int)j->count;
    dense *x = mem_zalloc((size_t)threads, sizeof *x, "workspaces", e);
    bool ok = x != NULL;
    for (int t = 0; ok && t < threads; t++)
        ok = dense_new(&x[t], j, e);
    if (ok) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int64_t i = 0; i < j->count; i++) {
            err mine = {0};
            if (only && !only[i])
                continue;
            if (!dense_values(j, i, &x[omp_get_thread_num()], &mine)) {
#pragma omp critical(svals_failure)
                ok = err_set(e, mine.code, "%s", mine.text);
            }
        }
    }
    for (int t = 0; x && t < threads; t++)
        dense_free(&x[t]);
    free(x);
    return ok;
}

// ---- many at a time -----------------------------------------------------------------------------

typedef struct lanes {
    vec *X, *A, *work, *d, *e2;
    double *lambda;
} lanes;

static bool lanes_new(lanes *x, const job *j, int groups, err *e) {
    size_t n = (size_t)j->n, width = (size_t)groups;
    *x = (lanes){0};
    x->X = mem_aligned((n + SPARE) * CHUNK, sizeof(vec), "a block of states", e);
    x->A = mem_aligned(n * (n + 1) / 2, sizeof(vec), "Gram matrices", e);
    x->work = mem_aligned(4 * n, sizeof(vec), "reflectors", e);
    x->d = mem_aligned(n * width, sizeof(vec), "tridiagonal matrices", e);
    x->e2 = mem_aligned(n * width, sizeof(vec), "tridiagonal matrices", e);
    x->lambda = mem_aligned(n * width, sizeof(vec), "eigenvalues", e);
    return x->X && x->A && x->work && x->d && x->e2 && x->lambda;
}

static void lanes_free(lanes *x) {
    free(x->X);
    free(x->A);
    free(x->work);
    free(x->d);
    free(x->e2);
    free(x->lambda);
}

// Entries first .. first + rows - 1 of the longer side of LANES matrices, side by side. The shorter
// side runs along the columns of X, so that X^T X has size n. Compiled once per type and layout.
INLINE void load(vec *X, const job *j, const norm *scale, const size_t *at, int first, int rows,
                 bool wide, bool along) {
    vec down, down2;
    const float *f[LANES];
    const double *d[LANES];
    // Entry s of column i: rows of the matrix are columns of X (`along`), or rows of X.
    size_t row = (size_t)j->V, step_s = along ? 1 : row, step_i = along ? row : 1;
    for (int l = 0; l < LANES; l++) {
        size_t from = at[l] + (size_t)first * step_s;
        f[l] = wide ? NULL : (const float *)j->a + from;
        d[l] = wide ? (const double *)j->a + from : NULL;
        down[l] = scale[l].down;
        down2[l] = scale[l].down2;
    }
    for (int i = 0; i < j->n; i++) {
        vec *x = X + (size_t)i * CHUNK;
        for (int s = 0; s < rows; s++) {
            size_t k = (size_t)i * step_i + (size_t)s * step_s;
            vec t;
            for (int l = 0; l < LANES; l++)
                t[l] = wide ? d[l][k] : (double)f[l][k];
            x[s] = wide ? t * down * down2 : t * down;
        }
    }
}

// Gram matrices of LANES states from `first` on, and their tridiagonal forms into column `group` of
// the group's d and e2.
static void reduce_lanes(const job *j, lanes *x, int64_t first, const norm *scale, int group,
                         int groups, double *trace) {
    int side = j->K > j->V ? j->K : j->V, n = j->n;
    size_t at[LANES], size = (size_t)j->K * (size_t)j->V;
    // Lanes beyond the last state repeat it.
    for (int l = 0; l < LANES; l++)
        at[l] = (size_t)(first + l < j->count ? first + l : j->count - 1) * size;
    memset(x->A, 0, (size_t)n * ((size_t)n + 1) / 2 * sizeof *x->A);
    for (int s = 0; s < side; s += CHUNK) {
        int rows = side - s < CHUNK ? side - s : CHUNK;
        bool along = j->K <= j->V;
        if (j->wide && along)
            load(x->X, j, scale, at, s, rows, true, true);
        else if (j->wide)
            load(x->X, j, scale, at, s, rows, true, false);
        else if (along)
            load(x->X, j, scale, at, s, rows, false, true);
        else
            load(x->X, j, scale, at, s, rows, false, false);
        lanes_gram(x->X, rows, n, x->A);
    }
    vec sum = {0};
    for (int i = 0; i < n; i++)
        sum += x->A[lanes_column(n, i) + (size_t)i];
    memcpy(trace, &sum, sizeof sum);
    lanes_tridiagonalise(x->A, n, x->work, x->d + group, x->e2 + group, (size_t)groups);
}

// An eigenvalue of the Gram is off by up to EDGE eps lambda_1 (measured: 1). A singular value that
// close to SVALS_CUT sigma_1 might fall on the wrong side of the cut and move the effective rank by
// 2e-6; such states are few (below one in ten where values fall by half from one to the next).
#define EDGE 3

static bool near_cut(const double *s, int n) {
    double cut = SVALS_CUT * SVALS_CUT, room = EDGE * DBL_EPSILON;
    double low = sqrt(cut - room) * s[0], high = sqrt(cut + room) * s[0];
    int i = n - 1;
    while (i > 0 && s[i] < low)
        i--;
    return i > 0 && s[i] <= high;
}

// States first .. first + groups LANES - 1. Those that are better left to dgesdd are marked in
// `again`: near the cut, or not converged (never seen to happen).
static void lanes_values(const job *j, lanes *x, int64_t first, int groups, unsigned char *again) {
    norm scale[GROUP * LANES];
    double trace[GROUP * LANES] = {0};
    if (j->count - first < (int64_t)groups * LANES)
        groups = (int)((j->count - first + LANES - 1) / LANES);
    int lanes = groups * LANES, n = j->n;
    for (int l = 0; l < lanes; l++)
        scale[l] = first + l < j->count ? norm_of(j, first + l) : scale[l - 1];
    for (int g = 0; g < groups; g++)
        reduce_lanes(j, x, first + g * LANES, scale + g * LANES, g, groups, trace + g * LANES);
    lanes_eigenvalues(x->d, x->e2, n, groups, x->lambda);
    for (int l = 0; l < lanes && first + l < j->count; l++) {
        if (!scale[l].finite || scale[l].zero) {
            fill_result(j, first + l, scale[l].finite ? 0 : NAN);
            continue;
        }
        double *s = j->sv + (first + l) * n;
        bool lost = false;
        for (int i = 0; i < n; i++) {
            double v = x->lambda[i * lanes + l];
            lost = lost || isnan(v);
            // Rounding leaves the zero eigenvalues of a rank-deficient Gram at +-eps lambda_1.
            s[i] = v > 0 ? sqrt(v) : 0;
        }
        sort(s, n);
        again[first + l] = lost || near_cut(s, n);
        for (int i = 0; i < n; i++)
            s[i] = ldexp(s[i], scale[l].exponent);
        if (j->fro)
            j->fro[first + l] = ldexp(sqrt(trace[l]), scale[l].exponent);
    }
}

static bool run_lanes(const job *j, err *e) {
    int threads = omp_get_max_threads();
    // Few states: spread them over the threads rather than fill the groups of one.
    int64_t share = (j->count + threads - 1) / threads;
    int groups = share >= GROUP * LANES ? GROUP : (int)((share + LANES - 1) / LANES);
    int64_t step = (int64_t)groups * LANES, blocks = (j->count + step - 1) / step;
    if (threads > blocks)
        threads = (int)blocks;
    unsigned char *again = mem_zalloc((size_t)j->count, 1, "marks of states", e);
    lanes *x = mem_zalloc((size_t)threads, sizeof *x, "workspaces", e);
    bool ok = x && again;
    for (int t = 0; ok && t < threads; t++)
        ok = lanes_new(&x[t], j, groups, e);
    if (ok) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int64_t b = 0; b < blocks; b++)
            lanes_values(j, &x[omp_get_thread_num()], b * step, groups, again);
    }
    for (int t = 0; x && t < threads; t++)
        lanes_free(&x[t]);
    free(x);
    if (ok && memchr(again, 1, (size_t)j->count))
        ok = run_dense(j, again, e);
    free(again);
    return ok;
}

static bool run(svals_method m, const job *j, err *e) {
    if (j->K < 1 || j->V < 1 || j->count < 0)
        return err_set(e, ERR_INPUT, "singular values of %lld states of %d x %d",
                       (long long)j->count, j->K, j->V);
    if (j->count == 0)
        return true;
    return m == SVALS_EXACT ? run_dense(j, NULL, e) : run_lanes(j, e);
}

bool svals_f32(svals_method m, const float *a, int64_t count, int K, int V, double *sv, double *fro,
               err *e) {
    job j = {a, false, count, K, V, K < V ? K : V, sv, fro};
    return run(m, &j, e);
}

bool svals_f64(svals_method m, const double *a, int64_t count, int K, int V, double *sv,
               double *fro, err *e) {
    job j = {a, true, count, K, V, K < V ? K : V, sv, fro};
    return run(m, &j, e);
}
