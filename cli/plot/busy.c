// Where data lies in the frame, on a grid of 160 x 120 cells: enough to find a free corner for a
// legend and a free place for a label, and cheap to ask.
#include "cli/plot/panel.h"

#include <math.h>
#include <string.h>

static void set(busy *b, double u, double v, busy_kind k) {
    if (u >= 0 && v >= 0 && u < BUSY_W && v < BUSY_H)
        b->cell[(int)v][(int)u] |= (unsigned char)k;
}

static double across(const panel *p, double x) {
    return (x - p->frame.x) / p->frame.w * BUSY_W;
}

static double down(const panel *p, double y) {
    return (y - p->frame.y) / p->frame.h * BUSY_H;
}

static void line(busy *b, double u0, double v0, double u1, double v1, busy_kind k) {
    double steps = fmin(ceil(fmax(fabs(u1 - u0), fabs(v1 - v0))), 4 * BUSY_W);
    for (double s = 0; s <= steps; s++) {
        double w = steps > 0 ? s / steps : 0;
        set(b, u0 + w * (u1 - u0), v0 + w * (v1 - v0), k);
    }
}

static void curve(panel *p, const series *s, const double *y, bool joined) {
    double u0 = NAN, v0 = NAN;
    for (size_t i = 0; i < s->n; i++) {
        double u = across(p, panel_x(p, s->x[i])), v = down(p, panel_y(p, y[i]));
        if (joined && !isnan(u0 + v0) && !isnan(u + v))
            line(&p->busy, u0, v0, u, v, BUSY_DATA);
        else if (!isnan(u + v))
            set(&p->busy, u, v, BUSY_DATA);
        u0 = u;
        v0 = v;
    }
}

// A bar from its value down to the foot of the frame.
static void bar(panel *p, double x0, double x1, double y) {
    double u0 = fmax(0, across(p, x0)), u1 = fmin(BUSY_W, across(p, x1));
    double v = fmax(0, down(p, y));
    for (double u = u0; u < u1; u++)
        for (double w = v; w < BUSY_H; w++)
            set(&p->busy, u, w, BUSY_DATA);
}

void busy_fill(panel *p) {
    const figure *f = p->f;
    memset(&p->busy, 0, sizeof p->busy);
    for (size_t i = 0; i < f->n_series; i++) {
        const series *s = &f->series[i];
        if (f->kind == FIG_HIST)
            for (size_t b = 0; b < s->n; b++)
                bar(p, panel_x(p, s->x[b]), panel_x(p, s->x[b + 1]), panel_y(p, s->y[b]));
        else if (f->kind == FIG_BARS)
            for (size_t b = 0; b < s->n; b++)
                bar(p, panel_x(p, (double)b), panel_x(p, (double)b + 1),
                    panel_y(p, s->hi ? s->hi[b] : s->y[b]));
        else
            curve(p, s, s->y, f->kind == FIG_CURVES && s->style != STYLE_POINTS);
        if (s->lo && f->kind == FIG_CURVES) {
            curve(p, s, s->lo, true);
            curve(p, s, s->hi, true);
        }
    }
    for (size_t i = 0; i < f->n_marks; i++) {
        double v = f->marks[i].value;
        double u = across(p, panel_x(p, v)), w = down(p, panel_y(p, v));
        if (f->marks[i].kind == MARK_X && u >= 0 && u < BUSY_W)
            line(&p->busy, u, 0, u, BUSY_H, BUSY_MARK);
        if (f->marks[i].kind == MARK_Y && w >= 0 && w < BUSY_H)
            line(&p->busy, 0, w, BUSY_W, w, BUSY_MARK);
        for (int k = 0; f->marks[i].kind == MARK_CIRCLE && k < 720; k++)
            set(&p->busy, across(p, panel_x(p, v * cos(k * M_PI / 360))),
                down(p, panel_y(p, v * sin(k * M_PI / 360))), BUSY_DATA);
    }
}

bool busy_at(const panel *p, rect r, int kinds) {
    int u0 = (int)fmax(0, floor(across(p, r.x))), u1 = (int)fmin(BUSY_W, across(p, r.x + r.w) + 1);
    int v0 = (int)fmax(0, floor(down(p, r.y))), v1 = (int)fmin(BUSY_H, down(p, r.y + r.h) + 1);
    for (int v = v0; v < v1; v++)
        for (int u = u0; u < u1; u++)
            if (p->busy.cell[v][u] & kinds)
                return true;
    return false;
}
