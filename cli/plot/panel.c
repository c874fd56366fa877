#include "cli/plot/panel.h"

#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const text_style text_tick = {8.5, false, {0.2, 0.2, 0.2}, 0, false};
const text_style text_axis = {9.5, false, {0.1, 0.1, 0.1}, 0, false};
const text_style text_title = {11, true, {0, 0, 0}, 0, false};
const text_style text_subtitle = {8.5, false, {0.4, 0.4, 0.4}, 0, false};
const text_style text_note = {7.5, false, {0.4, 0.4, 0.4}, 0, false};
const text_style text_legend = {8.5, false, {0.1, 0.1, 0.1}, 0, false};

enum { TITLE_LEADING = 13, EDGE = 9, TITLE_LINES = 2, NOTE_LINES = 3 };

double panel_x(const panel *p, double x) {
    return p->frame.x + axes_place(&p->x, x) * p->frame.w;
}

double panel_y(const panel *p, double y) {
    return p->frame.y + (1 - axes_place(&p->y, y)) * p->frame.h;
}

rect panel_reach(const panel *p) {
    const double more = 20;
    rect f = p->frame;
    return (rect){f.x - more, f.y - more, f.w + 2 * more, f.h + 2 * more};
}

void panel_clip(const panel *p) {
    cairo_save(p->c->cr);
    cairo_rectangle(p->c->cr, p->frame.x, p->frame.y - 1, p->frame.w + 1, p->frame.h + 2);
    cairo_clip(p->c->cr);
}

// Colour -1 takes the next one that nobody has asked for by number.
static int colour_of(const figure *f, size_t which) {
    int next = 0;
    for (size_t i = 0;; i++) {
        const series *s = &f->series[i];
        if (s->colour >= 0 || s->style == STYLE_FAINT) {
            if (i == which)
                return s->colour;
            continue;
        }
        for (bool taken = true; taken; next += taken) {
            taken = false;
            for (size_t k = 0; k < f->n_series && next < PALETTE_SERIES; k++)
                taken |= f->series[k].style != STYLE_FAINT && f->series[k].colour == next;
        }
        if (i == which)
            return next;
        next++;
    }
}

look look_of(const figure *f, size_t which) {
    const series *s = &f->series[which];
    int k = colour_of(f, which);
    look l = {palette_series(k), 1, 1.5, k < 0 ? 0 : k % 4, k < 0 ? 0 : k % 4};
    if (k >= PALETTE_SERIES)
        l.dash = (k + k / PALETTE_SERIES) % 4;
    if (s->style == STYLE_FAINT) {
        l.dash = 0;
        l.width = 0.7;
        l.alpha = k < 0 ? 1 : 0.35;
        if (k < 0)
            l.colour = (rgb){0.72, 0.72, 0.72};
    }
    return l;
}

look panel_look(const panel *p, size_t which) {
    look l = look_of(p->f, which);
    if (p->solid)
        l.dash = 0;
    return l;
}

char *panel_number(double x, char *buf, size_t size) {
    char raw[48];
    text_real(fabs(x), 4, raw, sizeof raw);
    snprintf(buf, size, "%s%s", x < 0 ? "\u2212" : "", raw);
    return buf;
}

void panel_note(panel *p, const char *fmt, ...) {
    if (p->n_notes == PANEL_NOTES)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->note[p->n_notes++], PANEL_NOTE, fmt, ap);
    va_end(ap);
}

static void collect_notes(panel *p) {
    const figure *f = p->f;
    p->n_notes = 0;
    for (size_t i = 0; i < f->n_notes && i < PANEL_NOTES - 4; i++)
        canvas_escape(p->c, f->notes[i], p->note[p->n_notes++], PANEL_NOTE);
    const axes_span *span[2] = {&p->x_span, &p->y_span};
    for (int i = 0; i < 2; i++)
        if (span[i]->not_shown)
            panel_note(p, "Log axis %s: %zu value%s zero or negative and not shown.", i ? "y" : "x",
                       span[i]->not_shown, span[i]->not_shown == 1 ? " is" : "s are");
    if (f->kind == FIG_HEATMAP && f->heat)
        heat_notes(p);
    size_t gone = 0, bars = f->n_series * f->n_category;
    for (size_t i = 0; f->kind == FIG_BARS && i < f->n_series; i++)
        for (size_t b = 0; b < f->series[i].n && b < f->n_category; b++)
            gone += isnan(f->series[i].y[b]);
    if (gone)
        panel_note(p, "Not measured: %zu of %zu bars.", gone, bars);
}

