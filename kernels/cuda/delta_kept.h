// kernels/cuda/delta_kept.h - what segments leave in scratch (delta.cu): states at their ends as the state's warpgroups
// hold them, 64 values and all channels each, and transitions as the scan multiplies by them.
#ifndef DELTOP_CUDA_DELTA_KEPT_H
#define DELTOP_CUDA_DELTA_KEPT_H

#include "kernels/cuda/delta_rows.h"
#include "kernels/cuda/powers.h"

#include <limits.h>

// Scratch: rows and gates of all chunks (16-byte aligned, hence first); states at the segments' ends, transitions of segments, by
// which powers of two these were multiplied (calls with decays), or that nothing is left of them; how many warps are through with
// what they leave of a segment: the scan need not wait for the whole first pass.
struct segment_space {
    delta_row *rows;      // the table, or none
    unsigned char *gates; // [rows][H][chunks] of gates_bytes
    float *ends;          // [rows][segments][H][parts_of][STATE]
    __half *transitions;  // [rows][segments][H][WIDTH WIDTH]; segment 0 and the last have none
    int *exponent;        // [rows][segments][H]
    int *ready;           // [rows][segments][H]
    int n;                // of these, 0 without segments
};
enum { NOTHING_LEFT = INT_MIN, MOST_EXPONENT = 60 };

// Counts n warps that are through with what this thread knows to be written; and: n warps have counted, what they wrote is there.
HOPPER_DEVICE void count_for(int *count, int n) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;\n" ::"l"(count), "r"(n) : "memory");
}
HOPPER_DEVICE bool have_counted(const int *count, int n) {
    int x;
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];\n" : "=r"(x) : "l"(count) : "memory");
    return x >= n;
}

HOPPER_DEVICE int exponent_within(int i) {
    return min(max(i, -MOST_EXPONENT), (int)MOST_EXPONENT);
}

// H^T of a warpgroup times `by`, accumulator by accumulator: four floats of every thread side by side. warp: of the warpgroup.
HOPPER_DEVICE void kept_load(float (&h)[64], const float *from, float by, int warp, int lane) {
    const float4 *x = (const float4 *)from + warp * 512 + lane;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        const float4 y = x[32 * j];
        h[4 * j] = by * y.x, h[4 * j + 1] = by * y.y, h[4 * j + 2] = by * y.z;
        h[4 * j + 3] = by * y.w;
    }
}
HOPPER_DEVICE void kept_store(const float (&h)[64], float *to, float by, int warp, int lane) {
    float4 *x = (float4 *)to + warp * 512 + lane;
#pragma unroll
    for (int j = 0; j < 16; j++)
        x[32 * j] =
            make_float4(by * h[4 * j], by * h[4 * j + 1], by * h[4 * j + 2], by * h[4 * j + 3]);
}

// A transition M [channel after, channel before] times `scale` in fp16, of which the warp holds M^T for 16 channels before, 16 warp .. (warp:
// 0..7): panels of 64 channels before as wgmma.h has them, 128 rows each.
HOPPER_DEVICE void transition_store(const float (&h)[64], float scale, __half *to, int warp,
                                    int lane) {
    const int before = 16 * (warp % 4) + lane / 4;
    __half *panel = to + warp / 4 * WIDTH * 64;
#pragma unroll
    for (int j = 0; j < 16; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = before + 8 * (e / 2), after = 8 * j + 2 * (lane % 4) + e % 2;
            panel[swizzle(after, at / 8) / 2 + at % 8] = __float2half_rn(scale * h[4 * j + e]);
        }
}

#endif
