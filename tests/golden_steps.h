// tests/golden_steps.h - arrays of single recurrences in the reference data (golden/steps).
#ifndef DELTOP_TESTS_GOLDEN_STEPS_H
#define DELTOP_TESTS_GOLDEN_STEPS_H

#include <stddef.h>

// golden/steps/FOLDER/NAME.npy, which must hold `want` numbers; free() it. Fails the test otherwise.
double *golden_steps_load(const char *folder, const char *name, size_t want);

#endif
