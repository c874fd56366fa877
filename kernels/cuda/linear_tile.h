// kernels/cuda/linear_tile.h - sizes, shared memory and loads of the chunked linear recurrences
// (kernels/cuda/linear.h): what the pass with outputs (linear_walk.h) and the pass to the ends of segments
// (linear_ends.h) share.
//
// A block of threads owns COLUMNS columns of the states that one key head feeds (with a decay per channel: of
// one state), a warp SLICE of them, all of one value head. Rows come in stages of L tokens, and are worked on
// in chunks of 16: with the decay of each chunk put on the state, no exponent spans more than 16 tokens, and
// the work outside the state's own two products is as small as it gets.
#ifndef DELTOP_CUDA_LINEAR_TILE_H
#define DELTOP_CUDA_LINEAR_TILE_H

#include "kernels/cuda/linear.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/warp_product.h"

enum { CHUNK = 16 };

// K_: the keys' width, or the next larger that there is: columns behind it are zeros.
template <class T, int K_, bool CHANNEL_> struct linear_tile {
    static constexpr bool HALF = sizeof(T) == 2, CHANNEL = CHANNEL_;
    static constexpr int K = K_;
    // The state of a warp takes MT K / 2 registers a thread.
    static constexpr int WARPS = HALF && K <= 128 ? 4 : 8, THREADS = 32 * WARPS;
    static constexpr int MT = HALF && K <= 128 ? 2 : 1; // tiles of 16 columns
    static constexpr int SLICE = 16 * MT, COLUMNS = WARPS * SLICE;
    static constexpr int L = !HALF && K > 128 ? 16 : 32, BLOCKS = L / CHUNK;
    static constexpr int VECTOR = 16 / (int)sizeof(T); // numbers of a copy
    // Sixteen bytes more than a multiple of 128: eight rows of a product's operand lie in different banks.
    static constexpr int PITCH = K + VECTOR, VPITCH = COLUMNS + VECTOR;
    static constexpr int KEYS = L * PITCH * (int)sizeof(T), VALUES = L * VPITCH * (int)sizeof(T);
    static constexpr int PARTS = K / 64;
    // Blocks on a multiprocessor.
    static constexpr int RESIDENT = HALF && K <= 64 ? 3 : HALF && K <= 128 ? 2 : 1;
};

// Columns of the states that a warp owns.
struct warp_columns {
    int head, first; // of H; of V
    bool mine;       // false: it has none
};

template <class S> __device__ __forceinline__ int groups_of(const linear_call &c) {
    return S::CHANNEL ? c.H : c.Hk;
}

template <class S> __host__ __device__ constexpr int blocks_of_group(const linear_call &c) {
    const int heads = S::CHANNEL ? 1 : c.H / c.Hk, slices = (c.V + S::SLICE - 1) / S::SLICE;
    return (heads * slices + S::WARPS - 1) / S::WARPS;
}

// blockIdx.x counts blocks of the first group, then of the second ...
template <class S> __device__ __forceinline__ warp_columns columns_of_warp(const linear_call &c) {
    const int heads = S::CHANNEL ? 1 : c.H / c.Hk, slices = (c.V + S::SLICE - 1) / S::SLICE;
    const int per = blocks_of_group<S>(c), group = (int)blockIdx.x / per;
    const int slice = (int)blockIdx.x % per * S::WARPS + (int)threadIdx.x / 32;
    warp_columns w;
    w.mine = slice < heads * slices;
    w.head = group * heads + (w.mine ? slice / slices : 0);
    w.first = slice % slices * S::SLICE;
    return w;
}

template <class S> __device__ __forceinline__ int key_head_of_block(const linear_call &c) {
    const int group = (int)blockIdx.x / blocks_of_group<S>(c);
    return S::CHANNEL ? group / (c.H / c.Hk) : group;
}

__device__ __forceinline__ float number_at(const linear_matrix &m, int64_t row, int64_t column) {
    const int64_t i = row * m.ld + column;
    return m.bytes == 2 ? __bfloat162float(((const bf16 *)m.p)[i]) : ((const float *)m.p)[i];
}

// Log decays as exponents of 2. NaN stays NaN.
__device__ __forceinline__ float exponent_of(float log_decay) {
    return (log_decay < -10000.0f ? -10000.0f : log_decay) * 1.44269504f;
}

// 2^x, as exact as the inputs are.
template <class S> __device__ __forceinline__ float power_of_2(float x) {
    return S::HALF ? exp2_quick(x) : exp2f(x);
}

