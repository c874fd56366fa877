// Complex eigenvalues of two Householder factors over their strengths (G03).
#include "analyses/verify/verify.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 200, POINTS = 400 };

// Angle of the pair in degrees; NaN: real.
static double angle(double b1, double b2, double c) {
    double tau = 2 - b1 - b2 + b1 * b2 * c * c, delta = (1 - b1) * (1 - b2);
    return tau * tau - 4 * delta < 0 ? acos(tau / (2 * sqrt(delta))) * 180 / M_PI : NAN;
}

static figure *map(double c, err *e) {
    double *cell = mem_alloc(CELLS * CELLS, sizeof *cell, "a map", e);
    double x[CELLS + 1];
    char sub[200];
    size_t turning = 0;
    if (!cell)
        return NULL;
    for (int i = 0; i < CELLS * CELLS; i++) {
        cell[i] = angle(2.0 * (i % CELLS + 0.5) / CELLS, 2.0 * (i / CELLS + 0.5) / CELLS, c);
        turning += !isnan(cell[i]);
    }
    for (int i = 0; i <= CELLS; i++)
        x[i] = 2.0 * i / CELLS;
    snprintf(sub, sizeof sub, "keys at cosine %g; complex on %.2g %% of the square", c,
             100.0 * (double)turning / (CELLS * CELLS));
    figure *f = figure_new(FIG_HEATMAP, "prop1-region",
                           "rotation angle of a product F2 F1 of two factors", sub, e);
    bool ok = f && figure_axis(&f->x, "beta 1", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "beta 2", "1", SCALE_LINEAR, e);
    ok = ok && figure_all_nan(f, "real everywhere: no product of two factors turns anything", e) &&
         figure_heat(f, CELLS, CELLS, cell, x, NULL, "angle", "degrees", 0, 180, MAP_SEQUENTIAL,
                     e) &&
         figure_heat_missing(f, "real eigenvalues", e);
    if (ok)
        figure_heat_rows(f, 0, 2.0 / CELLS);
    free(cell);
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

// With beta_i = 1 + tan(a_i)^2 the condition (sqrt x - sqrt y)^2 < beta_1 beta_2 c^2 < (sqrt x +
// sqrt y)^2 of G03 is |sin(a_1 - a_2)| < |c| < sin(a_1 + a_2): the boundary consists of straight lines
// in (a_1, a_2), at s = asin |c|, inside the square [0, pi/4]^2.
static double strength(double a) {
    return 1 + tan(a) * tan(a);
}

// From the left edge rightwards: the line a_2 = a_1 + s, or a_2 = s - a_1 and then a_2 = a_1 - s.
static size_t boundary(double s, bool upper, double *x, double *y) {
    const double end = M_PI / 4;
    double from = s > end ? s - end : 0, to = upper ? end - s : end;
    size_t n = 0;
    for (int i = 0; i <= POINTS && to > from; i++) {
        double a = from + (to - from) * i / POINTS, b = upper ? a + s : fabs(a - s);
        x[n] = strength(a);
        y[n++] = strength(b);
    }
    return n;
}

static bool add_boundary(figure *f, double c, bool upper, int colour, err *e) {
    double x[POINTS + 1], y[POINTS + 1];
    char name[64];
    size_t n = boundary(asin(fabs(c)), upper, x, y);
    snprintf(name, sizeof name, "cosine %g", fabs(c));
    if (n == 0)
        return true;
    if (!figure_series(f, name, STYLE_LINE, n, x, y, NULL, NULL, NULL, e))
        return false;
    f->series[f->n_series - 1].silent = upper;
    f->series[f->n_series - 1].colour = colour;
    return true;
}

static figure *boundaries(double c, err *e) {
    double list[] = {0.1, 0.3, 0.5, c};
    int n = fabs(c) == 0.1 || fabs(c) == 0.3 || fabs(c) == 0.5 ? 3 : 4;
    figure *f = figure_new(
        FIG_CURVES, "prop1-boundary", "where eigenvalues become complex",
        "towards the upper right corner; at cosine 1 the keys agree and nothing turns", e);
    bool ok = f && figure_axis(&f->x, "beta 1", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "beta 2", "1", SCALE_LINEAR, e);
    if (ok) {
        f->x.lo = f->y.lo = 1;
        f->x.hi = f->y.hi = 2;
        f->equal_scale = true;
    }
    for (int i = 0; ok && i < n; i++)
        ok = add_boundary(f, list[i], false, i, e) && add_boundary(f, list[i], true, i, e);
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

bool verify_region(double cosine, figures *out, err *e) {
    figures_init(out, 2);
    if (figures_add(out, map(cosine, e), e) && figures_add(out, boundaries(cosine, e), e))
        return true;
    figures_free(out);
    return false;
}
