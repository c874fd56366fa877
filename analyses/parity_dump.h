// analyses/parity_dump.h - the files of a reference dump: which are there, and whether each of them
// can be compared with this model. A file that would be passed over in silence is refused, for a
// dump that agrees because nothing looked at it proves nothing.
#ifndef DELTOP_PARITY_DUMP_H
#define DELTOP_PARITY_DUMP_H

#include "core/model.h"

#include <stddef.h>
#include <stdint.h>

// Some dumps hold states in the middle of the row, state77_l0.npy ...
enum { PARITY_EARLY = 77 };

// Windows over which transitions are multiplied: each length at each last token.
typedef struct window_refs {
    int32_t *ends, *lengths; // owned
    int64_t n_ends, n_lengths;
} window_refs;

// Whether FOLDER holds NAME; its path goes into path[size] in any case.
bool parity_has(const char *folder, const char *name, char *path, size_t size);
// The ids, and the windows where the dump has some. Without ids or losses: ERR_MISSING; windows that
// do not lie in the row: ERR_INPUT, with file and value. *ids and *w are the caller's also on
// failure.
bool parity_read(const char *folder, int32_t **ids, int64_t *T, window_refs *w, err *e);
void window_refs_free(window_refs *w);
// ERR_INPUT, with its name, when a file of the dump's pattern (state_lN.npy ...) belongs to a layer
// that the model has not, or to something that its layer has not.
bool parity_fits(const char *folder, const model *m, int64_t T, const window_refs *w, err *e);

#endif
