#include "cli/text/textplot.h"

#include "cli/text/part.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

int text_colour(const textplot *t, size_t i) {
    // The nearest of the 256 colours to blue, vermillion, green, purple, sky, orange and yellow.
    static const int16_t near[] = {32, 166, 36, 175, 74, 178, 227};
    if (!t->colour)
        return GRID_PLAIN;
    if (t->f->series[i].style == STYLE_FAINT)
        return TEXT_GREY;
    size_t line = 0; // faint series take no colour of their own
    for (size_t k = 0; k < i; k++)
        line += t->f->series[k].style != STYLE_FAINT;
    if (t->f->series[i].colour >= 0)
        line = (size_t)t->f->series[i].colour;
    return near[line % (sizeof near / sizeof *near)];
}

char text_letter(size_t i) {
    return i < 26 ? (char)('a' + i) : i < 52 ? (char)('A' + i - 26) : '#';
}

int text_label_width(const axes *a) {
    int w = 0;
    for (int i = 0; i < a->n; i++) {
        int one = grid_width(a->tick[i].label);
        w = one > w ? one : w;
    }
    return w;
}

void text_y_axis(grid *g, const axes *y, int left, int top, int h) {
    for (int r = 0; r < h; r++)
        grid_put(g, left - 1, top + r, g->utf8 ? 0x2502 : '|', GRID_PLAIN);
    for (int i = 0; i < y->n; i++) {
        const axes_tick *t = &y->tick[i];
        int r = (int)floor(lround((1 - axes_place(y, t->at)) * (4 * h - 1)) / 4.0); // as dots do
        if (!*t->label || r < 0 || r >= h)
            continue;
        grid_put(g, left - 1, top + r, g->utf8 ? 0x2524 : '+', GRID_PLAIN);
        grid_text(g, left - 1 - grid_width(t->label), top + r, t->label, -1, GRID_PLAIN);
    }
}

void text_x_axis(grid *g, const axes *x, int left, int w, int y) {
    grid_put(g, left - 1, y, g->utf8 ? 0x2514 : '+', GRID_PLAIN);
    for (int c = 0; c < w; c++)
        grid_put(g, left + c, y, g->utf8 ? 0x2500 : '-', GRID_PLAIN);
    int end = -1;
    for (int i = 0; i < x->n; i++) {
        const axes_tick *t = &x->tick[i];
        int c = (int)lround(axes_place(x, t->at) * (w - 1));
        if (!*t->label || c < 0 || c >= w)
            continue;
        int half = grid_width(t->label), at = left + c - half / 2;
        if (at + half > g->w)
            at = g->w - half;
        if (at < 0)
            at = 0;
        if (at <= end)
            continue;
        grid_put(g, left + c, y, g->utf8 ? 0x252c : '+', GRID_PLAIN);
        grid_text(g, at, y + 1, t->label, -1, GRID_PLAIN);
        end = at + half;
    }
}

void text_title_above(const textplot *t, const axes *y) {
    char line[2 * AXES_TITLE];
    grid_cut(t->out, grid_spell(y->title, t->utf8, line, sizeof line), t->columns);
    fputc('\n', t->out);
}

void text_title_below(const textplot *t, const axes *x, int left, int w) {
    char line[2 * AXES_TITLE];
    if (!*x->title)
        return;
    grid_spell(x->title, t->utf8, line, sizeof line);
    int pad = left + (w - grid_width(line)) / 2;
    if (pad < 0)
        pad = 0;
    fprintf(t->out, "%*s", pad, "");
    grid_cut(t->out, line, t->columns - pad);
    fputc('\n', t->out);
}

char *text_number_short(double x, char *buf, size_t size) {
    text_real(x, 4, buf, size);
    return buf;
}

void text_say(const textplot *t, const char *fmt, ...) {
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    grid_wrap(t->out, line, t->columns, t->utf8);
}

bool text_nothing(const textplot *t, const char *why) {
    text_say(t, "(%s)", why);
    return !ferror(t->out);
}

bool textplot_print(const figure *f, int columns, int rows, bool utf8, bool colour, FILE *out,
                    err *e) {
    textplot t = {.f = f, .utf8 = utf8, .colour = colour, .out = out};
    t.columns = columns < 24 ? 24 : columns > 400 ? 400 : columns;
    t.rows = rows < 4 ? 4 : rows > 200 ? 200 : rows;
    if (colour)
        fputs("\033[1m", out);
    grid_line(out, f->title, t.columns, utf8);
    if (colour)
        fputs("\033[0m", out);
    grid_wrap(out, f->subtitle, t.columns, utf8);
    bool ok = false;
    switch (f->kind) {
    case FIG_CURVES:
    case FIG_SCATTER:
        ok = text_curves(&t, e);
        break;
    case FIG_HEATMAP:
        ok = text_heat(&t, e);
        break;
    case FIG_HIST:
        ok = text_hist(&t, e);
        break;
    case FIG_BARS:
        ok = text_bars(&t, e);
        break;
    case FIG_TABLE:
        ok = text_table(&t, e);
        break;
    }
    for (size_t i = 0; ok && i < f->n_notes; i++)
        grid_wrap(out, f->notes[i], t.columns, utf8);
    if (ok && ferror(out))
        ok = err_set(e, ERR_IO, "cannot write a text plot");
    return ok;
}
