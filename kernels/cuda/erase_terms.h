// kernels/cuda/erase_terms.h - number formats of the erase kernels, and tiles and fragments in them.
//
// A format says how operands of products are kept in tiles (num) and how many 16-bit terms a product takes:
//
//   half_terms   fp16, one term: operands are rounded to 11 bits
//   exact_terms  float, split into three bfloat16 terms of 8 bits as it is read: the six products that matter
//                leave an error of about 2^-22 of a product, float32's own within a digit
//
// Tiles are rows of W numbers, W a multiple of 128 bytes; the 16-byte pieces of a row are exchanged by row mod 8,
// so that eight rows of one column lie in eight banks.
#ifndef DELTOP_CUDA_ERASE_TERMS_H
#define DELTOP_CUDA_ERASE_TERMS_H

#include "kernels/cuda/device.h"
#include "kernels/cuda/erase_ptx.h"

#include <cuda_fp16.h>

#define ERASE_DEVICE __device__ __forceinline__

ERASE_DEVICE float get(__half x) {
    return __half2float(x);
}
ERASE_DEVICE void put(__half *p, float x) {
    *p = __float2half_rn(x);
}

ERASE_DEVICE uint32_t bits_of(__half2 x) {
    return *(uint32_t *)&x;
}
ERASE_DEVICE uint32_t bits_of(__nv_bfloat162 x) {
    return *(uint32_t *)&x;
}

struct half_terms {
    typedef __half num;
    enum { TERMS = 1 };
    // Terms of two neighbours along k.
    static ERASE_DEVICE void split(float lo, float hi, uint32_t *to) {
        to[0] = bits_of(__floats2half2_rn(lo, hi));
    }
};
struct exact_terms {
    typedef float num;
    enum { TERMS = 3 };
    static ERASE_DEVICE void split(float lo, float hi, uint32_t *to) {
#pragma unroll
        for (int i = 0; i < TERMS; i++) {
            __nv_bfloat162 x = __floats2bfloat162_rn(lo, hi);
            to[i] = bits_of(x);
            lo -= __low2float(x);
            hi -= __high2float(x);
        }
    }
};

// Of lane l, as erase_ptx.h says; [term][register].
template <class P> struct factor_a { uint32_t x[P::TERMS][4]; };
template <class P> struct factor_b { uint32_t x[P::TERMS][2]; };

template <class P>
ERASE_DEVICE void multiply(float (&d)[4], const factor_a<P> &a, const factor_b<P> &b) {
    if constexpr (P::TERMS == 1) {
        mma_f16(d, a.x[0], b.x[0]);
    } else {
        mma_bf16(d, a.x[2], b.x[0]); // the small ones first
        mma_bf16(d, a.x[0], b.x[2]);
        mma_bf16(d, a.x[1], b.x[1]);
        mma_bf16(d, a.x[1], b.x[0]);
        mma_bf16(d, a.x[0], b.x[1]);
        mma_bf16(d, a.x[0], b.x[0]);
    }
}

// Two accumulators side by side (16 columns) as the next product's A.
template <class P> ERASE_DEVICE factor_a<P> as_a(const float (&left)[4], const float (&right)[4]) {
    factor_a<P> a;
    uint32_t t[P::TERMS];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *d = i < 2 ? left : right;
        P::split(d[2 * (i & 1)], d[2 * (i & 1) + 1], t);
#pragma unroll
        for (int j = 0; j < P::TERMS; j++)
            a.x[j][i] = t[j];
    }
    return a;
}
// Rows 8 half .. + 7 of that A, as B of a product that sums over its columns.
template <class P> ERASE_DEVICE factor_b<P> as_b(const factor_a<P> &a, int half) {
    factor_b<P> b;
#pragma unroll
    for (int j = 0; j < P::TERMS; j++) {
        b.x[j][0] = a.x[j][half];
        b.x[j][1] = a.x[j][half + 2];
    }
    return b;
}

// Numbers of a row that is `n` wide.
template <class P> __host__ __device__ constexpr int tile_width(int n) {
    return (n * (int)sizeof(typename P::num) + 127) / 128 * 128 / (int)sizeof(typename P::num);
}

