#include "tests/golden_steps.h"

#include "tests/files.h"
#include "tests/npy_tiny.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

double *golden_steps_load(const char *folder, const char *name, size_t want) {
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof path, "golden/steps/%s/%s.npy", folder, name);
    const char *file = files_shared(path);
    double *x = file ? npy_tiny_read(file, &n) : NULL;
    if (!x || n != want)
        fail_msg("%s: %zu numbers, want %zu", path, n, want);
    return x;
}
