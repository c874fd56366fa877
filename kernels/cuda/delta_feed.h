// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu. Warp 0 has the copy engine
// bring q, k and v of the coming chunks and sums the gates; warps 1-3 make fp16 of q and k in place.
//
// Rows behind a row of tokens' end, channels behind K and values behind V become zeros: the engine writes
// zeros outside the tensor, and the converters where the next row of tokens begins.
#ifndef DELTOP_CUDA_DELTA_FEED_H
#define DELTOP_CUDA_DELTA_FEED_H

#include "kernels/cuda/delta_tile.h"

// `pieces` of 16 bytes from bf16 to fp16, by the converters, three loads under way. Where they lie in the tile
// does not matter.
template <int pieces> HOPPER_DEVICE void feed_convert(uint32_t tile, int t) {
    enum { AHEAD = 3, EACH = pieces / CONVERTERS };
    auto convert = [](uint32_t (&x)[4]) {
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
    if (pieces % CONVERTERS != 0 && t < pieces % CONVERTERS) {
        uint32_t x[4];
        load_shared(x, from + EACH * CONVERTERS * 16);
        convert(x);
        store_shared(from + EACH * CONVERTERS * 16, x);
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

// Gates of rows 2 lane and 2 lane + 1, summed in double so that weak decays behind a strong one keep
// their value when differences are taken. Less than 2^-256 a token counts as 2^-256. about: see feed_load.
template <bool gated>
HOPPER_DEVICE void feed_gates(const delta_call &s, delta_gates *g, const float (&decay)[2],
                              const float (&beta)[2], const int (&about)[2], int lane) {
    *(float2 *)(g->beta + 2 * lane) = make_float2(beta[0], beta[1]);
    if constexpr (gated) {
        const double log2e = 1.4426950408889634;
        double a = at_least((double)decay[0] * log2e, -256.0),
               b = a + at_least((double)decay[1] * log2e, -256.0);
        double sum = b;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            double before = __shfl_up_sync(~0u, sum, d);
            sum += lane >= d ? before : 0;
        }
        a += sum - b;
        b = sum;
        const double last = __shfl_sync(~0u, sum, 31), mid = 0.5 * last;
        const float fa = (float)a, fb = (float)b;
        const bool wide = last < -120;
        *(float2 *)(g->c + 2 * lane) = make_float2(fa, fb);
        *(float2 *)(g->c_rest + 2 * lane) = make_float2((float)(a - fa), (float)(b - fb));
        *(float2 *)(g->from_start + 2 * lane) = make_float2(exp2_fast(fa), exp2_fast(fb));
        g->to_end[lane] = pack_half(exp2_fast((float)(last - a)), exp2_fast((float)(last - b)));
        if (!wide) {
            const float ma = (float)(a - mid), mb = (float)(b - mid);
            *(float2 *)(g->up + 2 * lane) = make_float2(exp2_fast(ma), exp2_fast(mb));
            *(float2 *)(g->down + 2 * lane) = make_float2(exp2_fast(-ma), exp2_fast(-mb));
        }
        if (lane == 31) {
            g->end = exp2_fast((float)last);
            g->wide = wide;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            g->query[2 * lane + i] = s.scale * g->from_start[about[i] >> 16];
            g->up_query[2 * lane + i] = s.scale * g->up[about[i] >> 16];
        }
    }
}

template <int queries, bool gated, bool output>
HOPPER_DEVICE void feed_load(const delta_call &s, const delta_maps &maps, const delta_task &task,
                             delta_shared *m) {
    const int rows = s.tokens * s.n_h;
    int lane = held(threadIdx.x % 32);
    const bool values = task.kind != TASK_TRANSITION;
    const uint32_t bytes = 256 * (rows + (output ? s.tokens : 0));
    // This lane's rows 2 lane + i of a chunk: their token (255: none), whether they begin it, and the last row of
    // the chunk's token 2 lane + i. One number each, since divisions are slow and registers few.
    int about[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = 2 * lane + i;
        about[i] = (r < rows ? r / s.n_h : 255) | (r % s.n_h == 0 ? 256 : 0) |
                   (min((r + 1) * s.n_h, CHUNK) - 1) << 16;
    }
    float decay[2], beta[2]; // of the chunk that comes
    auto fetch = [&](int chunk) {
        const int64_t t0 = (int64_t)chunk * s.tokens, at = task.token0 + t0;
        const int left = (int)min(s.T - t0, (int64_t)s.tokens);
        const float *betas = s.beta + at * s.n_h * s.ldbeta + task.head,
                    *decays = s.decay + at * s.lddecay + task.head;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int token = about[i] & 255;
            const bool in = token < left;
            beta[i] = !in ? 0.0f : s.beta ? betas[(2 * lane + i) * (int)s.ldbeta] : 1.0f;
            decay[i] = gated && in && (about[i] & 256) ? decays[token * (int)s.lddecay] : 0.0f;
        }
    };
    fetch(task.first);
    for (int chunk = task.first; chunk < task.last; chunk++) {
        const int i = chunk - task.first, stage = i % STAGES, phase = (i / STAGES + 1) & 1;
        const int at = (int)(task.token0 + (int64_t)chunk * s.tokens);
        auto *in = &m->in[stage];
        lane = here(lane);
        barrier_wait(&m->empty[stage], phase);
        if (lane == 0) {
            uint64_t *b = &m->arrived[stage], *v = &m->v_arrived[stage];
            barrier_expect(b, bytes);
#pragma unroll
            for (int panel = 0; panel < 2; panel++) {
                copy_box(shared_address(in->k) + panel * PANEL, &maps.k, panel * 64, task.key_head,
                         at * s.n_h, b);
                if (output)
                    copy_box(shared_address(in->q) + panel * queries * 128, &maps.q, panel * 64,
                             task.key_head, at, b);
            }
            if (values) {
                barrier_expect(v, 256 * rows);
#pragma unroll
                for (int panel = 0; panel < 2; panel++)
                    copy_box(shared_address(in->v) + panel * PANEL, &maps.v,
                             task.block * WIDTH + panel * 64, task.head, at * s.n_h, v);
            }
        }
        __syncwarp();
        feed_gates<gated>(s, &m->gates[stage], decay, beta, about, lane);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&m->full[stage]);
        if (chunk + 1 < task.last)
            fetch(chunk + 1);
    }
}

