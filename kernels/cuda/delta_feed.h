// kernels/cuda/delta_feed.h - the warpgroup that feeds a block of delta.cu. Warp 0 has the copy engine
// bring q, k and v of the coming chunks and sums the gates; warps 1-3 make fp16 of q and k in place.
//
// Rows behind a row of tokens' end, channels behind K and values behind V become zeros: the engine writes
// zeros outside the tensor, and the converters where the next row of tokens begins.
#ifndef DELTOP_CUDA_DELTA_FEED_H
#define DELTOP_CUDA_DELTA_FEED_H

#include "kernels/cuda/delta_tile.h"

HOPPER_DEVICE void load_shared(uint32_t (&x)[4], uint32_t from) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}
HOPPER_DEVICE void store_shared(uint32_t to, const uint32_t (&x)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3])
                 : "memory");
}

// `pieces` of 16 bytes from bf16 to fp16, by the converters, three loads under way. Where they lie in the tile
// does not matter.
template <int pieces> HOPPER_DEVICE void feed_convert(uint32_t tile) {
    enum { AHEAD = 3 };
    const int t = threadIdx.x - 32;
#pragma unroll 1
    for (int first = t; first < pieces; first += AHEAD * CONVERTERS) {
        uint32_t x[AHEAD][4];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * CONVERTERS < pieces)
                load_shared(x[i], tile + (first + i * CONVERTERS) * 16);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * CONVERTERS < pieces) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[i][e] = pack_half(lower_bf16(x[i][e]), upper_bf16(x[i][e]));
                store_shared(tile + (first + i * CONVERTERS) * 16, x[i]);
            }
    }
}

// Zeros in rows first..rows-1 of both panels of a tile.
HOPPER_DEVICE void feed_clear(uint32_t tile, int first, int rows) {
    const uint32_t zero[4] = {};
    for (int i = first * 8 + (int)threadIdx.x - 32; i < rows * 8; i += CONVERTERS) {
        store_shared(tile + i * 16, zero);
        store_shared(tile + rows * 128 + i * 16, zero);
    }
}

// Gates of rows 2 lane and 2 lane + 1, summed in double so that weak decays behind a strong one keep
// their value when differences are taken. Less than 2^-256 a token counts as 2^-256.
template <bool gated>
HOPPER_DEVICE void feed_gates(const delta_call &s, delta_gates *g, const float (&decay)[2],
                              const float (&beta)[2]) {
    const int lane = threadIdx.x % 32;
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
            int at = min((2 * lane + i + 1) * s.n_h, CHUNK) - 1; // last row of that token
            g->query[2 * lane + i] = s.scale * g->from_start[at];
            g->up_query[2 * lane + i] = s.scale * g->up[at];
        }
    }
}

template <int queries, bool gated, bool output>
HOPPER_DEVICE void feed_load(const delta_call &s, const delta_maps &maps, const delta_task &task,
                             delta_shared *m) {
    const int lane = threadIdx.x % 32, rows = s.tokens * s.n_h;
    const bool values = task.kind != TASK_TRANSITION;
    const uint32_t bytes = 256 * (rows * (values ? 2 : 1) + (output ? s.tokens : 0));
    float decay[2], beta[2]; // of the chunk that comes
    auto fetch = [&](int chunk) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = 2 * lane + i;
            const int64_t t = (int64_t)chunk * s.tokens + r / s.n_h;
            const bool in = r < rows && t < s.T;
            const int64_t token = task.token0 + t;
            beta[i] = !in      ? 0.0f
                      : s.beta ? s.beta[(token * s.n_h + r % s.n_h) * s.ldbeta + task.head]
                               : 1.0f;
            decay[i] =
                gated && in && r % s.n_h == 0 ? s.decay[token * s.lddecay + task.head] : 0.0f;
        }
    };
    fetch(task.first);
    for (int chunk = task.first; chunk < task.last; chunk++) {
        const int i = chunk - task.first, stage = i % STAGES;
        barrier_wait(&m->empty[stage], (i / STAGES + 1) & 1);
        if (lane == 0) {
            const int token = (int)(task.token0 + (int64_t)chunk * s.tokens), row = token * s.n_h;
            auto *in = &m->in[stage];
            uint64_t *b = &m->arrived[stage];
            barrier_expect(b, bytes);
#pragma unroll
            for (int panel = 0; panel < 2; panel++) {
                copy_box(shared_address(in->k) + panel * PANEL, &maps.k, panel * 64, task.key_head,
                         row, b);
                if (output)
                    copy_box(shared_address(in->q) + panel * queries * 128, &maps.q, panel * 64,
                             task.key_head, token, b);
                if (values)
                    copy_box(shared_address(in->v) + panel * PANEL, &maps.v,
                             task.block * WIDTH + panel * 64, task.head, row, b);
            }
        }
        __syncwarp();
        feed_gates<gated>(s, &m->gates[stage], decay, beta);
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
    for (int chunk = task.first; chunk < task.last; chunk++) {
        const int i = chunk - task.first, stage = i % STAGES;
        const uint32_t k = shared_address(m->in[stage].k), q = shared_address(m->in[stage].q),
                       v = shared_address(m->in[stage].v);
        barrier_wait(&m->arrived[stage], (i / STAGES) & 1);
        if constexpr (output && queries == CHUNK)
            feed_convert<2 * TILE / 16>(k); // q lies behind k
        else {
            feed_convert<TILE / 16>(k);
            if constexpr (output)
                feed_convert<queries * 16>(q);
        }
        const int64_t left = s.T - (int64_t)chunk * s.tokens;
        if (left < s.tokens) {
            named_barrier(CONVERTERS_BARRIER, CONVERTERS);
            feed_clear(k, (int)left * s.n_h, CHUNK);
            feed_clear(v, (int)left * s.n_h, CHUNK);
            if (output)
                feed_clear(q, (int)left, queries);
        }
        fence_async();
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            barrier_arrive(&m->full[stage]);
    }
}

#endif
