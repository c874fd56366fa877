// kernels/cuda/powers.h - powers of two from their exponents.
#ifndef DELTOP_CUDA_POWERS_H
#define DELTOP_CUDA_POWERS_H

#include <stdint.h>

// 2^i, -126 <= i <= 128 (infinity).
__device__ __forceinline__ float power_of_two(int i) {
    return __uint_as_float((uint32_t)(127 + i) << 23);
}

#endif
