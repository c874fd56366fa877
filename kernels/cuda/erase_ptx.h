// kernels/cuda/erase_ptx.h - the warp instructions of erase*.h by the names of the PTX manual. All exist since
// compute capability 8.0 but stmatrix and the bulk copy (9.0), which falls back to 16-byte copies.
//
// Products are m16 n8 k16 with float32 sums. Of lane l: d[0..1] is row l / 4, columns 2 (l mod 4) + {0, 1}, d[2..3]
// the row eight below; a[0], a[1] the same two rows at k = 2 (l mod 4) + {0, 1}, a[2], a[3] both rows eight on in
// k; b[0] column l / 4 at those k, b[1] eight on. So an accumulator packed in pairs is the next product's A, and
// its rows' halves are B of the transposed product.
#ifndef DELTOP_CUDA_ERASE_PTX_H
#define DELTOP_CUDA_ERASE_PTX_H

#include "kernels/cuda/arrivals.h"
#include "kernels/cuda/held.h"

#include <stdint.h>

__device__ static inline uint32_t smem_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
        "%7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, "
        "%6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Shared memory by addresses, and a number that is not made anew where it is used.
__device__ __forceinline__ float2 shared_float2(uint32_t address) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
                 : "=f"(x.x), "=f"(x.y)
                 : "r"(address)
                 : "memory");
    return x;
}
__device__ __forceinline__ void shared_take4(uint32_t (&x)[4], uint32_t address) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void shared_keep4(uint32_t address, const uint32_t (&x)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3])
                 : "memory");
}
__device__ __forceinline__ void shared_take4(float (&x)[4], uint32_t address) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void shared_keep4(uint32_t address, const float (&x)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "f"(x[0]), "f"(x[1]),
                 "f"(x[2]), "f"(x[3])
                 : "memory");
}
__device__ __forceinline__ int shared_int(uint32_t address) {
    int x;
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(x) : "r"(address) : "memory");
    return x;
}
__device__ __forceinline__ uint32_t once(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}
// Whether the phase of that parity has ended.
__device__ __forceinline__ bool mark_try(uint32_t b, uint32_t parity) {
    uint32_t ended = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.b32 %0, 1, 0, p;\n}\n"
                 : "=r"(ended)
                 : "r"(b), "r"(parity)
                 : "memory");
#endif
    return ended;
}
// Barriers by address.
__device__ __forceinline__ void mark_wait_at(uint32_t b, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n}\n" ::"r"(b),
                 "r"(parity)
                 : "memory");
#endif
}
__device__ __forceinline__ void mark_arrive_at(uint32_t b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(b) : "memory");
#endif
}
// The 64 threads that share barrier `id`.
__device__ __forceinline__ void pair_wait(int id) {
    asm volatile("bar.sync %0, 64;\n" ::"r"(id) : "memory");
}

// The lane, asked for anew, so that nothing made from it is kept in registers from one turn of a loop to the next.
__device__ __forceinline__ int lane_again() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;\n" : "=r"(lane));
    return lane;
}

// 2^x with an error of 2^-22; 0 for large negative ones.
__device__ __forceinline__ float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

// Four 8 x 8 matrices of 16-bit numbers: lane l gives the address of row l mod 8 of matrix l / 8 and gets of each
// matrix row l / 4, columns 2 (l mod 4) + {0, 1}; transposed: of its transpose.
__device__ __forceinline__ void ldmatrix4(uint32_t *r, const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(p))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix4_transposed(uint32_t *r, const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_address(p))
                 : "memory");
}

