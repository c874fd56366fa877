// kernels/cuda/delta_scan.h - the states that the segments of a row begin with (delta.cu): H <- M_s H + N_s from segment
// to segment. M_s is what a segment does to a state, N_s what it ends with when it begins with nothing.
//
// One block a head and 64 of the values; it walks through the segments one by one, so the way from one to the next
// is all that counts. H^T stays in one warpgroup's accumulators, which packed in fp16 are also the left operand of the next product,
// H^T M_s^T; it is added to N_s^T in float32. Fp16 is three bits finer than the bfloat16 that H is for the products of every
// chunk, but has no room for small numbers: both factors are multiplied by powers of two, M_s by what has decayed in the segment, H
// by its size, each warp its own. A warp of its own fetches M_s, in fp16 as well, and N_s, three segments ahead.
#ifndef DELTOP_CUDA_DELTA_SCAN_H
#define DELTOP_CUDA_DELTA_SCAN_H

#include "kernels/cuda/delta_kept.h"
#include "kernels/cuda/launch.h"

enum {
    SCAN_WARPS = 4, // that multiply
    SCAN_THREADS = 32 * SCAN_WARPS + 32,
    SCAN_STAGES = 3, // segments in flight
};

struct scan_shared {
    __half m[SCAN_STAGES][WIDTH * WIDTH];
    float own[SCAN_STAGES][STATE];
    int exponent[SCAN_STAGES];
    uint64_t full[SCAN_STAGES], empty[SCAN_STAGES];
};

// H in fp16 is fine as long as its largest number is within these (bits of halves: 2^-4, 2^13); so no product is looked at twice
// as a rule.
enum { SCAN_SMALL = 0x2c00, SCAN_LARGE = 0x7000 };

// 2^size as a float, infinite from 2^128 on.
HOPPER_DEVICE float scan_scale(int size) {
    return power_of_two(min(max(size, -126), 128));
}
HOPPER_DEVICE void scan_pack(uint32_t (&to)[32], const float (&h)[64]) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        to[i] = pack_half(h[2 * i], h[2 * i + 1]);
}
// Bits of the largest of a warp's halves, by magnitude.
HOPPER_DEVICE uint32_t scan_most(const uint32_t (&x)[32]) {
    __half2 most = __habs2(*(const __half2 *)&x[0]);
#pragma unroll
    for (int i = 1; i < 32; i++)
        most = __hmax2(most, __habs2(*(const __half2 *)&x[i]));
    const uint32_t bits = *(const uint32_t *)&most;
    return __reduce_max_sync(~0u, max(bits & 0xffffu, bits >> 16));
}
// Brings a warp's h, which stands for h 2^size, near 1. Infinity does not count: it would leave nothing of the others.
HOPPER_DEVICE void scan_resize(float (&h)[64], int *size) {
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const uint32_t x = __float_as_uint(h[i]) & 0x7fffffffu;
        most = max(most, x < 0x7f800000u ? x : 0);
    }
    most = __reduce_max_sync(~0u, most);
    const int now = max(*size + (int)(most >> 23) - 127, -(int)MOST_EXPONENT),
              step = *size - now; // by halves: 2^step may not be a number
#pragma unroll
    for (int i = 0; i < 64; i++)
        h[i] = h[i] * power_of_two(step / 2) * power_of_two(step - step / 2);
    *size = now;
}

