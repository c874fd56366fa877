// kernels/cuda/erase_prepare.h - first kernel of the chunked erase recurrences: everything of a chunk that does not
// depend on the state (erase_tile.h), for all chunks and heads side by side. Decays are folded into keys and scores by
// erase_mild.h where that is possible with one anchor for every 16 rows, by erase_strong.h everywhere else.
#ifndef DELTOP_CUDA_ERASE_PREPARE_H
#define DELTOP_CUDA_ERASE_PREPARE_H

#include "kernels/cuda/erase_mild.h"
#include "kernels/cuda/erase_strong.h"

// An entry of T off the diagonal that asks for a second term.
#define LARGE 0.5f

// The inverse of unit lower triangular m, in place, [C][LINE]; blocks above the diagonal are not read: blocks of 16 by
// substitution, then [A 0; B D]^-1 = [A^-1 0; -D^-1 B A^-1 D^-1] for blocks of 16 and of 32.
template <class F> ERASE_DEVICE void invert_block(float *m, int x) {
    constexpr int LINE = prepare_map<F>::LINE;
    float *d = m + x / BLOCK * BLOCK * (LINE + 1), y[BLOCK];
    const int col = x % BLOCK;
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < i; j++)
            sum += d[i * LINE + j] * y[j];
        y[i] = i == col ? 1 : i < col ? 0 : -sum;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BLOCK; i++)
        d[i * LINE + col] = y[i];
}
// Row i, columns 4 c .. + 3 of a product of N x N blocks: its terms `from` .. `to` - 1.
template <int N, int LINE>
ERASE_DEVICE float4 block_row(const float *a, const float *b, int i, int c, int from, int to) {
    float4 s = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int k = from; k < to; k++) {
        const float x = a[i * LINE + k];
        const float4 y = *(const float4 *)(b + k * LINE + 4 * c);
        s.x += x * y.x, s.y += x * y.y, s.z += x * y.z, s.w += x * y.w;
    }
    return s;
}
template <class F, int N> ERASE_DEVICE void merge_blocks(float *m) {
    constexpr int LINE = prepare_map<F>::LINE, PER = N * N / 4, ITEMS = F::C / (2 * N) * PER;
    static_assert(ITEMS <= PREPARE_THREADS, "a row's quarter for every thread");
    const int tid = threadIdx.x, i = tid % PER / (N / 4), c = tid % (N / 4);
    float *d = m + tid / PER * 2 * N * (LINE + 1), *b = d + N * LINE, *low = b + N;
    float4 s;
    for (int pass = 0; pass < 2; pass++) {
        if (tid < ITEMS)
            s = pass == 0 ? block_row<N, LINE>(b, d, i, c, c < N / 8 ? 0 : N / 2, N)
                          : block_row<N, LINE>(low, b, i, c, 0, i < N / 2 ? N / 2 : N);
        __syncthreads();
        if (tid < ITEMS)
            *(float4 *)(b + i * LINE + 4 * c) = pass == 0 ? s : make_float4(-s.x, -s.y, -s.z, -s.w);
        __syncthreads();
    }
}

