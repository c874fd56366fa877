// kernels/cuda/erase_parts.h - parts of 16 rows (erase_rows.h) by way of memory, where heads alone do not fill a device:
// `make_parts` makes all of a stretch side by side, to slots (part_form); `march_parts` carries states of
// ERASE_PAIR through them, also those of segments (erase_march.h); erase_pairs.h those of ERASE_KEY.
#ifndef DELTOP_CUDA_ERASE_PARTS_H
#define DELTOP_CUDA_ERASE_PARTS_H

#include "kernels/cuda/erase_fused.h"
#include "kernels/cuda/erase_link.h"

template <class F> constexpr int make_shared() {
    return PARTS * F::BYTES + 128;
}
// A block for each head (x) and PARTS parts (y), each the business of one warp.
// Of ERASE_KEY at most 128 registers a thread, so that a block fits in beside one of march_pairs.
template <class F>
__global__ void __launch_bounds__(FUSED_THREADS, F::PAIR ? 2 : 4)
    make_parts(erase_call s, part_inputs x, const __grid_constant__ part_maps maps,
               unsigned char *slots) {
    SHARED_MEMORY(stage);
    const int warp = threadIdx.x / 32, h = blockIdx.x;
    const int64_t part = (int64_t)blockIdx.y * PARTS + warp, t0 = part * PART;
    if (part / F::TOGETHER * F::TOGETHER * PART >= s.T)
        return; // the second of two is made in any case: of rows of zeros it leaves a state alone
    unsigned char *own = stage + warp * F::BYTES;
    uint64_t *barrier = (uint64_t *)(stage + PARTS * F::BYTES) + warp;
    stretch_init(barrier, threadIdx.x % 32 == 0);
    __syncwarp();
    fetch_part<F, false>(s, x, maps, smem_address(own), 0, barrier, h, h / (s.H / s.Hk), 0, t0);
    const float beta = take_beta<F>(s, h, t0);
    part_wait(barrier, 0);
    const int second = warp % F::TOGETHER;
    make_part<F>(own, beta, second);
    if (F::TOGETHER == 2) {
        pair_wait(1 + warp / 2);
        if (second)
            make_link<F>(own);
        pair_wait(1 + warp / 2); // it has changed the first one, too
    }
    __syncwarp();
    stretch_keep(slots + (part / F::TOGETHER * s.H + h) * F::SLOTS + second * F::SLOT, own,
                 second ? F::LINKED : F::SLOT);
    // What is next in the stream waits for this kernel, and needs the one before it, too.
    if (blockIdx.y + 1 == gridDim.y)
        wait_for_one_before();
}

// Warps: two carry the state of 16 columns, half of the channels each; one makes their outputs; one makes factors, and one
// fetches.
enum {
    GROUPS = MARCH_WARPS,
    STATE_WARPS = 2 * GROUPS,
    HAND = 2 // parts that a state may be ahead of outputs
};

// Shared memory: barriers; a ring: 16 rows of values, what is fetched of a slot, and what the state is multiplied by before
// it; sums that halves of a state tell each other; of each 16 columns, what the state hands to outputs: H_ and U as operands,
// what U's rounding took off, numbers.
template <class F, bool OUTPUTS> struct ring_map {
    static constexpr int WARPS = STATE_WARPS + (OUTPUTS ? GROUPS : 0) + 2, RING = 6;
    static constexpr int FULL = 0, SCALED = FULL + 8 * RING, EMPTY = SCALED + 8 * RING,
                         READY = EMPTY + 8 * RING, FREE = READY + 8 * GROUPS * HAND,
                         BARRIERS_END = FREE + 8 * GROUPS * HAND, STAGES = 1024;
    static constexpr int FROM = OUTPUTS ? 0 : F::E,
                         SLOT = (OUTPUTS ? F::SLOT : F::OUTPUTS_ONLY) - FROM,
                         PART_AT = VALUE_TILE - FROM, // where a part would begin
        BEFORE = VALUE_TILE + SLOT, STAGE = (BEFORE + 4 * F::K + 1023) / 1024 * 1024;
    static constexpr int SUMS = STAGES + RING * STAGE,
                         SUM = 32 * 32, // of a warp; two parts by turns
        LARGEST = SUMS + 2 * STATE_WARPS * SUM, HANDS = LARGEST + 128, H = 0, U = F::K / 16 * 512,
                         U_REST = U + 512, NUMBERS = U_REST + 512, HAND_BYTES = NUMBERS + 16,
                         BYTES = HANDS + (OUTPUTS ? GROUPS * HAND * HAND_BYTES : 0);
    static_assert(BARRIERS_END <= STAGES && HAND_BYTES % 16 == 0, "room for barriers");
};

