// kernels/cuda/linear_prepare.h - what chunks need besides the state (kernels/cuda/linear_walk.h): rows with
// their decays on them, and scores.
//
// c_i is a channel's exponent (log2 of its decay) summed over the chunk's rows 0 .. i. Rows become
//     Q <- 2^c_i q_i      K <- 2^-c_j k_j
// so that Q K^T are the scores and the state's channel becomes 2^c_15 (H + sum_j K_j v_j^T). 2^-c_j may be
// large, but only up to REACH: a channel that forgets more within a chunk ("steep") has its keys counted from
// the chunk's end, K <- 2^(c_15 - c_j) k_j and 2^c_15 H + ..., where its share of Q K^T is 2^c_15 too small and
// thereby nothing; its scores are summed apart, factor by factor, and every factor is at most 1.
#ifndef DELTOP_CUDA_LINEAR_PREPARE_H
#define DELTOP_CUDA_LINEAR_PREPARE_H

#include "kernels/cuda/linear_tile.h"

// Shared memory of linear_walk. Stage s has queries, keys and factors in slot s mod 3; values, gates, scores
// and flags in slot s mod 2.
template <class S> struct walk_shared {
    static constexpr int Q = 0, KEY = 3 * S::KEYS, V = 6 * S::KEYS, SCORE = V + 2 * S::VALUES,
                         FACTOR = SCORE + 2 * S::BLOCKS * 1024,
                         STEEP = FACTOR + (S::CHANNEL ? 6 * S::BLOCKS * S::K * 4 : 0),
                         GATE = STEEP + (S::CHANNEL ? 128 : 0);
    static constexpr size_t bytes(int gate_bytes) {
        return GATE + (S::CHANNEL ? 2 * (size_t)S::L * S::K * gate_bytes : 0);
    }
    unsigned char *p;
    int gate_bytes;
    template <class T> __device__ T *q(int64_t s) const {
        return (T *)(p + Q + s % 3 * S::KEYS);
    }
    template <class T> __device__ T *k(int64_t s) const {
        return (T *)(p + KEY + s % 3 * S::KEYS);
    }
    template <class T> __device__ T *v(int64_t s) const {
        return (T *)(p + V + s % 2 * S::VALUES);
    }
    // [4 quarters][32 lanes] pairs: quarter 2 (i / 8) + j / 8, as a warp holds it
    __device__ float2 *scores(int64_t s, int block) const {
        return (float2 *)(p + SCORE + (s % 2 * S::BLOCKS + block) * 1024);
    }
    // [K]: what the state is multiplied with after the keys came, and before: 2^c_15 and 1; of a steep channel
    // the other way round
    __device__ float *after(int64_t s, int block) const {
        return (float *)(p + FACTOR) + (s % 3 * S::BLOCKS + block) * 2 * S::K;
    }
    __device__ float *before(int64_t s, int block) const {
        return after(s, block) + S::K;
    }
    // [PARTS]: whether there are steep channels
    __device__ int *steep(int64_t s, int block) const {
        return (int *)(p + STEEP) + (s % 2 * S::BLOCKS + block) * S::PARTS;
    }
    __device__ unsigned char *gates(int64_t s) const {
        return p + GATE + s % 2 * S::L * S::K * gate_bytes;
    }
    // Scores of the steep channels of a part, row i: where the part's gates of row i were, which nobody
    // reads any more.
    __device__ float *steep_scores(int64_t s, int block, int part, int i) const {
        return (float *)(gates(s) + ((block * CHUNK + i) * S::K + 64 * part) * gate_bytes);
    }
};

__device__ __forceinline__ float2 pair_at(const float *p) {
    return *(const float2 *)p;
}
__device__ __forceinline__ float2 pair_at(const bf16 *p) {
    const uint32_t x = *(const uint32_t *)p;
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
}
__device__ __forceinline__ void put_pair(float *p, float2 x) {
    *(float2 *)p = x;
}
__device__ __forceinline__ void put_pair(bf16 *p, float2 x) {
    *(uint32_t *)p = pair_bf16(x.x, x.y);
}
__device__ __forceinline__ float2 gates_at(const unsigned char *gates, int i, int bytes) {
    const float2 w =
        bytes == 2 ? pair_at((const bf16 *)gates + i) : pair_at((const float *)gates + i);
    return make_float2(exponent_of(w.x), exponent_of(w.y));
}

// Adds channel's q_i k_j 2^(c_i - c_j) to sum[j mod 8] for i = lane mod 16, j / 8 = lane / 16, j <= i.
template <class T>
__device__ __noinline__ void add_steep(float (&sum)[8], const T *q, const T *k, int pitch,
                                       const unsigned char *gates, int gate_pitch, int bytes) {
    const int i = lane_id() % 16, half = lane_id() / 16;
    const float qi = (float)q[i * pitch], ki = (float)k[i * pitch];
    const float wi = exp2f(gate_at(gates + (size_t)i * gate_pitch * bytes, 0, bytes));
    float forget = 1;
#pragma unroll
    for (int j = 15; j >= 0; j--) {
        const float kj = __shfl_sync(~0u, ki, j), wj = __shfl_sync(~0u, wi, j);
        if (j <= i) {
            if (j / 8 == half)
                sum[j % 8] += qi * kj * forget;
            forget *= wj;
        }
    }
}

