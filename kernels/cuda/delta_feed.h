// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu: warps 0, 2 and 3 have the copy engine bring
// k, q and v of the coming chunks, warp 1 sums the gates; all four make scores (delta_scores.h) and carry outputs away.
//
// Rows behind a row of tokens' end, channels behind K and values behind V become zeros: the engine writes
// zeros outside the tensor, and these warps where the next row of tokens begins.
#ifndef DELTOP_CUDA_DELTA_FEED_H
#define DELTOP_CUDA_DELTA_FEED_H

#include "kernels/cuda/delta_scores.h"

// A write of beta takes beta (2 - beta) of what stands along its key: with betas near 2 roundings of writes are only turned
// around, and add up. Where a chunk's betas, weighed by themselves, are above this on average, writes get a second term
// (float64 references: outputs are off by 3.0e-3 below, with beta = 2 everywhere by 6e-3 without and 4e-3 with it).
#define FLIPS 1.5f

// The base-2 log decays of rows 2 lane and 2 lane + 1, summed up to them, and up to the last row.
template <class real>
HOPPER_DEVICE void sum_gates(const float (&decay)[2], int lane, real (&c)[2], real *last) {
    const real log2e = (real)1.4426950408889634, most = -256;
    c[0] = at_least((real)decay[0] * log2e, most);
    c[1] = c[0] + at_least((real)decay[1] * log2e, most);
    real sum = c[1];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const real before = __shfl_up_sync(~0u, sum, d);
        sum += lane >= d ? before : 0;
    }
    c[0] += sum - c[1];
    c[1] = sum;
    *last = __shfl_sync(~0u, sum, 31);
}

// Gates of rows 2 lane and 2 lane + 1 as consumers need them. Less than 2^-256 a token counts as 2^-256. Sums in float
// are off by 2^-16 at most as long as they stay above -120; steeper chunks are summed in double, so that weak decays
// behind a strong one keep their value when differences are taken. about: see feed_all_gates.
template <bool gated>
HOPPER_DEVICE void feed_gates(const delta_call &s, delta_gates *g, const float (&decay)[2],
                              const float (&beta)[2], const int (&about)[2], int lane) {
    *(float2 *)(g->beta + 2 * lane) = make_float2(beta[0], beta[1]);
    const float excess =
        warp_sum(beta[0] * (beta[0] - FLIPS) + beta[1] * (beta[1] - FLIPS));
    if (lane == 0)
        g->precise = !(excess <= 0);
    if constexpr (gated) {
        float c[2], rest[2] = {}, last;
        sum_gates(decay, lane, c, &last);
        float2 left = make_float2(last - c[0], last - c[1]);
        const bool wide = !(last >= -120);
        if (wide) {
            double precise[2], to;
            sum_gates(decay, lane, precise, &to);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                c[i] = (float)precise[i];
                rest[i] = (float)(precise[i] - c[i]);
            }
            left = make_float2((float)(to - precise[0]), (float)(to - precise[1]));
        }
        const float2 start = make_float2(exp2_fast(c[0]), exp2_fast(c[1]));
        *(float2 *)(g->c + 2 * lane) = make_float2(c[0], c[1]);
        *(float2 *)(g->c_rest + 2 * lane) = make_float2(rest[0], rest[1]);
        *(float2 *)(g->from_start + 2 * lane) = start;
        g->to_end[lane] = pack_half(exp2_fast(left.x), exp2_fast(left.y));
        if (lane == 31) {
            g->end = start.y;
            g->wide = wide;
        }
        const float mid = 0.5f * last;
        const float2 up = make_float2(exp2_fast(c[0] - mid), exp2_fast(c[1] - mid));
        if (!wide) {
            *(float2 *)(g->up + 2 * lane) = up;
            *(float2 *)(g->down + 2 * lane) =
                make_float2(exp2_fast(mid - c[0]), exp2_fast(mid - c[1]));
        }
        if (s.n_h == 1) { // a token's last row is its own
            *(float2 *)(g->query + 2 * lane) = make_float2(s.scale * start.x, s.scale * start.y);
            *(float2 *)(g->up_query + 2 * lane) = make_float2(s.scale * up.x, s.scale * up.y);
            return;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            g->query[2 * lane + i] = s.scale * g->from_start[about[i] >> 16];
            g->up_query[2 * lane + i] = s.scale * g->up[about[i] >> 16];
        }
    }
}

// A chunk's part of one of the three matrices into its place in a ring: two boxes of `rows` rows of 64 columns from
// `column` on, `panel` bytes apart. What lies behind the row's end, `live` rows into the last chunk (at least `rows`:
// nothing does), becomes zeros: such a chunk arrives at `cut` first. One warp.
HOPPER_DEVICE void feed_tile(const CUtensorMap *map, int column, int head, int row, int rows,
                             int live, unsigned char *tile, int panel, uint64_t *full, uint64_t *cut,
                             int lane) {
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
    if (lane == 0)
        barrier_arrive(full);
}