static int paragraph(panel *p, const char *s, double y, double leading, int lines, bool draw,
                     const text_style *t) {
    char whole[1024];
    canvas_escape(p->c, s, whole, sizeof whole);
    return canvas_paragraph(p->c, whole, p->box.x, y, p->box.w, leading, lines, draw, t);
}

// Title and subtitle; returns the height they take.
static double head(panel *p, bool draw) {
    double y = p->box.y;
    int n = paragraph(p, p->f->title, y + 10, TITLE_LEADING, TITLE_LINES, draw, &text_title);
    y += n * TITLE_LEADING;
    n = paragraph(p, p->f->subtitle, y + 8.5, SUBTITLE_LEADING, TITLE_LINES, draw, &text_subtitle);
    return y + n * SUBTITLE_LEADING - p->box.y + 7;
}

static double foot(panel *p, double y, bool draw) {
    int lines = 0;
    for (int i = 0; i < p->n_notes; i++)
        lines += canvas_paragraph(p->c, p->note[i], p->box.x, y + 8 + lines * NOTE_LEADING,
                                  p->box.w, NOTE_LEADING, NOTE_LINES, draw, &text_note);
    return lines ? lines * NOTE_LEADING + 3 : 0;
}

// Equal lengths for equal numbers on both axes: the frame gives way, not the data.
static void make_equal(panel *p) {
    double ux = p->x.hi - p->x.lo, uy = p->y.hi - p->y.lo;
    double per = fmin(p->frame.w / ux, p->frame.h / uy);
    // A long thin cloud would leave a sliver: widen the short axis to a third of the long one.
    double w = fmax(per * ux, fmin(p->frame.w, per * uy / 3));
    double h = fmax(per * uy, fmin(p->frame.h, per * ux / 3));
    double mx = (p->x.lo + p->x.hi) / 2, my = (p->y.lo + p->y.hi) / 2;
    p->x.lo = mx - w / per / 2, p->x.hi = mx + w / per / 2;
    p->y.lo = my - h / per / 2, p->y.hi = my + h / per / 2;
    p->frame.w = w;
    p->frame.h = h;
}

// On an equal scale both axes are divided alike. Lines of text have room every 14 points.
static void ticks_upwards(const panel *p, axes *a, const axis *spec) {
    axes_ticks_room(a, spec, (int)(p->frame.h / (p->f->equal_scale ? 36 : 30)),
                    (int)(p->frame.h / 14), false);
}

static double bar_room(panel *p) {
    if (p->f->kind != FIG_HEATMAP || !p->f->heat || p->value.empty)
        return 0;
    ticks_upwards(p, &p->value, &p->f->heat->value);
    double w = 0;
    for (int i = 0; i < p->value.n; i++)
        w = fmax(w, canvas_text_width(p->c, p->value.tick[i].label, &text_tick));
    return 10 + 10 + 5 + w + 16;
}

// Limits, ticks and the frame for the legend's present place.
static void layout(panel *p) {
    axes_of_figure(p->f, &p->x, &p->y, &p->x_span, &p->y_span);
    if (p->f->kind == FIG_HEATMAP && p->f->heat && p->f->heat->row_label)
        p->y.lo = 0, p->y.hi = p->f->heat->rows ? (double)p->f->heat->rows : 1;
    axes_x_ticks(&p->x, p->f, 6, false); // for the title; the right number comes below
    if (p->f->kind == FIG_HEATMAP && p->f->heat)
        heat_limits(p);
    collect_notes(p);
    double top = head(p, false), bottom = foot(p, 0, false) + legend_below(p) + frame_bottom(p);
    p->frame.y = p->box.y + top;
    p->frame.h = p->box.h - top - bottom;
    ticks_upwards(p, &p->y, &p->f->y);
    double left = frame_left(p), right = fmax(10, legend_right(p)) + bar_room(p);
    p->frame.x = p->box.x + left;
    p->frame.w = p->box.w - left - right;
    bool linear = p->x.scale == SCALE_LINEAR && p->y.scale == SCALE_LINEAR;
    if (p->f->equal_scale && linear && p->frame.w > 0 && p->frame.h > 0) {
        make_equal(p);
        ticks_upwards(p, &p->y, &p->f->y);
    }
    canvas_snap(p->c, &p->frame);
    frame_x_ticks(p);
}

