// kernels/cuda/delta_scores.h - the scores of a chunk's queries (delta.cu), by the warpgroup that feeds:
//
//     P0 = scale (Q K^T . G), columns up to a query's own row       G_ij = 2^(c_i - c_j)
//
// kept as P0^T [row j][query]: warp w has rows 16 w .. 16 w + 15.
#ifndef DELTOP_CUDA_DELTA_SCORES_H
#define DELTOP_CUDA_DELTA_SCORES_H

#include "kernels/cuda/delta_tile.h"

// What 32 queries (or all, if fewer) from `from` on see of the keys (acc = K Q^T), to their place in the panel `to`.
// first: the first queries that see this lane's rows i and i + 8. wide: factors of G would overflow.
template <int part, bool gated, bool wide>
HOPPER_DEVICE void store_scores(const float (&acc)[part / 2], const int (&first)[2],
                                const delta_call &s, const delta_gates *g, uint32_t to, int from,
                                int warp, int lane) {
    const int i = 16 * warp + lane / 4, x = from + 2 * (lane % 4);
    const int first0 = first[0] - x, first1 = first[1] - x;
    float row[2] = {1, 1}, rest[2] = {};
    if constexpr (gated)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            row[e] = (wide ? g->c : g->down)[i + 8 * e];
            if constexpr (wide)
                rest[e] = g->c_rest[i + 8 * e];
        }
    uint32_t packed[part / 4];
#pragma unroll
    for (int b = 0; b < part / 8; b++) {
        float v[4];
        float2 w = make_float2(1, 1);
        if constexpr (gated && !wide)
            w = *(const float2 *)(g->up_query + 8 * b + x);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float w0 = e ? w.y : w.x, w1 = w0;
            if constexpr (gated && wide) {
                const int last = (8 * b + x + e + 1) * s.n_h - 1; // the query's
                const int at = last < CHUNK ? last : CHUNK - 1;
                const float cq = g->c[at], dq = g->c_rest[at];
                w0 = s.scale * exp2_fast((cq - row[0]) + (dq - rest[0]));
                w1 = s.scale * exp2_fast((cq - row[1]) + (dq - rest[1]));
            } else if constexpr (gated) {
                w0 *= row[0];
                w1 *= row[1];
            }
            v[e] = 8 * b + e >= first0 ? w0 * acc[4 * b + e] : 0.0f;
            v[2 + e] = 8 * b + e >= first1 ? w1 * acc[4 * b + 2 + e] : 0.0f;
        }
        packed[2 * b] = pack_half(v[0], v[1]);
        packed[2 * b + 1] = pack_half(v[2], v[3]);
    }
    // Two columns of matrices at a time: (rows 0-7, b), (rows 8-15, b), (rows 0-7, b + 1), (8-15, b + 1)
    const uint32_t at = 16 * warp + (lane & 15);
#pragma unroll
    for (int b = 0; b < part / 8; b += 2)
        if (b + 1 < part / 8)
            stmatrix(to + swizzle(at, from / 8 + b + lane / 16), packed[2 * b], packed[2 * b + 1],
                     packed[2 * b + 2], packed[2 * b + 3]);
        else
            stmatrix(to + swizzle(at, from / 8 + b), packed[2 * b], packed[2 * b + 1],
                     packed[2 * b], packed[2 * b + 1]);
}

// P0^T of the chunk in `stage`, whose q, k and gates are there, to p[slot]. All four warps of the warpgroup. first: the
// tokens of this lane's rows.
template <int queries, bool gated>
HOPPER_DEVICE void make_scores(const delta_call &s, delta_shared *m, int stage, int slot,
                               const int (&first)[2], int warp, int lane) {
    enum { PART = queries < 32 ? queries : 32 }; // more accumulators than the feeders have registers for else
    const delta_gates *g = &m->gates[stage];
    const uint32_t k = shared_address(m->in[stage].k), q = shared_address(m->in[stage].q),
                   to = shared_address(m->p[slot]);
    const bool wide = gated && g->wide;
#pragma unroll 1
    for (int from = 0; from < queries; from += PART) {
        float acc[PART / 2];
        wgmma_fence();
#pragma unroll
        for (int x = 0; x < 8; x++)
            wgmma<PART>::ss(acc, desc_k(k + (x / 4) * PANEL) + 2 * (x % 4),
                            desc_k(q + (x / 4) * queries * 128 + from * 128) + 2 * (x % 4), x > 0);
        wgmma_commit();
        wgmma_wait<0>();
        if (wide)
            store_scores<PART, gated, true>(acc, first, s, g, to, from, warp, here(lane));
        else
            store_scores<PART, gated, false>(acc, first, s, g, to, from, warp, lane);
    }
    fence_async();
    __syncwarp();
    if (lane == 0)
        barrier_arrive(&m->p_full[slot]);
}

#endif
