// cli/plot/canvas.h - cairo with the habits of this program: points (1/72 inch) as the unit, lines
// on whole pixels, coordinates clipped in double before cairo's 24.8 fixed point sees them, text
// whose bytes do not depend on hints or locale. Everything but the PNG file itself.
#ifndef DELTOP_CANVAS_H
#define DELTOP_CANVAS_H

#include "cli/plot/palette.h"
#include "core/err.h"

#include <cairo.h>
#include <stddef.h>

enum { CANVAS_MAX_SIDE = 32767 }; // cairo's limit for an image

typedef struct canvas {
    cairo_surface_t *surface;
    cairo_t *cr;
    double scale;         // pixels per point
    double width, height; // points
} canvas;

typedef struct rect {
    double x, y, w, h; // points, y downwards
} rect;

// ERR_USAGE for sizes below 1 or above 32767 and for pages above 268 million pixels.
bool canvas_size_ok(double width_px, double height_px, err *e);
// White page, its size checked before anything is allocated; ERR_MISSING without any font.
bool canvas_open(canvas *c, double width_px, double height_px, double dpi, err *e);
bool canvas_ok(const canvas *c, err *e); // cairo's own status, once at the end
void canvas_close(canvas *c);

// Is DejaVu Sans there? True, and *other false, when it is; true and *other true when fontconfig
// gives another font with its own widths; false when there is no font.
bool canvas_font(bool *other);

typedef struct text_style {
    double size; // points
    bool bold;
    rgb colour;
    double angle; // radians, counter-clockwise
    bool halo;    // white outline, for text over data
} text_style;

// Makes any bytes fit to be drawn: text_escape, then characters the font has no glyph for become
// \u{NNNN}. Returns buf.
char *canvas_escape(canvas *c, const char *s, char *buf, size_t size);
char *canvas_known(canvas *c, const char *s, char *buf, size_t size); // only the second step
double canvas_text_width(canvas *c, const char *s, const text_style *t);
// (x, y) is the text's anchor: across 0 left, 0.5 centre, 1 right; up 0 baseline, 0.5 middle of
// the capitals, 1 their top.
void canvas_text(canvas *c, const char *s, double x, double y, double across, double up,
                 const text_style *t);
// Cuts s with an ellipsis until it is at most `width` wide. Returns buf.
char *canvas_fit(canvas *c, const char *s, double width, const text_style *t, char *buf,
                 size_t size);
// Draws s in lines of at most `width`, at most max_lines (the last one cut), the first baseline at
// y; draw false only counts. Returns the number of lines.
int canvas_paragraph(canvas *c, const char *s, double x, double y, double width, double leading,
                     int max_lines, bool draw, const text_style *t);

void canvas_colour(canvas *c, rgb colour, double alpha);
// A horizontal or vertical line of a whole number of pixels, at least one.
void canvas_rule(canvas *c, double x0, double y0, double x1, double y1, double width);
void canvas_snap(const canvas *c, rect *r); // corners to whole pixels
void canvas_hatch(canvas *c, rect r);       // grey diagonals: not measured
// Series markers: circle, square, triangle, diamond ...
void canvas_marker(canvas *c, int shape, double x, double y, double radius);

// Strokes or collects a polyline given point by point, broken at NaN and cut at `clip` in double.
typedef struct pen {
    canvas *c;
    rect clip;
    double x, y; // last point
    bool down;   // a last point exists
    bool joined; // cairo's current point is that last point
} pen;
void pen_start(pen *p, canvas *c, rect clip);
void pen_to(pen *p, double x, double y);

#endif
