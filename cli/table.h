// cli/table.h - figures -> CSV: what is drawn, before anything was reduced to pixels.
//
// RFC 4180 quoting, lines end in \n, numbers have 17 significant digits in the C locale, NaN is an
// empty field, infinities are inf and -inf. Units stand in the header. Text that holds control
// bytes or is not UTF-8 is escaped (core/text.h).
//
// Curves, scatter plots     figure, series, x, y, [lo, hi]
// Histograms                figure, series, x from, x to, y
// Bars                      figure, series, category, y, [lo, hi]
// Heat maps                 figure, row, value, one column for each cell ("position 0..64 (tokens)")
// Tables                    their own columns; with several tables "figure" in front
//
// Figures that follow each other and have the same header share it; otherwise an empty line and a
// new header begin a new block.
#ifndef DELTOP_TABLE_H
#define DELTOP_TABLE_H

#include "analyses/figure.h"

#include <stdio.h>

// command: the command line that makes this file again, written as the first line "# command: ...";
// NULL for a file that holds nothing but CSV. ERR_IO when the stream has failed.
bool table_csv(const figures *f, const char *command, FILE *out, err *e);
// The same into PATH, which appears whole or not at all.
bool table_csv_save(const figures *f, const char *command, const char *path, err *e);

#endif