template <class num, int W> ERASE_DEVICE int tile_at(int row, int col) {
    constexpr int PIECE = 16 / sizeof(num);
    return row * W + ((col / PIECE) ^ (row & 7)) * PIECE + col % PIECE;
}

// Eight neighbours of a row, from a column that is a multiple of eight.
ERASE_DEVICE void load8(const float *p, float (&x)[8]) {
    float4 a = *(const float4 *)p, b = *(const float4 *)(p + 4);
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
ERASE_DEVICE void load8(const bf16 *p, float (&x)[8]) {
    uint4 raw = *(const uint4 *)p;
    const bf16 *y = (const bf16 *)&raw;
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = __bfloat162float(y[i]);
}
template <int W> ERASE_DEVICE void tile_load8(const __half *t, int row, int col, float (&x)[8]) {
    uint4 raw = *(const uint4 *)(t + tile_at<__half, W>(row, col));
    const __half *y = (const __half *)&raw;
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = __half2float(y[i]);
}
template <int W> ERASE_DEVICE void tile_load8(const float *t, int row, int col, float (&x)[8]) {
    float4 a = *(const float4 *)(t + tile_at<float, W>(row, col)),
           b = *(const float4 *)(t + tile_at<float, W>(row, col + 4));
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
template <int W> ERASE_DEVICE void tile_store8(__half *t, int row, int col, const float (&x)[8]) {
    uint4 raw;
    __half2 *y = (__half2 *)&raw;
#pragma unroll
    for (int i = 0; i < 4; i++)
        y[i] = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    *(uint4 *)(t + tile_at<__half, W>(row, col)) = raw;
}
template <int W> ERASE_DEVICE void tile_store8(float *t, int row, int col, const float (&x)[8]) {
    *(float4 *)(t + tile_at<float, W>(row, col)) = make_float4(x[0], x[1], x[2], x[3]);
    *(float4 *)(t + tile_at<float, W>(row, col + 4)) = make_float4(x[4], x[5], x[6], x[7]);
}
// Four neighbours, from a multiple of four.
template <int W> ERASE_DEVICE float4 tile_load4(const __half *t, int row, int col) {
    uint2 raw = *(const uint2 *)(t + tile_at<__half, W>(row, col));
    float2 a = __half22float2(*(__half2 *)&raw.x), b = __half22float2(*(__half2 *)&raw.y);
    return make_float4(a.x, a.y, b.x, b.y);
}
template <int W> ERASE_DEVICE float4 tile_load4(const float *t, int row, int col) {
    return *(const float4 *)(t + tile_at<float, W>(row, col));
}
// Two neighbours, from an even column.
template <int W> ERASE_DEVICE void tile_store2(__half *t, int row, int col, float x, float y) {
    *(__half2 *)(t + tile_at<__half, W>(row, col)) = __floats2half2_rn(x, y);
}
template <int W> ERASE_DEVICE void tile_store2(float *t, int row, int col, float x, float y) {
    *(float2 *)(t + tile_at<float, W>(row, col)) = make_float2(x, y);
}
template <int W> ERASE_DEVICE float2 tile_load2(const __half *t, int row, int col) {
    return __half22float2(*(const __half2 *)(t + tile_at<__half, W>(row, col)));
}
template <int W> ERASE_DEVICE float2 tile_load2(const float *t, int row, int col) {
    return *(const float2 *)(t + tile_at<float, W>(row, col));
}

// A accumulator (16 x 8, top left at row, col) to a tile.
template <int W, class num>
ERASE_DEVICE void tile_store(num *t, int row, int col, const float (&d)[4]) {
    const int lane = threadIdx.x % 32, r = row + lane / 4, c = col + 2 * (lane % 4);
    tile_store2<W>(t, r, c, d[0], d[1]);
    tile_store2<W>(t, r + 8, c, d[2], d[3]);
}

// A of rows m0 .. + 15, columns k0 .. + 15 of a tile [m][k].
template <class P, int W>
ERASE_DEVICE factor_a<P> load_a(const typename P::num *t, int m0, int k0) {
    const int lane = threadIdx.x % 32;
    factor_a<P> a;
    if constexpr (P::TERMS == 1) {
        ldmatrix4(a.x[0], t + tile_at<__half, W>(m0 + lane % 16, k0 + lane / 16 * 8));
    } else {
        uint32_t s[P::TERMS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 x = tile_load2<W>(t, m0 + lane / 4 + i % 2 * 8, k0 + 2 * (lane % 4) + i / 2 * 8);
            P::split(x.x, x.y, s);
#pragma unroll
            for (int j = 0; j < P::TERMS; j++)
                a.x[j][i] = s[j];
        }
    }
    return a;
}
// A of rows m0 .., columns k0 .. of the transpose of a tile [k][m].
template <class P, int W>
ERASE_DEVICE factor_a<P> load_a_transposed(const typename P::num *t, int m0, int k0) {
    const int lane = threadIdx.x % 32;
    factor_a<P> a;
    if constexpr (P::TERMS == 1) {
        const int i = lane / 8;
        ldmatrix4_transposed(a.x[0],
                             t + tile_at<__half, W>(k0 + lane % 8 + i / 2 * 8, m0 + i % 2 * 8));
    } else {
        uint32_t s[P::TERMS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int k = k0 + 2 * (lane % 4) + i / 2 * 8, m = m0 + lane / 4 + i % 2 * 8;
            P::split(t[tile_at<float, W>(k, m)], t[tile_at<float, W>(k + 1, m)], s);
#pragma unroll
            for (int j = 0; j < P::TERMS; j++)
                a.x[j][i] = s[j];
        }
    }
    return a;
}
// Columns n0 .. + 7 and n0 + 8 .. + 15 of B, from a tile [n][k].
template <class P, int W>
ERASE_DEVICE void load_b(const typename P::num *t, int n0, int k0, factor_b<P> (&b)[2]) {
    const int lane = threadIdx.x % 32;
    if constexpr (P::TERMS == 1) {
        const int i = lane / 8;
        uint32_t r[4];
        ldmatrix4(r, t + tile_at<__half, W>(n0 + lane % 8 + i / 2 * 8, k0 + i % 2 * 8));
        b[0].x[0][0] = r[0], b[0].x[0][1] = r[1];
        b[1].x[0][0] = r[2], b[1].x[0][1] = r[3];
    } else {
        uint32_t s[P::TERMS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 x = tile_load2<W>(t, n0 + lane / 4 + i / 2 * 8, k0 + 2 * (lane % 4) + i % 2 * 8);
            P::split(x.x, x.y, s);
#pragma unroll
            for (int j = 0; j < P::TERMS; j++)
                b[i / 2].x[j][i % 2] = s[j];
        }
    }
}
// The same times a factor of each k.
template <class P, int W>
ERASE_DEVICE void load_b_scaled(const typename P::num *t, int n0, int k0, const float *f,
                                factor_b<P> (&b)[2]) {
    const int lane = threadIdx.x % 32;
    uint32_t s[P::TERMS];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int k = k0 + 2 * (lane % 4) + i % 2 * 8;
        const float2 x = tile_load2<W>(t, n0 + lane / 4 + i / 2 * 8, k),
                     y = *(const float2 *)(f + k);
        P::split(x.x * y.x, x.y * y.y, s);
#pragma unroll
        for (int j = 0; j < P::TERMS; j++)
            b[i / 2].x[j][i % 2] = s[j];
    }
}
// The same from a tile [k][n]; mind the order of k0 and n0, which is that of the tile.
template <class P, int W>
ERASE_DEVICE void load_b_transposed(const typename P::num *t, int k0, int n0, factor_b<P> (&b)[2]) {
    const int lane = threadIdx.x % 32;
    if constexpr (P::TERMS == 1) {
        const int i = lane / 8;
        uint32_t r[4];
        ldmatrix4_transposed(r, t + tile_at<__half, W>(k0 + lane % 8 + i % 2 * 8, n0 + i / 2 * 8));
        b[0].x[0][0] = r[0], b[0].x[0][1] = r[1];
        b[1].x[0][0] = r[2], b[1].x[0][1] = r[3];
    } else {
        uint32_t s[P::TERMS];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int n = n0 + lane / 4 + i / 2 * 8, k = k0 + 2 * (lane % 4) + i % 2 * 8;
            P::split(t[tile_at<float, W>(k, n)], t[tile_at<float, W>(k + 1, n)], s);
#pragma unroll
            for (int j = 0; j < P::TERMS; j++)
                b[i / 2].x[j][i % 2] = s[j];
        }
    }
}

#endif