// The states replace N.
__global__ void __launch_bounds__(SCAN_THREADS, 1)
    scan_segments(const __grid_constant__ delta_call s, segment_space space, bool gated) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char bytes[];
    scan_shared *m = (scan_shared *)bytes;
    let_next_kernel_begin();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < SCAN_STAGES; i++) {
            barrier_init(&m->full[i], 1);
            barrier_init(&m->empty[i], SCAN_WARPS);
        }
    fence_async();
    __syncthreads();
    const delta_row row = row_of(s, blockIdx.x / s.H);
    const int64_t heads = s.H, head = (int64_t)row.piece0 * s.H + blockIdx.x % s.H;
    const int last = segments_of(s, row) - 1;
    const int64_t parts = parts_of(s.V), next = heads * parts * STATE;
    float *end = space.ends + (head * parts + blockIdx.y) * STATE;
    const int *ready = space.ready + head;
    // Counts begin at zero: the first pass has waited for the kernel that sees to that before it let this one begin.
    if (warp == SCAN_WARPS) {
        // A lane looks out for segments `lane` and lane + 32, for all of them at a time.
        bool there[2] = {};
        int exponents[2] = {};
        for (int segment = 1; segment < last; segment++) {
            const int stage = segment % SCAN_STAGES, half = segment / 32;
            while (!__shfl_sync(~0u, half ? there[1] : there[0], segment % 32))
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int mine = lane + 32 * i;
                    if (there[i] || mine == 0 || mine >= last ||
                        !have_counted(ready + mine * heads, STATE_WARPS * (s.value_blocks + 1)))
                        continue;
                    there[i] = true;
                    if (gated)
                        exponents[i] = space.exponent[mine * heads + head];
                }
            const int exponent = __shfl_sync(~0u, half ? exponents[1] : exponents[0], segment % 32);
            __syncwarp(); // what other lanes have seen, lane 0 has
            if (lane == 0) {
                uint64_t *full = &m->full[stage];
                if (segment > SCAN_STAGES)
                    barrier_wait(&m->empty[stage], ((segment - 1) / SCAN_STAGES & 1) ^ 1);
                const int64_t piece = segment * heads + head;
                const bool some = exponent != NOTHING_LEFT;
                m->exponent[stage] = exponent;
                fence_written(); // not by the copy engine
                barrier_expect(full, sizeof m->own[0] + (some ? sizeof m->m[0] : 0));
                if (some)
                    copy_global(shared_address(m->m[stage]),
                                space.transitions + piece * WIDTH * WIDTH, sizeof m->m[0], full);
                copy_global(shared_address(m->own[stage]), end + segment * next, sizeof m->own[0],
                            full);
            }
            __syncwarp();
        }
        // What is next in the stream waits for this kernel, and needs the one before it, too.
        wait_for_kernel_before();
        return;
    }
    while (!have_counted(ready, STATE_WARPS * s.value_blocks))
        __nanosleep(64);
    float h[64];  // H^T 2^-size
    int size = 0; // of the warp
    kept_load(h, end, 1, warp, lane);
    for (int segment = 1; segment < last; segment++) {
        const int stage = segment % SCAN_STAGES;
        end += next;
        uint32_t before[32];
        scan_pack(before, h);
        barrier_wait(&m->full[stage], (segment - 1) / SCAN_STAGES & 1);
        const int exponent = m->exponent[stage];
        if (exponent != NOTHING_LEFT) {
            const uint32_t most = scan_most(before);
            // Where nothing is written and nothing erased h stays, and what has decayed is in the size alone.
            if (most < SCAN_SMALL || most > SCAN_LARGE || size < -MOST_EXPONENT) {
                scan_resize(h, &size);
                scan_pack(before, h);
            }
            size -= exponent; // of M_s H as it comes
            const uint32_t panels = shared_address(m->m[stage]);
            kept_load(h, m->own[stage], scan_scale(-size), warp, lane);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < 8; j++)
                wgmma<128>::rs<0>(h, before + 4 * j,
                                  desc_k(panels + j / 4 * WIDTH * 128) + 2 * (j % 4), 1);
            wgmma_commit();
            wgmma_wait<0>();
        } else { // nothing is left but what is no number
            float own[64];
            kept_load(own, m->own[stage], 1, warp, lane);
#pragma unroll
            for (int i = 0; i < 64; i++)
                h[i] = own[i] + 0.0f * h[i];
            size = 0;
        }
        __syncwarp();
        if (arrives(lane))
            barrier_arrive(&m->empty[stage]);
        kept_store(h, end, scan_scale(size), warp, lane);
    }
#endif
}

static cudaError_t launch_scan(const delta_call &s, segment_space space, cudaStream_t stream) {
    const launch_form form = {{(unsigned)(s.longer[2] * s.H), (unsigned)parts_of(s.V)},
                              SCAN_THREADS,
                              sizeof(scan_shared),
                              0,
                              true};
    return launch_as(form, stream, scan_segments, s, space, s.decay != NULL);
}

#endif
