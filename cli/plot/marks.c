// Reference lines: train length, document starts, chance level, |z| = 1. The name stands at the
// line, where neither data nor another name is.
#include "cli/plot/panel.h"

#include <math.h>
#include <string.h>

static const rgb ink = {0.25, 0.25, 0.25};
static const text_style label_style = {7.5, false, {0.2, 0.2, 0.2}, 0, true};

enum { LABEL_TEXT = 160 };

static char *label_of(panel *p, const mark *m, char *buf) {
    return canvas_escape(p->c, m->label, buf, LABEL_TEXT);
}

static bool overlap(rect a, rect b) {
    return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

static bool inside_frame(const panel *p, rect r) {
    return r.x >= p->frame.x && r.x + r.w <= p->frame.x + p->frame.w && r.y >= p->frame.y &&
           r.y + r.h <= p->frame.y + p->frame.h;
}

// Struck through by a horizontal line.
static bool struck(const panel *p, rect box) {
    for (size_t k = 0; k < p->f->n_marks && k < PANEL_MARKS; k++)
        if (p->f->marks[k].kind == MARK_Y) {
            double at = panel_y(p, p->f->marks[k].value);
            if (at > box.y - 1 && at < box.y + box.h + 1)
                return true;
        }
    return false;
}

// A name that lies across another vertical line could be that line's.
static bool crosses(const panel *p, size_t i, rect box) {
    for (size_t k = 0; k < p->f->n_marks && k < PANEL_MARKS; k++)
        if (k != i && p->f->marks[k].kind == MARK_X) {
            double at = panel_x(p, p->f->marks[k].value);
            if (at > box.x - 2 && at < box.x + box.w)
                return true;
        }
    return false;
}

// Takes the box when it is inside and free of other names (strict: and of data).
static bool take(panel *p, size_t i, rect box, bool strict) {
    if (!inside_frame(p, box) || (strict && busy_at(p, box, BUSY_DATA)))
        return false;
    if (strict && p->f->marks[i].kind == MARK_X && struck(p, box))
        return false;
    if (p->f->marks[i].kind == MARK_X && crosses(p, i, box))
        return false;
    for (size_t k = 0; k < i; k++)
        if (p->mark[k].label && overlap(p->mark[k].box, box))
            return false;
    p->mark[i].label = true;
    p->mark[i].box = box;
    return true;
}

static void place_label(panel *p, size_t i, const mark *m, double w) {
    double at = p->mark[i].at, h = 9;
    rect f = p->frame;
    for (int strict = 1; strict >= 0; strict--)
        for (int row = 0; row < 6; row++)
            for (int side = 0; side < 2; side++) {
                rect box = {0, 0, w, h};
                if (m->kind == MARK_X) {
                    // Rows 0 to 2 from the top, then from the foot.
                    box.x = side ? at - 3 - w : at + 3;
                    box.y = row < 3 ? f.y + 2 + row * h : f.y + f.h - 2 - (row - 2) * h;
                } else {
                    // Along the line from the right to the left, above it and below it.
                    box.x = f.x + f.w - 4 - w - row * (f.w - 8 - w) / 5;
                    box.y = side ? at + 1.5 : at - 1.5 - h;
                }
                if (take(p, i, box, strict))
                    return;
            }
}

static void place_circle(panel *p, size_t i, double r, double w) {
    static const double angle[] = {45, 135, -45, -135};
    for (int strict = 1; strict >= 0; strict--)
        for (int k = 0; k < 4; k++) {
            double a = angle[k] * M_PI / 180;
            double x = panel_x(p, r * cos(a)), y = panel_y(p, r * sin(a));
            rect box = {cos(a) > 0 ? x + 2 : x - 2 - w, sin(a) > 0 ? y - 10 : y + 1, w, 9};
            rect f = p->frame;
            box.x = fmin(fmax(box.x, f.x + 2), f.x + f.w - 2 - w);
            if (cos(a) > 0 ? box.x < x + 1 : box.x + w > x - 1) // no room beside it: the corner
                box.y = sin(a) > 0 ? f.y + 2 : f.y + f.h - 11;
            if (take(p, i, box, strict))
                return;
        }
}

// Along the line: from the top, from the foot, on either side.
static void place_turned(panel *p, size_t i, double w) {
    double at = p->mark[i].at, h = 9;
    rect f = p->frame;
    p->mark[i].turned = true;
    for (int strict = 1; strict >= 0; strict--)
        for (int k = 0; k < 4; k++) {
            rect box = {k % 2 ? at - 2 - h : at + 2, k < 2 ? f.y + 3 : f.y + f.h - 3 - w, h, w};
            if (take(p, i, box, strict))
                return;
        }
}

// False when a name of a vertical line found no place.
static bool place_all(panel *p, bool turned) {
    char text[LABEL_TEXT];
    bool all = true;
    for (size_t i = 0; i < p->f->n_marks && i < PANEL_MARKS; i++) {
        const mark *m = &p->f->marks[i];
        p->mark[i] = (mark_place){0};
        double at = m->kind == MARK_X ? panel_x(p, m->value) : panel_y(p, m->value);
        double lo = m->kind == MARK_X ? p->frame.x : p->frame.y;
        double hi = lo + (m->kind == MARK_X ? p->frame.w : p->frame.h);
        p->mark[i].at = at;
        p->mark[i].line =
            m->kind == MARK_CIRCLE ? isfinite(m->value) : at >= lo - 0.5 && at <= hi + 0.5;
        double w = canvas_text_width(p->c, label_of(p, m, text), &label_style);
        if (!p->mark[i].line || !*text)
            continue;
        if (m->kind == MARK_CIRCLE)
            place_circle(p, i, m->value, w);
        else if (turned && m->kind == MARK_X)
            place_turned(p, i, w);
        else
            place_label(p, i, m, w);
        all = all && (p->mark[i].label || m->kind != MARK_X);
    }
    return all;
}

void marks_place(panel *p) {
    if (!place_all(p, false))
        place_all(p, true); // lines too close for names between them
}

void marks_draw_lines(panel *p) {
    cairo_t *cr = p->c->cr;
    static const double dash[] = {4, 2.5};
    rect f = p->frame;
    bool heat = p->f->kind == FIG_HEATMAP;
    panel_clip(p);
    for (size_t i = 0; i < p->f->n_marks && i < PANEL_MARKS; i++) {
        const mark *m = &p->f->marks[i];
        double at = p->mark[i].at;
        if (!p->mark[i].line)
            continue;
        canvas_colour(p->c, heat ? (rgb){1, 1, 1} : ink, 0.9);
        if (m->kind == MARK_CIRCLE) {
            // A polygon, so that it is right on any pair of scales.
            pen pen;
            pen_start(&pen, p->c, panel_reach(p));
            for (int k = 0; k <= 720; k++)
                pen_to(&pen, panel_x(p, m->value * cos(k * M_PI / 360)),
                       panel_y(p, m->value * sin(k * M_PI / 360)));
            cairo_set_line_width(cr, 0.8);
            cairo_stroke(cr);
            continue;
        }
        cairo_set_dash(cr, dash, 2, 0);
        if (m->kind == MARK_X)
            canvas_rule(p->c, at, f.y, at, f.y + f.h, 0.8);
        else
            canvas_rule(p->c, f.x, at, f.x + f.w, at, 0.8);
        cairo_set_dash(cr, NULL, 0, 0);
    }
    cairo_restore(cr);
}

void marks_draw_labels(panel *p) {
    char text[LABEL_TEXT];
    for (size_t i = 0; i < p->f->n_marks && i < PANEL_MARKS; i++) {
        rect box = p->mark[i].box;
        if (!p->mark[i].label)
            continue;
        text_style t = label_style;
        t.angle = p->mark[i].turned ? M_PI / 2 : 0;
        double x = p->mark[i].turned ? box.x + 7 : box.x;
        double y = p->mark[i].turned ? box.y + box.h : box.y + 7;
        canvas_text(p->c, label_of(p, &p->f->marks[i], text), x, y, 0, 0, &t);
    }
}
