// kernels/cuda/delta_make.h - the warpgroup that makes M and the scores P0 of a chunk (delta.cu), ahead of
// the warpgroups that hold the state.
//
//     L = tril(diag(beta) (K K^T . G), -1)      M = (I + L)^-1       G_ij = 2^(c_i - c_j)
//     P0 = scale (Q K^T . G), columns up to a query's own row
//
// M is held as M^T: warp w owns its rows 16 w .. 16 w + 15. Blocks are 16 x 16; D_i = (I + L_ii)^-1, the
// others follow by
//     M_iw^T = -(sum_m M_mw^T L_im^T) D_i^T,  m = w..i-1
//
// Two ways to the same M. Most chunks are easy: D is the product (I - L)(I + L^2)(I + L^4)(I + L^8) of powers
// that vanish, and all operands are single fp16 numbers. Where the squares of a row of L add up to more (keys
// repeat), powers grow and one fp16 term is too few: delta_hard.h then makes M by substitution and in two
// terms. EASY: chosen with float64 references: outputs stay below 2.5e-3.
#ifndef DELTOP_CUDA_DELTA_MAKE_H
#define DELTOP_CUDA_DELTA_MAKE_H

#include "kernels/cuda/delta_hard.h"

#define EASY 1.5f // of the 16 columns that a lane has; a row is then below four times that

// What a lane needs of the gates for N, fetched before K K^T is there: the rows' -beta and the factors of
// G of its rows and columns, 2^c split at the middle of the chunk, or c itself where that would overflow.
struct lower_factors {
    float row[2], rest[2], beta[2]; // wide: c and what it leaves; else row holds -beta up
    float2 column[8];
};

template <bool gated>
HOPPER_DEVICE void fetch_factors(lower_factors &f, const delta_gates *g, bool wide, int warp) {
    const int lane = threadIdx.x % 32, i = 16 * warp + lane / 4;
    const float *row = wide ? g->c : g->up, *column = (wide ? g->c : g->down) + 2 * (lane % 4);
#pragma unroll
    for (int e = 0; e < 2; e++) {
        f.beta[e] = -g->beta[i + 8 * e];
        if constexpr (gated)
            f.row[e] = row[i + 8 * e];
    }
    if constexpr (gated)
#pragma unroll
        for (int b = 0; b < 8; b++)
            f.column[b] = *(const float2 *)(column + 8 * b);
}

// N = -L (from acc = K K^T): blocks below the diagonal to shared memory; the warp's own diagonal block and
// its transpose as A operands to `own` and `turned` (K K^T is symmetric: only the factors change sides).
// True when the chunk is not easy. wide: factors of G would overflow.
template <bool gated, bool wide>
HOPPER_DEVICE bool make_lower(const float (&acc)[32], const lower_factors &f, const delta_gates *g,
                              delta_shared *m, int warp, uint32_t (&own)[4],
                              uint32_t (&turned)[4]) {
    const int lane = threadIdx.x % 32, r = lane / 4, x = 2 * (lane % 4), i = 16 * warp + r;
    float b0 = f.beta[0], b1 = f.beta[1], d0 = 0, d1 = 0;
    if constexpr (gated && wide) {
        d0 = g->c_rest[i];
        d1 = g->c_rest[i + 8];
    } else if constexpr (gated) {
        b0 *= f.row[0];
        b1 *= f.row[1];
    }
    float sum0 = 0, sum1 = 0;
#pragma unroll
    for (int b = 0; b < 8; b++) {
        if (b / 2 > warp)
            continue;
        float v[4] = {b0 * acc[4 * b], b0 * acc[4 * b + 1], b1 * acc[4 * b + 2],
                      b1 * acc[4 * b + 3]};
        if constexpr (gated && wide) {
            float2 dj = *(const float2 *)(g->c_rest + 8 * b + x);
            v[0] *= exp2_fast((f.row[0] - f.column[b].x) + (d0 - dj.x));
            v[1] *= exp2_fast((f.row[0] - f.column[b].y) + (d0 - dj.y));
            v[2] *= exp2_fast((f.row[1] - f.column[b].x) + (d1 - dj.x));
            v[3] *= exp2_fast((f.row[1] - f.column[b].y) + (d1 - dj.y));
        } else if constexpr (gated) {
            v[0] *= f.column[b].x;
            v[1] *= f.column[b].y;
            v[2] *= f.column[b].x;
            v[3] *= f.column[b].y;
        }
        if (b / 2 == warp) {
            if (b % 2 == 0) {
                v[0] = r > x ? v[0] : 0.0f;
                v[1] = r > x + 1 ? v[1] : 0.0f;
            } else {
                v[0] = v[1] = 0;
                v[2] = r > x ? v[2] : 0.0f;
                v[3] = r > x + 1 ? v[3] : 0.0f;
            }
        }
        sum0 += v[0] * v[0] + v[1] * v[1];
        sum1 += v[2] * v[2] + v[3] * v[3];
        const uint32_t p0 = pack_half(v[0], v[1]), p1 = pack_half(v[2], v[3]);
        if (b / 2 == warp) {
            own[2 * (b % 2)] = p0;
            own[2 * (b % 2) + 1] = p1;
            turned[b % 2 == 0 ? 0 : 3] = movmatrix(b % 2 == 0 ? p0 : p1);
            if (b % 2 == 0)
                turned[2] = movmatrix(p1);
        } else {
            unsigned char *to = m->l[warp * (warp - 1) / 2 + b / 2][0] + 2 * (8 * (b % 2) + x);
            *(uint32_t *)(to + r * 48) = p0;
            *(uint32_t *)(to + (r + 8) * 48) = p1;
        }
    }
    turned[1] = 0;
    return !(fmaxf(sum0, sum1) <= EASY);
}

