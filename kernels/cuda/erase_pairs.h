// kernels/cuda/erase_pairs.h - `march_pairs` carries states of ERASE_KEY through pairs of parts of 16 rows that make_parts
// made (erase_parts.h). Compute capability 9.0 (90a).
//
// A block has 64 columns of values of one head: a warpgroup has H^T [64, K] in accumulators, another makes outputs. Tiles are
// read by the four warps of a group at once, as right operands of wgmma: with a warp's own products (mma.sync) each of them
// loads every tile for itself, and shared memory bounded the kernel. Both parts of a pair read the state before the first;
// what the first one writes reaches the second one's rows through the link (make_link), a product of 16 x 16:
//
//     R1 = V1 - E1 H_    U1 = T1 R1    R2 = V2 - E2 (b . H_) + L U1    U2 = T2 R2    H <- b . (H_ + K1^T U1) + K2^T U2
//     O1 = Q1 H_ + P1 U1               O2 = Q2 H_ + L_Q U1 + P2 U2
//
// (b is already in the tile of Q2; where the first part is strong, its own decay stands between H_ and K1^T U1), so that two
// long products stand one behind the other a pair, not four. What outputs need of the state, H_ and U, goes
// through shared memory as operands.
#ifndef DELTOP_CUDA_ERASE_PAIRS_H
#define DELTOP_CUDA_ERASE_PAIRS_H

#include "kernels/cuda/erase_parts.h"
#include "kernels/cuda/wgmma.h"

// Warps: 4 with the state, 4 for outputs, one that makes factors, one that fetches. Shared memory: barriers; a ring of pairs:
// rows of values (later of outputs), what is fetched of slots, and what the state is multiplied by before each part; of each
// 16 columns, what the state hands to outputs: H_, of each part U and what U's rounding took off, numbers.
template <class F, bool OUTPUTS> struct pair_map {
    static constexpr int STATE_WARPS = 4, USERS = STATE_WARPS + (OUTPUTS ? 4 : 0),
                         WARPS = USERS + (OUTPUTS ? 4 : 2), RING = OUTPUTS ? 3 : 4, HAND = 2;
    static constexpr int FULL = 0, SCALED = FULL + 8 * RING, EMPTY = SCALED + 8 * RING,
                         READY = EMPTY + 8 * RING, FREE = READY + 8 * HAND, STAGES = 1024;
    static constexpr int FROM = OUTPUTS ? 0 : F::E,
                         SLOT = (OUTPUTS ? F::SLOT : F::OUTPUTS_ONLY) - FROM,
                         NEXT = (SLOT + 1023) / 1024 * 1024, // tiles are aligned
        VALUES = 2 * VALUE_TILE,
                         PART_AT = VALUES - FROM, // where the first part would begin
        LINK = VALUES + NEXT + SLOT, LINK_BYTES = F::LINKED - F::SLOT - (OUTPUTS ? 0 : 512),
                         BEFORE = LINK + LINK_BYTES,
                         STAGE = (BEFORE + 8 * F::K + 1023) / 1024 * 1024;
    static constexpr int HANDS = STAGES + RING * STAGE, U = F::K / 16 * 512, U_REST = U + 512,
                         NUMBERS = U + 2048, HAND_BYTES = NUMBERS + 16,
                         BYTES = HANDS + (OUTPUTS ? HAND * 4 * HAND_BYTES : 0);
    static_assert(FREE + 8 * HAND <= STAGES && HAND_BYTES % 16 == 0, "room for barriers");
    static_assert(VALUES % 1024 == 0 && (PART_AT + F::E) % 1024 == 0, "tiles are aligned");
    static_assert(!OUTPUTS || LINK == VALUES + NEXT + F::LINK, "the link lies behind its slot");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// A pair's slots to a place of the ring, and values of their rows where they are asked for; by one thread.
template <class F, class map>
ERASE_DEVICE void fetch_pair(uint64_t *barrier, unsigned char *stage, const unsigned char *slot,
                             const CUtensorMap &v_map, bool with_values, int h, int column,
                             int row) {
    stretch_expect(barrier, 2 * map::SLOT + map::LINK_BYTES + (with_values ? map::VALUES : 0));
    unsigned char *to = stage + map::VALUES;
    stretch_copy(barrier, to, slot + map::FROM, map::SLOT);
    if (map::SLOT == F::SLOT) {
        stretch_copy(barrier, to + map::NEXT, slot + F::SLOT, F::LINKED);
    } else {
        stretch_copy(barrier, to + map::NEXT, slot + F::SLOT + map::FROM, map::SLOT);
        stretch_copy(barrier, stage + map::LINK, slot + F::SLOT + F::LINK, map::LINK_BYTES);
    }
    if (with_values)
        for (int i = 0; i < 2; i++)
            box_fetch(barrier, smem_address(stage) + i * VALUE_TILE, &v_map, column, h,
                      row + i * PART);
}

template <int N> ERASE_DEVICE void scale_by(float (&H)[N], uint32_t by) {
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        const float2 g = shared_float2(by + 32 * i);
        H[4 * i] *= g.x, H[4 * i + 1] *= g.y, H[4 * i + 2] *= g.x, H[4 * i + 3] *= g.y;
    }
}
// Columns of 16 rows, [columns][rows] += A B, B kept as an operand (operand_at).
ERASE_DEVICE void add_product(float (&sum)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    mma16(sum, a, b[0], b[2]);
    mma16(sum + 4, a, b[1], b[3]);
}
ERASE_DEVICE void pack8(uint32_t (&to)[4], const float (&x)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i] = pack2(x[2 * i], x[2 * i + 1]);
}
ERASE_DEVICE void pack8_rest(uint32_t (&to)[4], const float (&x)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 kept = __half22float2(__floats2half2_rn(x[2 * i], x[2 * i + 1]));
        to[i] = pack2(x[2 * i] - kept.x, x[2 * i + 1] - kept.y);
    }
}
// One step of a product with a tile whose rows survive: 16 channels.
template <class F> ERASE_DEVICE uint64_t step_of(uint64_t tile, int i) {
    return tile + i / 4 * (F::PANEL / 16) + 2 * (i % 4);
}

