// Names of series: at the ends of up to four curves when there is room, else in a free corner of
// the frame, else to the right of it, else below.
#include "cli/plot/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SWATCH = 20, GAP = 5, LONGEST = 230, END_LONGEST = 92, MARGIN = 6 };
static const double END_LEADING = 9.5;

static void add(panel *p, const char *text, look l, entry_kind kind) {
    legend *g = &p->legend;
    if (g->n == LEGEND_MAX)
        return;
    legend_entry *x = &g->v[g->n++];
    *x = (legend_entry){.look = l, .kind = kind, .value = NAN};
    char whole[sizeof x->text];
    canvas_escape(p->c, text, whole, sizeof whole);
    canvas_fit(p->c, whole, LONGEST, &text_legend, x->text, sizeof x->text);
}

static entry_kind kind_of(const figure *f, const series *s) {
    if (f->kind == FIG_SCATTER || s->style == STYLE_POINTS)
        return ENTRY_POINT;
    return f->kind == FIG_CURVES ? ENTRY_LINE : ENTRY_FILL;
}

// One entry for each kind of band: in the series' colour when it is the only one, else grey.
static void collect_bands(panel *p) {
    const figure *f = p->f;
    for (size_t i = 0; i < f->n_series; i++) {
        const char *band = f->series[i].lo ? f->series[i].band : NULL;
        if (!band || !*band)
            continue;
        bool seen = false, shared = false;
        for (size_t k = 0; k < f->n_series; k++) {
            bool same =
                k != i && f->series[k].lo && f->series[k].band && !strcmp(f->series[k].band, band);
            seen |= same && k < i;
            shared |= same;
        }
        look l = panel_look(p, i);
        if (shared)
            l.colour = (rgb){0.3, 0.3, 0.3};
        if (!seen)
            add(p, band, l, ENTRY_BAND);
    }
}

// The last value of a curve, when the curve reaches the right end of the axis.
static double end_value(const panel *p, const series *s) {
    for (size_t i = s->n; i-- > 0;) {
        double place = axes_place(&p->x, s->x[i]), y = axes_place(&p->y, s->y[i]);
        if (isnan(place) || isnan(y))
            continue;
        return place > 0.97 && place < 1.01 && y >= 0 && y <= 1 ? s->y[i] : NAN;
    }
    return NAN;
}

static bool is_named(const series *s) {
    return s->name[0] && !s->silent;
}

static bool wants_end(const series *s) {
    return s->style == STYLE_LINE && is_named(s);
}

// All or none: some names at the ends and others in a box would be two legends.
static bool collect_ends(panel *p) {
    const figure *f = p->f;
    int named = 0;
    for (size_t i = 0; i < f->n_series; i++)
        named += wants_end(&f->series[i]);
    if (f->kind != FIG_CURVES || named < 1 || named > LEGEND_ENDS || p->box.w < 240)
        return false;
    p->n_end = 0;
    p->end_width = 0;
    for (size_t i = 0; i < f->n_series; i++) {
        const series *s = &f->series[i];
        if (!wants_end(s))
            continue;
        legend_entry *x = &p->end[p->n_end++];
        *x = (legend_entry){.look = panel_look(p, i), .value = end_value(p, s)};
        canvas_escape(p->c, s->name, x->text, sizeof x->text);
        text_style bold = text_legend;
        double w = canvas_text_width(p->c, x->text, &bold);
        p->end_width = fmax(p->end_width, w);
        if (isnan(x->value) || w > END_LONGEST)
            return false;
    }
    return true;
}

// Keeps n entries, the last of which then says how many names are missing.
static void cut_entries(panel *p, int n) {
    size_t names = 0;
    for (size_t i = 0; i < p->f->n_series; i++)
        names += is_named(&p->f->series[i]);
    if (names < (size_t)n)
        return;
    p->legend.n = n;
    legend_entry *last = &p->legend.v[n - 1];
    last->look.alpha = 0; // no swatch
    last->kind = ENTRY_LINE;
    snprintf(last->text, sizeof last->text, "and %zu more", names - (size_t)n + 1);
}

void legend_collect(panel *p) {
    const figure *f = p->f;
    p->legend = (legend){.columns = 1};
    bool ends = collect_ends(p);
    if (!ends)
        p->n_end = 0;
    for (size_t i = 0; i < f->n_series; i++)
        if (is_named(&f->series[i]) && !(ends && wants_end(&f->series[i])))
            add(p, f->series[i].name, panel_look(p, i), kind_of(f, &f->series[i]));
    collect_bands(p);
    if (p->legend.n == LEGEND_MAX)
        cut_entries(p, LEGEND_MAX);
    for (int i = 0; i < p->legend.n; i++)
        p->legend.width =
            fmax(p->legend.width,
                 SWATCH + GAP + canvas_text_width(p->c, p->legend.v[i].text, &text_legend));
    p->legend.where = p->legend.n ? LEGEND_INSIDE : LEGEND_NONE;
}

double legend_right(const panel *p) {
    double ends = p->n_end ? p->end_width + 6 : 0;
    return ends + (p->legend.where == LEGEND_RIGHT ? p->legend.width + 10 : 0);
}

static int rows_of(const legend *g) {
    return (g->n + g->columns - 1) / g->columns;
}

double legend_below(const panel *p) {
    return p->legend.where == LEGEND_BELOW ? rows_of(&p->legend) * LEGEND_LEADING + 4 : 0;
}

