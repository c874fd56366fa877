// core/arena.h - scratch mats of a forward pass: taken one by one, given back all at once.
//
// The first block grows the arena piece by piece (64 pieces at most, of 65536 elements or one larger
// mat); a reset joins the pieces, so later blocks make no allocation at all.
#ifndef DELTOP_ARENA_H
#define DELTOP_ARENA_H

#include "core/backend.h"

typedef struct arena arena;

// be is borrowed. NULL: *e is filled.
arena *arena_new(backend *be, err *e);
void arena_free(arena *a); // NULL is fine

// rows x cols, contents undefined, valid until arena_reset. On failure MAT_NONE, and the backend's
// sticky failure is set.
mat arena_mat(arena *a, int64_t rows, int64_t cols);
// The same with elements of the backend's exact_esize.
mat arena_mat_exact(arena *a, int64_t rows, int64_t cols);
void arena_reset(arena *a);
// Bytes that were taken at once, at most, since the arena was made.
int64_t arena_peak(const arena *a);

#endif
