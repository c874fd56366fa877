// core/small_file.h - files of a few lines through which processes tell each other something
// (core/alive.h, core/claims.h). Written in one write, not whole-or-not-at-all like core/outfile.h:
// whoever reads them has to bear with half a file.
#ifndef DELTOP_SMALL_FILE_H
#define DELTOP_SMALL_FILE_H

#include "core/err.h"

#include <stddef.h>

// FOLDER/NAME END into buf; ERR_INPUT when it is too long.
bool small_file_path(const char *folder, const char *name, const char *end, char *buf, size_t size,
                     err *e);
// The first size - 1 bytes; false, and "", when it cannot be read.
bool small_file_read(const char *path, char *buf, size_t size);
// Line i of a text without its newline, cut to size; false when it is not there, or has no newline yet.
bool small_file_line(const char *text, int i, char *buf, size_t size);
// flags: O_EXCL, O_TRUNC or 0. With O_EXCL: false and an empty *e when the file is there already.
bool small_file_write(const char *path, int flags, const char *text, err *e);

#endif
