// kernels/cuda/warp_product.h - D += A B by one warp on tensor cores, for bfloat16 operands and for float32
// ones; sums are float32.
//
// A [16, 16], B [16, 8], D [16, 8]. Whatever the type, lane l holds of
//   A (left)    rows l/4 + {0, 8}, columns 2 (l mod 4) + {0, 1} + {0, 8}
//   B (right)   rows 2 (l mod 4) + {0, 1} + {0, 8}, column l/4
//   D           d[0], d[1]: row l/4, columns 2 (l mod 4) + {0, 1};  d[2], d[3]: row l/4 + 8
// so that two D side by side are an A of the next product, and a D is half of a B.
//
// float32: an operand is a sum of two TF32 numbers and a product three of theirs (all but lower times lower,
// 2^-22 of it), or one when `fine` is false. The order of k inside a product is not the tensor core's own, but
// the same in A and in B.
// Tiles lie in shared memory, rows `pitch` numbers apart; bfloat16 rows are 16-byte aligned.
#ifndef DELTOP_CUDA_WARP_PRODUCT_H
#define DELTOP_CUDA_WARP_PRODUCT_H

#include "kernels/cuda/warp_ptx.h"

typedef __nv_bfloat16 bf16;

WARP_DEVICE int lane_id() {
    return (int)(threadIdx.x % 32);
}

template <class T> struct product;

template <> struct product<bf16> {
    struct left {
        uint32_t r[4];
    };
    struct right {
        uint32_t r[2];
    };
    // A[i][k] = tile[i][k]
    WARP_DEVICE left left_rows(const bf16 *tile, int pitch) {
        const int l = lane_id();
        left a;
        matrices(a.r, tile + (l % 16) * pitch + 8 * (l / 16));
        return a;
    }
    // A[i][k] = tile[k][i], times w[k] where `weighed`; the lane's w are of rows 2 (l mod 4) + {0, 1} + {0, 8}
    WARP_DEVICE left left_columns(const bf16 *tile, int pitch, bool weighed, const float (&w)[4]) {
        const int l = lane_id();
        left a;
        matrices_transposed(a.r, tile + (l % 8 + 8 * (l / 16)) * pitch + 8 * (l / 8 % 2));
        if (weighed)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a.r[i] = pair_bf16(w[i / 2 * 2] * __uint_as_float(a.r[i] << 16),
                                   w[i / 2 * 2 + 1] * __uint_as_float(a.r[i] & 0xffff0000u));
        return a;
    }
    // B_n[k][j] = tile[8 n + j][k]
    WARP_DEVICE void right_rows(right (&b)[2], const bf16 *tile, int pitch) {
        const int l = lane_id();
        uint32_t r[4];
        matrices(r, tile + (l % 8 + 8 * (l / 16)) * pitch + 8 * (l / 8 % 2));
        b[0] = {{r[0], r[1]}};
        b[1] = {{r[2], r[3]}};
    }
    // B_n[k][j] = tile[j][16 n + k]
    WARP_DEVICE void right_long(right (&b)[2], const bf16 *tile, int pitch) {
        const int l = lane_id();
        uint32_t r[4];
        matrices(r, tile + l % 8 * pitch + 8 * (l / 8));
        b[0] = {{r[0], r[1]}};
        b[1] = {{r[2], r[3]}};
    }
    // B_n[k][j] = tile[k][8 n + j]
    WARP_DEVICE void right_columns(right (&b)[2], const bf16 *tile, int pitch) {
        const int l = lane_id();
        uint32_t r[4];
        matrices_transposed(r, tile + (l % 16) * pitch + 8 * (l / 16));
        b[0] = {{r[0], r[1]}};
        b[1] = {{r[2], r[3]}};
    }
    // A of two D side by side
    WARP_DEVICE left left_of(const float (&x)[4], const float (&y)[4]) {
        return {{pair_bf16(x[0], x[1]), pair_bf16(x[2], x[3]), pair_bf16(y[0], y[1]),
                 pair_bf16(y[2], y[3])}};
    }
    // B of the lane's own numbers, rows ascending
    WARP_DEVICE right right_of(const float (&x)[4]) {
        return {{pair_bf16(x[0], x[1]), pair_bf16(x[2], x[3])}};
    }
    WARP_DEVICE void add(float (&d)[4], const left &a, const right &b, bool fine) {
        (void)fine;
        mma_bf16(d, a.r, b.r);
    }
};

