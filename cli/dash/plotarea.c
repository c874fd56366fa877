#include "cli/dash/plotarea.h"

#include "cli/plot/ticks.h"

#include <stdio.h>
#include <string.h>

double plotarea_scaled(double v, value_scale scale) {
    if (scale == SCALE_AXIS_LOG)
        return v > 0 ? log10(v) : NAN;
    if (scale == SCALE_AXIS_SIGNED)
        return copysign(log10(1 + fabs(v)), v);
    return v;
}

plotarea plotarea_make(rect r, int64_t t0, int64_t t1) {
    int left = PLOT_LABELS + 1, top = r.h >= 2, bottom = r.h >= 4;
    plotarea p = {.in = {r.y + top, r.x + left, r.h - top - bottom, r.w - left},
                  .t0 = t0,
                  .t1 = t1 > t0 ? t1 : t0 + 1};
    if (p.in.w < 0)
        p.in.w = 0;
    if (p.in.h < 0)
        p.in.h = 0;
    p.n = 2 * p.in.w < PLOT_MOST ? 2 * p.in.w : PLOT_MOST;
    return p;
}

void plotarea_tokens(const plotarea *p, int i, int64_t *from, int64_t *to) {
    int64_t w = p->t1 - p->t0;
    *from = p->t0 + w * i / p->n;
    *to = p->t0 + w * (i + 1) / p->n;
    if (*to <= *from)
        *to = *from + 1;
}

int64_t plotarea_token(const plotarea *p, int x_cell) {
    int c = x_cell - p->in.x;
    c = c < 0 ? 0 : c >= p->in.w ? p->in.w - 1 : c;
    int64_t from, to;
    if (p->n < 2)
        return p->t0;
    plotarea_tokens(p, 2 * c, &from, &to);
    return from;
}

int plotarea_column(const plotarea *p, int64_t t) {
    if (t < p->t0 || t >= p->t1 || p->n == 0)
        return -1;
    int64_t w = p->t1 - p->t0;
    int i = (int)((t - p->t0) * p->n / w);
    while (i + 1 < p->n) { // rounding of plotarea_tokens
        int64_t from, to;
        plotarea_tokens(p, i, &from, &to);
        if (t < to)
            break;
        i++;
    }
    return i;
}

// What the labels of values from 1 on can tell apart: they have room for three digits. 0 below.
static double last_digit(double lo, double hi) {
    double size = fmax(fabs(lo), fabs(hi));
    return size >= 1 ? pow(10, floor(log10(size)) - 2) : 0;
}

bool plotarea_range(const plotarea *p, const plot_curve *c, int n, double *lo, double *hi) {
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < p->n; i++)
            if (isfinite(c[k].y[i])) {
                *lo = fmin(*lo, c[k].y[i]);
                *hi = fmax(*hi, c[k].y[i]);
            }
    if (!(*lo <= *hi))
        return false;
    ticks_widen(lo, hi);
    // An axis over less than its labels tell apart would magnify the last bits of what is constant.
    double least = 3 * last_digit(*lo, *hi);
    if (*hi - *lo < least) {
        double middle = *lo / 2 + *hi / 2;
        *lo = middle - least / 2;
        *hi = middle + least / 2;
    }
    double room = (*hi - *lo) * 0.04;
    *lo -= room;
    *hi += room;
    return true;
}

static int dot_row(const plotarea *p, double y, double lo, double hi) {
    int rows = 4 * p->in.h, at = (int)((hi - y) / (hi - lo) * rows);
    return at < 0 ? 0 : at >= rows ? rows - 1 : at;
}

void plotarea_dot(surface *s, const plotarea *p, int column, double y, double lo, double hi,
                  int ink) {
    if (!isfinite(y) || p->in.h < 1)
        return;
    int row = dot_row(p, y, lo, hi);
    surface_dot(s, 4 * p->in.y + row, 2 * p->in.x + column, ink);
}

// Outside a fixed scale: at the edge, with a sign.
static void put_beyond(surface *s, const plotarea *p, int column, bool above, int ink) {
    surface_put(s, above ? p->in.y : p->in.y + p->in.h - 1, p->in.x + column / 2, above ? '^' : 'v',
                0, ink);
}

static void draw_curve(surface *s, const plotarea *p, const plot_curve *c, int which, double lo,
                       double hi) {
    static const int step[CURVES] = {1, 2, 4, 8};
    int before = -1;
    for (int i = 0; i < p->n; i++) {
        double y = c->y[i];
        if (!isfinite(y)) {
            before = -1;
            continue;
        }
        if (y > hi || y < lo) {
            put_beyond(s, p, i, y > hi, c->ink);
            before = -1;
            continue;
        }
        int row = dot_row(p, y, lo, hi);
        if (i % step[which % CURVES] == 0) {
            int from = row, to = row;
            if (which == 0 && before >= 0 && !c->points) { // joined, half-way up or down
                from = before < row ? before + 1 : row;
                to = before > row ? before - 1 : row;
            }
            for (int k = from; k <= to; k++)
                surface_dot(s, 4 * p->in.y + k, 2 * p->in.x + i, c->ink);
        }
        before = row;
    }
}

