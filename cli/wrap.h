// cli/wrap.h - running text in a terminal's usual 80 columns.
#ifndef DELTOP_WRAP_H
#define DELTOP_WRAP_H

#include "cli/output.h"

#include <stddef.h>

enum { WRAP_COLUMNS = 80 };

// Columns of n bytes of UTF-8, one a character.
int wrap_columns(const char *s, size_t n);

// Prints the words of s from column `at` on and a newline behind them; further lines are indented.
void wrap_print(const output *out, const char *s, int at, int indent);

#endif
