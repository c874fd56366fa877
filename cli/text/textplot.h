// cli/text/textplot.h - figures as text for a terminal or a log: curves and scatter plots in
// braille dots, heat maps in shades, histograms and bars in blocks, tables in columns.
//
// Same ticks, titles and escapes as the PNG (cli/plot/axes.h). Every series has a letter, so that
// nothing is said by colour alone. Heat maps: with row names the first row is at the top, without
// them rows count upwards, as in the PNG. Bands and, without colour, faint series are left to the
// PNG.
#ifndef DELTOP_TEXTPLOT_H
#define DELTOP_TEXTPLOT_H

#include "analyses/figure.h"

#include <stdio.h>

// columns: width of the whole picture in terminal cells (fewer than 24 count as 24; more than 400
// as 400). rows: height of the data area in lines (fewer than 4 count as 4, more than 200 as 200);
// titles, axes, legend and notes come on top of it. utf8: false for a terminal that shows only
// ASCII. colour: 256-colour escapes. No line is longer than columns; no line ends in blanks.
bool textplot_print(const figure *f, int columns, int rows, bool utf8, bool colour, FILE *out,
                    err *e);

#endif
