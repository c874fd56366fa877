// kernels/cuda/delta_scores.h - the scores of a chunk's queries (delta.cu), by the warpgroup that feeds:
//
//     P0 = scale (Q K^T . G), columns up to a query's own row       G_ij = 2^(c_i - c_j)
//
// kept as P0^T [row j][query]: warp w has rows 16 w .. 16 w + 15.
#ifndef DELTOP_CUDA_DELTA_SCORES_H
#define DELTOP_CUDA_DELTA_SCORES_H

#include "kernels/cuda/delta_tile.h"

// What a lane needs of the gates, fetched before K Q^T is there: of its rows i and i + 8, and of its queries.
// wide: c and what it leaves, since factors of G would overflow.
template <int part> struct score_factors {
    float row[2], rest[2];
    float2 query[part / 8];
};
template <int part, bool wide>
HOPPER_DEVICE void fetch_factors(score_factors<part> &f, const delta_gates *g, int from, int warp,
                                 int lane) {
    const int i = 16 * warp + lane / 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        f.row[e] = (wide ? g->up : g->down)[i + 8 * e];
        if constexpr (wide)
            f.rest[e] = g->down[i + 8 * e];
    }
    if constexpr (!wide)
#pragma unroll
        for (int b = 0; b < part / 8; b++)
            f.query[b] = *(const float2 *)(g->up_query + from + 8 * b + 2 * (lane % 4));
}

// What `part` queries from `from` on see of the keys (acc = K Q^T), to their place in the panel `to`. first: the first
// queries that see this lane's rows i and i + 8.
template <int part, bool gated, bool wide>
HOPPER_DEVICE void store_scores(const float (&acc)[part / 2], const score_factors<part> &f,
                                const int (&first)[2], const delta_call &s, const delta_gates *g,
                                uint32_t to, int from, int warp, int lane) {
    const int x = from + 2 * (lane % 4), first0 = first[0] - x, first1 = first[1] - x;
    const uint32_t at = 16 * warp + (lane & 15);
    uint32_t packed[4];
#pragma unroll
    for (int b = 0; b < part / 8; b++) {
        float v[4];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float w0 = 1, w1 = 1;
            if constexpr (gated && wide) {
                const int last = (8 * b + x + e + 1) * s.n_h - 1; // the query's
                const int row = last < CHUNK ? last : CHUNK - 1;
                const float cq = g->up[row], dq = g->down[row];
                w0 = s.scale * exp2_fast((cq - f.row[0]) + (dq - f.rest[0]));
                w1 = s.scale * exp2_fast((cq - f.row[1]) + (dq - f.rest[1]));
            } else if constexpr (gated) {
                w0 = f.row[0] * (e ? f.query[b].y : f.query[b].x);
                w1 = f.row[1] * (e ? f.query[b].y : f.query[b].x);
            }
            v[e] = 8 * b + e >= first0 ? w0 * acc[4 * b + e] : 0.0f;
            v[2 + e] = 8 * b + e >= first1 ? w1 * acc[4 * b + 2 + e] : 0.0f;
        }
        packed[2 * (b % 2)] = pack_half(v[0], v[1]);
        packed[2 * (b % 2) + 1] = pack_half(v[2], v[3]);
        // Two columns of matrices at a time: (rows 0-7, b), (rows 8-15, b), (rows 0-7, b + 1), (8-15, b + 1)
        if (b % 2 == 1)
            stmatrix(to + swizzle(at, from / 8 + b - 1 + lane / 16), packed[0], packed[1],
                     packed[2], packed[3]);
        else if (b + 1 == part / 8)
            stmatrix(to + swizzle(at, from / 8 + b), packed[0], packed[1], packed[0], packed[1]);
    }
}

// P0^T of chunk i, when its queries, keys and gates are there and the state has left the one before. All four warps of a
// warpgroup, 32 queries at a time: for more there are no registers. first: the tokens of this lane's rows. meanwhile: called
// when the places of the chunk before are free.
template <int queries, bool gated, class work>
HOPPER_DEVICE void make_scores(const delta_call &s, delta_shared *m, int i, const int (&first)[2],
                               int warp, int lane, work meanwhile) {
    enum { PART = queries < 32 ? queries : 32 };
    const delta_gates *g = &m->gates[i % KEYS];
    const uint32_t k = shared_address(m->k[i % KEYS]), q = shared_address(m->q[i % QUERIES]),
                   to = shared_address(m->p);
    barrier_wait(&m->k_full[i % KEYS], (i / KEYS) & 1);
    barrier_wait(&m->q_full[i % QUERIES], (i / QUERIES) & 1);
    barrier_wait(&m->p_empty, (i + 1) & 1);
    meanwhile();
    lane = here(lane);
    const bool wide = gated && g->wide;
#pragma unroll 1
    for (int from = 0; from < queries; from += PART) {
        float acc[PART / 2];
        wgmma_fence();
#pragma unroll
        for (int x = 0; x < 8; x++)
            wgmma<PART, bf16>::ss(acc, desc_k(k + (x / 4) * PANEL) + 2 * (x % 4),
                                  desc_k(q + (x / 4) * queries * 128 + from * 128) + 2 * (x % 4),
                                  x > 0);
        wgmma_commit();
        score_factors<PART> f;
        if (wide) {
            const int own = here(lane);
            fetch_factors<PART, true>(f, g, from, warp, own);
            wgmma_wait<0>();
            store_scores<PART, gated, true>(acc, f, first, s, g, to, from, warp, own);
        } else {
            if constexpr (gated)
                fetch_factors<PART, false>(f, g, from, warp, lane);
            wgmma_wait<0>();
            store_scores<PART, gated, false>(acc, f, first, s, g, to, from, warp, lane);
        }
    }
    fence_async();
    __syncwarp();
    if (arrives(lane))
        barrier_arrive(&m->p_full);
}

#endif