// Where a warp stands in a ring of n: place, and parity of the times it has come by.
struct ring_place {
    int n, at = 0;
    uint32_t parity = 0;
    ERASE_DEVICE void step() {
        if (++at == n)
            at = 0, parity ^= 1;
    }
};
// Every lane is done with what the barrier is for.
ERASE_DEVICE void arrive(uint64_t *barrier) {
    __syncwarp();
    if (arrives(threadIdx.x % 32))
        mark_arrive(barrier);
}
// What a state is multiplied by before each part, by one warp. stages: the ring.
template <class F, class map>
ERASE_DEVICE void carry_factors(uint64_t *full, uint64_t *scaled, unsigned char *stages, int first,
                                int last) {
    constexpr int MINE = F::K / 32; // channels of a lane
    float waiting[MINE];            // 2^c of the part before, or 1
#pragma unroll
    for (int i = 0; i < MINE; i++)
        waiting[i] = 1;
    ring_place ring = {map::RING};
    for (int part = first; part < last; part++, ring.step()) {
        mark_wait(full + ring.at, ring.parity);
        unsigned char *stage = stages + ring.at * map::STAGE;
        factor_before<F>(waiting, stage + map::PART_AT, (float *)(stage + map::BEFORE));
        arrive(scaled + ring.at);
    }
}
ERASE_DEVICE void take_operand(uint32_t (&x)[4], const unsigned char *from) {
    const uint4 y = operand(from);
    x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
}

// What a warp that carries half a state, of channels half * K / 2 .., needs to know of itself: offsets into a stage, and
// addresses.
template <class F, class map> struct half_places {
    uint32_t rows, cols, values, before, middle, operands, sums, other;
    int group, half;
    ERASE_DEVICE half_places(uint32_t base, int of_group, int of_half) {
        const uint32_t lane = threadIdx.x % 32;
        group = of_group, half = of_half;
        // Half a panel.
        auto my_half = [&](uint32_t row) {
            return (uint32_t)map::PART_AT + (row ^ (uint32_t)(half * F::K));
        };
        rows = once(my_half(lane_row<true>()));
        cols = once(my_half(lane_row<false>()));
        values = once(lane_row<false>() ^ (uint32_t)(group * COLUMNS * 2));
        const uint32_t channels = lane % 4 * 8 + half * F::K * 2;
        before = once(map::BEFORE + channels);
        middle = once((uint32_t)(map::PART_AT + F::MIDDLE) + channels);
        operands = once((uint32_t)map::PART_AT + lane * 16);
        sums = once(base + map::SUMS + (2 * group + half) * map::SUM + lane * 16);
        other = once(base + map::SUMS + (2 * group + (half ^ 1)) * map::SUM + lane * 16);
    }
};

template <int N> ERASE_DEVICE void scale_state_at(float (&H)[N][4], uint32_t by) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float2 g = shared_float2(by + 32 * i);
        H[i][0] *= g.x, H[i][1] *= g.y, H[i][2] *= g.x, H[i][3] *= g.y;
    }
}

