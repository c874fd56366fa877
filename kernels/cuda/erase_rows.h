// kernels/cuda/erase_rows.h - the erase recurrences in parts of 16 rows (erase_fused.h, erase_parts.h, erase_pairs.h): what is made of
// these, by one warp in place of what was fetched, and what a state makes of it.
//
// A part has 16 rows. Its decays are anchored in its middle: with l_i the log2 decay from the part's start through row i
// and 2 c that of all of it, E = e 2^(l' - c), Q = q 2^(l - c), A, K = a, k 2^(c - l), and the state between its two
// halves, H_ = 2^c . H, takes
//
//   ERASE_KEY    N = -beta E K^T       T = (I - N)^-1 beta    U = T (V - E H_)          O = Q H_ + (Q K^T) U
//   ERASE_PAIR   N = E A^T             T = (I - N)^-1         U = T (E H_ + (E K^T) V)  O = Q H_ + (Q A^T) U + (Q K^T) V
//                H <- 2^c . (H_ + K^T U)     or A^T U + K^T V
//
// N strictly below the diagonal, scores of queries up to it. No tile is needed twice, one for the start and one for the
// end, as 2^c goes to the state. Of ERASE_KEY c is a little off the middle, so that states go through two parts at a time
// (anchor_of, make_link).
//
// Where a channel decays by more than 2^-22, scores come from quarters with anchors of their own (make_quarters), or decays
// are folded in by running products (make_strong). Of ERASE_KEY such a channel has an anchor all the same, or forgets; of
// ERASE_PAIR (`strong`) E and Q are anchored at the part's start, A and K at its end: H_ = H, and the decay stands between.
#ifndef DELTOP_CUDA_ERASE_ROWS_H
#define DELTOP_CUDA_ERASE_ROWS_H

#include "kernels/cuda/erase_tile.h"
#include "kernels/cuda/powers.h"

enum { PARTS = 4, PART = BLOCK, ROWS = PARTS * PART, TWO_TERMS = 1, STRONG = 2 };

#define MILD_PART  (-22.0f) // least log2 decay of a part, or of a quarter, around its anchor
#define FORGOTTEN  (-26.0f) // of ERASE_KEY's channel in a part: with less it takes nothing along
#define LARGE_PART 0.5f     // an entry of T off the diagonal that asks for second terms

// W: type of the decays. What a part is made in, in bytes. Tiles are panels of 16 rows of 64 fp16 numbers (bfloat16 as
// fetched), the 16-byte pieces of a row exchanged by row mod 8; then T in two terms, flags, and scores, each 512 bytes
// as operands are laid out (operand_at). What a state needs that makes no outputs is E to OUTPUTS_ONLY.
template <int KEYS, bool PAIR_, class W_> struct part_form {
    typedef W_ W;
    static constexpr bool PAIR = PAIR_;
    static constexpr int K = KEYS, LINE = 128, PANEL = PART * LINE, TILE = K / 64 * PANEL,
                         N_LINE = 20;
    static constexpr int Q = 0, E = TILE, KK = 2 * TILE, A = PAIR ? 3 * TILE : KK, T = A + TILE,
                         T_REST = T + 512, FLAGS = T + 1024, S_K = T + PART * N_LINE * 4,
                         MIDDLE = PAIR ? S_K + 512 : S_K, OUTPUTS_ONLY = MIDDLE + 4 * K,
                         P = OUTPUTS_ONLY, P_K = P + 512, SLOT = PAIR ? P_K + 512 : P_K;
    // Parts that states go through together (erase_pairs.h): a link (make_link) stands behind the second.
    static constexpr int TOGETHER = PAIR ? 1 : 2, LINK = SLOT, LINK_REST = LINK + 512,
                         BETWEEN = LINK + 1024, LINK_QUERY = BETWEEN + 2 * K,
                         LINKED = PAIR ? SLOT : LINK_QUERY + 512,
                         SLOTS = (TOGETHER - 1) * SLOT + LINKED;
    // N takes the place of T and the flags, decays as fetched that of all behind tiles; floats of ERASE_KEY there that of half the
    // rows, the first of which lie where E will be made.
    static constexpr bool HALVED = !PAIR && sizeof(W) == 4;
    static constexpr int DECAYS = T, DECAY_LINE = K * (int)sizeof(W), FIRST_DECAYS = HALVED ? E : T,
                         DECAY_ROWS = HALVED ? PART / 2 : PART, // of a fetch
        DECAYS_END = DECAYS + DECAY_ROWS * DECAY_LINE,
                         BYTES = ((LINKED > DECAYS_END ? LINKED : DECAYS_END) + 1023) / 1024 * 1024;
    static_assert(N_LINE * 4 * PART >= 1024 + 16, "room for T and the flags");
    static_assert(!HALVED || DECAY_ROWS * DECAY_LINE == TILE, "half the decays fill a tile");
    static_assert(BYTES % 1024 == 0 && TILE % 1024 == 0, "where boxes may go (erase_boxes.h)");
};

