// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu: warps 0, 2 and 3 have the copy engine bring
// k, q and v of the coming chunks, warp 1 take outputs away; all four make scores (delta_scores.h).
//
// Rows behind a row of tokens' end, channels behind K and values behind V become zeros: the engine writes
// zeros outside the tensor, and these warps where the next row of tokens begins.
#ifndef DELTOP_CUDA_DELTA_FEED_H
#define DELTOP_CUDA_DELTA_FEED_H

#include "kernels/cuda/delta_scores.h"

// A chunk's part of one of the three matrices into its place in a ring: two boxes of `rows` rows of 64 columns from
// `column` on, `panel` bytes apart. What lies behind the row's end, `live` rows into the last chunk (at least `rows`:
// nothing does), becomes zeros: such a chunk arrives at `cut` first. One warp.
HOPPER_DEVICE void feed_tile(const CUtensorMap *map, int column, int head, int row, int rows,
                             int live, unsigned char *tile, int panel, uint64_t *full,
                             uint64_t *cut, int lane) {
    const bool whole = live >= rows;
    const uint32_t to = shared_address(tile);
    if (lane == 0) {
        uint64_t *b = whole ? full : cut;
        barrier_expect(b, 256 * rows);
        copy_box(to, map, column, head, row, b);
        copy_box(to + panel, map, column + 64, head, row, b);
    }
    __syncwarp();
    if (whole)
        return;
    barrier_wait(cut, 0);
    const uint32_t zero[4] = {};
    for (int x = live * 8 + lane; x < rows * 8; x += 32) {
        store_shared(to + x * 16, zero);
        store_shared(to + panel + x * 16, zero);
    }
    fence_async();
    __syncwarp();
    if (arrives(lane))
        barrier_arrive(full);
}

// Chunk i of the task's keys, queries and values, each as soon as the consumers have left its place.
HOPPER_DEVICE int feed_live(const delta_call &s, const delta_task &task, int i) { // tokens
    return min(task.left - i * s.tokens, s.tokens);
}
HOPPER_DEVICE int feed_token(const delta_call &s, const delta_task &task, int i) {
    return task.token + i * s.tokens;
}
HOPPER_DEVICE void feed_keys(const delta_call &s, const delta_maps &maps, const delta_task &task,
                             delta_shared *m, int i, int lane) {
    const int stage = i % KEYS;
    barrier_wait(&m->k_empty[stage], (i / KEYS + 1) & 1);
    feed_tile(&maps.k, 0, task.key_head, feed_token(s, task, i) * s.n_h, s.tokens * s.n_h,
              feed_live(s, task, i) * s.n_h, m->k[stage], PANEL, &m->k_full[stage], &m->cut[0],
              lane);
}
template <int queries>
HOPPER_DEVICE void feed_queries(const delta_call &s, const delta_maps &maps, const delta_task &task,
                                delta_shared *m, int i, int lane) {
    const int stage = i % QUERIES;
    barrier_wait(&m->q_empty[stage], (i / QUERIES + 1) & 1);
    feed_tile(&maps.q, 0, task.key_head, feed_token(s, task, i), s.tokens, feed_live(s, task, i),
              m->q[stage], queries * 128, &m->q_full[stage], &m->cut[1], lane);
}
HOPPER_DEVICE void feed_values(const delta_call &s, const delta_maps &maps, const delta_task &task,
                               delta_shared *m, int i, int lane) {
    const int stage = i % VALUES;
    barrier_wait(&m->v_empty[stage], (i / VALUES + 1) & 1);
    feed_tile(&maps.v, task.block * WIDTH, task.head, feed_token(s, task, i) * s.n_h,
              s.tokens * s.n_h, feed_live(s, task, i) * s.n_h, m->v[stage], PANEL,
              &m->v_full[stage], &m->cut[2], lane);
}

// What consumers need of chunk i's gates, as delta_gates.h left it.
template <bool gated>
HOPPER_DEVICE void feed_gates(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                              int lane) {
    const int stage = i % KEYS;
    const uint32_t bytes = gates_bytes(gated);
    if (lane == 0) {
        if (i == 0 &&
            s.segments ==
                1) // which makes them; the first pass has waited, and the second begins later
            wait_for_kernel_before();
        barrier_expect(&m->k_full[stage], bytes);
        copy_global(shared_address(&m->gates[stage]),
                    s.gates + (int64_t)(m->first_gates + i) * bytes, bytes, &m->k_full[stage]);
    }
    __syncwarp();
}