static const char *why_empty(const panel *p) {
    bool points = false;
    for (size_t i = 0; i < p->f->n_series; i++)
        points |= p->f->series[i].n > 0;
    if (p->f->kind == FIG_HEATMAP)
        points = p->f->heat && p->f->heat->rows * p->f->heat->cols > 0;
    if (!points)
        return "no data";
    if (p->x_span.not_shown || p->y_span.not_shown)
        return "no positive value: a log axis cannot show this";
    return p->f->all_nan ? p->f->all_nan : "no data: nothing was measured (every value is NaN)";
}

static bool is_empty(const panel *p) {
    if (p->f->kind == FIG_HEATMAP)
        return !p->f->heat || p->value.empty;
    return p->x.empty || p->y.empty;
}

static bool draw_data(panel *p, err *e) {
    switch (p->f->kind) {
    case FIG_CURVES:
        curves_draw(p);
        return true;
    case FIG_SCATTER:
        return scatter_draw(p, e);
    case FIG_HIST:
        hist_draw(p);
        return true;
    case FIG_BARS:
        bars_draw(p);
        return true;
    case FIG_HEATMAP:
        return heat_draw(p, e);
    case FIG_TABLE:
        break;
    }
    return true;
}

static bool draw_all(panel *p, err *e) {
    head(p, true);
    if (p->frame.w < 12 || p->frame.h < 12) // a page too small for a frame: the title is all
        return true;
    double below = p->frame.y + p->frame.h + frame_bottom(p);
    if (p->legend.where == LEGEND_BELOW) {
        p->legend.x = p->box.x;
        p->legend.y = below + 3;
    }
    foot(p, below + legend_below(p) + 2, true);
    if (is_empty(p)) {
        canvas_colour(p->c, (rgb){0.96, 0.96, 0.96}, 1);
        cairo_rectangle(p->c->cr, p->frame.x, p->frame.y, p->frame.w, p->frame.h);
        cairo_fill(p->c->cr);
        p->x.n = p->y.n = 0; // made-up limits are not labelled
        frame_draw(p);
        text_style t = text_axis;
        t.colour = (rgb){0.35, 0.35, 0.35};
        char line[200];
        canvas_fit(p->c, why_empty(p), p->frame.w - 8, &t, line, sizeof line);
        canvas_text(p->c, line, p->frame.x + p->frame.w / 2, p->frame.y + p->frame.h / 2, 0.5, 0.5,
                    &t);
        return true;
    }
    marks_place(p);
    legend_place_ends(p);
    frame_draw_grid(p);
    if (p->f->kind != FIG_HEATMAP)
        marks_draw_lines(p);
    if (!draw_data(p, e))
        return false;
    if (p->f->kind == FIG_HEATMAP) {
        marks_draw_lines(p);
        heat_draw_bar(p, p->frame.x + p->frame.w + 10);
    }
    frame_draw(p);
    marks_draw_labels(p);
    legend_draw(p);
    return true;
}

static bool draw_panel(canvas *c, const figure *f, const plot_options *o, rect box, bool solid,
                       err *e) {
    panel *p = mem_zalloc(1, sizeof *p, "a panel of a picture", e);
    if (!p)
        return false;
    p->c = c;
    p->f = f;
    p->o = o;
    p->solid = solid;
    p->box = (rect){box.x + EDGE, box.y + EDGE, box.w - 2 * EDGE, box.h - 2 * EDGE};
    axes_of_figure(f, &p->x, &p->y, &p->x_span, &p->y_span);
    legend_collect(p);
    if (f->equal_scale && p->legend.n) // an equal scale leaves room at the side
        p->legend.where = LEGEND_RIGHT;
    layout(p);
    if (f->kind == FIG_HEATMAP)
        layout(p); // the notes depend on the frame, and the frame on the notes
    busy_fill(p);
    marks_place(p);
    if (p->legend.where == LEGEND_INSIDE && !legend_fits_inside(p)) {
        legend_move_outside(p);
        layout(p);
        busy_fill(p);
    }
    bool ok = draw_all(p, e);
    free(p);
    return ok;
}

// Text of the usual size would leave a small panel no room for data: below 4.4 x 3 inches
// everything shrinks with the panel, to 60% at most.
bool panel_draw(canvas *c, const figure *f, const plot_options *o, rect box, bool solid, err *e) {
    double shrink = fmax(0.6, fmin(1, fmin(box.w / 317, box.h / 216))), scale = c->scale;
    cairo_save(c->cr);
    cairo_scale(c->cr, shrink, shrink);
    c->scale *= shrink;
    rect larger = {box.x / shrink, box.y / shrink, box.w / shrink, box.h / shrink};
    bool ok = draw_panel(c, f, o, larger, solid, e);
    c->scale = scale;
    cairo_restore(c->cr);
    return ok;
}
