// kernels/cuda/erase_link.h - what makes of two parts of 16 rows (erase_rows.h) a pair that states go through together
// (erase_pairs.h).
#ifndef DELTOP_CUDA_ERASE_LINK_H
#define DELTOP_CUDA_ERASE_LINK_H

#include "kernels/cuda/erase_rows.h"

// What a part takes from writes of the one before, which was made F::BYTES below: with H_ = b . H + (K b)^T U of those, b what
// decays from its anchor to this one's,
//
//   E H_ = (E b) H + (E (K b)^T) U,    Q H_ = (Q b) H + (Q (K b)^T) U
//
// so that both parts read the state that stands before the first. E, Q and the first one's K become E b, Q b and K b: b is a
// power of two, so that nothing is rounded again (but what falls below fp16's normal numbers). Of a channel that the first part forgets b is 0 but for K, of one that the
// second forgets for K and H. By the second part's warp; the first one's has to wait for it.
template <class F> ERASE_DEVICE void make_link(unsigned char *part) {
    const int lane = threadIdx.x % 32;
    unsigned char *first = part - F::BYTES;
    int *flags = (int *)(part + F::FLAGS);
    const uint32_t rows = smem_address(part) + lane_row<true>(),
                   cols = smem_address(first) + F::KK + lane_row<false>();
    // Of two channels, the pair-th of all, as anchor_of has it.
    auto whole = [&](const unsigned char *of, int pair) {
        return two_bf16(*(const uint32_t *)(of + F::BETWEEN + 4 * pair));
    };
    auto kept = [](float2 a) { return make_float2(fmaxf(a.x, 0), fmaxf(a.y, 0)); };
    auto size = [](float2 a) { return make_float2(fabsf(a.x), fabsf(a.y)); };
    auto times = [](uint32_t x, float2 b) {
        const float2 y = __half22float2(*(const __half2 *)&x) * b;
        return pack2(y.x, y.y);
    };
    float e[2][4] = {}, q[2][4] = {};
#pragma unroll 2
    for (int i = 0; i < F::K / 16; i++) {
        uint32_t x[4], y[4], z[4];
        ldmatrix4_at(x, at_step(rows, i) + F::E);
        ldmatrix4_at(y, at_step(rows, i) + F::Q);
        ldmatrix4_at(z, at_step(cols, i));
        float2 read[2], wrote[2], stays[2];
#pragma unroll
        for (int g = 0; g < 2; g++) {
            const int pair = 8 * i + 4 * g + lane % 4;
            const float2 a = whole(first, pair), b = whole(part, pair);
            read[g] = kept(a) * size(b), wrote[g] = size(a) * size(b);
            stays[g] = make_float2(b.x > 0 ? 1 : 0, b.y > 0 ? 1 : 0);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            z[j] = times(z[j], wrote[j % 2]);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            multiply_at(e[j], x, z[2 * j], z[2 * j + 1]);
            multiply_at(q[j], y, z[2 * j], z[2 * j + 1]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[j] = times(x[j], read[j / 2]), y[j] = times(y[j], read[j / 2]);
            z[j] = times(z[j], stays[j % 2]);
        }
        stmatrix4_at(at_step(rows, i) + F::E, x);
        stmatrix4_at(at_step(rows, i) + F::Q, y);
        stmatrix4_at(at_step(cols, i), z);
    }
    float most = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        most = fmaxf(most, fabsf(e[i / 4][i % 4]));
    if (__any_sync(~0u, most > LARGE_PART) && lane == 0)
        *flags |= TWO_TERMS;
    // As lanes of march_pairs ask for it: of channels 8 i + 2 (l mod 4) + {0, 1}, four i at a time.
    uint32_t all[F::K / 64];
#pragma unroll
    for (int h = 0; h < F::K / 64; h++) {
        const float2 b = kept(whole(first, 32 * h + lane)) * kept(whole(part, 32 * h + lane));
        all[h] = __float_as_uint(b.x) >> 16 | (__float_as_uint(b.y) & 0xffff0000u);
    }
    __syncwarp(); // all of it is read
#pragma unroll
    for (int h = 0; h < F::K / 64; h++) {
        const int i = 8 * h + lane / 4;
        *(uint32_t *)(part + F::BETWEEN + i / 4 * 64 + lane % 4 * 16 + i % 4 * 4) = all[h];
    }
    uint32_t to[4], rest[4], queries[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *from = e[i / 2] + i % 2 * 2, *query = q[i / 2] + i % 2 * 2;
        const __half2 near = __floats2half2_rn(from[0], from[1]);
        const float2 kept = __half22float2(near);
        to[i] = bits_of(near);
        rest[i] = pack2(from[0] - kept.x, from[1] - kept.y);
        queries[i] = pack2(query[0], query[1]);
    }
    keep_scores<F>(part + F::LINK, to[0], to[1], to[2], to[3]);
    keep_scores<F>(part + F::LINK_REST, rest[0], rest[1], rest[2], rest[3]);
    keep_scores<F>(part + F::LINK_QUERY, queries[0], queries[1], queries[2], queries[3]);
}

#endif