// Chunk i of the task's keys, queries and values, each as soon as the consumers have left its place.
HOPPER_DEVICE int feed_live(const delta_call &s, const delta_task &task, int i) { // tokens
    return (int)min(s.T - (int64_t)(task.first + i) * s.tokens, (int64_t)s.tokens);
}
HOPPER_DEVICE int feed_token(const delta_call &s, const delta_task &task, int i) {
    return (int)(task.token0 + (int64_t)(task.first + i) * s.tokens);
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

// What consumers need of the gates, chunk by chunk; the next one's numbers are under way meanwhile. One warp.
template <bool gated> struct gate_feeder {
    float decay[2], beta[2]; // of this lane's rows of the chunk that comes
    // This lane's rows 2 lane + i of a chunk: their token (255: none), whether they begin it, and the last row of
    // the chunk's token 2 lane + i. One number each, since divisions are slow and registers few.
    int about[2];

    HOPPER_DEVICE void start(const delta_call &s, const delta_task &task, int lane) {
        const int rows = s.tokens * s.n_h;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = 2 * lane + i;
            about[i] = (r < rows ? r / s.n_h : 255) | (r % s.n_h == 0 ? 256 : 0) |
                       (min((r + 1) * s.n_h, CHUNK) - 1) << 16;
        }
        fetch(s, task, 0, lane);
    }
    HOPPER_DEVICE void fetch(const delta_call &s, const delta_task &task, int i, int lane) {
        const int64_t at = feed_token(s, task, i);
        const int live = feed_live(s, task, i);
        const float *betas = s.beta + at * s.n_h * s.ldbeta + task.head,
                    *decays = s.decay + at * s.lddecay + task.head;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int token = about[e] & 255;
            const bool in = token < live;
            beta[e] = !in ? 0.0f : s.beta ? betas[(2 * lane + e) * (int)s.ldbeta] : 1.0f;
            decay[e] = gated && in && (about[e] & 256) ? decays[token * (int)s.lddecay] : 0.0f;
        }
    }
    HOPPER_DEVICE void feed(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                            int chunks, int lane) {
        const int stage = i % KEYS;
        barrier_wait(&m->k_empty[stage], (i / KEYS + 1) & 1);
        feed_gates<gated>(s, &m->gates[stage], decay, beta, about, lane);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&m->k_full[stage]);
        if (i + 1 < chunks)
            fetch(s, task, i + 1, lane);
    }
};

// Outputs of chunk i to where they belong, when the state has handed them over: this warp's quarter of the queries.
template <int queries>
HOPPER_DEVICE void feed_outputs(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                                int warp, int lane) {
    enum { EACH = (queries + 7) / 8 }; // pieces of 16 bytes
    const int live = feed_live(s, task, i), piece = lane % 16,
              width = s.V - task.block * WIDTH - 8 * piece; // values from this piece on
    const uint32_t from = shared_address(m->o);
    bf16 *o = s.o + (int64_t)feed_token(s, task, i) * s.ldo + (int64_t)task.head * s.V +
              task.block * WIDTH + 8 * piece;
    barrier_wait(&m->o_full, i & 1);
#pragma unroll
    for (int first = 0; first < EACH; first += 4) {
        uint32_t x[4][4];
        auto query = [&](int e) { return 8 * (first + e) + 2 * warp + lane / 16; };
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (first + e < EACH)
                load_shared(x[e], from + output_place(query(e), piece));
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (first + e < EACH && query(e) < live && width > 0) {
                bf16 *to = o + query(e) * s.ldo;
                if (s.wide_stores)
                    store_wide(to, x[e]);
                else
#pragma unroll
                    for (int w = 0; w < 4; w++)
                        store_pair(to + 2 * w, x[e][w]);
            }
    }
    __syncwarp();
    if (lane == 0)
        barrier_arrive(&m->o_empty);
}

// With outputs: while the state is at chunk i, keys and gates of chunk i + 3 come in, queries of i + 2 and values of
// i + 1, each by a warp of its own; outputs of i - 1 leave, and all four warps make the scores of i + 1. Every wait here
// ends by what the state does in chunk i or before.
template <int queries, bool gated>
HOPPER_DEVICE void delta_feed(const delta_call &s, const delta_maps &maps, const delta_task &task,
                              delta_shared *m) {
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), chunks = task.last - task.first;
    int lane = held(threadIdx.x % 32);
    const int row = 16 * warp + lane / 4, first[2] = {held(row / s.n_h), held((row + 8) / s.n_h)};
    gate_feeder<gated> gates;
    if (warp == 1)
        gates.start(s, task, lane);
    for (int i = -3; i <= chunks; i++) {
        lane = here(lane);
        if (warp == 0 && i + 3 < chunks)
            feed_keys(s, maps, task, m, i + 3, lane);
        else if (warp == 1 && i + 3 < chunks)
            gates.feed(s, task, m, i + 3, chunks, lane);
        else if (warp == 2 && i >= -2 && i + 2 < chunks)
            feed_queries<queries>(s, maps, task, m, i + 2, lane);
        else if (warp == 3 && i >= -1 && i + 1 < chunks)
            feed_values(s, maps, task, m, i + 1, lane);
        if (i >= 1)
            feed_outputs<queries>(s, task, m, i - 1, warp, lane);
        if (i >= -1 && i + 1 < chunks)
            make_scores<queries, gated>(s, m, i + 1, first, warp, lane);
    }
}

// Without: keys, gates and values (a transition has none), each as far ahead as there is room.
template <bool gated>
HOPPER_DEVICE void delta_feed_ends(const delta_call &s, const delta_maps &maps,
                                   const delta_task &task, delta_shared *m) {
    const int warp = threadIdx.x / 32, lane = held(threadIdx.x % 32);
    const int chunks = task.last - task.first;
    if (warp == 0) {
        for (int i = 0; i < chunks; i++)
            feed_keys(s, maps, task, m, i, lane);
    } else if (warp == 1) {
        gate_feeder<gated> gates;
        gates.start(s, task, lane);
        for (int i = 0; i < chunks; i++)
            gates.feed(s, task, m, i, chunks, lane);
    } else if (warp == 2 && task.kind != TASK_TRANSITION) {
        for (int i = 0; i < chunks; i++)
            feed_values(s, maps, task, m, i, lane);
    }
}

#endif
