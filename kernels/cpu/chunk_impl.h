// kernels/cpu/chunk_impl.h - what the files of the chunk kernel share. Contract: kernels/chunk.h.
#ifndef DELTOP_CHUNK_IMPL_H
#define DELTOP_CHUNK_IMPL_H

#include "kernels/cpu/real.h"

enum { CHUNK_SUB = 16 }; // rows of a sub-block: of the solve, and of scores under channel decay

// Decay inside one chunk of n micro-steps.
typedef struct chunk {
    int n, K;
    bool channel;
    const real *w;     // factors D_i: [n], or [n, K] with channel
    const real *gamma; // Gamma [n, n], lower triangle; not with channel
    real *p;           // scratch [K]
    real *left;        // scratch [n, K]
    real *right;       // scratch [n, K]
} chunk;

// Rows x [n, K] that read the state; row i reads after micro-step first + i * every of the chunk
// (-1: before the chunk's first).
typedef struct readers {
    const real *x;
    int64_t ld;
    int n, first, every;
} readers;

// Gamma of the scalar factors w [n] into gamma [n, n], zeros above the diagonal.
void FN(chunk_gamma)(int n, const real *w, real *gamma);

// c->left row i - i0 = D_e .. D_from x_i for readers i0 <= i < i1, e the step that i reads after.
void FN(chunk_left)(const chunk *c, const readers *r, int i0, int i1, int from);

// c->right row j = D_{to-1} .. D_{j+1} x_j for j < to; c->p: D_{to-1} .. D_0 (one number, or K).
void FN(chunk_right)(const chunk *c, const real *x, int64_t ld, int to);

// P [r->n, n] = (X_r X^T . Gamma): P_ij = x_i^T D_e .. D_{j+1} x_j for j <= e, else 0. Uses c->left
// and c->right.
void FN(chunk_scores)(const chunk *c, const readers *r, const real *x, int64_t ld, real *P);

// X [n, nv] = (I + tril(M, -1))^-1 X in place, M [n, n]; only entries of M below its diagonal are
// read. By substitution inside blocks of CHUNK_SUB rows, products between them. T is applied and
// never formed: a float T loses two digits more for repeated keys and beta near 2, where its 2016
// entries are all near 4 in modulus and cancel (and the powers of M, for a Neumann series, reach
// 1e6).
void FN(chunk_solve)(int n, const real *M, real *X, int nv);

#endif
