// kernels/cuda/warp_ptx.h - the instructions behind kernels/cuda/warp_product.h, by the names of the PTX
// manual; all exist from compute capability 8.0 on. A host emulation has its own file of this name.
#ifndef DELTOP_CUDA_WARP_PTX_H
#define DELTOP_CUDA_WARP_PTX_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdint.h>

#define WARP_DEVICE __device__ __forceinline__ static

WARP_DEVICE uint32_t shared_at(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// 16 bytes to shared memory, behind the thread's back; zeros, and nothing read, where `there` is false.
WARP_DEVICE void copy_async(void *to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_at(to)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}
WARP_DEVICE void copies_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// Until at most `left` of this thread's groups are under way.
template <int left> WARP_DEVICE void copies_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
}

// Four 8 x 8 matrices of 16-bit numbers: lane l names row l mod 8 of matrix l / 8 and gets numbers
// 2 (l mod 4) + {0, 1} of row l / 4 (transposed: of column l / 4) of each.
WARP_DEVICE void matrices(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_at(row))
                 : "memory");
}
WARP_DEVICE void matrices_transposed(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_at(row))
                 : "memory");
}

// d += A B, A [16, 16], B [16, 8]
WARP_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// d += A B, A [16, 8], B [8, 8]
WARP_DEVICE void mma_tf32(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                          uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// 2^x; 0 below 2^-126
WARP_DEVICE float exp2_quick(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}
// The bits of a float rounded to 11 bits of mantissa.
WARP_DEVICE uint32_t to_tf32(float x) {
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(y) : "f"(x));
    return y;
}
// Two floats as bfloat16, the first in the lower half.
WARP_DEVICE uint32_t pair_bf16(float lower, float upper) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(upper), "f"(lower));
    return r;
}

#endif