// The state: of a segment from `start` (or from zeros, or the identity) to `end_state`, if it is wanted.
template <class F, bool OUTPUTS>
ERASE_DEVICE void carry_pairs(const erase_call &s, unsigned char *bytes, int head, int column,
                              int width, int first, int last, const float *start, int64_t start_ld,
                              bool identity, float *end_state, int64_t end_ld, int *marks) {
    typedef pair_map<F, OUTPUTS> map;
    constexpr int K = F::K, NEXT = map::NEXT, STEPS = K / 16;
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32,
              mine = column + warp * COLUMNS;
    // Of this lane: value columns v0, v0 + 8 of H^T, channels k0 + 8 i + {0, 1}.
    const int v0 = mine + lane / 4, k0 = 2 * (lane % 4);
    auto channel = [&](int i) { return k0 + 8 * (i / 4) + i % 2; };
    auto value = [&](int i) { return v0 + i / 2 % 2 * 8; };
    float H[K / 2];
#pragma unroll
    for (int i = 0; i < K / 2; i++)
        H[i] = channel(i) >= s.K || value(i) >= width ? 0.0f
               : start                                ? start[channel(i) * start_ld + value(i)]
                                                      : identity && channel(i) == value(i);
    const uint32_t base = once(smem_address(bytes)), lane16 = lane * 16, channels = k0 * 4,
                   values = lane_row<false>() ^ (uint32_t)(warp * COLUMNS * 2);
    float size = 1, out = 0; // H, R and O stand times size
    ring_place<map::RING> ring;
    ring_place<map::HAND> turn;
    for (int part = first; part < last; part += 2, ring.step(), turn.step()) {
        const uint32_t stage = base + map::STAGES + ring.at * map::STAGE,
                       tiles = stage + map::PART_AT, before = stage + map::BEFORE + channels,
                       between = before + 4 * K, operands = tiles + lane16;
        mark_wait_at(base + map::FULL + 8 * ring.at, ring.parity);
        float R[2][8];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t x[4];
            ldmatrix4_transposed_at(x, stage + i * VALUE_TILE + values);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = two_bf16(x[j]);
                R[i][2 * j] = v.x * size, R[i][2 * j + 1] = v.y * size;
            }
        }
        const int flags[2] = {shared_int(tiles + F::FLAGS), shared_int(tiles + NEXT + F::FLAGS)};
        mark_wait_at(base + map::SCALED + 8 * ring.at, ring.parity);
        if ((part - first) % LOOK == 0) {
            float most = 0;
#pragma unroll
            for (int i = 0; i < 16; i++)
                most = fmaxf(most, fabsf(R[i / 8][i % 8]));
#pragma unroll
            for (int i = 0; i < K / 2; i++)
                most = fmaxf(most, fabsf(H[i]));
            const float step = size_step(most, size, LEAST_SIZE);
            size *= step;
#pragma unroll
            for (int i = 0; i < 16; i++)
                R[i / 8][i % 8] *= step;
#pragma unroll
            for (int i = 0; i < K / 2; i++)
                H[i] *= step;
            out = s.scale / size;
        }
        uint32_t now[4 * STEPS], later[4 * STEPS];
        scale_by(H, before);
