// kernels/cuda/delta_make.h - the warpgroup that makes M of a chunk (delta.cu), ahead of
// the warpgroups that hold the state.
//
//     L = tril(diag(beta) (K K^T . G), -1)      M = (I + L)^-1       G_ij = 2^(c_i - c_j)
//
// M is held as M^T: warp w owns its rows 16 w .. 16 w + 15. Blocks are 16 x 16; D_i = (I + L_ii)^-1, the
// others follow by
//     M_iw^T = -(sum_m M_mw^T L_im^T) D_i^T,  m = w..i-1
//
// Two ways to the same M. Most chunks are easy: all operands are single fp16 numbers, D_i the rounded result of a
// substitution in float32. Where the squares of a row of L add up to more (keys repeat), one fp16 term is too few:
// delta_hard.h then makes M in two terms. EASY: chosen with float64 references: outputs stay below 2.5e-3.
#ifndef DELTOP_CUDA_DELTA_MAKE_H
#define DELTOP_CUDA_DELTA_MAKE_H

#include "kernels/cuda/delta_hard.h"

#define EASY 1.5f // of the 16 columns that a lane has; a row is then below four times that

// What a lane needs of the gates for N, fetched before K K^T is there: the rows' -beta and the factors of
// G of its rows and columns, 2^c split at the middle of the chunk, or c itself where that would overflow.
struct lower_factors {
    bool wide;
    float row[2], beta[2]; // wide: c; else row holds up
    float2 column[8];
};

