// cli/compare_files.h - the files of `deltop compare`: results that are read, tables that are written.
#ifndef DELTOP_CLI_COMPARE_FILES_H
#define DELTOP_CLI_COMPARE_FILES_H

#include "bench/match.h"
#include "cli/options.h"
#include "cli/output.h"

typedef struct record_files {
    record *v; // baselines, oldest first, then the new result
    size_t n, cap;
} record_files;

// path: a file, a folder with bench.json, or (all but the last path) a folder of such folders or files,
// of which the ten newest by their own date are taken. False: *f may still be freed.
bool record_files_read(record_files *f, const char *const *path, size_t n, err *e);
void record_files_free(record_files *f);

// compare.csv, .md, .xml and .png under --out, and JUnit at JUNIT (NULL: none). runs: everything that
// was read, for the picture of the history.
bool compare_save(output *x, const options *o, const comparison *c, const char *junit,
                  size_t max_bytes, bool strict, const record *runs, size_t n, err *e);

// Puts the bytes of FROM in TO's place, whole or not at all.
bool compare_copy(const char *from, const char *to, err *e);

#endif
