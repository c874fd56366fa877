// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu: warps 0, 2 and 3 have the copy engine bring
// k, q and v of the coming chunks; all four sum the gates, make scores (delta_scores.h) and carry outputs away.
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

// x of any of the warp's 64 rows, of which each lane has two.
HOPPER_DEVICE float of_row(float2 x, int row) {
    const float even = __shfl_sync(~0u, x.x, row / 2), odd = __shfl_sync(~0u, x.y, row / 2);
    return row % 2 ? odd : even;
}
HOPPER_DEVICE void store_pair(float *to, int lane, float2 x) {
    *(float2 *)(to + 2 * lane) = x;
}

// Gates of rows 2 lane and 2 lane + 1 as consumers need them: every warp sums, and stores its share. Less than 2^-256 a
// token counts as 2^-256. Sums in float are off by 2^-16 at most as long as they stay above -120; steeper chunks are summed
// in double, so that weak decays behind a strong one keep their value when differences are taken. about: see gate_feeder.
template <bool gated>
HOPPER_DEVICE void feed_gates(const delta_call &s, delta_gates *g, const float (&decay)[2],
                              const float (&beta)[2], const int (&about)[2], int warp, int lane) {
    if (warp == 3) {
        store_pair(g->beta, lane, make_float2(beta[0], beta[1]));
        const float excess = warp_sum(beta[0] * (beta[0] - FLIPS) + beta[1] * (beta[1] - FLIPS));
        if (lane == 0)
            g->precise = !(excess <= 0);
    }
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
        const float mid = 0.5f * last;
        const int own[2] = {here(about[0]) >> 16, here(about[1]) >> 16};
        if (warp == 0) {
            store_pair(g->c, lane, make_float2(c[0], c[1]));
            store_pair(g->c_rest, lane, make_float2(rest[0], rest[1]));
            g->to_end[lane] = pack_half(exp2_fast(left.x), exp2_fast(left.y));
        } else if (warp == 1) {
            const float2 start = make_float2(exp2_fast(c[0]), exp2_fast(c[1]));
            store_pair(g->from_start, lane, start);
            store_pair(
                g->query, lane,
                make_float2(s.scale * of_row(start, own[0]), s.scale * of_row(start, own[1])));
            if (lane == 31) {
                g->end = start.y;
                g->wide = wide;
            }
        } else if (!wide) {
            const float2 up = make_float2(exp2_fast(c[0] - mid), exp2_fast(c[1] - mid));
            if (warp == 2) {
                store_pair(g->up, lane, up);
                store_pair(g->down, lane, make_float2(exp2_fast(mid - c[0]), exp2_fast(mid - c[1])));
            } else
                store_pair(
                    g->up_query, lane,
                    make_float2(s.scale * of_row(up, own[0]), s.scale * of_row(up, own[1])));
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

// What consumers need of the gates, chunk by chunk. Each warp has a copy of its own of the numbers they are made of, which
// is under way while the chunk before is made: in shared memory, since registers would wait, or be spilled, meanwhile.
template <bool gated> struct gate_feeder {
    uint32_t raw; // this warp's copy: decays, betas
    // This lane's rows 2 lane + i of a chunk: their token (255: none), whether they begin it, and the last row of
    // the chunk's token 2 lane + i. One number each, since divisions are slow and registers few.
    int about[2];

    HOPPER_DEVICE void start(const delta_call &s, const delta_task &task, delta_shared *m, int warp,
                             int lane) {
        const int rows = s.tokens * s.n_h;
        raw = shared_address(m->raw[warp]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = 2 * lane + i;
            about[i] = (r < rows ? r / s.n_h : 255) | (r % s.n_h == 0 ? 256 : 0) |
                       (min((r + 1) * s.n_h, CHUNK) - 1) << 16;
        }
        fetch(s, task, 0, warp, lane);
    }
    // Rows that are none, and decays but of a token's first row, are zero.
    HOPPER_DEVICE void fetch(const delta_call &s, const delta_task &task, int i, int warp,
                             int lane) {
        // Of the whole warp; lanes add offsets of 32 bits.
        const int64_t at = feed_token(s, task, i);
        const float *decays = s.decay + at * s.lddecay + task.head,
                    *betas = s.beta + at * s.n_h * s.ldbeta + task.head;
        const int live = feed_live(s, task, i);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int row = here(about[e]), token = row & 255;
            const bool in = token < live;
            const uint32_t to = raw + 4 * (2 * lane + e);
            if (gated)
                copy4(to, decays + (in ? token * (uint32_t)s.lddecay : 0), in && (row & 256) != 0);
            if (warp == 3 && s.beta)
                copy4(to + 4 * CHUNK, betas + (in ? (2 * lane + e) * (uint32_t)s.ldbeta : 0), in);
        }
        copy_commit();
    }
    HOPPER_DEVICE void feed(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                            int chunks, int warp, int lane) {
        const int stage = i % KEYS;
        float decay[2] = {}, beta[2] = {};
        barrier_wait(&m->k_empty[stage], (i / KEYS + 1) & 1);
        copy_wait<0>(); // each lane's own numbers
        if constexpr (gated)
            load_pair(decay, raw + 8 * lane);
        if (warp == 3) {
            load_pair(beta, raw + 4 * CHUNK + 8 * lane);
            if (!s.beta)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    beta[e] = (about[e] & 255) < feed_live(s, task, i) ? 1.0f : 0.0f;
        }
        if (i + 1 < chunks)
            fetch(s, task, i + 1, warp, lane);
        feed_gates<gated>(s, &m->gates[stage], decay, beta, about, warp, lane);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&m->k_full[stage]);
    }
};