// Half a state through one part. turn: 0 or 1, by turns. hand(h, u, rest, flags) is called with H_ packed and U.
template <class F, class map, class Hand>
ERASE_DEVICE void carry_state(part_state<F::K / 2> &s, const half_places<F, map> &at,
                              uint32_t stage, int turn, Hand hand) {
    constexpr int STEPS = F::K / 32, PARTS_SUMS = STATE_WARPS * map::SUM;
    float R[2][4] = {};
    uint32_t v[4], h[STEPS][4];
    {
        float V[2][4];
        take_values(stage + at.values, s.size, V);
        pack4(v, V[0], V[1]);
    }
    scale_state_at(s.H, stage + at.before);
    const int flags = shared_int(stage + (uint32_t)(map::PART_AT + F::FLAGS));
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        uint32_t e[4];
        pack4(h[i], s.H[2 * i], s.H[2 * i + 1]);
        ldmatrix4_at(e, at_step(stage + at.cols, i) + F::E);
        multiply_at(R[0], h[i], e[0], e[1]);
        multiply_at(R[1], h[i], e[2], e[3]);
    }
    if (at.half == 0) {
        uint32_t f[4];
        shared_take4(f, stage + at.operands + F::S_K);
        multiply_at(R[0], v, f[0], f[2]);
        multiply_at(R[1], v, f[1], f[3]);
    }
    shared_keep4(at.sums + turn * PARTS_SUMS, R[0]);
    shared_keep4(at.sums + turn * PARTS_SUMS + 512, R[1]);
    uint32_t t[4], z[STEPS][4];
    shared_take4(t, stage + at.operands + F::T);
    pair_wait(1 + at.group);
    // Either half comes to the same numbers.
    float theirs[2][4];
    shared_take4(theirs[0], at.other + turn * PARTS_SUMS);
    shared_take4(theirs[1], at.other + turn * PARTS_SUMS + 512);
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        ldmatrix4_transposed_at(z[i], at_step(stage + at.rows, i) + F::A);
#pragma unroll
    for (int i = 0; i < 8; i++)
        R[i / 4][i % 4] += theirs[i / 4][i % 4];
    float U[2][4] = {};
    uint32_t u[4], r[4], rest[4] = {};
    pack4(r, R[0], R[1]);
    multiply_at(U[0], r, t[0], t[2]);
    multiply_at(U[1], r, t[1], t[3]);
    const bool usual = __all_sync(~0u, flags == 0);
    if (!usual) {
        if (flags & STRONG)
            scale_state_at(s.H, stage + at.middle);
        if (flags & TWO_TERMS) {
            uint32_t t_rest[4];
            shared_take4(t_rest, stage + at.operands + F::T_REST);
            multiply_at(U[0], r, t_rest[0], t_rest[2]);
            multiply_at(U[1], r, t_rest[1], t_rest[3]);
            pack4_rest(rest, r, R[0], R[1]);
            multiply_at(U[0], rest, t[0], t[2]);
            multiply_at(U[1], rest, t[1], t[3]);
        }
    }
    auto write = [&](const uint32_t(&x)[4]) {
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            multiply_at(s.H[2 * i], x, z[i][0], z[i][1]);
            multiply_at(s.H[2 * i + 1], x, z[i][2], z[i][3]);
        }
    };
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        uint32_t k[4];
        ldmatrix4_transposed_at(k, at_step(stage + at.rows, i) + F::KK);
        multiply_at(s.H[2 * i], v, k[0], k[1]);
        multiply_at(s.H[2 * i + 1], v, k[2], k[3]);
    }
    pack4(u, U[0], U[1]);
    write(u);
    if (!usual && (flags & TWO_TERMS)) {
        pack4_rest(rest, u, U[0], U[1]);
        write(rest);
    }
    hand(h, u, rest, flags);
}

// Outputs of the part for the warp's columns, times the state's size, from what was handed over.
template <class F, class map>
ERASE_DEVICE void make_outputs(const unsigned char *part, uint32_t values,
                               const unsigned char *hand, float size, int flags, float (&O)[2][4]) {
    const uint32_t rows = smem_address(part) + lane_row<true>();
#pragma unroll
    for (int i = 0; i < 8; i++)
        O[i / 4][i % 4] = 0;
    auto add = [&](const uint32_t(&q)[4], const uint32_t(&x)[4]) {
        multiply_at(O[0], q, x[0], x[2]);
        multiply_at(O[1], q, x[1], x[3]);
    };
#pragma unroll
    for (int i = 0; i < F::K / 16; i++) {
        uint32_t q[4], h[4];
        ldmatrix4_at(q, at_step(rows, i) + F::Q);
        take_operand(h, hand + map::H + 512 * i);
        add(q, h);
    }
    uint32_t p[4], u[4];
    take_operand(p, part + F::P);
    take_operand(u, hand + map::U);
    add(p, u);
    if (flags & TWO_TERMS) {
        take_operand(u, hand + map::U_REST);
        add(p, u);
    }
    float V[2][4];
    take_values(values, size, V);
    pack4(u, V[0], V[1]);
    take_operand(p, part + F::P_K);
    add(p, u);
}

