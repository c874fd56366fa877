// cli/option_value.h - one option's text to its typed value. Used by cli/options.c and help texts.
#ifndef DELTOP_OPTION_VALUE_H
#define DELTOP_OPTION_VALUE_H

#include "cli/options.h"

// Reads TEXT into the field of BASE that the row names. ERR_USAGE, one sentence.
bool option_value_read(const option_spec *s, const char *text, void *base, err *e);
// Frees what option_value_read allocated in BASE.
void option_value_free(const option_spec *s, void *base);
// What the option accepts: "a whole number from 1 to 1048576 (k = 1024, M = 1048576)".
const char *option_value_allowed(const option_spec *s, char *buf, size_t size);
// The word for the value in help texts: "N", "f32|tf32|bf16|f64"; NULL for a flag.
const char *option_value_word(const option_spec *s);

#endif
