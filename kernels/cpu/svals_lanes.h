// kernels/cpu/svals_lanes.h - eigenvalues of several symmetric matrices at once, one per SIMD lane.
//
// Element (i, j) of all LANES matrices lies side by side in one `vec`, so each loop below is the
// plain scalar algorithm with `vec` for `double`: no shuffles, and lanes never mix, so a matrix
// gets the same values whatever its neighbours are. Private to kernels/cpu/svals*.c.
#ifndef DELTOP_SVALS_LANES_H
#define DELTOP_SVALS_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif

typedef double vec __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t ivec __attribute__((vector_size(LANES * sizeof(int64_t))));

#define INLINE static inline __attribute__((always_inline))

INLINE vec splat(double x) {
    return x - (vec){0};
}

// Lane by lane: mask ? a : b.
INLINE vec pick(ivec mask, vec a, vec b) {
    return (vec)(((ivec)a & mask) | ((ivec)b & ~mask));
}

INLINE vec root(vec x) {
    for (int l = 0; l < LANES; l++)
        x[l] = sqrt(x[l]);
    return x;
}

// Tridiagonals are diagonalised GROUP vectors at a time: the recurrence is one long chain of
// divisions, and only independent chains hide their latency.
enum { GROUP = 4 };

// The input enters as X[i * CHUNK + s]: entry s < CHUNK of column i. SPARE columns beyond the last
// are read, and must hold something finite. CHUNK is not a power of two, or neighbouring columns
// would compete for the same cache sets.
enum { CHUNK = 66, SPARE = 3 };

// The lower triangle, column by column: column j starts at its diagonal element.
// A[lanes_column(n, j) + i] is element (i, j), i >= j.
static inline size_t lanes_column(int n, int j) {
    return (size_t)j * (2 * (size_t)n - (size_t)j + 1) / 2 - (size_t)j;
}

// A += X^T X over `rows` rows.
void lanes_gram(const vec *X, int rows, int n, vec *A);

// Orthogonal similarity to tridiagonal form: diagonal to d[i * stride], squared off-diagonal
// between i and i + 1 to e2[i * stride], both counted from the END of the matrix (i = 0 is its last
// row). A is destroyed; work: 4 n vectors.
void lanes_tridiagonalise(vec *A, int n, vec *work, vec *d, vec *e2, size_t stride);

// Eigenvalues of `groups` <= GROUP vectors of tridiagonals, d and e2 [n][groups] vectors, both
// destroyed; lambda [n][groups * LANES] in no order. Entries near 1; errors of rounding times
// lambda_1. A matrix that is not finite or does not converge gives NaN.
void lanes_eigenvalues(vec *d, vec *e2, int n, int groups, double *lambda);

#endif