// d += A B of 16 x 16 matrices: A as an A operand, B by its transpose as an A operand.
HOPPER_DEVICE void square_product(float (&d)[8], const uint32_t (&a)[4],
                                  const uint32_t (&turned)[4]) {
    mma16(d, a, turned[0], turned[2]);
    mma16(d + 4, a, turned[1], turned[3]);
}
HOPPER_DEVICE void pack_operand(uint32_t (&a)[4], const float (&d)[8]) {
#pragma unroll
    for (int e = 0; e < 4; e++)
        a[e] = pack_half(d[2 * e], d[2 * e + 1]);
}

// D = (I - N)^-1 for N strictly lower: to m->d as rows, and D^T as an A operand to `mine`. Powers of N and
// of N^T go side by side, so that no operand is transposed on the way.
HOPPER_DEVICE void make_diagonal(const uint32_t (&own)[4], const uint32_t (&turned)[4],
                                 delta_shared *m, int warp, uint32_t (&mine)[4]) {
    const int lane = threadIdx.x % 32, r = lane / 4, x = 2 * (lane % 4);
    uint32_t power[4], other[4], a[4];
    float d[8];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        float2 v = unpack_half(own[e]);
        power[e] = own[e];
        other[e] = turned[e];
        d[2 * e] = v.x + ((e == 0 || e == 3) && r == x ? 1.0f : 0.0f);
        d[2 * e + 1] = v.y + ((e == 0 || e == 3) && r == x + 1 ? 1.0f : 0.0f);
    }
#pragma unroll
    for (int n = 0; n < 3; n++) {
        float next[8] = {}, next_other[8] = {};
        square_product(next_other, other, power);
        if (n < 2)
            square_product(next, power, other);
        pack_operand(a, d);
        pack_operand(other, next_other);
        if (n < 2)
            pack_operand(power, next);
        square_product(d, a, other);
    }
    pack_operand(a, d);
    stmatrix(shared_address(m->d[warp][0]) + (lane & 15) * 48 + (lane >> 4) * 16, a[0], a[1], a[2],
             a[3]);
    mine[0] = movmatrix(a[0]);
    mine[1] = movmatrix(a[2]);
    mine[2] = movmatrix(a[1]);
    mine[3] = movmatrix(a[3]);
}

