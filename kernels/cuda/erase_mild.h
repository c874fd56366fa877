// kernels/cuda/erase_mild.h - scores and anchored tiles of a chunk in whose blocks of 16 rows no channel decays by more
// than 2^-22 (half_terms alone): everything on tensor cores.
//
// A block's decays are anchored in its middle: with s_i the log2 decay from the block's start through row i and 2 c that
// of the whole block, rows are e 2^(s_i - c) and columns k 2^(c - s_j), exponents between -11 and 11. Scores of rows in
// block I with columns in block J < I take 2^(c_J), then 2^(c_I + what lies between) along the channels; both factors
// are at most 1, and where the second vanishes in fp16 what is lost is below 2^-14.
#ifndef DELTOP_CUDA_ERASE_MILD_H
#define DELTOP_CUDA_ERASE_MILD_H

#include "kernels/cuda/erase_chunk.h"

#define MILD (-22.0f) // least log2 decay of a block

ERASE_DEVICE float2 as_float2(uint32_t two) {
    __nv_bfloat162 x = *(__nv_bfloat162 *)&two;
    return make_float2(__low2float(x), __high2float(x));
}

// Channels c, c + 1 of the 16 rows of a block, two bfloat16 each; zeros where there is nothing. Row r of the chunk is
// row r of the matrix from `base` on, or token[r].
template <class F>
ERASE_DEVICE void take_block(uint32_t (&x)[BLOCK], const bf16 *base, int64_t ld, int row0, int rows,
                             const short *token) {
    const uint32_t step = (uint32_t)ld * 2;
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        const int row = token ? token[row0 + i] : row0 + i < rows ? row0 + i : -1;
        x[i] = row < 0 || rows == 0
                   ? 0
                   : *(const uint32_t *)((const char *)base + (uint64_t)(row * step));
    }
}

// Log2 decays of those rows, summed from the block's start through each row.
template <class F>
ERASE_DEVICE void sum_block(float2 (&sum)[BLOCK], const erase_chunk<F> &x, int row0, int c) {
    const gates &g = x.s.decay;
    const float log2e = 1.4426950408889634f;
    const int64_t at = x.t0 * g.ld + (x.s.decay_of_channel ? (int64_t)x.h * x.s.K + c : x.h);
    const short *token = x.decay_token + row0;
    const uint32_t step = (uint32_t)g.ld * (g.is_16 ? 2 : 4);
    const char *base = (const char *)g.p + at * (g.is_16 ? 2 : 4);
    const bool there = g.p && c < x.s.K;
    if (!x.s.decay_of_channel) {
#pragma unroll
        for (int i = 0; i < BLOCK; i++) {
            const float w = there && token[i] >= 0 ? g.at(at + token[i] * g.ld) : 0;
            sum[i] = make_float2(w, w);
        }
    } else if (g.is_16) {
#pragma unroll
        for (int i = 0; i < BLOCK; i++)
            sum[i] = as_float2(there && token[i] >= 0
                                   ? *(const uint32_t *)(base + (uint64_t)(token[i] * step))
                                   : 0);
    } else {
#pragma unroll
        for (int i = 0; i < BLOCK; i++)
            sum[i] = there && token[i] >= 0 ? *(const float2 *)(base + (uint64_t)(token[i] * step))
                                            : make_float2(0, 0);
    }
    float2 all = make_float2(0, 0);
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        all.x = fmaf(sum[i].x, log2e, all.x);
        all.y = fmaf(sum[i].y, log2e, all.y);
        sum[i] = all;
    }
}

