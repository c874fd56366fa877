// core/safetensors.h - one safetensors file: the header, parsed and checked, and the data, mapped.
//
//   8 bytes   N, little-endian
//   N bytes   JSON object: NAME -> {"dtype", "shape", "data_offsets": [begin, end]}, and
//             optionally "__metadata__" -> {text: text}; may end in spaces
//   the rest  data; offsets count from here; tensors follow each other without holes
//
// Every check of the format is made by safetensors_open, before any number is used.
#ifndef DELTOP_SAFETENSORS_H
#define DELTOP_SAFETENSORS_H

#include "core/err.h"
#include "core/tensor.h"

#include <jansson.h>

typedef struct safetensors {
    char *path;
    int fd; // kept, so that the size of THIS file can be asked again after a rename over its name
    size_t bytes;
    json_t *root; // owns every name that `tensors` lends
    tensor *tensors;
    size_t n;
    void *map; // the whole file
} safetensors;

// FILE is what tensors get as their `file`. On failure *f is empty and nothing stays open.
bool safetensors_open(const char *path, int file, safetensors *f, err *e);
void safetensors_close(safetensors *f); // an empty one is fine

// The "__metadata__" object, NULL when absent. Borrowed; all values are strings.
json_t *safetensors_metadata(const safetensors *f);

// False when the file no longer has the size it had; the message gives both.
bool safetensors_still_whole(const safetensors *f, err *e);

#endif
