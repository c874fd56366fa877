// Points in the stream and a cold L2 (core/backend.h), for bench/.
#include "kernels/cuda/ops.h"

#include <math.h>

void cuda_mark(backend *be, int i) {
    cuda_backend *c = of(be);
    if (!c->mark[i] && !cuda_ok(be, cudaEventCreate(&c->mark[i]), "an event"))
        return;
    cuda_ok(be, cudaEventRecord(c->mark[i], c->stream), "an event");
}

double cuda_elapsed(backend *be, int from, int to) {
    cuda_backend *c = of(be);
    float ms = NAN;
    if (!c->mark[from] || !c->mark[to] ||
        !cuda_ok(be, cudaEventSynchronize(c->mark[from]), "waiting for an event") ||
        !cuda_ok(be, cudaEventSynchronize(c->mark[to]), "waiting for an event") ||
        !cuda_ok(be, cudaEventElapsedTime(&ms, c->mark[from], c->mark[to]), "an event's time"))
        return NAN;
    return 1e-3 * (double)ms;
}

void cuda_wait(backend *be) {
    cuda_ok(be, cudaStreamSynchronize(of(be)->stream), "waiting for the device");
}

// Four times the L2, written whole. What stays behind is dirty lines of this buffer: the next kernel
// pays for their way out, at most about 0.015 ms on an H200 (the same for every program that flushes
// by writing).
void cuda_evict(backend *be) {
    cuda_backend *c = of(be);
    if (!c->evict) {
        int l2 = 0;
        if (!cuda_ok(be, cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, c->device), "L2 size"))
            return;
        size_t n = 4 * (size_t)(l2 > 0 ? l2 : 64 << 20);
        if (!cuda_ok(be, cudaMallocAsync(&c->evict, n, c->stream),
                     "a buffer to empty the L2 with")) {
            c->evict = NULL;
            return;
        }
        c->evict_bytes = n;
    }
    cuda_ok(be, cudaMemsetAsync(c->evict, 0, c->evict_bytes, c->stream), "emptying the L2");
}

void *cuda_queue(backend *be) {
    return of(be)->stream;
}

void timing_close(cuda_backend *c) {
    for (int i = 0; i < BACKEND_MARKS; i++)
        if (c->mark[i])
            cudaEventDestroy(c->mark[i]);
    if (c->evict)
        cudaFreeAsync(c->evict, c->stream);
}
