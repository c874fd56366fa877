// kernels/cuda/delta_gates.h - the gates of all chunks of a call (delta.cu) as the other kernels need them: a warp a chunk
// and head. They are few numbers, but sums and powers are a long way for a warp that others wait for.
#ifndef DELTOP_CUDA_DELTA_GATES_H
#define DELTOP_CUDA_DELTA_GATES_H

#include "kernels/cuda/delta_rows.h"

// A write of beta takes beta (2 - beta) of what stands along its key: with betas near 2 roundings of writes are only turned
// around, and add up. Where a chunk's betas, weighed by themselves, are above this on average, writes get a second term
// (float64 references: outputs are off by 3.0e-3 below, with beta = 2 everywhere by 6e-3 without and 4e-3 with it).
#define FLIPS 1.5f

// The base-2 log decays of rows 2 lane and 2 lane + 1, summed up to them, and up to the last row.
template <class real>
HOPPER_DEVICE void sum_gates(const float (&decay)[2], int lane, real (&c)[2], real *last) {
    const real log2e = (real)1.4426950408889634, most = -256;
    c[0] = at_least((real)decay[0] * log2e, most);
    c[1] = c[0] + at_least((real)decay[1] * log2e, most);
    const real sum = warp_running_sum(c[1], lane);
    c[0] += sum - c[1];
    c[1] = sum;
    *last = __shfl_sync(~0u, sum, 31);
}

// x of any of the warp's 64 rows, of which each lane has two.
HOPPER_DEVICE float of_row(float2 x, int row) {
    const float even = __shfl_sync(~0u, x.x, row / 2), odd = __shfl_sync(~0u, x.y, row / 2);
    return row % 2 ? odd : even;
}
HOPPER_DEVICE void store_pair(float *to, int lane, float x, float y) {
    *(float2 *)(to + 2 * lane) = make_float2(x, y);
}

// Gates of rows 2 lane and 2 lane + 1; last: the last rows of the chunk's tokens 2 lane and 2 lane + 1. Less than 2^-256 a
// token counts as 2^-256. Sums in float are off by 2^-16 at most as long as they stay above -120; steeper chunks are summed
// in double, so that weak decays behind a strong one keep their value when differences are taken.
HOPPER_DEVICE void store_gates(delta_gates *g, const float (&decay)[2], const int (&last)[2],
                               float scale, int lane) {
    float c[2], rest[2] = {}, all;
    sum_gates(decay, lane, c, &all);
    float left[2] = {all - c[0], all - c[1]};
    const bool wide = !(all >= -120);
    if (wide) {
        double precise[2], to;
        sum_gates(decay, lane, precise, &to);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            c[i] = (float)precise[i];
            rest[i] = (float)(precise[i] - c[i]);
            left[i] = (float)(to - precise[i]);
        }
    }
    const float mid = 0.5f * all;
    const float2 start = make_float2(exp2_fast(c[0]), exp2_fast(c[1])),
                 up = make_float2(exp2_fast(c[0] - mid), exp2_fast(c[1] - mid));
    store_pair(g->up, lane, wide ? c[0] : up.x, wide ? c[1] : up.y);
    store_pair(g->down, lane, wide ? rest[0] : exp2_fast(mid - c[0]),
               wide ? rest[1] : exp2_fast(mid - c[1]));
    store_pair(g->from_start, lane, start.x, start.y);
    store_pair(g->to_end, lane, exp2_fast(left[0]), exp2_fast(left[1]));
    store_pair(g->query, lane, scale * of_row(start, last[0]), scale * of_row(start, last[1]));
    // Nobody uses this where the chunk is wide.
    store_pair(g->up_query, lane, scale * of_row(up, last[0]), scale * of_row(up, last[1]));
    if (lane == 31) {
        g->end = start.y;
        g->wide = wide;
    }
}

enum { GATES_HEADS = 8 }; // of a block: neighbours in memory, a 32-byte sector

// Blocks: chunks of all rows, then heads by GATES_HEADS. They come to shared memory a sector at a time; a warp that took a
// column of them for itself would use one number of each.
template <bool gated>
__global__ void __launch_bounds__(32 * GATES_HEADS)
    make_gates(const __grid_constant__ delta_call s, unsigned char *gates, int *ready, int n) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    let_next_kernel_begin();
    for (int64_t i = (blockIdx.y * (int64_t)gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
         i < n; i += (int64_t)gridDim.x * gridDim.y * blockDim.x)
        ready[i] = 0;
    __shared__ float2 betas[GATES_HEADS][CHUNK / 2 + 1], decays[GATES_HEADS][CHUNK / 2 + 1];
    const int lane = threadIdx.x % 32, head0 = blockIdx.y * GATES_HEADS;
    const delta_row row = row_of(s, row_with_chunk(s, blockIdx.x, lane));
    const int chunk = blockIdx.x - row.chunk0;
    const int64_t at = row.token0 + (int64_t)chunk * s.tokens;
    const int rows = min(row.tokens - chunk * s.tokens, s.tokens) * s.n_h;
#pragma unroll
    for (int i = threadIdx.x; i < CHUNK * GATES_HEADS; i += 32 * GATES_HEADS) {
        const int r = i / GATES_HEADS, h = i % GATES_HEADS, head = head0 + h, token = r / s.n_h;
        const bool in = r < rows && head < s.H;
        ((float *)betas[h])[r] = !in      ? 0.0f
                                 : s.beta ? s.beta[(at * s.n_h + r) * s.ldbeta + head]
                                          : 1.0f;
        if constexpr (gated)
            ((float *)decays[h])[r] =
                in && r == token * s.n_h ? s.decay[(at + token) * s.lddecay + head] : 0.0f;
    }
    __syncthreads();
    const int warp = threadIdx.x / 32, head = head0 + warp;
    if (head >= s.H)
        return;
    const float2 beta = betas[warp][lane];
    delta_gates *g =
        (delta_gates *)(gates + (int64_t)gates_of(s, row, head, chunk) * gates_bytes(gated));
    store_pair(g->beta, lane, beta.x, beta.y);
    const float excess = warp_sum(beta.x * (beta.x - FLIPS) + beta.y * (beta.y - FLIPS));
    if (lane == 0)
        g->precise = !(excess <= 0);
    if constexpr (gated) {
        const float decay[2] = {decays[warp][lane].x, decays[warp][lane].y};
        int last[2];
#pragma unroll
        for (int e = 0; e < 2; e++)
            last[e] = min((2 * lane + e + 1) * s.n_h, CHUNK) - 1;
        store_gates(g, decay, last, s.scale, lane);
    }
#endif
}

#endif
