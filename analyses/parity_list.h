// analyses/parity_list.h - the files of a reference dump that belong to one layer each.
#ifndef DELTOP_PARITY_LIST_H
#define DELTOP_PARITY_LIST_H

#include "core/err.h"

#include <stddef.h>

// What a layer must have, for its file to be compared.
typedef enum {
    NEEDS_STATE,
    NEEDS_EARLY_STATE,
    NEEDS_BETA,
    NEEDS_DECAY,
    NEEDS_DECAY_SUMS, // decays and windows
    NEEDS_WINDOWS,
    NEEDS_EIG, // the eigenvalues that it stands beside
} layer_needs;

typedef struct layer_file {
    char name[256]; // "state_l0.npy"
    layer_needs needs;
    long layer; // a number too large for it: LONG_MAX
} layer_file;

// Those in FOLDER, by name; other names are none of the dump's. *list is the caller's, also on
// failure.
bool parity_list(const char *folder, layer_file **list, size_t *n, err *e);

#endif