#pragma unroll
        for (int i = 0; i < 4 * STEPS; i++)
            now[i] = pack2(H[2 * i], H[2 * i + 1]);
        const bool usual = __all_sync(~0u, (flags[0] | flags[1]) == 0),
                   two_terms = !usual && ((flags[0] | flags[1]) & TWO_TERMS);
        if (!usual && (flags[0] & STRONG))
            scale_by(H, tiles + F::MIDDLE + channels);
        const uint64_t e = desc_k(tiles + F::E), e_later = e + NEXT / 16;
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            wgmma<16>::rs<0>(R[0], now + 4 * i, step_of<F>(e, i), 1);
        wgmma_commit();
        float2 b[2 * STEPS];
#pragma unroll
        for (int i = 0; i < 2 * STEPS; i++) {
            b[i] = shared_float2(between + 32 * i);
            later[2 * i] = pack2(H[4 * i] * b[i].x, H[4 * i + 1] * b[i].y);
            later[2 * i + 1] = pack2(H[4 * i + 2] * b[i].x, H[4 * i + 3] * b[i].y);
        }
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            wgmma<16>::rs<0>(R[1], later + 4 * i, step_of<F>(e_later, i), 1);
        wgmma_commit();
        uint32_t t[4], u[2][4];
        shared_take4(t, operands + F::T);
        wgmma_wait<1>();
        // U of R by T, and what its rounding took off.
        auto solve = [&](int i, uint32_t(&rest)[4]) {
            float U[8] = {};
            uint32_t r[4];
            pack8(r, R[i]);
            add_product(U, r, t);
            if (two_terms) {
                uint32_t more[4];
                shared_take4(more, operands + i * NEXT + F::T_REST);
                add_product(U, r, more);
                pack8_rest(more, R[i]);
                add_product(U, more, t);
                pack8_rest(rest, U);
            }
            pack8(u[i], U);
        };
        const uint64_t k = desc_mn(tiles + F::KK, F::PANEL), k_later = k + NEXT / 16;
        // H takes what a part writes; under way behind it.
        auto write = [&](const uint32_t(&U)[4], const uint32_t(&rest)[4], uint64_t tile) {
            if (two_terms) {
                wgmma_fence();
                wgmma<K>::template rs<1>(H, rest, tile, 1);
                wgmma_commit();
                wgmma_wait<0>();
            }
            wgmma_fence();
            wgmma<K>::template rs<1>(H, U, tile, 1);
            wgmma_commit();
        };
        uint32_t rest[4], rest_later[4];
        solve(0, rest);
        write(u[0], rest, k);
        const uint32_t hand = base + map::HANDS + (turn.at * 4 + warp) * map::HAND_BYTES;
        if (OUTPUTS) {
            mark_wait_at(base + map::FREE + 8 * turn.at, turn.parity ^ 1);
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                const uint32_t x[4] = {now[4 * i], now[4 * i + 1], now[4 * i + 2], now[4 * i + 3]};
                shared_keep4(hand + lane16 + 512 * i, x);
            }
        }
        uint32_t link[4];
        shared_take4(link, stage + map::LINK + lane16);
        shared_take4(t, operands + NEXT + F::T);
        wgmma_wait<1>();
        add_product(R[1], u[0], link);
        if (two_terms) {
            add_product(R[1], rest, link);
            shared_take4(link, stage + map::LINK + 512 + lane16);
            add_product(R[1], u[0], link);
        }
        solve(1, rest_later);
        wgmma_wait<0>();
        if (OUTPUTS) {
#pragma unroll
            for (int i = 0; i < K / 2; i++)
                H[i] *= i % 2 ? b[i / 4].y : b[i / 4].x;
        } else {
            scale_by(H, between); // two blocks a multiprocessor have no registers for b
        }
        if (!usual && (flags[1] & STRONG))
            scale_by(H, tiles + NEXT + F::MIDDLE + channels);
        write(u[1], rest_later, k_later);
        if (OUTPUTS) {
            const uint32_t to = hand + map::U + lane16;
            shared_keep4(to, u[0]);
            shared_keep4(to + 1024, u[1]);
            if (two_terms) {
                shared_keep4(to + 512, rest);
                shared_keep4(to + 1536, rest_later);
            }
            const float numbers[4] = {out, two_terms ? 1.0f : 0.0f, 0, 0};
            if (lane == 0)
                shared_keep4(hand + map::NUMBERS, numbers);
            __syncwarp();
            if (arrives(lane))
                mark_arrive_at(base + map::READY + 8 * turn.at);
        }
        wgmma_wait<0>();
        __syncwarp();
        if (arrives(lane))
            mark_arrive_at(base + map::EMPTY + 8 * ring.at);
    }
    // The last part's room is nobody else's.
    if (last > first) {
        const int place = (last - 2 - first) / 2 % map::RING;
        const uint32_t part = base + map::STAGES + place * map::STAGE + map::PART_AT + NEXT;
        if (!(shared_int(part + F::FLAGS) & STRONG))
            scale_by(H, part + F::MIDDLE + channels);
    }
    float spoiled = 0; // NaN once anything was not finite
