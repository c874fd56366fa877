// Curves and scatter plots. Dots (2 x 4 a cell) where one kind of dot is enough, letters where
// series could not be told apart otherwise.
#include "cli/text/part.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct area {
    const textplot *t;
    grid g;
    axes x, y;
    axes_span x_span, y_span;
    int left, top, w, h; // of the data, in cells
    bool letters;        // instead of dots
    uint64_t named;      // marks (of the first 64) whose names stand above the frame
} area;

// Faint series are context: in one colour they would only be in the way.
static bool is_context(const textplot *t, const series *s) {
    return s->style == STYLE_FAINT && !t->colour;
}

// Position in dots; NaN stays NaN.
static double dot_x(const area *a, double x) {
    return axes_place(&a->x, x) * (2 * a->w - 1) + 2 * a->left;
}

static double dot_y(const area *a, double y) {
    return (1 - axes_place(&a->y, y)) * (4 * a->h - 1) + 4 * a->top;
}

static bool inside(const area *a, double u, double v) {
    return u > 2 * a->left - 0.5 && u < 2 * (a->left + a->w) - 0.5 && v > 4 * a->top - 0.5 &&
           v < 4 * (a->top + a->h) - 0.5;
}

static void spot(area *a, double u, double v, size_t series) {
    if (!inside(a, u, v))
        return;
    int colour = text_colour(a->t, series);
    long x = lround(u), y = lround(v);
    if (!a->letters) {
        // A line does not merge with the faint dots behind it.
        grid_cell *c = grid_at(&a->g, (int)(x / 2), (int)(y / 4));
        if (c->colour == TEXT_GREY && colour != TEXT_GREY)
            c->dots = 0;
        grid_dot(&a->g, x, y, colour);
        return;
    }
    grid_cell *c = grid_at(&a->g, (int)(x / 2), (int)(y / 4));
    uint32_t mine = (uint32_t)text_letter(series);
    bool other = c->cp && c->cp != mine && a->t->f->kind == FIG_SCATTER;
    c->cp = other ? '*' : mine;
    c->colour = (int16_t)(other ? GRID_PLAIN : colour);
}

static void segment(area *a, double u0, double v0, double u1, double v1, size_t series) {
    // Far ends are cut so that the number of steps stays small.
    double far = 4.0 * (a->g.w + a->g.h);
    v0 = fmin(fmax(v0, -far), far), v1 = fmin(fmax(v1, -far), far);
    u0 = fmin(fmax(u0, -far), far), u1 = fmin(fmax(u1, -far), far);
    double steps = ceil(fmax(fabs(u1 - u0), fabs(v1 - v0)));
    for (double s = 0; s <= steps; s++) {
        double w = steps > 0 ? s / steps : 0;
        spot(a, u0 + w * (u1 - u0), v0 + w * (v1 - v0), series);
    }
}

// A point of a curve that has no neighbours: one dot would be overlooked.
static void lone(area *a, double u, double v, size_t series) {
    if (inside(a, u, v))
        grid_put(&a->g, (int)(lround(u) / 2), (int)(lround(v) / 4),
                 a->letters   ? (uint32_t)text_letter(series)
                 : a->t->utf8 ? 0x2022
                              : 'o',
                 text_colour(a->t, series));
}

static void draw_series(area *a, size_t i) {
    const series *s = &a->t->f->series[i];
    bool joined = a->t->f->kind == FIG_CURVES && s->style != STYLE_POINTS;
    double u0 = NAN, v0 = NAN;
    for (size_t k = 0; k < s->n; k++) {
        double u = dot_x(a, s->x[k]), v = dot_y(a, s->y[k]);
        if (!isnan(u + v)) {
            if (joined && !isnan(u0 + v0))
                segment(a, u0, v0, u, v, i);
            else if (joined && (k + 1 == s->n || isnan(dot_y(a, s->y[k + 1]))))
                lone(a, u, v, i);
            else
                spot(a, u, v, i);
        }
        u0 = u;
        v0 = v;
    }
}

