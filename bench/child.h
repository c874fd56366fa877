// bench/child.h - runs another program and keeps what it says.
#ifndef DELTOP_BENCH_CHILD_H
#define DELTOP_BENCH_CHILD_H

#include "core/err.h"

#include <stddef.h>

// argv[0] is looked up in PATH; NULL at the end. folder: where it runs (NULL: here). *out: its
// standard output, NUL-terminated, owned by the caller (NULL: not wanted, it goes nowhere). Its
// standard error is ours. *code: its exit code, 128 + n when signal n ended it. False when it could
// not be started.
bool child_run(const char *const *argv, const char *folder, char **out, size_t *n, int *code,
               err *e);

#endif
