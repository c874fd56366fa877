// kernels/cuda/wgmma.h - Hopper's warpgroup instructions by the names of the PTX manual: matrix products
// that read shared memory through descriptors, barriers with a phase, copies that do not wait.
//
// Products are m64 nN k16, fp16 in (or bf16: wgmma<N, __nv_bfloat16>), float32 out: d (+)= A B with A [64, 16] from registers (rs) or shared
// memory (ss), B [16, N] from shared memory. Fragments of thread t, warp w = t / 32 of the warpgroup,
// lane l: d[4 j + {0, 1}] is row 16 w + l / 4, columns 8 j + 2 (l mod 4) + {0, 1}; d[4 j + {2, 3}] the row
// eight below. A's registers a[0..3]: the same two rows, columns 2 (l mod 4) + {0, 1}, then both rows again
// eight columns on. So an accumulator packed in pairs is the next product's A.
//
// Tiles in shared memory are panels of 128-byte rows, 1024-byte aligned, each row's eight 16-byte
// pieces exchanged by row mod 8 (swizzle()). desc_k: rows are the index that survives (N, or M), the
// panel runs along k; +2 a step of 16. desc_mn: rows are k; +128 a step of 16.
//
// Only for sm_90a (is_hopper of device.h).
#ifndef DELTOP_CUDA_WGMMA_H
#define DELTOP_CUDA_WGMMA_H

#include "kernels/cuda/arrivals.h"

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define HOPPER_DEVICE __device__ __forceinline__

HOPPER_DEVICE uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// Byte offset of 16-byte piece `piece` (0..7) of a row inside a panel.
HOPPER_DEVICE uint32_t swizzle(uint32_t row, uint32_t piece) {
    return row * 128 + ((piece ^ (row & 7)) << 4);
}

// Groups of eight rows are 1024 bytes apart; panels (along N, for desc_mn) `panel` bytes.
HOPPER_DEVICE uint64_t desc_k(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 |
           (uint64_t)1 << 62;
}
HOPPER_DEVICE uint64_t desc_mn(uint32_t address, uint32_t panel) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(panel >> 4) << 16 |
           (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

template <int N, class in = __half> struct wgmma;

#define WGMMA_FOR(IN, TYPE, N, LIST, A0, A1, A2, A3, A4, A5, A6, ...)                              \
    template <> struct wgmma<N, IN> {                                                              \
        static HOPPER_DEVICE void ss(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {         \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " A2 ", 0;\n"                           \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" LIST \
                         "}, " A0 ", " A1 ", p, 1, 1, 0, 0;\n}\n"                                  \
                         : __VA_ARGS__                                                             \
                         : "l"(a), "l"(b), "r"(add));                                              \
        }                                                                                          \
        template <int MN>                                                                          \
        static HOPPER_DEVICE void rs(float (&d)[N / 2], const uint32_t *a, uint64_t b, int add) {  \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " A5 ", 0;\n"                           \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" LIST \
                         "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " A4 ", p, 1, 1, " A6 ";\n}\n"      \
                         : __VA_ARGS__                                                             \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(MN)); \
        }                                                                                          \
    }

#define WGMMA_OF(...)                                                                              \
    WGMMA_FOR(__half, "f16", __VA_ARGS__);                                                         \
    WGMMA_FOR(__nv_bfloat16, "bf16", __VA_ARGS__)

#define LIST8  "%0, %1, %2, %3, %4, %5, %6, %7"
#define LIST16 LIST8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define LIST32                                                                                     \
    LIST16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LIST64                                                                                     \
    LIST32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "    \
           "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LIST128                                                                                    \
    LIST64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "    \
           "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, " \
           "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "     \
           "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "  \
           "%125, %126, %127"
#define D4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i)  D4(i), D4(i + 4)
#define D16(i) D8(i), D8(i + 8)
#define D32(i) D16(i), D16(i + 16)

WGMMA_OF(16, LIST8, "%8", "%9", "%10", "%11", "%12", "%13", "%14", D8(0));
WGMMA_OF(24, LIST8 ", %8, %9, %10, %11", "%12", "%13", "%14", "%15", "%16", "%17", "%18", D8(0),
         D4(8));
WGMMA_OF(32, LIST16, "%16", "%17", "%18", "%19", "%20", "%21", "%22", D16(0));
WGMMA_OF(64, LIST32, "%32", "%33", "%34", "%35", "%36", "%37", "%38", D32(0));
WGMMA_OF(128, LIST64, "%64", "%65", "%66", "%67", "%68", "%69", "%70", D32(0), D32(32));
WGMMA_OF(256, LIST128, "%128", "%129", "%130", "%131", "%132", "%133", "%134", D32(0), D32(32),
         D32(64), D32(96));

// Before the first product that reads registers other instructions wrote.
HOPPER_DEVICE void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
HOPPER_DEVICE void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Until at most `left` committed groups are under way.
template <int left> HOPPER_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(left) : "memory");
}

// What ordinary stores of this thread wrote to shared memory becomes visible to later products.
HOPPER_DEVICE void fence_async() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// What this thread knows to be written in global memory is there for copies it asks for.
HOPPER_DEVICE void fence_written() {
    asm volatile("fence.proxy.async.global;\n" ::: "memory");
}

