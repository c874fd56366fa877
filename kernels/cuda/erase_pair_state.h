// kernels/cuda/erase_pair_state.h - the warpgroup of march_pairs (erase_pairs.h) that carries a state of 64 columns, and the warp that
// makes its factors. Compute capability 9.0 (90a).
//
// Its time is one chain, pair after pair: H_ is packed, multiplied by both tiles of E, R solved for U twice with the link between,
// and H takes K^T U. All else is done in the shadow of these products: values and factors of the next pair are fetched, H is
// multiplied by b, H_ handed over, and every PAIR_LOOK pairs its size looked at in what was packed.
#ifndef DELTOP_CUDA_ERASE_PAIR_STATE_H
#define DELTOP_CUDA_ERASE_PAIR_STATE_H

#include "kernels/cuda/erase_pair_map.h"

#define UNLIKELY(x) __builtin_expect(x, 0)

// Pairs between looks at the size of a state. What is found is applied a pair later, so that it is never older than LOOK parts.
enum { PAIR_LOOK = 3 };
static_assert(2 * PAIR_LOOK + 2 <= LOOK, "sizes are looked at often enough");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// A lane's numbers of H by factors of channels in their order, `by` on from its first.
template <int N> ERASE_DEVICE void scale_by(float (&H)[N], uint32_t by) {
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
        const float2 g = shared_float2(by + 32 * i);
        H[4 * i] *= g.x, H[4 * i + 1] *= g.y, H[4 * i + 2] *= g.x, H[4 * i + 3] *= g.y;
    }
}
// Where a channel's factor stands, so that a lane finds those of its channels four at a time.
ERASE_DEVICE int factor_place(int c) {
    return c / 16 * 16 + c / 2 % 4 * 4 + c / 8 % 2 * 2 + c % 2;
}
// A lane's factors; of 16 channels 64 bytes.
template <int N> ERASE_DEVICE void take_factors(float (&g)[N], uint32_t from) {
#pragma unroll
    for (int i = 0; i < N / 4; i++)
        shared_take4(*(float(*)[4])(g + 4 * i), from + 64 * i);
}
// The one of H[i].
template <int N> ERASE_DEVICE float lane_factor(const float (&g)[N], int i) {
    return g[i / 4 * 2 + i % 2];
}
// Values of 16 rows times a power of two, as what E H_ is taken from: products with a diagonal matrix, which are exact and need
// fewer instructions than turning bfloat16 numbers into floats.
ERASE_DEVICE void spread_values(float (&R)[8], const uint32_t (&x)[4], uint32_t diagonal) {
    const uint32_t b[3] = {diagonal, 0, diagonal}; // of eight rows, of the other eight
#pragma unroll
    for (int i = 0; i < 8; i++)
        R[i] = 0;
#pragma unroll
    for (int i = 0; i < 2; i++)
        mma_bf16(*(float(*)[4])(R + 4 * i), x, b + i);
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
// What a state is multiplied by before each pair, by one warp: from the second anchor of the pair before to its end, and on
// to the first anchor of this one.
template <class F, class map>
ERASE_DEVICE void carry_pair_factors(uint64_t *full, uint64_t *scaled, unsigned char *stages,
                                     int rings, int first, int last) {
    constexpr int MINE = F::K / 32; // channels of a lane
    const int lane = threadIdx.x % 32;
    float waiting[MINE];
#pragma unroll
    for (int i = 0; i < MINE; i++)
        waiting[i] = 1;
    ring_place ring = {rings};
    for (int part = first; part < last; part += 2, ring.step()) {
        mark_wait(full + ring.at, ring.parity);
        unsigned char *stage = stages + ring.at * map::STAGE, *own = stage + map::PART_AT;
        float *to = (float *)(stage + map::BEFORE);
        auto other_side = [&](const unsigned char *part, int i) {
            return ((const float *)(part + F::MIDDLE))[32 * i + lane];
        };
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            to[factor_place(32 * i + lane)] = waiting[i] * other_side(own, i);
            waiting[i] = other_side(own + map::NEXT, i);
        }
        arrive(scaled + ring.at);
    }
}

