// core/safetensors_write.h - float32 tensors become one safetensors file (the format stands in
// core/safetensors.h).
#ifndef DELTOP_SAFETENSORS_WRITE_H
#define DELTOP_SAFETENSORS_WRITE_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tensor_out {
    char name[128];
    int rank; // 1 to 3
    int64_t dims[3];
    const float *v; // borrowed, in C order
} tensor_out;

// Tensors lie in the file in the order given, names must differ; the header says format "pt", as
// transformers wants it, and is padded so that the data begins at a multiple of 8. Appears whole or
// not at all.
bool safetensors_write(const char *path, const tensor_out *t, size_t n, err *e);

#endif
