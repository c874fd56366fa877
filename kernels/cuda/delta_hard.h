// kernels/cuda/delta_hard.h - M of a chunk whose keys repeat (delta_make.h): every factor of M is the
// sum of two fp16 numbers (three products, float32 sums), diagonal blocks are inverted by substitution in
// float32. One term would cost 3e-3 and more when keys repeat with beta = 2; M itself is bounded by 2 for
// unit keys and 0 <= beta <= 2.
#ifndef DELTOP_CUDA_DELTA_HARD_H
#define DELTOP_CUDA_DELTA_HARD_H

#include "kernels/cuda/delta_tile.h"

HOPPER_DEVICE void split_half(float a, float b, uint32_t *high, uint32_t *low) {
    *high = pack_half(a, b);
    float2 h = unpack_half(*high);
    *low = pack_half(a - h.x, b - h.y);
}

// This thread's row address in a 16 x 16 block for ldmatrix: matrices (rows 0-7, columns 0-7),
// (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
HOPPER_DEVICE uint32_t block_row(const void *block, int lane) {
    return shared_address(block) + ((lane & 7) + (lane >> 4) * 8) * 48 + ((lane >> 3) & 1) * 16;
}

// acc = K K^T of a chunk; committed, not waited for.
HOPPER_DEVICE void keys_product(float (&acc)[32], uint32_t k) {
#pragma unroll
    for (int x = 0; x < 8; x++)
        wgmma<64, bf16>::ss(acc, desc_k(k + (x / 4) * PANEL) + 2 * (x % 4),
                            desc_k(k + (x / 4) * PANEL) + 2 * (x % 4), x > 0);
    wgmma_commit();
}

// Block x (an A operand) of this warp's rows of M^T to a panel.
HOPPER_DEVICE void store_inverse(uint32_t panel, int x, const uint32_t (&a)[4], int warp,
                                 int lane) {
    stmatrix(panel + swizzle(16 * warp + (lane & 15), 2 * x + lane / 16), a[0], a[1], a[2], a[3]);
}

// acc [16, 16] += A B^T, A and B given as two terms; block: B's rows in shared memory. The products with a
// second term go to `small`: two short chains of dependent products instead of a long one.
HOPPER_DEVICE void add_product(float (&acc)[8], float (&small)[8], const uint32_t *high,
                               const uint32_t *low, const unsigned char (*block)[BLOCK_16],
                               int lane) {
    uint32_t bh[4], bl[4];
    ldmatrix(bh, block_row(block[0], lane));
    ldmatrix(bl, block_row(block[1], lane));
#pragma unroll
    for (int n = 0; n < 2; n++) {
        mma16(acc + 4 * n, high, bh[2 * n], bh[2 * n + 1]);
        mma16(small + 4 * n, high, bl[2 * n], bl[2 * n + 1]);
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
        mma16(small + 4 * n, low, bh[2 * n], bh[2 * n + 1]);
}

// L (from acc = K K^T) to shared memory: the warp's own row of blocks, the diagonal one in float32.
template <bool gated>
HOPPER_DEVICE void hard_lower(const float (&acc)[32], const delta_gates *g, delta_shared *m,
                              int warp, int lane) {
    const int r = lane / 4, x = 2 * (lane % 4), i = 16 * warp + r;
    const float b0 = g->beta[i], b1 = g->beta[i + 8];
    const bool wide = gated && g->wide;
    float c0 = 0, c1 = 0, d0 = 0, d1 = 0; // wide: c in two terms; else c0, c1: 2^(c - mid)
    if constexpr (gated) {
        c0 = g->up[i];
        c1 = g->up[i + 8];
        d0 = g->down[i];
        d1 = g->down[i + 8];
    }
    float *diagonal = m->lw[0][warp];
#pragma unroll
    for (int b = 0; b < 8; b++) {
        if (b / 2 > warp)
            continue;
        float v[4] = {b0 * acc[4 * b], b0 * acc[4 * b + 1], b1 * acc[4 * b + 2],
                      b1 * acc[4 * b + 3]};
        if constexpr (gated) {
            const float2 cj = *(const float2 *)(g->up + 8 * b + x),
                         dj = *(const float2 *)(g->down + 8 * b + x);
            v[0] *= wide ? exp2_fast((c0 - cj.x) + (d0 - dj.x)) : c0 * dj.x;
            v[1] *= wide ? exp2_fast((c0 - cj.y) + (d0 - dj.y)) : c0 * dj.y;
            v[2] *= wide ? exp2_fast((c1 - cj.x) + (d1 - dj.x)) : c1 * dj.x;
            v[3] *= wide ? exp2_fast((c1 - cj.y) + (d1 - dj.y)) : c1 * dj.y;
        }
        const int y = 8 * (b % 2) + x;
        if (b / 2 == warp) {
            // Entries on and above the diagonal are never read (they may be infinite).
            diagonal[y * 20 + r] = v[0];
            diagonal[(y + 1) * 20 + r] = v[1];
            diagonal[y * 20 + r + 8] = v[2];
            diagonal[(y + 1) * 20 + r + 8] = v[3];
        } else {
            unsigned char(*block)[BLOCK_16] = m->l[warp * (warp - 1) / 2 + b / 2];
            uint32_t high, low;
            split_half(v[0], v[1], &high, &low);
            *(uint32_t *)(block[0] + r * 48 + 2 * y) = high;
            *(uint32_t *)(block[1] + r * 48 + 2 * y) = low;
            split_half(v[2], v[3], &high, &low);
            *(uint32_t *)(block[0] + (r + 8) * 48 + 2 * y) = high;
            *(uint32_t *)(block[1] + (r + 8) * 48 + 2 * y) = low;
        }
    }
}

// The warp inverts its diagonal block: lane c mod 16 has column c. The upper half-warp keeps second terms.
HOPPER_DEVICE void hard_diagonal(delta_shared *m, int warp, int lane) {
    const int c = lane % 16;
    const float *l = m->lw[0][warp];
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        x[i] = i == c ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < 15; j++) {
#pragma unroll
        for (int i4 = (j + 1) / 4 * 4; i4 < 16; i4 += 4) {
            float4 col = *(const float4 *)(l + j * 20 + i4);
            if (i4 > j)
                x[i4] -= col.x * x[j];
            if (i4 + 1 > j)
                x[i4 + 1] -= col.y * x[j];
            if (i4 + 2 > j)
                x[i4 + 2] -= col.z * x[j];
            if (i4 + 3 > j)
                x[i4 + 3] -= col.w * x[j];
        }
    }
    __half *to = (__half *)m->d[warp][lane / 16];
#pragma unroll
    for (int i = 0; i < 16; i++) {
        __half h = __float2half_rn(x[i]);
        to[i * 24 + c] = lane < 16 ? h : __float2half_rn(x[i] - __half2float(h));
    }
}