// What size_step (erase_march.h) makes of all lanes' `most` and a size of 2^log; log2 of it.
ERASE_DEVICE int size_shift(float most, int log) {
    const int bits = (int)__reduce_max_sync(~0u, __float_as_uint(most)), e = (bits >> 23) - 127;
    int shift = e > 4 ? 4 - e : e < LEAST_SIZE ? LEAST_SIZE - e : 0;
    if (bits == 0 || e == 128)
        shift = 0;
    return min(max(shift, -60 - log), 60 - log);
}
// The state: of a segment from `start` (or from zeros, or the identity) to `end_state`, if it is wanted.
template <class F, bool OUTPUTS>
ERASE_DEVICE void carry_pairs(const erase_call &s, unsigned char *bytes, int head, int column,
                              int width, int first, int last, const float *start, int64_t start_ld,
                              bool identity, float *end_state, int64_t end_ld, int rings,
                              int *marks) {
    typedef pair_map<F, OUTPUTS> map;
    constexpr int K = F::K, NEXT = map::NEXT, STEPS = K / 16;
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = held(threadIdx.x % 32),
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
    const uint32_t base = once(smem_address(bytes)), lane16 = once(lane * 16), channels = k0 * 4,
                   factors = lane % 4 * 16,
                   values = once(lane_row<false>() ^ (uint32_t)(warp * COLUMNS * 2));
    const bool first_lane = arrives(lane);
    ring_place ring = {rings}, turn = {map::HAND};
    // H, R and O stand times 2^log, which is about to change by 2^shift. diagonal: of 2^log, as a right operand.
    float out = s.scale;
    int log = 0, shift = 0, until = PAIR_LOOK;
    uint32_t diagonal = 0;
    auto resize = [&]() {
        log += shift;
        out = s.scale * power_of_two(-log);
        const uint32_t size = __float_as_uint(power_of_two(log)) >> 16;
        diagonal = (lane % 4 == lane / 8 ? size : 0) << 16 * (lane / 4 % 2);
    };
    resize();
    // What does not depend on a state comes while the pair before is under way: values (x, then R) and factors (a).
    float R[2][8], a[K / 4];
    uint32_t x[2][4];
    auto take_values_of = [&](const ring_place &place, bool there) {
        const uint32_t stage = base + map::STAGES + place.at * map::STAGE;
        if (!there)
            mark_wait_at(base + map::SCALED + 8 * place.at, place.parity);
#pragma unroll
        for (int i = 0; i < 2; i++)
            ldmatrix4_transposed_at(x[i], stage + i * VALUE_TILE + values);
    };
    auto begin_rows = [&]() {
        spread_values(R[0], x[0], diagonal);
        spread_values(R[1], x[1], diagonal);
    };
    auto take_factors_of = [&](const ring_place &place) {
        take_factors(a, base + map::STAGES + place.at * map::STAGE + map::BEFORE + factors);
    };
    auto largest_value = [&]() {
        __nv_bfloat162 most = {};
#pragma unroll
        for (int i = 0; i < 8; i++)
            most = __hmax2(most, __habs2(*(const __nv_bfloat162 *)&x[i / 4][i % 4]));
        return fmaxf(__low2float(most), __high2float(most)) * power_of_two(log);
    };
    // Of what is about to be packed, H times a (which may be 2^-26 of H): the first time, where what was packed of the state is
    // too small for fp16, and before it grows.
    auto look_closely = [&]() {
        float most = largest_value();
#pragma unroll
        for (int i = 0; i < K / 2; i++)
            most = fmaxf(most, fabsf(H[i] * lane_factor(a, i)));
        return size_shift(most, log);
    };
    bool closely = true;
    if (first < last) {
        take_values_of(ring, false);
        take_factors_of(ring);
        begin_rows();
    }
    for (int part = first; part < last; part += 2, turn.step()) {
        const uint32_t stage = base + map::STAGES + ring.at * map::STAGE,
                       tiles = stage + map::PART_AT, operands = tiles + lane16;
        if (UNLIKELY(closely || shift)) {
            if (closely)
                shift = look_closely();
            resize();
            const float step = power_of_two(shift);
#pragma unroll
            for (int i = 0; i < K / 2; i++)
                H[i] *= step;
#pragma unroll
            for (int i = 0; i < 16; i++)
                R[i / 8][i % 8] *= step;
            closely = false, shift = 0;
        }
        const uint32_t free = base + map::EMPTY + 8 * ring.at;
        const bool more = part + 2 < last;
        ring.step();
        // Asked early: an answer takes 50 cycles. Factors are there after all else is.
        const bool there = mark_try(base + map::SCALED + 8 * ring.at, ring.parity),
                   handed_before =
                       OUTPUTS && mark_try(base + map::FREE + 8 * turn.at, turn.parity ^ 1);
        uint32_t now[4 * STEPS];
#pragma unroll
        for (int i = 0; i < 4 * STEPS; i++) {
            H[2 * i] *= lane_factor(a, 2 * i), H[2 * i + 1] *= lane_factor(a, 2 * i + 1);
            now[i] = pack2(H[2 * i], H[2 * i + 1]);
        }
        // Before anything is asked for: a branch waits for all that is on its way from shared memory.
        if (OUTPUTS && !handed_before)
            mark_wait_at(base + map::FREE + 8 * turn.at, turn.parity ^ 1);
        uint32_t t[4], t_later[4], link[4], u[2][4], b[2 * STEPS];
        int flags;
        auto take_small = [&]() {
            shared_take4(t, operands + F::T);
            shared_take4(link, stage + map::LINK + lane16);
            shared_take4(t_later, operands + NEXT + F::T);
            flags = shared_int(tiles + F::FLAGS) | shared_int(tiles + NEXT + F::FLAGS);
#pragma unroll
            for (int i = 0; i < STEPS / 2; i++) {
                uint32_t four[4];
                shared_take4(four, stage + map::BETWEEN + factors + 64 * i);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    b[4 * i + k] = four[k];
            }
        };
        if (OUTPUTS) // behind what is handed over it would come late
            take_small();
        const uint64_t e = desc_k(tiles + F::E), e_later = e + NEXT / 16;
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            wgmma<16>::rs<0>(R[0], now + 4 * i, step_of<F>(e, i), 1);
        wgmma_commit();
        const uint32_t hand = base + map::HANDS + (turn.at * 4 + warp) * map::HAND_BYTES;
        if (OUTPUTS) {
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                const uint32_t y[4] = {now[4 * i], now[4 * i + 1], now[4 * i + 2], now[4 * i + 3]};
                shared_keep4(hand + lane16 + 512 * i, y);
            }
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            wgmma<16>::rs<0>(R[1], now + 4 * i, step_of<F>(e_later, i), 1);
        wgmma_commit();
        if (!OUTPUTS)
            take_small();
        if (more)
            take_values_of(ring, there);
        // While products are under way. Always so, but without a branch ptxas moves it to where H is needed; without outputs, with
        // one it waits for the products.
        if (!OUTPUTS || width > 0) {
#pragma unroll
            for (int i = 0; i < 2 * STEPS; i++) {
                const float2 g = two_bf16(b[i]);
                H[4 * i] *= g.x, H[4 * i + 1] *= g.y, H[4 * i + 2] *= g.x, H[4 * i + 3] *= g.y;
            }
        }
        wgmma_wait<1>();
        const bool two_terms = __any_sync(~0u, flags & TWO_TERMS);
        // U of R by T, and what its rounding took off.
        auto solve = [&](int i, const uint32_t(&t)[4], uint32_t(&rest)[4]) {
            float U[8] = {};
            uint32_t r[4];
            pack8(r, R[i]);
            add_product(U, r, t);
            if (UNLIKELY(two_terms)) {
                uint32_t more[4];
                shared_take4(more, operands + i * NEXT + F::T_REST);
                add_product(U, r, more);
                pack8_rest(more, R[i]);
                add_product(U, more, t);
                pack8_rest(rest, U);
            }
            pack8(u[i], U);
        };
        uint32_t rest[4], rest_later[4];
        solve(0, t, rest);
        wgmma_wait<0>();
        add_product(R[1], u[0], link);
        if (UNLIKELY(two_terms)) {
            add_product(R[1], rest, link);
            shared_take4(link, stage + map::LINK + 512 + lane16);
            add_product(R[1], u[0], link);
        }
        solve(1, t_later, rest_later);
        // H takes what the parts write; under way behind it.
        const uint64_t k = desc_mn(tiles + F::KK, F::PANEL), k_later = k + NEXT / 16;
        if (UNLIKELY(two_terms)) {
            wgmma_fence();
            wgmma<K>::template rs<1>(H, rest, k, 1);
            wgmma<K>::template rs<1>(H, rest_later, k_later, 1);
            wgmma_commit();
            wgmma_wait<0>();
        }
        wgmma_fence();
        wgmma<K>::template rs<1>(H, u[0], k, 1);
        wgmma<K>::template rs<1>(H, u[1], k_later, 1);
        wgmma_commit();
        if (OUTPUTS) {
            const uint32_t to = hand + map::U + lane16;
            shared_keep4(to, u[0]);
            shared_keep4(to + 1024, u[1]);
            if (UNLIKELY(two_terms)) {
                shared_keep4(to + 512, rest);
                shared_keep4(to + 1536, rest_later);
            }
            const float numbers[4] = {out, two_terms ? 1.0f : 0.0f, 0, 0};
            if (lane == 0)
                shared_keep4(hand + map::NUMBERS, numbers);
            __syncwarp();
            if (first_lane)
                mark_arrive_at(base + map::READY + 8 * turn.at);
        }
        if (more) {
            take_factors_of(ring);
            if (UNLIKELY(--until == 0)) {
                __half2 most[2];
#pragma unroll
                for (int i = 0; i < 4 * STEPS; i++) {
                    const __half2 y = __habs2(*(const __half2 *)&now[i]);
                    most[i % 2] = i < 2 ? y : __hmax2(most[i % 2], y);
                }
                const __half2 all = __hmax2(most[0], most[1]);
                const float packed = fmaxf(__low2float(all), __high2float(all));
                shift = size_shift(fmaxf(packed, largest_value()), log);
                // What this pair writes is not in it.
                closely = shift > 0 || !__any_sync(~0u, packed >= 0x1p-14f);
                until = PAIR_LOOK;
            }
            begin_rows(); // waits for what is under way: tensor cores do one thing behind the other
        }
        wgmma_wait<0>();
        __syncwarp();
        if (first_lane)
            mark_arrive_at(free);
    }
    // The last part's room is nobody else's.
    if (last > first) {
        const int place = (last - 2 - first) / 2 % rings;
        const uint32_t part = base + map::STAGES + place * map::STAGE + map::PART_AT + NEXT;
        scale_by(H, part + F::MIDDLE + channels);
    }
    float spoiled = 0; // NaN once anything was not finite
#pragma unroll
    for (int i = 0; i < K / 2; i++) {
        spoiled = fmaf(H[i], 0.0f, spoiled);
        if (end_state && channel(i) < s.K && value(i) < width)
            end_state[channel(i) * end_ld + value(i)] = H[i] * power_of_two(-log);
    }
    if (OUTPUTS)
        mark(marks, s, head, mine, spoiled);
}
#endif

#endif
