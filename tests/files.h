// tests/files.h - a temporary folder that goes away, and builders for files in it, good and bad.
#ifndef DELTOP_TESTS_FILES_H
#define DELTOP_TESTS_FILES_H

#include "core/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The folder of this test program (under $TMPDIR, else build/), made on the first call and removed
// with all it holds when the program ends.
const char *files_folder(void);
// A path inside it, in one of 16 rotating buffers.
const char *files_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void files_mkdir(const char *path);
void files_clear(void);          // removes everything inside
int files_cleared(void **state); // the same, as a test's set-up or tear-down

void files_write(const char *path, const void *data, size_t n);
void files_text(const char *path, const char *text);
// 8 bytes of length, HEADER, then n bytes of data.
void files_safetensors(const char *path, const char *header, const void *data, size_t n);
char *files_read(const char *path, size_t *n); // free it
int files_count(const char *folder);           // entries, "." and ".." not counted

// The reference data ($DELTOP_SHARED, else ../shared) joined with NAME; NULL, with a line that
// begins with SKIP, when it is not there.
const char *files_shared(const char *name);

// Fails the test unless e says exactly this.
void files_assert_error(const err *e, err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same for a part of the message.
void files_assert_error_holds(const err *e, err_code code, const char *part);

// jansson's N-th allocation from now on fails, and all after it; 0: off.
void files_json_fail_after(long n);

double files_seconds(void); // a monotonic clock

#endif
