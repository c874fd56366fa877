// y = act(x gate^T) * (x up^T) in one pass over Hopper's tensor cores (tile_product.h): the two products are never in memory.
//
// Rows of gate and up come to shared memory in turns of eight, so that a thread's sums of a channel's gate and of the channel
// itself stand beside each other.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_product.h"
#include "kernels/cuda/trace.h"
#include "kernels/cuda/wide.h"

enum { LEAST_ROWS = 512, CHANNELS = TILE_COLUMNS / 2 };

struct gated_call {
    CUtensorMap x, w;
    bf16 *y;
    int64_t ldy;
    int tokens, width;
    tile_grid grid;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
struct gated {
    const gated_call &c;
    HOPPER_DEVICE void prefetch() const {
        prefetch_map(&c.x);
        prefetch_map(&c.w);
    }
    HOPPER_DEVICE void fetch_a(uint32_t to, int k, int tile, uint64_t *full) const {
        tile_copy(to, &c.x, k, tile * TILE_ROWS, 0, false, full);
    }
    HOPPER_DEVICE void fetch_b(uint32_t to, int k, int tile, int half, uint64_t *full) const {
        tile_copy(to, &c.w, k, 0, tile * (CHANNELS / 8) + half * (CHANNELS / 16), true, full);
    }
    HOPPER_DEVICE void put(uint32_t sums, int group, const float (&d)[128]) const {
        tile_put(sums, group, d);
    }
    HOPPER_DEVICE void ahead(int, int) const {}
    // Sixteen lanes have a token, eight channels each.
    HOPPER_DEVICE void work(const unsigned char *sums, int a, int b) const {
        constexpr int SIDE = TILE_FINISHERS / 16;
        const int group = finisher() % 16, first = finisher() / 16;
        const int column = b * CHANNELS + 8 * group, row = a * TILE_ROWS + first;
        bf16 *to = c.y + (int64_t)row * c.ldy + column;
        const int live = column < c.width ? c.tokens - row : 0;
#pragma unroll 4
        for (int i = 0; i < TILE_ROWS - first; i += SIDE, to += SIDE * c.ldy) {
            // Gate and up stand beside each other.
            const uint32_t at = tile_place<32>(first + i, 2 * group);
            float g[8], u[8];
            unpack(*(const uint4 *)(sums + at), g);
            unpack(*(const uint4 *)(sums + (at ^ 16)), u);
#pragma unroll
            for (int e = 0; e < 8; e++)
                u[e] *= act_for<bf16>(ACT_SILU, g[e]);
            if (i < live)
                store_word(to, u);
        }
    }
};
#endif

__global__ void __launch_bounds__(TILE_THREADS, 1)
    gated_product(const __grid_constant__ gated_call c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    gated p{c};
    tile_finished(p, c.grid);
#endif
}

// Rows of w, [2 width, k]: eight of the gate, the eight of the same channels, and so on.
static cudaError_t map_pairs(CUtensorMap *map, mat w) {
    const cuuint64_t line = (cuuint64_t)w.ld * sizeof(bf16), width = (cuuint64_t)w.rows / 2;
    const cuuint64_t size[4] = {(cuuint64_t)w.cols, 8, 2, width / 8};
    const cuuint64_t step[3] = {line, width * line, 8 * line};
    const cuuint32_t box[4] = {TILE_DEPTH, 8, 2, CHANNELS / 16};
    return map_tensor(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, w.p, size, step, box);
}

bool cuda_linear_gated(backend *be, mat x, mat w, activation act, mat y) {
    const int64_t width = w.rows / 2;
    if (act != ACT_SILU || x.esize != 2 || w.esize != 2 || y.esize != 2 || x.rows < LEAST_ROWS ||
        x.rows > INT32_MAX / 2 || width % 8 != 0 || !wide(x) || !wide(w) || !wide(y) ||
        !of(be)->hopper)
        return false;
    traced span(be, "linear_gated");
    gated_call c = {};
    c.y = (bf16 *)y.p;
    c.ldy = y.ld;
    c.tokens = (int)x.rows;
    c.width = (int)width;
    c.grid.pairs_of_rows = (int)((x.rows + 2 * TILE_ROWS - 1) / (2 * TILE_ROWS));
    c.grid.columns = (int)((width + CHANNELS - 1) / CHANNELS);
    c.grid.stages = (int)((x.cols + TILE_DEPTH - 1) / TILE_DEPTH);
    c.grid.together = 1;
    cudaError_t r = tile_map(&c.x, x, TILE_ROWS);
    if (r == cudaSuccess)
        r = map_pairs(&c.w, w);
    if (r == cudaSuccess)
        r = tile_launch<TILE_SUMS>(be, gated_product, c);
    cuda_ok(be, r, "gated product");
    return true;
}
