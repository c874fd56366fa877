// kernels/cuda/arrivals.h - how many lanes of a warp arrive at an mbarrier when the warp is done with shared memory.
//
// One does, behind __syncwarp(): the PTX memory model orders what the other lanes did before what whoever waits does after.
// compute-sanitizer's racecheck does not follow the order through that lane. Compiled with -DDELTOP_RACECHECK=1 every lane
// arrives; a lane that arrives for itself, with copies it asked for, then counts for 32, and barriers expect 32 times as many
// arrivals. Results are the same, kernels a little slower.
#ifndef DELTOP_CUDA_ARRIVALS_H
#define DELTOP_CUDA_ARRIVALS_H

#ifndef DELTOP_RACECHECK
#define DELTOP_RACECHECK 0
#endif

enum { WARP_ARRIVALS = DELTOP_RACECHECK ? 32 : 1 };

// Whether this lane is one that arrives for its warp.
__device__ __forceinline__ bool arrives(int lane) {
    return DELTOP_RACECHECK || lane == 0;
}

#endif