ERASE_DEVICE void multiply_at(float (&d)[4], const uint32_t *a, uint32_t b0, uint32_t b1) {
    const uint32_t b[2] = {b0, b1};
    mma_f16(d, a, b);
}
ERASE_DEVICE uint32_t pack2(float x, float y) {
    return bits_of(__floats2half2_rn(x, y));
}
ERASE_DEVICE float2 two_bf16(uint32_t x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
}

// Offsets of a lane's rows in a tile for ldmatrix, of columns 16 i .. + 15. ROWS_FIRST: matrices 0 and 1 are rows 0-7 and 8-15, 2 and 3 the next eight columns; else 0 and
// 1 are columns.
template <bool ROWS_FIRST> ERASE_DEVICE uint32_t lane_row() {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = ROWS_FIRST ? lane % 16 : lane % 8 + lane / 16 * 8,
                   piece = ROWS_FIRST ? lane / 16 : lane / 8 % 2;
    return row * 128 + ((piece ^ (lane % 8)) << 4);
}
ERASE_DEVICE uint32_t at_step(uint32_t lane_row, int i) {
    return (lane_row ^ (uint32_t)(i % 4 * 32)) + (uint32_t)(i / 4 * (PART * 128));
}

// Where entry (i, j) of a 16 x 16 matrix stands that is kept as operands are: 16 bytes a lane.
ERASE_DEVICE int operand_at(int i, int j) {
    return (i % 8 * 4 + j % 8 / 2) * 16 + (i / 8 + j / 8 * 2) * 4 + j % 2 * 2;
}

// The same of a part's scores, and of four numbers of a lane at once: as right operands where states go through parts in pairs.
template <class F> ERASE_DEVICE int score_at(int i, int j) {
    return F::PAIR ? operand_at(i, j)
                   : (i % 8 * 4 + j % 8 / 2) * 16 + (j / 8 + i / 8 * 2) * 4 + j % 2 * 2;
}
template <class F>
ERASE_DEVICE void keep_scores(unsigned char *to, uint32_t first, uint32_t below, uint32_t above,
                              uint32_t last) {
    *(uint4 *)(to + threadIdx.x % 32 * 16) =
        F::PAIR ? make_uint4(first, below, above, last) : make_uint4(first, above, below, last);
}

// Decays of two channels in one row, and as bits of their type.
ERASE_DEVICE float2 two_decays(const unsigned char *p, bf16) {
    return two_bf16(*(const uint32_t *)p);
}
ERASE_DEVICE float2 two_decays(const unsigned char *p, float) {
    return *(const float2 *)p;
}

