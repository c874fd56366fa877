// cli/text/grid.h - a rectangle of terminal cells that is composed first and printed once.
#ifndef DELTOP_TEXT_GRID_H
#define DELTOP_TEXT_GRID_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { GRID_PLAIN = -1 }; // no colour

typedef struct grid_cell {
    uint32_t cp;        // 0: empty; the cell right of a wide character holds GRID_REST
    unsigned char dots; // braille bits, shown where cp is 0
    int16_t colour;     // index of the 256-colour palette, or GRID_PLAIN
} grid_cell;
enum { GRID_REST = 1 };

typedef struct grid {
    int w, h;
    bool utf8, colour;
    grid_cell *cell; // [h, w]
} grid;

bool grid_open(grid *g, int w, int h, bool utf8, bool colour, err *e);
void grid_close(grid *g);
bool grid_print(const grid *g, FILE *out); // false when the stream has failed

grid_cell *grid_at(grid *g, int x, int y); // NULL outside
void grid_put(grid *g, int x, int y, uint32_t cp, int colour);
// Writes escaped UTF-8 text, cut at the right edge (or after max cells, when max >= 0). Returns the
// cells used.
int grid_text(grid *g, int x, int y, const char *s, int max, int colour);
// A dot of the 2w x 4h raster.
void grid_dot(grid *g, long x, long y, int colour);

// Any bytes as text this terminal can show: text_escape, and without UTF-8 a few spelled out
// (lambda, pi, -) and \u{NNNN} for the rest.
char *grid_escape(const char *s, bool utf8, char *buf, size_t size);
// Only the second step: for text that has been escaped (axis titles).
char *grid_spell(const char *s, bool utf8, char *buf, size_t size);
int grid_width(const char *s); // cells of escaped text

// Escaped text without a line end, at most `columns` wide, cut with "...". Returns its width.
int grid_cut(FILE *out, const char *s, int columns);
// Escapes and prints one line, cut.
void grid_line(FILE *out, const char *s, int columns, bool utf8);
// The same, wrapped at spaces.
void grid_wrap(FILE *out, const char *s, int columns, bool utf8);

#endif
