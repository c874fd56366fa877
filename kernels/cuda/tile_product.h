// kernels/cuda/tile_product.h - matrix products on Hopper's tensor cores whose sums are worked on before they are written:
// D = A B^T with A [rows, k], B [columns, k] in bf16, sums in float32.
//
// Blocks stay on their multiprocessors and take one tile of 128 x 256 after the other: a warp fetches stages of 64 numbers of
// k, two warpgroups multiply (64 rows each). What happens to a tile's sums is the product's own: either they go, in bf16, to
// shared memory, where three more warps finish them beside the next tile's products; or the two warpgroups fold them
// themselves, in float32. Two blocks with neighbouring rows form a cluster: each fetches one half of B's stage for both.
//
// Device code is for sm_90a alone; a kernel of another architecture is empty, and cuda_backend.hopper says whether to launch it.
#ifndef DELTOP_CUDA_TILE_PRODUCT_H
#define DELTOP_CUDA_TILE_PRODUCT_H

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.h"

enum {
    TILE_ROWS = 128,
    TILE_COLUMNS = 256,
    TILE_DEPTH = 64, // of a stage
    TILE_WARPS = 8,  // that multiply
    TILE_A = TILE_ROWS * TILE_DEPTH * 2,
    TILE_B = TILE_COLUMNS * TILE_DEPTH * 2,
    TILE_SUMS = TILE_ROWS * TILE_COLUMNS * 2, // bytes of a tile in bf16
    TILE_THREADS = 384,                       // of a block
    TILE_FINISHERS = 96,                      // of these
};

// SUMS: bytes of what finishers work on; stages fill the rest.
template <int SUMS> struct tile_shared {
    enum { STAGES = (232448 - 1024 - SUMS) / (TILE_A + TILE_B) };
    unsigned char a[STAGES][TILE_A], b[STAGES][TILE_B];
    unsigned char sums[SUMS > 0 ? SUMS : 16];
    uint64_t full[STAGES], empty[STAGES]; // empty: warps of both blocks
    uint64_t staged, taken;               // sums of a tile
};

// What a product walks over, one pair of blocks after the other: two neighbouring tiles of rows for each. `together` pairs of
// rows stay in the L2 cache while all columns pass by: pair after pair, then the next column.
struct tile_grid {
    int pairs_of_rows, columns; // tiles
    int stages;                 // of a tile
    int together;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The t-th tile of blocks `rank`.
HOPPER_DEVICE void tile_at(const tile_grid &grid, int t, int rank, int *row, int *column) {
    const int stretch = grid.together * grid.columns, first = t / stretch * grid.together;
    const int rows = min(grid.together, grid.pairs_of_rows - first), within = t % stretch;
    *row = 2 * (first + within % rows) + rank;
    *column = within / rows;
}

// A box of 64 numbers of k by 128 rows, to this block or (pair) to the same place of both.
HOPPER_DEVICE void tile_copy(uint32_t to, const CUtensorMap *map, int k, int row, int group,
                             bool pair, uint64_t *b) {
    if (pair)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;\n" ::"r"(to),
                     "l"(map), "r"(k), "r"(row), "r"(0), "r"(group), "r"(shared_address(b)),
                     "h"((short)3)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(to),
                     "l"(map), "r"(k), "r"(row), "r"(0), "r"(group), "r"(shared_address(b))
                     : "memory");
}

