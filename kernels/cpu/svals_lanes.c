#include "kernels/cpu/svals_lanes.h"

// -std=c11 forbids contraction across statements; here a*b+c may be one instruction, and nothing
// below relies on the rounding of the product.
#pragma GCC optimize("fp-contract=fast")

// A tile of PANEL x 2 entries of the Gram, rows i0.., columns j0, j0 + 1.
INLINE void gram_tile(const vec *restrict xi, const vec *restrict xj, int rows, vec acc[PANEL][2]) {
    vec t[PANEL][2] = {0};
    for (int s = 0; s < rows; s++)
        for (int c = 0; c < 2; c++)
            for (int r = 0; r < PANEL; r++)
                t[r][c] += xi[s * PANEL + r] * xj[s * PANEL + c];
    for (int r = 0; r < PANEL; r++)
        for (int c = 0; c < 2; c++)
            acc[r][c] = t[r][c];
}

void lanes_gram(const vec *X, int rows, int n, vec *A) {
    for (int i0 = 0; i0 < n; i0 += PANEL) {
        for (int j0 = 0; j0 < i0 + PANEL && j0 < n; j0 += 2) {
            vec acc[PANEL][2];
            gram_tile(X + lanes_x(i0, 0), X + lanes_x(j0, 0), rows, acc);
            for (int j = j0; j < j0 + 2 && j < n; j++)
                for (int i = i0 > j ? i0 : j; i < i0 + PANEL && i < n; i++)
                    A[lanes_column(n, j) + (size_t)i] += acc[i - i0][j - j0];
        }
    }
}

// The vectors of one step, indexed by matrix row. (v, w) is the rank-2 update A -= v w^T + w v^T
// that the previous step owes; u is this step's reflector, y receives A u.
typedef struct step {
    vec *v, *w, *u, *y;
} step;

// Columns j and j + 1: pays the owed update and multiplies by u in the same pass, so that the
// trailing matrix is read and written once per step.
INLINE void two_columns(vec *restrict a, vec *restrict b, const step *x, int j, int n) {
    const vec *restrict v = x->v, *restrict w = x->w, *restrict u = x->u;
    vec *restrict y = x->y;
    vec vj = v[j], wj = w[j], uj = u[j], vk = v[j + 1], wk = w[j + 1], uk = u[j + 1];
    vec diag = a[j] - 2 * vj * wj;
    vec below = a[j + 1] - vk * wj - wk * vj;
    vec next = b[j + 1] - 2 * vk * wk;
    a[j] = diag;
    a[j + 1] = below;
    b[j + 1] = next;
    vec yj = diag * uj + below * uk;
    vec yk = next * uk + below * uj;
    for (int i = j + 2; i < n; i++) {
        vec vi = v[i], wi = w[i], ui = u[i];
        vec ai = a[i] - vi * wj - wi * vj;
        vec bi = b[i] - vi * wk - wi * vk;
        a[i] = ai;
        b[i] = bi;
        yj += ai * ui;
        yk += bi * ui;
        y[i] += ai * uj + bi * uk;
    }
    y[j] += yj;
    y[j + 1] += yk;
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
        for (; j + 1 < n; j += 2)
            two_columns(A + lanes_column(n, j), A + lanes_column(n, j + 1), &x, j, n);
        if (j < n) {
            vec *last = A + lanes_column(n, j) + j;
            *last -= 2 * x.v[j] * x.w[j];
            x.y[j] += *last * x.u[j];
        }

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
