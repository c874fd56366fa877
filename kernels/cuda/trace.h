// kernels/cuda/trace.h - where a forward pass spends its time on the device.
//
// With DELTOP_CUDA_TRACE=1 every operation records two events, and closing the backend prints the time
// of each block and the sum of each name to standard error. With 2 only blocks are timed: events
// around every small kernel cost a few percent. Of a block: the device's time, that until the next one
// begins, the host's until all of it was in the stream, and the kernels and products it is made of. Without it a `traced` costs one test of a pointer.
#ifndef DELTOP_CUDA_TRACE_H
#define DELTOP_CUDA_TRACE_H

#include "kernels/cuda/device.h"

// Lives for the length of a launcher. Names are literals. Operations inside another one are listed by
// themselves and not counted twice in the total.
struct traced {
    cuda_backend *c;
    int at;
    traced(backend *be, const char *name);
    ~traced();
    traced(const traced &) = delete;
    traced &operator=(const traced &) = delete;
};

// All of a block is in the stream: the host's time since its first operation, and the kernels it launched.
void trace_queued(cuda_backend *c);

void trace_open(cuda_backend *c);
void trace_print_and_close(cuda_backend *c);

#endif
