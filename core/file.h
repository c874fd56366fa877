// core/file.h - opening and reading whole files without surprises: no hang on a FIFO, no directory
// read as text, every message with the path and the system's reason.
#ifndef DELTOP_FILE_H
#define DELTOP_FILE_H

#include "core/err.h"

#include <stddef.h>

// Opens PATH for reading and gives its size. Only regular files: a directory, FIFO or device is
// ERR_INPUT and named as such, at once. -1 on failure; ERR_MISSING when nothing is there.
int file_open(const char *path, size_t *size, err *e);

// The whole of PATH, NUL-terminated behind its *n bytes; caller frees. Over `max` bytes: ERR_INPUT.
char *file_read(const char *path, size_t max, size_t *n, err *e);

// The same from an open descriptor until its end (a pipe, say); NAME is for messages.
char *file_read_fd(int fd, const char *name, size_t max, size_t *n, err *e);

// n bytes at `offset`, as pread(2) but complete; false also when the file ends early.
bool file_read_at(int fd, const char *name, size_t offset, void *dst, size_t n, err *e);

// True when PATH is a directory (a link to one counts).
bool file_is_folder(const char *path);
bool file_exists(const char *path);

// "FOLDER/NAME" without a doubled slash; caller frees.
char *file_join(const char *folder, const char *name, err *e);
// The part of PATH after the last slash; trailing slashes are not seen as a name of their own, so
// "runs/dp3/" ends in "dp3". Copied into buf, returns buf.
char *file_base(const char *path, char *buf, size_t size);
// PATH without its last part: "a/b" gives "a", "b" gives "."; caller frees.
char *file_folder(const char *path, err *e);
bool file_ends_with(const char *s, const char *end);

// Whether fd is a device that may give bytes for ever (/dev/zero, a disk): not a terminal, which has
// an end, nor /dev/null.
bool file_is_endless(int fd);

// Makes an empty folder of this process's own, PREFIX and six letters in $TMPDIR or /tmp, and puts its name
// into path[size]. Whoever asked removes it. False: path is "" and the error names the place.
bool file_temporary_folder(const char *prefix, char *path, size_t size, err *e);

#endif
