// kernels/cuda/erase_strong.h - scores and anchored tiles of a chunk whatever its decays are; the only way of
// exact_terms, and of half_terms where a channel decays by more than erase_mild.h can take.
//
// Decays never leave [0, 1]: no exponent is positive and nothing is divided. exp(l_i - l_j) of two rows in one block
// of 16 rows is a running product, in plain float32 (`diagonals`); of rows in blocks I > J it is F_i (I's start
// through row i) times what lies between the blocks times B_j (behind row j to the end of J), folded into the
// operands of a product on tensor cores.
#ifndef DELTOP_CUDA_ERASE_STRONG_H
#define DELTOP_CUDA_ERASE_STRONG_H

#include "kernels/cuda/erase_chunk.h"

// Rows of a chunk as floats into a tile, zeros behind its end; row r is row r of the matrix, or `token`[r] where that is
// given and not negative.
template <class F, class T>
ERASE_DEVICE void take_rows(typename F::num *to, view<T> from, int64_t first, int rows,
                            const short *token, int64_t column, int width, const float *scale) {
    const char *base = (const char *)(from.row(first) + column);
    const uint32_t step = (uint32_t)from.ld * sizeof(T);
#pragma unroll 2
    for (int i = threadIdx.x; i < F::C * F::K / 8; i += PREPARE_THREADS) {
        const int r = i / (F::K / 8), c = i % (F::K / 8) * 8, row = token ? token[r] : r;
        float x[8] = {};
        if (r < rows && c < width && row >= 0)
            load8((const T *)(base + (uint64_t)((uint32_t)row * step)) + c, x);
        if (scale)
#pragma unroll
            for (int j = 0; j < 8; j++)
                x[j] *= scale[r];
        tile_store8<F::K>(to, r, c, x);
    }
}

// Decays of every row and channel, and their product over each block: as one exponential of a sum, so that a
// state that hardly decays is rounded once a block.
template <class F>
ERASE_DEVICE void take_decays(const erase_chunk<F> &x, float *w, float *block_end) {
    const erase_call &s = x.s;
    const int64_t base = x.t0 * s.decay.ld;
    for (int i = threadIdx.x; i < F::BLOCKS * F::K; i += PREPARE_THREADS) {
        const int block = i / F::K, c = i % F::K;
        const int64_t column = base + (s.decay_of_channel ? (int64_t)x.h * s.K + c : x.h);
        float g[BLOCK], sum = 0;
#pragma unroll
        for (int r = 0; r < BLOCK; r++) {
            const int t = x.decay_token[block * BLOCK + r];
            g[r] = s.decay.p && c < s.K && t >= 0 ? s.decay.at(column + t * s.decay.ld) : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < BLOCK; r++) {
            sum += g[r];
            w[(block * BLOCK + r) * F::K + c] = expf(g[r]);
        }
        block_end[block * F::K + c] = expf(sum);
    }
}

