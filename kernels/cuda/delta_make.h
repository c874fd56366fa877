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

// N = -L (from acc = K K^T) to shared memory: blocks below the diagonal, and the warp's own diagonal block column by column in
// float32. True when the chunk is not easy. place: which of the chunks made at once this is. wide: factors of G would
// overflow. below: the bits of a pair of entries of an 8 x 8 block (row lane / 4) that lie below its diagonal. All warps do
// what the last one has to, without branches: blocks above the diagonal are dropped whatever they hold.
template <bool gated, bool wide>
HOPPER_DEVICE bool make_lower(const float (&acc)[32], const lower_factors &f, const delta_gates *g,
                              delta_shared *m, int place, int warp, int lane, uint32_t below) {
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
    uint32_t sum0 = 0, sum1 = 0, own[4];
    unsigned char *to = m->l[warp * (warp - 1) / 2][place] + 2 * x + r * 48;
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
    // Substitution reads no more than what lies below the diagonal.
    float *n = m->lw[place][warp] + x * 20 + r;
    const float2 v0 = unpack_half(own[0]), v1 = unpack_half(own[1]), v3 = unpack_half(own[3]);
    n[0] = v0.x;
    n[20] = v0.y;
    n[8] = v1.x;
    n[28] = v1.y;
    n[168] = v3.x;
    n[188] = v3.y;
    own[0] &= below;
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

// D = (I - N)^-1 for the warp's diagonal blocks of both chunks, D^T to m->d: a half-warp for each chunk (one alone: the same
// twice), lane c mod 16 has column c, by substitution in float32. Not by products: in the tensor cores' queue they wait for the
// state's.
template <int n_chunks> HOPPER_DEVICE void make_diagonals(delta_shared *m, int warp, int lane) {
    const int place = n_chunks > 1 ? lane / 16 : 0, c = here(lane % 16);
    const uint32_t n = shared_address(m->lw[place][warp]);
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        x[i] = i == c ? 1.0f : 0.0f;
    // Columns by fours of rows, from those that hold row j + 1 on.
    enum { AHEAD = 3 }; // columns under way
    uint32_t col[15][4][4];
    auto fetch = [&](int j) {
#pragma unroll
        for (int i = (j + 1) / 4; i < 4; i++)
            load_shared(col[j][i], n + j * 80 + i * 16);
    };
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        fetch(j);
#pragma unroll
    for (int j = 0; j < 15; j++) {
#pragma unroll
        for (int i = j + 1; i < 16; i++)
            x[i] += __uint_as_float(col[j][i / 4][i % 4]) * x[j];
        if (j + AHEAD < 15)
            fetch(j + AHEAD);
    }
    const uint32_t row = shared_address(m->d[warp][place]) + c * 48;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t p[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[i] = pack_half(x[8 * half + 2 * i], x[8 * half + 2 * i + 1]);
        store_shared(row + 16 * half, p);
    }
}

// Rows of M^T of both chunks in high: blocks before the warp's own are zero, those after it follow from it. All warps run
// the same instructions (a sum of zeros for blocks before their own).
template <int n_chunks>
HOPPER_DEVICE void make_inverses(uint32_t (&high)[n_chunks][4][4], delta_shared *m, int warp,
                                 int lane) {
#pragma unroll
    for (int at = 0; at < n_chunks; at++) {
        ldmatrix(high[at][0], operand_row(m->d[0][at], lane));
#pragma unroll
        for (int e = 0; e < 4; e++)
            high[at][0][e] = warp == 0 ? high[at][0][e] : 0;
    }
#pragma unroll
    for (int i = 1; i < 4; i++) {
        float acc[n_chunks][8] = {};
#pragma unroll
        for (int b = 0; b < i; b++) {
            uint32_t n[n_chunks][4];
#pragma unroll
            for (int at = 0; at < n_chunks; at++)
                ldmatrix(n[at], block_row(m->l[i * (i - 1) / 2 + b][at], lane));
#pragma unroll
            for (int at = 0; at < n_chunks; at++) {
                mma16(acc[at], high[at][b], n[at][0], n[at][1]);
                mma16(acc[at] + 4, high[at][b], n[at][2], n[at][3]);
            }
        }
        uint32_t d[n_chunks][4];
#pragma unroll
        for (int at = 0; at < n_chunks; at++)
            ldmatrix_transposed(d[at], operand_row(m->d[i][at], lane));
#pragma unroll
        for (int at = 0; at < n_chunks; at++) {
            uint32_t a[4], own[4];
            float out[8] = {};
            ldmatrix(own, operand_row(m->d[i][at], lane));
            pack_operand(a, acc[at]);
            mma16(out, a, d[at][0], d[at][1]);
            mma16(out + 4, a, d[at][2], d[at][3]);
            pack_operand(high[at][i], out);
#pragma unroll
            for (int e = 0; e < 4; e++)
                high[at][i][e] = i == warp ? own[e] : high[at][i][e];
        }
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

// With outputs two chunks at once: what the warps wait for (shared memory, tensor cores, each other) is the same for two. Without,
// the block may have a peer with the same keys: each makes M of every second chunk, for both. Block r of the cluster fills
// slot r of both.
//
// Without outputs K K^T of the next chunk is under way when this one is through; with them there are no registers for it.
template <bool gated, bool output>
HOPPER_DEVICE void delta_make(const delta_task &task, delta_shared *m) {
    static_assert(MADE == 2, "a slot belongs to one block of a pair");
    static_assert(AT_ONCE == 2, "a half-warp each; hard chunks keep two terms in their places");
    enum { N = output ? AT_ONCE : 1 };
    int warp = held(threadIdx.x % MAKERS / 32), lane = held(threadIdx.x % 32);
    const int chunks = task.last - task.first, peers = output ? 1 : task.peers;
    const int first = peers == 2 ? cluster_rank() : 0;
    float keys[32]; // K K^T
    auto wait_for_keys = [&](int i) {
        if (i < chunks)
            barrier_wait(&m->k_full[i % KEYS], (i / KEYS) & 1);
    };
    auto ask_keys = [&](int i) {
        wait_for_keys(i);
        wgmma_fence();
        keys_product(keys, shared_address(m->k[i % KEYS]));
    };
    auto leave = [&](int i) { // to the peer
        wait_for_keys(i);
        if (i < chunks && arrives(lane))
            barrier_arrive(&m->k_empty[i % KEYS]);
    };
    if (first == 1)
        leave(0);
    if constexpr (N == 1)
        ask_keys(first);
    for (int i = first; i < chunks; i += N * peers) {
        const int count = min((int)N, chunks - i);
        lane = here(lane);
        auto lower = [&](int at) {
            const delta_gates *g = &m->gates[(i + at) % KEYS];
            lower_factors f;
            const int r = here(lane) / 4, x = 2 * (here(lane) % 4);
            const uint32_t below = (r > x ? 0xffffu : 0) | (r > x + 1 ? 0xffff0000u : 0);
            bool hard;
            fetch_factors<gated>(f, g, warp, lane);
            wgmma_wait<0>();
            if (f.wide)
                hard = make_lower<gated, true>(keys, f, g, m, at, warp, lane, below);
            else
                hard = make_lower<gated, false>(keys, f, g, m, at, warp, lane, below);
            hard = __any_sync(~0u, hard);
            if (lane == 0)
                m->votes[at][warp] = hard;
        };
        if constexpr (N == 1)
            lower(0);
        else
#pragma unroll 1
            for (int at = 0; at < count; at++) {
                ask_keys(i + at);
                lower(at);
            }
        __syncwarp();
        make_diagonals<N>(m, warp, lane);
        named_barrier(MAKERS_BARRIER, MAKERS);
        // Chunk i + at is made; `hard`: in two terms.
        auto made = [&](int at, bool hard) {
            const int slot = (i + at) % MADE;
            if (warp == 0 && lane == 0)
                m->hard[slot][0] = hard;
            fence_async();
            __syncwarp();
            if (arrives(lane)) {
                if (peers == 2 && lane == 0)
                    make_send(m, slot, 1 - cluster_rank(), hard, warp);
                barrier_arrive(&m->m_full[slot]);
                barrier_arrive(&m->k_empty[(i + at) % KEYS]); // nobody here needs the keys any more
            }
        };
        auto before_store = [&](int at) {
            barrier_wait(&m->made_empty[(i + at) % MADE], ((i + at) / MADE + 1) & 1);
        };
        auto hard = [&](int at) {
            return at < count && load_shared_word((const uint32_t *)m->votes[at]) != 0;
        };
        const bool hard0 = hard(0), hard1 = N > 1 && hard(1);
        {
            uint32_t high[N][4][4];
            make_inverses<N>(high, m, warp, lane);
#pragma unroll
            for (int at = 0; at < N; at++) {
                if (at >= count || (at ? hard1 : hard0))
                    continue;
                const delta_gates *g = &m->gates[(i + at) % KEYS];
                const float b0 = g->beta[16 * warp + lane / 4],
                            b1 = g->beta[16 * warp + lane / 4 + 8];
                const uint32_t twice0 = pack_half(b0, b0), twice1 = pack_half(b1, b1);
                before_store(at);
#pragma unroll
                for (int block = 0; block < 4; block++) {
                    uint32_t a[4];
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        a[e] = multiply_half(high[at][block][e], e % 2 ? twice1 : twice0);
                    store_inverse(shared_address(m->m[(i + at) % MADE]), block, a, warp, lane);
                }
                made(at, false);
            }
        }
#pragma unroll 1
        for (int at = 0; at < count && (hard0 || hard1); at++) {
            if (!(at ? hard1 : hard0))
                continue;
            const int slot = (i + at) % MADE, stage = (i + at) % KEYS;
            const delta_gates *g = &m->gates[stage];
            const float b0 = g->beta[16 * warp + lane / 4], b1 = g->beta[16 * warp + lane / 4 + 8];
            // L and D are made anew, in the places of both chunks.
            named_barrier(MAKERS_BARRIER, MAKERS);
            hard_chunk<gated>(
                g, m, shared_address(m->k[stage]), shared_address(m->m[slot]),
                shared_address(second_term<output>(m, slot)), b0, b1, warp, lane, [&] {
                    before_store(at);
                    if constexpr (output) // the state is through with the chunk before
                        barrier_wait(&m->made_empty[(slot + 1) % MADE],
                                     ((i + at + 1) / MADE + 1) & 1);
                });
            made(at, true);
        }
        if (peers == 2)
            leave(i + 1);
        if constexpr (N == 1)
            ask_keys(i + peers);
        // Nobody may write L or its diagonal blocks of the next chunks before all have read these.
        named_barrier(MAKERS_BARRIER, MAKERS);
    }
    wgmma_wait<0>();
}

#endif