// Starts copies of L rows of S::K numbers, `pitch` apart where they come to lie: rows 0 .. there - 1 from
// `from` on, the first K numbers of each; zeros otherwise. A thread copies 16 bytes of some of the rows.
template <class S, class N>
__device__ __forceinline__ void load_rows(N *to, int pitch, const N *from, int64_t ld, int K,
                                          int there) {
    constexpr int vector = 16 / (int)sizeof(N), per = S::K / vector, step = S::THREADS / per;
    const int row = (int)threadIdx.x / per, x = (int)threadIdx.x % per * vector;
    const int rows = x < K ? there : 0;
    from += row * ld + x;
    to += row * pitch + x;
#pragma unroll
    for (int r = 0; r < S::L; r += step) {
        if (S::L % step == 0 || row + r < S::L)
            copy_async(to + r * pitch, from, row + r < rows);
        from += step * ld;
    }
}

// Rows of a matrix from a token on, `column` its first.
template <class T>
__device__ __forceinline__ const T *place_of(const linear_matrix &m, int64_t token,
                                             int64_t column) {
    return (const T *)m.p + token * m.ld + column;
}

// Log decays per channel, in their own type, rows without gaps.
template <class S>
__device__ __forceinline__ void load_gates(unsigned char *to, const linear_matrix &m, int K,
                                           int64_t column, int64_t token, int there) {
    if (m.bytes == 2)
        load_rows<S>((bf16 *)to, S::K, place_of<bf16>(m, token, column), m.ld, K, there);
    else
        load_rows<S>((float *)to, S::K, place_of<float>(m, token, column), m.ld, K, there);
}

// This warp's columns of L rows of values.
template <class S, class T>
__device__ __forceinline__ void load_values(T *to, const linear_call &c, const warp_columns &w,
                                            int64_t token, int there) {
    constexpr int per = S::SLICE / S::VECTOR, step = 32 / per;
    const int row = lane_id() / per, x = lane_id() % per * S::VECTOR;
    const int rows = w.mine && w.first + x < c.V ? there : 0;
    const T *from = place_of<T>(c.v, token + row, (int64_t)w.head * c.V + w.first + x);
    to += row * S::VPITCH + (int)threadIdx.x / 32 * S::SLICE + x;
#pragma unroll
    for (int r = 0; r < S::L; r += step) {
        copy_async(to + r * S::VPITCH, from, row + r < rows);
        from += step * c.v.ld;
    }
}

// A past whose decays sum up to less, as exponents of 2, leaves nothing that a float32 sum would see.
#define FORGOTTEN (-26.0)

// `behind`, or NaN where a gate of tokens first .. last - 1 is no number: they were left out because what lies
// behind them forgets everything, but that must show. By a warp.
__device__ __forceinline__ double behind_all(const linear_call &c, int head, int64_t first,
                                             int64_t last, double behind) {
    bool broken = false;
    for (int64_t t = first + lane_id(); t < last; t += 32)
        broken |= isnan(number_at(c.decay, t, head));
    return __any_sync(~0u, broken) ? NAN : behind;
}

// Log decay of a channel in shared memory, as an exponent of 2.
__device__ __forceinline__ float gate_at(const unsigned char *gates, int i, int bytes) {
    return exponent_of(bytes == 2 ? __bfloat162float(((const bf16 *)gates)[i])
                                  : ((const float *)gates)[i]);
}

// H^T of this warp: h[m][n] is the 16 x 8 tile of columns first + 16 m of V and channels 8 n (D of
// warp_product.h). from: [K, V] of the head, rows ld apart; NULL: zeros.
template <class S>
__device__ __forceinline__ void read_state(float (&h)[S::MT][S::K / 8][4], const linear_call &c,
                                           const warp_columns &w, const float *from, int64_t ld) {
    const int v = w.first + lane_id() / 4, k = 2 * (lane_id() % 4);
#pragma unroll
    for (int m = 0; m < S::MT; m++)
#pragma unroll
        for (int n = 0; n < S::K / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = 8 * n + k + e % 2, column = v + 16 * m + 8 * (e / 2);
                h[m][n][e] = from && w.mine && row < c.K && column < c.V
                                 ? from[(int64_t)row * ld + column]
                                 : 0.0f;
            }
}

template <class S>
__device__ __forceinline__ void write_state(const float (&h)[S::MT][S::K / 8][4],
                                            const linear_call &c, const warp_columns &w, float *to,
                                            int64_t ld) {
    const int v = w.first + lane_id() / 4, k = 2 * (lane_id() % 4);
#pragma unroll
    for (int m = 0; m < S::MT; m++)
#pragma unroll
        for (int n = 0; n < S::K / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = 8 * n + k + e % 2, column = v + 16 * m + 8 * (e / 2);
                if (w.mine && row < c.K && column < c.V)
                    to[(int64_t)row * ld + column] = h[m][n][e];
            }
}

// A call in segments. slots: [segments][H K][V], of each segment the state that it adds, then the one it ends
// with; the last holds a copy of the first start. decays: [segments][H or H K], the factor of a whole segment.
struct linear_cut {
    float *slots, *decays;
    int segments;
    int64_t tokens;
};

__host__ __device__ constexpr int64_t state_floats(const linear_call &c) {
    return (int64_t)c.H * c.K * c.V;
}

#endif
