// kernels/cuda/delta.h - the delta rule on Hopper's tensor cores: any number of micro-steps a token, no or
// scalar decay, grouped value heads, K up to 128, any V; rows of tokens of different lengths.
//
// Equations, tiles and barriers: docs/kernels.md. The fields of delta_call stand in delta_tile.h.
// Results are exact up to the rounding of operands to fp16 (relative error of outputs about 1.7e-3, which
// is that of bfloat16 outputs); a past that has decayed below 2^-26 may be dropped (science K11).
#ifndef DELTOP_CUDA_DELTA_H
#define DELTOP_CUDA_DELTA_H

#include "kernels/cuda/delta_tile.h"

// Numbers that leave the range of fp16 (65504: a key that is no unit vector, values of that size) come out as
// NaN or infinite, never as other numbers.

// How a call is cut: a row's chunks into segments that run side by side, and what the cost model expects, in
// microseconds. first_pass makes segments' ends and transitions, scan their starts, second_pass the outputs.
typedef struct delta_plan {
    int segments, per_segment;
    double first_pass, scan, second_pass;
} delta_plan;

// The cheapest plan on a device of so many multiprocessors; segments: that many instead (0 = choose).
// Reads H, K, V, n_h, T, n_rows, starts' presence and decay of the call. Rows given by starts are planned
// as if they were equally long.
delta_plan delta_plan_for(const delta_call *s, int processors, int segments);

// Floats of scratch that run needs for a plan.
size_t delta_scratch(const delta_call *s, const delta_plan *plan);

// q [tokens, Hk K], k [tokens n_h, Hk K], v [tokens n_h, H V], o [tokens, H V], beta [tokens n_h, H], decay
// [tokens, H]; tokens of all rows behind each other. K, V multiples of 8, K <= 128, n_h <= 16; q, k, v 16-byte
// aligned with leading dimensions that are multiples of 8. state: [rows H K, V] float, from the rows'
// starts to their ends; ld in floats. scratch: on the device. Returns the launches' error.
cudaError_t delta_run(delta_call s, const delta_plan *plan, float *state, int64_t ld,
                      float *scratch, cudaStream_t stream);

#endif
