// Histograms as columns of eighth blocks, one strip for each series; bars as horizontal blocks with
// their numbers.
#include "cli/text/part.h"

#include "core/text.h"

#include <math.h>
#include <string.h>

enum { NAME_CELLS = 24 };

// Largest value of the bins that touch [u0, u1) of the frame, NaN when there is none.
static double tallest(const series *s, const axes *x, double u0, double u1) {
    double top = NAN;
    for (size_t b = 0; b < s->n; b++) {
        double from = axes_place(x, s->x[b]), to = axes_place(x, s->x[b + 1]);
        if (from < u1 - 1e-12 && to > u0 + 1e-12)
            top = fmax(top, s->y[b]);
    }
    return top;
}

static void column_of_blocks(grid *g, int x, int top, int h, double share, int colour) {
    int eighths = (int)lround(fmin(fmax(share, 0), 1) * 8 * h);
    if (share > 0 && eighths == 0)
        eighths = 1; // something is there
    for (int r = 0; r < h; r++) {
        int here = eighths - 8 * r;
        if (here <= 0)
            break;
        uint32_t cp = g->utf8 ? 0x2580u + (uint32_t)(here >= 8 ? 8 : here) : here >= 4 ? '#' : '.';
        grid_put(g, x, top + h - 1 - r, cp, colour);
    }
}

static bool strip(const textplot *t, size_t i, const axes *x, axes *y, int h, bool last, err *e) {
    const series *s = &t->f->series[i];
    axes_ticks_room(y, &t->f->y, h / 3, h / 2, !t->utf8);
    int left = text_label_width(y) + 2, w = t->columns - left - 1;
    axes xt = *x;
    axes_ticks(&xt, &t->f->x, w / 11, !t->utf8);
    char name[512];
    grid_escape(s->name, t->utf8, name, sizeof name);
    if (i == 0)
        text_title_above(t, y);
    if (*name && t->f->n_series > 1) {
        fprintf(t->out, "%*s", left, "");
        grid_cut(t->out, name, w);
        fputc('\n', t->out);
    }
    grid g;
    if (!grid_open(&g, t->columns, h + (last ? TEXT_X_ROWS : 1), t->utf8, t->colour, e))
        return false;
    for (int c = 0; c < w; c++) {
        double v = tallest(s, x, (double)c / w, (double)(c + 1) / w);
        if (!isnan(v))
            column_of_blocks(&g, left + c, 0, h, axes_place(y, v), text_colour(t, i));
    }
    for (size_t k = 0; k < t->f->n_marks; k++) {
        const mark *m = &t->f->marks[k];
        int c = (int)lround(axes_place(x, m->value) * (w - 1));
        if (m->kind != MARK_X || c < 0 || c >= w)
            continue;
        for (int r = 0; r < h; r++) {
            grid_cell *cell = grid_at(&g, left + c, r);
            if (cell && !cell->cp)
                grid_put(&g, left + c, r, t->utf8 ? 0x250a : ':', GRID_PLAIN);
        }
    }
    text_y_axis(&g, y, left, 0, h);
    if (!last)
        xt.n = 0;
    text_x_axis(&g, &xt, left, w, h);
    grid_print(&g, t->out);
    grid_close(&g);
    if (last)
        text_title_below(t, &xt, left, w);
    return true;
}

bool text_hist(const textplot *t, err *e) {
    const figure *f = t->f;
    axes x, y;
    axes_span xs, ys;
    axes_of_figure(f, &x, &y, &xs, &ys);
    if (x.empty || y.empty)
        return text_nothing(t, "no data");
    int h = t->rows / (f->n_series > 1 ? (int)f->n_series : 1);
    for (size_t i = 0; i < f->n_series; i++)
        if (!strip(t, i, &x, &y, h < 4 ? 4 : h, i + 1 == f->n_series, e))
            return false;
    for (size_t k = 0; k < f->n_marks; k++) {
        char name[256], number[48], line[400];
        if (f->marks[k].kind != MARK_X)
            continue;
        grid_escape(f->marks[k].label, t->utf8, name, sizeof name);
        text_number_short(f->marks[k].value, number, sizeof number);
        snprintf(line, sizeof line, "  %s  %s = %s", t->utf8 ? "\u250a" : ":", name, number);
        grid_cut(t->out, line, t->columns);
        fputc('\n', t->out);
    }
    return true;
}

// One bar from `zero` to `to`, both 0..1 of w cells. Returns the cells up to its right end.
static int bar(grid *g, int left, int w, double zero, double to, int colour) {
    double a = fmin(zero, to) * w, b = fmax(zero, to) * w;
    int end = 0;
    for (int c = 0; c < w; c++) {
        double part = fmin(b, c + 1) - fmax(a, c);
        if (part < 1.0 / 16)
            continue;
        // Left-aligned eighths fit bars that grow to the right; the left end of others is rounded.
        uint32_t cp = part > 15.0 / 16  ? 0x2588
                      : fmax(a, c) <= c ? 0x2590u - (uint32_t)lround(part * 8)
                      : part >= 0.5     ? 0x2590
                                        : ' ';
        if (!g->utf8)
            cp = part >= 0.5 ? '#' : ' ';
        grid_put(g, left + c, 0, cp, colour);
        end = cp == ' ' ? end : c + 1;
    }
    return end;
}

bool text_bars(const textplot *t, err *e) {
    const figure *f = t->f;
    axes x, y;
    axes_span xs, ys;
    axes_of_figure(f, &x, &y, &xs, &ys);
    if (y.empty || f->n_category == 0)
        return text_nothing(t, "no data");
    char name[512], number[48];
    int left = 0;
    bool several = f->n_series > 1;
    for (size_t c = 0; c < f->n_category; c++) {
        int w = grid_width(grid_escape(f->category[c], t->utf8, name, sizeof name));
        left = w > left ? w : left;
    }
    left = (left > NAME_CELLS ? NAME_CELLS : left) + (several ? 3 : 1);
    int room = t->columns - left - 11;
    double zero = y.scale == SCALE_LINEAR ? fmin(fmax(axes_place(&y, 0), 0), 1) : 0;
    axes_ticks(&y, &f->y, 2, !t->utf8); // for the title and its power of ten
    text_title_above(t, &y);
    for (size_t c = 0; c < f->n_category; c++)
        for (size_t i = 0; i < f->n_series; i++) {
            grid g;
            double v = c < f->series[i].n ? f->series[i].y[c] : NAN;
            if (!grid_open(&g, t->columns, 1, t->utf8, t->colour, e))
                return false;
            if (i == 0)
                grid_text(&g, 0, 0, grid_escape(f->category[c], t->utf8, name, sizeof name),
                          left - (several ? 3 : 1), GRID_PLAIN);
            if (several)
                grid_put(&g, left - 2, 0, (uint32_t)text_letter(i), text_colour(t, i));
            double place = axes_place(&y, v);
            int end = 0;
            if (!isnan(place))
                end = bar(&g, left, room, zero, fmin(fmax(place, 0), 1), text_colour(t, i));
            const char *what = "not measured";
            if (!isnan(v))
                what = text_number_short(v / pow(10, y.power), number, sizeof number);
            grid_text(&g, left + end + (end > 0), 0, what, -1, GRID_PLAIN);
            grid_print(&g, t->out);
            grid_close(&g);
        }
    for (size_t i = 0; several && i < f->n_series; i++) {
        fprintf(t->out, "  %c  ", text_letter(i));
        grid_cut(t->out, grid_escape(f->series[i].name, t->utf8, name, sizeof name),
                 t->columns - 5);
        fputc('\n', t->out);
    }
    return true;
}
