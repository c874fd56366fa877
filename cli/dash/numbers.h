// cli/dash/numbers.h - numbers as the screen shows them, in the C locale. All return buf.
#ifndef DELTOP_DASH_NUMBERS_H
#define DELTOP_DASH_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

char *scene_count(int64_t n, char *buf, size_t size);  // 16,384
char *scene_tokens(int64_t n, char *buf, size_t size); // 16k = 16384, else 16,000
// At most `width` cells where that is possible: 41.4, 0.084, 34.2k; nan, inf.
char *scene_number(double v, int width, char *buf, size_t size);

#endif