// Blocks: as `march` has them, from segment `from` on; per and chunks count parts. For devices of compute capability 9.0.
template <class F, bool OUTPUTS>
__global__ void __launch_bounds__(32 * ring_map<F, OUTPUTS>::WARPS, OUTPUTS ? 1 : 2)
    march_parts(erase_call s, const __grid_constant__ CUtensorMap v_map, const unsigned char *slots,
                view<float> state, view<bf16> o, int *marks, erase_segments seg) {
    static_assert(F::PAIR && F::K == 64, "halves of a panel");
    typedef ring_map<F, OUTPUTS> map;
    SHARED_MEMORY(bytes);
    if (OUTPUTS)
        let_next_begin();
    uint64_t *full = (uint64_t *)(bytes + map::FULL), *scaled = (uint64_t *)(bytes + map::SCALED),
             *empty = (uint64_t *)(bytes + map::EMPTY);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int blocks = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS,
              tiles = blocks + (OUTPUTS ? 0 : (s.K + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
    const int h = blockIdx.x / tiles, tile = blockIdx.x % tiles, segment = seg.from + blockIdx.y;
    const bool transition = tile >= blocks;
    const int first = seg.begin(segment), last = min(seg.begin(segment + 1), s.chunks);
    const int width = transition ? s.K : s.V;
    const int column = (tile - (transition ? blocks : 0)) * MARCH_COLUMNS, group = warp % GROUPS,
              mine = column + group * COLUMNS;
    auto stage_of = [&](int at) { return bytes + map::STAGES + at * map::STAGE; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < map::RING; i++) {
            mark_init(full + i, 1);
            mark_init(scaled + i, 1);
            mark_init(empty + i, map::WARPS - 2);
        }
        for (int i = 0; i < GROUPS * HAND; i++) {
            mark_init((uint64_t *)(bytes + map::READY) + i, 2);
            mark_init((uint64_t *)(bytes + map::FREE) + i, 1);
        }
        marks_ready();
    }
    if (transition) // has no values
        for (int i = threadIdx.x; i < map::RING * VALUE_TILE / 16; i += 32 * map::WARPS)
            *(uint4 *)(stage_of(i / (VALUE_TILE / 16)) + i % (VALUE_TILE / 16) * 16) =
                make_uint4(0, 0, 0, 0);
    __syncthreads();
    ring_place ring = {map::RING};
    if (warp == map::WARPS - 1) {
        const unsigned char *slot = slots + ((int64_t)first * s.H + h) * F::SLOT + map::FROM;
        for (int part = first; part < last; part++, ring.step()) {
            mark_wait(empty + ring.at, ring.parity ^ 1);
            unsigned char *stage = stage_of(ring.at);
            fetch_slot(full + ring.at, stage + VALUE_TILE, slot, map::SLOT, stage, v_map,
                       !transition, h, column, part * PART);
            slot += (int64_t)s.H * F::SLOT;
        }
        // What is next in the stream waits for this kernel, and needs the one before it, too.
        if (!OUTPUTS && blockIdx.y + 1 == gridDim.y)
            wait_for_one_before();
        return;
    }
    if (warp == map::WARPS - 2) {
        carry_factors<F, map>(full, scaled, stage_of(0), first, last);
        return;
    }
    const uint32_t own_values = lane_row<false>() ^ (uint32_t)(group * COLUMNS * 2);
    ring_place turn = {HAND};
    auto of_hand = [&](int what) { return (uint64_t *)(bytes + what) + group * HAND + turn.at; };
    auto hand_of = [&]() {
        return bytes + map::HANDS + (group * HAND + turn.at) * map::HAND_BYTES;
    };
    if (OUTPUTS && warp >= STATE_WARPS) {
        const bool pairs = in_pairs(s, o, mine);
        bf16 *to = o.row((int64_t)first * PART) + (int64_t)h * s.V + mine;
        float spoiled = 0;
        for (int part = first; part < last; part++, ring.step(), turn.step()) {
            mark_wait(full + ring.at, ring.parity);
            mark_wait(of_hand(map::READY), turn.parity);
            const unsigned char *stage = stage_of(ring.at), *hand = hand_of();
            const float4 numbers = *(const float4 *)(hand + map::NUMBERS);
            float O[2][4];
            make_outputs<F, map>(stage + map::PART_AT, smem_address(stage) + own_values, hand,
                                 numbers.y, (int)numbers.z, O);
            arrive(of_hand(map::FREE));
            arrive(empty + ring.at);
            put_outputs(spoiled, O, numbers.x, to, o.ld,
                        (int)min((int64_t)PART, s.T - (int64_t)part * PART), s.V - mine, pairs);
            to += PART * o.ld;
        }
        mark(marks, s, h, mine, spoiled);
        return;
    }
    auto of_segment = [&](float *all, int i) { return all + ((int64_t)i * s.H + h) * s.K * width; };
    const float *start = segment == 0 ? state.row((int64_t)h * s.K)
                         : OUTPUTS    ? of_segment(seg.ends, segment - 1)
                                      : NULL;
    const int64_t start_ld = segment == 0 ? state.ld : width;
    constexpr int HALF = F::K / 2;
    const int half = warp / GROUPS;
    part_state<HALF> m;
    m.size = 1, m.spoiled = 0;
    each_of_state<HALF>(mine, half * HALF, [&](int i, int j, int k, int c) {
        m.H[i][j] = k >= s.K || c >= width ? 0.0f
                    : start                ? start[k * start_ld + c]
                                           : transition && k == c;
    });
    const uint32_t base = smem_address(bytes), lane16 = once(lane * 16);
    const half_places<F, map> places(base, group, half);
    const uint32_t hands = once(base + map::HANDS + group * HAND * map::HAND_BYTES + lane16),
                   barriers = once(base), of_group = once(base + 8 * group * HAND);
    const bool first_lane = lane == 0, arriving = arrives(lane);
    float out = 0;
    for (int part = first; part < last; part++, ring.step(), turn.step()) {
        // The factors are made behind the fetch.
        mark_wait_at(barriers + map::SCALED + 8 * ring.at, ring.parity);
        const uint32_t stage = base + map::STAGES + ring.at * map::STAGE;
        if ((part - first) % LOOK == 0) {
            float x[2][4];
            take_values(stage + places.values, m.size, x);
            float most = largest_of(m, x), *all = (float *)(bytes + map::LARGEST);
            for (int d = 16; d; d >>= 1)
                most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
            if (lane == 0)
                all[warp] = most;
            pair_wait(1 + group);
            resize(m, fmaxf(all[group], all[group + GROUPS]));
            out = s.scale / m.size;
        }
        auto hand_over = [&](const uint32_t(&packed)[HALF / 16][4], const uint32_t(&u)[4],
                             const uint32_t(&rest)[4], int flags) {
            if (!OUTPUTS)
                return;
            mark_wait_at(of_group + map::FREE + 8 * turn.at, turn.parity ^ 1);
            const uint32_t hand = hands + turn.at * map::HAND_BYTES;
#pragma unroll
            for (int i = 0; i < HALF / 16; i++)
                shared_keep4(hand + map::H + 512 * (half * (HALF / 16) + i), packed[i]);
            if (half == 0) {
                shared_keep4(hand + map::U, u);
                shared_keep4(hand + map::U_REST, rest);
                if (first_lane) {
                    const float numbers[4] = {out, m.size, (float)flags, 0};
                    shared_keep4(hand + map::NUMBERS, numbers);
                }
            }
            __syncwarp();
            if (arriving)
                mark_arrive_at(of_group + map::READY + 8 * turn.at);
        };
        carry_state<F, map>(m, places, stage, part & 1, hand_over);
        __syncwarp();
        if (arriving)
            mark_arrive_at(barriers + map::EMPTY + 8 * ring.at);
    }
    // The last part's room is nobody else's.
    const int end = (last - 1 - first) % map::RING;
    const unsigned char *stage = last > first ? stage_of(end) : NULL;
    if (stage && !(*(const int *)(stage + map::PART_AT + F::FLAGS) & STRONG))
        scale_state(m.H, stage + map::PART_AT + F::MIDDLE + half * HALF * 4);
    float *end_state = seg.n == 1 ? state.row((int64_t)h * s.K)
                                  : of_segment(transition ? seg.transitions : seg.ends, segment);
    const int64_t end_ld = seg.n == 1 ? state.ld : width;
    each_of_state<HALF>(mine, half * HALF, [&](int i, int j, int k, int c) {
        m.spoiled = fmaf(m.H[i][j], 0.0f, m.spoiled);
        if (k < s.K && c < width)
            end_state[k * end_ld + c] = m.H[i][j] / m.size;
    });
    if (OUTPUTS)
        mark(marks, s, h, mine, m.spoiled);
}

#endif
