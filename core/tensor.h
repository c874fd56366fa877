// core/tensor.h - a read-only view of one stored tensor.
#ifndef DELTOP_TENSOR_H
#define DELTOP_TENSOR_H

#include "core/dtype.h"

enum { TENSOR_MAX_RANK = 8 };

typedef struct tensor {
    const char *name; // as in the file (may hold any bytes: escape before printing)
    dtype type;
    const char *type_name;         // the file's own word, also for types unknown here
    int rank;                      // 0 for a scalar
    int64_t dims[TENSOR_MAX_RANK]; // outermost first, row-major
    int64_t count;                 // product of dims (1 for a scalar, 0 when a side is 0)
    const void *data;              // little-endian, ANY alignment; lent by the ckpt
    size_t bytes;
    int file; // index into ckpt_file()
} tensor;

// "[4, 1, 3]" into buf; returns buf.
char *tensor_shape_text(const tensor *t, char *buf, size_t size);

#endif