// Behind the last point of each curve; a row up or down where the place is taken.
static void put_letters(surface *s, const plotarea *p, const plot_curve *c, int n, double lo,
                        double hi) {
    for (int k = 0; k < n; k++) {
        int last = p->n - 1;
        while (last >= 0 && !(isfinite(c[k].y[last]) && c[k].y[last] <= hi && c[k].y[last] >= lo))
            last--;
        if (last < 0)
            continue;
        int row = dot_row(p, c[k].y[last], lo, hi) / 4, x = last / 2 + 1;
        x = x < p->in.w ? x : p->in.w - 1;
        static const int moves[] = {0, -1, 1, -2, 2, -3, 3};
        for (size_t m = 0; m < sizeof moves / sizeof *moves; m++) {
            int y = row + moves[m];
            const cell *at = surface_at(s, p->in.y + y, p->in.x + x);
            bool taken = at && (at->cp >= 'a' && at->cp <= 'd');
            if (y < 0 || y >= p->in.h || taken)
                continue;
            surface_put(s, p->in.y + y, p->in.x + x, (uint32_t)c[k].letter, ATTR_BOLD, c[k].ink);
            break;
        }
    }
}

static void put_column(surface *s, const plotarea *p, int64_t t, uint32_t cp, bool whole) {
    int c = plotarea_column(p, t);
    if (c < 0)
        return;
    for (int y = 0; y < (whole ? p->in.h : 1); y++)
        surface_put(s, p->in.y + y, p->in.x + c / 2, cp, 0, INK_PLAIN);
}

// The smallest round step that leaves room for labels of `w` cells; binary where the axis is.
static int64_t label_step(int64_t range, int w, bool binary) {
    int most = w / 8 > 1 ? w / 8 : 1;
    if (binary) {
        int64_t step = 16;
        while (range / step > most)
            step *= 2;
        return step;
    }
    for (int64_t ten = 1;; ten *= 10)
        for (int k = 0; k < 3; k++) {
            int64_t step = ten * (k == 0 ? 1 : k == 1 ? 2 : 5);
            if (range / step <= most)
                return step;
        }
}

void plotarea_positions(surface *s, int y, int x, int w, int64_t t0, int64_t t1) {
    if (w < 4 || t1 <= t0)
        return;
    bool binary = t1 - t0 >= 2048;
    int64_t step = label_step(t1 - t0, w, binary);
    int free_from = x;
    for (int64_t t = (t0 + step - 1) / step * step; t <= t1; t += step) {
        char label[32];
        scene_tokens(t, label, sizeof label);
        if (!binary)
            scene_count(t, label, sizeof label);
        int n = (int)strlen(label), at = x + (int)((t - t0) * w / (t1 - t0));
        if (at + n > x + w)
            at = x + w - n;
        if (at < free_from)
            continue;
        surface_text(s, y, at, n, 0, INK_PLAIN, label);
        free_from = at + n + 1;
    }
}

static void put_values(surface *s, const plotarea *p, double lo, double hi, value_scale scale) {
    int left = p->in.x - 1;
    for (int y = 0; y < p->in.h; y++)
        surface_put(s, p->in.y + y, left, 0x2502, 0, INK_PLAIN);
    ticks t;
    int m = p->in.h / 2 < 3 ? 3 : p->in.h / 2;
    if (!ticks_find(lo, hi, m, false, &t))
        return;
    while (ticks_step(&t) < 0.999 * last_digit(lo, hi) && m > 2 &&
           ticks_find(lo, hi, m - 1, false, &t))
        m--;
    int decimals = ticks_decimals(&t, 1);
    for (int i = 0; i < t.n; i++) {
        double v = ticks_at(&t, i);
        if (v < lo || v > hi)
            continue;
        int y = dot_row(p, v, lo, hi) / 4;
        char label[32];
        if (scale == SCALE_AXIS_LOG)
            scene_number(pow(10, v), 4, label, sizeof label);
        else if (scale == SCALE_AXIS_SIGNED)
            scene_number(copysign(pow(10, fabs(v)) - 1, v), 4, label, sizeof label);
        else
            ticks_print(v, decimals, "-", label, sizeof label);
        if ((int)strlen(label) > PLOT_LABELS)
            scene_number(v, PLOT_LABELS, label, sizeof label);
        surface_put(s, p->in.y + y, left, 0x2524, 0, INK_PLAIN);
        surface_right(s, p->in.y + y, left - PLOT_LABELS, PLOT_LABELS, 0, INK_PLAIN, label);
    }
}

void plotarea_draw(surface *s, const plotarea *p, const scene *x, const plot_curve *c, int n,
                   double lo, double hi, value_scale scale, int64_t read) {
    if (p->in.h < 1 || p->in.w < 1)
        return;
    put_values(s, p, lo, hi, scale);
    const card *card = dash_card(x->d);
    if (card && card->train_length > 0 && card->train_length < p->t1)
        put_column(s, p, card->train_length, 0x250a, true);
    for (int64_t i = 0; x->text && i < x->text->n_start; i++)
        put_column(s, p, x->text->start[i], 0x2577, false);
    int pending = read < p->t1 ? plotarea_column(p, read < p->t0 ? p->t0 : read) : -1;
    for (int i = pending < 0 ? p->in.w : (pending + 1) / 2; i < p->in.w; i++)
        surface_put(s, p->in.y + p->in.h - 1, p->in.x + i, 0xb7, 0, INK_PLAIN);
    put_column(s, p, x->t, 0x2502, true);
    // The solid curve goes last into free cells but first into shared ones: dots only add.
    for (int k = 0; k < n; k++)
        draw_curve(s, p, &c[k], k, lo, hi);
    put_letters(s, p, c, n, lo, hi);
    plotarea_positions(s, p->in.y + p->in.h, p->in.x, p->in.w, p->t0, p->t1);
    if (x->stale)
        surface_attr(s, p->in, ATTR_DIM);
}
