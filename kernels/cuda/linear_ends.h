// kernels/cuda/linear_ends.h - what a segment of tokens adds to a state, without outputs:
//
//     N = sum_j beta_j 2^(a_j) k_j v_j^T       a_j: exponents of the segment's tokens behind j, summed
//
// and 2^a of the whole segment. Walks from the segment's end to its start, so that every factor is at most 1
// and lies on an operand, the state is never touched but by sums, and the walk ends where what is left has
// decayed below 2^-26. From there on gates are still looked at: one that is no number must show.
#ifndef DELTOP_CUDA_LINEAR_ENDS_H
#define DELTOP_CUDA_LINEAR_ENDS_H

#include "kernels/cuda/linear_tile.h"

// Shared memory: everything in slot s mod 3.
template <class S> struct ends_shared {
    static constexpr int V = 3 * S::KEYS, GATE = V + 3 * S::VALUES;
    static constexpr size_t bytes(int gate_bytes) {
        return GATE + (S::CHANNEL ? 3 * (size_t)S::L * S::K * gate_bytes : 0);
    }
    unsigned char *p;
    int gate_bytes;
    template <class T> __device__ T *k(int s) const {
        return (T *)(p + s % 3 * S::KEYS);
    }
    template <class T> __device__ T *v(int s) const {
        return (T *)(p + V + s % 3 * S::VALUES);
    }
    __device__ unsigned char *gates(int s) const {
        return p + GATE + s % 3 * S::L * S::K * gate_bytes;
    }
};

// A warp weighs channels 32 (w + n WARPS) + lane; after[n]: exponents behind the stage.
template <class S, class T>
__device__ __forceinline__ void weigh_keys(const ends_shared<S> &m, int s,
                                           double (&after)[S::K / 32]) {
#pragma unroll
    for (int n = 0; n < S::K / 32; n++) {
        const int channel = 32 * ((int)threadIdx.x / 32 + n * S::WARPS) + lane_id();
        if (channel >= S::K)
            continue;
        const unsigned char *gates = m.gates(s) + (size_t)channel * m.gate_bytes;
        T *k = m.template k<T>(s) + channel;
#pragma unroll 4
        for (int r = S::L - 1; r >= 0; r--) {
            k[r * S::PITCH] = (T)((float)k[r * S::PITCH] * power_of_2<S>((float)after[n]));
            after[n] += (double)gate_at(gates, r * S::K, m.gate_bytes);
        }
    }
}