// Outputs of chunk i to where they belong, when the state has handed them over: this warp's quarter of the queries, two
// rows of 16 pieces of 16 bytes at a time.
template <int queries>
HOPPER_DEVICE void feed_outputs(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                                int warp, int lane) {
    enum { EACH = (queries + 7) / 8, AHEAD = 4 };
    const int piece = lane % 16, query = 2 * warp + lane / 16;
    const int value = task.block * WIDTH + 8 * piece,
              live = value < s.V ? feed_live(s, task, i) - query : 0;
    const uint32_t from = shared_address(m->o) + output_place(query, piece);
    bf16 *o = s.o + (int64_t)(feed_token(s, task, i) + query) * s.ldo + (task.head * s.V + value);
    const int64_t step = 8 * s.ldo;
    barrier_wait(&m->o_full, i & 1);
    if (s.wide_stores) {
#pragma unroll
        for (int first = 0; first < EACH; first += AHEAD) {
            uint32_t x[AHEAD][4];
#pragma unroll
            for (int e = 0; e < AHEAD; e++)
                if (first + e < EACH)
                    load_shared(x[e], from + (first + e) * 8 * 256);
#pragma unroll
            for (int e = 0; e < AHEAD; e++)
                if (first + e < EACH) {
                    if (8 * (first + e) < live)
                        store_wide(o, x[e]);
                    o += step;
                }
        }
    } else
#pragma unroll 1
        for (int e = 0; 8 * e < live; e++) {
            uint32_t x[4];
            load_shared(x, from + e * 8 * 256);
#pragma unroll
            for (int w = 0; w < 4; w++)
                store_pair(o + 2 * w, x[w]);
            o += step;
        }
    __syncwarp();
    if (lane == 0)
        barrier_arrive(&m->o_empty);
}

// While the state is at chunk i, keys and gates of chunk i + 3 come in, queries of i + 2 and values of i + 1, copies each
// by a warp of its own; outputs of i - 1 leave, and all four warps make the scores of i + 1. Every wait here ends by what
// the state does in chunk i or before. A transition has no values.
template <int queries, bool gated, bool output>
HOPPER_DEVICE void delta_feed(const delta_call &s, const delta_maps &maps, const delta_task &task,
                              delta_shared *m) {
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), chunks = task.last - task.first;
    int lane = held(threadIdx.x % 32);
    const int row = 16 * warp + lane / 4, first[2] = {held(row / s.n_h), held((row + 8) / s.n_h)};
    gate_feeder<gated> gates;
    gates.start(s, task, m, warp, lane);
    for (int i = -3; i <= chunks; i++) {
        lane = here(lane);
        if (warp == 0 && i + 3 < chunks)
            feed_keys(s, maps, task, m, i + 3, lane);
        else if (output && warp == 2 && i >= -2 && i + 2 < chunks)
            feed_queries<queries>(s, maps, task, m, i + 2, lane);
        else if (warp == 3 && task.kind != TASK_TRANSITION && i >= -1 && i + 1 < chunks)
            feed_values(s, maps, task, m, i + 1, lane);
        if (i + 3 < chunks)
            gates.feed(s, task, m, i + 3, chunks, warp, lane);
        if (output && i >= 1)
            feed_outputs<queries>(s, task, m, i - 1, warp, lane);
        if (output && i >= -1 && i + 1 < chunks)
            make_scores<queries, gated>(s, m, i + 1, first, warp, lane);
    }
}

#endif
