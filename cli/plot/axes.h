// cli/plot/axes.h - an axis as a drawing needs it: limits, labels, title. Pure; shared by the PNG
// and the terminal plots, so that both show the same ticks.
#ifndef DELTOP_AXES_H
#define DELTOP_AXES_H

#include "analyses/figure.h"

enum { AXES_MAX_TICKS = 160, AXES_LABEL = 24, AXES_TITLE = 256 };

typedef struct axes_tick {
    double at;
    char label[AXES_LABEL]; // "" for a minor tick
} axes_tick;

typedef struct axes {
    axis_scale scale;
    double lo, hi; // lo < hi, positive on a log scale
    bool empty;    // nothing to show: no finite (log: positive) value; lo, hi are made up
    axes_tick tick[AXES_MAX_TICKS];
    int n;
    int power;              // labels are values / 10^power, said in the title
    char title[AXES_TITLE]; // "position (tokens, 1k = 1024)", escaped for display
} axes;

// The values one axis has to show.
typedef struct axes_span {
    double lo, hi;    // of the values that can be shown; NaN when there are none
    size_t finite;    // how many
    size_t not_shown; // log scale: finite values <= 0
    axis_scale scale;
} axes_span;

void axes_span_init(axes_span *s, axis_scale scale);
void axes_span_add(axes_span *s, const double *v, size_t n); // v NULL: nothing

// Limits: those the axis states, else the span widened by the fraction `pad` of its length (on the
// axis' own scale). Equal limits are widened. Drawings may change lo and hi before axes_ticks.
void axes_limits(axes *a, const axis *spec, const axes_span *s, double pad);

// Labels, about `want` of them, and the title with unit and common factor. ascii: no superscripts
// and no U+2212.
void axes_ticks(axes *a, const axis *spec, int want, bool ascii);

// The same with at least three labels on a linear axis, when up to `most` of them have room: one or
// two say where a curve is, but not by how much it moves.
void axes_ticks_room(axes *a, const axis *spec, int want, int most, bool ascii);

int axes_labels(const axes *a); // ticks that carry one

// As axes_ticks along x of a figure, where a heat map's columns may have names, at their middles.
void axes_x_ticks(axes *a, const figure *f, int want, bool ascii);

// Position of x between the limits: 0 at lo, 1 at hi, outside when x is; NaN for what the scale
// cannot show.
double axes_place(const axes *a, double x);
double axes_value(const axes *a, double place); // the inverse

// Limits of all that a figure shows along x and y (series, bands, marks, bars from zero, heat
// edges), with the padding that its kind wants.
void axes_of_figure(const figure *f, axes *x, axes *y, axes_span *x_span, axes_span *y_span);

// "name (unit)" escaped, cut to fit.
char *axes_title(const char *name, const char *unit, char *buf, size_t size);

#endif
