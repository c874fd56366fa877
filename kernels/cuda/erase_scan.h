// kernels/cuda/erase_scan.h - the states between the segments of a stretch of chunks: ends[0] is right, every other
// end was made from zero, and H <- M H + N gives them one after the other.
//
// Products are m16 n8 k8 on tensor cores, each factor as two TF32 numbers and without the product of the small ones: what
// that leaves out is less than 2^-19 of a product, about 2^-22 as a rule, and states come out nearly as float32 ones do.
#ifndef DELTOP_CUDA_ERASE_SCAN_H
#define DELTOP_CUDA_ERASE_SCAN_H

#include "kernels/cuda/erase_march.h"
#include "kernels/cuda/warp_ptx.h"

enum {
    SCAN_COLUMNS = 16,
    SCAN_WARPS = 8, // 16 rows of M each, in turns
    SCAN_THREADS = 32 * SCAN_WARPS,
    SCAN_MOST_K = 256,
    SCAN_LINE =
        SCAN_COLUMNS + 2, // of a row of H in shared memory: lanes find theirs in different banks
    SCAN_AT_ONCE = 128    // columns of M on their way to a lane
};

struct tf32_terms {
    uint32_t high, low;
};
ERASE_DEVICE tf32_terms tf32_of(float x) {
    const uint32_t high = __float_as_uint(x) & 0xffffe000u;
    return {high, __float_as_uint(x - __uint_as_float(high))};
}

// Blocks: heads (x), 16 columns of values (y). Lane (g, t) = (lane / 4, lane % 4) of a warp has rows g and g + 8 of its 16, and of
// each 16 columns of M the four from 4 t on: the order in which products are summed is free. The last segment's end is the
// outputs' business.
static __global__ void __launch_bounds__(SCAN_THREADS) scan_ends(erase_call s, erase_segments seg) {
    __shared__ __align__(16) float states[2][SCAN_MOST_K * SCAN_LINE];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, v0 = blockIdx.y * SCAN_COLUMNS;
    const int64_t h = blockIdx.x;
    let_next_begin();
    wait_for_one_before();
    for (int i = threadIdx.x; i < s.K * SCAN_COLUMNS; i += SCAN_THREADS) {
        const int k = i / SCAN_COLUMNS, v = i % SCAN_COLUMNS;
        states[0][k * SCAN_LINE + v] = v0 + v < s.V ? seg.ends[(h * s.K + k) * s.V + v0 + v] : 0.0f;
    }
    for (int part = 1; part < seg.n - 1; part++) {
        const float *M = seg.transitions + ((int64_t)part * s.H + h) * s.K * s.K;
        float *end = seg.ends + ((int64_t)part * s.H + h) * s.K * s.V;
        const float *from = states[(part - 1) % 2];
        float *to = states[part % 2];
        __syncthreads();
        for (int row = threadIdx.x / 32 * 16; row < s.K; row += 16 * SCAN_WARPS) {
            float sum[2][4]; // of eight columns: rows g and g + 8, columns 2 t and 2 t + 1
            auto each = [&](auto f) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int k = row + g + i / 2 % 2 * 8, v = i / 4 * 8 + 2 * t + i % 2;
                    if (k < s.K)
                        f(sum[i / 4][i % 4], k, v);
                }
            };
            each([&](float &x, int k, int v) {
                x = v0 + v < s.V ? end[(int64_t)k * s.V + v0 + v] : 0.0f;
            });
            for (int x0 = 0; x0 < s.K; x0 += SCAN_AT_ONCE) {
                float4 m[SCAN_AT_ONCE / 16][2];
#pragma unroll
                for (int j = 0; j < SCAN_AT_ONCE / 16; j++)
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const int k = row + g + 8 * i, x = x0 + 16 * j + 4 * t;
                        m[j][i] = k < s.K && x < s.K
                                      ? __ldcg((const float4 *)(M + (int64_t)k * s.K + x))
                                      : make_float4(0, 0, 0, 0);
                    }
#pragma unroll
                for (int j = 0; j < SCAN_AT_ONCE / 16; j++) {
                    if (x0 + 16 * j >= s.K)
                        break;
#pragma unroll
                    for (int two = 0; two < 2; two++) {
                        uint32_t a[2][4], b[2][2];
                        auto multiply = [](float(&d)[4], const uint32_t(&a)[4],
                                           const uint32_t(&b)[2]) {
                            mma_tf32(d, a[0], a[1], a[2], a[3], b[0], b[1]);
                        };
                        auto take = [&](uint32_t(&to)[2][4], int i, float x) {
                            const tf32_terms y = tf32_of(x);
                            to[0][i] = y.high, to[1][i] = y.low;
                        };
                        take(a, 0, two ? m[j][0].z : m[j][0].x);
                        take(a, 1, two ? m[j][1].z : m[j][1].x);
                        take(a, 2, two ? m[j][0].w : m[j][0].y);
                        take(a, 3, two ? m[j][1].w : m[j][1].y);
#pragma unroll
                        for (int n = 0; n < 2; n++) {
                            const int x = x0 + 16 * j + 4 * t + 2 * two;
#pragma unroll
                            for (int i = 0; i < 2; i++) {
                                const tf32_terms y =
                                    tf32_of(x < s.K ? from[(x + i) * SCAN_LINE + 8 * n + g] : 0.0f);
                                b[0][i] = y.high, b[1][i] = y.low;
                            }
                            multiply(sum[n], a[1], b[0]);
                            multiply(sum[n], a[0], b[1]);
                            multiply(sum[n], a[0], b[0]);
                        }
                    }
                }
            }
            each([&](float &x, int k, int v) {
                to[k * SCAN_LINE + v] = x;
                if (v0 + v < s.V)
                    end[(int64_t)k * s.V + v0 + v] = x;
            });
        }
    }
}

#endif
