// kernels/cuda/erase_fused.h - a chunked erase recurrence in one kernel, for calls with heads enough to fill a device: a
// block carries 64 columns of values of one head and makes everything of 64 rows in shared memory, a warp 16 rows
// (erase_rows.h), before its warps, of 16 columns each, carry the state through them. Nothing but inputs and outputs
// moves through memory; four blocks of K = 64 on a multiprocessor hide each other's copies and barriers.
//
// States are held as in erase_march.h: H^T [16, K] in accumulators, times a power of two.
#ifndef DELTOP_CUDA_ERASE_FUSED_H
#define DELTOP_CUDA_ERASE_FUSED_H

#include "kernels/cuda/erase_march.h"
#include "kernels/cuda/erase_rows.h"

enum { FUSED_THREADS = 32 * MARCH_WARPS };

// What a block needs to know of a call beside erase_call.
struct fused_inputs {
    view<bf16> q, k, a, b, v; // k of ERASE_KEY: what b is too
};

// A tile's rows from `from` on, `bytes` of each (whole 16-byte pieces); zeros for other rows and behind `bytes`.
template <int LINE, bool SWIZZLED>
ERASE_DEVICE void fetch_tile(uint32_t to, const char *from, int64_t ld, int rows, int bytes) {
    constexpr int PIECES = LINE / 16, STEP = FUSED_THREADS / PIECES;
    const int row0 = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
    const bool there = piece * 16 < bytes;
    const char *at = from + (there ? piece * 16 : 0);
#pragma unroll
    for (int i = 0; i < ROWS / STEP; i++) {
        const int row = row0 + i * STEP;
        const int place = SWIZZLED ? row * LINE + piece / 8 * 128 + ((piece ^ row) % 8) * 16
                                   : row * LINE + piece * 16;
        const bool take = there && row < rows;
        copy16_at(to + place, at + (take ? row : 0) * ld, take);
    }
}

template <class F>
ERASE_DEVICE void fetch_rows(const erase_call &s, const fused_inputs &x, uint32_t stage, int h,
                             int hk, int column, int64_t t0) {
    typedef typename F::W W;
    const int rows = (int)min((int64_t)ROWS, s.T - t0), width = min(64, s.V - column);
    auto tile = [&](int place, view<bf16> m, int64_t from) {
        fetch_tile<F::LINE, true>(stage + place, (const char *)(m.row(t0) + from), m.ld * 2, rows,
                                  2 * s.K);
    };
    fetch_tile<F::DECAY_LINE, false>(
        stage + F::DECAYS,
        (const char *)((const W *)s.decay.p + t0 * s.decay.ld + (int64_t)h * s.K),
        s.decay.ld * (int)sizeof(W), rows, (int)sizeof(W) * s.K);
    tile(F::Q, x.q, (int64_t)hk * s.K);
    tile(F::KK, x.k, (int64_t)hk * s.K);
    if (F::PAIR) {
        tile(F::E, x.b, (int64_t)hk * s.K);
        tile(F::A, x.a, (int64_t)h * s.K);
    }
    fetch_tile<F::V_LINE, true>(stage + F::V,
                                (const char *)(x.v.row(t0) + (int64_t)h * s.V + column), x.v.ld * 2,
                                rows, 2 * width);
}

// What a warp carries: H^T of its 16 columns, times `size`. As laid out by mma: columns lane / 4, + 8, channels 8 i + 2
// (lane mod 4) + {0, 1}.
template <class F> struct fused_state {
    float H[F::K / 8][4];
    float size, spoiled; // spoiled: NaN once anything was not finite
};

ERASE_DEVICE uint4 operand(const unsigned char *p) {
    return *(const uint4 *)(p + threadIdx.x % 32 * 16);
}

