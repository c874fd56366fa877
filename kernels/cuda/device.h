// kernels/cuda/device.h - what every .cu file of this folder shares: the backend's private part,
// error keeping, and access to mats whose element is float or bfloat16.
//
// Kernels are templates over the element type T and compute in float. Launchers pick T from a mat's
// esize with ON_TYPE. Every launch goes to one stream, so operations see each other's results in
// order. A failed call is kept in backend.fail like on the CPU.
#ifndef DELTOP_CUDA_DEVICE_H
#define DELTOP_CUDA_DEVICE_H

#include "kernels/cuda/core_c.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;

// Whether this build has kernels for Hopper: those that need sm_90a are empty in code for any other architecture.
#ifndef DELTOP_HOPPER
#define DELTOP_HOPPER 1
#endif
// Whether they run on a device: Hopper's instructions exist on compute capability 9.0 alone.
static inline bool is_hopper(int device) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return DELTOP_HOPPER && major == 9 && minor == 0;
}

struct cuda_backend {
    backend base; // first: a backend * is a cuda_backend *
    int device;
    int processors; // multiprocessors
    bool hopper;    // is_hopper(device)
    cudaStream_t stream;
    cublasHandle_t blas;
    char name[288];
    // Scratch that grows: indices and losses of a block, logits of a tile.
    void *scratch;
    size_t scratch_bytes;
    void *pinned; // host staging of the same kind
    size_t pinned_bytes;
    struct product_plans *plans;     // product.cu
    struct trace *spans;             // trace.h; NULL: nobody asked
    long launches;                   // kernels and products so far
    cudaEvent_t mark[BACKEND_MARKS]; // made when first used (kernels/cuda/timing.cu)
    void *evict;
    size_t evict_bytes;
};

static inline cuda_backend *of(backend *be) {
    return (cuda_backend *)be;
}

// Keeps the first failure; true when r is success.
bool cuda_ok(backend *be, cudaError_t r, const char *what);
// After a launch.
static inline void launched(backend *be, const char *what) {
    of(be)->launches++;
    cuda_ok(be, cudaGetLastError(), what);
}
// After one of the kernels that an operation is made of.
static inline void phase_done(backend *be, const char *name) {
    of(be)->launches++;
    if (be->on_phase)
        be->on_phase(be, name);
}
// At least n bytes on the device, or page-locked on the host; contents undefined. NULL on failure.
void *device_scratch(backend *be, size_t n);
void *host_scratch(backend *be, size_t n);

// What the device has left: free memory, and what the pool holds without a use for it.
bool device_space(backend *be, size_t *bytes);
// Shared memory that one block may have.
size_t shared_memory(backend *be);

// A mat as a kernel sees it.
template <class T> struct view {
    T *p;
    int64_t ld;
    __host__ __device__ T *row(int64_t i) const {
        return p + i * ld;
    }
};
template <class T> static inline view<T> as(mat m) {
    return view<T>{(T *)m.p, m.ld};
}

__device__ static inline float get(float x) {
    return x;
}
__device__ static inline float get(bf16 x) {
    return __bfloat162float(x);
}
__device__ static inline void put(float *p, float x) {
    *p = x;
}
__device__ static inline void put(bf16 *p, float x) {
    *p = __float2bfloat16_rn(x);
}

// Runs the statement with T = the element type of mat m.
#define ON_TYPE(m, T, ...)                                                                         \
    do {                                                                                           \
        if ((m).esize == 4) {                                                                      \
            typedef float T;                                                                       \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef bf16 T;                                                                        \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

static inline unsigned blocks_for(int64_t n, int threads) {
    int64_t b = (n + threads - 1) / threads;
    return (unsigned)(b < 1 ? 1 : b > 1 << 20 ? 1 << 20 : b);
}

// for every i of n, whatever the grid
#define GRID_LOOP(i, n)                                                                            \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n);                      \
         i += (int64_t)gridDim.x * blockDim.x)

// The same with a warp (a row of threads of the block) for every j.
#define WARP_LOOP(j, n)                                                                            \
    for (int64_t j = blockIdx.x * (int64_t)blockDim.y + threadIdx.y; j < (n);                      \
         j += (int64_t)gridDim.x * blockDim.y)

// NaN for a sum that overflowed: divided by infinity, every value would become a harmless 0.
__device__ static inline float in_range(float sum) {
    return fabsf(sum) < INFINITY ? sum : NAN;
}
__device__ static inline float warp_sum(float x) {
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}
__device__ static inline double warp_sum(double x) {
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}
// The sum of this lane's x and of those of all lanes before it; the whole warp.
template <class T> __device__ static inline T warp_running_sum(T x, int lane) {
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const T before = __shfl_up_sync(~0u, x, d);
        x += lane >= d ? before : 0;
    }
    return x;
}
__device__ static inline float sigmoid_of(float x) {
    return 1 / (1 + expf(-x));
}
// ln(1 + e^x) without overflow and without losing small values.
__device__ static inline float softplus_of(float x) {
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

// kernels/pointwise.h
__device__ static inline float cuda_act(activation act, float x) {
    switch (act) {
    case ACT_SILU:
        return x * sigmoid_of(x);
    case ACT_SIGMOID:
        return sigmoid_of(x);
    case ACT_RELU:
        return fmaxf(x, 0);
    case ACT_ELU1:
        return x > 0 ? x + 1 : expf(x);
    case ACT_TANH:
        return tanhf(x);
    case ACT_RELU2:
        return x > 0 ? x * x : 0;
    case ACT_ONE_MINUS_EXP:
        return -expm1f(x);
    default:
        return x;
    }
}

#endif
