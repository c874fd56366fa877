// kernels/cuda/erase_march.h - second kernel of the chunked erase recurrences: carries a head's state through the
// chunks (erase_tile.h) and makes the outputs.
//
// A warp owns 16 columns of values of one head and never exchanges a number with another one: H^T [16, K] stands in
// accumulators. Packed, they are the left operand of R^T = V^T - H^T E^T and at the same time the right operand of
// O = Q^ H; R^T, packed, that of H^T <- H^T exp(l_C) + R^T X and of P R. The warps of a block share the tiles.
//
// fp16 holds 2^-24 to 65504, so H^T and R^T are packed times a power of two that follows their size
// (`size_step`); what is too large for that becomes infinite or NaN, is noticed, and leaves a mark.
#ifndef DELTOP_CUDA_ERASE_MARCH_H
#define DELTOP_CUDA_ERASE_MARCH_H

#include "kernels/cuda/erase_tile.h"
#include "kernels/cuda/shared_memory.h"

enum {
    COLUMNS = 16,
    MARCH_WARPS = 4,
    MARCH_COLUMNS = COLUMNS * MARCH_WARPS,
    RESIZE = 8 // chunks between looks at the size of a state
};

// Shared memory of one stage: what is fetched of the slot, then the values' rows.
template <class F, bool OUTPUTS> struct march_map {
    typedef typename F::input T;
    static constexpr int LINE = MARCH_COLUMNS + 16 / (int)sizeof(T); // numbers of a row of values
    static constexpr int VALUES = OUTPUTS ? F::BYTES : F::STATE_BYTES,
                         STAGE = VALUES + F::C * LINE * (int)sizeof(T), BARRIERS = 128;
};

// Fetches chunk `c`'s tiles; values of rows and columns that are not there become zero.
template <class F, bool OUTPUTS, class T>
ERASE_DEVICE void fetch_chunk(const erase_call &s, view<T> v, const unsigned char *slots, int c,
                              int h, int column, bool wide, unsigned char *stage,
                              uint64_t *barrier) {
    typedef march_map<F, OUTPUTS> map;
    stretch_fetch(barrier, stage, slots + ((int64_t)c * s.H + h) * F::BYTES,
                  OUTPUTS ? F::BYTES : F::STATE_BYTES);
    const int64_t row0 = (int64_t)c * s.tokens * s.n_h;
    const int rows = (int)min((int64_t)s.tokens * s.n_h, s.T * s.n_h - row0);
    constexpr int PER = 16 / sizeof(T), PIECES = MARCH_COLUMNS / PER;
    T *to = (T *)(stage + map::VALUES);
    for (int i = threadIdx.x; i < F::C * PIECES; i += 32 * MARCH_WARPS) {
        const int r = i / PIECES, x = i % PIECES * PER;
        const bool there = r < rows && column + x < s.V;
        const T *from = v.p + (there ? (row0 + r) * v.ld + (int64_t)h * s.V + column + x : 0);
        if (wide)
            copy16(to + r * map::LINE + x, from, there);
        else
            for (int j = 0; j < PER; j++)
                if (there && column + x + j < s.V)
                    to[r * map::LINE + x + j] = from[j];
                else
                    put(&to[r * map::LINE + x + j], 0.0f);
    }
}

// Rows r0 .. + 15 of the values, transposed, as two accumulators.
template <int LINE>
ERASE_DEVICE void load_values(const bf16 *v, int r0, int c0, float (&x)[4], float (&y)[4]) {
    const int lane = threadIdx.x % 32, i = lane / 8;
    uint32_t r[4];
    ldmatrix4_transposed(r, v + (r0 + lane % 8 + i / 2 * 8) * LINE + c0 + i % 2 * 8);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const __nv_bfloat162 two = *(const __nv_bfloat162 *)&r[j];
        float *to = j < 2 ? x : y;
        to[2 * (j & 1)] = __low2float(two);
        to[2 * (j & 1) + 1] = __high2float(two);
    }
}
template <int LINE>
ERASE_DEVICE void load_values(const float *v, int r0, int c0, float (&x)[4], float (&y)[4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int r = r0 + 2 * (lane % 4) + j % 2, c = c0 + lane / 4 + j / 2 * 8;
        x[j] = v[r * LINE + c];
        y[j] = v[(r + 8) * LINE + c];
    }
}