// False, and nothing done, where decays are too strong (or no numbers). Else S and the scores are there and tiles
// as *y says; the caller synchronises.
template <class F> ERASE_DEVICE bool anchor_mild(const erase_chunk<F> &x, erase_anchored<F> *y) {
    typedef prepare_map<F> map;
    typedef typename F::P P;
    constexpr int K = F::K, C = F::C, BLOCKS = F::BLOCKS, WIDE = F::WIDE, LINE = map::LINE;
    // Items: two channels of a block's rows. Where they are few, some threads take rows (e, q), others columns (k, a).
    constexpr int ITEMS = BLOCKS * K / 2, ROLES = ITEMS < PREPARE_THREADS ? 2 : 1;
    static_assert(ITEMS * ROLES == PREPARE_THREADS, "an item a thread");
    unsigned char *bytes = x.bytes;
    __half *E = (__half *)(bytes + map::E), *Q = (__half *)(bytes + map::Q),
           *A = (__half *)(bytes + map::A_COLS), *A_ends = (__half *)(bytes + map::A_ENDS),
           *KC = (__half *)(bytes + map::K_COLS), *K_ends = (__half *)(bytes + map::K_ENDS);
    float *S = (float *)(bytes + map::S), *block_end = (float *)(bytes + map::BLOCK_END),
          *beta = (float *)(bytes + map::BETA);
    __half *P0 = (__half *)(bytes + map::P), *P1 = P0 + C * WIDE, *P2 = P1 + C * WIDE;
    __half *factor = (__half *)(bytes + map::FACTORS); // [BLOCKS] own half, then pairs
    const erase_call &s = x.s;
    const int tid = threadIdx.x, item = tid % ITEMS, I0 = item / (K / 2), c = item % (K / 2) * 2,
              row0 = I0 * BLOCK;
    const bool there = c < s.K, rows_too = ROLES == 1 || tid < ITEMS,
               cols_too = ROLES == 1 || tid >= ITEMS;
    const int64_t key = (int64_t)x.hk * s.K + c;
    float2 sum[BLOCK];
    uint32_t first[BLOCK], second[BLOCK];
    const int rows = there ? x.rows : 0;
    auto keys = [&](uint32_t(&to)[BLOCK], view<bf16> from, int64_t row, int64_t column) {
        take_block<F>(to, from.row(row) + column, from.ld, row0, rows, NULL);
    };
    // Asked for together with the decays.
    if (!F::PAIR)
        keys(first, x.k, x.t0 * s.n_h, key);
    else if (rows_too)
        keys(first, x.b, x.t0, key);
    else
        keys(first, x.a, x.t0, (int64_t)x.h * s.K + c);
    if (F::PAIR && !rows_too)
        keys(second, x.k, x.t0, key);
    else if (rows_too && s.n_h == 1)
        keys(second, x.q, x.t0, key);
    else if (rows_too)
        take_block<F>(second, x.q.row(x.t0) + key, x.q.ld, row0, rows, x.query_token);
    sum_block<F>(sum, x, row0, c);
    const float2 all = sum[BLOCK - 1];
    if (rows_too)
        *(float2 *)(block_end + I0 * K + c) = all;
    if (!__syncthreads_and(all.x >= MILD && all.y >= MILD))
        return false;

    float2 before = make_float2(0, 0), behind = make_float2(0, 0);
    const float2 half = make_float2(0.5f * all.x, 0.5f * all.y);
    __half2 *own = (__half2 *)(factor + I0 * K + c);
    if (rows_too)
        *own = __floats2half2_rn(fast_exp2(half.x), fast_exp2(half.y));
#pragma unroll
    for (int J = BLOCKS - 1; J >= 0; J--) {
        const float2 other = *(const float2 *)(block_end + J * K + c);
        if (J < I0) {
            if (rows_too)
                *(__half2 *)(factor + (BLOCKS + I0 * (I0 - 1) / 2 + J) * K + c) =
                    __floats2half2_rn(fast_exp2(half.x + before.x), fast_exp2(half.y + before.y));
            before.x += other.x, before.y += other.y;
        }
        if (J > I0)
            behind.x += other.x, behind.y += other.y;
    }
    if (rows_too && I0 == 0)
        *(float2 *)(x.slot + F::END + 4 * c) =
            make_float2(exp2f(all.x + behind.x), exp2f(all.y + behind.y));
    // From the middle to the chunk's start, and to its end.
    const float2 start = make_float2(fast_exp2(half.x + before.x), fast_exp2(half.y + before.y)),
                 end = make_float2(fast_exp2(half.x + behind.x), fast_exp2(half.y + behind.y));
    auto store = [&](__half *tile, int r, float2 v) {
        tile_store2<K>(tile, row0 + r, c, v.x, v.y);
    };
    auto times = [](float2 v, float2 w) { return make_float2(v.x * w.x, v.y * w.y); };
    __half *to_read = (__half *)(x.slot + F::READ), *to_query = (__half *)(x.slot + F::QUERY);
    auto put_rows = [&]() {
        float2 at = make_float2(-half.x, -half.y); // PAIR reads before its own decay
#pragma unroll
        for (int r = 0; r < BLOCK; r++) {
            const float2 now = make_float2(sum[r].x - half.x, sum[r].y - half.y);
            const float2 up = make_float2(fast_exp2(now.x), fast_exp2(now.y));
            const float2 e_up = F::PAIR ? make_float2(fast_exp2(at.x), fast_exp2(at.y)) : up;
            at = now;
            const float2 e = times(as_float2(first[r]), e_up), q = times(as_float2(second[r]), up);
            store(E, r, e);
            store(Q, r, q);
            const float2 read = times(e, start);
            store(to_read, r, F::PAIR ? read : make_float2(-read.x, -read.y));
            store(to_query, r, times(q, start));
        }
    };
    auto put_cols = [&]() {
#pragma unroll
        for (int r = 0; r < BLOCK; r++) {
            const float2 down =
                make_float2(fast_exp2(half.x - sum[r].x), fast_exp2(half.y - sum[r].y));
            float2 k = times(as_float2(F::PAIR ? second[r] : first[r]), down);
            if (F::PAIR) {
                const float2 a = times(as_float2(first[r]), down);
                store(A, r, a);
                store(A_ends, r, times(a, end));
                k.x *= beta[row0 + r], k.y *= beta[row0 + r];
            }
            store(KC, r, k);
            store(K_ends, r, times(k, end));
        }
    };
    if (rows_too)
        put_rows();
    if (F::PAIR && ROLES == 1) {
        keys(first, x.a, x.t0, (int64_t)x.h * s.K + c);
        keys(second, x.k, x.t0, key);
    }
    if (cols_too)
        put_cols();
    __syncthreads();

    // One block of 16 x 16 scores for both e and q an item; PAIR: with a, then with k.
    constexpr int PAIRS = BLOCKS * (BLOCKS - 1) / 2, KINDS = F::PAIR ? 2 : 1;
    const int lane = tid % 32;
    for (int i = tid / 32; i < (PAIRS + BLOCKS) * KINDS; i += PREPARE_WARPS) {
        const int pair = i / KINDS;
        const bool with_k = !F::PAIR || i % KINDS == 1, apart = pair < PAIRS;
        int I = pair - PAIRS, J = I;
        if (apart)
            block_pair(pair, &I, &J);
        const __half *cols = with_k ? KC : A;
        const __half *near = factor + J * K + 2 * (lane % 4),
                     *far = factor + (BLOCKS + pair) * K + 2 * (lane % 4);
        float e[2][4] = {}, q[2][4] = {};
#pragma unroll 4
        for (int k0 = 0; k0 < K; k0 += 16) {
            factor_b<P> z[2];
            load_b<P, K>(cols, J * BLOCK, k0, z);
            if (apart)
#pragma unroll
                for (int g = 0; g < 2; g++) {
                    const __half2 n = *(const __half2 *)(near + k0 + 8 * g),
                                  f = *(const __half2 *)(far + k0 + 8 * g);
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        __half2 *p = (__half2 *)&z[j].x[0][g];
                        *p = __hmul2(__hmul2(*p, n), f);
                    }
                }
            const factor_a<P> row = load_a<P, K>(E, I * BLOCK, k0),
                              query = load_a<P, K>(Q, I * BLOCK, k0);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                multiply<P>(e[j], row, z[j]);
                multiply<P>(q[j], query, z[j]);
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int g = 0; g < 2; g++) {
                const int r = I * BLOCK + lane / 4 + 8 * g, k = J * BLOCK + 8 * j + 2 * (lane % 4);
                const float e0 = k < r ? e[j][2 * g] : 0, e1 = k + 1 < r ? e[j][2 * g + 1] : 0;
                const float q0 = k <= r ? q[j][2 * g] : 0, q1 = k + 1 <= r ? q[j][2 * g + 1] : 0;
                if (F::PAIR) {
                    tile_store2<WIDE>(with_k ? P1 : P0, r, k, q0, q1);
                    if (with_k)
                        tile_store2<WIDE>(P2, r, k, e0, e1);
                    else
                        *(float2 *)(S + r * LINE + k) = make_float2(-e0, -e1);
                } else {
                    tile_store2<WIDE>(P0, r, k, q0, q1);
                    tile_store2<WIDE>(P1, r, k, rest_of<__half>(q0), rest_of<__half>(q1));
                    *(float2 *)(S + r * LINE + k) = make_float2(beta[r] * e0, beta[r] * e1);
                }
            }
    }
    *y = {};
    y->k_ends = K_ends, y->a_ends = A_ends;
    y->t = E, y->t_rest = KC;
    y->p = P0;
    if (F::PAIR)
        y->p_k = P1, y->s_k = P2, y->p_times = Q;
    else
        y->p_rest = P1;
    return true;
}

#endif
