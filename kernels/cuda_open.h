// kernels/cuda_open.h - opens deltop-cuda.so at run time and a device in it.
#ifndef DELTOP_CUDA_OPEN_H
#define DELTOP_CUDA_OPEN_H

#include "core/backend.h"

// Looks for deltop-cuda.so beside the program, then in ../lib/deltop; $DELTOP_CUDA_SO, when set, is
// the only place (test programs lie elsewhere). device: 0 ...; p: f32, tf32 or bf16. ERR_DEVICE with
// one sentence when the file, the driver or the device is not there. Close with backend_close.
backend *cuda_open(int device, precision p, int threads, err *e);

// The file that cuda_open would load, into path[size]; false, and "" there, when there is none.
bool cuda_find(char *path, size_t size);

// GPUs that the driver shows ($CUDA_VISIBLE_DEVICES counts), 0 without a driver.
int cuda_count(void);

#endif
