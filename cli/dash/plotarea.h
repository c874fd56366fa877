// cli/dash/plotarea.h - curves in braille dots over positions, with axes, marks and letters.
#ifndef DELTOP_DASH_PLOTAREA_H
#define DELTOP_DASH_PLOTAREA_H

#include "cli/dash/panel.h"

enum { PLOT_MOST = 2 * SURFACE_MOST }; // dot columns

// One value a dot column, NaN: a gap.
typedef struct plot_curve {
    char letter;
    int ink;
    bool points; // single points, not joined
    double y[PLOT_MOST];
} plot_curve;

typedef struct plotarea {
    rect in; // cells of the data
    int n;   // dot columns
    int64_t t0, t1;
} plotarea;

// Where the data go: labels and the axis stand to the left, tick labels below.
enum { PLOT_LABELS = 4 }; // cells of a label
plotarea plotarea_make(rect r, int64_t t0, int64_t t1);
// Tokens [from, to) of dot column i, at least one.
void plotarea_tokens(const plotarea *p, int i, int64_t *from, int64_t *to);
int64_t plotarea_token(const plotarea *p, int x_cell); // token under a cell of the screen
int plotarea_column(const plotarea *p, int64_t t);     // dot column of a token

// The range of all curves, widened to something that can be drawn; false: no number anywhere.
bool plotarea_range(const plotarea *p, const plot_curve *c, int n, double *lo, double *hi);

// Frame, tick labels, training length, document starts and cursor, then the curves: a solid, b every
// second dot column, c every fourth, d every eighth; letters at their ends. Positions from `read` on
// are not computed yet. log: labels are powers of ten.
void plotarea_draw(surface *s, const plotarea *p, const scene *x, const plot_curve *c, int n,
                   double lo, double hi, value_scale scale, int64_t read);
// Only dots, of a band; before plotarea_draw's curves would be painted over, after it they join.
void plotarea_dot(surface *s, const plotarea *p, int column, double y, double lo, double hi,
                  int ink);

// Labels below a row of columns over [t0, t1): used by panels that draw no curve too.
void plotarea_positions(surface *s, int y, int x, int w, int64_t t0, int64_t t1);

// v on the axis: itself, log10, or sign(v) log10(1 + |v|). NaN: it has no place there.
double plotarea_scaled(double v, value_scale scale);

#endif
