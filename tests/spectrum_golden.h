// tests/spectrum_golden.h - reference cases of the shared folder, opened for spectra.
#ifndef DELTOP_TESTS_SPECTRUM_GOLDEN_H
#define DELTOP_TESTS_SPECTRUM_GOLDEN_H

#include "analyses/spectrum.h"
#include "core/npy.h"

// One reference case, opened in float64.
typedef struct golden {
    char folder[1024];
    backend *be;
    model *m;
    int32_t *ids;
    int64_t T;
} golden;

// golden/NAME; skips the test where the shared folder is absent.
golden golden_open(const char *name, int threads);
void golden_close(golden *g);
// One of its arrays; a missing one fails the test.
npy golden_load(const golden *g, const char *name);

// Windows 1, 2, ... 64 at 8 places, 128 tokens of exponents, condition numbers, the whole ledger.
spectrum_options golden_options(void);
// The case's one row, block tokens at a time.
spectrum_result golden_spectrum(const golden *g, int64_t block, const spectrum_options *o);

#endif
