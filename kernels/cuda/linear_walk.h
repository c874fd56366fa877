// kernels/cuda/linear_walk.h - the pass with outputs of the chunked linear recurrences: walks a stretch of
// tokens from a state, chunk by chunk of 16 (equations: docs/kernels.md).
//
// A warp keeps H^T [SLICE columns of V, K] in accumulators. Per chunk, with Q, K, V its rows and B = diag(beta):
//     O^T = H^T Q^T            left operand: H^T itself, packed to the inputs' type, 16 channels at a time
//     O^T = O^T diag(2^c) + V^T (B (Q K^T . G)^T)
//     H^T = 2^c_15 H^T + V^T diag(beta_j 2^(c_15 - c_j)) K
// The factor of a head's decays stands beside the state ("unit"; H is unit times what the accumulators hold) and
// is put on it once it has become small: that saves a multiplication an element and chunk. With a decay per
// channel the exponents are in Q and K already (linear_prepare.h), and 2^c_15 of a channel is put on the state
// when the next chunk packs it. Nothing of this waits for another warp: the block meets
// once a stage (with a decay per channel twice), where rows, weighed rows and scores of the stages to come
// change hands.
#ifndef DELTOP_CUDA_LINEAR_WALK_H
#define DELTOP_CUDA_LINEAR_WALK_H

#include "kernels/cuda/linear_prepare.h"

// Lane l mod 16 has row l mod 16 of each chunk: of chunk l / 16 of a stage (one with 16 rows: of the chunk).
struct row_marks {
    float hi, lo; // c_i, of the head, as the sum of two floats
    float grown;  // 2^c_i
    float write;  // beta_i 2^(c_15 - c_i)
    float beta;
};

template <class S>
__device__ __forceinline__ row_marks marks_of(float log_decay, float beta, bool gated) {
    row_marks x = {0, 0, 1, beta, beta};
    if (!gated)
        return x;
    // In double, so that weak decays behind a strong one keep their value in differences.
    double c = (double)(log_decay < -10000.0f ? -10000.0f : log_decay) * 1.4426950408889634;
#pragma unroll
    for (int d = 1; d < CHUNK; d *= 2) {
        const double before = __shfl_up_sync(~0u, c, d, CHUNK);
        if (lane_id() % CHUNK >= d)
            c += before;
    }
    const double all = __shfl_sync(~0u, c, CHUNK - 1, CHUNK);
    x.hi = (float)c;
    x.lo = (float)(c - x.hi);
    x.grown = power_of_2<S>(x.hi);
    x.write = beta * power_of_2<S>((float)(all - c));
    return x;
}

// Numbers of rows 2 (l mod 4) + {0, 1} + {0, 8} of a chunk.
__device__ __forceinline__ void of_rows(float (&y)[4], float x, int block) {
#pragma unroll
    for (int e = 0; e < 4; e++)
        y[e] = __shfl_sync(~0u, x, CHUNK * block + 2 * (lane_id() % 4) + e % 2 + 8 * (e / 2));
}

// The chunk's scores as right operands, columns j to be multiplied with: rows i of n = 0, 1 are 8 n + l/4.
template <class S, class T>
__device__ __forceinline__ void weighed_scores(typename product<T>::right (&p)[2],
                                               const float2 *scores, const row_marks &x, int block,
                                               bool by_head, float scale) {
    float beta[4], hi[4], lo[4];
    of_rows(beta, x.beta, block);
    if (by_head) {
        of_rows(hi, x.hi, block);
        of_rows(lo, x.lo, block);
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const int i = 8 * n + lane_id() / 4;
        const float2 a = scores[64 * n + lane_id()], b = scores[64 * n + 32 + lane_id()];
        float y[4] = {a.x, a.y, b.x, b.y};
        float ihi = 0, ilo = 0;
        if (by_head) {
            ihi = __shfl_sync(~0u, x.hi, CHUNK * block + i);
            ilo = __shfl_sync(~0u, x.lo, CHUNK * block + i);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int j = 2 * (lane_id() % 4) + e % 2 + 8 * (e / 2);
            float w = beta[e] * scale;
            if (by_head)
                w *= power_of_2<S>((ihi - hi[e]) + (ilo - lo[e]));
            y[e] = j <= i ? y[e] * w : 0.0f;
        }
        p[n] = product<T>::right_of(y);
    }
}

