// kernels/cuda/erase_pairs.h - `march_pairs` carries states of ERASE_KEY through pairs of parts of 16 rows that make_parts
// made (erase_parts.h). Compute capability 9.0 (90a).
//
// A block has 64 columns of values of one head: a warpgroup has H^T [64, K] in accumulators (erase_pair_state.h), another makes
// outputs. Tiles are read by the four warps of a group at once, as right operands of wgmma: with a warp's own products (mma.sync) each of
// them loads every tile for itself, and shared memory bounded the kernel. Both parts of a pair read the state before the first;
// what the first one writes reaches the second one's rows through the link (make_link), a product of 16 x 16:
//
//     R1 = V1 - E1 H_    U1 = T1 R1    R2 = V2 - (E2 b) H_ + L U1    U2 = T2 R2    H <- b . H_ + (K1 b)^T U1 + K2^T U2
//     O1 = Q1 H_ + P1 U1               O2 = (Q2 b) H_ + L_Q U1 + P2 U2
//
// b, what decays between the parts' anchors, is a power of two, and the tiles of E2, Q2 and K1 hold it already (anchor_of,
// make_link); of a channel that forgets within a part it is 0 where it should be. So all four products with H_ have the same
// left operand, both writes go one behind the other, and no decay needs a way of its own. What outputs need of the state,
// H_ and U, goes through shared memory as operands.
#ifndef DELTOP_CUDA_ERASE_PAIRS_H
#define DELTOP_CUDA_ERASE_PAIRS_H

#include "kernels/cuda/erase_pair_state.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The warpgroup that makes outputs.
template <class F>
ERASE_DEVICE void read_pairs(const erase_call &s, unsigned char *bytes, int head, int column,
                             int first, int last, int rings, view<bf16> o, int *marks) {
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
    ring_place ring = {rings}, turn = {map::HAND};
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
        // Twice where what rounding took off goes along: a loop, which costs others nothing.
#pragma unroll 1
        for (bool rest = false;; rest = true) {
            add_product(O[0], u[0], p[0]);
            add_product(O[1], u[0], linked);
            add_product(O[1], u[1], p[1]);
            if (rest || numbers[1] == 0)
                break;
            shared_take4(u[0], hand + map::U_REST + lane16);
            shared_take4(u[1], hand + map::U_REST + 1024 + lane16);
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

// With outputs a block leaves room for one of make_parts beside it: of shared memory by a ring of three (a longer one where there is
// none), of registers as if it had 512 threads; without outputs two blocks share a multiprocessor. Both are launched with
// PAIR_REGISTERS a thread, which warpgroups share out: those with the state, outputs, others.
enum {
    PAIR_REGISTERS = 128,
    STATE_REGISTERS = 232,
    READ_REGISTERS = 112,
    REST_REGISTERS = 40,
    END_STATE_REGISTERS = 208, // without outputs
    END_REST_REGISTERS = 48
};
// Else the state's warps wait for ever.
static_assert(STATE_REGISTERS + READ_REGISTERS + REST_REGISTERS <= 3 * PAIR_REGISTERS &&
                  END_STATE_REGISTERS + END_REST_REGISTERS <= 2 * PAIR_REGISTERS,
              "shares of a block's registers");

// Blocks: as `march` has them, from segment `from` on; segments and chunks count parts, and are even. One warp multiplies what
// neighbours decay by into factors, one fetches. rings: pairs in the ring. Launched behind the scan it begins where there is room beside that, or the scan is through (wait_for_one_before).
template <class F, bool OUTPUTS>
__global__ void __launch_bounds__(OUTPUTS ? 512 : 256, OUTPUTS ? 1 : 2)
    march_pairs(erase_call s, const __grid_constant__ CUtensorMap v_map, const unsigned char *slots,
                view<float> state, view<bf16> o, int *marks, erase_segments seg, int rings) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef pair_map<F, OUTPUTS> map;
    SHARED_MEMORY(bytes);
    if (OUTPUTS && seg.from == 0)
        wait_for_one_before(); // the parts
    if (OUTPUTS)
        let_next_begin();
    uint64_t *full = (uint64_t *)(bytes + map::FULL), *scaled = (uint64_t *)(bytes + map::SCALED),
             *empty = (uint64_t *)(bytes + map::EMPTY);
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
    const int blocks = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS,
              tiles = blocks + (OUTPUTS ? 0 : (s.K + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
    const int h = blockIdx.x / tiles, tile = blockIdx.x % tiles, segment = seg.from + blockIdx.y;
    const bool transition = tile >= blocks;
    const int first = seg.begin(segment), last = min(seg.begin(segment + 1), s.chunks);
    const int width = transition ? s.K : s.V,
              column = (tile - (transition ? blocks : 0)) * MARCH_COLUMNS;
    auto stage_of = [&](int at) { return bytes + map::STAGES + at * map::STAGE; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < rings; i++) {
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
        for (int i = threadIdx.x; i < rings * map::VALUES / 16; i += 32 * map::WARPS)
            *(uint4 *)(stage_of(i / (map::VALUES / 16)) + i % (map::VALUES / 16) * 16) =
                make_uint4(0, 0, 0, 0);
    __syncthreads();
    // Registers go from those that fetch to those with the state.
    if (warp < map::STATE_WARPS) {
        registers_up<OUTPUTS ? STATE_REGISTERS : END_STATE_REGISTERS>();
        auto of_segment = [&](float *all, int i) {
            return all + ((int64_t)i * s.H + h) * s.K * width;
        };
        const float *start = segment == 0 ? state.row((int64_t)h * s.K)
                             : OUTPUTS    ? of_segment(seg.ends, segment - 1)
                                          : NULL;
        if (OUTPUTS && segment > 0)
            wait_for_one_before(); // the scan: what does not depend on it is being fetched meanwhile
        // With outputs, ends of segments between the first and the last were made before, and are being read.
        float *end_state = OUTPUTS && segment == seg.n - 1 ? state.row((int64_t)h * s.K)
                           : OUTPUTS && segment > 0
                               ? NULL
                               : of_segment(transition ? seg.transitions : seg.ends, segment);
        carry_pairs<F, OUTPUTS>(s, bytes, h, column, width, first, last, start,
                                segment == 0 ? state.ld : width, transition, end_state,
                                OUTPUTS && segment == seg.n - 1 ? state.ld : width, rings, marks);
        return;
    }
    if (OUTPUTS && warp < map::USERS) {
        registers_down<READ_REGISTERS>();
        read_pairs<F>(s, bytes, h, column, first, last, rings, o, marks);
        return;
    }
    registers_down<OUTPUTS ? REST_REGISTERS : END_REST_REGISTERS>();
    ring_place ring = {rings};
    if (warp == map::USERS) {
        carry_pair_factors<F, map>(full, scaled, stage_of(0), rings, first, last);
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