template <class S, class T>
__device__ __forceinline__ void add_chunk(float (&h)[S::MT][S::K / 8][4], const ends_shared<S> &m,
                                          int s, int block, float write, bool weighed, bool fine) {
    typedef product<T> P;
    const T *v = m.template v<T>(s) + block * CHUNK * S::VPITCH + (int)threadIdx.x / 32 * S::SLICE,
            *k = m.template k<T>(s) + block * CHUNK * S::PITCH;
    float w[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        w[e] = __shfl_sync(~0u, write, CHUNK * block + 2 * (lane_id() % 4) + e % 2 + 8 * (e / 2));
    typename P::left values[S::MT];
#pragma unroll
    for (int i = 0; i < S::MT; i++)
        values[i] = P::left_columns(v + 16 * i, S::VPITCH, weighed, w);
#pragma unroll
    for (int x = 0; x < S::K / 16; x++) {
        typename P::right b[2];
        P::right_columns(b, k + 16 * x, S::PITCH);
#pragma unroll
        for (int i = 0; i < S::MT; i++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                float(&t)[4] = h[i][2 * x + n];
                if (S::HALF)
                    P::add(t, values[i], b[n], fine);
                else {
                    float u[4] = {};
                    P::add(u, values[i], b[n], fine);
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        t[e] += u[e];
                }
            }
    }
}

// grid: blocks of all groups x (segments - 1)
template <class T, int K, bool CHANNEL>
__global__ void __launch_bounds__(linear_tile<T, K, CHANNEL>::THREADS,
                                  linear_tile<T, K, CHANNEL>::RESIDENT)
    linear_ends(const linear_call c, const linear_cut cut) {
    typedef linear_tile<T, K, CHANNEL> S;
    SHARED_MEMORY(shared);
    const ends_shared<S> m = {shared, c.decay.bytes};
    const warp_columns w = columns_of_warp<S>(c);
    const int64_t key_column = (int64_t)key_head_of_block<S>(c) * c.K;
    const int64_t gate_column = (int64_t)w.head * c.K;
    const int64_t first = blockIdx.y * cut.tokens;
    const int stages = (int)(cut.tokens / S::L); // whole ones
    const bool by_head = !CHANNEL && c.forget == FORGET_BY_HEAD;
    const int lane = lane_id(), warp = (int)threadIdx.x / 32, lane_row = lane % S::L;

    // Stage s counts from the end.
    auto load = [&](int s) {
        if (s < stages) {
            const int64_t at = first + (int64_t)(stages - 1 - s) * S::L;
            load_rows<S>(m.template k<T>(s), S::PITCH, place_of<T>(c.k, at, key_column), c.k.ld,
                         c.K, S::L);
            load_values<S>(m.template v<T>(s), c, w, at, S::L);
            if (CHANNEL)
                load_gates<S>(m.gates(s), c.decay, c.K, gate_column, at, S::L);
        }
        copies_commit();
    };
    auto load_marks = [&](int s, float &log_decay, float &beta) {
        const int64_t at = first + (int64_t)(stages - 1 - s) * S::L + lane_row;
        log_decay = s < stages && by_head && w.mine ? number_at(c.decay, at, w.head) : 0.0f;
        beta = s < stages && c.beta.p ? number_at(c.beta, at, w.head) : 1.0f;
    };

    float h[S::MT][S::K / 8][4] = {}, log_decay, beta;
    double behind = 0;            // of the head
    double after[S::K / 32] = {}; // of channels
    load(0);
    load(1);
    load_marks(0, log_decay, beta);
    int s = 0;
    for (; s < stages; s++) {
        copies_wait<1>();
        bool alive = c.forget == FORGET_NOTHING || (by_head && w.mine && !(behind < FORGOTTEN));
        if (CHANNEL)
#pragma unroll
            for (int n = 0; n < S::K / 32; n++)
                alive |= 32 * (warp + n * S::WARPS) + lane < c.K && !(after[n] < FORGOTTEN);
        if (!__syncthreads_or(alive))
            break;
        load(s + 2);
        float write = beta;
        if (by_head) {
            double x = (double)(log_decay < -10000.0f ? -10000.0f : log_decay) * 1.4426950408889634;
            const double own = x;
#pragma unroll
            for (int d = 1; d < S::L; d *= 2) { // rows from this one on
                const double more = __shfl_down_sync(~0u, x, d, S::L);
                if (lane_row + d < S::L)
                    x += more;
            }
            write *= exp2f((float)(behind + (x - own)));
            behind += __shfl_sync(~0u, x, 0, S::L);
        }
        load_marks(s + 1, log_decay, beta);
        if (CHANNEL) {
            weigh_keys<S, T>(m, s, after);
            __syncthreads();
        }
        if (w.mine)
#pragma unroll 1
            for (int b = 0; b < S::BLOCKS; b++)
                add_chunk<S, T>(h, m, s, b, write, by_head || c.beta.p, c.fine);
    }
    copies_wait<0>();
    // Gates of the tokens that were left out: what they say is that nothing is left, or that they are broken.
    const int64_t left = first + (int64_t)(stages - s) * S::L;
    if (by_head && w.mine) {
        behind = behind_all(c, w.head, first, left, behind);
        if (w.first == 0 && lane == 0)
            cut.decays[(int64_t)blockIdx.y * c.H + w.head] = exp2f((float)behind);
    }
    if (CHANNEL)
#pragma unroll
        for (int n = 0; n < S::K / 32; n++) {
            const int channel = 32 * (warp + n * S::WARPS) + lane;
            if (channel >= c.K)
                continue;
            for (int64_t t = first; t < left; t++)
                if (isnan(number_at(c.decay, t, gate_column + channel)))
                    after[n] = NAN;
            cut.decays[((int64_t)blockIdx.y * c.H + w.head) * c.K + channel] =
                exp2f((float)after[n]);
        }
    write_state<S>(h, c, w, cut.slots + blockIdx.y * state_floats(c) + (int64_t)w.head * c.K * c.V,
                   c.V);
}

#endif
