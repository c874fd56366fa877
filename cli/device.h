// cli/device.h - --device and --precision become a backend.
#ifndef DELTOP_CLI_DEVICE_H
#define DELTOP_CLI_DEVICE_H

#include "cli/options.h"
#include "core/backend.h"

// cpu: the CPU. cuda[:N]: that GPU, ERR_DEVICE with one sentence when it is not there (fault B99).
// auto: the first GPU when deltop-cuda.so and a device are there, else the CPU. Without --precision
// the CPU computes in f32 and a GPU in bf16 with float32 states. NULL on failure.
// cuda:all is refused, as device_is_one says.
backend *device_open(const options *o, err *e);
// The same for one of several processes: where a GPU but no number is asked for (auto, cuda,
// cuda:all), it is this one.
backend *device_open_card(const options *o, int card, err *e);
// The same device in this precision, whatever --precision says.
backend *device_open_in(const options *o, precision p, err *e);

// How many GPUs CUDA shows this program. Asked in a process of its own: CUDA does not work in a process
// that was forked after its first use.
int device_cards(void);

// ERR_USAGE, one sentence, for cuda:all: for commands that compute on one GPU.
bool device_is_one(const options *o, err *e);

#endif
