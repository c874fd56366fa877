// kernels/cuda/wide.h - 16 bytes at a time: what the memory-bound kernels read and write.
//
// A "word" here is 16 bytes: N = 8 bfloat16 or 4 float. wide(m) says whether rows of m can be walked
// so; launchers fall back to one number at a time where they cannot.
#ifndef DELTOP_CUDA_WIDE_H
#define DELTOP_CUDA_WIDE_H

#include "kernels/cuda/device.h"

template <class T> __host__ __device__ constexpr int per_word() {
    return 16 / (int)sizeof(T);
}

// Every row begins at a word.
static inline bool on_words(mat m) {
    return (uintptr_t)m.p % 16 == 0 && m.ld * m.esize % 16 == 0;
}
static inline bool wide(mat m) {
    return on_words(m) && m.cols * m.esize % 16 == 0;
}

template <class T> __device__ __forceinline__ uint4 load_word(const T *p) {
    return *(const uint4 *)p;
}

__device__ __forceinline__ void unpack(uint4 w, float (&v)[4]) {
    v[0] = __uint_as_float(w.x);
    v[1] = __uint_as_float(w.y);
    v[2] = __uint_as_float(w.z);
    v[3] = __uint_as_float(w.w);
}
__device__ __forceinline__ void unpack(uint4 w, float (&v)[8]) {
    const uint32_t two[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = __uint_as_float(two[i] << 16);
        v[2 * i + 1] = __uint_as_float(two[i] & 0xffff0000u);
    }
}
__device__ __forceinline__ void store_word(float *p, const float (&v)[4]) {
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void store_word(bf16 *p, const float (&v)[8]) {
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __nv_bfloat162 x = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
        memcpy(&two[i], &x, 4);
    }
    *(uint4 *)p = make_uint4(two[0], two[1], two[2], two[3]);
}
// The same number of float weights, of which only the float mode needs one load.
template <int N> __device__ __forceinline__ void load_floats(const float *p, float (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float4 x = *(const float4 *)(p + i);
        v[i] = x.x;
        v[i + 1] = x.y;
        v[i + 2] = x.z;
        v[i + 3] = x.w;
    }
}

// 1 / (1 + e^-x) from the two approximate instructions alone: 1e-6, and subnormal results are 0.
__device__ __forceinline__ float quick_sigmoid(float x) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
    return r;
}

// An activation whose result is rounded to T: a bfloat16 keeps 4e-3 of it.
template <class T> __device__ __forceinline__ float act_for(activation act, float x) {
    if (sizeof(T) == 2 && act == ACT_SILU)
        return x * quick_sigmoid(x);
    if (sizeof(T) == 2 && act == ACT_SIGMOID)
        return quick_sigmoid(x);
    return cuda_act(act, x);
}

#endif