bool legend_fits_inside(panel *p) {
    legend *g = &p->legend;
    rect f = p->frame;
    double w = g->width + 2 * MARGIN, h = g->n * LEGEND_LEADING + 4;
    if (w > f.w - 12 || h > f.h - 12)
        return false;
    for (int corner = 0; corner < 4; corner++) {
        bool left = corner == 1 || corner == 3, low = corner >= 2;
        rect box = {left ? f.x + 4 : f.x + f.w - 4 - w, low ? f.y + f.h - 4 - h : f.y + 4, w, h};
        bool taken = busy_at(p, box, BUSY_DATA | BUSY_MARK);
        for (size_t i = 0; i < p->f->n_marks && i < PANEL_MARKS; i++) {
            rect m = p->mark[i].box;
            taken |= p->mark[i].label && m.x < box.x + w && box.x < m.x + m.w && m.y < box.y + h &&
                     box.y < m.y + m.h;
        }
        if (taken)
            continue;
        g->x = box.x + MARGIN;
        g->y = box.y + 2;
        return true;
    }
    return false;
}

void legend_move_outside(panel *p) {
    legend *g = &p->legend;
    bool right =
        legend_right(p) + g->width + 10 < 0.38 * p->box.w && g->n * LEGEND_LEADING < p->frame.h;
    g->where = right ? LEGEND_RIGHT : LEGEND_BELOW;
    if (right)
        return;
    g->columns = (int)(p->box.w / (g->width + 12));
    if (g->columns < 1)
        g->columns = 1;
    if (g->columns > g->n)
        g->columns = g->n;
    // Names may take a third of the panel, not more.
    int most = (int)(p->box.h / 3 / LEGEND_LEADING);
    most = most < 1 ? 1 : most;
    if (rows_of(g) > most)
        cut_entries(p, most * g->columns);
}

void legend_place_ends(panel *p) {
    int order[LEGEND_ENDS];
    for (int i = 0; i < p->n_end; i++) {
        p->end_y[i] = panel_y(p, p->end[i].value);
        int k = i;
        for (; k > 0 && p->end_y[order[k - 1]] > p->end_y[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    // Push apart from the top, then back up from the foot of the frame.
    for (int k = 1; k < p->n_end; k++)
        p->end_y[order[k]] = fmax(p->end_y[order[k]], p->end_y[order[k - 1]] + END_LEADING);
    double foot = p->frame.y + p->frame.h + 3;
    for (int k = p->n_end - 1; k >= 0; k--) {
        p->end_y[order[k]] = fmin(p->end_y[order[k]], foot);
        foot = p->end_y[order[k]] - END_LEADING;
    }
}

static void swatch(panel *p, const legend_entry *x, double left, double mid) {
    cairo_t *cr = p->c->cr;
    int n = 0;
    const double *dash = palette_dash(x->look.dash, &n);
    canvas_colour(p->c, x->look.colour, x->kind == ENTRY_BAND ? 0.2 : x->look.alpha);
    switch (x->kind) {
    case ENTRY_LINE:
        cairo_set_dash(cr, dash, n, 0);
        cairo_set_line_width(cr, fmax(1, x->look.width));
        cairo_move_to(cr, left, mid);
        cairo_line_to(cr, left + SWATCH, mid);
        cairo_stroke(cr);
        cairo_set_dash(cr, NULL, 0, 0);
        break;
    case ENTRY_POINT:
        canvas_colour(p->c, x->look.colour, 1);
        canvas_marker(p->c, x->look.marker, left + SWATCH / 2.0, mid, 2.6);
        cairo_fill(cr);
        break;
    case ENTRY_BAND:
        if (p->f->kind == FIG_BARS) { // a whisker
            canvas_colour(p->c, (rgb){0.2, 0.2, 0.2}, 1);
            canvas_rule(p->c, left + SWATCH / 2.0, mid - 4, left + SWATCH / 2.0, mid + 4, 0.8);
            canvas_rule(p->c, left + 7, mid - 4, left + SWATCH - 7, mid - 4, 0.8);
            canvas_rule(p->c, left + 7, mid + 4, left + SWATCH - 7, mid + 4, 0.8);
            break;
        }
        cairo_rectangle(cr, left + 2, mid - 3.5, SWATCH - 4, 7);
        cairo_fill(cr);
        break;
    case ENTRY_FILL:
        cairo_rectangle(cr, left + 2, mid - 3.5, SWATCH - 4, 7);
        if (x->kind == ENTRY_FILL && p->f->kind == FIG_HIST) {
            canvas_colour(p->c, x->look.colour, 0.3);
            cairo_fill_preserve(cr);
            canvas_colour(p->c, x->look.colour, 1);
            cairo_set_dash(cr, dash, n, 0);
            cairo_set_line_width(cr, 1.1);
            cairo_stroke(cr);
            cairo_set_dash(cr, NULL, 0, 0);
        } else {
            cairo_fill(cr);
        }
        break;
    }
}

void legend_draw(panel *p) {
    for (int i = 0; i < p->n_end; i++) {
        text_style t = text_legend;
        t.colour = p->end[i].look.colour;
        double x = p->frame.x + p->frame.w + 5;
        canvas_text(p->c, p->end[i].text, x, p->end_y[i], 0, 0.5, &t);
    }
    legend *g = &p->legend;
    if (g->where == LEGEND_NONE)
        return;
    if (g->where == LEGEND_RIGHT) {
        g->x = p->frame.x + p->frame.w + 10 + (p->n_end ? p->end_width + 6 : 0);
        g->y = p->frame.y;
    }
    int rows = rows_of(g);
    for (int i = 0; i < g->n; i++) {
        double x = g->x + i / rows * (g->width + 12);
        double mid = g->y + (i % rows + 0.5) * LEGEND_LEADING;
        swatch(p, &g->v[i], x, mid);
        canvas_text(p->c, g->v[i].text, x + SWATCH + GAP, mid, 0, 0.5, &text_legend);
    }
}
