// kernels/cuda/linear.h - recurrences without an erase term (ERASE_NONE of core/steps.h, one micro-step a
// token) in chunks on tensor cores: linear attention, RetNet, Mamba-2 / simple GLA (a decay per head), GLA and
// HGRN2 (a decay per key channel). From compute capability 8.0 on.
//
//   H_t = D_t H_{t-1} + beta_t k_t v_t^T        o_t = scale H_t^T q_t                 (R01-R05)
//
// Equations, tiles and what bounds them: docs/kernels.md. bfloat16 inputs: factors of products are rounded to
// bfloat16, states and sums are float32; outputs are off by 2.5e-3 to 3.5e-3 (relative L2), of which their own
// rounding is 1.7e-3. float32 inputs: factors are sums of two TF32 numbers (`fine`: as good as float32) or one.
// With segments, a past that has decayed below 2^-26 is dropped.
#ifndef DELTOP_CUDA_LINEAR_H
#define DELTOP_CUDA_LINEAR_H

#include <cuda_runtime.h>

#include <stddef.h>
#include <stdint.h>

// Numbers of a matrix on the device, rows `ld` numbers apart. bytes: 2 (bfloat16) or 4 (float) a number.
typedef struct linear_matrix {
    const void *p;
    int64_t ld;
    int bytes;
} linear_matrix;

typedef enum { FORGET_NOTHING, FORGET_BY_HEAD, FORGET_BY_CHANNEL } forgetting;

// Everything is on the device. q, k, v and o have one type, K and V are whole multiples of 16 bytes of it, and
// so are their ld and addresses; with FORGET_BY_CHANNEL decay's too. K at most 256; H a multiple of Hk. Nothing
// may overlap.
typedef struct linear_call {
    linear_matrix q, k; // [T, Hk K]
    linear_matrix v;    // [T, H V]
    linear_matrix beta; // [T, H]; p NULL: 1
    // Natural logarithms, at most 0: [T, H] or [T, H K]; unused with FORGET_NOTHING. -infinity counts as -10000.
    linear_matrix decay;
    linear_matrix o; // [T, H V], written
    float *state;    // [H K, V], rows ld_state floats apart; from the start to the end
    int64_t ld_state;
    forgetting forget;
    int H, Hk, K, V;
    int64_t T;
    float scale;
    bool fine; // of float32 inputs
} linear_call;

// How a call is cut, and what the cost model expects in microseconds. segments = 1: one pass.
typedef struct linear_plan {
    int segments;
    int64_t tokens; // of a segment, a multiple of 32
    double ends;    // states at the segments' ends, from zero
    double scan;    // states at their starts
    double outputs; // all outputs
} linear_plan;

// The cheapest plan on a device of so many multiprocessors; segments: about that many instead (0 = choose).
linear_plan linear_plan_for(const linear_call *c, int processors, int segments);

// What the plan costs, in microseconds, launches included; of the step form, the same.
double linear_us(const linear_plan *p);
double linear_steps_us(const linear_call *c, int processors);

// Shared memory of the largest block of the call. A device must give that much to one.
size_t linear_shared_bytes(const linear_call *c);

// Floats of scratch that linear_run needs for a plan; 0 for one segment.
size_t linear_scratch(const linear_call *c, const linear_plan *p);

// Puts the call into the stream. scratch must live until it is done. phase, which may be NULL, is told the
// name of each kernel behind its launch.
cudaError_t linear_run(const linear_call *c, const linear_plan *p, float *scratch,
                       cudaStream_t stream, void (*phase)(void *ctx, const char *name), void *ctx);

#endif
