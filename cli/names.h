// cli/names.h - short unique names for paths.
#ifndef DELTOP_NAMES_H
#define DELTOP_NAMES_H

#include "core/err.h"

#include <stddef.h>

// n names for n paths; see output_model. Free with names_free.
char **names_of_paths(const char *const *path, size_t n, err *e);
void names_free(char **names, size_t n); // NULL is fine

#endif
