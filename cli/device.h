// cli/device.h - --device and --precision become a backend.
#ifndef DELTOP_CLI_DEVICE_H
#define DELTOP_CLI_DEVICE_H

#include "cli/options.h"
#include "core/backend.h"

// cpu: the CPU. cuda[:N]: that GPU, ERR_DEVICE with one sentence when it is not there (fault B99).
// auto: the first GPU when deltop-cuda.so and a device are there, else the CPU. Without --precision
// the CPU computes in f32 and a GPU in bf16 with float32 states. NULL on failure.
backend *device_open(const options *o, err *e);
// The same device in this precision, whatever --precision says.
backend *device_open_in(const options *o, precision p, err *e);

#endif
