// kernels/cuda/delta_state.h - the two warpgroups of delta.cu that hold the state: each 64 of a block's
// 128 columns of values, as H^T [64 values, 128 channels] in float32 accumulators.
//
// Per chunk (kernels/cuda/delta.cu), transposed so that the state is always the left operand:
//     U^T = H^T K^T      R = V - from_start U      W^T = R^T (diag(beta) M^T)
//     H^T <- end H^T + (to_end W)^T K              O^T = query H^T Q^T + W^T P0^T
// No product of this chain touches shared memory on its left side, and no result returns to it.
//
// The order of instructions is part of the design: accumulators that live through the loop are only
// touched while no product is under way, or the compiler serialises all products.
#ifndef DELTOP_CUDA_DELTA_STATE_H
#define DELTOP_CUDA_DELTA_STATE_H

#include "kernels/cuda/delta_kept.h"

// H^T as an A operand in bf16, like keys and queries.
HOPPER_DEVICE void state_pack(const float (&h)[64], uint32_t (&packed)[32]) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        packed[i] = pack_bf16(h[2 * i], h[2 * i + 1]);
}

// A chunk's values and from_start as this lane needs them for R, fetched while U is being made.
struct state_values {
    uint32_t v[4][4];
    float from_start[8][2];
};
// v: this lane's row of V for ldmatrix, in the panel of this warpgroup's 64 values; w: its first pair of from_start.
template <bool gated>
HOPPER_DEVICE void fetch_values(state_values &x, uint32_t v, bool values, uint32_t w) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            x.v[j][e] = 0;
        if (values)
            ldmatrix_transposed(x.v[j], v + 2048 * j);
    }
    if constexpr (gated)
#pragma unroll
        for (int j = 0; j < 8; j++)
            load_pair(x.from_start[j], w + 32 * j);
}

// R^T = V^T - from_start U^T.
template <bool gated>
HOPPER_DEVICE void state_residual(const float (&u)[32], const state_values &x, uint32_t (&r)[16]) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float g0 = gated ? x.from_start[j][0] : 1.0f, g1 = gated ? x.from_start[j][1] : 1.0f;
        const float *p = u + 4 * j;
        const uint32_t *v = x.v[j / 2] + 2 * (j % 2);
        r[2 * j] = pack_half(lower_bf16(v[0]) - g0 * p[0], upper_bf16(v[0]) - g1 * p[1]);
        r[2 * j + 1] = pack_half(lower_bf16(v[1]) - g0 * p[2], upper_bf16(v[1]) - g1 * p[3]);
    }
}

// What the chunk writes, W^T, as A operands: w in fp16 for the outputs; r, times to_end, in bf16 for the state. to_end:
// this lane's pairs of rows. r follows from w, so that the accumulator is free when the products begin; its product is
// float32's, since fp16 would lose what has decayed below 2^-14 (and small values long before that).
template <bool gated> HOPPER_DEVICE float2 state_ended(float2 w, const float (&to_end)[2]) {
    return gated ? make_float2(to_end[0] * w.x, to_end[1] * w.y) : w;
}
template <bool gated, bool output>
HOPPER_DEVICE void state_writes(const float (&u)[32], const float (&to_end)[8][2],
                                uint32_t (&r)[16], uint32_t (&w)[16]) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        float2 x = make_float2(u[2 * i], u[2 * i + 1]);
        if constexpr (output) {
            w[i] = pack_half(x.x, x.y);
            x = unpack_half(w[i]);
        }
        x = state_ended<gated>(x, to_end[i / 2]);
        r[i] = pack_bf16(x.x, x.y);
    }
}
// What the state loses by the rounding of r.
template <bool gated, bool output>
HOPPER_DEVICE void state_rest(const float (&u)[32], const float (&to_end)[8][2],
                              uint32_t (&r)[16]) {
    uint32_t high[16], w[16];
    state_writes<gated, output>(u, to_end, high, w);
#pragma unroll
    for (int i = 0; i < 16; i++) {
        float2 x = output ? unpack_half(w[i]) : make_float2(u[2 * i], u[2 * i + 1]);
        x = state_ended<gated>(x, to_end[i / 2]);
        r[i] = pack_bf16(x.x - lower_bf16(high[i]), x.y - upper_bf16(high[i]));
    }
}

