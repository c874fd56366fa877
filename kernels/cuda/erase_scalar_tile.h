// kernels/cuda/erase_scalar_tile.h - the slot of a chunk that `scalar_prepare` leaves to `scalar_march`, and what both need.
//
// Tiles are panels as wgmma.h has them: 64 rows of 128 bytes, eight 16-byte pieces exchanged by row mod 8. A tile of keys
// is four panels of 64 channels; channels that are not there are zeros.
#ifndef DELTOP_CUDA_ERASE_SCALAR_TILE_H
#define DELTOP_CUDA_ERASE_SCALAR_TILE_H

#include "kernels/cuda/erase_march.h"
#include "kernels/cuda/wgmma.h"

enum {
    SCALAR_K = 256,                            // channels of a tile
    SCALAR_C = 64,                             // rows of a chunk
    SCALAR_PANEL = SCALAR_C * 128,             // bytes
    SCALAR_TILE = 4 * SCALAR_PANEL,            // of keys
    SCALAR_READ = 0,                           // E
    SCALAR_WRITE = SCALAR_TILE,                // X
    SCALAR_QUERY = 2 * SCALAR_TILE,            // Q^
    SCALAR_SCORES = 3 * SCALAR_TILE,           // P, one panel
    SCALAR_END = SCALAR_SCORES + SCALAR_PANEL, // floats: exp(l_C); whether X has a second term
    SCALAR_REST = SCALAR_END + 128,            // which is what its rounding took off
    SCALAR_SLOT = SCALAR_REST + SCALAR_TILE
};

// Bytes (a multiple of 16) from memory to shared memory by one thread; b counts them.
HOPPER_DEVICE void copy_in(uint32_t to, const void *from, uint32_t bytes, uint64_t *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];\n" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(shared_address(b))
                 : "memory");
}
// The same to both blocks of a pair, at the same place, where each one's b counts them.
HOPPER_DEVICE void copy_in_pair(uint32_t to, const void *from, uint32_t bytes, uint64_t *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;\n" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(shared_address(b)), "h"((short)3)
                 : "memory");
}
// Into the L2 cache alone.
HOPPER_DEVICE void copy_ahead(const void *from, uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(from), "r"(bytes) : "memory");
}
HOPPER_DEVICE void box_ahead(const CUtensorMap *map, int column, int head, int row) {
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];\n" ::"l"(map),
                 "r"(column), "r"(head), "r"(row)
                 : "memory");
}
HOPPER_DEVICE void line_ahead(const void *from) {
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(from) : "memory");
}
// And back. What ordinary stores wrote goes along after fence_async() and a barrier.
HOPPER_DEVICE void copy_out(void *to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}
HOPPER_DEVICE void copies_out_wait() {
    asm volatile("cp.async.bulk.commit_group;\n"
                 "cp.async.bulk.wait_group 0;\n" ::
                     : "memory");
}

// What packing (two floats as fp16) took off, packed.
HOPPER_DEVICE uint32_t pack_rest(float lower, float upper, uint32_t packed) {
    const float2 x = unpack_half(packed);
    return pack_half(lower - x.x, upper - x.y);
}

// Rows 16 warp .. of an accumulator [64][N] to panels, as fp16.
template <int N>
HOPPER_DEVICE void store_panels(uint32_t to, const float (&d)[N / 2], int warp, int lane) {
    const int row = 16 * warp + lane % 16;
#pragma unroll
    for (int j = 0; j < N / 16; j++) {
        const float *x = d + 8 * j;
        stmatrix(to + j / 4 * SCALAR_PANEL + swizzle(row, j % 4 * 2 + lane / 16),
                 pack_half(x[0], x[1]), pack_half(x[2], x[3]), pack_half(x[4], x[5]),
                 pack_half(x[6], x[7]));
    }
}

#endif
