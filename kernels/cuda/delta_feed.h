// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu: warps 0, 2 and 3 have the copy engine bring
// k, q and v of the coming chunks, warp 1 sums the gates.
//
// Rows behind a row of tokens' end, channels behind K and values behind V become zeros: the engine writes
// zeros outside the tensor, and these warps where the next row of tokens begins.
#ifndef DELTOP_CUDA_DELTA_FEED_H
#define DELTOP_CUDA_DELTA_FEED_H

#include "kernels/cuda/delta_tile.h"

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

// One warp's business: the chunks of one of the three matrices, one after the other, each as soon as its place in the ring
// is free. A box is `rows` rows of 64 columns from `column` on; a tile two of them, `panel` bytes apart, in the ring of
// `count` tiles. What lies behind the row's end, `live` rows into the last chunk (at least `rows`: nothing does), becomes
// zeros: such a chunk arrives at `cut` first.
template <int count>
HOPPER_DEVICE void feed_tiles(const CUtensorMap *map, int column, int head, int row, int rows,
                              int live, int chunks, unsigned char (*ring)[TILE], int panel,
                              uint64_t *full, uint64_t *empty, uint64_t *cut, int lane) {
    for (int i = 0; i < chunks; i++, row += rows) {
        const int stage = i % count;
        const bool whole = i + 1 < chunks || live >= rows;
        const uint32_t to = shared_address(ring[stage]);
        barrier_wait(&empty[stage], (i / count + 1) & 1);
        if (lane == 0) {
            uint64_t *b = whole ? &full[stage] : cut;
            barrier_expect(b, 256 * rows);
            copy_box(to, map, column, head, row, b);
            copy_box(to + panel, map, column + 64, head, row, b);
        }
        __syncwarp();
        if (whole)
            continue;
        barrier_wait(cut, 0);
        const uint32_t zero[4] = {};
        for (int x = live * 8 + lane; x < rows * 8; x += 32) {
            store_shared(to + x * 16, zero);
            store_shared(to + panel + x * 16, zero);
        }
        fence_async();
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&full[stage]);
    }
}

// Warp 1: what consumers need of the gates, chunk by chunk; the next one's are under way meanwhile.
template <bool gated>
HOPPER_DEVICE void feed_all_gates(const delta_call &s, const delta_task &task, delta_shared *m) {
    const int lane = held(threadIdx.x % 32), rows = s.tokens * s.n_h,
              chunks = task.last - task.first;
    float decay[2], beta[2]; // of this lane's rows of the chunk that comes
    // This lane's rows 2 lane + i of a chunk: their token (255: none), whether they begin it, and the last row of
    // the chunk's token 2 lane + i. One number each, since divisions are slow and registers few.
    int about[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = 2 * lane + i;
        about[i] = (r < rows ? r / s.n_h : 255) | (r % s.n_h == 0 ? 256 : 0) |
                   (min((r + 1) * s.n_h, CHUNK) - 1) << 16;
    }
    // Where the first row's numbers lie in the chunk to be fetched next; from its decay to the second row's; tokens left.
    const int64_t t0 = (int64_t)task.first * s.tokens, at = task.token0 + t0;
    const float *beta_at = s.beta + (at * s.n_h + 2 * lane) * s.ldbeta + task.head,
                *decay_at = s.decay + (at + 2 * lane / s.n_h) * s.lddecay + task.head;
    const int second = ((2 * lane + 1) / s.n_h - 2 * lane / s.n_h) * (int)s.lddecay;
    int left = (int)min(s.T - t0, (int64_t)chunks * s.tokens);
    auto fetch = [&] {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const bool in = (about[e] & 255) < min(left, 255);
            beta[e] = !in ? 0.0f : s.beta ? beta_at[e * s.ldbeta] : 1.0f;
            decay[e] = gated && in && (about[e] & 256) ? decay_at[e * second] : 0.0f;
        }
        beta_at += rows * s.ldbeta;
        decay_at += s.tokens * s.lddecay;
        left -= s.tokens;
    };
    fetch();
    for (int i = 0; i < chunks; i++) {
        barrier_wait(&m->k_empty[i % KEYS], (i / KEYS + 1) & 1);
        feed_gates<gated>(s, &m->gates[i % KEYS], decay, beta, about, lane);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&m->k_full[i % KEYS]);
        fetch();
    }
}

template <int queries, bool gated, bool output>
HOPPER_DEVICE void delta_feed(const delta_call &s, const delta_maps &maps, const delta_task &task,
                              delta_shared *m) {
    const int warp = threadIdx.x / 32, lane = held(threadIdx.x % 32);
    const int chunks = task.last - task.first, rows = s.tokens * s.n_h;
    const int64_t t0 = (int64_t)task.first * s.tokens;
    const int token = (int)(task.token0 + t0),
              live = (int)min(s.T - t0 - (int64_t)(chunks - 1) * s.tokens, (int64_t)s.tokens);
    if (warp == 0)
        feed_tiles<KEYS>(&maps.k, 0, task.key_head, token * s.n_h, rows, live * s.n_h, chunks, m->k,
                         PANEL, m->k_full, m->k_empty, &m->cut[0], lane);
    else if (warp == 1)
        feed_all_gates<gated>(s, task, m);
    else if (warp == 2 && output)
        feed_tiles<QUERIES>(&maps.q, 0, task.key_head, token, s.tokens, live, chunks, m->q,
                            queries * 128, m->q_full, m->q_empty, &m->cut[1], lane);
    else if (warp == 3 && task.kind != TASK_TRANSITION)
        feed_tiles<VALUES>(&maps.v, task.block * WIDTH, task.head, token * s.n_h, rows,
                           live * s.n_h, chunks, m->v, PANEL, m->v_full, m->v_empty, &m->cut[2],
                           lane);
}

#endif