// O^T (values in rows, queries in columns) times scale, for the warpgroup that feeds to take: this warp's 16 values, two
// pieces, of every query.
template <int queries>
HOPPER_DEVICE void state_hand_over(const float (&acc)[queries / 2], float scale, uint32_t o,
                                   int warp, int lane) {
    lane = here(lane);
    // Matrices of a store: queries 8 b .. 8 b + 7 and the next eight, of each the values 0-7 and 8-15.
    const int piece = 2 * warp + (lane >> 3 & 1), row = 8 * (lane / 16) + (lane & 7);
    const uint32_t to = o + output_place<queries>(row, piece);
#pragma unroll
    for (int j = 0; 16 * j < queries; j++) {
        const int b = 2 * j,
                  c = b + 1 < queries / 8 ? b + 1 : b; // of a single 8 queries both halves
        stmatrix_transposed(to + 16 * 128 * j - (c > b ? 0 : 128 * (row & 8)),
                            pack_bf16(scale * acc[4 * b], scale * acc[4 * b + 1]),
                            pack_bf16(scale * acc[4 * b + 2], scale * acc[4 * b + 3]),
                            pack_bf16(scale * acc[4 * c], scale * acc[4 * c + 1]),
                            pack_bf16(scale * acc[4 * c + 2], scale * acc[4 * c + 3]));
    }
}

// U^T = H^T K^T, committed.
HOPPER_DEVICE void state_keys(float (&u)[32], const uint32_t (&packed)[32], uint32_t k) {
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < 8; j++)
        wgmma<64, bf16>::rs<0>(u, packed + 4 * j, desc_k(k + (j / 4) * PANEL) + 2 * (j % 4), j > 0);
    wgmma_commit();
}

// H^T to H at `to`, the warpgroup's first column, as far as K and `width` go; warp: of the warpgroup.
HOPPER_DEVICE void state_store(const float (&h)[64], float *to, int64_t ld, int K, int width,
                               int warp, int lane) {
    const int value = 16 * warp + lane / 4;
    to += 2 * (lane % 4) * ld + value;
#pragma unroll
    for (int block = 0; block < 16; block++, to += 8 * ld) {
        if (8 * block >= K)
            break;
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (value + 8 * e < width) {
                to[8 * e] = h[4 * block + 2 * e];
                to[ld + 8 * e] = h[4 * block + 2 * e + 1];
            }
    }
}