// The same by addresses in shared memory.
__device__ __forceinline__ void ldmatrix4_at(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix4_transposed_at(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// Four matrices to where ldmatrix4_at finds them. Compute capability 9.0.
__device__ __forceinline__ void stmatrix4_at(uint32_t address, const uint32_t (&r)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
        "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
        : "memory");
#endif
}

// 16 bytes to shared memory without waiting, or as many zeros.
__device__ __forceinline__ void copy16_at(uint32_t to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy16(void *to, const void *from, bool there) {
    copy16_at(smem_address(to), from, there);
}
__device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_all;\n" ::: "memory");
}

// A copy of many bytes (a multiple of 16) by the copy engine; every thread of the block calls these. The buffer is
// there when stretch_wait, copies_wait and a barrier of the block are behind; parity: of how often the buffer
// was filled before.
__device__ __forceinline__ void stretch_init(uint64_t *b, bool mine) {
#if __CUDA_ARCH__ >= 900
    if (mine) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(smem_address(b)),
                     "n"((int)WARP_ARRIVALS)
                     : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    }
#endif
}
__device__ __forceinline__ void stretch_init(uint64_t *b) {
    stretch_init(b, threadIdx.x == 0);
}
#if __CUDA_ARCH__ >= 900
// One thread's: a copy whose bytes stretch_expect has told of.
__device__ __forceinline__ void stretch_copy(uint64_t *b, void *to, const void *from, int bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n" ::"r"(smem_address(to)),
                 "l"(from), "r"(bytes), "r"(smem_address(b))
                 : "memory");
}
// One thread's: bytes to come, and the box of a tensor map at (column, head, row) that brings some of them.
__device__ __forceinline__ void stretch_expect(uint64_t *b, int bytes) {
    if (WARP_ARRIVALS > 1) // for the other lanes
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(smem_address(b)),
                     "n"(WARP_ARRIVALS > 1 ? WARP_ARRIVALS - 1 : 1)
                     : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(smem_address(b)),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void box_fetch(uint64_t *b, uint32_t to, const void *map, int column,
                                          int head, int row) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(to),
                 "l"(map), "r"(column), "r"(head), "r"(row), "r"(smem_address(b))
                 : "memory");
}
#endif
__device__ __forceinline__ void stretch_wait(uint64_t *b, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n}\n" ::"r"(smem_address(b)),
                 "r"(parity)
                 : "memory");
#endif
}

// Barriers in shared memory that arrivals of `count` warps (arrivals.h) complete; wait: for the phase of a parity, that before the first one
// counting as done. Compute capability 9.0.
__device__ __forceinline__ void mark_init(uint64_t *b, int count) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(smem_address(b)),
                 "r"(count * WARP_ARRIVALS)
                 : "memory");
#endif
}
__device__ __forceinline__ void marks_ready() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
#endif
}
__device__ __forceinline__ void mark_wait(uint64_t *b, uint32_t parity) {
    stretch_wait(b, parity);
}
__device__ __forceinline__ void mark_arrive(uint64_t *b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(smem_address(b)) : "memory");
#endif
}

// Of kernels launched with cudaLaunchAttributeProgrammaticStreamSerialization, which may begin before the one before them
// is through: lets the next one begin; waits for the one before. Compute capability 9.0.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_one_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// What this thread wrote to shared memory stands before copies that other threads start behind a barrier.
__device__ __forceinline__ void fence_copies() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}
__device__ __forceinline__ void stretch_fetch(uint64_t *b, void *to, const void *from, int bytes) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        stretch_expect(b, bytes);
        stretch_copy(b, to, from, bytes);
    }
#else
    for (int i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x)
        copy16((char *)to + i, (const char *)from + i, true);
#endif
}
// The other way, by one warp, of what its lanes wrote before a __syncwarp(); done when it returns.
__device__ __forceinline__ void stretch_keep(void *to, const void *from, int bytes) {
#if __CUDA_ARCH__ >= 900
    fence_copies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to),
                     "r"(smem_address(from)), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
    }
#else
    for (int i = 16 * (threadIdx.x % 32); i < bytes; i += 512)
        *(uint4 *)((char *)to + i) = *(const uint4 *)((const char *)from + i);
#endif
}

#endif
