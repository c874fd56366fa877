// cli/report/workers.h - work in processes of their own, so that one that crashes, or that the kernel
// ends for its memory, takes nothing with it.
#ifndef DELTOP_REPORT_WORKERS_H
#define DELTOP_REPORT_WORKERS_H

#include "core/err.h"

#include <stdbool.h>

// In a process of its own: does what work it finds, and returns an exit code. What it says goes to
// standard error as it is.
typedef int (*worker_fn)(void *ctx, int worker);

typedef struct workers_how {
    int n;
    // Called while workers are at work, several times a second; false ends them. May be NULL.
    bool (*tick)(void *ctx);
    // A worker was ended by a signal: is another one to take its place? NULL: no.
    bool (*died)(void *ctx, int worker, int signal);
} workers_how;

// Starts them and waits for all. *code: the first exit code that is not 0, of any of them, else 0.
// They are forked: no thread, device or unwritten output may be there yet. When this process gets a
// signal, or tick says so, they are told to stop (ERR_CANCELLED); when it is killed, so are they.
bool workers_run(const workers_how *how, worker_fn fn, void *ctx, int *code, err *e);

#endif
