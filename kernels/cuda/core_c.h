// kernels/cuda/core_c.h - core's C headers, as C++ reads them.
#ifndef DELTOP_CUDA_CORE_C_H
#define DELTOP_CUDA_CORE_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "core/backend.h"
#include "core/mem.h"
#include "core/rows.h"
#include "kernels/cpu/cpu.h"
}

#endif
