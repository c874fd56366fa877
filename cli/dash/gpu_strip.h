// cli/dash/gpu_strip.h - the words of the strip that tells how busy a GPU is (core/nvml.h).
#ifndef DELTOP_DASH_GPU_STRIP_H
#define DELTOP_DASH_GPU_STRIP_H

typedef struct gpu_strip gpu_strip;

// CUDA's device N. NULL: the driver's library or the device is not there.
gpu_strip *gpu_strip_open(int device);
void gpu_strip_close(gpu_strip *s); // NULL is fine

enum { GPU_STRIP_FIELDS = 7 };
// Takes a sample; fields are lent until the next call: "GPU 0 H200", "util  87% ▁▃▆█", "SM 1980 MHz",
// "mem   3.1 of 139.8 GiB", "412 W", "61 C", "throttle none". A value that cannot be had is "-".
const char *const *gpu_strip_sample(gpu_strip *s);

#endif
