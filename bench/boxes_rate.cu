// What the delta rule's copies cost by themselves: 128 blocks move the boxes of Gated DeltaNet 8x4096x16 (kernels/cuda/delta_feed.h:
// of q, k and v 64 rows of 128 numbers a chunk) through shared memory and store as many, with no work between. A bound for
// any kernel that reads tokens x heads x numbers chunk by chunk, one block a head.
//   nvcc -std=c++17 -O3 -I. -gencode arch=compute_90a,code=sm_90a -o boxes_rate bench/boxes_rate.cu
//   ./boxes_rate       medians of 10 launches by events for two, three and four chunks in flight; also where a head's tokens lie
//                      behind each other
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

enum {
    ROWS = 64,
    HALF = ROWS * 128,
    SET = 6 * HALF
}; // bytes: a box of 64 columns; of three matrices two each

struct box_maps {
    CUtensorMap q, k, v, o;
};

static void need(cudaError_t r, const char *what) {
    if (r == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(r));
    exit(1);
}

// One thread of a block asks for everything; chunks in flight: a ring of `depth`.
template <int depth>
__global__ void __launch_bounds__(32, 1)
    move_boxes(const __grid_constant__ box_maps maps, int heads, int tokens) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char ring[];
    __shared__ uint64_t full[depth];
    if (threadIdx.x > 0)
        return;
    const int head = blockIdx.x % heads, first = blockIdx.x / heads * tokens,
              chunks = tokens / ROWS;
    for (int i = 0; i < depth; i++)
        barrier_init(&full[i], 1);
    fence_async();
    auto fetch = [&](int i) {
        uint64_t *b = &full[i % depth];
        uint32_t to = shared_address(ring) + i % depth * SET;
        barrier_expect(b, SET);
        for (const CUtensorMap *map : {&maps.q, &maps.k, &maps.v})
            for (int column = 0; column < 128; column += 64, to += HALF)
                copy_box(to, map, column, head, first + i * ROWS, b);
    };
    for (int i = 0; i < depth - 1 && i < chunks; i++)
        fetch(i);
    for (int i = 0; i < chunks; i++) {
        const uint32_t from = shared_address(ring) + i % depth * SET + 4 * HALF;
        barrier_wait(&full[i % depth], (i / depth) & 1);
        store_box(&maps.o, 0, head, first + i * ROWS, from);
        store_box(&maps.o, 64, head, first + i * ROWS, from + HALF);
        // The place of the chunk before is free when its stores have been read.
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 1;\n" ::
                         : "memory");
        if (i + depth - 1 < chunks)
            fetch(i + depth - 1);
    }
    asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
#endif
}

template <int depth>
static void time_boxes(const char *name, const box_maps &maps, int rows, int heads, int tokens) {
    const auto kernel = move_boxes<depth>;
    need(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, depth * SET),
         "shared memory");
    cudaEvent_t start, end;
    need(cudaEventCreate(&start), "event");
    need(cudaEventCreate(&end), "event");
    std::vector<float> ms;
    for (int i = 0; i < 12; i++) {
        float x;
        cudaEventRecord(start);
        kernel<<<rows * heads, 32, depth * SET>>>(maps, heads, tokens);
        cudaEventRecord(end);
        need(cudaEventSynchronize(end), name);
        need(cudaEventElapsedTime(&x, start, end), name);
        if (i >= 2) // the first warm up
            ms.push_back(x);
    }
    std::sort(ms.begin(), ms.end());
    const double median = 0.5 * (ms[4] + ms[5]);
    printf("%-24s %d chunks in flight  %.4f ms  %.2f TB/s\n", name, depth, median,
           4.0 * rows * tokens * heads * 256 / median * 1e-9);
}

static void time_all(const char *name, int rows, int heads, int tokens) {
    bf16 *p[4];
    CUtensorMap map[4];
    for (int i = 0; i < 4; i++) {
        const size_t bytes = (size_t)rows * tokens * heads * 128 * sizeof(bf16);
        need(cudaMalloc(&p[i], bytes), "memory");
        need(cudaMemset(p[i], 0, bytes), "memory");
        need(map_of(&map[i], p[i], 128, heads, (int64_t)rows * tokens, heads * 128, ROWS), "map");
    }
    const box_maps maps = {map[0], map[1], map[2], map[3]};
    time_boxes<2>(name, maps, rows, heads, tokens);
    time_boxes<3>(name, maps, rows, heads, tokens);
    time_boxes<4>(name, maps, rows, heads, tokens);
    for (bf16 *x : p)
        cudaFree(x);
}

int main() {
    time_all("8x4096x16", 8, 16, 4096);
    time_all("the same, head by head", 128, 1, 4096);
    return 0;
}
