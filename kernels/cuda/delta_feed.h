// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu. Warp 0 has the copy engine
// bring q, k and v of the coming chunks, warp 1 sums the gates, warps 2 and 3 make fp16 of q and k in place.
//
// Rows behind a row of tokens' end, channels behind K and values behind V become zeros: the engine writes
// zeros outside the tensor, and the converters where the next row of tokens begins.
#ifndef DELTOP_CUDA_DELTA_FEED_H
#define DELTOP_CUDA_DELTA_FEED_H

#include "kernels/cuda/delta_tile.h"

// `pieces` of 16 bytes from bf16 to fp16, by the converters, five at a time. Where they lie in the tile
// does not matter.
template <int pieces> HOPPER_DEVICE void feed_convert(uint32_t tile, int t) {
    enum { AHEAD = 5, EACH = pieces / CONVERTERS };
    static_assert(pieces % CONVERTERS == 0, "the same for every thread");
    auto convert = [](uint32_t(&x)[4]) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = pack_half(lower_bf16(x[e]), upper_bf16(x[e]));
    };
    const uint32_t from = tile + 16 * t;
#pragma unroll
    for (int first = 0; first < EACH; first += AHEAD) {
        uint32_t x[AHEAD][4];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i < EACH)
                load_shared(x[i], from + (first + i) * CONVERTERS * 16);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i < EACH) {
                convert(x[i]);
                store_shared(from + (first + i) * CONVERTERS * 16, x[i]);
            }
    }
}

// Zeros in rows first..rows-1 of both panels of a tile.
HOPPER_DEVICE void feed_clear(uint32_t tile, int first, int rows, int t) {
    const uint32_t zero[4] = {};
    for (int i = first * 8 + t; i < rows * 8; i += CONVERTERS) {
        store_shared(tile + i * 16, zero);
        store_shared(tile + rows * 128 + i * 16, zero);
    }
}

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

// Warp 0: asks for keys, queries and values of one chunk after the other as soon as their place is free.
template <int queries, bool output>
HOPPER_DEVICE void feed_copies(const delta_call &s, const delta_maps &maps, const delta_task &task,
                               delta_shared *m) {
    const int chunks = task.last - task.first, rows = s.tokens * s.n_h;
    const bool one = threadIdx.x == 0;
    auto copy = [&](unsigned char *to, int panel, const CUtensorMap *map, int column, int head,
                    int row, int n, uint64_t *b) {
        barrier_expect(b, 256 * n);
#pragma unroll
        for (int x = 0; x < 2; x++)
            copy_box(shared_address(to) + x * panel, map, column + 64 * x, head, row, b);
    };
    int token = (int)(task.token0 + (int64_t)task.first * s.tokens);
    // Keys are two chunks ahead of values, whose place is free only when the state has begun the chunk before the last.
    auto keys = [&](int i) {
        barrier_wait(&m->k_empty[i % KEYS], (i / KEYS + 1) & 1);
        if (one)
            copy(m->k[i % KEYS], PANEL, &maps.k, 0, task.key_head, (token + i * s.tokens) * s.n_h,
                 rows, &m->k_arrived[i % KEYS]);
        __syncwarp();
    };
    keys(0);
    if (chunks > 1)
        keys(1);
    for (int i = 0; i < chunks; i++) {
        if (output) {
            barrier_wait(&m->q_empty[i % QUERIES], (i / QUERIES + 1) & 1);
            if (one)
                copy(m->q[i % QUERIES], queries * 128, &maps.q, 0, task.key_head,
                     token + i * s.tokens, s.tokens, &m->q_arrived[i % QUERIES]);
            __syncwarp();
        }
        if (task.kind != TASK_TRANSITION) {
            barrier_wait(&m->v_empty[i % VALUES], (i / VALUES + 1) & 1);
            if (one)
                copy(m->v[i % VALUES], PANEL, &maps.v, task.block * WIDTH, task.head,
                     (token + i * s.tokens) * s.n_h, rows, &m->v_arrived[i % VALUES]);
            __syncwarp();
        }
        if (i + 2 < chunks)
            keys(i + 2);
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

// The converters' part of chunk i's keys and of its queries; t: this thread's number among them. With the queries the
// values behind a row's end are cleared.
HOPPER_DEVICE void feed_keys(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                             int t) {
    const uint32_t k = shared_address(m->k[i % KEYS]);
    barrier_wait(&m->k_arrived[i % KEYS], (i / KEYS) & 1);
    feed_convert<TILE / 16>(k, t);
    const int64_t left = s.T - (int64_t)(task.first + i) * s.tokens;
    if (left < s.tokens) {
        named_barrier(CONVERTERS_BARRIER, CONVERTERS);
        feed_clear(k, (int)left * s.n_h, CHUNK, t);
    }
    fence_async();
    __syncwarp();
    if (t % 32 == 0)
        barrier_arrive(&m->k_full[i % KEYS]);
}
template <int queries>
HOPPER_DEVICE void feed_queries(const delta_call &s, const delta_task &task, delta_shared *m, int i,
                                int t) {
    const uint32_t q = shared_address(m->q[i % QUERIES]);
    barrier_wait(&m->q_arrived[i % QUERIES], (i / QUERIES) & 1);
    feed_convert<queries * 16>(q, t);
    const int64_t left = s.T - (int64_t)(task.first + i) * s.tokens;
    if (left < s.tokens) {
        // Nobody here followed the values' barrier, so its phase may still be that of the chunk before the last.
        barrier_wait(&m->v_empty[i % VALUES], (i / VALUES + 1) & 1);
        barrier_wait(&m->v_arrived[i % VALUES], (i / VALUES) & 1);
        named_barrier(CONVERTERS_BARRIER, CONVERTERS);
        feed_clear(q, (int)left, queries, t);
        feed_clear(shared_address(m->v[i % VALUES]), (int)left * s.n_h, CHUNK, t);
    }
    fence_async();
    __syncwarp();
    if (t % 32 == 0)
        barrier_arrive(&m->q_full[i % QUERIES]);
}

template <int queries, bool gated, bool output>
HOPPER_DEVICE void delta_feed(const delta_call &s, const delta_maps &maps, const delta_task &task,
                              delta_shared *m) {
    if (threadIdx.x < 32)
        feed_copies<queries, output>(s, maps, task, m);
    else if (threadIdx.x < 64)
        feed_all_gates<gated>(s, task, m);
    else {
        const int t = held(threadIdx.x - 64), chunks = task.last - task.first;
        feed_keys(s, task, m, 0, t);
        for (int i = 0; i < chunks; i++) {
            if (output)
                feed_queries<queries>(s, task, m, i, t);
            if (i + 1 < chunks)
                feed_keys(s, task, m, i + 1, t);
        }
    }
}

#endif
