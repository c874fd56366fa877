// kernels/cuda/erase_prepare.h - first kernel of the chunked erase recurrences: everything of a chunk that does not
// depend on the state (erase_tile.h), for all chunks and heads side by side.
//
// Decays never leave [0, 1]: no exponent is positive and nothing is divided. exp(l_i - l_j) of two rows in one block
// of 16 rows is a running product, in plain float32 (`diagonals`); of rows in blocks I > J it is F_i (I's start
// through row i) times what lies between the blocks times B_j (behind row j to the end of J), folded into the
// operands of a product on tensor cores (`across`).
#ifndef DELTOP_CUDA_ERASE_PREPARE_H
#define DELTOP_CUDA_ERASE_PREPARE_H

#include "kernels/cuda/erase_tile.h"
#include "kernels/cuda/shared_memory.h"

enum { PREPARE_THREADS = 256, PREPARE_WARPS = PREPARE_THREADS / 32 };

// Shared memory, in bytes. e, q: tiles of keys, later T and P. ERASE_KEY: w's place becomes K_.
template <class F> struct prepare_map {
    static constexpr int LINE = F::C + 4; // floats of a row of plain scores
    static constexpr int PLAIN = F::C * LINE * 4;
    static constexpr int E = 0, Q = F::KEY_TILE, A = 2 * F::KEY_TILE, KK = 3 * F::KEY_TILE,
                         W = F::PAIR ? 4 * F::KEY_TILE : 2 * F::KEY_TILE,
                         S = W + F::C * F::K * 4, // of float: S, then T
                         P = S + PLAIN,           // ERASE_KEY: of float; PAIR: P^a, P^k, S^k, tiles
                         BLOCK_END = P + (F::PAIR ? 3 * F::SCORE_TILE : PLAIN),
                         BETA = BLOCK_END + F::BLOCKS * F::K * 4, BYTES = BETA + F::C * 4;
    // Behind K_, or where w was: free once decays are anchored. half_terms alone.
    static constexpr int T_REST = F::PAIR ? W : W + F::KEY_TILE;
    static_assert(F::SCORE_TILE <= F::KEY_TILE, "T and P take the places of e and q");
};

// Off the diagonal of T; random unit keys of 64 channels stay below.
#define LARGE 0.5f

// What rounding to a format takes off.
template <class num> ERASE_DEVICE float rest_of(float x) {
    num y;
    put(&y, x);
    return x - get(y);
}

