#include "kernels/cpu/svals_lanes.h"

#include <float.h>
#include <stdbool.h>

// No contraction here: the versions for 1 to GROUP vectors must round alike, or a value would
// depend on how many states were asked for (-std=c11 leaves contraction off).

// Added to each squared off-diagonal: entries are of order 1 (svals.c scales), so 1e-35 more in an
// off-diagonal is far below rounding, and no quotient below can over- or underflow.
#define TINY 1e-70

// Where one sweep stands: the rotation and the last diagonal entry, for each vector of the group.
typedef struct chain {
    vec c[GROUP], s[GROUP], gamma[GROUP], p[GROUP], shift[GROUP];
    ivec at[GROUP]; // first row of each lane that has not converged
} chain;

// Row i of the square-root-free QL step (Pal, Walker and Kahan's variant, as in LAPACK dsterf).
// With `edge`, some lanes end at row i + 1 and get their last entries there. What is written to
// rows below a lane's end is never read.
INLINE void advance(chain *x, vec *restrict d, vec *restrict e2, int i, int G, bool edge) {
    for (int g = 0; g < G; g++) {
        vec bb = e2[i * G + g] + TINY, alpha = d[i * G + g];
        vec p = x->p[g], r = p + bb, was = x->c[g], gam = x->gamma[g];
        vec off = x->s[g] * r, end_off = x->s[g] * p;
        // c = p / r, s = e2 / r and 1 / c = r / p from the one division 1 / (p r). Where p has
        // vanished (gamma has, then) the limits are c = 0, s = 1.
        ivec safe = p > TINY * TINY;
        vec inv = 1 / pick(safe, p * r, splat(1));
        vec c = pick(safe, p * p * inv, (vec){0});
        vec s = pick(safe, bb * (p * inv), splat(1));
        vec gamma = c * (alpha - x->shift[g]) - s * gam;
        vec diag = gam + (alpha - gamma), end_diag = gam + x->shift[g];
        if (edge) {
            ivec ends = x->at[g] == i + 1;
            off = pick(ends, end_off, off);
            diag = pick(ends, end_diag, diag);
        }
        e2[(i + 1) * G + g] = off;
        d[(i + 1) * G + g] = diag;
        // p = gamma^2 / c, and its limit where gamma and c vanish together.
        x->p[g] = pick(safe, gamma * gamma * (r * (r * inv)), was * bb);
        x->c[g] = c;
        x->s[g] = s;
        x->gamma[g] = gamma;
    }
}

// One sweep over rows n-1 .. lo; lanes end between hi and lo.
INLINE void sweep(chain *x, vec *restrict d, vec *restrict e2, int n, int hi, int lo, int G) {
    for (int g = 0; g < G; g++) {
        x->c[g] = splat(1);
        x->s[g] = (vec){0};
        x->gamma[g] = d[(n - 1) * G + g] - x->shift[g];
        x->p[g] = x->gamma[g] * x->gamma[g];
    }
    int i = n - 2;
    for (; i >= hi; i--)
        advance(x, d, e2, i, G, false);
    for (; i >= lo; i--)
        advance(x, d, e2, i, G, true);
    for (int g = 0; g < G; g++) {
        e2[lo * G + g] = x->s[g] * x->p[g];
        d[lo * G + g] = x->gamma[g] + x->shift[g];
    }
}

INLINE void eigenvalues(vec *restrict d, vec *restrict e2, int n, int G, double *lambda) {
    chain x;
    int lanes = G * LANES, at[GROUP * LANES];
    double *D = (double *)d, *E = (double *)e2, drop[GROUP * LANES];
    for (int l = 0; l < lanes; l++) {
        // lambda_1 <= max d + 2 max e <= 2 lambda_1.
        double top = 0, top2 = 0, sum = 0;
        for (int i = 0; i < n; i++) {
            double di = D[i * lanes + l], ei = i < n - 1 ? E[i * lanes + l] : 0;
            top = di > top ? di : top;
            top2 = ei > top2 ? ei : top2;
            sum += di + ei;
        }
        double t = (top + 2 * sqrt(top2)) * (DBL_EPSILON / 8);
        drop[l] = t * t;
        // A matrix with a NaN would never converge; it is done before it starts.
        at[l] = isfinite(sum) ? 0 : n;
    }
    for (int l = 0; l < lanes; l++)
        for (int i = 0; i < at[l]; i++)
            lambda[(size_t)i * (size_t)lanes + (size_t)l] = NAN;
    // About 1.7 sweeps per eigenvalue is usual; LAPACK gives up after 30.
    for (int64_t left = 30 * (int64_t)n; left > 0; left--) {
        int lo = n, hi = 0;
        vec here[GROUP], next[GROUP], off[GROUP];
        double *h = (double *)here, *y = (double *)next, *o = (double *)off;
        for (int l = 0; l < lanes; l++) {
            int i = at[l];
            size_t j = (size_t)i * (size_t)lanes + (size_t)l, row = (size_t)lanes;
            for (; i < n && (i == n - 1 || E[j] <= drop[l]); i++, j += row) {
                lambda[j] = D[j];
                D[j] = E[j] = 0;
            }
            at[l] = i;
            h[l] = y[l] = 0;
            o[l] = 1;
            if (i < n) {
                lo = i < lo ? i : lo;
                hi = i > hi ? i : hi;
                h[l] = D[j];
                y[l] = D[j + row];
                o[l] = E[j];
            }
        }
        if (lo == n)
            return;
        for (int g = 0; g < G; g++) {
            // Wilkinson: the eigenvalue of the leading 2 x 2 block nearer to its first entry.
            vec half = (next[g] - here[g]) * 0.5;
            vec rt = root(half * half + off[g]);
            x.shift[g] = here[g] - off[g] / (half + pick(half < 0, -rt, rt));
            for (int l = 0; l < LANES; l++)
                x.at[g][l] = at[g * LANES + l];
        }
        sweep(&x, d, e2, n, hi, lo, G);
    }
    for (int l = 0; l < lanes; l++)
        for (int i = at[l]; i < n; i++)
            lambda[(size_t)i * (size_t)lanes + (size_t)l] = NAN;
}

void lanes_eigenvalues(vec *d, vec *e2, int n, int groups, double *lambda) {
    // A constant count lets the compiler unroll the vectors of a step into independent chains.
    switch (groups) {
    case 1:
        eigenvalues(d, e2, n, 1, lambda);
        break;
    case 2:
        eigenvalues(d, e2, n, 2, lambda);
        break;
    case 3:
        eigenvalues(d, e2, n, 3, lambda);
        break;
    default:
        eigenvalues(d, e2, n, GROUP, lambda);
        break;
    }
}