template <bool gated>
HOPPER_DEVICE void fetch_factors(lower_factors &f, const delta_gates *g, int warp, int lane) {
    const int i = 16 * warp + lane / 4;
    f.wide = gated && g->wide;
    const float *row = g->up, *column = (f.wide ? g->up : g->down) + 2 * (lane % 4);
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

// Squares of a pair of fp16 added to a pair of sums: near enough to tell easy chunks; what overflows is not easy.
HOPPER_DEVICE uint32_t add_squares(uint32_t x, uint32_t sums) {
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %1, %2;\n" : "=r"(r) : "r"(x), "r"(sums));
    return r;
}
HOPPER_DEVICE float sum_of_pair(uint32_t x) {
    float2 v = unpack_half(x);
    return v.x + v.y;
}

// N = -L (from acc = K K^T): blocks below the diagonal to shared memory; the warp's own diagonal block as an A operand
// to `own`. True when the chunk is not easy. wide: factors of G would overflow. below: the bits of a pair of entries of an 8 x 8
// block (row lane / 4) that lie below its diagonal. All warps do what the last one has to, without branches: blocks
// above the diagonal are dropped whatever they hold.
template <bool gated, bool wide>
HOPPER_DEVICE bool make_lower(const float (&acc)[32], const lower_factors &f, const delta_gates *g,
                              delta_shared *m, int warp, int lane, uint32_t below,
                              uint32_t (&own)[4]) {
    if constexpr (wide)
        lane = here(lane);
    const int r = lane / 4, x = 2 * (lane % 4), i = 16 * warp + r;
    float b0 = f.beta[0], b1 = f.beta[1], d0 = 0, d1 = 0;
    if constexpr (gated && wide) {
        d0 = g->down[i];
        d1 = g->down[i + 8];
    } else if constexpr (gated) {
        b0 *= f.row[0];
        b1 *= f.row[1];
    }
    uint32_t sum0 = 0, sum1 = 0;
    unsigned char *to = m->l[warp * (warp - 1) / 2][0] + 2 * x + r * 48;
#pragma unroll
    for (int e = 0; e < 4; e++)
        own[e] = 0;
#pragma unroll
    for (int block = 0; block < 4; block++) {
        uint32_t p[4];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int b = 2 * block + e;
            float v[4] = {b0 * acc[4 * b], b0 * acc[4 * b + 1], b1 * acc[4 * b + 2],
                          b1 * acc[4 * b + 3]};
            if constexpr (gated && wide) {
                float2 dj = *(const float2 *)(g->down + 8 * b + x);
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
            p[2 * e] = pack_half(v[0], v[1]);
            p[2 * e + 1] = pack_half(v[2], v[3]);
        }
        if (block < 3 && block < warp) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                store_shared_word(to + block * 2 * BLOCK_16 + 16 * (e / 2) + 8 * 48 * (e % 2),
                                  p[e]);
        }
        if (block < 3) {
            sum0 = block < warp ? add_squares(p[0], add_squares(p[2], sum0)) : sum0;
            sum1 = block < warp ? add_squares(p[1], add_squares(p[3], sum1)) : sum1;
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            own[e] = block == warp ? p[e] : own[e];
    }
    own[0] &= below;
    own[2] = 0;
    own[3] &= below;
    sum0 = add_squares(own[0], sum0);
    sum1 = add_squares(own[1], add_squares(own[3], sum1));
    const float rows[2] = {sum_of_pair(sum0), sum_of_pair(sum1)};
    return !(rows[0] <= EASY && rows[1] <= EASY);
}

HOPPER_DEVICE void pack_operand(uint32_t (&a)[4], const float (&d)[8]) {
#pragma unroll
    for (int e = 0; e < 4; e++)
        a[e] = pack_half(d[2 * e], d[2 * e + 1]);
}

// This lane's row address in a 16 x 16 block for ldmatrix: matrices (rows 0-7, columns 0-7), (8-15, 0-7),
// (0-7, 8-15), (8-15, 8-15).
HOPPER_DEVICE uint32_t operand_row(const void *block, int lane) {
    return shared_address(block) + (lane & 15) * 48 + (lane >> 4) * 16;
}

// D = (I - N)^-1 for N strictly lower, D^T to m->d and as an A operand to `mine`. N = [N_0 0; N_10 N_1] of 8 x 8 blocks:
// lanes 8 b + c solve for column c of D_b in float32, then D_10^T = (D_0^T N_10^T) D_1^T by two products. Substitution of all
// 16 rows is three times as long a chain of loads; products of powers alone wait too often behind the state's in the tensor
// cores' queue.
HOPPER_DEVICE void make_diagonal(const uint32_t (&own)[4], delta_shared *m, int warp, int lane,
                                 uint32_t (&mine)[4]) {
    const int r = lane / 4, c = here(lane % 16), b = c / 8;
    float *n = m->lw[warp], *to = n + 2 * (lane % 4) * 20 + r;
    float2 v = unpack_half(own[0]);
    to[0] = v.x;
    to[20] = v.y;
    v = unpack_half(own[3]);
    to[168] = v.x;
    to[188] = v.y;
    __syncwarp();
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = i == c % 8 ? 1.0f : 0.0f;
    // Columns j of N_b by fours of rows: 2 for j < 3, then 1; all under way.
    const uint32_t from = shared_address(n) + b * 672;
    uint32_t col[10][4];
#pragma unroll
    for (int j = 0; j < 7; j++) {
        if (j < 3)
            load_shared(col[j + 7], from + j * 80);
        load_shared(col[j], from + j * 80 + 16);
    }
#pragma unroll
    for (int j = 0; j < 7; j++)
#pragma unroll
        for (int i = j + 1; i < 8; i++)
            x[i] += __uint_as_float(i < 4 ? col[j < 3 ? j + 7 : 0][i] : col[j][i - 4]) * x[j];
    uint32_t p[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = pack_half(x[2 * i], x[2 * i + 1]);
    // D_0^T and D_1^T as operands: pair l mod 4 of column l / 4 of each. D_1 as it stands is D_1^T's right operand.
    uint32_t d0 = 0, d1 = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t x0 = __shfl_sync(~0u, p[i], r), x1 = __shfl_sync(~0u, p[i], 8 + r);
        d0 = i == lane % 4 ? x0 : d0;
        d1 = i == lane % 4 ? x1 : d1;
    }
    float acc[4] = {}, out[4] = {};
    mma8(acc, d0, own[1]);
    mma8(out, pack_half(acc[0], acc[1]), movmatrix(d1));
    mine[0] = d0;
    mine[1] = 0;
    mine[2] = pack_half(out[0], out[1]);
    mine[3] = d1;
    stmatrix(operand_row(m->d[warp][0], lane), mine[0], mine[1], mine[2], mine[3]);
}

// Rows of M^T in high: blocks before the warp's own are zero, those after it follow from it. All warps run
// the same instructions (a sum of zeros for blocks before their own).
HOPPER_DEVICE void make_inverse(uint32_t (&high)[4][4], const uint32_t (&mine)[4], delta_shared *m,
                                int warp, int lane) {
#pragma unroll
    for (int e = 0; e < 4; e++)
        high[0][e] = warp == 0 ? mine[e] : 0;
#pragma unroll
    for (int i = 1; i < 4; i++) {
        uint32_t n[3][4], d[4], a[4];
#pragma unroll
        for (int b = 0; b < i; b++)
            ldmatrix(n[b], block_row(m->l[i * (i - 1) / 2 + b][0], lane));
        ldmatrix_transposed(d, operand_row(m->d[i][0], lane));
        float acc[8] = {}, out[8] = {};
#pragma unroll
        for (int b = 0; b < i; b++) {
            mma16(acc, high[b], n[b][0], n[b][1]);
            mma16(acc + 4, high[b], n[b][2], n[b][3]);
        }
        pack_operand(a, acc);
        mma16(out, a, d[0], d[1]);
        mma16(out + 4, a, d[2], d[3]);
        pack_operand(high[i], out);
#pragma unroll
        for (int e = 0; e < 4; e++)
            high[i][e] = i == warp ? mine[e] : high[i][e];
    }
}

// What this warp stored of M to the same place of the peer, by one lane.
HOPPER_DEVICE void make_send(delta_shared *m, int slot, int peer, bool hard, int warp) {
    const unsigned char *second = second_term<false>(m, slot);
    const uint32_t bytes = PANEL / 4, full = peer_address(shared_address(&m->m_full[slot]), peer);
    auto send = [&](const void *p, uint32_t n) {
        copy_peer(peer_address(shared_address(p), peer), shared_address(p), n, full);
    };
    barrier_expect_peer(full, (hard ? 2 : 1) * bytes + (warp == 0 ? sizeof m->hard[slot] : 0));
    send(m->m[slot] + warp * bytes, bytes);
    if (hard)
        send(second + warp * bytes, bytes);
    if (warp == 0)
        send(m->hard[slot], sizeof m->hard[slot]);
}

// Without outputs the block may have a peer with the same keys: each makes M of every second chunk, for both.
// Block r of the cluster fills slot r of both.
//
// With outputs K K^T of the next chunk is under way while M of this one is finished. Without, there are no registers for
// it; and the chunk after next comes to a pair only when the state is through with the chunk two before this.
template <bool gated, bool output>
HOPPER_DEVICE void delta_make(const delta_task &task, delta_shared *m) {
    static_assert(MADE == 2, "a slot belongs to one block of a pair");
    const int thread = held(threadIdx.x % MAKERS);
    int warp = thread / 32, lane = thread % 32;
    const int r = lane / 4, x = 2 * (lane % 4);
    const uint32_t below = (r > x ? 0xffffu : 0) | (r > x + 1 ? 0xffff0000u : 0);
    const int chunks = task.last - task.first, peers = output ? 1 : task.peers;
    const int first = peers == 2 ? cluster_rank() : 0;
    float keys[32]; // K K^T
    lower_factors f;
    auto ask_keys = [&](int i) {
        wgmma_fence();
        keys_product(keys, shared_address(m->k[i % KEYS]));
    };
    auto wait_for_keys = [&](int i) {
        if (i < chunks)
            barrier_wait(&m->k_full[i % KEYS], (i / KEYS) & 1);
    };
    auto leave = [&](int i) { // to the peer
        wait_for_keys(i);
        if (i < chunks && arrives(lane))
            barrier_arrive(&m->k_empty[i % KEYS]);
    };
    if (first == 1)
        leave(0);
    wait_for_keys(first);
    ask_keys(first);
    fetch_factors<gated>(f, &m->gates[first % KEYS], warp, lane);
    for (int i = first; i < chunks; i += peers) {
        const int stage = i % KEYS, slot = i % MADE;
        const delta_gates *g = &m->gates[stage];
        const uint32_t k = shared_address(m->k[stage]);
        auto before_store = [&] { barrier_wait(&m->made_empty[slot], (i / MADE + 1) & 1); };
        bool hard;
        uint32_t mine[4];
        lane = here(lane);
        wgmma_wait<0>();
        {
            const bool wide = f.wide;
            uint32_t own[4];
            if (wide)
                hard = make_lower<gated, true>(keys, f, g, m, warp, lane, below, own);
            else
                hard = make_lower<gated, false>(keys, f, g, m, warp, lane, below, own);
            make_diagonal(own, m, warp, lane, mine);
        }
        auto ask_next = [&] {
            wait_for_keys(i + peers);
            ask_keys(i + peers);
        };
        if constexpr (output)
            ask_next();
        hard = __any_sync(~0u, named_barrier_any(MAKERS_BARRIER, MAKERS, hard));
        const float b0 = g->beta[16 * warp + lane / 4], b1 = g->beta[16 * warp + lane / 4 + 8];
        const uint32_t panel = shared_address(m->m[slot]);
        if (hard) {
            wgmma_wait<0>(); // asked again below: no registers are left for it meanwhile
            hard_chunk<gated>(
                g, m, k, panel, shared_address(second_term<output>(m, slot)), b0, b1, warp, lane,
                [&] {
                    before_store();
                    if constexpr (output) // the state is through with the chunk before
                        barrier_wait(&m->made_empty[(i + 1) % MADE], ((i + 1) / MADE + 1) & 1);
                });
            if constexpr (output)
                ask_keys(i + peers);
        } else {
            uint32_t high[4][4];
            make_inverse(high, mine, m, warp, lane);
            const uint32_t twice0 = pack_half(b0, b0), twice1 = pack_half(b1, b1);
            before_store();
#pragma unroll
            for (int x = 0; x < 4; x++) {
                uint32_t a[4];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    a[e] = multiply_half(high[x][e], e % 2 ? twice1 : twice0);
                store_inverse(panel, x, a, warp, lane);
            }
        }
        if (thread == 0)
            m->hard[slot][0] = hard;
        fence_async();
        __syncwarp();
        if (arrives(lane)) {
            if (peers == 2 && lane == 0)
                make_send(m, slot, 1 - cluster_rank(), hard, warp);
            barrier_arrive(&m->m_full[slot]);
            barrier_arrive(&m->k_empty[stage]); // nobody here needs the keys any more
        }
        if (peers == 2)
            leave(i + 1);
        if constexpr (!output)
            ask_next();
        fetch_factors<gated>(f, &m->gates[(i + peers) % KEYS], warp, lane);
        // Nobody may write L or its diagonal blocks of the next chunk before all have read this one's.
        named_barrier(MAKERS_BARRIER, MAKERS);
    }
    wgmma_wait<0>();
}

#endif