// What a lane knows of its part while it is made. Channels of a lane: 64 i + 2 lane, + 1.
template <class F> struct part_maker {
    static constexpr int HALVES = F::K / 64;
    unsigned char *part;
    uint32_t lane_at[8]; // offsets of the lane's channels in rows r mod 8

    ERASE_DEVICE part_maker(unsigned char *at_part) : part(at_part) {
        const uint32_t at = threadIdx.x % 32 * 4;
#pragma unroll
        for (int i = 0; i < 8; i++)
            lane_at[i] = at ^ (uint32_t)(i * 16);
    }
    ERASE_DEVICE uint32_t *place(int tile, int half, int r) const {
        return (uint32_t *)(part + lane_at[r % 8] + tile + r * F::LINE + half * F::PANEL);
    }
    ERASE_DEVICE float2 take(int tile, int half, int r) const {
        return two_bf16(*place(tile, half, r));
    }
    ERASE_DEVICE void give(int tile, int half, int r, float2 x) const {
        *place(tile, half, r) = pack2(x.x, x.y);
    }
    ERASE_DEVICE float2 decay(int half, int r) const {
        return two_decays(part + (r < F::DECAY_ROWS ? F::FIRST_DECAYS : F::DECAYS) +
                              r % F::DECAY_ROWS * F::DECAY_LINE +
                              (64 * half + 2 * (threadIdx.x % 32)) * (int)sizeof(typename F::W),
                          typename F::W());
    }
    ERASE_DEVICE float *n(int i, int j) const {
        return (float *)(part + F::T) + i * F::N_LINE + j;
    }
    // For make_link; a power of two is a bfloat16 number.
    ERASE_DEVICE void keep_whole(int half, float2 x) const {
        *(uint32_t *)(part + F::BETWEEN + 128 * half + threadIdx.x % 32 * 4) =
            __float_as_uint(x.x) >> 16 | (__float_as_uint(x.y) & 0xffff0000u);
    }
    ERASE_DEVICE void keep_middle(int half, float2 x) const {
        *(float2 *)(part + F::MIDDLE + 256 * half + threadIdx.x % 32 * 8) = x;
    }
};

ERASE_DEVICE float2 operator*(float2 a, float2 b) {
    return make_float2(a.x * b.x, a.y * b.y);
}
ERASE_DEVICE float2 exp2_of(float2 x) {
    return make_float2(fast_exp2(x.x), fast_exp2(x.y));
}

// Where a channel of ERASE_KEY is anchored, as log2 decays: of E and Q from the part's start, of K to its end. Both are one place,
// whole powers of two from the end in the first of two parts and from the start in the second, so that what decays between the
// two anchors is a power of two (make_link). A channel that forgets within the part has E and Q at the start and K at the end.
// rest: the decay on the other side of the anchor; whole: 2^ of the whole number, or -1 of a channel that forgets.
struct channel_anchor {
    float start, end, rest, whole;
};
ERASE_DEVICE channel_anchor anchor_of(float all, bool second) {
    if (!(all >= FORGOTTEN))
        return {0, 0, 1, -1};
    const float whole = rintf(0.5f * all), rest = all - whole;
    return {second ? whole : rest, second ? rest : whole, fast_exp2(rest),
            power_of_two((int)whole)};
}
struct two_anchors {
    float2 start, end;
    // Both channels' are kept with the part.
    template <class F>
    ERASE_DEVICE two_anchors(const part_maker<F> &m, int half, float2 all, bool second) {
        const channel_anchor x = anchor_of(all.x, second), y = anchor_of(all.y, second);
        start = make_float2(x.start, y.start), end = make_float2(x.end, y.end);
        m.keep_middle(half, make_float2(x.rest, y.rest));
        m.keep_whole(half, make_float2(x.whole, y.whole));
    }
};

// Scores of whatever decays: running products in float32, a row of columns after the other.
template <class F>
static __device__ __noinline__ void make_strong(unsigned char *part, float beta, bool second) {
    const part_maker<F> m(part);
    constexpr int HALVES = F::K / 64;
    const int lane = threadIdx.x % 32;
    float2 w[HALVES][PART], all[HALVES];
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        all[h] = make_float2(0, 0);
#pragma unroll
        for (int r = 0; r < PART; r++) {
            const float2 g = m.decay(h, r);
            all[h].x += g.x, all[h].y += g.y;
            w[h][r] = make_float2(expf(g.x), expf(g.y));
        }
    }
    __syncwarp();                                // decays are read
    float2 start[HALVES] = {}, end[HALVES] = {}; // of anchors
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        if constexpr (F::PAIR) {
            m.keep_middle(h, make_float2(expf(all[h].x), expf(all[h].y)));
        } else {
            const float log2e = 1.4426950408889634f;
            const two_anchors at(m, h, make_float2(log2e * all[h].x, log2e * all[h].y), second);
            start[h] = at.start, end[h] = at.end;
        }
    }
    auto clear = [&](int from, int bytes) {
        for (int i = 16 * lane; i < bytes; i += 512)
            *(uint4 *)(m.part + from + i) = make_uint4(0, 0, 0, 0);
    };
    clear(F::T, PART * F::N_LINE * 4);
    clear(F::P, F::PAIR ? 1024 : 512);
    if (F::PAIR)
        clear(F::S_K, 512);
    __syncwarp();
    constexpr int E = F::PAIR ? F::E : F::KK;