ERASE_DEVICE void put2(bf16 *p, float x, float y) {
    *(__nv_bfloat162 *)p = __floats2bfloat162_rn(x, y);
}
ERASE_DEVICE void put2(float *p, float x, float y) {
    *(float2 *)p = make_float2(x, y);
}

// A power of two by which a warp's numbers, at most `most` now and standing times `size`, come near 1. Those from 2^least to
// 2^4 stay; size stays within 2^-60 and 2^60, so that a state that has decayed to nothing does not make it infinite.
ERASE_DEVICE float size_step(float most, float size, int least = -6) {
    for (int d = 16; d; d >>= 1)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    const int e = most > 0 && most < 3e38f ? ilogbf(most) : 0;
    const float step = e > 4 ? ldexpf(1, 4 - e) : e < least ? ldexpf(1, min(least - e, 100)) : 1;
    return fminf(fmaxf(step, 0x1p-60f / size), 0x1p60f / size);
}

// Where a stretch of chunks is cut into segments that run side by side (erase_scan.h): end states, and what a
// segment makes of the state it starts from.
struct erase_segments {
    int n, per;         // segments, chunks of each
    float *ends;        // [segment][H][K][V]
    float *transitions; // [segment][H][K][K]
    int from; // the first of a launch: erase_parts.h makes outputs of segment 0 beside the ends of others
    int more; // chunks that the first segment has more than others

    __host__ __device__ int begin(int i) const {
        return i * per + (i > 0 ? more : 0);
    }
};

