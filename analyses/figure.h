// analyses/figure.h - what an analysis returns: a picture as numbers, before anybody draws it.
//
// A figure knows nothing of pixels, colours or terminals; cli/plot (PNG), cli/text (terminal),
// cli/table (CSV) and the dashboard all take the same figure. "Not measured" is NaN everywhere and
// stays a gap. Strings are owned by the figure. Build with the functions below, free with
// figure_free.
#ifndef DELTOP_FIGURE_H
#define DELTOP_FIGURE_H

#include "core/err.h"

#include <stddef.h>

typedef enum {
    FIG_CURVES,  // series of (x, y), with optional bands
    FIG_HEATMAP, // one grid of cells
    FIG_SCATTER, // series of points; equal_scale for the complex plane
    FIG_HIST,    // series of (bin edge, count): n+1 edges in x, n values in y
    FIG_BARS,    // series of y over named categories
    FIG_TABLE,   // named columns of numbers or text
} figure_kind;

typedef enum {
    SCALE_LINEAR,
    SCALE_LOG10,
    SCALE_LOG2, // ticks at powers of two: token axes that end on one
} axis_scale;

typedef struct axis {
    char *name; // "effective rank"
    char *unit; // "of 64", "nats/token", "1"; shown in parentheses; never NULL
    axis_scale scale;
    double lo, hi; // NaN: from the data
    bool tokens;   // counts tokens: 1k = 1024 labels when the range ends on a power of two
    bool whole;    // counts things, as a token axis does: no label between two whole numbers
} axis;

typedef enum {
    STYLE_LINE,
    STYLE_FAINT, // background: raw data behind a smoothed curve, or grey context
    STYLE_POINTS,
} series_style;

typedef struct series {
    char *name;  // legend; "" = none. A smoothed curve's window stands here, in the subtitle or in
                 // a note.
    bool silent; // no legend entry: the name is for CSV
    series_style style;
    int colour;      // index into the palette; -1 = next free one
    size_t n;        // points (bins for FIG_HIST)
    double *x;       // n values (n+1 for FIG_HIST); ascending for curves
    double *y;       // n values
    double *lo, *hi; // band, NULL without
    char *band;      // what the band is ("95% bootstrap, 200 resamples"), NULL without
} series;

typedef enum { MARK_X, MARK_Y, MARK_CIRCLE } mark_kind; // vertical, horizontal, |z| = value

typedef struct mark {
    mark_kind kind;
    double value;
    char *label; // drawn at the line
} mark;

typedef enum { MAP_SEQUENTIAL, MAP_DIVERGING, MAP_CYCLIC } heat_map;

typedef struct heat {
    size_t rows, cols;
    double *cell;     // [rows, cols], NaN = not measured
    double *x;        // cols+1 edges along the x axis
    char **col_label; // cols names ("H0") at columns' middles, NULL: numbers at their edges
    char **row_label; // rows names ("L0.H0"), NULL: use the y axis numbers
    double y0, dy;    // row i reaches from y0 + i dy to y0 + (i + 1) dy; dy 0: from i to i + 1
    axis value;       // name and unit of the colour bar; lo/hi NaN = from the data
    heat_map map;
    char *missing; // what a NaN cell means ("real eigenvalues"); NULL: not measured
} heat;

typedef struct column {
    char *name;
    char *unit; // "" = none
    size_t n;
    double *num;  // numbers, or NULL
    char **text;  // text cells, or NULL
    int decimals; // significant digits when shown (CSV always has 17)
} column;

typedef struct figure {
    figure_kind kind;
    char *id;       // "loss", "erank-heads": file-name safe, unique within one result
    char *title;    // what and for whom: "effective rank, small-deltanet"
    char *subtitle; // how: document, length, smoothing, device, precision
    axis x, y;
    bool equal_scale;
    series *series;
    size_t n_series;
    mark *marks;
    size_t n_marks;
    heat *heat;      // FIG_HEATMAP only
    char **category; // FIG_BARS: names along x
    size_t n_category;
    column *columns; // FIG_TABLE
    size_t n_columns;
    char *all_nan; // what it means when every value is NaN; NULL: nothing was measured
    char **notes;  // sentences under the picture
    size_t n_notes;
} figure;

// Several figures that belong on one page, drawn as small multiples `columns` wide.
typedef struct figures {
    figure **v; // owned
    size_t n;
    int columns;
} figures;

// All constructors copy what they are given. NULL and ERR_NOMEM on failure.
figure *figure_new(figure_kind kind, const char *id, const char *title, const char *subtitle,
                   err *e);
void figure_free(figure *f); // NULL is fine
bool figure_axis(axis *a, const char *name, const char *unit, axis_scale scale, err *e);
// y, lo, hi, x: n values each (x: n+1 for FIG_HIST); lo and hi may both be NULL.
bool figure_series(figure *f, const char *name, series_style style, size_t n, const double *x,
                   const double *y, const double *lo, const double *hi, const char *band, err *e);
bool figure_mark(figure *f, mark_kind kind, double value, const char *label, err *e);
// What stands in the frame when every value is NaN, instead of "nothing was measured".
bool figure_all_nan(figure *f, const char *means, err *e);
bool figure_note(figure *f, err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// cell [rows, cols], x: cols+1 edges, row_label: rows names or NULL.
bool figure_heat(figure *f, size_t rows, size_t cols, const double *cell, const double *x,
                 const char *const *row_label, const char *value_name, const char *value_unit,
                 double lo, double hi, heat_map map, err *e);
// The y axis of a heat map without row names: see y0 and dy above. dy > 0.
void figure_heat_rows(figure *f, double y0, double dy);
static inline const char *heat_missing(const heat *h) {
    return h->missing ? h->missing : "not measured";
}
static inline double heat_row_edge(const heat *h, size_t i) {
    return h->dy > 0 ? h->y0 + (double)i * h->dy : (double)i;
}
// What the NaN cells of a heat map are, for its key, instead of "not measured".
bool figure_heat_missing(figure *f, const char *means, err *e);
// Names for the columns: one for each.
bool figure_heat_columns(figure *f, const char *const *name, err *e);
bool figure_category(figure *f, const char *name, err *e);
// One of num and text is given. Columns of one table have equal n.
bool figure_column(figure *f, const char *name, const char *unit, size_t n, const double *num,
                   const char *const *text, int decimals, err *e);

void figures_init(figures *s, int columns);
bool figures_add(figures *s, figure *f, err *e); // takes f, also on failure; f NULL = failure
void figures_free(figures *s);

#endif
