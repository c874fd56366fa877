// cli/dash/layout.h - which panel stands where: a pure function of the screen's size.
//
// The rules, in order: below 8 rows or 36 columns there are lines instead of panels. Header of one
// row below 16 rows, else two; GPU strip and message row from 30 rows on; the key bar is last. The
// rest is the body. A body below 14 rows, or zoom, belongs to the focused panel. Otherwise the text
// strip and the messages take some rows at the bottom and the other open panels become tiles, at
// least 35 x 7, in bands whose tiles come near 4:1 with few holes.
#ifndef DELTOP_DASH_LAYOUT_H
#define DELTOP_DASH_LAYOUT_H

#include "cli/dash/surface.h"

enum { PANELS = 10, TILE_W = 36, TILE_H = 7, MAX_SEPARATORS = 64 };
// Numbers of panels: 0 messages, 1 heads, 2 rank, 3 loss, 4 eigenvalues, 5 text, 6 gates,
// 7 half-life, 8 state, 9 kernels.
enum { PANEL_MESSAGES = 0, PANEL_TEXT = 5 };

// A column between tiles, rows y .. y + h - 1; the first one lies in the tiles' title row.
typedef struct separator {
    int x, y, h;
} separator;

typedef struct layout {
    int rows, cols;
    bool lines;                              // line mode: nothing below is set
    rect header, strip, message, keys, body; // h = 0: absent
    rect panel[PANELS];                      // h = 0: not on screen
    separator sep[MAX_SEPARATORS];
    int n_sep;
    unsigned hidden; // open panels that found no room, as bits
} layout;

// open: bit n = panel n. The focused panel counts as open.
layout layout_make(int rows, int cols, unsigned open, int focus, bool zoom, bool gpu);

#endif
