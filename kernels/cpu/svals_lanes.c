#include "kernels/cpu/svals_lanes.h"

// -std=c11 keeps gcc from forming fused multiply-adds; here they are half the speed, and nothing
// below relies on the rounding of a product.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif

// Asks for a value to stay in a register: left alone, gcc folds the load into each use, and then
// loads, not multiplications, set the pace.
#if defined(__x86_64__)
#define KEEP(x) __asm__("" : "+v"(x))
#else
#define KEEP(x) ((void)0)
#endif

// Entries (i0 .. i0+3, j0 .. j0+2): twelve sums keep both multipliers busy, and fit the registers.
INLINE void gram_tile(const vec *restrict xi, const vec *restrict xj, int rows, vec sum[4][3]) {
    vec t[4][3] = {0};
    for (int s = 0; s < rows; s++) {
        vec b[3];
        for (int c = 0; c < 3; c++) {
            b[c] = xj[c * CHUNK + s];
            KEEP(b[c]);
        }
        for (int r = 0; r < 4; r++) {
            vec a = xi[r * CHUNK + s];
            KEEP(a);
            for (int c = 0; c < 3; c++)
                t[r][c] += a * b[c];
        }
    }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++)
            sum[r][c] = t[r][c];
}

void lanes_gram(const vec *X, int rows, int n, vec *A) {
    for (int j0 = 0; j0 < n; j0 += 3) {
        for (int i0 = j0; i0 < n; i0 += 4) {
            vec sum[4][3];
            gram_tile(X + (size_t)i0 * CHUNK, X + (size_t)j0 * CHUNK, rows, sum);
            for (int j = j0; j < j0 + 3 && j < n; j++)
                for (int i = i0 > j ? i0 : j; i < i0 + 4 && i < n; i++)
                    A[lanes_column(n, j) + (size_t)i] += sum[i - i0][j - j0];
        }
    }
}

// Columns of the trailing matrix taken together: three leave their factors and sums in 16 registers
// (measured at 64 x 64 with AVX2: 2 and 3 alike, 4 slower).
enum { WIDE = 3 };

// The vectors of one step, indexed by matrix row. (v, w) is the rank-2 update A -= v w^T + w v^T
// that the previous step owes; u is this step's reflector, y receives A u.
typedef struct step {
    vec *v, *w, *u, *y;
} step;

// Columns j .. j + M - 1 of the trailing matrix: pays the owed update and multiplies by u in the
// same pass, so that the matrix is read and written once per step.
INLINE void columns(vec *A, const step *x, int j, int n, int M) {
    const vec *restrict v = x->v, *restrict w = x->w, *restrict u = x->u;
    vec *restrict y = x->y, *restrict a[WIDE];
    vec vj[WIDE], wj[WIDE], uj[WIDE], yj[WIDE];
    for (int c = 0; c < M; c++) {
        a[c] = A + lanes_column(n, j + c);
        vj[c] = v[j + c];
        wj[c] = w[j + c];
        uj[c] = u[j + c];
        yj[c] = (vec){0};
    }
    for (int c = 0; c < M; c++) {
        for (int r = c; r < M; r++) {
            vec t = a[c][j + r] - vj[r] * wj[c];
            t -= wj[r] * vj[c];
            a[c][j + r] = t;
            yj[r] += t * uj[c];
            if (r > c)
                yj[c] += t * uj[r];
        }
    }
    for (int i = j + M; i < n; i++) {
        vec vi = v[i], wi = w[i], ui = u[i], yi = y[i];
        for (int c = 0; c < M; c++) {
            vec t = a[c][i] - vi * wj[c];
            t -= wi * vj[c];
            a[c][i] = t;
            yj[c] += t * ui;
            yi += t * uj[c];
        }
        y[i] = yi;
    }
    for (int c = 0; c < M; c++)
        y[j + c] += yj[c];
}

void lanes_tridiagonalise(vec *A, int n, vec *work, vec *d, vec *e2, size_t stride) {
    step x = {work, work + n, work + 2 * n, work + 3 * n};
    for (int i = 0; i < 2 * n; i++)
        work[i] = (vec){0};
    for (int k = 0; k < n; k++) {
        vec *col = A + lanes_column(n, k);
        for (int i = k; i < n; i++)
            col[i] -= x.v[i] * x.w[k] + x.w[i] * x.v[k];
        d[(size_t)(n - 1 - k) * stride] = col[k];
        if (k == n - 1)
            break;

        // u = x - beta e_1 with beta = -sign(x_1) |x|; H = I - tau u u^T. A column that is zero
        // below its first entry needs no reflector (tau = 0).
        vec tail = {0};
        for (int i = k + 2; i < n; i++)
            tail += col[i] * col[i];
        vec alpha = col[k + 1], norm2 = alpha * alpha + tail, norm = root(norm2);
        e2[(size_t)(n - 2 - k) * stride] = norm2;
        vec head = alpha + pick(alpha < 0, -norm, norm);
        ivec live = tail > 1e-280;
        vec tau = 2 / pick(live, head * head + tail, splat(1));
        tau = pick(live, tau, (vec){0});
        x.u[k + 1] = head;
        for (int i = k + 2; i < n; i++)
            x.u[i] = col[i];
        for (int i = k + 1; i < n; i++) {
            x.u[i] = pick(live, x.u[i], (vec){0});
            x.y[i] = (vec){0};
        }

        int j = k + 1;
        for (; j + WIDE <= n; j += WIDE)
            columns(A, &x, j, n, WIDE);
        for (; j < n; j++)
            columns(A, &x, j, n, 1);

        // q = tau y - (tau^2 (u.y) / 2) u, then H A H = A - u q^T - q u^T.
        vec uy = {0};
        for (int i = k + 1; i < n; i++)
            uy += x.u[i] * x.y[i];
        vec half = tau * uy / 2;
        for (int i = k + 1; i < n; i++)
            x.y[i] = tau * (x.y[i] - half * x.u[i]);
        step owed = {x.u, x.y, x.v, x.w};
        x = owed;
    }
}
