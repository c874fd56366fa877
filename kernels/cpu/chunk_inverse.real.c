#include "kernels/cpu/chunk_impl.h"

#include <cblas.h>

enum { SUB = CHUNK_SUB };

// The diagonal block at row a: X = (I + L)^-1 row by row, X_i = e_i - sum_{j<i} L_ij X_j.
static void substitute(int n, int a, int rows, const real *M, real *inv) {
    for (int i = 0; i < rows; i++) {
        real x[SUB] = {0};
        x[i] = 1;
        for (int j = 0; j < i; j++) {
            real l = M[(int64_t)(a + i) * n + a + j];
            const real *above = inv + (int64_t)(a + j) * n + a;
            for (int c = 0; c <= j; c++)
                x[c] -= l * above[c];
        }
        memcpy(inv + (int64_t)(a + i) * n + a, x, (size_t)rows * sizeof *x);
    }
}

void FN(chunk_inverse)(int n, const real *M, real *inv, real *work) {
    memset(inv, 0, (size_t)n * (size_t)n * sizeof *inv);
    for (int a = 0; a < n; a += SUB) {
        int rows = n - a < SUB ? n - a : SUB;
        substitute(n, a, rows, M, inv);
        if (a == 0)
            continue;
        // Schur merge: the rows left of the block are -X_aa (M_a,0..a X_0..a,0..a).
        real *block = inv + (int64_t)a * n;
        REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, a, a, 1, M + (int64_t)a * n, n,
                  inv, n, 0, work, a);
        REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, a, rows, -1, block + a, n, work,
                  a, 0, block, n);
    }
}
