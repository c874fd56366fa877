// kernels/cuda/tridiag.h - eigenvalues of one symmetric tridiagonal matrix by one thread.
//
// The square-root-free QL step of Pal, Walker and Kahan (as in LAPACK dsterf), shifted from the
// first row and swept from the last: the same arithmetic as one lane of kernels/cpu/svals_ql.c, so
// that both devices fail and succeed alike. Every sweep starts at row n - 1, whatever the thread, so
// that the threads of a warp touch neighbouring words when element i of matrix m lies at
// [i * stride + m]. Plain C: a host test runs it too.
#ifndef DELTOP_TRIDIAG_H
#define DELTOP_TRIDIAG_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TRIDIAG_FN static __host__ __device__ inline
#else
#define TRIDIAG_FN static inline
#endif

// Added to each squared off-diagonal: entries are of order 1, so 1e-35 more in an off-diagonal is
// far below rounding, and no quotient below can over- or underflow.
#define TRIDIAG_TINY 1e-70
// Rows whose entries are fetched ahead of the chain of divisions that consumes them.
#define TRIDIAG_AHEAD 4

typedef struct tridiag_chain {
    double c, s, gamma, p, shift;
} tridiag_chain;

// One row: takes its diagonal and squared off-diagonal, returns what goes to the row after it.
TRIDIAG_FN void tridiag_row(tridiag_chain *x, double alpha, double e2, double *diag, double *off) {
    double bb = e2 + TRIDIAG_TINY, p = x->p, r = p + bb, was = x->c, gam = x->gamma;
    // c = p / r, s = e2 / r and 1 / c = r / p from the one division 1 / (p r). Where p has vanished
    // (gamma has, then) the limits are c = 0, s = 1.
    bool safe = p > TRIDIAG_TINY * TRIDIAG_TINY;
    double inv = 1 / (safe ? p * r : 1);
    double c = safe ? p * p * inv : 0;
    double s = safe ? bb * (p * inv) : 1;
    double gamma = c * (alpha - x->shift) - s * gam;
    *off = x->s * r;
    *diag = gam + (alpha - gamma);
    x->p = safe ? gamma * gamma * (r * (r * inv)) : was * bb;
    x->c = c;
    x->s = s;
    x->gamma = gamma;
}

// Rows n-1 .. lo.
TRIDIAG_FN void tridiag_sweep(double *d, double *e2, int n, int lo, double shift, int64_t stride) {
    double first = d[(n - 1) * stride] - shift;
    tridiag_chain x = {1, 0, first, first * first, shift};
    double a[TRIDIAG_AHEAD], b[TRIDIAG_AHEAD];
    int i = n - 2;
    for (int k = 0; k < TRIDIAG_AHEAD; k++) {
        int64_t at = (i - k > lo ? i - k : lo) * stride;
        a[k] = d[at];
        b[k] = e2[at];
    }
    while (i >= lo) {
        double next_a[TRIDIAG_AHEAD], next_b[TRIDIAG_AHEAD];
        // Reads run below every row that this round writes.
        for (int k = 0; k < TRIDIAG_AHEAD; k++) {
            int row = i - TRIDIAG_AHEAD - k;
            int64_t at = (row > lo ? row : lo) * stride;
            next_a[k] = d[at];
            next_b[k] = e2[at];
        }
        for (int k = 0; k < TRIDIAG_AHEAD; k++) {
            if (i - k < lo)
                continue;
            double diag, off;
            tridiag_row(&x, a[k], b[k], &diag, &off);
            d[(i - k + 1) * stride] = diag;
            e2[(i - k + 1) * stride] = off;
        }
        for (int k = 0; k < TRIDIAG_AHEAD; k++) {
            a[k] = next_a[k];
            b[k] = next_b[k];
        }
        i -= TRIDIAG_AHEAD;
    }
    e2[lo * stride] = x.s * x.p;
    d[lo * stride] = x.gamma + x.shift;
}

// d: n diagonal entries, e2: n numbers, squared off-diagonal between i and i + 1 at i (the last one
// is work space); both destroyed: the eigenvalues replace d, in no order. Entries near 1; errors of
// rounding times lambda_1. False when the matrix is not finite or does not converge.
TRIDIAG_FN bool tridiag_eigenvalues(double *d, double *e2, int n, int64_t stride) {
    // lambda_1 <= max d + 2 max e <= 2 lambda_1.
    double top = 0, top2 = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        double di = d[i * stride], ei = i < n - 1 ? e2[i * stride] : 0;
        top = di > top ? di : top;
        top2 = ei > top2 ? ei : top2;
        sum += di + ei;
    }
    if (!(sum - sum == 0))
        return false;
    double drop = (top + 2 * sqrt(top2)) * (DBL_EPSILON / 8);
    drop *= drop;
    int at = 0;
    // About 1.7 sweeps per eigenvalue is usual; LAPACK gives up after 30.
    for (int left = 30 * n; left > 0; left--) {
        while (at < n - 1 && e2[at * stride] <= drop)
            at++;
        if (at == n - 1)
            return true;
        // Wilkinson: the eigenvalue of the leading 2 x 2 block nearer to its first entry.
        double here = d[at * stride], off = e2[at * stride];
        double half = (d[(at + 1) * stride] - here) * 0.5, rt = sqrt(half * half + off);
        tridiag_sweep(d, e2, n, at, here - off / (half + (half < 0 ? -rt : rt)), stride);
    }
    return false;
}

#endif