// Letters at the right end of the curves, each on a row of its own.
static void draw_ends(area *a) {
    const figure *f = a->t->f;
    for (size_t i = 0; i < f->n_series; i++) {
        const series *s = &f->series[i];
        if (f->n_series < 2)
            continue;
        double v = NAN;
        for (size_t k = s->n; k-- > 0 && isnan(v);)
            if (inside(a, dot_x(a, s->x[k]), dot_y(a, s->y[k])))
                v = dot_y(a, s->y[k]);
        if (isnan(v))
            continue;
        int want = (int)(v / 4);
        for (int step = 0; step < 2 * a->h; step++) {
            int row = want + (step % 2 ? 1 : -1) * ((step + 1) / 2);
            grid_cell *c = row >= a->top && row < a->top + a->h
                               ? grid_at(&a->g, a->left + a->w + 1, row)
                               : NULL;
            if (!c || c->cp)
                continue;
            grid_put(&a->g, a->left + a->w + 1, row, (uint32_t)text_letter(i),
                     text_colour(a->t, i));
            break;
        }
    }
}

// A mark goes where nothing else is.
static void mark_cell(area *a, int x, int y, uint32_t utf8, char ascii) {
    grid_cell *c = grid_at(&a->g, x, y);
    if (c && !c->cp && !c->dots) {
        c->cp = a->t->utf8 ? utf8 : (uint32_t)ascii;
        c->colour = a->t->colour ? TEXT_GREY : GRID_PLAIN;
    }
}

static void draw_circle(area *a, double r) {
    for (int k = 0; k < 2000; k++) {
        double t = k * M_PI / 1000, u = dot_x(a, r * cos(t)), v = dot_y(a, r * sin(t));
        if (!inside(a, u, v))
            continue;
        grid_cell *c = grid_at(&a->g, (int)(lround(u) / 2), (int)(lround(v) / 4));
        if (!a->letters && !c->dots && !c->cp)
            c->colour = a->t->colour ? TEXT_GREY : GRID_PLAIN;
        if (!a->letters)
            grid_dot(&a->g, lround(u), lround(v), c->colour);
        else
            mark_cell(a, (int)(lround(u) / 2), (int)(lround(v) / 4), 0xb7, '.');
    }
}

// Lines, and in the row above the frame the names of the vertical ones.
static void draw_marks(area *a) {
    const figure *f = a->t->f;
    char name[160];
    int end = 0;
    for (size_t i = 0; i < f->n_marks; i++) {
        const mark *m = &f->marks[i];
        if (m->kind == MARK_CIRCLE) {
            draw_circle(a, m->value);
            continue;
        }
        double u = dot_x(a, m->value), v = dot_y(a, m->value);
        if (m->kind == MARK_X && u >= 2 * a->left && u < 2 * (a->left + a->w)) {
            int c = (int)(lround(u) / 2);
            for (int r = 0; r < a->h; r++)
                mark_cell(a, c, a->top + r, 0x250a, ':');
            grid_escape(m->label, a->t->utf8, name, sizeof name);
            int w = grid_width(name), from = c + w <= a->g.w ? c : a->g.w - w;
            if (from >= end && from >= 0) {
                grid_text(&a->g, from, a->top - 1, name, -1, a->t->colour ? TEXT_GREY : GRID_PLAIN);
                end = from + w + 2;
                a->named |= i < 64 ? UINT64_C(1) << i : 0;
            }
        }
        if (m->kind == MARK_Y && v >= 4 * a->top && v < 4 * (a->top + a->h))
            for (int c = 0; c < a->w; c++)
                mark_cell(a, a->left + c, (int)(lround(v) / 4), 0x2508, '-');
    }
}

// Equal lengths on both axes: a dot is about as high as it is wide.
static void make_equal(area *a) {
    double ux = a->x.hi - a->x.lo, uy = a->y.hi - a->y.lo;
    double per = fmin(2.0 * a->w / ux, 4.0 * a->h / uy);
    int w = (int)lround(per * ux / 2), h = (int)lround(per * uy / 4);
    a->w = w < 8 ? 8 : w;
    a->h = h < 4 ? 4 : h;
    double mx = (a->x.lo + a->x.hi) / 2, my = (a->y.lo + a->y.hi) / 2;
    a->x.lo = mx - a->w / per, a->x.hi = mx + a->w / per;
    a->y.lo = my - 2 * a->h / per, a->y.hi = my + 2 * a->h / per;
}