template <class F> ERASE_DEVICE void scale_state(fused_state<F> &s, const unsigned char *factors) {
#pragma unroll
    for (int i = 0; i < F::K / 8; i++) {
        const float2 g = *(const float2 *)(factors + 32 * i + threadIdx.x % 4 * 8);
        s.H[i][0] *= g.x, s.H[i][1] *= g.y, s.H[i][2] *= g.x, s.H[i][3] *= g.y;
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

ERASE_DEVICE void pack4(uint32_t (&to)[4], const float (&x)[4], const float (&y)[4]) {
    to[0] = pack2(x[0], x[1]), to[1] = pack2(x[2], x[3]);
    to[2] = pack2(y[0], y[1]), to[3] = pack2(y[2], y[3]);
}

// The state of the warp through one part; its outputs (times the state's size) to O: rows lane / 4, + 8, columns 8 i + 2
// (lane mod 4) + {0, 1} of the warp's. `pending`: 2^c of the part before, where that still waits, else NULL.
template <class F>
ERASE_DEVICE void march_part(fused_state<F> &s, const unsigned char *stage, uint32_t address,
                             int part, uint32_t values, const unsigned char *&pending,
                             float (&O)[2][4]) {
    constexpr int K = F::K;
    const unsigned char *decays = stage + F::DECAYS + part * F::PART_DECAYS,
                        *more = stage + F::MORE + part * F::PART_MORE;
    const int flags = ((const int *)(stage + F::FLAGS))[part];
    const uint32_t rows = address + part * F::PART_TILE + lane_row<F::LINE, true>(),
                   cols = address + part * F::PART_TILE + lane_row<F::LINE, false>();
    if (pending)
        scale_state<F>(s, pending);
    if (!(flags & STRONG))
        scale_state<F>(s, more + F::MIDDLE);
    float R[2][4] = {}, V[2][4];
    uint32_t v[4];
    take_values(values + part * F::PART_V, s.size, V);
    pack4(v, V[0], V[1]);
    if constexpr (F::PAIR) {
        const uint4 f = operand(more + F::S_K);
        multiply_at(R[0], v, f.x, f.z);
        multiply_at(R[1], v, f.y, f.w);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            R[i / 4][i % 4] = V[i / 4][i % 4];
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            O[i][j] = 0;
#pragma unroll
    for (int i = 0; i < K / 16; i++) {
        uint32_t a[4], e[4], q[4];
        pack4(a, s.H[2 * i], s.H[2 * i + 1]);
        ldmatrix4_at(e, at_step(cols, i) + F::E);
        ldmatrix4_at(q, at_step(rows, i) + F::Q);
        multiply_at(R[0], a, e[0], e[1]);
        multiply_at(R[1], a, e[2], e[3]);
        multiply_at(O[0], q, a[0], a[2]);
        multiply_at(O[1], q, a[1], a[3]);
    }
    if (flags & STRONG)
        scale_state<F>(s, more + F::MIDDLE);
    uint32_t u[4];
    {
        float U[2][4] = {};
        uint32_t r[4];
        pack4(r, R[0], R[1]);
        const uint4 t = operand(decays + F::T);
        if (flags & TWO_TERMS) {
            const uint4 rest = operand(decays + F::T_REST);
            multiply_at(U[0], r, rest.x, rest.z);
            multiply_at(U[1], r, rest.y, rest.w);
        }
        multiply_at(U[0], r, t.x, t.z);
        multiply_at(U[1], r, t.y, t.w);
        pack4(u, U[0], U[1]);
    }
    auto query = [&](const unsigned char *scores, const uint32_t(&x)[4]) {
        const uint4 f = operand(scores);
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
        query(more + F::P_K, v);
        write(F::KK, v);
    }
    query(decays + F::P, u);
    write(F::A, u);
    pending = flags & STRONG ? NULL : more + F::MIDDLE;
}

// Blocks: heads x 64 columns of values.
template <class F>
__global__ void __launch_bounds__(FUSED_THREADS, F::K == 64 ? 4 : 1)
    fused(erase_call s, fused_inputs x, view<float> state, view<bf16> o, int *marks) {
    constexpr int K = F::K;
    SHARED_MEMORY(stage);
    const uint32_t address = smem_address(stage);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tiles = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS, h = blockIdx.x / tiles,
              hk = h / (s.H / s.Hk), column = blockIdx.x % tiles * MARCH_COLUMNS,
              mine = column + warp * COLUMNS;
    float *at = state.row((int64_t)h * s.K);
    const int v0 = mine + lane / 4, k0 = 2 * (lane % 4);
    fused_state<F> mine_state;
    fused_state<F> &m = mine_state;
    m.size = 1, m.spoiled = 0;
#pragma unroll
    for (int i = 0; i < K / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int k = k0 + 8 * i + j % 2, c = v0 + j / 2 * 8;
            m.H[i][j] = k < s.K && c < s.V ? at[k * state.ld + c] : 0;
        }
    const uint32_t values =
        address + F::V + (lane_row<F::V_LINE, false>() ^ (uint32_t)(warp * COLUMNS * 2));
    const bool pairs =
        mine + COLUMNS <= s.V && s.V % 2 == 0 && o.ld % 2 == 0 && (uintptr_t)o.p % 4 == 0;
    for (int64_t t0 = 0; t0 < s.T; t0 += ROWS) {
        if (t0 > 0)
            __syncthreads(); // nobody reads the rows before any more
        fetch_rows<F>(s, x, address, h, hk, column, t0);
        const int64_t t = t0 + warp * PART + lane;
        const float beta = F::PAIR || lane >= PART || t >= s.T ? 0
                           : s.beta.p                          ? s.beta.at(t * s.beta.ld + h)
                                                               : 1;
        copies_wait();
        __syncthreads();
        make_part<F>(stage, warp, beta);
        __syncthreads();
        if (t0 / ROWS % RESIZE == 0) {
            float most = 0;
#pragma unroll 1
            for (int part = 0; part < PARTS; part++) {
                float v[2][4];
                take_values(values + part * F::PART_V, m.size, v);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    most = fmaxf(most, fabsf(v[i / 4][i % 4]));
            }
#pragma unroll
            for (int i = 0; i < K / 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    most = fmaxf(most, fabsf(m.H[i][j]));
            const float step = size_step(most, m.size);
            m.size *= step;
#pragma unroll
            for (int i = 0; i < K / 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    m.H[i][j] *= step;
        }
        const float out = s.scale / m.size;
        const unsigned char *pending = NULL;
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            float O[2][4];
            march_part<F>(m, stage, address, part, values, pending, O);
            bf16 *to = o.row(t0) + (int64_t)h * s.V + mine + k0;
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int row = PART * part + lane / 4 + 8 * e;
                m.spoiled = fmaf(O[0][2 * e], 0.0f, fmaf(O[0][2 * e + 1], 0.0f, m.spoiled));
                m.spoiled = fmaf(O[1][2 * e], 0.0f, fmaf(O[1][2 * e + 1], 0.0f, m.spoiled));
                if (t0 + row >= s.T)
                    continue;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float y = out * O[i][2 * e], z = out * O[i][2 * e + 1];
                    bf16 *p = to + row * o.ld + 8 * i;
                    if (pairs) {
                        put2(p, y, z);
                    } else {
                        if (mine + k0 + 8 * i < s.V)
                            put(p, y);
                        if (mine + k0 + 8 * i + 1 < s.V)
                            put(p + 1, z);
                    }
                }
            }
        }
        if (pending)
            scale_state<F>(m, pending);
    }
#pragma unroll
    for (int i = 0; i < K / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int k = k0 + 8 * i + j % 2, c = v0 + j / 2 * 8;
            m.spoiled = fmaf(m.H[i][j], 0.0f, m.spoiled);
            if (k < s.K && c < s.V)
                at[k * state.ld + c] = m.H[i][j] / m.size;
        }
    if (!__all_sync(~0u, m.spoiled == 0) && lane == 0 && mine < s.V)
        marks[(int64_t)h * ((s.V + COLUMNS - 1) / COLUMNS) + mine / COLUMNS] = 1;
}

#endif
