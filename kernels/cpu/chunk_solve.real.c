#include "kernels/cpu/chunk_impl.h"

#include <cblas.h>

enum { SUB = CHUNK_SUB, TILE = 128 / sizeof(real) };

// Rows a..a+rows among themselves, columns in tiles that stay in registers: x_i -= L_ij x_j, j < i.
static void substitute(const real *M, int n, int rows, real *X, int nv) {
    for (int v = 0; v < nv; v += TILE) {
        int width = nv - v < TILE ? nv - v : TILE;
        for (int i = 1; i < rows; i++) {
            real *x = X + (int64_t)i * nv + v, sum[TILE] = {0};
            for (int j = 0; j < i; j++) {
                const real *above = X + (int64_t)j * nv + v;
                real l = M[(int64_t)i * n + j];
                if (width == TILE)
                    for (int c = 0; c < TILE; c++)
                        sum[c] += l * above[c];
                else
                    for (int c = 0; c < width; c++)
                        sum[c] += l * above[c];
            }
            for (int c = 0; c < width; c++)
                x[c] -= sum[c];
        }
    }
}

void FN(chunk_solve)(int n, const real *M, real *X, int nv) {
    for (int a = 0; a < n; a += SUB) {
        int rows = n - a < SUB ? n - a : SUB;
        real *x = X + (int64_t)a * nv;
        if (a > 0)
            REAL_GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, nv, a, -1,
                      M + (int64_t)a * n, n, X, nv, 1, x, nv);
        substitute(M + (int64_t)a * n + a, n, rows, x, nv);
    }
}
