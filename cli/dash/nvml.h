// cli/dash/nvml.h - the GPU's own figures, through libnvidia-ml.so.1 where it is there.
#ifndef DELTOP_DASH_NVML_H
#define DELTOP_DASH_NVML_H

#include <stdbool.h>

typedef struct nvml nvml;

// The device with CUDA's number N (by PCI address when CUDA_VISIBLE_DEVICES renumbers it is not
// known, so the N-th visible one). NULL: no library, no device.
nvml *nvml_open(int device);
void nvml_close(nvml *n); // NULL is fine

enum { NVML_FIELDS = 7 };
// Takes a sample; fields are lent until the next call: "GPU 0 H200", "util 87% ▁▃▆█", "SM 1980 MHz",
// "mem 3.1 of 139.8 GiB", "412 W", "61 C", "throttle none". A value that cannot be had is "-".
const char *const *nvml_sample(nvml *n);

#endif