// A block for each head (x) and chunk (y).
template <class F, class T>
__global__ void __launch_bounds__(PREPARE_THREADS, F::P::TERMS == 1 ? 2 : 1)
    prepare(erase_call s, view<T> q, view<T> k, view<T> a, view<T> b, unsigned char *slots) {
    typedef prepare_map<F> map;
    typedef typename F::num num;
    typedef typename F::P P;
    constexpr int K = F::K, C = F::C, BLOCKS = F::BLOCKS, WIDE = F::WIDE, LINE = map::LINE;
    SHARED_MEMORY(bytes);
    float *S = (float *)(bytes + map::S), *sbeta = (float *)(bytes + map::BETA);
    const int tid = threadIdx.x, warp = tid / 32, h = blockIdx.x;
    const int64_t t0 = (int64_t)blockIdx.y * s.tokens;
    const int m = (int)min((int64_t)s.tokens, s.T - t0) * s.n_h;
    unsigned char *slot = slots + ((int64_t)blockIdx.y * s.H + h) * F::BYTES;
    short *token = (short *)(bytes + map::TOKENS);
    const erase_chunk<F> chunk = {s, q,  k,     a,    b,     h,        h / (s.H / s.Hk),
                                  m, t0, bytes, slot, token, token + C};
    if (tid < C)
        sbeta[tid] = tid >= m   ? 0.0f
                     : s.beta.p ? s.beta.at((t0 * s.n_h + tid) * s.beta.ld + h)
                                : 1.0f;
    if (tid < C) {
        token[tid] = (short)(tid < m && tid % s.n_h == 0 ? tid / s.n_h : -1);
        token[C + tid] = (short)(tid < m && (tid + 1) % s.n_h == 0 ? tid / s.n_h : -1);
    }
    __syncthreads();
    erase_anchored<F> y;
    bool done = false;
    if constexpr (P::TERMS == 1)
        done = anchor_mild<F>(chunk, &y);
    if (!done) {
        __syncthreads();
        y = anchor_strong<F>(chunk);
    }
    __syncthreads();
    if (tid < (BLOCKS * BLOCK + 31) / 32 * 32)
        invert_block<F>(S, tid % (BLOCKS * BLOCK)); // twice where there is one block alone
    __syncthreads();
    if constexpr (C > 16)
        merge_blocks<F, 16>(S);
    if constexpr (C > 32)
        merge_blocks<F, 32>(S);
    // T as an operand. Where it is not small (keys that repeat), sums over its columns cancel, and what rounding took
    // off goes along as a second term.
    bool large = false;
    for (int i = tid; i < C * C / 8; i += PREPARE_THREADS) {
        const int r = i / (C / 8), c = i % (C / 8) * 8;
        float x[8];
        load8(S + r * LINE + c, x);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            x[j] = c + j > r ? 0 : F::PAIR ? x[j] : x[j] * sbeta[c + j];
            large |= c + j < r && fabsf(x[j]) > LARGE;
        }
        tile_store8<WIDE>(y.t, r, c, x);
        if (P::TERMS == 1) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                x[j] = rest_of<num>(x[j]);
            tile_store8<WIDE>(y.t_rest, r, c, x);
        }
    }
    const bool two_terms = __syncthreads_or(large) && P::TERMS == 1;
    const num *T_rest = two_terms ? y.t_rest : NULL;

    // X = T^T A_, a warp taking 16 rows and 32 channels at a time.
    constexpr int ITEMS = BLOCKS * K / 32, MINE = (ITEMS + PREPARE_WARPS - 1) / PREPARE_WARPS;
    float x[MINE][4][4] = {};
    auto along_keys = [&](const num *left, const num *rest, const num *right) {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const int item = warp + PREPARE_WARPS * i, block = item % BLOCKS,
                      c = item / BLOCKS * 32;
            if (item < ITEMS)
                for (int r = block; r < BLOCKS; r++) {
                    factor_a<P> y1 = load_a_transposed<P, WIDE>(left, block * BLOCK, r * BLOCK), y2;
                    if (rest)
                        y2 = load_a_transposed<P, WIDE>(rest, block * BLOCK, r * BLOCK);
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        factor_b<P> z[2];
                        load_b_transposed<P, K>(right, r * BLOCK, c + 16 * j, z);
                        multiply<P>(x[i][2 * j], y1, z[0]);
                        multiply<P>(x[i][2 * j + 1], y1, z[1]);
                        if (rest) {
                            multiply<P>(x[i][2 * j], y2, z[0]);
                            multiply<P>(x[i][2 * j + 1], y2, z[1]);
                        }
                    }
                }
        }
    };
    auto keep = [&](num *to) {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const int item = warp + PREPARE_WARPS * i, block = item % BLOCKS,
                      c = item / BLOCKS * 32;
            if (item < ITEMS)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    tile_store<K>(to, block * BLOCK, c + 8 * j, x[i][j]);
        }
    };
    // Lower triangular products of scores, one 16 x 16 block an item.
    auto along_rows = [&](const num *left, const num *left_rest, const num *right,
                          const num *right_rest, const num *plus, num *to, num *also) {
        for (int item = warp; item < BLOCKS * (BLOCKS + 1) / 2; item += PREPARE_WARPS) {
            const int I = item < 1   ? 0
                          : item < 3 ? 1
                          : item < 6 ? 2
                                     : 3,
                      J = item - I * (I + 1) / 2;
            float d[2][4] = {};
            const int lane = tid % 32;
            if (plus)
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++) {
                        float2 z = tile_load2<WIDE>(plus, I * BLOCK + lane / 4 + 8 * j,
                                                    J * BLOCK + 8 * i + 2 * (lane % 4));
                        d[i][2 * j] = z.x, d[i][2 * j + 1] = z.y;
                    }
            for (int r = J; r <= I; r++) {
                factor_b<P> z[2];
                load_b_transposed<P, WIDE>(right, r * BLOCK, J * BLOCK, z);
                const factor_a<P> y1 = load_a<P, WIDE>(left, I * BLOCK, r * BLOCK);
                multiply<P>(d[0], y1, z[0]);
                multiply<P>(d[1], y1, z[1]);
                if (left_rest) {
                    const factor_a<P> y2 = load_a<P, WIDE>(left_rest, I * BLOCK, r * BLOCK);
                    multiply<P>(d[0], y2, z[0]);
                    multiply<P>(d[1], y2, z[1]);
                }
                if (right_rest) {
                    load_b_transposed<P, WIDE>(right_rest, r * BLOCK, J * BLOCK, z);
                    multiply<P>(d[0], y1, z[0]);
                    multiply<P>(d[1], y1, z[1]);
                }
            }
            for (int i = 0; i < 2; i++) {
                tile_store<WIDE>(to, I * BLOCK, J * BLOCK + 8 * i, d[i]);
                if (also)
                    tile_store<WIDE>(also, I * BLOCK, J * BLOCK + 8 * i, d[i]);
            }
        }
    };
    along_keys(y.t, T_rest, F::PAIR ? y.a_ends : y.k_ends);
    keep((num *)(slot + F::X));
    along_rows(y.p, two_terms ? y.p_rest : NULL, y.t, T_rest, NULL, (num *)(slot + F::SCORES),
               F::PAIR ? y.p_times : NULL);
    if constexpr (F::PAIR) {
        __syncthreads();
        keep(y.a_ends);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const int item = warp + PREPARE_WARPS * i, block = item % BLOCKS,
                      c = item / BLOCKS * 32, lane = tid % 32;
            if (item < ITEMS)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    for (int e = 0; e < 2; e++) {
                        float2 z = tile_load2<K>(y.k_ends, block * BLOCK + lane / 4 + 8 * e,
                                                 c + 8 * j + 2 * (lane % 4));
                        x[i][j][2 * e] = z.x, x[i][j][2 * e + 1] = z.y;
                    }
        }
        along_keys(y.s_k, NULL, y.a_ends);
        keep((num *)(slot + F::W));
        along_rows(y.p_times, NULL, y.s_k, NULL, y.p_k, (num *)(slot + F::Y), NULL);
    }
}

#endif
