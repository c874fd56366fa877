// kernels/cuda/states_march.h - the step recurrence (core/steps.h) that only leaves states behind:
// the state after steps[0], steps[stride], steps[2 stride] ... micro-steps, `count` of them.
//
// A block owns one head and runs beside the blocks of states_reduce: it is one block, and not eight,
// so that it takes the room of few of those. A column of the state is spread over 4 neighbouring
// lanes, ROWS numbers each (K <= 4 ROWS): row 16 g + 4 lane + e is number 4 g + e, so that keys come
// four at a time. What the micro-steps bring is staged in shared memory, MARCH_STAGE micro-steps at
// a time, a warp a row, filled up with zeros to 4 ROWS; a staged row of the token part (decay, a, b)
// belongs to token first / n_h + row. Keys, values, betas and decays of a head are fetched a stage
// ahead.
//
// Barriers: one before staging (the last stage has been used by all), one after (it is complete).
// All threads agree on every loop bound, since bounds come from `steps` alone.
#ifndef DELTOP_STATES_MARCH_H
#define DELTOP_STATES_MARCH_H

#include "kernels/cuda/shared_memory.h"

enum { MARCH_LANES = 4, MARCH_THREADS = 512, MARCH_STAGE = MARCH_THREADS / 32 };

// What a replay reads; T is the element of k, v, a and b.
template <class T> struct replay_view {
    int H, Hk, K, V, n_h;
    int decay, erase; // decay_kind, erase_kind
    bool has_beta;
    view<T> k, v, a, b;
    view<float> beta, decays;
};

// Floats of shared memory.
static inline size_t march_floats(int rows, int V, bool channel, bool pair) {
    size_t K = (size_t)(4 * rows), wide = (size_t)(V + 3) / 4 * 4;
    return MARCH_STAGE * (K + wide + (channel ? K : 4) + (pair ? 2 * K : 0) + 4);
}

// to[i] = row[i], zero from n to `full`; one warp.
template <class T> __device__ static void stage_row(const T *row, int n, int full, float *to) {
    for (int i = threadIdx.x % 32; i < full; i += 32)
        to[i] = i < n ? get(row[i]) : 0.0f;
}

// What one warp fetches ahead: row `at` + warp of the stage.
template <int PARTS> struct march_ahead { float k[PARTS], v[4], beta, decay; };

template <class T, int PARTS>
__device__ static __forceinline__ void fetch_ahead(const replay_view<T> &s, int h, int hk,
                                                   int64_t at, int64_t last,
                                                   march_ahead<PARTS> *x) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t m = at + warp, t = at / s.n_h + warp;
    const bool live = m < last;
    const T *k = s.k.row(live ? m : at) + (int64_t)hk * s.K;
    const T *v = s.v.row(live ? m : at) + (int64_t)h * s.V;
#pragma unroll
    for (int i = 0; i < PARTS; i++)
        x->k[i] = live && lane + 32 * i < s.K ? get(k[lane + 32 * i]) : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        x->v[i] = live && lane + 32 * i < s.V ? get(v[lane + 32 * i]) : 0.0f;
    x->beta = live && s.has_beta ? s.beta.row(m)[h] : 1.0f;
    x->decay = s.decay == DECAY_HEAD && t * s.n_h < last ? s.decays.row(t)[h] : 0.0f;
}

// x.S of the lanes of a column, complete in each of them.
template <int ROWS>
__device__ static __forceinline__ float column_dot(const float *x, int lane, const float *S) {
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int g = 0; g < ROWS / 4; g++) {
        float4 f = *(const float4 *)(x + 16 * g + 4 * lane);
        sum[0] += f.x * S[4 * g];
        sum[1] += f.y * S[4 * g + 1];
        sum[2] += f.z * S[4 * g + 2];
        sum[3] += f.w * S[4 * g + 3];
    }
    float r = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    r += __shfl_xor_sync(~0u, r, 1);
    return r + __shfl_xor_sync(~0u, r, 2);
}

// S += x u
template <int ROWS> __device__ static void column_add(const float *x, int lane, float u, float *S) {
#pragma unroll
    for (int g = 0; g < ROWS / 4; g++) {
        float4 f = *(const float4 *)(x + 16 * g + 4 * lane);
        S[4 * g] += f.x * u;
        S[4 * g + 1] += f.y * u;
        S[4 * g + 2] += f.z * u;
        S[4 * g + 3] += f.w * u;
    }
}

