// kernels/cpu/cpu.h - opens the CPU as a backend.
#ifndef DELTOP_CPU_H
#define DELTOP_CPU_H

#include "core/backend.h"

// p: PRECISION_F32 or PRECISION_F64. threads: OpenMP threads for this process, 0 = all cores.
// OpenBLAS is told to use one thread: loops here are cut over threads themselves, which keeps sums
// independent of the number of threads. Close with backend_close. NULL: ERR_UNSUPPORTED for another
// precision, ERR_NOMEM when memory or address space does not suffice.
backend *cpu_open(precision p, int threads, err *e);

// The precision-independent entries of the table (kernels/spectrum.h).
bool cpu_window_spectrum(backend *be, const transitions *x, int64_t last, int64_t W,
                         complex_f64 *eig, double *cond, window_facts *facts, err *e);
bool cpu_lyapunov(backend *be, const transitions *x, int64_t first, int64_t n, double *exponents,
                  err *e);
void cpu_ledger(backend *be, const transitions *x, double *ledger);
bool cpu_token_spectrum(backend *be, const transitions *x, int64_t t, complex_f64 *eig, err *e);
void cpu_close(backend *be);

// kernels/cpu/timing.c. evict writes over a buffer of twice the largest cache.
void cpu_mark(backend *be, int i);
double cpu_elapsed(backend *be, int from, int to);
void cpu_wait(backend *be);
void cpu_evict(backend *be);
void *cpu_queue(backend *be);

// A CPU backend: what timing needs behind the common part.
typedef struct cpu_backend {
    backend base;               // first: a backend * is a cpu_backend *
    double mark[BACKEND_MARKS]; // seconds, monotonic
    unsigned char *evict;       // NULL until the first eviction
    size_t evict_bytes;
} cpu_backend;

#endif
