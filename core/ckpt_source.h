// core/ckpt_source.h - from what the user typed to the list of weight files.
//
// Knows folders, indices and the file names people use; opens no weight file itself.
#ifndef DELTOP_CKPT_SOURCE_H
#define DELTOP_CKPT_SOURCE_H

#include "core/err.h"

#include <jansson.h>
#include <stddef.h>

typedef struct ckpt_source {
    char **files; // paths, in the order in which the index first names them
    size_t n, cap;
    json_t *index;    // the whole index, NULL without one
    json_t *map;      // its weight_map: tensor name -> shard name; borrowed from index
    char *index_path; // NULL without one
    json_t *places;   // shard name -> its number in `files`
    char **notes;     // remarks for the user
    size_t n_notes, cap_notes;
} ckpt_source;

// PATH as for ckpt_open. Every file of an index is known to exist afterwards. On failure *s is
// empty.
bool ckpt_source_find(const char *path, ckpt_source *s, err *e);
void ckpt_source_free(ckpt_source *s);

// Adds a remark.
bool ckpt_source_note(ckpt_source *s, err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
