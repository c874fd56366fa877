// kernels/cuda/erase_scan.h - the states between the segments of a stretch of chunks: ends[0] is right, every other
// end was made from zero, and H <- M H + N gives them one after the other, in float32.
#ifndef DELTOP_CUDA_ERASE_SCAN_H
#define DELTOP_CUDA_ERASE_SCAN_H

#include "kernels/cuda/erase_march.h"

enum { SCAN_COLUMNS = 16, SCAN_THREADS = 256, SCAN_MOST_K = 256 };

// Blocks: heads (x), 16 columns of values (y). Two threads a row of M, eight columns each; K at most 256, in turns
// of 128 rows. The last segment's end is the outputs' business.
static __global__ void __launch_bounds__(SCAN_THREADS) scan_ends(erase_call s, erase_segments seg) {
    __shared__ __align__(16) float H[SCAN_MOST_K][SCAN_COLUMNS];
    const int tid = threadIdx.x, v0 = blockIdx.y * SCAN_COLUMNS;
    const int64_t h = blockIdx.x;
    for (int i = tid; i < s.K * SCAN_COLUMNS; i += SCAN_THREADS) {
        const int k = i / SCAN_COLUMNS, v = i % SCAN_COLUMNS;
        H[k][v] = v0 + v < s.V ? seg.ends[(h * s.K + k) * s.V + v0 + v] : 0.0f;
    }
    const int half = tid % 2 * 8;
    for (int part = 1; part < seg.n - 1; part++) {
        const float *M = seg.transitions + ((int64_t)part * s.H + h) * s.K * s.K;
        float *end = seg.ends + ((int64_t)part * s.H + h) * s.K * s.V;
        float sum[SCAN_MOST_K / 128][8] = {};
        __syncthreads();
#pragma unroll
        for (int turn = 0; turn < SCAN_MOST_K / 128; turn++) {
            const int k = tid / 2 + 128 * turn;
            if (k >= s.K)
                break;
            // Eight loads on their way at a time: they take longer than what is done with them.
            for (int x0 = 0; x0 < s.K; x0 += 32) {
                float4 m[8];
#pragma unroll
                for (int n = 0; n < 8; n++)
                    m[n] = x0 + 4 * n < s.K
                               ? __ldg((const float4 *)(M + (int64_t)k * s.K + x0 + 4 * n))
                               : make_float4(0, 0, 0, 0);
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    if (x0 + 4 * n >= s.K)
                        continue;
                    const float w[4] = {m[n].x, m[n].y, m[n].z, m[n].w};
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int j = 0; j < 8; j++)
                            sum[turn][j] += w[i] * H[x0 + 4 * n + i][half + j];
                }
            }
        }
        __syncthreads();
#pragma unroll
        for (int turn = 0; turn < SCAN_MOST_K / 128; turn++) {
            const int k = tid / 2 + 128 * turn;
            if (k >= s.K)
                break;
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (v0 + half + j < s.V) {
                    float *p = end + (int64_t)k * s.V + v0 + half + j;
                    H[k][half + j] = *p += sum[turn][j];
                }
        }
    }
}

#endif