// Scores of one block of 16 rows against columns from tile x, by one warp: lane (part, j) takes columns j and 15 - j
// and every fourth group of four channels, from `first` on every `step`-th of those. `out(query, i, j, score)` is called
// once for every j < i, of queries for j = i too.
template <class F, class Out>
ERASE_DEVICE void diagonals(const typename F::num *e, const typename F::num *q,
                            const typename F::num *x, const float *w, int row0, int first, int step,
                            Out out) {
    const int lane = threadIdx.x % 32, j = lane % 8, part = lane / 8;
    float se[BLOCK] = {}, sq[BLOCK] = {}, te[8] = {}, tq[8] = {};
    for (int g = part + 4 * first; g < F::K / 4; g += 4 * step) {
        float4 y = tile_load4<F::K>(x, row0 + j, 4 * g),
               z = tile_load4<F::K>(x, row0 + 15 - j, 4 * g);
#pragma unroll
        for (int i = 0; i < BLOCK; i++) {
            const float4 d = *(const float4 *)(w + (row0 + i) * F::K + 4 * g);
            const float4 a = tile_load4<F::K>(e, row0 + i, 4 * g),
                         b = tile_load4<F::K>(q, row0 + i, 4 * g);
            if (F::PAIR) { // reads before its own decay
                se[i] += a.x * y.x + a.y * y.y + a.z * y.z + a.w * y.w;
                if (i >= 8)
                    te[i - 8] += a.x * z.x + a.y * z.y + a.z * z.z + a.w * z.w;
            }
            if (i > 0) {
                const bool on = i >= 8 || i > j;
                y.x *= on ? d.x : 1, y.y *= on ? d.y : 1;
                y.z *= on ? d.z : 1, y.w *= on ? d.w : 1;
            }
            if (i > 8) {
                const bool on = i > 15 - j;
                z.x *= on ? d.x : 1, z.y *= on ? d.y : 1;
                z.z *= on ? d.z : 1, z.w *= on ? d.w : 1;
            }
            if (!F::PAIR) {
                se[i] += a.x * y.x + a.y * y.y + a.z * y.z + a.w * y.w;
                if (i >= 8)
                    te[i - 8] += a.x * z.x + a.y * z.y + a.z * z.z + a.w * z.w;
            }
            sq[i] += b.x * y.x + b.y * y.y + b.z * y.z + b.w * y.w;
            if (i >= 8)
                tq[i - 8] += b.x * z.x + b.y * z.y + b.z * z.z + b.w * z.w;
        }
    }
    auto parts = [](float v) {
        v += __shfl_xor_sync(~0u, v, 8);
        return v + __shfl_xor_sync(~0u, v, 16);
    };
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        float a = parts(se[i]), b = parts(sq[i]);
        if (i % 4 == part) {
            if (i > j)
                out(false, i, j, a);
            if (i >= j)
                out(true, i, j, b);
        }
        if (i >= 8) {
            a = parts(te[i - 8]), b = parts(tq[i - 8]);
            if (i % 4 == part) {
                if (i > 15 - j)
                    out(false, i, 15 - j, a);
                if (i >= 15 - j)
                    out(true, i, 15 - j, b);
            }
        }
    }
}

// What the whole blocks before, behind and between blocks decay by, from their products: [BLOCKS] before,
// [BLOCKS] behind, then between 0 and 2, 1 and 3, 0 and 3.
template <class F> ERASE_DEVICE void anchor_factors(float *to, const float *block_end) {
    constexpr int B = F::BLOCKS;
    for (int c = threadIdx.x; c < F::K; c += PREPARE_THREADS) {
        float p = 1;
#pragma unroll
        for (int i = 0; i < B; i++) {
            to[i * F::K + c] = p;
            p *= block_end[i * F::K + c];
        }
        p = 1;
#pragma unroll
        for (int i = B - 1; i >= 0; i--) {
            to[(B + i) * F::K + c] = p;
            p *= block_end[i * F::K + c];
        }
        if (B == 4) {
            const float one = block_end[F::K + c], two = block_end[2 * F::K + c];
            to[2 * B * F::K + c] = one;
            to[(2 * B + 1) * F::K + c] = two;
            to[(2 * B + 2) * F::K + c] = one * two;
        }
    }
}

// Anchors the decays of a tile's rows: row r times the product of w from its block's start through r (forward;
// exclusive: before r), or behind r to the block's end. One channel of one block.
template <class F>
ERASE_DEVICE void anchor(typename F::num *to, const typename F::num *from, const float (&w)[BLOCK],
                         int block, int c, bool forward, bool exclusive) {
    float p = 1;
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        const int r = forward ? i : BLOCK - 1 - i,
                  at = tile_at<typename F::num, F::K>(block * BLOCK + r, c);
        if (forward && !exclusive)
            p *= w[r];
        put(&to[at], p * get(from[at]));
        if (!forward || exclusive)
            p *= w[r];
    }
}

