// cli/dash/surface.h - a rectangle of terminal cells that panels paint on, without a terminal.
//
// Everything the dashboard shows goes through here: a frame is a surface, and it becomes lines of
// text (--snapshot, tests) or the real screen (screen_ncurses.c). Panels write one set of glyphs;
// surface_glyphs maps cells to the plainer sets, so geometry never depends on the terminal.
#ifndef DELTOP_DASH_SURFACE_H
#define DELTOP_DASH_SURFACE_H

#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

enum { ATTR_REVERSE = 1, ATTR_UNDERLINE = 2, ATTR_DIM = 4, ATTR_BOLD = 8 };
// Colours by meaning. Never the only carrier of anything.
enum { INK_PLAIN, INK_A, INK_B, INK_C, INK_D, INK_WARN, INK_RAMP }; // INK_RAMP + 0..7

enum { CELL_REST = 1 }; // cp of the right half of a wide character

typedef struct cell {
    uint32_t cp; // 0: blank
    uint8_t attr, ink;
} cell;

typedef struct surface {
    int rows, cols;
    cell *cell; // [rows, cols]
} surface;

typedef struct rect {
    int y, x, h, w;
} rect;

enum { SURFACE_MOST = 1000 }; // rows or columns; more are not drawn

bool surface_open(surface *s, int rows, int cols, err *e); // sizes are clamped to 1..SURFACE_MOST
void surface_close(surface *s);
void surface_clear(surface *s);

cell *surface_at(surface *s, int y, int x); // NULL outside
void surface_put(surface *s, int y, int x, uint32_t cp, int attr, int ink);
// UTF-8 text, at most `max` cells; controls, C1, bidi marks and bad bytes become U+00B7, combining
// marks are left out, a wide character that does not fit is left out. Returns the cells used.
int surface_text(surface *s, int y, int x, int max, int attr, int ink, const char *text);
int surface_bytes(surface *s, int y, int x, int max, int attr, int ink, const char *text, size_t n);
int surface_printf(surface *s, int y, int x, int max, int attr, int ink, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
// Hints of a row, two blanks apart: each whole or not at all, and the next one that fits instead.
int surface_hints(surface *s, int y, int x, int max, int attr, int ink, const char *const *hint,
                  int n);
// Right-aligned so that the last cell is x + max - 1. Returns the first column used.
int surface_right(surface *s, int y, int x, int max, int attr, int ink, const char *text);
// A braille dot at dot row y (four a cell) and dot column x (two a cell) of the whole surface. Dots of
// one cell join; another glyph gives way, and the first dot's colour stays.
void surface_dot(surface *s, int y, int x, int ink);
void surface_fill(surface *s, rect r, uint32_t cp, int attr, int ink);
void surface_attr(surface *s, rect r, int attr); // adds attributes

// The character at text (n bytes left): its bytes, what to show for it and how wide it is (0: none).
size_t surface_char(const char *text, size_t n, uint32_t *cp, int *width);
int surface_width(const char *text); // cells of UTF-8 text

typedef enum { GLYPHS_BRAILLE, GLYPHS_BLOCK, GLYPHS_ASCII } glyph_set;
uint32_t surface_glyph(glyph_set set, uint32_t cp); // 0 stays 0
void surface_glyphs(surface *s, glyph_set set);

// A row as UTF-8, cut at its last cell that is not blank; at least 4 cols + 1 bytes of room.
void surface_line(const surface *s, int y, char *buf, size_t size);
// One letter per cell: . plain, r reverse, u underline, d dim, a-d curve, 0-7 ramp.
void surface_attr_line(const surface *s, int y, char *buf, size_t size);

#endif
