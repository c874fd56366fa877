// Histograms and bars. Both stand on zero; on a log axis, which has no zero, on its lower end.
#include "cli/plot/panel.h"

#include <math.h>

static double limit(double x, double lo, double hi) {
    return fmin(fmax(x, lo), hi);
}

static double base_of(const panel *p) {
    double zero = panel_y(p, 0);
    return isnan(zero) ? p->frame.y + p->frame.h : limit(zero, p->frame.y, p->frame.y + p->frame.h);
}

void hist_draw(panel *p) {
    cairo_t *cr = p->c->cr;
    rect r = panel_reach(p);
    double base = base_of(p);
    bool alone = p->f->n_series == 1;
    panel_clip(p);
    for (int layer = 0; layer < 2; layer++) // fills, then outlines over all of them
        for (size_t i = 0; i < p->f->n_series; i++) {
            const series *s = &p->f->series[i];
            look l = panel_look(p, i);
            bool open = false;
            for (size_t b = 0; b < s->n; b++) {
                double x0 = limit(panel_x(p, s->x[b]), r.x, r.x + r.w);
                double x1 = limit(panel_x(p, s->x[b + 1]), r.x, r.x + r.w);
                double y = panel_y(p, s->y[b]);
                bool ok = !isnan(panel_x(p, s->x[b])) && !isnan(panel_x(p, s->x[b + 1])) &&
                          !isnan(s->y[b]);
                y = isnan(y) ? base : limit(y, r.y, r.y + r.h); // a count of 0 on a log axis
                if (!ok) {
                    open = false;
                    continue;
                }
                if (layer == 0) {
                    cairo_rectangle(cr, x0, y, x1 - x0, base - y);
                    continue;
                }
                if (!open)
                    cairo_move_to(cr, x0, base);
                cairo_line_to(cr, x0, y);
                cairo_line_to(cr, x1, y);
                open = true;
                if (b + 1 == s->n || isnan(s->y[b + 1]))
                    cairo_line_to(cr, x1, base);
            }
            canvas_colour(p->c, l.colour, layer ? 1 : alone ? 0.45 : 0.18);
            if (layer == 0) {
                // Neighbouring bins share an edge: without antialiasing no seam shows there.
                cairo_set_antialias(cr, CAIRO_ANTIALIAS_NONE);
                cairo_fill(cr);
                cairo_set_antialias(cr, CAIRO_ANTIALIAS_GRAY);
                continue;
            }
            int n = 0;
            const double *dash = palette_dash(l.dash, &n);
            cairo_set_dash(cr, dash, n, 0);
            cairo_set_line_width(cr, 1.1);
            cairo_stroke(cr);
            cairo_set_dash(cr, NULL, 0, 0);
        }
    cairo_restore(cr);
}

void bars_draw(panel *p) {
    cairo_t *cr = p->c->cr;
    rect r = panel_reach(p);
    double base = base_of(p), n = (double)p->f->n_series, group = 0.8;
    panel_clip(p);
    for (size_t i = 0; i < p->f->n_series; i++) {
        const series *s = &p->f->series[i];
        look l = panel_look(p, i);
        for (size_t b = 0; b < s->n && b < p->f->n_category; b++) {
            double left = (double)b + 0.5 - group / 2 + group * (double)i / n;
            double y = panel_y(p, s->y[b]);
            if (isnan(y))
                continue;
            y = limit(y, r.y, r.y + r.h);
            double x0 = panel_x(p, left), x1 = panel_x(p, left + group / n);
            rect bar = {x0, fmin(y, base), x1 - x0 - (n > 1 ? 0.6 : 0), fabs(base - y)};
            canvas_snap(p->c, &bar);
            canvas_colour(p->c, l.colour, 0.85);
            cairo_rectangle(cr, bar.x, bar.y, bar.w, bar.h);
            cairo_fill(cr);
            if (!s->lo)
                continue;
            double lo = panel_y(p, s->lo[b]), hi = panel_y(p, s->hi[b]), mid = (x0 + x1) / 2;
            if (isnan(lo) || isnan(hi))
                continue;
            lo = limit(lo, r.y, r.y + r.h), hi = limit(hi, r.y, r.y + r.h);
            double cap = fmin(3, (x1 - x0) / 4);
            canvas_colour(p->c, (rgb){0.2, 0.2, 0.2}, 1);
            canvas_rule(p->c, mid, lo, mid, hi, 0.8);
            canvas_rule(p->c, mid - cap, lo, mid + cap, lo, 0.8);
            canvas_rule(p->c, mid - cap, hi, mid + cap, hi, 0.8);
        }
    }
    cairo_restore(cr);
    if (!isnan(panel_y(p, 0)) && p->y.lo < 0 && p->y.hi > 0) {
        canvas_colour(p->c, (rgb){0.25, 0.25, 0.25}, 1);
        canvas_rule(p->c, p->frame.x, base, p->frame.x + p->frame.w, base, 0.8);
    }
}