template <> struct product<float> {
    struct left {
        uint32_t hi[8], lo[8];
    };
    struct right {
        uint32_t hi[4], lo[4];
    };
    WARP_DEVICE void split(float x, uint32_t &hi, uint32_t &lo) {
        hi = to_tf32(x);
        lo = to_tf32(x - __uint_as_float(hi));
    }
    WARP_DEVICE left left_rows(const float *tile, int pitch) {
        const int i = lane_id() / 4, k = 2 * (lane_id() % 4);
        left a;
#pragma unroll
        for (int e = 0; e < 8; e++)
            split(tile[(i + 8 * (e / 2 % 2)) * pitch + k + e % 2 + 8 * (e / 4)], a.hi[e], a.lo[e]);
        return a;
    }
    WARP_DEVICE left left_columns(const float *tile, int pitch, bool weighed, const float (&w)[4]) {
        const int i = lane_id() / 4, k = 2 * (lane_id() % 4);
        left a;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float x = tile[(k + e % 2 + 8 * (e / 4)) * pitch + i + 8 * (e / 2 % 2)];
            split(weighed ? x * w[e % 2 + e / 4 * 2] : x, a.hi[e], a.lo[e]);
        }
        return a;
    }
    WARP_DEVICE void right_rows(right (&b)[2], const float *tile, int pitch) {
        const int j = lane_id() / 4, k = 2 * (lane_id() % 4);
#pragma unroll
        for (int e = 0; e < 8; e++)
            split(tile[(8 * (e / 4) + j) * pitch + k + e % 2 + 8 * (e / 2 % 2)], b[e / 4].hi[e % 4],
                  b[e / 4].lo[e % 4]);
    }
    WARP_DEVICE void right_long(right (&b)[2], const float *tile, int pitch) {
        const int j = lane_id() / 4, k = 2 * (lane_id() % 4);
#pragma unroll
        for (int e = 0; e < 8; e++)
            split(tile[j * pitch + k + e % 2 + 8 * (e / 2)], b[e / 4].hi[e % 4],
                  b[e / 4].lo[e % 4]);
    }
    WARP_DEVICE void right_columns(right (&b)[2], const float *tile, int pitch) {
        const int j = lane_id() / 4, k = 2 * (lane_id() % 4);
#pragma unroll
        for (int e = 0; e < 8; e++)
            split(tile[(k + e % 2 + 8 * (e / 2 % 2)) * pitch + 8 * (e / 4) + j], b[e / 4].hi[e % 4],
                  b[e / 4].lo[e % 4]);
    }
    WARP_DEVICE left left_of(const float (&x)[4], const float (&y)[4]) {
        left a;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            split(x[e], a.hi[e], a.lo[e]);
            split(y[e], a.hi[4 + e], a.lo[4 + e]);
        }
        return a;
    }
    WARP_DEVICE right right_of(const float (&x)[4]) {
        right b;
#pragma unroll
        for (int e = 0; e < 4; e++)
            split(x[e], b.hi[e], b.lo[e]);
        return b;
    }
    WARP_DEVICE void one(float (&d)[4], const uint32_t (&a)[8], const uint32_t (&b)[4]) {
        mma_tf32(d, a[0], a[2], a[1], a[3], b[0], b[1]);
        mma_tf32(d, a[4], a[6], a[5], a[7], b[2], b[3]);
    }
    WARP_DEVICE void add(float (&d)[4], const left &a, const right &b, bool fine) {
        if (fine) {
            one(d, a.lo, b.hi);
            one(d, a.hi, b.lo);
        }
        one(d, a.hi, b.hi);
    }
};

#endif