template <int queries, bool gated, bool output>
HOPPER_DEVICE void delta_feed(const delta_call &s, const delta_maps &maps, const delta_task &task,
                              delta_shared *m) {
    if (threadIdx.x < 32) {
        feed_load<queries, gated, output>(s, maps, task, m);
        return;
    }
    const int t = held(threadIdx.x - 32);
    for (int chunk = task.first; chunk < task.last; chunk++) {
        const int i = chunk - task.first, stage = i % STAGES, phase = (i / STAGES) & 1;
        const uint32_t k = shared_address(m->in[stage].k), q = shared_address(m->in[stage].q),
                       v = shared_address(m->in[stage].v);
        barrier_wait(&m->arrived[stage], phase);
        if constexpr (output && queries == CHUNK)
            feed_convert<2 * TILE / 16>(k, t); // q lies behind k
        else {
            feed_convert<TILE / 16>(k, t);
            if constexpr (output)
                feed_convert<queries * 16>(q, t);
        }
        const int64_t left = s.T - (int64_t)chunk * s.tokens;
        if (left < s.tokens) {
            if (task.kind != TASK_TRANSITION)
                barrier_wait(&m->v_arrived[stage], phase);
            named_barrier(CONVERTERS_BARRIER, CONVERTERS);
            feed_clear(k, (int)left * s.n_h, CHUNK, t);
            feed_clear(v, (int)left * s.n_h, CHUNK, t);
            if (output)
                feed_clear(q, (int)left, queries, t);
        }
        fence_async();
        __syncwarp();
        if (t % 32 == 0)
            barrier_arrive(&m->full[stage]);
    }
}

#endif