#pragma unroll 1
    for (int j = 0; j < PART; j++) {
        float2 a[HALVES], k[HALVES];
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const unsigned char *p =
                m.part + ((uint32_t)lane * 4 ^ (uint32_t)(j % 8 * 16)) + j * F::LINE + h * F::PANEL;
            k[h] = two_bf16(*(const uint32_t *)(p + F::KK));
            a[h] = F::PAIR ? two_bf16(*(const uint32_t *)(p + F::A)) : k[h];
        }
#pragma unroll
        for (int i = 0; i < PART; i++) {
            if (i < j)
                continue;
            float ea = 0, ek = 0, qa = 0, qk = 0;
#pragma unroll
            for (int h = 0; h < HALVES; h++) {
                const float2 e = m.take(E, h, i), q = m.take(F::Q, h, i);
                auto read = [&]() {
                    ea += e.x * a[h].x + e.y * a[h].y;
                    ek += e.x * k[h].x + e.y * k[h].y;
                };
                if (F::PAIR)
                    read();
                if (i > j)
                    a[h] = a[h] * w[h][i], k[h] = k[h] * w[h][i];
                if (!F::PAIR)
                    read();
                qa += q.x * a[h].x + q.y * a[h].y;
                qk += q.x * k[h].x + q.y * k[h].y;
            }
            // Sums over the warp, of several at once: those of e come to lanes 0 to 15, of q to the others; of PAIR
            // with a to the first eight of these, with k to the others.
            auto merge = [&](float x, float y, int d) {
                const bool upper = lane & d;
                return (upper ? y : x) + __shfl_xor_sync(~0u, upper ? x : y, d);
            };
            float sum = merge(ea, qa, 16);
            if (F::PAIR)
                sum = merge(sum, merge(ek, qk, 16), 8);
            else
                sum += __shfl_xor_sync(~0u, sum, 8);
#pragma unroll
            for (int d = 4; d; d >>= 1)
                sum += __shfl_xor_sync(~0u, sum, d);
            const float by = F::PAIR ? 1 : -__shfl_sync(~0u, beta, i);
            const bool query = lane >= 16, with_k = lane & 8;
            if (lane % 8 == 0 && (query || i > j) && (F::PAIR || !with_k)) {
                if (query || with_k)
                    put((__half *)(m.part +
                                   (!query   ? F::S_K
                                    : with_k ? F::P_K
                                             : F::P) +
                                   score_at<F>(i, j)),
                        sum);
                else
                    *m.n(i, j) = by * sum;
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        float2 p = exp2_of(make_float2(-start[h].x, -start[h].y));
#pragma unroll
        for (int r = 0; r < PART; r++) {
            float2 e = m.take(E, h, r);
            if (!F::PAIR)
                e.x = -e.x, e.y = -e.y;
            const float2 before = p;
            p = p * w[h][r];
            m.give(F::E, h, r, e * (F::PAIR ? before : p));
            m.give(F::Q, h, r, m.take(F::Q, h, r) * p);
        }
        p = exp2_of(make_float2(-end[h].x, -end[h].y));
#pragma unroll
        for (int r = PART - 1; r >= 0; r--) {
            m.give(F::KK, h, r, m.take(F::KK, h, r) * p);
            if (F::PAIR)
                m.give(F::A, h, r, m.take(F::A, h, r) * p);
            p = p * w[h][r];
        }
    }
}