// The loop begins with U of its chunk made: the products with the queries hide the packing of W, and U of
// the next chunk hides the writing of outputs. Behind the last chunk U is made of what lies in the stage.
// boundaries: states are written where chunks begin that are a multiple of so many. segmented: not all rows are whole.
template <int queries, bool gated, bool output, bool boundaries, bool segmented>
HOPPER_DEVICE void delta_state(const delta_call &s, const delta_task &task, delta_shared *m) {
    const int warp = held(threadIdx.x / 32 - 4), part = warp / 4,
              lane = held(threadIdx.x % 32); // warps 0-7
    const int first = 16 * warp + lane / 4;  // this thread's first value, in the block
    const int width = (task.kind == TASK_TRANSITION ? s.K : s.V - task.block * WIDTH) - 64 * part;
    const bool values = task.kind != TASK_TRANSITION;
    if (segmented && task.waits)
        wait_for_kernel_before();
    float h[64];
    if (segmented && output && task.from_ld == 0 && width > 0)
        kept_load(h, task.from + (2 * task.block + part) * STATE, 1, warp % 4, lane);
    else
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int value = first + 8 * (i / 2 % 2),
                      channel = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
            h[i] = 0;
            if (output) {
                if (value - 64 * part < width && channel < s.K)
                    h[i] = task.from[channel * task.from_ld + task.block * WIDTH + value];
            } else if (task.kind == TASK_TRANSITION)
                h[i] = value == channel ? 1.0f : 0.0f;
        }
    // No registers are left for a pointer that moves on, nor for a count.
    auto before_chunk = [&](int i) {
        const int chunk = m->first + i, n = chunk / s.apart;
        if (chunk == n * s.apart)
            state_store(h, m->boundary + n * ((int64_t)s.H * s.K * s.ldstates) + 64 * part,
                        s.ldstates, s.K, width, here(warp) % 4, here(lane));
    };
    if constexpr (boundaries)
        before_chunk(0);
    uint32_t packed[32];
    state_pack(h, packed);
    const float scale = gated ? 1.0f : s.scale;
    barrier_wait(&m->k_full[0], 0);
    if constexpr (gated) {
        const float end = m->gates[0].end;
#pragma unroll
        for (int i = 0; i < 64; i++)
            h[i] *= end;
    }
    const int chunks = task.last - task.first;
    // What the chunk needs besides keys; waited for while U is being made.
    state_values rest;
    auto wait_for_rest = [&](int i) {
        if constexpr (output)
            barrier_wait(&m->q_full[i % QUERIES], (i / QUERIES) & 1);
        if (values)
            barrier_wait(&m->v_full[i % VALUES], (i / VALUES) & 1);
    };
    auto fetch_rest = [&](int i) {
        // With outputs there are no registers to keep these in from chunk to chunk.
        const int own = output ? here(lane) : lane, owner = output ? here(warp) : warp;
        const uint32_t v_lane = owner / 4 * PANEL + swizzle(8 * (own / 16) + (own & 7),
                                                            2 * (owner % 4) + ((own >> 3) & 1));
        fetch_values<gated>(rest, shared_address(m->v[i % VALUES]) + v_lane, values,
                            shared_address(m->gates[i % KEYS].from_start) + 8 * (own % 4));
    };
    float u[32];
    state_keys(u, packed, shared_address(m->k[0]));
    wait_for_rest(0);
    if constexpr (!output)
        fetch_rest(0);
    wgmma_wait<0>();
    for (int i = 0; i < chunks; i++) {
        const int slot = i % MADE, made = (i / MADE) & 1;
        const int ks = i % KEYS, next = (i + 1) % KEYS, vs = i % VALUES;
        const delta_gates *g = &m->gates[ks];
        const int pair = 2 * ((output ? here(lane) : lane) % 4);
        const uint32_t k = shared_address(m->k[ks]), q = shared_address(m->q[i % QUERIES]),
                       inverse = shared_address(m->m[slot]),
                       second = shared_address(second_term<output>(m, slot)),
                       p = shared_address(m->p);
        float acc[queries / 2];
        uint32_t r[16];
        float to_end[8][2];
        if constexpr (output)
            fetch_rest(i);
        state_residual<gated>(u, rest, r);
        if (values) {
            __syncwarp();
            if (arrives(lane))
                barrier_arrive(&m->v_empty[vs]);
        }
        barrier_wait(&m->m_full[slot], made);
        const bool hard = m->hard[slot][0];
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; j++)
            wgmma<64>::rs<1>(u, r + 4 * j, desc_mn(inverse, PANEL) + 128 * j, j > 0);
        wgmma_commit();
        if (__builtin_expect(hard, 0)) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                wgmma<64>::rs<1>(u, r + 4 * j, desc_mn(second, PANEL) + 128 * j, 1);
            wgmma_commit();
        }
        auto fetch_to_end = [&](int from) { // half of it: there are no registers for all at once
            if constexpr (gated)
#pragma unroll
                for (int j = from; j < from + 4; j++)
                    load_pair(to_end[j], shared_address(g->to_end) + 4 * (pair + 8 * j));
        };
        fetch_to_end(0);
        const bool precise = hard || g->precise;
        float end = 1;
        if (i + 1 < chunks) {
            barrier_wait(&m->k_full[next], ((i + 1) / KEYS) & 1);
            if constexpr (gated)
                end = m->gates[next].end;
        }
        wgmma_wait<0>();
        __syncwarp();
        if (arrives(lane)) {
            // To the block whose makers fill the slot.
            if (!output && task.peers == 2)
                barrier_arrive_peer(peer_address(shared_address(&m->made_empty[slot]), slot));
            else
                barrier_arrive(&m->made_empty[slot]);
        }
        if (__builtin_expect(precise, 0)) {
            fetch_to_end(4);
            state_rest<gated, output>(u, to_end, r);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < 4; j++)
                wgmma<128, bf16>::rs<1>(h, r + 4 * j, desc_mn(k, PANEL) + 128 * j, 1);
            wgmma_commit();
            wgmma_wait<0>();
        }
        wgmma_fence();
        if constexpr (output) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                wgmma<queries, bf16>::template rs<0>(
                    acc, packed + 4 * j, desc_k(q + (j / 4) * queries * 128) + 2 * (j % 4), j > 0);
            wgmma_commit();
        }
        fetch_to_end(4);
        uint32_t w[16];
        state_writes<gated, output>(u, to_end, r, w);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; j++)
            wgmma<128, bf16>::rs<1>(h, r + 4 * j, desc_mn(k, PANEL) + 128 * j, 1);
        wgmma_commit();
        if constexpr (output) {
            if constexpr (gated) {
                float f[queries / 8][2];
#pragma unroll
                for (int b = 0; b < queries / 8; b++)
                    load_pair(f[b], shared_address(g->query) + 4 * (pair + 8 * b));
                wgmma_wait<1>(); // the queries' first product
#pragma unroll
                for (int b = 0; b < queries / 8; b++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        acc[4 * b + e] *= f[b][e % 2];
            }
            barrier_wait(&m->p_full, i & 1);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < 4; j++)
                wgmma<queries>::template rs<1>(acc, w + 4 * j, desc_mn(p, PANEL) + 128 * j, 1);
            wgmma_commit();
        }
        if constexpr (output)
            wgmma_wait<1>();
        else
            wgmma_wait<0>();
        __syncwarp();
        if (arrives(lane)) {
            barrier_arrive(&m->k_empty[ks]); // H has taken the keys
            if (output)
                barrier_arrive(&m->q_empty[i % QUERIES]); // what came before it the queries
        }
        state_pack(h, packed);
        if constexpr (boundaries)
            if (i + 1 < chunks)
                before_chunk(i + 1);
        if constexpr (gated) {
#pragma unroll
            for (int j = 0; j < 64; j++)
                h[j] *= end;
        }
        if constexpr (output) {
            wgmma_wait<0>();
            __syncwarp();
            if (arrives(lane))
                barrier_arrive(&m->p_empty);
        }
        state_keys(u, packed, shared_address(m->k[next]));
        if constexpr (output) {
            // A branch, so that no store comes between the products just asked for.
            if (here(chunks) > i) {
                barrier_wait(&m->o_empty, (i + 1) & 1);
                state_hand_over<queries>(acc, scale, shared_address(m->o), warp, lane);
                __syncwarp();
                if (arrives(lane))
                    barrier_arrive(&m->o_full);
            }
        }
        if (i + 1 < chunks) {
            wait_for_rest(i + 1);
            if constexpr (!output)
                fetch_rest(i + 1);
        }
        wgmma_wait<0>();
    }
    const int after = here(threadIdx.x) / 32 - 4, own = here(threadIdx.x) % 32;
    if (segmented && task.to && task.to_ld == 0) { // for the scan
        if (task.kind == TASK_TRANSITION)
            transition_store(h, power_of_two(m->exponent), (__half *)task.to, after, own);
        else if (width > 0)
            kept_store(h, task.to + (2 * task.block + after / 4) * STATE, 1, after % 4, own);
        __syncwarp();
        if (own == 0)
            count_for(m->ready, 1);
    } else if (task.to)
        state_store(h, task.to + task.block * WIDTH + 64 * (after / 4), task.to_ld, s.K, width,
                    after % 4, own);
}

#endif
