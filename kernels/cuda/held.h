// kernels/cuda/held.h - numbers that stay in registers.
#ifndef DELTOP_CUDA_HELD_H
#define DELTOP_CUDA_HELD_H

// x as a number that stays in a register. What follows from threadIdx is otherwise fetched anew at every use, and that
// fetch waits behind all loads and stores the warp has under way: 300 cycles a chunk.
__device__ __forceinline__ int held(int x) {
    return __shfl_sync(~0u, x, threadIdx.x % 32);
}

#endif