// heads[blockIdx.x]; now [n_heads][K][V] goes from micro-step `done` to the last wanted one; starts
// [n_heads][count][K][V].
template <class T, int ROWS>
__global__ void __launch_bounds__(MARCH_THREADS, 2)
    states_march(replay_view<T> s, const int *heads, int64_t done, const int64_t *wanted,
                 int64_t stride, int64_t count, float *now, float *starts) {
    const int FULL = 4 * ROWS, PARTS = FULL / 32;
    SHARED_MEMORY(raw);
    const int h = heads[blockIdx.x], hk = h / (s.H / s.Hk), K = s.K, V = s.V;
    const int warp = threadIdx.x / 32, in_warp = threadIdx.x % 32;
    const int column = threadIdx.x / MARCH_LANES, lane = threadIdx.x % MARCH_LANES;
    const int columns = (V + 3) / 4 * 4;
    const bool owns = column < V, pair = s.erase == ERASE_PAIR, channel = s.decay == DECAY_CHANNEL;
    const int full = channel ? FULL : 4;
    float *sk = (float *)raw, *sv = sk + MARCH_STAGE * FULL, *sbeta = sv + MARCH_STAGE * columns,
          *sw = sbeta + MARCH_STAGE * 4, *sa = sw + MARCH_STAGE * full,
          *sb = sa + MARCH_STAGE * FULL;
    float *mine_now = now + (int64_t)blockIdx.x * K * V + column;
    float S[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int r = i / 4 * 16 + 4 * lane + i % 4;
        S[i] = r < K && owns ? mine_now[(int64_t)r * V] : 0.0f;
    }
    const int64_t last = wanted[(count - 1) * stride];
    int64_t at = done, c = 0, end = wanted[0];
    march_ahead<PARTS> ahead;
    fetch_ahead<T, PARTS>(s, h, hk, at, last, &ahead);
    for (;;) {
        int m = (int)(last - at < MARCH_STAGE ? last - at : MARCH_STAGE);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            sk[warp * FULL + in_warp + 32 * i] = ahead.k[i];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (in_warp + 32 * i < columns)
                sv[warp * columns + in_warp + 32 * i] = ahead.v[i];
        if (in_warp == 0) {
            sbeta[warp] = ahead.beta;
            if (!channel)
                sw[warp * 4] = expf(ahead.decay);
        }
        const int64_t t = at / s.n_h + warp;
        if (t * s.n_h < at + m) {
            if (channel)
                for (int i = in_warp; i < FULL; i += 32)
                    sw[warp * FULL + i] = i < K ? expf(s.decays.row(t)[(int64_t)h * K + i]) : 1.0f;
            if (pair) {
                stage_row(s.a.row(t) + (int64_t)h * K, K, FULL, sa + warp * FULL);
                stage_row(s.b.row(t) + (int64_t)hk * K, K, FULL, sb + warp * FULL);
            }
        }
        __syncthreads();
        if (at + m < last)
            fetch_ahead<T, PARTS>(s, h, hk, at + m, last, &ahead);
        int token = 0, inner = (int)(at % s.n_h);
        for (int j = 0;; j++) {
            // Not at the micro-step's end, so that the state a block starts from counts too.
            while (at + j == end) {
                float *to = starts + ((int64_t)blockIdx.x * count + c) * K * V + column;
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    int r = i / 4 * 16 + 4 * lane + i % 4;
                    if (r < K && owns)
                        to[(int64_t)r * V] = S[i];
                }
                end = ++c < count ? wanted[c * stride] : -1;
            }
            if (j == m)
                break;
            const float *key = sk + j * FULL, *decay = sw + token * full;
            float r = 0, u = owns ? sv[j * columns + column] : 0.0f;
            if (pair && inner == 0) // b reads the undecayed state
                r = column_dot<ROWS>(sb + token * FULL, lane, S);
            if (s.decay != DECAY_NONE && inner == 0) {
                if (!channel) {
                    float w = decay[0];
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        S[i] *= w;
                } else {
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
                        S[i] *= decay[i / 4 * 16 + 4 * lane + i % 4];
                }
            }
            if (pair && inner == 0)
                column_add<ROWS>(sa + token * FULL, lane, r, S);
            if (s.erase == ERASE_KEY)
                u -= column_dot<ROWS>(key, lane, S);
            column_add<ROWS>(key, lane, u * sbeta[j], S);
            if (++inner == s.n_h) {
                inner = 0;
                token++;
            }
        }
        at += m;
        if (at == last)
            break;
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int r = i / 4 * 16 + 4 * lane + i % 4;
        if (r < K && owns)
            mine_now[(int64_t)r * V] = S[i];
    }
}

#endif
