// kernels/cuda/erase_scalar_scan.h - the states between segments as in erase_scan.h, for keys of up to 256: a transition
// comes into shared memory in pieces of 32 columns, one while the last one is multiplied, and a thread makes 8 x 4 numbers.
#ifndef DELTOP_CUDA_ERASE_SCALAR_SCAN_H
#define DELTOP_CUDA_ERASE_SCALAR_SCAN_H

#include "kernels/cuda/erase_scalar_tile.h"

enum { WIDE_COLUMNS = 32, WIDE_PIECE = 32, WIDE_LINE = WIDE_PIECE + 4, WIDE_THREADS = 256 };

struct scan_shared {
    float H[SCALAR_K][WIDE_COLUMNS];
    float M[2][SCALAR_K][WIDE_LINE];
};

// Blocks: heads (x), 32 columns of values (y). The last segment's end is the outputs' business.
static __global__ void __launch_bounds__(WIDE_THREADS, 1)
    scan_wide(erase_call s, erase_segments seg) {
    extern __shared__ __align__(1024) unsigned char scalar_bytes[];
    scan_shared *m = (scan_shared *)scalar_bytes;
    constexpr int ROWS = SCALAR_K / 32;
    const int tid = threadIdx.x, c = tid % 8 * 4, row = tid / 8,
              column = blockIdx.y * WIDE_COLUMNS + c;
    const int64_t h = blockIdx.x;
    const int pieces = (s.K + WIDE_PIECE - 1) / WIDE_PIECE, all = (seg.n - 2) * pieces;
    const bool there = column < s.V; // V is a multiple of 8
    auto ends = [&](int part, int k) {
        return (float4 *)(seg.ends + (((int64_t)part * s.H + h) * s.K + k) * s.V + column);
    };
    auto fetch = [&](int i) {
        const float *M = seg.transitions + ((int64_t)(1 + i / pieces) * s.H + h) * s.K * s.K;
        const int x0 = i % pieces * WIDE_PIECE;
        for (int j = tid; j < SCALAR_K * WIDE_PIECE / 4; j += WIDE_THREADS) {
            const int k = j / (WIDE_PIECE / 4), x = x0 + j % (WIDE_PIECE / 4) * 4;
            const bool in = k < s.K && x < s.K;
            copy16(&m->M[i & 1][k][x - x0], M + (in ? (int64_t)k * s.K + x : 0), in);
        }
    };
    fetch(0);
    for (int i = 0; i < ROWS; i++) {
        const int k = row + 32 * i;
        *(float4 *)&m->H[k][c] = there && k < s.K ? *ends(0, k) : make_float4(0, 0, 0, 0);
    }
    for (int part = 1; part < seg.n - 1; part++) {
        float4 sum[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            sum[i] =
                there && row + 32 * i < s.K ? *ends(part, row + 32 * i) : make_float4(0, 0, 0, 0);
        for (int piece = 0; piece < pieces; piece++) {
            const int now = (part - 1) * pieces + piece;
            copies_wait();
            __syncthreads(); // this piece is there, and everybody is done with the other buffer
            if (now + 1 < all)
                fetch(now + 1);
#pragma unroll 2
            for (int x = 0; x < WIDE_PIECE; x += 4) {
                float4 y[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    y[j] = *(const float4 *)&m->H[piece * WIDE_PIECE + x + j][c];
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    const float4 w = *(const float4 *)&m->M[now & 1][row + 32 * i][x];
                    const float by[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        sum[i].x = fmaf(by[j], y[j].x, sum[i].x);
                        sum[i].y = fmaf(by[j], y[j].y, sum[i].y);
                        sum[i].z = fmaf(by[j], y[j].z, sum[i].z);
                        sum[i].w = fmaf(by[j], y[j].w, sum[i].w);
                    }
                }
            }
        }
        __syncthreads(); // the state before is read
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const int k = row + 32 * i;
            if (k >= s.K)
                break;
            *(float4 *)&m->H[k][c] = sum[i];
            if (there)
                *ends(part, k) = sum[i];
        }
    }
}

#endif
