// Scatter plots: points of several series in turn, so that none hides behind the last one.
#include "cli/plot/panel.h"

#include "core/mem.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

// Markers are drawn whole or not at all: one on the edge of the frame reaches over it.
static bool in_frame(const panel *p, double x, double y) {
    rect r = p->frame;
    return x >= r.x - 0.5 && x <= r.x + r.w + 0.5 && y >= r.y - 0.5 &&
           y <= r.y + r.h + 0.5; // false for NaN
}

void points_draw(panel *p, const series *s, const look *l, double radius) {
    canvas_colour(p->c, l->colour, l->alpha);
    for (size_t i = 0; i < s->n; i++) {
        double x = panel_x(p, s->x[i]), y = panel_y(p, s->y[i]);
        if (!in_frame(p, x, y))
            continue;
        canvas_marker(p->c, l->marker, x, y, radius);
        cairo_fill(p->c->cr);
    }
}

// A pixel a series has already marked is not marked again: 1e6 points cost no more than the
// frame has pixels.
typedef struct seen {
    unsigned char *bit;
    size_t w, h;
} seen;

static bool first_time(seen *k, size_t series, const panel *p, double x, double y) {
    double px = (x - p->frame.x) * p->c->scale, py = (y - p->frame.y) * p->c->scale;
    if (px < 0 || py < 0 || px >= (double)k->w || py >= (double)k->h)
        return true;
    size_t at = (series * k->h + (size_t)py) * k->w + (size_t)px;
    bool is = !(k->bit[at / 8] >> (at % 8) & 1);
    k->bit[at / 8] |= (unsigned char)(1 << (at % 8));
    return is;
}

bool scatter_draw(panel *p, err *e) {
    const figure *f = p->f;
    size_t longest = 0, total = 0;
    for (size_t i = 0; i < f->n_series; i++) {
        longest = f->series[i].n > longest ? f->series[i].n : longest;
        total += f->series[i].n;
    }
    seen k = {NULL, (size_t)ceil(p->frame.w * p->c->scale), (size_t)ceil(p->frame.h * p->c->scale)};
    if (total > 50000) {
        k.bit = mem_zalloc(f->n_series * k.h * k.w / 8 + 1, 1, "the points of a scatter plot", e);
        if (!k.bit)
            return false;
    }
    double radius = total <= 200 ? 2.2 : total <= 2000 ? 1.5 : total <= 20000 ? 1.05 : 0.7;
    double alpha = total <= 200 ? 0.9 : total <= 2000 ? 0.75 : 0.55;
    look *l = mem_zalloc(f->n_series, sizeof *l, "the series of a scatter plot", e);
    if (!l) {
        free(k.bit);
        return false;
    }
    for (size_t i = 0; i < f->n_series; i++)
        l[i] = panel_look(p, i);
    for (size_t i = 0; i < longest; i++)
        for (size_t s = 0; s < f->n_series; s++) {
            if (i >= f->series[s].n)
                continue;
            double x = panel_x(p, f->series[s].x[i]), y = panel_y(p, f->series[s].y[i]);
            if (!in_frame(p, x, y) || (k.bit && !first_time(&k, s, p, x, y)))
                continue;
            canvas_colour(p->c, l[s].colour, alpha * l[s].alpha);
            canvas_marker(p->c, l[s].marker, x, y, radius);
            cairo_fill(p->c->cr);
        }
    free(l);
    free(k.bit);
    return true;
}
