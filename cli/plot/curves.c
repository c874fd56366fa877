// Lines and bands. A long curve is reduced to the first, lowest, highest and last point of each
// pixel column before cairo sees it: 1e6 points cost about four segments a column and look the
// same as all of them.
#include "cli/plot/panel.h"

#include <math.h>
#include <string.h>

// Points of one pixel column, in page coordinates.
typedef struct column_of {
    long px;
    double first_x, first_y, low_x, low_y, high_x, high_y, last_x, last_y;
    bool low_first, used;
} column_of;

static void column_add(column_of *k, double x, double y) {
    if (!k->used) {
        k->first_x = k->low_x = k->high_x = x;
        k->first_y = k->low_y = k->high_y = y;
        k->low_first = true;
        k->used = true;
    }
    if (y < k->low_y)
        k->low_x = x, k->low_y = y, k->low_first = false;
    if (y > k->high_y)
        k->high_x = x, k->high_y = y, k->low_first = true;
    k->last_x = x;
    k->last_y = y;
}

static void column_flush(column_of *k, pen *pen) {
    if (!k->used)
        return;
    pen_to(pen, k->first_x, k->first_y);
    if (k->low_first)
        pen_to(pen, k->low_x, k->low_y);
    pen_to(pen, k->high_x, k->high_y);
    if (!k->low_first)
        pen_to(pen, k->low_x, k->low_y);
    pen_to(pen, k->last_x, k->last_y);
    k->used = false;
}

static bool shown(const panel *p, const series *s, const double *y, size_t i) {
    return i < s->n && !isnan(panel_x(p, s->x[i])) && !isnan(panel_y(p, y[i]));
}

// The path of one curve.
static void trace(panel *p, const series *s, const double *y) {
    pen pen;
    pen_start(&pen, p->c, panel_reach(p));
    bool all = (double)s->n < 4 * p->frame.w * p->c->scale;
    column_of k = {0};
    for (size_t i = 0; i < s->n; i++) {
        double x = panel_x(p, s->x[i]), v = panel_y(p, y[i]);
        if (isnan(x) || isnan(v)) {
            column_flush(&k, &pen);
            pen_to(&pen, NAN, NAN);
            continue;
        }
        if (all) {
            pen_to(&pen, x, v);
            continue;
        }
        long px = (long)floor(fmin(fmax(x, -1e6), 1e6) * p->c->scale);
        if (k.used && px != k.px)
            column_flush(&k, &pen);
        k.px = px;
        column_add(&k, x, v);
    }
    column_flush(&k, &pen);
}

// The vertical way that a curve goes, in frame heights.
static double way_of(const series *s, const axes *x, const axes *y) {
    double way = 0, before = NAN;
    for (size_t i = 0; i < s->n; i++) {
        double v = isnan(axes_place(x, s->x[i])) ? NAN : axes_place(y, s->y[i]);
        if (!isnan(v) && !isnan(before))
            way += fmin(fabs(v - before), 1);
        before = v;
    }
    return way;
}

bool curves_restless(const figure *f) {
    axes x, y;
    axes_span x_span, y_span;
    if (f->kind != FIG_CURVES)
        return false;
    axes_of_figure(f, &x, &y, &x_span, &y_span);
    for (size_t i = 0; i < f->n_series; i++) {
        const series *s = &f->series[i];
        if (s->style == STYLE_LINE && look_of(f, i).dash && way_of(s, &x, &y) > 8)
            return true;
    }
    return false;
}

// A point without neighbours is no line: it becomes a dot.
static void lone_points(panel *p, const series *s, const look *l) {
    canvas_colour(p->c, l->colour, l->alpha);
    for (size_t i = 0; i < s->n; i++) {
        if (!shown(p, s, s->y, i) || (i && shown(p, s, s->y, i - 1)) || shown(p, s, s->y, i + 1))
            continue;
        series one = {.n = 1, .x = &s->x[i], .y = &s->y[i]};
        look dot = {.colour = l->colour, .alpha = l->alpha};
        points_draw(p, &one, &dot, fmax(1.2, l->width));
    }
}

// One piece of a band without gaps: up along hi, back along lo, per pixel column the extremes.
static void band_piece(panel *p, const series *s, size_t from, size_t to) {
    cairo_t *cr = p->c->cr;
    rect r = panel_reach(p);
    bool all = (double)(to - from) < 4 * p->frame.w * p->c->scale, started = false;
    for (int way = 0; way < 2; way++) {
        const double *v = way ? s->lo : s->hi;
        double held_x = 0, held_y = 0;
        long held = 0;
        bool have = false;
        for (size_t k = 0; k <= to - from; k++) {
            size_t i = way ? to - 1 - k : from + k;
            bool end = k == to - from;
            double x = end ? 0 : fmin(fmax(panel_x(p, s->x[i]), r.x), r.x + r.w);
            double y = end ? 0 : fmin(fmax(panel_y(p, v[i]), r.y), r.y + r.h);
            long px = end ? held + 1 : (long)floor(x * p->c->scale);
            if (have && (end || all || px != held)) {
                if (started)
                    cairo_line_to(cr, held_x, held_y);
                else
                    cairo_move_to(cr, held_x, held_y);
                started = true;
                have = false;
            }
            if (end)
                break;
            if (!have || (way ? y > held_y : y < held_y))
                held_y = y;
            held_x = x;
            held = px;
            have = true;
        }
    }
    cairo_close_path(cr);
}

static void band_draw(panel *p, const series *s, const look *l) {
    size_t from = 0;
    bool open = false;
    for (size_t i = 0; i <= s->n; i++) {
        bool ok = i < s->n && shown(p, s, s->lo, i) && shown(p, s, s->hi, i);
        if (ok && !open)
            from = i, open = true;
        if (!ok && open) {
            band_piece(p, s, from, i);
            open = false;
        }
    }
    canvas_colour(p->c, l->colour, 0.2);
    cairo_fill(p->c->cr);
}

static void line_draw(panel *p, const series *s, const look *l) {
    cairo_t *cr = p->c->cr;
    trace(p, s, s->y);
    int n = 0;
    const double *dash = palette_dash(l->dash, &n);
    cairo_set_dash(cr, dash, n, 0);
    cairo_set_line_width(cr, l->width);
    canvas_colour(p->c, l->colour, l->alpha);
    cairo_stroke(cr);
    cairo_set_dash(cr, NULL, 0, 0);
}

void curves_draw(panel *p) {
    panel_clip(p);
    // Faint things first, then bands, then lines: nothing measured hides behind its context.
    for (int layer = 0; layer < 3; layer++)
        for (size_t i = 0; i < p->f->n_series; i++) {
            const series *s = &p->f->series[i];
            look l = panel_look(p, i);
            if (layer == 0 && s->style == STYLE_FAINT)
                line_draw(p, s, &l);
            if (layer == 1 && s->lo)
                band_draw(p, s, &l);
            if (layer == 2 && s->style == STYLE_LINE)
                line_draw(p, s, &l);
        }
    cairo_restore(p->c->cr);
    for (size_t i = 0; i < p->f->n_series; i++) {
        const series *s = &p->f->series[i];
        look l = panel_look(p, i);
        if (s->style == STYLE_POINTS)
            points_draw(p, s, &l, s->n > 300 ? 1.1 : 2.0);
        else
            lone_points(p, s, &l);
    }
}