#define SMALL_UNIT 0x1p-32f

// Pairs of factors of the channels that this lane holds of columns n: 2 (l mod 4) + {0, 1} of 8 n ..
__device__ __forceinline__ void times_channels(float (&t)[4], float2 f) {
    t[0] *= f.x;
    t[1] *= f.y;
    t[2] *= f.x;
    t[3] *= f.y;
}

// The two products of a chunk with the state: o = H^T Q^T and H^T <- H^T + written K. SHRINK: in between, the
// state is multiplied by `shrink`, or its channels by the chunk's factors before.
template <class S, class T, bool SHRINK>
__device__ __forceinline__ void
meet_state(float (&o)[S::MT][2][4], float (&h)[S::MT][S::K / 8][4], const linear_call &c,
           const typename product<T>::left (&written)[S::MT], const T *q, const T *k,
           const float *last, const float *before, float shrink) {
    typedef product<T> P;
#pragma unroll
    for (int x = 0; x < S::K / 16; x++) {
        typename P::right b[2];
        P::right_rows(b, q + 16 * x, S::PITCH);
        if (S::CHANNEL)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const float2 f = *(const float2 *)(last + 16 * x + 8 * n);
#pragma unroll
                for (int i = 0; i < S::MT; i++)
                    times_channels(h[i][2 * x + n], f);
            }
#pragma unroll
        for (int i = 0; i < S::MT; i++) {
            const typename P::left state = P::left_of(h[i][2 * x], h[i][2 * x + 1]);
#pragma unroll
            for (int n = 0; n < 2; n++)
                P::add(o[i][n], state, b[n], c.fine);
        }
        P::right_columns(b, k + 16 * x, S::PITCH);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float2 f = !SHRINK      ? make_float2(1, 1)
                             : S::CHANNEL ? *(const float2 *)(before + 16 * x + 8 * n)
                                          : make_float2(shrink, shrink);
#pragma unroll
            for (int i = 0; i < S::MT; i++) {
                float(&t)[4] = h[i][2 * x + n];
                if (SHRINK)
                    times_channels(t, f);
                if (S::HALF)
                    P::add(t, written[i], b[n], c.fine);
                else { // tensor cores cut sums off: the long one is rounded
                    float u[4] = {};
                    P::add(u, written[i], b[n], c.fine);
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        t[e] += u[e];
                }
            }
        }
    }
}

// One chunk of a warp. last: the factors after of the chunk before this one, still to come onto the state.
template <class S, class T>
__device__ __forceinline__ void walk_chunk(float (&h)[S::MT][S::K / 8][4], const linear_call &c,
                                           const walk_shared<S> &m, int64_t s, int block,
                                           const row_marks &x, const float *last, float &unit) {
    typedef product<T> P;
    const bool by_head = !S::CHANNEL && c.forget == FORGET_BY_HEAD;
    const int column = (int)threadIdx.x / 32 * S::SLICE;
    T *v = m.template v<T>(s) + block * CHUNK * S::VPITCH + column;
    const T *q = m.template q<T>(s) + block * CHUNK * S::PITCH,
            *k = m.template k<T>(s) + block * CHUNK * S::PITCH;
    float write[4], grown[4] = {1, 1, 1, 1}, shrink = 1;
    of_rows(write, x.write, block);
    if (by_head) {
        of_rows(grown, x.grown, block);
#pragma unroll
        for (int e = 0; e < 4; e++)
            grown[e] *= unit;
        unit *= __shfl_sync(~0u, x.grown, CHUNK * block + CHUNK - 1);
        if (unit < SMALL_UNIT) {
            shrink = unit;
            unit = 1;
        }
        const float up = 1 / unit;
#pragma unroll
        for (int e = 0; e < 4; e++)
            write[e] *= up;
    }
    bool shrinks = shrink != 1;
    if (S::CHANNEL)
#pragma unroll
        for (int part = 0; part < S::PARTS; part++)
            shrinks |= m.steep(s, block)[part] != 0;
    typename P::left written[S::MT];
    const bool weighed = by_head || c.beta.p;
#pragma unroll
    for (int i = 0; i < S::MT; i++)
        written[i] = P::left_columns(v + 16 * i, S::VPITCH, weighed, write);
    float o[S::MT][2][4] = {};
    const float *before = S::CHANNEL ? m.before(s, block) + 2 * (lane_id() % 4) : NULL;
    if (shrinks)
        meet_state<S, T, true>(o, h, c, written, q, k, last, before, shrink);
    else
        meet_state<S, T, false>(o, h, c, written, q, k, last, before, shrink);
    typename P::right p[2];
    weighed_scores<S, T>(p, m.scores(s, block), x, block, by_head, c.scale);
#pragma unroll
    for (int i = 0; i < S::MT; i++) {
        const typename P::left values = P::left_columns(v + 16 * i, S::VPITCH, false, write);
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[i][n][e] *= grown[2 * n + e % 2] * c.scale;
            P::add(o[i][n], values, p[n], c.fine);
        }
    }
    // Outputs take the place of the values that made them.
    __syncwarp();
