// kernels/cuda/erase_fused.h - one kernel that makes parts of 16 rows (erase_rows.h) and carries states through them, for
// calls with heads enough to fill a device: a block carries 64 columns of values of one head; its warps make a part each,
// then march through all four, 16 columns each. Nothing but inputs and outputs moves through memory; four blocks of K = 64
// on a multiprocessor hide each other's waits. erase_parts.h has the way through memory.
//
// States are held as in erase_march.h: H^T [16, K] in accumulators, times a power of two.
#ifndef DELTOP_CUDA_ERASE_FUSED_H
#define DELTOP_CUDA_ERASE_FUSED_H

#include "kernels/cuda/erase_boxes.h"
#include "kernels/cuda/erase_march.h"

enum {
    FUSED_THREADS = 32 * PARTS,
    LOOK = 8,       // parts between looks at the size of a state
    LEAST_SIZE = 0, // log2: smaller ones grow, so that 2^c of a decay is no loss
};
static_assert((int)PARTS == (int)MARCH_WARPS && (int)VALUE_COLUMNS == (int)MARCH_COLUMNS,
              "the warps that make parts march through them");

template <class F> ERASE_DEVICE float take_beta(const erase_call &s, int h, int64_t t0) {
    const int64_t t = t0 + threadIdx.x % 32;
    return F::PAIR || threadIdx.x % 32 >= PART || t >= s.T ? 0
           : s.beta.p                                      ? s.beta.at(t * s.beta.ld + h)
                                                           : 1;
}

// What a warp carries: H^T of its 16 columns, times `size`. As laid out by mma: columns lane / 4, + 8, channels 8 i + 2
// (lane mod 4) + {0, 1}.
template <int CHANNELS> struct part_state {
    float H[CHANNELS / 8][4];
    float size, spoiled; // spoiled: NaN once anything was not finite
};

ERASE_DEVICE uint4 operand(const unsigned char *p) {
    return *(const uint4 *)(p + threadIdx.x % 32 * 16);
}
ERASE_DEVICE float2 factor_of(const unsigned char *factors, int i) {
    return *(const float2 *)(factors + 32 * i + threadIdx.x % 4 * 8);
}
template <int N> ERASE_DEVICE void scale_state(float (&H)[N][4], const unsigned char *by) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float2 g = factor_of(by, i);
        H[i][0] *= g.x, H[i][1] *= g.y, H[i][2] *= g.x, H[i][3] *= g.y;
    }
}
// What a state is multiplied by before a part, of channels c0 .. + N - 1: 2^c of the part, and in `waiting` of the one before
// it, which takes on that of this one for the next. Strong decays stand elsewhere.
template <class F, int N>
ERASE_DEVICE void factor_before(float (&waiting)[N], const unsigned char *part, float *to) {
    const bool strong = *(const int *)(part + F::FLAGS) & STRONG;
    const float *middle = (const float *)(part + F::MIDDLE) + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float x = strong ? 1 : middle[32 * i];
        to[32 * i + threadIdx.x % 32] = waiting[i] * x;
        waiting[i] = x;
    }
}

// Values of 16 rows and the warp's columns, transposed, times `size`: as two accumulators.
ERASE_DEVICE void take_values(uint32_t at, float size, float (&x)[2][4]) {
    uint32_t r[4];
    ldmatrix4_transposed_at(r, at);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 v = two_bf16(r[j]);
        x[j / 2][2 * (j & 1)] = v.x * size;
        x[j / 2][2 * (j & 1) + 1] = v.y * size;
    }
}
ERASE_DEVICE float largest(const float (&x)[4]) {
    return fmaxf(fmaxf(fabsf(x[0]), fabsf(x[1])), fmaxf(fabsf(x[2]), fabsf(x[3])));
}

ERASE_DEVICE void pack4(uint32_t (&to)[4], const float (&x)[4], const float (&y)[4]) {
    to[0] = pack2(x[0], x[1]), to[1] = pack2(x[2], x[3]);
    to[2] = pack2(y[0], y[1]), to[3] = pack2(y[2], y[3]);
}
// What that leaves.
ERASE_DEVICE void pack4_rest(uint32_t (&to)[4], const uint32_t (&near)[4], const float (&x)[4],
                             const float (&y)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 kept = __half22float2(*(const __half2 *)&near[i]);
        const float *from = (i < 2 ? x : y) + 2 * (i & 1);
        to[i] = pack2(from[0] - kept.x, from[1] - kept.y);
    }
}