static void legend(const area *a) {
    const textplot *t = a->t;
    const figure *f = t->f;
    char name[512], line[600];
    for (size_t i = 0; i < f->n_series; i++) {
        grid_escape(f->series[i].name, t->utf8, name, sizeof name);
        if (!*name || f->series[i].silent ||
            (f->n_series == 1 && !strcmp(f->series[i].name, f->y.name)))
            continue;
        int colour = text_colour(t, i);
        if (colour != GRID_PLAIN)
            fprintf(t->out, "\033[38;5;%dm", colour);
        bool alone = f->n_series == 1;
        snprintf(line, sizeof line, "%s%c%s%s", alone ? " " : "  ", alone ? ' ' : text_letter(i),
                 alone ? "" : "  ", name);
        grid_cut(t->out, line, t->columns);
        if (colour != GRID_PLAIN)
            fputs("\033[0m", t->out);
        fputc('\n', t->out);
    }
    for (size_t i = 0; i < f->n_marks; i++) {
        const mark *m = &f->marks[i];
        if (m->kind == MARK_X || !*m->label)
            continue;
        char number[48];
        text_number_short(m->value, number, sizeof number);
        grid_escape(m->label, t->utf8, name, sizeof name);
        const char *sign =
            m->kind == MARK_CIRCLE ? (t->utf8 ? "\u25cb" : "o") : (t->utf8 ? "\u2508" : "-");
        snprintf(line, sizeof line, "  %s  %.400s%s%s", sign, name, m->kind == MARK_Y ? " = " : "",
                 m->kind == MARK_Y ? number : "");
        grid_cut(t->out, line, t->columns);
        fputc('\n', t->out);
    }
}

// Names of vertical marks that found no room above the frame.
static void other_marks(const area *a) {
    const textplot *t = a->t;
    int shown = 0, more = 0;
    for (size_t i = 0; i < t->f->n_marks; i++) {
        const mark *m = &t->f->marks[i];
        double place = axes_place(&a->x, m->value);
        if (m->kind != MARK_X || !*m->label || !(place >= 0 && place <= 1) ||
            (i < 64 && a->named >> i & 1))
            continue;
        if (shown == 4) {
            more++;
            continue;
        }
        char name[200], number[48], line[300];
        grid_escape(m->label, t->utf8, name, sizeof name);
        text_number_short(m->value, number, sizeof number);
        snprintf(line, sizeof line, "  %s  %s = %s", t->utf8 ? "\u250a" : ":", name, number);
        grid_cut(t->out, line, t->columns);
        fputc('\n', t->out);
        shown++;
    }
    if (more)
        text_say(t, "     and %d more", more);
}

static void footer(const area *a) {
    const axes_span *s[2] = {&a->x_span, &a->y_span};
    for (int i = 0; i < 2; i++)
        if (s[i]->not_shown)
            text_say(a->t, "Log axis %s: %zu value%s zero or negative and not shown.",
                     i ? "y" : "x", s[i]->not_shown, s[i]->not_shown == 1 ? " is" : "s are");
}

// Clouds of points that no colour tells apart stand side by side, when there is room for each.
enum { LEAST_PANEL = 16, PANEL_GAP = 3 };

static int count_panels(const textplot *t) {
    int n = (int)t->f->n_series;
    bool apart = t->f->kind == FIG_SCATTER && t->utf8 && !t->colour && n > 1 &&
                 t->f->n_series < 8 && t->columns / n >= LEAST_PANEL + PANEL_GAP;
    return apart ? n : 1;
}

static bool choose_letters(const textplot *t, int panels) {
    if (t->f->n_series < 2 || panels > 1)
        return false;
    return t->f->kind == FIG_SCATTER ? !(t->utf8 && t->colour) : !t->utf8;
}

static const char *why_empty(const area *a) {
    for (size_t i = 0; i < a->t->f->n_series; i++) {
        if (a->t->f->series[i].n == 0)
            continue;
        return a->x_span.not_shown || a->y_span.not_shown
                   ? "no positive value: a log axis cannot show this"
               : a->t->f->all_nan ? a->t->f->all_nan
                                  : "no data: nothing was measured, every value is NaN";
    }
    return "no data";
}

