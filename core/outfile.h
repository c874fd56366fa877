// core/outfile.h - a file that appears whole or not at all.
//
// Written as NAME.tmp.PID in the same folder, then fsync and rename. Closed without a commit, it is
// gone and whatever had the name before is untouched. A message is one sentence with the path and
// the system's reason (fault B100).
#ifndef DELTOP_OUTFILE_H
#define DELTOP_OUTFILE_H

#include "core/err.h"

#include <stddef.h>
#include <stdio.h>

typedef struct outfile outfile;

// A folder, or anything else that is no regular file, under that name is an error, and so is a name
// that is being written already. At most OUTFILE_MAX at a time.
enum { OUTFILE_MAX = 32 };
outfile *outfile_open(const char *path, err *e);

bool outfile_write(outfile *o, const void *data, size_t n, err *e);
// The stream behind it, for fprintf: what goes wrong there is reported by outfile_commit. Lent.
FILE *outfile_stream(outfile *o);
const char *outfile_path(const outfile *o); // the final name

// Puts the file in place. False: nothing has appeared. Close it afterwards in either case.
bool outfile_commit(outfile *o, err *e);
// Frees; without a commit also removes what was written. NULL is fine.
void outfile_close(outfile *o);

// Whole content in one call.
bool outfile_save(const char *path, const void *data, size_t n, err *e);

// Removes every temporary of this process that is still unfinished. Async-signal-safe: for signal
// handlers and exit paths. The open outfiles stay open; a later commit of them fails.
void outfile_remove_all(void);

#endif
