// kernels/cuda/erase.h - recurrences that erase, with a decay for every channel or a pair of vectors, in chunks on
// tensor cores: KDA (ERASE_KEY, arXiv:2510.26692), RWKV-7 (ERASE_PAIR, arXiv:2503.14456), Comba (ERASE_PAIR with one
// decay a head, arXiv:2506.02475); docs/kernels.md explains the kernels, erase_tile.h has the equations.
//
//   half   bfloat16 matrices: operands are fp16, sums float32; outputs are off by about 1.7e-3 (relative L2), which is
//          bfloat16's own rounding, by up to 5e-3 where one key with beta = 2 stands in every row. Numbers that leave
//          fp16's range are noticed: marks says where the result is none, and whoever calls computes that again.
//   exact  float matrices: operands in three terms, as exact as the step form in float32 within a digit
//
// Both run on compute capability 8.0 and later.
#ifndef DELTOP_CUDA_ERASE_H
#define DELTOP_CUDA_ERASE_H

#include "kernels/cuda/device.h"

// One call. q, k, v, a, b: rows 16-byte aligned, of bf16 (half) or float (exact); beta float; decay float or bf16; K a
// multiple of 8, at most 256.
typedef struct erase_job {
    steps s;
    mat state, o;
    cudaStream_t stream;
    void (*done)(void *ctx, const char *pass); // told on the host behind each launch
    void *done_ctx;
} erase_job;

// How: CHUNKS of 64 rows (erase_prepare.h), PARTS of 16 rows (erase_parts.h, erase_pairs.h), or parts in one kernel, without slots, for
// heads enough to fill a device (erase_fused.h).
typedef enum { ERASE_CHUNKS, ERASE_PARTS, ERASE_FUSED } erase_way;

// Bytes of what a form keeps: shared memory of its kernels (of parts and of the fused one 0 where this call has none);
// on the device a slot for every chunk of a head, states and transitions of one segment, marks. rows: micro-steps of
// a chunk; ahead: a stretch of parts can be made beside what goes through the one before it.
typedef struct erase_sizes {
    bool ahead;
    int rows, prepare_shared, stage, end_stage, parts_shared, fused_shared;
    size_t slot, state, transition, marks;
} erase_sizes;

// chunks: of a stretch, made and consumed before the next, which `ahead` is made meanwhile, to slots of its own; segments: of a stretch, side by side; stages: chunks in
// shared memory of the kernel that makes outputs, and of the one that makes segments' ends (of CHUNKS).
typedef struct erase_plan {
    int chunks, segments, stages, end_stages;
    erase_way way;
    bool ahead;
} erase_plan;

enum { ERASE_BARRIERS = 128 }; // bytes of shared memory beside the stages

typedef struct erase_space {
    int *
        marks; // [H][16 columns of V]; set to 1 where outputs or the end state are not finite (half alone)
    float *ends, *transitions; // of plan.segments
    unsigned char *slots;      // plan.chunks x H, twice where it is ahead
} erase_space;

erase_sizes erase_half_sizes(const erase_job *j);
erase_sizes erase_exact_sizes(const erase_job *j);
cudaError_t erase_half_run(const erase_job *j, const erase_plan *plan, erase_space *space);
cudaError_t erase_exact_run(const erase_job *j, const erase_plan *plan, erase_space *space);

#endif