// Outputs of chunk i to where they belong, when the state has handed them over. One warp.
// The copy engine would write behind a row's end, and knows of no 4-byte alignment: then in pairs.
template <int queries>
HOPPER_DEVICE void feed_outputs(const delta_call &s, const delta_maps &maps, const delta_task &task,
                                delta_shared *m, int i, int lane) {
    const int live = feed_live(s, task, i), token = feed_token(s, task, i);
    const int first = task.block * WIDTH; // value
    const uint32_t from = shared_address(m->o);
    barrier_wait(&m->o_full, i & 1);
    if (s.boxes_out && live >= s.tokens) {
        if (lane == 0) {
            fence_async();
            store_box(&maps.o, first, task.head, token, from);
            store_box(&maps.o, first + 64, task.head, token, from + queries * 128);
            stores_read();
        }
    } else {
        bf16 *o = s.o + (int64_t)token * s.ldo + (int64_t)task.head * s.V + first;
        const int width = min(s.V - first, WIDTH);
#pragma unroll 1
        for (int query = 0; query < min(live, s.tokens); query++)
#pragma unroll 1
            for (int pair = lane; 2 * pair < width; pair += 32) {
                const uint32_t *x =
                    (const uint32_t *)(m->o + output_place<queries>(query, pair / 4)) + pair % 4;
                *(uint32_t *)(o + query * s.ldo + 2 * pair) = *x;
            }
    }
    __syncwarp();
    if (arrives(lane))
        barrier_arrive(&m->o_empty);
}

// Without outputs: keys and gates of chunk i are asked for when state and makers are through with i - 5, its values when the state
// has read those of i - 2. A transition has none. Every wait ends by what those do in chunks before.
template <bool gated>
HOPPER_DEVICE void feed_end(const delta_call &s, const delta_maps &maps, const delta_task &task,
                            delta_shared *m, int warp, int lane) {
    const int chunks = task.last - task.first;
    for (int i = 0; i < chunks; i++) {
        lane = here(lane);
        if (warp == 0) {
            feed_keys(s, maps, task, m, i, lane); // their place is free; so is the gates'
            feed_gates<gated>(s, task, m, i, lane);
        } else if (warp == 3 && task.kind != TASK_TRANSITION)
            feed_values(s, maps, task, m, i, lane);
    }
}

// With outputs: when the state is through with chunk i - 1 all that it held is free. Keys and gates of i + 4, queries and
// values of i + 1 are asked for, then all four warps make the scores of i; behind them the outputs of i - 1 leave. Every wait
// here ends by what state and makers do in chunk i - 1 or before, or by a copy.
template <int queries, bool gated>
HOPPER_DEVICE void feed_outputs_too(const delta_call &s, const delta_maps &maps,
                                    const delta_task &task, delta_shared *m, int warp, int lane) {
    const int chunks = task.last - task.first, row = 16 * warp + lane / 4,
              first[2] = {held(row / s.n_h), held((row + 8) / s.n_h)};
    auto ask = [&](int ahead, int one) { // keys of chunk `ahead`, the rest of chunk `one`
        if (warp == 0 && ahead < chunks) {
            feed_keys(s, maps, task, m, ahead, lane);
            feed_gates<gated>(s, task, m, ahead, lane);
        } else if (warp == 2 && one < chunks)
            feed_queries<queries>(s, maps, task, m, one, lane);
        else if (warp == 3 && one < chunks)
            feed_values(s, maps, task, m, one, lane);
    };
#pragma unroll 1
    for (int i = 0; i < KEYS; i++)
        ask(i, i < QUERIES ? i : chunks);
    for (int i = 0; i < chunks; i++) {
        lane = here(lane);
        make_scores<queries, gated>(s, m, i, first, warp, lane, [&] {
            if (i > 0)
                ask(i + KEYS - 1, i + 1);
        });
        if (warp == 1 && i > 0)
            feed_outputs<queries>(s, maps, task, m, i - 1, lane);
    }
    if (warp == 1)
        feed_outputs<queries>(s, maps, task, m, chunks - 1, lane);
}

template <int queries, bool gated, bool output>
HOPPER_DEVICE void delta_feed(const delta_call &s, const delta_maps &maps, const delta_task &task,
                              delta_shared *m) {
    static_assert(QUERIES == VALUES, "asked for together");
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = held(threadIdx.x % 32);
    if constexpr (output)
        feed_outputs_too<queries, gated>(s, maps, task, m, warp, lane);
    else
        feed_end<gated>(s, maps, task, m, warp, lane);
}

#endif