// The state of the warp through one part; its outputs (times the state's size) to O: rows lane / 4, + 8, columns 8 i + 2
// (lane mod 4) + {0, 1} of the warp's. values: address for take_values; before: what to multiply it
// by first.
template <class F>
ERASE_DEVICE void march_part(part_state<F::K> &s, const unsigned char *part, uint32_t values,
                             const unsigned char *before, float (&O)[2][4]) {
    constexpr int K = F::K;
    const int flags = *(const int *)(part + F::FLAGS);
    const uint32_t address = smem_address(part), rows = address + lane_row<true>(),
                   cols = address + lane_row<false>();
    float R[2][4] = {}, V[2][4];
    uint32_t v[4];
    take_values(values, s.size, V);
    pack4(v, V[0], V[1]);
    if constexpr (F::PAIR) {
        const uint4 f = operand(part + F::S_K);
        multiply_at(R[0], v, f.x, f.z);
        multiply_at(R[1], v, f.y, f.w);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            R[i / 4][i % 4] = V[i / 4][i % 4];
    }
    scale_state(s.H, before);
    uint32_t h[K / 16][4];
    float more[2][4] = {}; // of R: two chains of products are shorter than one
#pragma unroll
    for (int i = 0; i < K / 16; i++) {
        uint32_t e[4];
        pack4(h[i], s.H[2 * i], s.H[2 * i + 1]);
        ldmatrix4_at(e, at_step(cols, i) + F::E);
        multiply_at(i % 2 ? more[0] : R[0], h[i], e[0], e[1]);
        multiply_at(i % 2 ? more[1] : R[1], h[i], e[2], e[3]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        R[i / 4][i % 4] += more[i / 4][i % 4];
    if (flags & STRONG)
        scale_state(s.H, part + F::MIDDLE);
    float U[2][4] = {};
    uint32_t u[4], r[4];
    pack4(r, R[0], R[1]);
    const uint4 t = operand(part + F::T);
    if (flags & TWO_TERMS) {
        const uint4 rest = operand(part + F::T_REST);
        multiply_at(U[0], r, rest.x, rest.z);
        multiply_at(U[1], r, rest.y, rest.w);
        pack4_rest(u, r, R[0], R[1]);
        multiply_at(U[0], u, t.x, t.z);
        multiply_at(U[1], u, t.y, t.w);
    }
    multiply_at(U[0], r, t.x, t.z);
    multiply_at(U[1], r, t.y, t.w);
#pragma unroll
    for (int i = 0; i < 8; i++)
        O[i / 4][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < K / 16; i++) {
        uint32_t q[4];
        ldmatrix4_at(q, at_step(rows, i) + F::Q);
        multiply_at(O[0], q, h[i][0], h[i][2]);
        multiply_at(O[1], q, h[i][1], h[i][3]);
    }
    auto query = [&](int scores, const uint32_t(&x)[4]) {
        const uint4 f = operand(part + scores);
        const uint32_t p[4] = {f.x, f.y, f.z, f.w};
        multiply_at(O[0], p, x[0], x[2]);
        multiply_at(O[1], p, x[1], x[3]);
    };
    auto write = [&](int tile, const uint32_t(&x)[4]) {
#pragma unroll
        for (int i = 0; i < K / 16; i++) {
            uint32_t z[4];
            ldmatrix4_transposed_at(z, at_step(rows, i) + tile);
            multiply_at(s.H[2 * i], x, z[0], z[1]);
            multiply_at(s.H[2 * i + 1], x, z[2], z[3]);
        }
    };
    if constexpr (F::PAIR) {
        write(F::KK, v);
        query(F::P_K, v);
    }
    pack4(u, U[0], U[1]);
    write(F::A, u);
    query(F::P, u);
    if (flags & TWO_TERMS) {
        pack4_rest(r, u, U[0], U[1]);
        write(F::A, r);
        query(F::P, r);
    }
}

// Where a warp's state stands: channels k0 + .., columns v0, v0 + 8 of a matrix.
template <int CHANNELS, class Do>
ERASE_DEVICE void each_of_state(int column, int channel, Do what) {
    const int v0 = column + threadIdx.x % 32 / 4, k0 = channel + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < CHANNELS / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            what(i, j, k0 + 8 * i + j % 2, v0 + j / 2 * 8);
}
template <int CHANNELS>
ERASE_DEVICE float largest_of(const part_state<CHANNELS> &s, const float (&V)[2][4]) {
    float most = fmaxf(largest(V[0]), largest(V[1]));
#pragma unroll
    for (int i = 0; i < CHANNELS / 8; i++)
        most = fmaxf(most, largest(s.H[i]));
    return most;
}
template <int CHANNELS> ERASE_DEVICE void resize(part_state<CHANNELS> &s, float most) {
    const float step = size_step(most, s.size, LEAST_SIZE);
    s.size *= step;
#pragma unroll
    for (int i = 0; i < CHANNELS / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            s.H[i][j] *= step;
}
// The warp's outputs of 16 rows; `to`: its columns of the first row. pairs: all columns are there, and aligned.
ERASE_DEVICE void put_outputs(float &spoiled, const float (&O)[2][4], float out, bf16 *to,
                              int64_t ld, int rows, int columns, bool pairs) {
    const int r = threadIdx.x % 32 / 4, x = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < 8; i++)
        spoiled = fmaf(O[i / 4][i % 4], 0.0f, spoiled);
    bf16 *near = to + r * ld + x, *far = near + 8 * ld;
    if (pairs && rows >= PART) {
        put2(near, out * O[0][0], out * O[0][1]);
        put2(near + 8, out * O[1][0], out * O[1][1]);
        put2(far, out * O[0][2], out * O[0][3]);
        put2(far + 8, out * O[1][2], out * O[1][3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (r + i % 4 / 2 * 8 < rows && x + i / 4 * 8 + i % 2 < columns)
            put((i % 4 / 2 ? far : near) + i / 4 * 8 + i % 2, out * O[i / 4][i % 4]);
}
ERASE_DEVICE bool in_pairs(const erase_call &s, view<bf16> o, int column) {
    return column + COLUMNS <= s.V && s.V % 2 == 0 && o.ld % 2 == 0 && (uintptr_t)o.p % 4 == 0;
}
ERASE_DEVICE void mark(int *marks, const erase_call &s, int h, int column, float spoiled) {
    if (!__all_sync(~0u, spoiled == 0) && threadIdx.x % 32 == 0 && column < s.V)
        marks[(int64_t)h * ((s.V + COLUMNS - 1) / COLUMNS) + column / COLUMNS] = 1;
}

// Blocks: heads x 64 columns of values. Shared memory: parts, their values, factors before them, barriers.
template <class F> constexpr int fused_shared() {
    return PARTS * (F::BYTES + VALUE_TILE + 4 * F::K) + 128;
}
template <class F>
__global__ void __launch_bounds__(FUSED_THREADS, F::K == 64 ? 4 : 1)
    fused(erase_call s, part_inputs x, const __grid_constant__ part_maps maps, view<float> state,
          view<bf16> o, int *marks) {
    SHARED_MEMORY(stage);
    const uint32_t all_values = smem_address(stage) + PARTS * F::BYTES;
    const int warp = threadIdx.x / 32;
    const int tiles = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS, h = blockIdx.x / tiles,
              hk = h / (s.H / s.Hk), column = blockIdx.x % tiles * MARCH_COLUMNS,
              mine = column + warp * COLUMNS;
    float *at = state.row((int64_t)h * s.K);
    part_state<F::K> m;
    m.size = 1, m.spoiled = 0;
    each_of_state<F::K>(mine, 0, [&](int i, int j, int k, int c) {
        m.H[i][j] = k < s.K && c < s.V ? at[k * state.ld + c] : 0;
    });
    const uint32_t values = all_values + (lane_row<false>() ^ (uint32_t)(warp * COLUMNS * 2));
    const bool pairs = in_pairs(s, o, mine);
    unsigned char *own = stage + warp * F::BYTES;
    uint64_t *barrier = (uint64_t *)(stage + PARTS * (F::BYTES + VALUE_TILE + 4 * F::K)) + warp;
    float *before = (float *)(stage + PARTS * (F::BYTES + VALUE_TILE));
    stretch_init(barrier, threadIdx.x % 32 == 0);
    __syncwarp();
    auto fetch = [&](int64_t t) {
        fetch_part<F, true>(s, x, maps, smem_address(own), all_values + warp * VALUE_TILE, barrier,
                            h, hk, column, t + warp * PART);
    };
    fetch(0);
    uint32_t turn = 0;
    float out = 0;
    for (int64_t t0 = 0; t0 < s.T; t0 += ROWS, turn++) {
        const float beta = take_beta<F>(s, h, t0 + warp * PART);
        part_wait(barrier, turn & 1);
        make_part<F>(own, beta);
        fence_copies(); // the next fetch comes behind what was written
        __syncthreads();
        if (turn % RESIZE == 0) {
            float most = 0;
#pragma unroll 1
            for (int part = 0; part < PARTS; part++) {
                float v[2][4];
                take_values(values + part * VALUE_TILE, m.size, v);
                most = fmaxf(most, largest_of(m, v));
            }
            resize(m, most);
            out = s.scale / m.size;
        }
        {
            float waiting[F::K / 32];
#pragma unroll
            for (int i = 0; i < F::K / 32; i++)
                waiting[i] = 1;
            if (warp > 0) // of the part before
                factor_before<F>(waiting, own - F::BYTES, before + warp * F::K);
            factor_before<F>(waiting, own, before + warp * F::K);
        }
        __syncthreads();
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            float O[2][4];
            march_part<F>(m, stage + part * F::BYTES, values + part * VALUE_TILE,
                          (const unsigned char *)(before + part * F::K), O);
            const int64_t t = t0 + part * PART;
            put_outputs(m.spoiled, O, out, o.row(t) + (int64_t)h * s.V + mine, o.ld,
                        (int)min((int64_t)PART, s.T - t), s.V - mine, pairs);
        }
        const unsigned char *end = stage + (PARTS - 1) * F::BYTES;
        if (!(*(const int *)(end + F::FLAGS) & STRONG))
            scale_state(m.H, end + F::MIDDLE);
        if (t0 + ROWS < s.T) {
            __syncthreads(); // nobody reads the parts any more
            fetch(t0 + ROWS);
        }
    }
    each_of_state<F::K>(mine, 0, [&](int i, int j, int k, int c) {
        m.spoiled = fmaf(m.H[i][j], 0.0f, m.spoiled);
        if (k < s.K && c < s.V)
            at[k * state.ld + c] = m.H[i][j] / m.size;
    });
    mark(marks, s, h, mine, m.spoiled);
}

#endif