static bool draw(const textplot *t, err *e) {
    const figure *f = t->f;
    int panels = count_panels(t);
    area a = {.t = t, .letters = choose_letters(t, panels)};
    axes_of_figure(f, &a.x, &a.y, &a.x_span, &a.y_span);
    if (a.x.empty || a.y.empty) {
        text_nothing(t, why_empty(&a));
        footer(&a);
        return true;
    }
    a.h = t->rows;
    for (size_t i = 0; i < f->n_marks; i++) // a row for the names of vertical marks
        a.top |= f->marks[i].kind == MARK_X;
    a.top |= panels > 1;
    axes_ticks_room(&a.y, &f->y, a.h / 3, a.h / 2, !t->utf8);
    a.left = text_label_width(&a.y) + 2;
    a.w = (t->columns - a.left) / panels - (f->n_series > 1 ? PANEL_GAP : 1);
    if (f->equal_scale && a.x.scale == SCALE_LINEAR && a.y.scale == SCALE_LINEAR) {
        make_equal(&a);
        axes_ticks_room(&a.y, &f->y, a.h / 3, a.h / 2, !t->utf8);
        a.left = text_label_width(&a.y) + 2;
    }
    axes_ticks(&a.x, &f->x, a.w / (panels > 1 ? 8 : 11), !t->utf8);
    if (!grid_open(&a.g, t->columns, a.top + a.h + TEXT_X_ROWS, t->utf8, t->colour, e))
        return false;
    for (int k = 0, first = a.left; k < panels; k++) {
        a.left = first + k * (a.w + PANEL_GAP);
        for (int faint = 1; faint >= 0; faint--)
            for (size_t i = 0; i < f->n_series; i++)
                if ((f->series[i].style == STYLE_FAINT) == faint && (panels == 1 || i == (size_t)k))
                    draw_series(&a, i);
        draw_marks(&a);
        if (panels > 1)
            grid_put(&a.g, a.left + a.w / 2, 0, (uint32_t)text_letter((size_t)k), GRID_PLAIN);
        axes bare = a.y;
        bare.n = k ? 0 : a.y.n;
        text_y_axis(&a.g, &bare, a.left, a.top, a.h);
        text_x_axis(&a.g, &a.x, a.left, a.w, a.top + a.h);
    }
    if (f->kind == FIG_CURVES)
        draw_ends(&a);
    text_title_above(t, &a.y);
    grid_print(&a.g, t->out);
    grid_close(&a.g);
    text_title_below(t, &a.x, a.left - (panels - 1) * (a.w + PANEL_GAP),
                     panels * (a.w + PANEL_GAP) - PANEL_GAP);
    legend(&a);
    other_marks(&a);
    footer(&a);
    return true;
}

bool text_curves(const textplot *t, err *e) {
    // The same figure without its context, unless there is nothing else.
    figure rest = *t->f;
    textplot inner = *t;
    rest.n_series = 0;
    rest.series = mem_alloc(t->f->n_series, sizeof *rest.series, "a text plot", e);
    if (!rest.series)
        return false;
    for (size_t i = 0; i < t->f->n_series; i++)
        if (!is_context(t, &t->f->series[i])) {
            series *s = &rest.series[rest.n_series++];
            *s = t->f->series[i];
            s->lo = s->hi = NULL; // bands are not drawn: they do not stretch the axis either
        }
    if (rest.n_series)
        inner.f = &rest;
    bool ok = draw(&inner, e);
    for (size_t i = 0; ok && rest.n_series && i < t->f->n_series; i++) {
        char name[512], line[600];
        if (!is_context(t, &t->f->series[i]) || !*t->f->series[i].name || t->f->series[i].silent)
            continue;
        grid_escape(t->f->series[i].name, t->utf8, name, sizeof name);
        snprintf(line, sizeof line, "  (not drawn: %s)", name);
        grid_cut(t->out, line, t->columns);
        fputc('\n', t->out);
    }
    free(rest.series);
    return ok;
}