// Blocks 0..3 of the warp's rows of M^T, each an A operand, as the sum of two terms.
HOPPER_DEVICE void hard_inverse(uint32_t (&high)[4][4], uint32_t (&low)[4][4], delta_shared *m,
                                int warp, int lane) {
#pragma unroll
    for (int b = 0; b < 4; b++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            high[b][e] = low[b][e] = 0;
#pragma unroll
    for (int b = 0; b < 4; b++)
        if (b == warp) {
            // transposed: (c 0-7, r 0-7), (c 8-15, r 0-7), (c 0-7, r 8-15), (c 8-15, r 8-15)
            ldmatrix_transposed(high[b], block_row(m->d[b][0], lane));
            ldmatrix_transposed(low[b], block_row(m->d[b][1], lane));
        }
#pragma unroll
    for (int i = 1; i < 4; i++) {
        if (i <= warp)
            continue;
        float acc[8] = {}, small[8] = {};
#pragma unroll
        for (int b = 0; b < i; b++)
            if (b >= warp)
                add_product(acc, small, high[b], low[b], m->l[i * (i - 1) / 2 + b], lane);
        uint32_t h[4], l[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            split_half(-(acc[2 * e] + small[2 * e]), -(acc[2 * e + 1] + small[2 * e + 1]), &h[e],
                       &l[e]);
#pragma unroll
        for (int e = 0; e < 8; e++)
            acc[e] = small[e] = 0;
        add_product(acc, small, h, l, m->d[i], lane);
#pragma unroll
        for (int e = 0; e < 4; e++)
            split_half(acc[2 * e] + small[2 * e], acc[2 * e + 1] + small[2 * e + 1], &high[i][e],
                       &low[i][e]);
    }
}

// diag(beta) M^T in two terms to two panels, `panel` and `second`; b0, b1: beta of this lane's rows. before_store: called when
// all is there but the stores.
template <bool gated, class before>
HOPPER_DEVICE void hard_chunk(const delta_gates *g, delta_shared *m, uint32_t k, uint32_t panel,
                              uint32_t second, float b0, float b1, int warp, int lane,
                              before before_store) {
    lane = held(lane); // shares nothing with the easy way, which would have to keep it
    warp = held(warp);
    {
        float acc[32];
        wgmma_fence();
        keys_product(acc, k);
        wgmma_wait<0>();
        hard_lower<gated>(acc, g, m, warp, lane);
    }
    __syncwarp();
    hard_diagonal(m, warp, lane);
    named_barrier(MAKERS_BARRIER, MAKERS);
    uint32_t high[4][4], low[4][4];
    hard_inverse(high, low, m, warp, lane);
    before_store();
#pragma unroll
    for (int x = 0; x < 4; x++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float b = e % 2 ? b1 : b0;
            float2 h = unpack_half(high[x][e]), l = unpack_half(low[x][e]);
            split_half(b * (h.x + l.x), b * (h.y + l.y), &high[x][e], &low[x][e]);
        }
        store_inverse(panel, x, high[x], warp, lane);
        store_inverse(second, x, low[x], warp, lane);
    }
}

#endif