// Rows of a chunk as floats into a tile, zeros behind its end; row r's numbers stand in row (r + 1) / every - 1 of
// the matrix, where that is whole.
template <class F, class T>
ERASE_DEVICE void take_rows(typename F::num *to, view<T> from, int64_t first, int rows, int every,
                            int64_t column, int width, const float *scale) {
    for (int i = threadIdx.x; i < F::C * F::K / 8; i += PREPARE_THREADS) {
        const int r = i / (F::K / 8), c = i % (F::K / 8) * 8;
        float x[8] = {};
        if (r < rows && c < width && (r + 1) % every == 0)
            load8(from.row(first + r / every) + column + c, x);
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
ERASE_DEVICE void take_decays(const erase_call &s, int64_t t0, int rows, int h, float *w,
                              float *block_end) {
    for (int i = threadIdx.x; i < F::BLOCKS * F::K; i += PREPARE_THREADS) {
        const int block = i / F::K, c = i % F::K;
        const int64_t column = s.decay_of_channel ? (int64_t)h * s.K + c : h;
        float g[BLOCK], sum = 0;
#pragma unroll
        for (int r = 0; r < BLOCK; r++) {
            const int row = block * BLOCK + r;
            g[r] = 0;
            if (s.decay.p && c < s.K && row < rows && row % s.n_h == 0) {
                g[r] = s.decay.at((t0 + row / s.n_h) * s.decay.ld + column);
            }
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
// and every fourth group of four channels. `out(query, i, j, score)` is called once for every j < i, and for j = i
// of queries, where `first` and `step` share the groups out among warps.
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

// exp of the log decay summed over whole blocks first .. last - 1, of one channel.
template <class F> ERASE_DEVICE float between(const float *block_end, int first, int last, int c) {
    float p = 1;
    for (int b = first; b < last; b++)
        p *= block_end[b * F::K + c];
    return p;
}

// Anchors the decays of a tile's rows: row r times the product of w from its block's start through r (forward;
// exclusive: before r), or behind r to the block's end. One channel of one block.
template <class F>
ERASE_DEVICE void anchor(typename F::num *to, const typename F::num *from, const float (&w)[BLOCK],
                         int block, int c, bool forward, bool exclusive) {
    float p = 1;
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        const int r = forward ? i : BLOCK - 1 - i, at = tile_at<typename F::num, F::K>(
                                                      block * BLOCK + r, c);
        if (forward && !exclusive)
            p *= w[r];
        put(&to[at], p * get(from[at]));
        if (!forward || exclusive)
            p *= w[r];
    }
}

// The inverse of unit lower triangular m, in place, [C][LINE], zeros above the diagonal: blocks of 16 by
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
// Row i, columns 4 c .. + 3 of a product of N x N blocks in m.
template <int N, int LINE> ERASE_DEVICE float4 block_row(const float *a, const float *b, int i, int c) {
    float4 s = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int k = 0; k < N; k++) {
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
            s = pass == 0 ? block_row<N, LINE>(b, d, i, c) : block_row<N, LINE>(low, b, i, c);
        __syncthreads();
        if (tid < ITEMS)
            *(float4 *)(b + i * LINE + 4 * c) =
                pass == 0 ? s : make_float4(-s.x, -s.y, -s.z, -s.w);
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
    num *E = (num *)(bytes + map::E), *Q = (num *)(bytes + map::Q), *A = (num *)(bytes + map::A),
        *KK = (num *)(bytes + (F::PAIR ? map::KK : map::W));
    float *w = (float *)(bytes + map::W), *S = (float *)(bytes + map::S),
          *PS = (float *)(bytes + map::P), *block_end = (float *)(bytes + map::BLOCK_END),
          *sbeta = (float *)(bytes + map::BETA);
    num *Pa = (num *)(bytes + map::P), *Pk = Pa + C * WIDE, *Sk = Pk + C * WIDE; // PAIR
    const int tid = threadIdx.x, warp = tid / 32;
    const int h = blockIdx.x, hk = h / (s.H / s.Hk);
    const int64_t t0 = (int64_t)blockIdx.y * s.tokens;
    const int n = (int)min((int64_t)s.tokens, s.T - t0), m = n * s.n_h;
    unsigned char *slot = slots + ((int64_t)blockIdx.y * s.H + h) * F::BYTES;
    if (tid < C)
        sbeta[tid] = tid >= m    ? 0.0f
                     : s.beta.p ? s.beta.at((t0 * s.n_h + tid) * s.beta.ld + h)
                                : 1.0f;
    for (int i = tid; i < (map::BLOCK_END - map::S) / 16; i += PREPARE_THREADS)
        *(float4 *)(bytes + map::S + 16 * i) = make_float4(0, 0, 0, 0);
    __syncthreads();
    take_rows<F>(Q, q, t0, m, s.n_h, (int64_t)hk * s.K, s.K, NULL);
    if (F::PAIR) {
        take_rows<F>(E, b, t0, m, 1, (int64_t)hk * s.K, s.K, NULL);
        take_rows<F>(A, a, t0, m, 1, (int64_t)h * s.K, s.K, NULL);
        take_rows<F>(KK, k, t0, m, 1, (int64_t)hk * s.K, s.K, sbeta);
    } else {
        take_rows<F>(E, k, t0 * s.n_h, m, 1, (int64_t)hk * s.K, s.K, NULL);
    }
    take_decays<F>(s, t0, m, h, w, block_end);
    __syncthreads();

    // T's matrix is I + beta S or I - S.
    auto factor = [&](int row) { return F::PAIR ? -1.0f : sbeta[row]; };
    {
        const int block = warp % BLOCKS, job = warp / BLOCKS, row0 = block * BLOCK;
        if (F::PAIR) {
            if (job < 2)
                diagonals<F>(E, Q, job ? KK : A, w, row0, 0, 1,
                             [&](bool query, int i, int j, float x) {
                                 if (!query && job == 0)
                                     S[(row0 + i) * LINE + row0 + j] = -x;
                                 else
                                     put(&(query ? job ? Pk : Pa : Sk)[tile_at<num, WIDE>(
                                             row0 + i, row0 + j)],
                                         x);
                             });
        } else if (job < 2) { // two warps share the channels; two terms: their order is nothing
            diagonals<F>(E, Q, E, w, row0, job, 2, [&](bool query, int i, int j, float x) {
                float *to = (query ? PS : S) + (row0 + i) * LINE + row0 + j;
                atomicAdd(to, query ? x : factor(row0 + i) * x);
            });
        }
    }
    __syncthreads();
    {
        constexpr int ITEMS = (BLOCKS * K + PREPARE_THREADS - 1) / PREPARE_THREADS;
        float ww[ITEMS][BLOCK];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int x = tid + PREPARE_THREADS * i;
            if (x < BLOCKS * K)
#pragma unroll
                for (int r = 0; r < BLOCK; r++)
                    ww[i][r] = w[(x / K * BLOCK + r) * K + x % K];
        }
        if (!F::PAIR)
            __syncthreads(); // K_ takes w's place
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int x = tid + PREPARE_THREADS * i;
            if (x < BLOCKS * K) {
                const int block = x / K, c = x % K;
                anchor<F>(KK, F::PAIR ? KK : E, ww[i], block, c, false, false);
                if (F::PAIR)
                    anchor<F>(A, A, ww[i], block, c, false, false);
                anchor<F>(E, E, ww[i], block, c, true, F::PAIR);
                anchor<F>(Q, Q, ww[i], block, c, true, false);
            }
        }
    }
    __syncthreads();

    { // across blocks
        constexpr int PAIRS = BLOCKS * (BLOCKS - 1) / 2, KINDS = F::PAIR ? 4 : 2;
        for (int item = warp; item < PAIRS * KINDS; item += PREPARE_WARPS) {
            const int kind = item % KINDS, pair = item / KINDS;
            const int I = pair < 1 ? 1 : pair < 3 ? 2 : 3, J = pair - I * (I - 1) / 2;
            const bool query = kind & 1, with_k = !F::PAIR || kind & 2;
            const num *rows = query ? Q : E, *cols = with_k ? KK : A;
            float d[2][4] = {};
#pragma unroll 4
            for (int k0 = 0; k0 < K; k0 += 16) {
                factor_b<P> y[2];
                load_b<P, K>(cols, J * BLOCK, k0, y);
                factor_a<P> x =
                    I == J + 1 ? load_a<P, K>(rows, I * BLOCK, k0)
                               : load_a_scaled<P, K>(rows, I * BLOCK, k0, [&](int c) {
                                     return between<F>(block_end, J + 1, I, c);
                                 });
                multiply<P>(d[0], x, y[0]);
                multiply<P>(d[1], x, y[1]);
            }
            const int lane = tid % 32;
            for (int i = 0; i < 2; i++) {
                if (F::PAIR && (query || with_k)) {
                    tile_store<WIDE>(query ? with_k ? Pk : Pa : Sk, I * BLOCK, J * BLOCK + 8 * i,
                                     d[i]);
                    continue;
                }
                float *to = query ? PS : S;
                for (int j = 0; j < 4; j++) {
                    const int row = I * BLOCK + lane / 4 + j / 2 * 8,
                              col = J * BLOCK + 8 * i + 2 * (lane % 4) + j % 2;
                    to[row * LINE + col] = query ? d[i][j] : factor(row) * d[i][j];
                }
            }
        }
    }
    __syncthreads();

    // Readings, queries and the end's decay to the slot, K_ and A_ anchored at the chunk's end, while the first
    // warps invert the diagonal blocks.
    constexpr int INVERTERS = (BLOCKS * BLOCK + 31) / 32;
    if (warp < INVERTERS) {
        invert_block<F>(S, tid % (BLOCKS * BLOCK)); // twice where there is one block alone
    } else {
        constexpr int STEP = PREPARE_THREADS - 32 * INVERTERS;
        for (int i = tid - 32 * INVERTERS; i < C * K / 8; i += STEP) {
            const int r = i / (K / 8), c = i % (K / 8) * 8, block = r / BLOCK;
            float before[8], behind[8], x[8];
#pragma unroll
            for (int j = 0; j < 8; j++) {
                before[j] = between<F>(block_end, 0, block, c + j);
                behind[j] = between<F>(block_end, block + 1, BLOCKS, c + j);
            }
            tile_load8<K>(E, r, c, x);
#pragma unroll
            for (int j = 0; j < 8; j++)
                x[j] *= F::PAIR ? before[j] : -before[j];
            tile_store8<K>((num *)(slot + F::READ), r, c, x);
            tile_load8<K>(Q, r, c, x);
#pragma unroll
            for (int j = 0; j < 8; j++)
                x[j] *= before[j];
            tile_store8<K>((num *)(slot + F::QUERY), r, c, x);
            tile_load8<K>(KK, r, c, x);
#pragma unroll
            for (int j = 0; j < 8; j++)
                x[j] *= behind[j];
            tile_store8<K>(KK, r, c, x);
            if (F::PAIR) {
                tile_load8<K>(A, r, c, x);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    x[j] *= behind[j];
                tile_store8<K>(A, r, c, x);
            }
        }
        for (int c = tid - 32 * INVERTERS; c < K; c += STEP)
            ((float *)(slot + F::END))[c] = between<F>(block_end, 0, BLOCKS, c);
    }
    __syncthreads();
    if constexpr (C > 16)
        merge_blocks<F, 16>(S);
    if constexpr (C > 32)
        merge_blocks<F, 32>(S);
    // T and P^k as operands. Where T is not small (keys that repeat), sums over its columns cancel, and what
    // rounding took off T and P^k goes along as a second term.
    num *Tn = E, *Pn = Q, *T_rest = (num *)(bytes + map::T_REST), *P_rest = (num *)(bytes + map::S);
    bool large = false;
    for (int i = tid; i < C * C / 2; i += PREPARE_THREADS) {
        const int r = i / (C / 2), c = i % (C / 2) * 2;
        const float *m = S + r * LINE + c;
        const float x = F::PAIR ? m[0] : m[0] * sbeta[c], y = F::PAIR ? m[1] : m[1] * sbeta[c + 1];
        large |= r > c && fabsf(x) > LARGE || r > c + 1 && fabsf(y) > LARGE;
        tile_store2<WIDE>(Tn, r, c, x, y);
        if (P::TERMS == 1)
            tile_store2<WIDE>(T_rest, r, c, rest_of<num>(x), rest_of<num>(y));
    }
    const bool two_terms = __syncthreads_or(large) && P::TERMS == 1;
    if (!F::PAIR) {
        for (int i = tid; i < C * C / 2; i += PREPARE_THREADS) {
            const int r = i / (C / 2), c = i % (C / 2) * 2;
            const float x = PS[r * LINE + c], y = PS[r * LINE + c + 1];
            tile_store2<WIDE>(Pn, r, c, x, y);
            if (P::TERMS == 1)
                tile_store2<WIDE>(P_rest, r, c, rest_of<num>(x), rest_of<num>(y));
        }
        __syncthreads();
    }

    // X = T^T A_, a warp taking 16 rows and 32 channels at a time.
    constexpr int ITEMS = BLOCKS * K / 32, MINE = (ITEMS + PREPARE_WARPS - 1) / PREPARE_WARPS;
    float x[MINE][4][4] = {};
    auto along_keys = [&](const num *left, const num *rest, const num *right) {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const int item = warp + PREPARE_WARPS * i, block = item % BLOCKS, c = item / BLOCKS * 32;
            if (item < ITEMS)
                for (int r = block; r < BLOCKS; r++) {
                    factor_a<P> y = load_a_transposed<P, WIDE>(left, block * BLOCK, r * BLOCK), y2;
                    if (rest)
                        y2 = load_a_transposed<P, WIDE>(rest, block * BLOCK, r * BLOCK);
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        factor_b<P> z[2];
                        load_b_transposed<P, K>(right, r * BLOCK, c + 16 * j, z);
                        multiply<P>(x[i][2 * j], y, z[0]);
                        multiply<P>(x[i][2 * j + 1], y, z[1]);
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
            const int item = warp + PREPARE_WARPS * i, block = item % BLOCKS, c = item / BLOCKS * 32;
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
            const int I = item < 1 ? 0 : item < 3 ? 1 : item < 6 ? 2 : 3,
                      J = item - I * (I + 1) / 2;
            float d[2][4] = {};
            const int lane = tid % 32;
            if (plus)
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++) {
                        float2 y = tile_load2<WIDE>(plus, I * BLOCK + lane / 4 + 8 * j,
                                                    J * BLOCK + 8 * i + 2 * (lane % 4));
                        d[i][2 * j] = y.x, d[i][2 * j + 1] = y.y;
                    }
            for (int r = J; r <= I; r++) {
                factor_b<P> z[2];
                load_b_transposed<P, WIDE>(right, r * BLOCK, J * BLOCK, z);
                factor_a<P> y = load_a<P, WIDE>(left, I * BLOCK, r * BLOCK);
                multiply<P>(d[0], y, z[0]);
                multiply<P>(d[1], y, z[1]);
                if (left_rest) {
                    const factor_a<P> y2 = load_a<P, WIDE>(left_rest, I * BLOCK, r * BLOCK);
                    multiply<P>(d[0], y2, z[0]);
                    multiply<P>(d[1], y2, z[1]);
                }
                if (right_rest) {
                    load_b_transposed<P, WIDE>(right_rest, r * BLOCK, J * BLOCK, z);
                    multiply<P>(d[0], y, z[0]);
                    multiply<P>(d[1], y, z[1]);
                }
            }
            for (int i = 0; i < 2; i++) {
                tile_store<WIDE>(to, I * BLOCK, J * BLOCK + 8 * i, d[i]);
                if (also)
                    tile_store<WIDE>(also, I * BLOCK, J * BLOCK + 8 * i, d[i]);
            }
        }
    };
    along_keys(Tn, two_terms ? T_rest : NULL, F::PAIR ? A : KK);
    keep((num *)(slot + F::X));
    along_rows(F::PAIR ? Pa : Pn, two_terms && !F::PAIR ? P_rest : NULL, Tn,
               two_terms ? T_rest : NULL, NULL, (num *)(slot + F::SCORES), F::PAIR ? Pn : NULL);
    if constexpr (F::PAIR) {
        __syncthreads();
        keep(A);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const int item = warp + PREPARE_WARPS * i, block = item % BLOCKS, c = item / BLOCKS * 32,
                      lane = tid % 32;
            if (item < ITEMS)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    for (int e = 0; e < 2; e++) {
                        float2 y = tile_load2<K>(KK, block * BLOCK + lane / 4 + 8 * e,
                                                 c + 8 * j + 2 * (lane % 4));
                        x[i][j][2 * e] = y.x, x[i][j][2 * e + 1] = y.y;
                    }
        }
        along_keys(Sk, NULL, A);
        keep((num *)(slot + F::W));
        along_rows(Pn, NULL, Sk, NULL, Pk, (num *)(slot + F::Y), NULL);
    }
}

#endif