// arrivals: of warps (arrivals.h), or of threads that bring copies.
HOPPER_DEVICE void barrier_init(uint64_t *b, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(b)),
                 "r"(arrivals * WARP_ARRIVALS)
                 : "memory");
}
// By the lanes of a warp that arrives() names.
HOPPER_DEVICE void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(b)) : "memory");
}
// Waits for the end of the phase of that parity; a fresh barrier is past parity 1.
HOPPER_DEVICE void barrier_wait(uint64_t *b, uint32_t parity) {
    asm volatile("{\n.reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n}\n" ::"r"(shared_address(b)),
                 "r"(parity)
                 : "memory");
}
// Blocks of one cluster: this block's number, the address of the same thing in another block, and arrivals
// there (with nothing to tell but that this thread is done).
HOPPER_DEVICE int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}
HOPPER_DEVICE uint32_t peer_address(uint32_t address, int rank) {
    uint32_t r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}
// By the lanes of a warp that arrives() names, or by one thread for all of them (WARP_ARRIVALS).
HOPPER_DEVICE void barrier_arrive_peer(uint32_t b, int arrivals = 1) {
    if (arrivals == 1)
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(b) : "memory");
    else
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;\n" ::"r"(b), "r"(arrivals)
                     : "memory");
}
// One thread's arrival at a peer's barrier, and `bytes` that copies will bring there.
HOPPER_DEVICE void barrier_expect_peer(uint32_t b, uint32_t bytes) {
    if (WARP_ARRIVALS > 1)
        barrier_arrive_peer(b, WARP_ARRIVALS - 1);
    asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;\n" ::"r"(b), "r"(bytes)
                 : "memory");
}
// From this block's shared memory to a peer's, whose barrier b counts the bytes; multiples of 16. What ordinary
// stores wrote goes along after fence_async().
HOPPER_DEVICE void copy_peer(uint32_t to, uint32_t from, uint32_t bytes, uint32_t b) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n" ::"r"(to),
                 "r"(from), "r"(bytes), "r"(b)
                 : "memory");
}
// All threads of all blocks of the cluster.
HOPPER_DEVICE void cluster_sync() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;\n" ::
                     : "memory");
}
// Threads that share the named barrier `id` (1..15).
HOPPER_DEVICE void named_barrier(int id, int threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

// One thread's arrival, and `bytes` that copies will bring before the phase ends.
HOPPER_DEVICE void barrier_expect(uint64_t *b, uint32_t bytes) {
    if (WARP_ARRIVALS > 1)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(b)),
                     "n"(WARP_ARRIVALS > 1 ? WARP_ARRIVALS - 1 : 1)
                     : "memory");
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(b)),
        "r"(bytes)
        : "memory");
}
// The box of a tensor map at (column, head, row), to shared memory; b counts its bytes.
HOPPER_DEVICE void copy_box(uint32_t to, const CUtensorMap *map, int column, int head, int row,
                            uint64_t *b) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(to),
                 "l"(map), "r"(column), "r"(head), "r"(row), "r"(shared_address(b))
                 : "memory");
}
// `bytes` (a multiple of 16) of global memory; b counts them.
HOPPER_DEVICE void copy_global(uint32_t to, const void *from, uint32_t bytes, uint64_t *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];\n" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(shared_address(b))
                 : "memory");
}
// From shared memory to the box of a tensor map; what lies outside the tensor stays as it is. What other threads stored
// goes along when their stores happen before a fence_async() of this one.
HOPPER_DEVICE void store_box(const CUtensorMap *map, int column, int head, int row, uint32_t from) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];\n" ::"l"(
            map),
        "r"(column), "r"(head), "r"(row), "r"(from)
        : "memory");
}
// Until all that this thread stored so has been read.
HOPPER_DEVICE void stores_read() {
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" ::: "memory");
}
HOPPER_DEVICE void prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}
// The line of global memory comes to the L2 cache.
HOPPER_DEVICE void prefetch_line(const void *p) {
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(p));
}

HOPPER_DEVICE void ldmatrix(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
HOPPER_DEVICE void ldmatrix_transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
HOPPER_DEVICE void stmatrix(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(a),
        "r"(b), "r"(c), "r"(d)
        : "memory");
}
// The same, each matrix transposed.
HOPPER_DEVICE void stmatrix_transposed(uint32_t address, uint32_t a, uint32_t b, uint32_t c,
                                       uint32_t d) {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
        "r"(a), "r"(b), "r"(c), "r"(d)
        : "memory");
}
// d += A B with A [16, 16] of registers a (as above), B [16, 8]: b0 rows 2 (l mod 4) + {0, 1} of column
// l / 4, b1 eight rows on.
HOPPER_DEVICE void mma16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Products of two pairs of fp16.
HOPPER_DEVICE uint32_t multiply_half(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
// Two floats as fp16, the first in the lower half.
HOPPER_DEVICE uint32_t pack_half(float lower, float upper) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(upper), "f"(lower));
    return r;
}
HOPPER_DEVICE uint32_t pack_bf16(float lower, float upper) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(upper), "f"(lower));
    return r;
}
HOPPER_DEVICE float2 unpack_half(uint32_t x) {
    return __half22float2(*(const __half2 *)&x);
}
HOPPER_DEVICE float lower_bf16(uint32_t x) {
    return __uint_as_float(x << 16);
}
HOPPER_DEVICE float upper_bf16(uint32_t x) {
    return __uint_as_float(x & 0xffff0000u);
}
// 2^x; 0 below 2^-126.
HOPPER_DEVICE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

// Kernels that may begin before the one before them in the stream is through (cudaLaunchAttributeProgrammaticStreamSerialization):
// waits for it, and lets the next one begin.
HOPPER_DEVICE void wait_for_kernel_before() {
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
}
HOPPER_DEVICE void let_next_kernel_begin() {
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
}
template <int registers> HOPPER_DEVICE void registers_down() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(registers));
}
template <int registers> HOPPER_DEVICE void registers_up() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(registers));
}

#endif
