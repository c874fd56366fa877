// bench/environment.h - where and with what a result was measured, and what the machine could do at
// most.
#ifndef DELTOP_BENCH_ENVIRONMENT_H
#define DELTOP_BENCH_ENVIRONMENT_H

#include "core/backend.h"
#include "core/nvml.h"

#include <jansson.h>

// {"cpu": {...}, "gpu": {...}, "build": {...}}; gpu only when there is one (be: its backend, or NULL).
json_t *environment_json(const backend *gpu, const nvml *card);

double environment_load(void); // load average of the last minute; NaN when the system does not tell

// Ceilings of a device: what an operation that does nothing but move bytes, or nothing but multiply,
// reaches. NaN where this program does not know the device.
typedef struct ceilings {
    double bytes_per_second, flop_per_second;
    double chunk_seconds; // a chunk of 64 steps of one head, the next waiting for it (the chain)
    const char *from;     // "measured on an H200", "measured here"
} ceilings;
// prec decides which units multiply. cores: of the CPU.
ceilings environment_ceilings(const backend *be, precision p, int threads);

#endif
