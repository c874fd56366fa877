// kernels/cuda/states_gram.h - the Gram matrix of a float32 state by the tensor cores' float64
// products, into the tiles of states_tiles.h.
//
// G = X^T X, X = S or its transpose, the smaller side (n) along the columns of X. A warp makes
// rectangles of 4 x 2 blocks of 8 x 8 numbers; those of the lower triangle are numbered row by row and
// taken WARPS at a time. Fragments of both sides of a product lie alike: lane 4 j + s has X[s][8 I + j]
// for block I. Finished rectangles go through shared memory to the threads that own their tiles.
#ifndef DELTOP_STATES_GRAM_H
#define DELTOP_STATES_GRAM_H

#include "kernels/cuda/states_tiles.h"

enum { GRAM_ROWS = 4, GRAM_COLUMNS = 2, GRAM_BLOCKS = 8 };

// Blocks lie a pair apart: those of one warp's threads begin in different banks.
template <int WARPS> struct gram_shared { alignas(16) double block[WARPS * GRAM_BLOCKS][66]; };

// Floats between rows of S: whole float4; 4 neighbouring rows and 8 neighbouring columns in different
// banks.
__host__ __device__ static inline int state_pitch(int V) {
    return (V + 7) / 16 * 16 + 8;
}

// c += a b: 8 x 4 times 4 x 8. Lane 4 j + s has a[j][s], b[s][j], c[j][2 s] and c[j][2 s + 1].
#ifndef EMULATED_MMA
__device__ static inline void mma_8x8x4(double (&c)[2], double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}
#endif

// The rectangle that holds block (I, J), J <= I, and the block's number in it.
__device__ static inline int gram_rectangle(int I, int J) {
    int a = I / GRAM_ROWS;
    return a * (a + 1) + J / GRAM_COLUMNS; // rows of rectangles have 2, 4, 6 ... of them
}
__device__ static inline int gram_block(int I, int J) {
    return I % GRAM_ROWS * GRAM_COLUMNS + J % GRAM_COLUMNS;
}

// Rows of S with those of zeros behind them: products take four at a time.
__host__ __device__ static inline int state_rows(int K) {
    return (K + 3) / 4 * 4;
}

// m = this thread's part of 2^-2e G, shifted to the last n of N rows and columns. Barriers: one
// before (S is complete, and what lay in *sh has been used), two a round.
template <int N, int R, int WARPS>
__device__ static void gram(const float *S, int K, int V, int exponent, tile_place at, int thread,
                            gram_shared<WARPS> *sh, tile_part<R> &m) {
    const int A = N / 8 / GRAM_ROWS, RECTANGLES = A * (A + 1), PER = 8 / R;
    static_assert(N % (8 * GRAM_ROWS) == 0, "whole rectangles");
    const int lane = thread % 32, warp = thread / 32, j = lane / 4, s = lane % 4;
    const int pitch = state_pitch(V), n = K < V ? K : V, pad = N - n, longer = K < V ? V : K;
    const int step_long = K < V ? 1 : pitch, step_short = K < V ? pitch : 1;
    const double down = ldexp(1.0, -2 * exponent);
    // Where this thread's tile and row of the strip come from.
    const bool has = at.column >= 0;
    const int I = has ? at.row / PER : 0, J = has ? at.column / PER : 0;
    const int mine = has ? gram_rectangle(I, J) : -1;
    const int row = N - 1 - thread, strip = row >= 0 ? gram_rectangle(row / 8, 0) : -1;
    __syncthreads();
    for (int first = 0; first < RECTANGLES; first += WARPS) {
        const int rectangle = first + warp;
        if (rectangle < RECTANGLES) {
            int a = 0;
            while ((a + 1) * (a + 2) <= rectangle)
                a++;
            const int b = rectangle - a * (a + 1);
            // The next numbers are loaded while the products of these run.
            const float *from = S + s * step_long + j * step_short;
            int block[GRAM_ROWS + GRAM_COLUMNS];
            bool live[GRAM_ROWS + GRAM_COLUMNS];
            float next[GRAM_ROWS + GRAM_COLUMNS];
#pragma unroll
            for (int i = 0; i < GRAM_ROWS + GRAM_COLUMNS; i++) {
                int first_short =
                    8 * (i < GRAM_ROWS ? GRAM_ROWS * a + i : GRAM_COLUMNS * b + i - GRAM_ROWS) -
                    pad;
                live[i] = first_short + j >= 0;
                block[i] = (live[i] ? first_short : -j) * step_short; // none: the first column's
                next[i] = from[block[i]];
            }
            double c[GRAM_BLOCKS][2];
#pragma unroll
            for (int i = 0; i < GRAM_BLOCKS; i++)
                c[i][0] = c[i][1] = 0;
#pragma unroll 1
            for (int s0 = 0; s0 < longer; s0 += 4) {
                double x[GRAM_ROWS + GRAM_COLUMNS];
#pragma unroll
                for (int i = 0; i < GRAM_ROWS + GRAM_COLUMNS; i++)
                    x[i] = live[i] ? next[i] : 0.0f;
                from += s0 + 4 < longer ? 4 * step_long : 0;
#pragma unroll
                for (int i = 0; i < GRAM_ROWS + GRAM_COLUMNS; i++)
                    next[i] = from[block[i]];
#pragma unroll
                for (int i = 0; i < GRAM_BLOCKS; i++)
                    mma_8x8x4(c[i], x[i / GRAM_COLUMNS], x[GRAM_ROWS + i % GRAM_COLUMNS]);
            }
#pragma unroll
            for (int i = 0; i < GRAM_BLOCKS; i++)
                *(pair64 *)(sh->block[warp * GRAM_BLOCKS + i] + 8 * j + 2 * s) =
                    pair64{c[i][0] * down, c[i][1] * down};
        }
        __syncthreads();
        if (mine >= first && mine < first + WARPS) {
            const double *block = sh->block[(mine - first) * GRAM_BLOCKS + gram_block(I, J)] +
                                  at.row % PER * R * 8 + at.column % PER * R;
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int i = 0; i < R; i += 2) {
                    pair64 p = *(const pair64 *)(block + 8 * r + i);
                    m.a[r][i] = p.a;
                    m.a[r][i + 1] = p.b;
                }
        }
        if (strip >= first && strip < first + WARPS) {
            const double *block =
                sh->block[(strip - first) * GRAM_BLOCKS + gram_block(row / 8, 0)] + row % 8 * 8;
#pragma unroll
            for (int i = 0; i < R; i += 2) {
                pair64 p = *(const pair64 *)(block + i);
                m.strip[i] = p.a;
                m.strip[i + 1] = p.b;
            }
        }
        __syncthreads();
    }
}

#endif