#pragma unroll
    for (int i = 0; i < S::MT; i++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                v[(8 * n + 2 * (lane_id() % 4) + e % 2) * S::VPITCH + 16 * i + 8 * (e / 2) +
                  lane_id() / 4] = (T)o[i][n][e];
    __syncwarp();
}

// Rows of a chunk's outputs, those in front of `end`, 16 bytes a lane.
template <class S, class T>
__device__ __forceinline__ void store_outputs(const linear_call &c, const walk_shared<S> &m,
                                              int64_t s, int block, const warp_columns &w,
                                              int64_t token, int64_t end) {
    constexpr int per = S::SLICE / S::VECTOR;
    const T *o = m.template v<T>(s) + block * CHUNK * S::VPITCH + (int)threadIdx.x / 32 * S::SLICE;
#pragma unroll
    for (int i = lane_id(); i < CHUNK * per; i += 32) {
        const int row = i / per, x = i % per * S::VECTOR;
        if (token + row < end && w.first + x < c.V)
            *(uint4 *)((T *)c.o.p + (token + row) * c.o.ld + (int64_t)w.head * c.V + w.first + x) =
                *(const uint4 *)(o + row * S::VPITCH + x);
    }
}

// grid: blocks of all groups x segments
template <class T, int K, bool CHANNEL>
__global__ void __launch_bounds__(linear_tile<T, K, CHANNEL>::THREADS,
                                  linear_tile<T, K, CHANNEL>::RESIDENT)
    linear_walk(const linear_call c, const linear_cut cut) {
    typedef linear_tile<T, K, CHANNEL> S;
    SHARED_MEMORY(shared);
    const walk_shared<S> m = {shared, c.decay.bytes};
    const warp_columns w = columns_of_warp<S>(c);
    const int64_t key_column = (int64_t)key_head_of_block<S>(c) * c.K;
    const int64_t gate_column = (int64_t)w.head * c.K; // one head in the block
    const int64_t first = blockIdx.y * cut.tokens;
    const int64_t end = first + cut.tokens < c.T ? first + cut.tokens : c.T;
    const int64_t stages = (end - first + S::L - 1) / S::L;
    const int lane_row = lane_id() % S::L;

    auto rows_of = [&](int64_t s) {
        const int64_t left = end - first - s * S::L;
        return left < S::L ? (int)left : S::L;
    };
    auto load_keys = [&](int64_t s) {
        if (s >= stages)
            return;
        const int64_t at = first + s * S::L;
        load_rows<S>(m.template q<T>(s), S::PITCH, place_of<T>(c.q, at, key_column), c.q.ld, c.K,
                     rows_of(s));
        load_rows<S>(m.template k<T>(s), S::PITCH, place_of<T>(c.k, at, key_column), c.k.ld, c.K,
                     rows_of(s));
        if (CHANNEL)
            load_gates<S>(m.gates(s), c.decay, c.K, gate_column, at, rows_of(s));
    };
    auto load_columns = [&](int64_t s) {
        if (s < stages)
            load_values<S>(m.template v<T>(s), c, w, first + s * S::L, rows_of(s));
    };
    // Of this lane's row of stage s, for the marks.
    auto load_marks = [&](int64_t s, float &log_decay, float &beta) {
        const bool there = s < stages && lane_row < rows_of(s);
        const int64_t at = first + s * S::L + lane_row;
        log_decay =
            there && !CHANNEL && c.forget == FORGET_BY_HEAD ? number_at(c.decay, at, w.head) : 0.0f;
        beta = there && c.beta.p ? number_at(c.beta, at, w.head) : 1.0f;
    };

    load_keys(0);
    copies_commit();
    load_keys(1);
    load_columns(0);
    copies_commit();
    float h[S::MT][S::K / 8][4], log_decay, beta, unit = 1;
    if (cut.segments == 1)
        read_state<S>(h, c, w, c.state + (int64_t)w.head * c.K * c.ld_state, c.ld_state);
    else { // the first segment's start is kept behind the others': the last one overwrites the state
        const int64_t slot = blockIdx.y > 0 ? (int64_t)blockIdx.y - 1 : cut.segments - 1;
        read_state<S>(h, c, w, cut.slots + slot * state_floats(c) + (int64_t)w.head * c.K * c.V,
                      c.V);
    }
    load_marks(0, log_decay, beta);
    if (CHANNEL)
        for (int i = threadIdx.x; i < K; i += S::THREADS)
            m.after(2, S::BLOCKS - 1)[i] = 1; // of the chunk before the first
    copies_wait<1>();
    __syncthreads();
    if (CHANNEL) {
        weigh_rows<S, T>(m, 0);
        __syncthreads();
    }
    make_scores<S, T>(m, 0, c.fine);
    for (int64_t s = 0; s < stages; s++) {
        copies_wait<0>();
        __syncthreads(); // rows of s + 1, values and scores of s are there; s - 1 is done with
        load_keys(s + 2);
        load_columns(s + 1);
        copies_commit();
        const row_marks x = marks_of<S>(log_decay, beta, !CHANNEL && c.forget == FORGET_BY_HEAD);
        load_marks(s + 1, log_decay, beta);
        if (s + 1 < stages) {
            if (CHANNEL) {
                weigh_rows<S, T>(m, s + 1);
                __syncthreads();
            }
            make_scores<S, T>(m, s + 1, c.fine);
        }
        if (w.mine)
#pragma unroll 1
            for (int b = 0; b < S::BLOCKS; b++) {
                const float *last =
                    !CHANNEL ? NULL
                             : (b > 0 ? m.after(s, b - 1) : m.after(s + 2, S::BLOCKS - 1)) +
                                   2 * (lane_id() % 4);
                walk_chunk<S, T>(h, c, m, s, b, x, last, unit);
                store_outputs<S, T>(c, m, s, b, w, first + s * S::L + b * CHUNK, end);
            }
    }
    if (CHANNEL) {
        const float *last = m.after(stages - 1, S::BLOCKS - 1) + 2 * (lane_id() % 4);
#pragma unroll
        for (int i = 0; i < S::MT; i++)
#pragma unroll
            for (int n = 0; n < S::K / 8; n++)
                times_channels(h[i][n], *(const float2 *)(last + 8 * n));
    } else if (unit != 1) {
#pragma unroll
        for (int i = 0; i < S::MT; i++)
#pragma unroll
            for (int n = 0; n < S::K / 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    h[i][n][e] *= unit;
    }
    if (cut.segments == 1 || blockIdx.y + 1 == (unsigned)cut.segments)
        write_state<S>(h, c, w, c.state + (int64_t)w.head * c.K * c.ld_state, c.ld_state);
}

#endif
