// bench/random_model.h - a model from its config alone, with random weights of usual sizes: for timing
// architectures that nobody has trained yet, or whose weights are elsewhere.
#ifndef DELTOP_BENCH_RANDOM_MODEL_H
#define DELTOP_BENCH_RANDOM_MODEL_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

// Writes FOLDER/model.safetensors (BF16) with every tensor that the config at PATH asks for: matrices
// with variance 1 / columns, norms of ones, decay rates between 1 and 16. numbers: how many in all.
bool random_model_write(const char *path, const char *folder, uint64_t seed, int64_t *numbers,
                        err *e);

#endif