#pragma unroll
    for (int i = 0; i < K / 2; i++) {
        spoiled = fmaf(H[i], 0.0f, spoiled);
        if (end_state && channel(i) < s.K && value(i) < width)
            end_state[channel(i) * end_ld + value(i)] = H[i] / size;
    }
    if (OUTPUTS)
        mark(marks, s, head, mine, spoiled);
}

// The warpgroup that makes outputs.
template <class F>
ERASE_DEVICE void read_pairs(const erase_call &s, unsigned char *bytes, int head, int column,
                             int first, int last, view<bf16> o, int *marks) {
    typedef pair_map<F, true> map;
    constexpr int NEXT = map::NEXT, STEPS = F::K / 16;
    const int columns = threadIdx.x / 32 % 4, lane = threadIdx.x % 32,
              mine = column + columns * COLUMNS;
    const uint32_t base = smem_address(bytes), lane16 = lane * 16,
                   rows = lane_row<false>() ^ (uint32_t)(columns * COLUMNS * 2),
                   line_at = swizzle(lane / 2, 2 * columns + lane % 2);
    const bool wide = (uintptr_t)o.p % 16 == 0 && o.ld % 8 == 0;
    const int c = mine + lane % 2 * 8;
    bf16 *to = o.row((int64_t)first * PART + lane / 2) + (int64_t)head * s.V + c;
    float spoiled = 0;
    ring_place<map::RING> ring;
    ring_place<map::HAND> turn;
    for (int part = first; part < last; part += 2, ring.step(), turn.step()) {
        const uint32_t stage = base + map::STAGES + ring.at * map::STAGE,
                       tiles = stage + map::PART_AT, operands = tiles + lane16,
                       hand = base + map::HANDS + (turn.at * 4 + columns) * map::HAND_BYTES;
        mark_wait_at(base + map::FULL + 8 * ring.at, ring.parity);
        mark_wait_at(base + map::READY + 8 * turn.at, turn.parity);
        uint32_t h[STEPS][4], p[2][4], linked[4], u[2][4];
        float O[2][8], numbers[4];
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            shared_take4(h[i], hand + lane16 + 512 * i);
        const uint64_t q = desc_k(tiles + F::Q), q_later = q + NEXT / 16;
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            wgmma<16>::rs<0>(O[0], h[i], step_of<F>(q, i), i > 0);
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            wgmma<16>::rs<0>(O[1], h[i], step_of<F>(q_later, i), i > 0);
        wgmma_commit();
        shared_take4(p[0], operands + F::P);
        shared_take4(p[1], operands + NEXT + F::P);
        shared_take4(linked, operands + NEXT + F::LINK_QUERY);
        shared_take4(u[0], hand + map::U + lane16);
        shared_take4(u[1], hand + map::U + 1024 + lane16);
        shared_take4(numbers, hand + map::NUMBERS);
        wgmma_wait<0>();
        auto written = [&]() {
            add_product(O[0], u[0], p[0]);
            add_product(O[1], u[0], linked);
            add_product(O[1], u[1], p[1]);
        };
        written();
        if (numbers[1] != 0) {
            shared_take4(u[0], hand + map::U_REST + lane16);
            shared_take4(u[1], hand + map::U_REST + 1024 + lane16);
            written();
        }
        __syncwarp();
        if (arrives(lane))
            mark_arrive_at(base + map::FREE + 8 * turn.at);
        // Rows of outputs where the values were: the state is through with these.
        uint4 line[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t y[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                spoiled = fmaf(O[i][2 * j], 0.0f, fmaf(O[i][2 * j + 1], 0.0f, spoiled));
                y[j] = pack_bf16(numbers[0] * O[i][2 * j], numbers[0] * O[i][2 * j + 1]);
            }
            stmatrix_transposed(stage + i * VALUE_TILE + rows, y[0], y[1], y[2], y[3]);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; i++)
            line[i] = *(const uint4 *)(bytes + map::STAGES + ring.at * map::STAGE + i * VALUE_TILE +
                                       line_at);
        fence_copies(); // the next values come behind what was written
        __syncwarp();
        if (arrives(lane))
            mark_arrive_at(base + map::EMPTY + 8 * ring.at);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if ((int64_t)(part + i) * PART + lane / 2 < s.T && c < s.V) {
                if (wide) {
                    *(uint4 *)to = line[i];
                } else {
                    const uint32_t x[4] = {line[i].x, line[i].y, line[i].z, line[i].w};
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        ((unsigned short *)to)[j] = (unsigned short)(x[j / 2] >> 16 * (j % 2));
                }
            }
            to += PART * o.ld;
        }
    }
    mark(marks, s, head, mine, spoiled);
}
#endif