// Rows of stage s with their decays on them. A warp takes 64 channels of a chunk, a lane two.
template <class S, class T> __device__ void weigh_rows(const walk_shared<S> &m, int64_t s) {
    // float32: c is off by 2^-19 at most. bfloat16: K^T V stays far below 2^127.
    constexpr float REACH = S::HALF ? 80 : 32;
    const int bytes = m.gate_bytes, lane = lane_id();
    for (int job = (int)threadIdx.x / 32; job < S::BLOCKS * S::PARTS; job += S::WARPS) {
        const int block = job / S::PARTS, part = job % S::PARTS, channel = 64 * part + 2 * lane;
        T *q = m.template q<T>(s) + block * CHUNK * S::PITCH + 64 * part,
          *k = m.template k<T>(s) + block * CHUNK * S::PITCH + 64 * part;
        const unsigned char *gates =
            m.gates(s) + (block * CHUNK * S::K + 64 * part) * (size_t)bytes;
        float c[2] = {};
#pragma unroll
        for (int r = 0; r < CHUNK; r++) {
            const float2 w = gates_at(gates, r * S::K + 2 * lane, bytes);
            c[0] += w.x;
            c[1] += w.y;
        }
        const bool steep[2] = {c[0] < -REACH, c[1] < -REACH};
        const float all[2] = {power_of_2<S>(c[0]), power_of_2<S>(c[1])};
        put_pair(m.after(s, block) + channel,
                 make_float2(steep[0] ? 1.0f : all[0], steep[1] ? 1.0f : all[1]));
        put_pair(m.before(s, block) + channel,
                 make_float2(steep[0] ? all[0] : 1.0f, steep[1] ? all[1] : 1.0f));
        float apart[8] = {};
        const unsigned any[2] = {__ballot_sync(~0u, steep[0]), __ballot_sync(~0u, steep[1])};
        for (int e = 0; e < 2; e++)
            for (unsigned left = any[e]; left; left &= left - 1) {
                const int x = 2 * (__ffs((int)left) - 1) + e; // of the part's channels
                add_steep(apart, q + x, k + x, S::PITCH, gates + (size_t)x * bytes, S::K, bytes);
            }
        __syncwarp();
        c[0] = c[1] = 0;
#pragma unroll 4
        for (int r = 0; r < CHUNK; r++) {
            const float2 w = gates_at(gates, r * S::K + 2 * lane, bytes);
            c[0] += w.x;
            c[1] += w.y;
            T *qr = q + r * S::PITCH + 2 * lane, *kr = k + r * S::PITCH + 2 * lane;
            const float2 x = pair_at(qr), y = pair_at(kr);
            put_pair(qr, make_float2(x.x * power_of_2<S>(c[0]), x.y * power_of_2<S>(c[1])));
            put_pair(kr, make_float2(steep[0] ? y.x : y.x * power_of_2<S>(-c[0]),
                                     steep[1] ? y.y : y.y * power_of_2<S>(-c[1])));
        }
        if (any[0] | any[1]) {
            c[0] = c[1] = 0;
            for (int r = CHUNK - 1; r >= 0; r--) {
                const float2 w = gates_at(gates, r * S::K + 2 * lane, bytes);
                T *kr = k + r * S::PITCH + 2 * lane;
                const float2 y = pair_at(kr);
                put_pair(kr, make_float2(steep[0] ? y.x * power_of_2<S>(c[0]) : y.x,
                                         steep[1] ? y.y * power_of_2<S>(c[1]) : y.y));
                c[0] += w.x;
                c[1] += w.y;
            }
            __syncwarp(); // gates have been read
            float *to = m.steep_scores(s, block, part, lane % 16) + lane / 16 * 8;
#pragma unroll
            for (int j = 0; j < 8; j++)
                to[j] = apart[j];
        }
        if (lane == 0)
            m.steep(s, block)[part] = (any[0] | any[1]) != 0;
    }
}

// Q K^T of the chunks of stage s. A warp takes half the columns of one.
template <class S, class T>
__device__ __forceinline__ void make_scores(const walk_shared<S> &m, int64_t s, bool fine) {
    typedef product<T> P;
    for (int job = (int)threadIdx.x / 32; job < 2 * S::BLOCKS; job += S::WARPS) {
        const int block = job / 2, half = job % 2;
        const T *q = m.template q<T>(s) + block * CHUNK * S::PITCH,
                *k = m.template k<T>(s) + (block * CHUNK + 8 * half) * S::PITCH;
        float d[2][4] = {};
#pragma unroll 4
        for (int x = 0; x < S::K; x += 32) {
            typename P::right b[2];
            P::right_long(b, k + x, S::PITCH);
            P::add(d[0], P::left_rows(q + x, S::PITCH), b[0], fine);
            P::add(d[1], P::left_rows(q + x + 16, S::PITCH), b[1], fine);
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            d[0][e] += d[1][e];
        if (S::CHANNEL)
            for (int part = 0; part < S::PARTS; part++)
                if (m.steep(s, block)[part])
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        d[0][e] += m.steep_scores(
                            s, block, part,
                            lane_id() / 4 + 8 * (e / 2))[8 * half + 2 * (lane_id() % 4) + e % 2];
        float2 *to = m.scores(s, block) + lane_id();
        to[32 * half] = make_float2(d[0][0], d[0][1]);
        to[32 * (2 + half)] = make_float2(d[0][2], d[0][3]);
    }
}

#endif
