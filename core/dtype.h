// core/dtype.h - element types of stored tensors, and their conversion to the types we compute in.
#ifndef DELTOP_DTYPE_H
#define DELTOP_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DT_F64,
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_I64,
    DT_I32,
    DT_I16,
    DT_I8,
    DT_U64,
    DT_U32,
    DT_U16,
    DT_U8,
    DT_BOOL,
    DT_F8_E4M3,
    DT_F8_E5M2,
    DT_UNKNOWN, // named in a file, not known here
} dtype;

// Bytes of one element; 0 for DT_UNKNOWN.
size_t dtype_size(dtype d);
// The name used in safetensors files: "F64", "BF16", "I32" ...; "?" for DT_UNKNOWN.
const char *dtype_name(dtype d);
dtype dtype_from_name(const char *name);
// F64, F32, F16 and BF16: the types weights may have.
bool dtype_is_weight(dtype d);

// Converts n elements at src (any alignment, little-endian) to double or float. d must satisfy
// dtype_is_weight. F32, F16 and BF16 are exact in both; F64 is rounded to nearest in the float
// version.
void dtype_to_f64(dtype d, const void *src, size_t n, double *dst);
void dtype_to_f32(dtype d, const void *src, size_t n, float *dst);

#endif