// Blocks: heads x blocks of values (x), segments (y). OUTPUTS: all of it, from the ends of the segments before;
// else end states alone: of segment 0 from the state, of others from zero, and behind the blocks of values those
// of transitions, from the identity and without values.
template <class F, class T, bool OUTPUTS>
__global__ void __launch_bounds__(32 * MARCH_WARPS)
    march(erase_call s, view<T> v, const unsigned char *slots, view<float> state, view<T> o,
          int *marks, erase_segments seg, bool wide, int stages) {
    typedef march_map<F, OUTPUTS> map;
    typedef typename F::num num;
    typedef typename F::P P;
    constexpr int K = F::K, C = F::C, BLOCKS = F::BLOCKS, WIDE = F::WIDE;
    SHARED_MEMORY(bytes);
    uint64_t *barrier = (uint64_t *)bytes;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int blocks = (s.V + MARCH_COLUMNS - 1) / MARCH_COLUMNS,
              tiles = blocks + (OUTPUTS ? 0 : (s.K + MARCH_COLUMNS - 1) / MARCH_COLUMNS);
    const int h = blockIdx.x / tiles, tile = blockIdx.x % tiles, part = blockIdx.y;
    const bool transition = tile >= blocks;
    if (transition && part == 0)
        return; // the state itself is known there
    const int first = seg.begin(part), last = min(seg.begin(part + 1), s.chunks);
    const int width = transition ? s.K : s.V;
    const int column = (tile - (transition ? blocks : 0)) * MARCH_COLUMNS,
              mine = column + warp * COLUMNS;
    auto of_segment = [&](float *all, int i) { return all + ((int64_t)i * s.H + h) * s.K * width; };
    const float *start = part == 0 ? state.row((int64_t)h * s.K)
                         : OUTPUTS ? of_segment(seg.ends, part - 1)
                                   : NULL;
    float *end_state = seg.n == 1 ? state.row((int64_t)h * s.K)
                                  : of_segment(transition ? seg.transitions : seg.ends, part);
    const int64_t start_ld = part == 0 ? state.ld : width, end_ld = seg.n == 1 ? state.ld : width;
    // Of this lane: value columns v0, v0 + 8 of H^T, channels k0 + 8 i + {0, 1}.
    const int v0 = mine + lane / 4, k0 = 2 * (lane % 4);
    float H[K / 8][4];
#pragma unroll
    for (int i = 0; i < K / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int k = k0 + 8 * i + j % 2, x = v0 + j / 2 * 8;
            H[i][j] = k >= s.K || x >= width ? 0.0f
                      : start                ? start[k * start_ld + x]
                                             : transition && k == x;
        }
    for (int i = 0; i < stages; i++)
        stretch_init(barrier + i);
    __syncthreads();
    auto stage_of = [&](int turn) { return bytes + map::BARRIERS + turn % stages * map::STAGE; };
    auto fetch = [&](int c, int turn) {
        fetch_chunk<F, OUTPUTS>(s, v, slots, c, h, transition ? s.V : column, wide, stage_of(turn),
                                barrier + turn % stages);
    };
    fetch(first, 0);
    // Whole tiles of outputs go out in pairs.
    const bool pairs = s.n_h == 1 && mine + COLUMNS <= s.V && s.V % 2 == 0 && o.ld % 2 == 0 &&
                       (uintptr_t)o.p % (2 * sizeof(T)) == 0;
    float spoiled = 0; // NaN once anything was not finite
    float size = 1;    // H, R and O stand times this
    for (int c = first; c < last; c++) {
        const int turn = c - first;
        unsigned char *stage = stage_of(turn);
        copies_wait();
        stretch_wait(barrier + turn % stages, turn / stages & 1);
        __syncthreads(); // the tiles are there; everybody is done with the other stage
        if (stages > 1 && c + 1 < last)
            fetch(c + 1, turn + 1);
        const num *E = (const num *)(stage + F::READ), *X = (const num *)(stage + F::X),
                  *Q = (const num *)(stage + F::QUERY), *S = (const num *)(stage + F::SCORES);
        const float *end = (const float *)(stage + F::END);
        const T *values = (const T *)(stage + map::VALUES);
        float R[C / 8][4], O[BLOCKS][2][4] = {};
        float V[C / 8][4]; // PAIR
#pragma unroll
        for (int i = 0; i < C / 16; i++)
            if constexpr (F::PAIR) {
                load_values<map::LINE>(values, 16 * i, warp * COLUMNS, V[2 * i], V[2 * i + 1]);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    R[2 * i][j] = R[2 * i + 1][j] = 0;
            } else {
                load_values<map::LINE>(values, 16 * i, warp * COLUMNS, R[2 * i], R[2 * i + 1]);
            }
        if (P::TERMS == 1) {
            float(&x)[C / 8][4] = F::PAIR ? V : R;
            if (turn % RESIZE == 0) {
                float most = 0;
#pragma unroll
                for (int i = 0; i < C / 8; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        most = fmaxf(most, size * fabsf(x[i][j]));
#pragma unroll
                for (int i = 0; i < K / 8; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        most = fmaxf(most, fabsf(H[i][j]));
                const float step = size_step(most, size);
                if (step != 1) {
                    size *= step;
#pragma unroll
                    for (int i = 0; i < K / 8; i++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            H[i][j] *= step;
                }
            }
#pragma unroll
            for (int i = 0; i < C / 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    x[i][j] *= size;
        }
        const float out = s.scale / size;
#pragma unroll
        for (int i = 0; i < K / 16; i++) {
            const factor_a<P> a = as_a<P>(H[2 * i], H[2 * i + 1]);
#pragma unroll
            for (int r = 0; r < C / 16; r++) {
                factor_b<P> e[2];
                load_b<P, K>(E, 16 * r, 16 * i, e);
                multiply<P>(R[2 * r], a, e[0]);
                multiply<P>(R[2 * r + 1], a, e[1]);
            }
            if (OUTPUTS) {
                const factor_b<P> left = as_b<P>(a, 0), right = as_b<P>(a, 1);
#pragma unroll
                for (int r = 0; r < BLOCKS; r++) {
                    const factor_a<P> q = load_a<P, K>(Q, 16 * r, 16 * i);
                    multiply<P>(O[r][0], q, left);
                    multiply<P>(O[r][1], q, right);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < K / 8; i++) {
            const float2 g = *(const float2 *)(end + k0 + 8 * i);
            H[i][0] *= g.x, H[i][1] *= g.y, H[i][2] *= g.x, H[i][3] *= g.y;
        }
        auto add_rows = [&](const float(&rows)[C / 8][4], const num *write, const num *score) {
#pragma unroll
            for (int r = 0; r < C / 16; r++) {
                const factor_a<P> a = as_a<P>(rows[2 * r], rows[2 * r + 1]);
#pragma unroll
                for (int i = 0; i < K / 16; i++) {
                    factor_b<P> x[2];
                    load_b_transposed<P, K>(write, 16 * r, 16 * i, x);
                    multiply<P>(H[2 * i], a, x[0]);
                    multiply<P>(H[2 * i + 1], a, x[1]);
                }
                if (OUTPUTS) {
                    const factor_b<P> left = as_b<P>(a, 0), right = as_b<P>(a, 1);
#pragma unroll
                    for (int m = r; m < BLOCKS; m++) {
                        const factor_a<P> p = load_a<P, WIDE>(score, 16 * m, 16 * r);
                        multiply<P>(O[m][0], p, left);
                        multiply<P>(O[m][1], p, right);
                    }
                }
            }
        };
        add_rows(R, X, S);
        if constexpr (F::PAIR)
            add_rows(V, (const num *)(stage + F::W), (const num *)(stage + F::Y));
        if (OUTPUTS) {
            const int64_t t0 = (int64_t)c * s.tokens;
            const int n = (int)min((int64_t)s.tokens, s.T - t0);
            T *to = o.row(t0) + (int64_t)h * s.V + mine + k0;
#pragma unroll
            for (int r = 0; r < BLOCKS; r++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int row = 16 * r + lane / 4 + 8 * e;
                    const float(&x)[4] = O[r][0], (&y)[4] = O[r][1];
                    spoiled = fmaf(x[2 * e], 0.0f, fmaf(x[2 * e + 1], 0.0f, spoiled));
                    spoiled = fmaf(y[2 * e], 0.0f, fmaf(y[2 * e + 1], 0.0f, spoiled));
                    if (pairs && n == C) {
                        T *at = to + row * o.ld;
                        put2(at, out * x[2 * e], out * x[2 * e + 1]);
                        put2(at + 8, out * y[2 * e], out * y[2 * e + 1]);
                        continue;
                    }
                    const int t = (row + 1) / s.n_h - 1;
                    if ((row + 1) % s.n_h != 0 || t >= n)
                        continue;
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        if (mine + k0 + j / 2 * 8 + j % 2 < s.V)
                            put(to + t * o.ld + j / 2 * 8 + j % 2,
                                out * (j < 2 ? x : y)[2 * e + j % 2]);
                }
        }
        if (stages == 1 && c + 1 < last) {
            __syncthreads(); // nobody reads the stage any more
            fetch(c + 1, turn + 1);
        }
    }
#pragma unroll
    for (int i = 0; i < K / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int k = k0 + 8 * i + j % 2, x = v0 + j / 2 * 8;
            spoiled = fmaf(H[i][j], 0.0f, spoiled);
            if (k < s.K && x < width)
                end_state[k * end_ld + x] = H[i][j] / size;
        }
    if (OUTPUTS && P::TERMS == 1 && !__all_sync(~0u, spoiled == 0) && lane == 0 && mine < s.V)
        marks[(int64_t)h * ((s.V + COLUMNS - 1) / COLUMNS) + mine / COLUMNS] = 1;
}

#endif
