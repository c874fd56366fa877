// cli/wrap.h - running text in a terminal's usual 80 columns, or in as many as it has.
#ifndef DELTOP_WRAP_H
#define DELTOP_WRAP_H

#include "cli/output.h"

#include <stddef.h>

enum { WRAP_COLUMNS = 80 };

// Columns of n bytes of UTF-8, one a character.
int wrap_columns(const char *s, size_t n);

// Columns of the terminal that standard output is; WRAP_COLUMNS into a pipe or a file.
int wrap_terminal(void);

// Prints the words of s from column `at` on and a newline behind them; further lines are indented.
void wrap_print(const output *out, const char *s, int at, int indent);
// The same in so many columns. A word longer than a line is not broken.
void wrap_print_in(const output *out, const char *s, int at, int indent, int columns);

#endif