// Scores of the chunk's queries (acc = K Q^T: row i of keys, column of queries) to a panel.
template <int queries, bool gated, bool wide>
HOPPER_DEVICE void make_scores(const float (&acc)[queries / 2], const delta_call &s,
                               const delta_gates *g, uint32_t to, int warp) {
    const int lane = threadIdx.x % 32, i = 16 * warp + lane / 4;
    float c0 = 1, c1 = 1, d0 = 0, d1 = 0;
    if constexpr (gated && wide) {
        c0 = g->c[i];
        c1 = g->c[i + 8];
        d0 = g->c_rest[i];
        d1 = g->c_rest[i + 8];
    } else if constexpr (gated) {
        c0 = g->down[i];
        c1 = g->down[i + 8];
    }
    uint32_t packed[queries / 4];
#pragma unroll
    for (int b = 0; b < queries / 8; b++) {
        float v[4];
        float2 w;
        if constexpr (gated && !wide)
            w = *(const float2 *)(g->up_query + 8 * b + 2 * (lane % 4));
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int last = (8 * b + 2 * (lane % 4) + e + 1) * s.n_h - 1; // the query's last row
            float w0 = 1, w1 = 1;
            if constexpr (gated && wide) {
                const int at = last < CHUNK ? last : CHUNK - 1;
                float cq = g->c[at], dq = g->c_rest[at];
                w0 = s.scale * exp2_fast((cq - c0) + (dq - d0));
                w1 = s.scale * exp2_fast((cq - c1) + (dq - d1));
            } else if constexpr (gated) {
                w0 = c0 * (e ? w.y : w.x);
                w1 = c1 * (e ? w.y : w.x);
            }
            v[e] = i <= last ? w0 * acc[4 * b + e] : 0.0f;
            v[2 + e] = i + 8 <= last ? w1 * acc[4 * b + 2 + e] : 0.0f;
        }
        packed[2 * b] = pack_half(v[0], v[1]);
        packed[2 * b + 1] = pack_half(v[2], v[3]);
    }
    // Two columns of matrices at a time: (rows 0-7, b), (rows 8-15, b), (rows 0-7, b + 1), (8-15, b + 1)
    const uint32_t row = 16 * warp + (lane & 15);
#pragma unroll
    for (int b = 0; b < queries / 8; b += 2)
        if (b + 1 < queries / 8)
            stmatrix(to + swizzle(row, b + lane / 16), packed[2 * b], packed[2 * b + 1],
                     packed[2 * b + 2], packed[2 * b + 3]);
        else
            stmatrix(to + swizzle(row, b), packed[2 * b], packed[2 * b + 1], packed[2 * b],
                     packed[2 * b + 1]);
}

