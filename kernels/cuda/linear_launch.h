// kernels/cuda/linear_launch.h - launches of the chunked linear recurrences for one type of inputs; each type
// is compiled in a file of its own (linear_bf16.cu, linear_f32.cu).
#ifndef DELTOP_CUDA_LINEAR_LAUNCH_H
#define DELTOP_CUDA_LINEAR_LAUNCH_H

#include "kernels/cuda/linear_ends.h"
#include "kernels/cuda/linear_walk.h"

typedef enum { LINEAR_WALK, LINEAR_ENDS } linear_pass;

// Launches a pass of the call. shared: instead, the shared memory of a block goes there.
cudaError_t linear_launch_bf16(const linear_call &c, const linear_cut &cut, linear_pass pass,
                               cudaStream_t stream, size_t *shared);
cudaError_t linear_launch_f32(const linear_call &c, const linear_cut &cut, linear_pass pass,
                              cudaStream_t stream, size_t *shared);

template <class T, int K, bool CHANNEL>
cudaError_t launch_linear_tile(const linear_call &c, const linear_cut &cut, linear_pass pass,
                               cudaStream_t stream, size_t *shared) {
    typedef linear_tile<T, K, CHANNEL> S;
    const size_t bytes = pass == LINEAR_WALK ? walk_shared<S>::bytes(c.decay.bytes)
                                             : ends_shared<S>::bytes(c.decay.bytes);
    if (shared) {
        *shared = bytes;
        return cudaSuccess;
    }
    void (*kernel)(linear_call, linear_cut) =
        pass == LINEAR_WALK ? linear_walk<T, K, CHANNEL> : linear_ends<T, K, CHANNEL>;
    cudaError_t r =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (r != cudaSuccess)
        return r;
    const int groups = CHANNEL ? c.H : c.Hk;
    const dim3 grid((unsigned)(groups * blocks_of_group<S>(c)),
                    (unsigned)(pass == LINEAR_WALK ? cut.segments : cut.segments - 1));
    kernel<<<grid, S::THREADS, bytes, stream>>>(c, cut);
    return cudaGetLastError();
}

template <class T>
cudaError_t launch_linear(const linear_call &c, const linear_cut &cut, linear_pass pass,
                          cudaStream_t stream, size_t *shared) {
    const bool channel = c.forget == FORGET_BY_CHANNEL;
    if (c.K <= 64)
        return channel ? launch_linear_tile<T, 64, true>(c, cut, pass, stream, shared)
                       : launch_linear_tile<T, 64, false>(c, cut, pass, stream, shared);
    if (c.K <= 128)
        return channel ? launch_linear_tile<T, 128, true>(c, cut, pass, stream, shared)
                       : launch_linear_tile<T, 128, false>(c, cut, pass, stream, shared);
    return channel ? launch_linear_tile<T, 256, true>(c, cut, pass, stream, shared)
                   : launch_linear_tile<T, 256, false>(c, cut, pass, stream, shared);
}

#endif
