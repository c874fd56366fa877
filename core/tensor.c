#include "core/tensor.h"

#include <stdio.h>

char *tensor_shape_text(const tensor *t, char *buf, size_t size) {
    size_t at = 0;
    int w = snprintf(buf, size, "[");
    for (int i = 0; w > 0 && i < t->rank; i++) {
        at += (size_t)w;
        if (at >= size)
            return buf;
        w = snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    }
    at += (size_t)(w > 0 ? w : 0);
    if (at < size)
        snprintf(buf + at, size - at, "]");
    return buf;
}
