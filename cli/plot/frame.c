// The frame around the data, its ticks and labels.
#include "cli/plot/panel.h"

#include <math.h>
#include <string.h>

enum { NAME = 200, TICK_GAP = 5, NAME_WIDTH = 88, SLANTED_WIDTH = 170 };
static const rgb ink = {0.25, 0.25, 0.25}, pale = {0.91, 0.91, 0.91};

static bool has_row_names(const panel *p) {
    return p->f->kind == FIG_HEATMAP && p->f->heat && p->f->heat->row_label;
}

// Name of category or row i, escaped and cut to `most` points; its width.
static double name_at(panel *p, char **names, size_t i, double most, char *buf) {
    char whole[NAME];
    canvas_escape(p->c, names[i], whole, sizeof whole);
    return canvas_text_width(p->c, canvas_fit(p->c, whole, most, &text_tick, buf, NAME),
                             &text_tick);
}

static double widest_name(panel *p, char **names, size_t n, double most) {
    char buf[NAME];
    double w = 0;
    for (size_t i = 0; i < n; i++)
        w = fmax(w, name_at(p, names, i, most, buf));
    return w;
}

// Slanted names stand as steep as lines of text need, so that no two touch.
static double slant(const panel *p) {
    enum { LINE = 10 };
    double need = LINE * (double)p->f->n_category / (0.85 * p->box.w);
    return need >= 1 ? M_PI / 2 : fmax(M_PI / 5, asin(need));
}

// They have the room below: a third of the panel at most.
static double slanted_width(const panel *p) {
    return fmin(SLANTED_WIDTH, p->box.h / 3 / sin(slant(p)));
}

// How far the first slanted names reach to the left of a frame that would begin at the panel's edge.
static double slanted_left(panel *p) {
    size_t n = p->f->n_category;
    double apart = 0.85 * p->box.w / (double)n, left = 0;
    char buf[NAME];
    for (size_t i = 0; i < n; i++) {
        double reach = name_at(p, p->f->category, i, slanted_width(p), buf) * cos(slant(p));
        left = fmax(left, reach - ((double)i + 0.5) * apart);
    }
    return fmin(left, p->box.w / 4);
}

static double widest_tick(panel *p, const axes *a) {
    double w = 0;
    for (int i = 0; i < a->n; i++)
        w = fmax(w, canvas_text_width(p->c, a->tick[i].label, &text_tick));
    return w;
}

double frame_left(panel *p) {
    double title = *p->y.title ? 14 : 0;
    double names = has_row_names(p)
                       ? widest_name(p, p->f->heat->row_label, p->f->heat->rows, NAME_WIDTH)
                       : widest_tick(p, &p->y);
    return fmax(title + names + TICK_GAP + 2, p->tilt > 0 ? slanted_left(p) : 0);
}

double frame_bottom(panel *p) {
    p->tilt = 0;
    double names = 12;
    if (p->f->kind == FIG_BARS && p->f->n_category) {
        double w = widest_name(p, p->f->category, p->f->n_category, slanted_width(p));
        if (w + 6 > 0.85 * p->box.w / (double)p->f->n_category)
            names = p->tilt = w * sin(slant(p)) + 9;
    }
    return 4 + names + (*p->x.title ? 13 : 0);
}

// Every how many names there is room for one. Names like L3.H2 keep to whole groups, so that a
// group's first one is named.
static size_t thin_out(char **names, size_t n, double room, double need) {
    size_t every = (size_t)ceil(need * (double)n / room);
    if (every <= 1)
        return 1;
    const char *dot = strchr(names[0], '.');
    size_t group = 1;
    if (dot)
        while (group < n && !strncmp(names[group], names[0], (size_t)(dot - names[0]) + 1))
            group++;
    if (group <= 1)
        return every;
    if (every > group)
        return (every + group - 1) / group * group;
    while (group % every)
        every++;
    return every;
}

static bool labels_touch(panel *p) {
    double end = -1e9;
    for (int i = 0; i < p->x.n; i++) {
        if (!*p->x.tick[i].label)
            continue;
        double w = canvas_text_width(p->c, p->x.tick[i].label, &text_tick);
        double mid = p->frame.x + axes_place(&p->x, p->x.tick[i].at) * p->frame.w;
        if (mid - w / 2 < end + 7)
            return true;
        end = mid + w / 2;
    }
    return false;
}

void frame_x_ticks(panel *p) {
    // On an equal scale both axes are divided alike.
    double apart = p->f->equal_scale ? 36 : 46;
    for (int want = (int)fmax(2, p->frame.w / apart); want >= 2; want--) {
        axes_x_ticks(&p->x, p->f, want, false);
        if (labels_touch(p))
            continue;
        // One or two labels: perhaps more of them stand closer and still apart.
        for (int more = want + 1; axes_labels(&p->x) < 3 && more <= 2 * want; more++) {
            axes_x_ticks(&p->x, p->f, more, false);
            if (axes_labels(&p->x) < 3 || labels_touch(p))
                axes_x_ticks(&p->x, p->f, want, false);
        }
        return;
    }
}

