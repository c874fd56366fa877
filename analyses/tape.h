// analyses/tape.h - the transitions of one layer's heads, copied to the host while a row is read.
//
// A probe appends every block's steps; what is kept is the last `keep` tokens at least (all of them
// when keep is as long as the row). Views are core/transitions.h structs, one per head.
#ifndef DELTOP_TAPE_H
#define DELTOP_TAPE_H

#include "core/backend.h"

typedef struct tape tape;

// heads[0..n_heads): value heads to keep. block: the most tokens one append brings.
tape *tape_new(const head_shape *s, const int *heads, int n_heads, int64_t keep, int64_t block,
               err *e);
void tape_free(tape *t); // NULL is fine
bool tape_append(tape *t, backend *be, const steps *s, err *e);
// Forgets everything (the state was emptied).
void tape_clear(tape *t);

// Tokens held, and tokens dropped from the front since the beginning.
int64_t tape_tokens(const tape *t);
int64_t tape_dropped(const tape *t);
// Head heads[i]; borrowed until the next append.
transitions tape_view(const tape *t, int i);

#endif
