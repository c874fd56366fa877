// Points in time and cold caches on the CPU (core/backend.h): operations are done when they return, so
// a mark is the clock.
#include "core/mem.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static cpu_backend *of(backend *be) {
    return (cpu_backend *)be;
}

void cpu_mark(backend *be, int i) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    of(be)->mark[i] = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cpu_elapsed(backend *be, int from, int to) {
    return of(be)->mark[to] - of(be)->mark[from];
}

void cpu_wait(backend *be) {
    (void)be;
}

// Twice the largest cache the system tells of, within reason: a shared L3 of a server part can be
// larger than what one process may fill in useful time.
static size_t evict_bytes(void) {
    enum { LEAST = 16 << 20, MOST = 128 << 20 };
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    size_t n = 2 * (size_t)(l3 > l2 ? l3 : l2 > 0 ? l2 : 0);
    return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

void cpu_evict(backend *be) {
    cpu_backend *c = of(be);
    if (!c->evict) {
        c->evict_bytes = evict_bytes();
        c->evict = mem_alloc(c->evict_bytes, 1, "a buffer to empty caches with", &be->fail);
        if (!c->evict)
            return;
        memset(c->evict, 1, c->evict_bytes);
    }
    // Read and written, a line at a time, so that no line stays that is not of this buffer.
    for (size_t i = 0; i < c->evict_bytes; i += 64)
        ((volatile unsigned char *)c->evict)[i]++;
}

void *cpu_queue(backend *be) {
    (void)be;
    return NULL;
}