void frame_draw_grid(panel *p) {
    rect f = p->frame;
    if (p->f->kind == FIG_HEATMAP)
        return;
    canvas_colour(p->c, pale, 1);
    for (int i = 0; i < p->y.n; i++)
        if (*p->y.tick[i].label)
            canvas_rule(p->c, f.x, panel_y(p, p->y.tick[i].at), f.x + f.w,
                        panel_y(p, p->y.tick[i].at), 0.5);
    for (int i = 0; i < p->x.n && p->f->kind != FIG_BARS; i++)
        if (*p->x.tick[i].label)
            canvas_rule(p->c, panel_x(p, p->x.tick[i].at), f.y, panel_x(p, p->x.tick[i].at),
                        f.y + f.h, 0.5);
}

static void x_labels(panel *p) {
    double foot = p->frame.y + p->frame.h;
    for (int i = 0; i < p->x.n; i++) {
        const axes_tick *t = &p->x.tick[i];
        double x = panel_x(p, t->at);
        canvas_colour(p->c, ink, 1);
        canvas_rule(p->c, x, foot, x, foot + (*t->label ? 3.5 : 2), 0.6);
        canvas_text(p->c, t->label, x, foot + TICK_GAP, 0.5, 1, &text_tick);
    }
}

static void x_names(panel *p) {
    size_t n = p->f->n_category;
    double foot = p->frame.y + p->frame.h;
    size_t every = n ? thin_out(p->f->category, n, p->frame.w, 9) : 1;
    char buf[NAME];
    text_style t = text_tick;
    t.angle = p->tilt > 0 ? slant(p) : 0;
    for (size_t i = 0; i < n; i += every) {
        double x = panel_x(p, (double)i + 0.5);
        double room = p->tilt > 0 ? fmin(slanted_width(p), (x + 2 - p->box.x) / cos(t.angle)) : 1e9;
        name_at(p, p->f->category, i, room, buf);
        if (p->tilt > 0)
            canvas_text(p->c, buf, x + 2, foot + TICK_GAP, 1, 0.9, &t);
        else
            canvas_text(p->c, buf, x, foot + TICK_GAP, 0.5, 1, &t);
    }
}

static double y_labels(panel *p) {
    double left = p->frame.x;
    for (int i = 0; i < p->y.n; i++) {
        const axes_tick *t = &p->y.tick[i];
        double y = panel_y(p, t->at);
        canvas_colour(p->c, ink, 1);
        canvas_rule(p->c, left - (*t->label ? 3.5 : 2), y, left, y, 0.6);
        canvas_text(p->c, t->label, left - TICK_GAP, y, 1, 0.5, &text_tick);
    }
    return widest_tick(p, &p->y);
}

static double y_names(panel *p) {
    const heat *h = p->f->heat;
    char buf[NAME];
    size_t every = h->rows ? thin_out(h->row_label, h->rows, p->frame.h, 9) : 1;
    for (size_t i = 0; i < h->rows; i += every) {
        double y = p->frame.y + ((double)i + 0.5) / (double)h->rows * p->frame.h;
        canvas_colour(p->c, ink, 1);
        canvas_rule(p->c, p->frame.x - 2.5, y, p->frame.x, y, 0.6);
        name_at(p, h->row_label, i, NAME_WIDTH, buf);
        canvas_text(p->c, buf, p->frame.x - TICK_GAP, y, 1, 0.5, &text_tick);
    }
    return widest_name(p, h->row_label, h->rows, NAME_WIDTH);
}

void frame_draw(panel *p) {
    rect f = p->frame;
    double foot = f.y + f.h, right = f.x + f.w;
    canvas_colour(p->c, ink, 1);
    canvas_rule(p->c, f.x, f.y, f.x, foot, 0.6);
    canvas_rule(p->c, f.x, foot, right, foot, 0.6);
    if (p->f->kind == FIG_HEATMAP || p->f->equal_scale) {
        canvas_rule(p->c, right, f.y, right, foot, 0.6);
        canvas_rule(p->c, f.x, f.y, right, f.y, 0.6);
    }
    if (p->f->kind == FIG_BARS)
        x_names(p);
    else
        x_labels(p);
    double names = has_row_names(p) ? y_names(p) : y_labels(p);
    char title[AXES_TITLE], whole[AXES_TITLE];
    canvas_known(p->c, p->x.title, whole, sizeof whole);
    canvas_fit(p->c, whole, p->box.w - 8, &text_axis, title, sizeof title);
    double below = p->tilt > 0 ? p->tilt : 12;
    // Centred below the frame, but never beyond the panel.
    double half = canvas_text_width(p->c, title, &text_axis) / 2;
    double mid = fmin(fmax(f.x + f.w / 2, p->box.x + half), p->box.x + p->box.w - half);
    canvas_text(p->c, title, mid, foot + 4 + below + 2, 0.5, 1, &text_axis);
    text_style up = text_axis;
    up.angle = M_PI / 2;
    canvas_known(p->c, p->y.title, whole, sizeof whole);
    // A long title becomes smaller before it is cut: above the frame stands the subtitle.
    while (up.size > 7 && canvas_text_width(p->c, whole, &up) > f.h + 8)
        up.size -= 0.5;
    canvas_fit(p->c, whole, f.h + 8, &up, title, sizeof title);
    canvas_text(p->c, title, f.x - TICK_GAP - names - 6, f.y + f.h / 2, 0.5, 0, &up);
}