// Base-2 decays of the lane's channels summed up to each row.
template <class F>
ERASE_DEVICE void sum_decays(const part_maker<F> &m, float2 (&l)[F::K / 64][PART]) {
    const float log2e = 1.4426950408889634f;
#pragma unroll
    for (int h = 0; h < F::K / 64; h++) {
        float2 sum = make_float2(0, 0);
#pragma unroll
        for (int r = 0; r < PART; r++) {
            const float2 g = m.decay(h, r);
            sum.x = fmaf(g.x, log2e, sum.x);
            sum.y = fmaf(g.y, log2e, sum.y);
            l[h][r] = sum;
        }
    }
}

// Of scores as products leave them, two numbers a lane of each quarter: on the diagonal what lies below it, or up to it, and the
// quarter below.
ERASE_DEVICE float2 below_diagonal(const float *x, bool strict) {
    const int r = threadIdx.x % 32 / 4, c = 2 * (threadIdx.x % 4);
    return strict ? make_float2(c < r ? x[0] : 0, c + 1 < r ? x[1] : 0)
                  : make_float2(c <= r ? x[0] : 0, c + 1 <= r ? x[1] : 0);
}
// By keep_scores.
template <class F>
ERASE_DEVICE void keep_lower(unsigned char *to, const float *first, const float *below,
                             const float *last, bool strict) {
    const float2 a = below_diagonal(first, strict), b = below_diagonal(last, strict);
    keep_scores<F>(to, pack2(a.x, a.y), pack2(below[0], below[1]), 0, pack2(b.x, b.y));
}
// As N, by each row's beta.
template <class F>
ERASE_DEVICE void keep_n(const part_maker<F> &m, float beta, const float *first, const float *below,
                         const float *last) {
    const int r = threadIdx.x % 32 / 4, x = 2 * (threadIdx.x % 4);
    const float b0 = F::PAIR ? 1 : __shfl_sync(~0u, beta, r),
                b1 = F::PAIR ? 1 : __shfl_sync(~0u, beta, r + 8);
    const float2 a = below_diagonal(first, true), b = below_diagonal(last, true);
    *(float2 *)m.n(r, x) = make_float2(b0 * a.x, b0 * a.y);
    *(float2 *)m.n(r + 8, x) = make_float2(b1 * below[0], b1 * below[1]);
    *(float2 *)m.n(r + 8, x + 8) = make_float2(b1 * b.x, b1 * b.y);
}

// Tiles anchored in the middle, and their scores on tensor cores. l: decays summed.
template <class F>
ERASE_DEVICE void make_mild(const part_maker<F> &m, float2 (&l)[F::K / 64][PART], float beta,
                            bool second) {
#pragma unroll
    for (int h = 0; h < F::K / 64; h++) {
        const float2 all = l[h][PART - 1];
        float2 c = make_float2(0.5f * all.x, 0.5f * all.y);
        if constexpr (F::PAIR)
            m.keep_middle(h, exp2_of(c));
        else
            c = two_anchors(m, h, all, second).start;
        float2 up = exp2_of(make_float2(-c.x, -c.y));
#pragma unroll
        for (int r = 0; r < PART; r++) {
            const float2 now = make_float2(l[h][r].x - c.x, l[h][r].y - c.y),
                         down = exp2_of(make_float2(-now.x, -now.y));
            const float2 k = m.take(F::KK, h, r);
            if (F::PAIR) {
                m.give(F::E, h, r, m.take(F::E, h, r) * up); // reads before its own decay
                m.give(F::A, h, r, m.take(F::A, h, r) * down);
            }
            up = exp2_of(now);
            if (!F::PAIR)
                m.give(F::E, h, r, k * make_float2(-up.x, -up.y));
            m.give(F::Q, h, r, m.take(F::Q, h, r) * up);
            m.give(F::KK, h, r, k * down);
        }
    }
    __syncwarp();
    constexpr int KINDS = F::PAIR ? 2 : 1;
    float e[KINDS][2][4] = {}, q[KINDS][2][4] = {}; // with k, then with a
    const uint32_t tiles = smem_address(m.part), rows = tiles + lane_row<true>(),
                   cols = tiles + lane_row<false>();
#pragma unroll
    for (int i = 0; i < F::K / 16; i++) {
        uint32_t x[4], y[4], z[4];
        ldmatrix4_at(x, at_step(rows, i) + F::E);
        ldmatrix4_at(y, at_step(rows, i) + F::Q);
#pragma unroll
        for (int kind = 0; kind < KINDS; kind++) {
            ldmatrix4_at(z, at_step(cols, i) + (kind ? F::A : F::KK));
#pragma unroll
            for (int j = 0; j < 2; j++) {
                // The upper right quarter of E's is nothing, but half a product cannot be had.
                multiply_at(e[kind][j], x, z[2 * j], z[2 * j + 1]);
                multiply_at(q[kind][j], y, z[2 * j], z[2 * j + 1]);
            }
        }
    }
    constexpr int WITH = KINDS - 1;
    keep_lower<F>(m.part + F::P, q[WITH][0], q[WITH][0] + 2, q[WITH][1] + 2, false);
    if constexpr (F::PAIR) {
        keep_lower<F>(m.part + F::P_K, q[0][0], q[0][0] + 2, q[0][1] + 2, false);
        keep_lower<F>(m.part + F::S_K, e[0][0], e[0][0] + 2, e[0][1] + 2, true);
    }
    keep_n<F>(m, beta, e[WITH][0], e[WITH][0] + 2, e[WITH][1] + 2);
}

