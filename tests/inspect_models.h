// tests/inspect_models.h - safetensors files and small delta models made on the spot.
#ifndef DELTOP_TESTS_INSPECT_MODELS_H
#define DELTOP_TESTS_INSPECT_MODELS_H

#include "analyses/inspect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A file under construction: names are JSON text (escapes are the caller's).
typedef struct tensor_file {
    char *header;
    size_t n, cap;
    unsigned char *data;
    size_t bytes, room;
} tensor_file;

// values NULL: zeros. type "F32" or any other word with `size` bytes an element.
void tensor_file_add(tensor_file *f, const char *name, const char *type, size_t size,
                     const char *shape, size_t count, const void *values);
void tensor_file_metadata(tensor_file *f, const char *json); // {"key":"value"}
void tensor_file_write(tensor_file *f, const char *path);    // and empties it

typedef struct small_model {
    int layers, D, H, K, V, n_h, n_vocab, mlp;
    const char *a_log_type; // of layer 0's A_log: NULL = "F32"
    const char *without;    // a tensor that is left out
    const char *extra;      // a tensor [1] that is added
    const char *config;     // more members of the config: ",\"x\":1"
} small_model;

// A gated DeltaNet (n_h = 1) or a gated DeltaProduct in today's names, all weights zero, in FOLDER,
// which is made.
void small_model_write(const char *folder, const small_model *m);

// Inspections; what does not succeed fails the test.
void small_open(inspection *x, const char *path, const inspect_options *o); // o may be NULL
// The nth group of that pattern.
const tensor_group *small_group(const tensor_groups *g, const char *pattern, int nth);
bool small_finding(const inspection *x, bool wrong, const char *part);

#endif