template <class F> ERASE_DEVICE erase_anchored<F> anchor_strong(const erase_chunk<F> &x) {
    typedef prepare_map<F> map;
    typedef typename F::num num;
    typedef typename F::P P;
    constexpr int K = F::K, C = F::C, BLOCKS = F::BLOCKS, WIDE = F::WIDE, LINE = map::LINE;
    unsigned char *bytes = x.bytes, *slot = x.slot;
    num *E = (num *)(bytes + map::E), *Q = (num *)(bytes + map::Q), *A = (num *)(bytes + map::A),
        *KK = (num *)(bytes + (F::PAIR ? map::KK : map::W));
    float *w = (float *)(bytes + map::W), *S = (float *)(bytes + map::S),
          *PS = (float *)(bytes + map::P), *block_end = (float *)(bytes + map::BLOCK_END),
          *sbeta = (float *)(bytes + map::BETA), *factor_of = (float *)(bytes + map::FACTORS);
    num *Pa = (num *)(bytes + map::P), *Pk = Pa + C * WIDE, *Sk = Pk + C * WIDE; // PAIR
    const int tid = threadIdx.x, warp = tid / 32;
    const erase_call &s = x.s;
    const int64_t t0 = x.t0, key = (int64_t)x.hk * s.K;
    for (int i = tid; i < (map::BLOCK_END - map::S) / 16; i += PREPARE_THREADS)
        *(float4 *)(bytes + map::S + 16 * i) = make_float4(0, 0, 0, 0);
    __syncthreads();
    take_rows<F>(Q, x.q, t0, x.rows, x.query_token, key, s.K, NULL);
    if (F::PAIR) {
        take_rows<F>(E, x.b, t0, x.rows, NULL, key, s.K, NULL);
        take_rows<F>(A, x.a, t0, x.rows, NULL, (int64_t)x.h * s.K, s.K, NULL);
        take_rows<F>(KK, x.k, t0, x.rows, NULL, key, s.K, sbeta);
    } else {
        take_rows<F>(E, x.k, t0 * s.n_h, x.rows, NULL, key, s.K, NULL);
    }
    take_decays<F>(x, w, block_end);
    __syncthreads();

    // T's matrix is I + beta S or I - S.
    auto factor = [&](int row) { return F::PAIR ? -1.0f : sbeta[row]; };
    {
        const int block = warp % BLOCKS, job = warp / BLOCKS, row0 = block * BLOCK;
        if (F::PAIR) {
            if (job < 2)
                diagonals<F>(E, Q, job ? KK : A, w, row0, 0, 1,
                             [&](bool query, int i, int j, float y) {
                                 if (!query && job == 0)
                                     S[(row0 + i) * LINE + row0 + j] = -y;
                                 else
                                     put(&(query ? job ? Pk : Pa
                                                 : Sk)[tile_at<num, WIDE>(row0 + i, row0 + j)],
                                         y);
                             });
        } else if (job < 2) { // two warps share the channels; two terms: their order is nothing
            diagonals<F>(E, Q, E, w, row0, job, 2, [&](bool query, int i, int j, float y) {
                float *to = (query ? PS : S) + (row0 + i) * LINE + row0 + j;
                atomicAdd(to, query ? y : factor(row0 + i) * y);
            });
        }
    }
    __syncthreads();
    {
        constexpr int ITEMS = (BLOCKS * K + PREPARE_THREADS - 1) / PREPARE_THREADS;
        float ww[ITEMS][BLOCK];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int at = tid + PREPARE_THREADS * i;
            if (at < BLOCKS * K)
#pragma unroll
                for (int r = 0; r < BLOCK; r++)
                    ww[i][r] = w[(at / K * BLOCK + r) * K + at % K];
        }
        anchor_factors<F>(factor_of, block_end);
        if (!F::PAIR)
            __syncthreads(); // K_ takes w's place
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int at = tid + PREPARE_THREADS * i;
            if (at < BLOCKS * K) {
                const int block = at / K, c = at % K;
                anchor<F>(KK, F::PAIR ? KK : E, ww[i], block, c, false, false);
                if (F::PAIR)
                    anchor<F>(A, A, ww[i], block, c, false, false);
                anchor<F>(E, E, ww[i], block, c, true, F::PAIR);
                anchor<F>(Q, Q, ww[i], block, c, true, false);
            }
        }
    }
    __syncthreads();

    { // across blocks: rows and queries of I, with columns of J brought to I's start
        constexpr int PAIRS = BLOCKS * (BLOCKS - 1) / 2, KINDS = F::PAIR ? 2 : 1;
        const int lane = tid % 32;
#pragma unroll 1
        for (int item = warp; item < PAIRS * KINDS; item += PREPARE_WARPS) {
            const int pair = item / KINDS;
            int I, J;
            block_pair(pair, &I, &J);
            const bool with_k = !F::PAIR || item % KINDS == 1;
            const num *cols = with_k ? KK : A;
            const float *f = factor_of + (2 * BLOCKS + (I - J == 3 ? 2 : J)) * K;
            float d[2][2][4] = {};
#pragma unroll 2
            for (int k0 = 0; k0 < K; k0 += 16) {
                factor_b<P> z[2];
                if (I == J + 1)
                    load_b<P, K>(cols, J * BLOCK, k0, z);
                else
                    load_b_scaled<P, K>(cols, J * BLOCK, k0, f, z);
#pragma unroll
                for (int query = 0; query < 2; query++) {
                    const factor_a<P> row = load_a<P, K>(query ? Q : E, I * BLOCK, k0);
                    multiply<P>(d[query][0], row, z[0]);
                    multiply<P>(d[query][1], row, z[1]);
                }
            }
#pragma unroll
            for (int query = 0; query < 2; query++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    if (F::PAIR && (query || with_k)) {
                        tile_store<WIDE>(query ? with_k ? Pk : Pa : Sk, I * BLOCK,
                                         J * BLOCK + 8 * i, d[query][i]);
                        continue;
                    }
#pragma unroll
                    for (int g = 0; g < 2; g++) {
                        const int row = I * BLOCK + lane / 4 + 8 * g,
                                  col = J * BLOCK + 8 * i + 2 * (lane % 4);
                        const float by = query ? 1 : factor(row);
                        *(float2 *)((query ? PS : S) + row * LINE + col) =
                            make_float2(by * d[query][i][2 * g], by * d[query][i][2 * g + 1]);
                    }
                }
        }
    }
    __syncthreads();

    // Readings, queries and the end's decay to the slot, K_ and A_ anchored at the chunk's end.
    for (int i = tid; i < C * K / 8; i += PREPARE_THREADS) {
        const int r = i / (K / 8), c = i % (K / 8) * 8, block = r / BLOCK;
        float before[8], behind[8];
        load8(factor_of + block * K + c, before);
        load8(factor_of + (BLOCKS + block) * K + c, behind);
        auto times = [&](const num *from, const float(&f)[8], float sign, num *to) {
            float y[8];
            tile_load8<K>(from, r, c, y);
#pragma unroll
            for (int j = 0; j < 8; j++)
                y[j] *= sign * f[j];
            tile_store8<K>(to, r, c, y);
        };
        times(E, before, F::PAIR ? 1 : -1, (num *)(slot + F::READ));
        times(Q, before, 1, (num *)(slot + F::QUERY));
        times(KK, behind, 1, KK);
        if (F::PAIR)
            times(A, behind, 1, A);
    }
    for (int c = tid; c < K; c += PREPARE_THREADS)
        ((float *)(slot + F::END))[c] = factor_of[BLOCKS * K + c] * block_end[c];
    __syncthreads();
    erase_anchored<F> y = {};
    y.k_ends = KK, y.a_ends = A;
    y.t = E, y.t_rest = (num *)(bytes + map::T_REST);
    if (F::PAIR) {
        y.p = Pa, y.p_k = Pk, y.s_k = Sk, y.p_times = Q;
    } else {
        for (int i = tid; i < C * C / 2; i += PREPARE_THREADS) {
            const int r = i / (C / 2), c = i % (C / 2) * 2;
            tile_store2<WIDE>(Q, r, c, PS[r * LINE + c], PS[r * LINE + c + 1]);
        }
        y.p = Q;
    }
    return y;
}

#endif