// Scores where decays are strong, but mild in each quarter of the part. Each quarter has an anchor of its own, whole powers of two
// from where the part's own anchor is whole (anchor_of), so that moving a tile there does not round it again but in channels that
// forget; what rows take from
// other quarters goes by way of the end of a quarter between them, where no factor is above 2^0.5: from the first half to the
// second by the end of the first, within a half by the end of its first quarter. The tiles then go to the part's anchors.
template <class F>
static __device__ __noinline__ void make_quarters(unsigned char *part, float beta,
                                                  bool second_part) {
    const part_maker<F> m(part);
    constexpr int HALVES = F::K / 64, QUARTER = PART / 4;
    // Factors of the part, down to 2^-33, are no halves: times powers of two, which scores then lose.
    constexpr float ROW_MORE = 8, COLUMN_MORE = 11, LESS = 0x1p-19f;
    const int lane = threadIdx.x % 32;
    float2 l[HALVES][PART], anchor[HALVES][4];
    sum_decays(m, l);
    __syncwarp(); // decays are read
    auto whole_from = [&](float all, float c) {
        return second_part ? rintf(c) : all - rintf(all - c);
    };
    // Channels' factors of each quarter, in fp16, by which its anchor becomes that of its half, and of the part: the end between.
    uint32_t *factors = (uint32_t *)(part + F::P);
    static_assert(F::P + 16 * F::K <= F::BYTES, "room for factors");
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        auto between = [&](float2 a, float2 b, float more = 0) {
            const float2 x = exp2_of(make_float2(a.x - b.x + more, a.y - b.y + more));
            return pack2(x.x, x.y);
        };
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 start = i ? l[h][i * QUARTER - 1] : make_float2(0, 0),
                         end = l[h][(i + 1) * QUARTER - 1], all = l[h][PART - 1],
                         c = make_float2(whole_from(all.x, 0.5f * (start.x + end.x)),
                                         whole_from(all.y, 0.5f * (start.y + end.y))),
                         in_half = l[h][i < 2 ? QUARTER - 1 : 3 * QUARTER - 1],
                         midway = l[h][PART / 2 - 1];
            anchor[h][i] = c;
            factors[(2 * i * HALVES + h) * 32 + lane] =
                i % 2 ? between(c, in_half) : between(in_half, c);
            factors[((2 * i + 1) * HALVES + h) * 32 + lane] =
                i < 2 ? between(midway, c, COLUMN_MORE) : between(c, midway, ROW_MORE);
#pragma unroll
            for (int r = i * QUARTER; r < (i + 1) * QUARTER; r++) {
                const float2 up = exp2_of(make_float2(l[h][r].x - c.x, l[h][r].y - c.y)),
                             down = exp2_of(make_float2(c.x - l[h][r].x, c.y - l[h][r].y)),
                             k = m.take(F::KK, h, r);
                m.give(F::E, h, r, k * make_float2(-up.x, -up.y));
                m.give(F::Q, h, r, m.take(F::Q, h, r) * up);
                m.give(F::KK, h, r, k * down);
            }
        }
    }
    __syncwarp();
    // Rows by columns of the first half and of the second as they stand; with factors of their halves; the second half's rows by the
    // first half's columns with those of the part.
    float e[2][4] = {}, q[2][4] = {}, e_half[2][4] = {}, q_half[2][4] = {}, e_part[4] = {},
          q_part[4] = {};
    const uint32_t rows = smem_address(part) + lane_row<true>(),
                   cols = smem_address(part) + lane_row<false>();
    auto times = [](uint32_t a, uint32_t b) {
        return bits_of(__hmul2(*(const __half2 *)&a, *(const __half2 *)&b));
    };
    const int second = lane / 16; // of a half's quarters: of the lane's rows and columns
    auto factor = [&](int quarter, bool of_part, int at) {
        return factors[(2 * quarter + of_part) * (F::K / 2) + at];
    };
