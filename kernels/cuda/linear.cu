// The passes of a chunked linear recurrence, in their order (kernels/cuda/linear.h).
#include "kernels/cuda/linear_launch.h"

enum { SCAN_THREADS = 128 };

// States at the starts of segments, one number a thread: x <- 2^a x + N, from the call's start. They take the
// places of the N, and the start itself the last one.
__global__ void __launch_bounds__(SCAN_THREADS)
    scan_ends(const linear_call c, const linear_cut cut) {
    const int64_t n = state_floats(c);
    const int64_t i = blockIdx.x * (int64_t)SCAN_THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int64_t row = i / c.V, head = row / c.K;
    const bool channel = c.forget == FORGET_BY_CHANNEL;
    const int64_t factors = channel ? (int64_t)c.H * c.K : c.H;
    const float *factor = cut.decays + (channel ? row : head);
    float x = c.state[row * c.ld_state + i % c.V];
    cut.slots[(cut.segments - 1) * n + i] = x;
#pragma unroll 8
    for (int s = 0; s + 1 < cut.segments; s++) {
        const float f = c.forget == FORGET_NOTHING ? 1.0f : factor[s * factors];
        x = f * x + cut.slots[s * n + i];
        cut.slots[s * n + i] = x;
    }
}

static cudaError_t launch(const linear_call &c, const linear_cut &cut, linear_pass pass,
                          cudaStream_t stream, size_t *shared) {
    return c.q.bytes == 2 ? linear_launch_bf16(c, cut, pass, stream, shared)
                          : linear_launch_f32(c, cut, pass, stream, shared);
}

size_t linear_shared_bytes(const linear_call *c) {
    size_t walk = 0, ends = 0;
    const linear_cut none = {};
    launch(*c, none, LINEAR_WALK, NULL, &walk);
    launch(*c, none, LINEAR_ENDS, NULL, &ends);
    return walk > ends ? walk : ends;
}

size_t linear_scratch(const linear_call *c, const linear_plan *p) {
    if (p->segments < 2)
        return 0;
    const size_t factors = (size_t)c->H * (c->forget == FORGET_BY_CHANNEL ? c->K : 1);
    return (size_t)p->segments * (state_floats(*c) + factors);
}

cudaError_t linear_run(const linear_call *c, const linear_plan *p, float *scratch,
                       cudaStream_t stream, void (*phase)(void *ctx, const char *name), void *ctx) {
    if (c->T == 0)
        return cudaSuccess;
    linear_cut cut = {scratch, scratch + p->segments * state_floats(*c), p->segments, p->tokens};
    cudaError_t r = cudaSuccess;
    if (p->segments > 1) {
        r = launch(*c, cut, LINEAR_ENDS, stream, NULL);
        if (r != cudaSuccess)
            return r;
        if (phase)
            phase(ctx, "ends");
        const int64_t blocks = (state_floats(*c) + SCAN_THREADS - 1) / SCAN_THREADS;
        scan_ends<<<(unsigned)blocks, SCAN_THREADS, 0, stream>>>(*c, cut);
        r = cudaGetLastError();
        if (r != cudaSuccess)
            return r;
        if (phase)
            phase(ctx, "scan");
    }
    r = launch(*c, cut, LINEAR_WALK, stream, NULL);
    if (phase)
        phase(ctx, "outputs");
    return r;
}