// The thread that fetches, for all tiles of its pair.
template <class P, class M>
HOPPER_DEVICE void tile_fetch(const P &p, const tile_grid &grid, M *m, int rank) {
    const int all = grid.pairs_of_rows * grid.columns;
    int stage = 0;
    uint32_t parity = 1;
    for (int t = blockIdx.x / 2; t < all; t += gridDim.x / 2) {
        int a, b;
        tile_at(grid, t, rank, &a, &b);
        for (int s = 0; s < grid.stages; s++) {
            barrier_wait(&m->empty[stage], parity);
            barrier_expect(&m->full[stage], TILE_A + TILE_B);
            p.fetch_a(shared_address(m->a[stage]), s * TILE_DEPTH, a, &m->full[stage]);
            p.fetch_b(shared_address(m->b[stage]) + rank * (TILE_B / 2), s * TILE_DEPTH, b, rank,
                      &m->full[stage]);
            if (++stage == M::STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

HOPPER_DEVICE void tile_multiply(float (&d)[128], uint64_t a, uint64_t b, bool first) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < TILE_DEPTH / 16; i++)
        wgmma<256, bf16>::ss(d, a + 2 * i, b + 2 * i, i > 0 || !first);
    wgmma_commit();
}

// One of the two warpgroups that multiply; end(a, b, d) has a tile's sums.
template <class M, class F>
HOPPER_DEVICE void tile_walk(const tile_grid &grid, M *m, int rank, int group, F end) {
    const int all = grid.pairs_of_rows * grid.columns, lane = threadIdx.x % 32;
    float d[128];
    int stage = 0, before = 0;
    uint32_t parity = 0;
    const uint64_t a0 = desc_k(shared_address(m->a[0]) + group * (TILE_A / 2)),
                   b0 = desc_k(shared_address(m->b[0]));
    // A stage has been read by this warp: both blocks hear of it.
    auto release = [&] {
        if (lane < 2)
            barrier_arrive_peer(peer_address(shared_address(&m->empty[before]), lane),
                                WARP_ARRIVALS);
    };
    auto multiply = [&](bool first) {
        barrier_wait(&m->full[stage], parity);
        tile_multiply(d, a0 + stage * (TILE_A >> 4), b0 + stage * (TILE_B >> 4), first);
    };
    auto step = [&] {
        before = stage;
        if (++stage == M::STAGES) {
            stage = 0;
            parity ^= 1;
        }
    };
#pragma unroll 1
    for (int t = blockIdx.x / 2; t < all; t += gridDim.x / 2) {
        multiply(true);
        step();
#pragma unroll 1
        for (int s = 1; s < grid.stages; s++) {
            multiply(false);
            wgmma_wait<1>();
            release();
            step();
        }
        wgmma_wait<0>();
        release();
        int a, b;
        tile_at(grid, t, rank, &a, &b);
        end(a, b, d);
    }
}

// Where 16-byte piece `piece` of row `row` of a tile's sums lies; rows of `pieces`.
template <int pieces> HOPPER_DEVICE uint32_t tile_place(int row, int piece) {
    return (uint32_t)(row * pieces * 16 + ((piece ^ (row & 7)) << 4));
}
// Sums of a warpgroup to shared memory: as they are, [row][column], or [column][row].
HOPPER_DEVICE void tile_put(uint32_t to, int group, const float (&d)[128]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const uint32_t at = to + tile_place<32>(64 * group + 16 * warp + lane % 16, lane / 16);
#pragma unroll
    for (int j = 0; j < 16; j++) { // of 16 columns
        const float *p = d + 8 * j;
        stmatrix(at ^ (uint32_t)(j << 5), pack_bf16(p[0], p[1]), pack_bf16(p[2], p[3]),
                 pack_bf16(p[4], p[5]), pack_bf16(p[6], p[7]));
    }
}
HOPPER_DEVICE void tile_put_turned(uint32_t to, int group, const float (&d)[128]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const uint32_t at =
        to + tile_place<16>(8 * (lane / 16) + (lane & 7), 8 * group + 2 * warp + (lane >> 3 & 1));
#pragma unroll
    for (int j = 0; j < 16; j++) {
        const float *p = d + 8 * j;
        stmatrix_transposed(at + j * 16 * 256, pack_bf16(p[0], p[1]), pack_bf16(p[2], p[3]),
                            pack_bf16(p[4], p[5]), pack_bf16(p[6], p[7]));
    }
}

template <class P, class M> HOPPER_DEVICE void tile_begin(const P &p, M *m) {
    if (threadIdx.x == 0) {
        p.prefetch();
        for (int i = 0; i < M::STAGES; i++) {
            barrier_init(&m->full[i], 1);
            barrier_init(&m->empty[i], 2 * TILE_WARPS);
        }
        barrier_init(&m->staged, TILE_WARPS);
        barrier_init(&m->taken, TILE_FINISHERS / 32);
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    }
    cluster_sync();
}
HOPPER_DEVICE void tile_leave() {
    __syncwarp();
    cluster_sync(); // the other block may still send here
}

// Kernel bodies. p has prefetch(), fetch_a() and fetch_b(). Finished by other warps: put(to, group, d) takes sums to shared
// memory, work(sums, a, b) does the rest, by TILE_FINISHERS threads; ahead(a, b) before the sums are there.
HOPPER_DEVICE int finisher() {
    return (int)threadIdx.x - (TILE_THREADS - TILE_FINISHERS);
}
template <class P> HOPPER_DEVICE void tile_finished(P &p, const tile_grid &grid) {
    typedef tile_shared<TILE_SUMS> shared;
    extern __shared__ __align__(1024) unsigned char raw[];
    shared *m = (shared *)raw;
    const int rank = cluster_rank(), role = threadIdx.x / 128, lane = threadIdx.x % 32;
    tile_begin(p, m);
    const uint32_t sums = shared_address(m->sums);
    if (role < 2) {
        uint32_t parity = 1;
        tile_walk(grid, m, rank, role, [&](int, int, float(&d)[128]) {
            barrier_wait(&m->taken, parity);
            parity ^= 1;
            p.put(sums, role, d);
            __syncwarp();
            if (arrives(lane))
                barrier_arrive(&m->staged);
        });
    } else if (finisher() < 0) {
        if (lane == 0)
            tile_fetch(p, grid, m, rank);
    } else {
        const int all = grid.pairs_of_rows * grid.columns;
        uint32_t parity = 0;
#pragma unroll 1
        for (int t = blockIdx.x / 2; t < all; t += gridDim.x / 2, parity ^= 1) {
            int a, b;
            tile_at(grid, t, rank, &a, &b);
            p.ahead(a, b);
            barrier_wait(&m->staged, parity);
            p.work(m->sums, a, b);
            __syncwarp();
            if (arrives(lane))
                barrier_arrive(&m->taken);
        }
    }
    tile_leave();
}
// Folded by the two warpgroups: fold(group, a, b, d).
template <class P> HOPPER_DEVICE void tile_folded(P &p, const tile_grid &grid) {
    typedef tile_shared<0> shared;
    extern __shared__ __align__(1024) unsigned char raw[];
    shared *m = (shared *)raw;
    const int rank = cluster_rank(), role = threadIdx.x / 128;
    tile_begin(p, m);
    if (role == 2) {
        registers_down<24>();
        if (threadIdx.x == 256)
            tile_fetch(p, grid, m, rank);
    } else {
        registers_up<240>();
        tile_walk(grid, m, rank, role,
                  [&](int a, int b, float(&d)[128]) { p.fold(role, a, b, d); });
    }
    tile_leave();
}
#endif

// Host -----------------------------------------------------------------------------------------

// Rows of a matrix as A, or as B in their order.
static inline cudaError_t tile_map(CUtensorMap *map, mat m, int box) {
    const cuuint64_t line = (cuuint64_t)m.ld * sizeof(bf16);
    const cuuint64_t size[4] = {(cuuint64_t)m.cols, (cuuint64_t)m.rows, 1, 1};
    const cuuint64_t step[3] = {line, line, line};
    const cuuint32_t part[4] = {TILE_DEPTH, (cuuint32_t)box, 1, 1};
    return map_tensor(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, m.p, size, step, part);
}

template <int SUMS, class K, class C>
static cudaError_t tile_launch(backend *be, K kernel, const C &call) {
    const launch_form form = {(unsigned)(of(be)->processors / 2 * 2), TILE_THREADS,
                              sizeof(tile_shared<SUMS>), 2, false};
    of(be)->launches++;
    return launch_as(form, of(be)->stream, kernel, call);
}

#endif