#pragma unroll 1
    for (int i = 0; i < F::K / 16; i++) {
        uint32_t x[4], y[4], z[4];
        ldmatrix4_at(x, at_step(rows, i) + F::E);
        ldmatrix4_at(y, at_step(rows, i) + F::Q);
        ldmatrix4_at(z, at_step(cols, i) + F::KK);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            multiply_at(e[j], x, z[2 * j], z[2 * j + 1]);
            multiply_at(q[j], y, z[2 * j], z[2 * j + 1]);
        }
        uint32_t u[4], v[4], w[4];
#pragma unroll
        for (int g = 0; g < 2; g++) { // eight channels
            const int at = 8 * i + 4 * g + lane % 4;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                // Rows take from the quarter before: those of a second one, from columns of a first.
                const uint32_t later = factor(2 * half + 1, false, at),
                               earlier = factor(2 * half, false, at);
                u[2 * g + half] = times(x[2 * g + half], later);
                v[2 * g + half] = times(y[2 * g + half], later);
                w[g + 2 * half] = times(z[g + 2 * half], earlier);
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
            multiply_at(e_half[j], u, w[2 * j], w[2 * j + 1]);
            multiply_at(q_half[j], v, w[2 * j], w[2 * j + 1]);
        }
#pragma unroll
        for (int g = 0; g < 2; g++) {
            const int at = 8 * i + 4 * g + lane % 4;
            const uint32_t later = factor(2 + second, true, at), earlier = factor(second, true, at);
            x[2 * g + 1] = times(x[2 * g + 1], later);
            y[2 * g + 1] = times(y[2 * g + 1], later);
            z[g] = times(z[g], earlier);
        }
        multiply_at(e_part, x, z[0], z[1]);
        multiply_at(q_part, y, z[0], z[1]);
    }
    __syncwarp(); // tiles and factors are read
    // On the diagonal of halves: a second quarter's rows by a first one's columns came by way of the end between.
    const bool below = second && lane % 4 < 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        e[0][i] = below ? e_half[0][i] : e[0][i], q[0][i] = below ? q_half[0][i] : q[0][i];
        e[1][i + 2] = below ? e_half[1][i + 2] : e[1][i + 2];
        q[1][i + 2] = below ? q_half[1][i + 2] : q[1][i + 2];
    }
#pragma unroll
    for (int i = 2; i < 4; i++)
        e_part[i] *= LESS, q_part[i] *= LESS;
    keep_lower<F>(part + F::P, q[0], q_part + 2, q[1] + 2, false);
    keep_n<F>(m, beta, e[0], e_part + 2, e[1] + 2);
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        const float2 all = l[h][PART - 1];
        const two_anchors at(m, h, all, second_part);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 c = anchor[h][i],
                         to_start = exp2_of(make_float2(c.x - at.start.x, c.y - at.start.y)),
                         to_end =
                             exp2_of(make_float2(all.x - at.end.x - c.x, all.y - at.end.y - c.y));
#pragma unroll
            for (int r = i * QUARTER; r < (i + 1) * QUARTER; r++) {
                auto move = [&](int tile, float2 by) {
                    m.give(tile, h, r, __half22float2(*(__half2 *)m.place(tile, h, r)) * by);
                };
                move(F::E, to_start);
                move(F::Q, to_start);
                move(F::KK, to_end);
            }
        }
    }
}