// With outputs a block leaves room for one of make_parts beside it: of shared memory by a ring of three, of registers as if it had
// so many threads, 128 a thread, which its warpgroups share out: those with the state, outputs, others.
enum {
    PAIR_REGISTERS_AS_OF = 512,
    STATE_REGISTERS = 216,
    READ_REGISTERS = 128,
    REST_REGISTERS = 40
};
// Else the state's warps wait for ever.
static_assert(STATE_REGISTERS + READ_REGISTERS + REST_REGISTERS <= 3 * 65536 / PAIR_REGISTERS_AS_OF,
              "shares of a block's registers");

// Blocks: as `march` has them, from segment `from` on; per and chunks count parts, and are even. One warp multiplies
// what neighbours decay by into factors, one fetches.
template <class F, bool OUTPUTS>
__global__ void __launch_bounds__(OUTPUTS ? PAIR_REGISTERS_AS_OF : 32 * pair_map<F, OUTPUTS>::WARPS,
                                  OUTPUTS ? 1 : 2)
    march_pairs(erase_call s, const __grid_constant__ CUtensorMap v_map, const unsigned char *slots,
                view<float> state, view<bf16> o, int *marks, erase_segments seg) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef pair_map<F, OUTPUTS> map;
    SHARED_MEMORY(bytes);
    if (OUTPUTS)
        let_next_begin();
    uint64_t *full = (uint64_t *)(bytes + map::FULL), *scaled = (uint64_t *)(bytes + map::SCALED),
             *empty = (uint64_t *)(bytes + map::EMPTY);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int blocks = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS,
              tiles = blocks + (OUTPUTS ? 0 : (s.K + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
    const int h = blockIdx.x / tiles, tile = blockIdx.x % tiles, segment = seg.from + blockIdx.y;
    const bool transition = tile >= blocks;
    const int first = segment * seg.per, last = min(first + seg.per, s.chunks);
    const int width = transition ? s.K : s.V,
              column = (tile - (transition ? blocks : 0)) * MARCH_COLUMNS;
    auto stage_of = [&](int at) { return bytes + map::STAGES + at * map::STAGE; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < map::RING; i++) {
            mark_init(full + i, 1);
            mark_init(scaled + i, 1);
            mark_init(empty + i, map::USERS);
        }
        for (int i = 0; i < map::HAND; i++) {
            mark_init((uint64_t *)(bytes + map::READY) + i, map::STATE_WARPS);
            mark_init((uint64_t *)(bytes + map::FREE) + i, 4);
        }
        marks_ready();
    }
    if (transition) // has no values
        for (int i = threadIdx.x; i < map::RING * map::VALUES / 16; i += 32 * map::WARPS)
            *(uint4 *)(stage_of(i / (map::VALUES / 16)) + i % (map::VALUES / 16) * 16) =
                make_uint4(0, 0, 0, 0);
    __syncthreads();
    // Registers go from those that fetch to those with the state.
    if (warp < map::STATE_WARPS) {
        if (OUTPUTS)
            registers_up<STATE_REGISTERS>();
        auto of_segment = [&](float *all, int i) {
            return all + ((int64_t)i * s.H + h) * s.K * width;
        };
        const float *start = segment == 0 ? state.row((int64_t)h * s.K)
                             : OUTPUTS    ? of_segment(seg.ends, segment - 1)
                                          : NULL;
        // With outputs, ends of segments between the first and the last were made before, and are being read.
        float *end_state = OUTPUTS && segment == seg.n - 1 ? state.row((int64_t)h * s.K)
                           : OUTPUTS && segment > 0
                               ? NULL
                               : of_segment(transition ? seg.transitions : seg.ends, segment);
        carry_pairs<F, OUTPUTS>(s, bytes, h, column, width, first, last, start,
                                segment == 0 ? state.ld : width, transition, end_state,
                                OUTPUTS && segment == seg.n - 1 ? state.ld : width, marks);
        return;
    }
    if (OUTPUTS && warp < map::USERS) {
        registers_down<READ_REGISTERS>();
        read_pairs<F>(s, bytes, h, column, first, last, o, marks);
        return;
    }
    if (OUTPUTS)
        registers_down<REST_REGISTERS>();
    ring_place<map::RING> ring;
    if (warp == map::USERS) {
        carry_factors<F, map, 2>(full, scaled, stage_of(0), map::NEXT, first, last);
        return;
    }
    if (warp != map::USERS + 1)
        return;
    const unsigned char *slot = slots + ((int64_t)first / 2 * s.H + h) * F::SLOTS;
    for (int part = first; part < last; part += 2, ring.step()) {
        mark_wait(empty + ring.at, ring.parity ^ 1);
        if (lane == 0)
            fetch_pair<F, map>(full + ring.at, stage_of(ring.at), slot, v_map, !transition, h,
                               column, part * PART);
        slot += (int64_t)s.H * F::SLOTS;
    }
    // What is next in the stream waits for this kernel, and needs the one before it, too.
    if (!OUTPUTS && blockIdx.y + 1 == gridDim.y)
        wait_for_one_before();
#endif
}

#endif