// Rows of M^T in high: blocks before the warp's own are zero, those after it follow from it. All warps run
// the same instructions (a sum of zeros for blocks before their own), and operands are fetched first.
HOPPER_DEVICE void make_inverse(uint32_t (&high)[4][4], const uint32_t (&mine)[4], delta_shared *m,
                                int warp) {
    uint32_t n[6][4], d[4][4];
#pragma unroll
    for (int i = 1; i < 4; i++) {
#pragma unroll
        for (int b = 0; b < i; b++)
            ldmatrix(n[i * (i - 1) / 2 + b], block_row(m->l[i * (i - 1) / 2 + b][0]));
        ldmatrix(d[i], block_row(m->d[i][0]));
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        high[0][e] = warp == 0 ? mine[e] : 0;
#pragma unroll
    for (int i = 1; i < 4; i++) {
        float acc[8] = {}, out[8] = {};
        uint32_t a[4];
#pragma unroll
        for (int b = 0; b < i; b++) {
            const uint32_t *t = n[i * (i - 1) / 2 + b];
            mma16(acc, high[b], t[0], t[1]);
            mma16(acc + 4, high[b], t[2], t[3]);
        }
        pack_operand(a, acc);
        mma16(out, a, d[i][0], d[i][1]);
        mma16(out + 4, a, d[i][2], d[i][3]);
        pack_operand(high[i], out);
#pragma unroll
        for (int e = 0; e < 4; e++)
            high[i][e] = i == warp ? mine[e] : high[i][e];
    }
}

// What this warp stored of M to the same place of the peer, by one lane.
HOPPER_DEVICE void make_send(delta_shared *m, int slot, int peer, bool hard, int warp) {
    const uint32_t bytes = PANEL / 4, full = peer_address(shared_address(&m->m_full[slot]), peer);
    auto send = [&](const void *p, uint32_t n) {
        copy_peer(peer_address(shared_address(p), peer), shared_address(p), n, full);
    };
    barrier_expect_peer(full, (hard ? 2 : 1) * bytes + (warp == 0 ? sizeof m->hard[slot] : 0));
    send(m->m[slot][0] + warp * bytes, bytes);
    if (hard)
        send(m->m[slot][1] + warp * bytes, bytes);
    if (warp == 0)
        send(m->hard[slot], sizeof m->hard[slot]);
}

// Without outputs the block may have a peer with the same keys: each makes M of every second chunk, for both.
// Block r of the cluster fills slot r of both.
template <int queries, bool gated, bool output>
HOPPER_DEVICE void delta_make(const delta_call &s, const delta_task &task, delta_shared *m) {
    static_assert(MADE == 2, "a slot belongs to one block of a pair");
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int chunks = task.last - task.first, peers = output ? 1 : task.peers;
    const int first = peers == 2 ? cluster_rank() : 0;
    float keys[32]; // K K^T of the chunk, made while the one before was finished
    auto next_keys = [&](int i) {
        if (i < chunks)
            barrier_wait(&m->full[i % STAGES], (i / STAGES) & 1);
        wgmma_fence();
        keys_product(keys, shared_address(m->in[i % STAGES].k));
    };
    auto leave = [&](int i) { // to the peer
        if (i < chunks) {
            barrier_wait(&m->full[i % STAGES], (i / STAGES) & 1);
            if (lane == 0)
                barrier_arrive(&m->empty[i % STAGES]);
        }
    };
    if (first == 1)
        leave(0);
    next_keys(first);
    wgmma_wait<0>();
    for (int i = first; i < chunks; i += peers) {
        const int stage = i % STAGES, slot = i % MADE;
        const delta_gates *g = &m->gates[stage];
        const uint32_t k = shared_address(m->in[stage].k), q = shared_address(m->in[stage].q);
        auto wait_for_slot = [&] { barrier_wait(&m->made_empty[slot], (i / MADE + 1) & 1); };
        bool hard;
        uint32_t high[4][4], mine[4];
        {
            const bool wide = gated && g->wide;
            lower_factors f;
            fetch_factors<gated>(f, g, wide, warp);
            uint32_t own[4], turned[4];
            if (wide)
                hard = make_lower<gated, true>(keys, f, g, m, warp, own, turned);
            else
                hard = make_lower<gated, false>(keys, f, g, m, warp, own, turned);
            float scores[queries / 2];
            if constexpr (output) {
                wgmma_fence();
#pragma unroll
                for (int x = 0; x < 8; x++)
                    wgmma<queries>::ss(scores, desc_k(k + (x / 4) * PANEL) + 2 * (x % 4),
                                       desc_k(q + (x / 4) * queries * 128) + 2 * (x % 4), x > 0);
                wgmma_commit();
            }
            make_diagonal(own, turned, m, warp, mine);
            if constexpr (output) {
                wgmma_wait<0>();
                wait_for_slot();
                const uint32_t p = shared_address(m->p[slot]);
                if (wide)
                    make_scores<queries, gated, true>(scores, s, g, p, warp);
                else
                    make_scores<queries, gated, false>(scores, s, g, p, warp);
                fence_async();
                __syncwarp();
                if (lane == 0)
                    barrier_arrive(&m->p_full[slot]);
            }
        }
        hard = __shfl_sync(~0u, named_barrier_any(MAKERS_BARRIER, MAKERS, hard), 0);
        const float b0 = g->beta[16 * warp + lane / 4], b1 = g->beta[16 * warp + lane / 4 + 8];
        const uint32_t panel = shared_address(m->m[slot][0]);
        auto before_store = [&] {
            if constexpr (!output)
                wait_for_slot();
        };
        if (hard)
            hard_chunk<gated>(g, m, k, panel, b0, b1, warp, before_store);
        else {
            make_inverse(high, mine, m, warp);
            before_store();
#pragma unroll
            for (int x = 0; x < 4; x++) {
                uint32_t a[4];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float2 h = unpack_half(high[x][e]);
                    a[e] = pack_half((e % 2 ? b1 : b0) * h.x, (e % 2 ? b1 : b0) * h.y);
                }
                store_inverse(panel, x, a, warp);
            }
        }
        if (threadIdx.x % MAKERS == 0)
            m->hard[slot][0] = hard;
        fence_async();
        __syncwarp();
        if (lane == 0) {
            if (peers == 2)
                make_send(m, slot, 1 - cluster_rank(), hard, warp);
            barrier_arrive(&m->m_full[slot]);
            barrier_arrive(&m->empty[stage]); // nobody here needs the keys any more
        }
        if (peers == 2)
            leave(i + 1);
        next_keys(i + peers);
        // Nobody may write L or its diagonal blocks of the next chunk before all have read this one's.
        named_barrier(MAKERS_BARRIER, MAKERS);
        wgmma_wait<0>();
    }
}

#endif