// T from N: by substitution, a column a lane (twice: the second half of the warp keeps the lower rows).
template <class F> ERASE_DEVICE bool make_inverse(const part_maker<F> &m, float beta) {
    const int lane = lane_again(), col = lane % 16;
    float y[PART];
#pragma unroll
    for (int i = 0; i < PART; i++) {
        float sum = i == col ? 1 : 0;
#pragma unroll
        for (int j = 0; j < i; j += 4) {
            const float4 n = *(const float4 *)m.n(i, j);
            sum += n.x * y[j];
            if (j + 1 < i)
                sum += n.y * y[j + 1];
            if (j + 2 < i)
                sum += n.z * y[j + 2];
            if (j + 3 < i)
                sum += n.w * y[j + 3];
        }
        y[i] = sum;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PART / 2; i++)
        *m.n(lane / 16 * 8 + i, col) = lane < 16 ? y[i] : y[i + 8];
    __syncwarp();
    const int r = lane / 4, x = 2 * (lane % 4);
    float2 t[4] = {*(const float2 *)m.n(r, x), *(const float2 *)m.n(r + 8, x),
                   *(const float2 *)m.n(r, x + 8), *(const float2 *)m.n(r + 8, x + 8)};
    __syncwarp();
    float most = 0;
    uint32_t to[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float b0 = F::PAIR ? 1 : __shfl_sync(~0u, beta, x + i / 2 * 8),
                    b1 = F::PAIR ? 1 : __shfl_sync(~0u, beta, x + 1 + i / 2 * 8);
        if (!F::PAIR)
            t[i].x *= b0, t[i].y *= b1;
        const bool diagonal = i == 0 || i == 3;
        most = fmaxf(most, fmaxf(diagonal && x == r ? 0 : fabsf(t[i].x),
                                 diagonal && x + 1 == r ? 0 : fabsf(t[i].y)));
        const __half2 near = __floats2half2_rn(t[i].x, t[i].y);
        const float2 kept = __half22float2(near);
        to[i] = bits_of(near);
        rest[i] = pack2(t[i].x - kept.x, t[i].y - kept.y);
    }
    keep_scores<F>(m.part + F::T, to[0], to[1], to[2], to[3]);
    keep_scores<F>(m.part + F::T_REST, rest[0], rest[1], rest[2], rest[3]);
    return __any_sync(~0u, most > LARGE_PART);
}

// Everything of a part that does not depend on the state. beta: of ERASE_KEY, of row `lane`. second: of two (F::TOGETHER).
template <class F>
ERASE_DEVICE void make_part(unsigned char *part, float beta, bool second = false) {
    const part_maker<F> m(part);
    constexpr int HALVES = F::K / 64;
    float2 l[HALVES][PART];
    sum_decays(m, l);
    bool mild = true, quarters = !F::PAIR; // not so where it is no number
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        mild &= l[h][PART - 1].x >= MILD_PART && l[h][PART - 1].y >= MILD_PART;
#pragma unroll
        for (int r = PART / 4 - 1; r < PART; r += PART / 4) {
            const float2 before = r < PART / 4 ? make_float2(0, 0) : l[h][r - PART / 4];
            quarters &= l[h][r].x - before.x >= MILD_PART && l[h][r].y - before.y >= MILD_PART;
        }
    }
    mild = __all_sync(~0u, mild);
    __syncwarp(); // decays are read
    if (mild) {
        make_mild<F>(m, l, beta, second);
    } else {
        if constexpr (F::PAIR)
            make_strong<F>(part, beta, second);
        else if (__all_sync(~0u, quarters))
            make_quarters<F>(part, beta, second);
        else
            make_strong<F>(part, beta, second);
    }
    __syncwarp();
    const bool two_terms = make_inverse<F>(m, beta);
    if (threadIdx.x % 32 == 0)
        *(int *)(part + F::FLAGS) = (two_terms ? TWO_TERMS : 0) | (mild || !F::PAIR ? 0 : STRONG);
}

#endif
