// Heat maps: a line per row (or per group of rows), a cell per column (or group of columns). One
// sign a level: blocks that fill up, digits against letters for signed values, arrows for angles.
#include "cli/text/part.h"

#include "cli/plot/palette.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_CELLS = 18, MOST_LINES = 40 };

typedef struct picture {
    const textplot *t;
    const heat *h;
    axes x, value;
    size_t lines, group; // group: rows of the map in one line
    int w, left;
    char names[256][NAME_CELLS * 4 + 8];
} picture;

// Signs from low to high.
static uint32_t sign_of(const picture *p, double place) {
    static const uint32_t block[] = {0x2581, 0x2582, 0x2583, 0x2584,
                                     0x2585, 0x2586, 0x2587, 0x2588};
    static const uint32_t arrow[] = {0x2190, 0x2199, 0x2193, 0x2198,
                                     0x2192, 0x2197, 0x2191, 0x2196};
    static const char ascii[] = ".:-=+*#%@", digits[] = "01234567", sides[] = "dcba0123 4";
    if (isnan(place))
        return '/';
    place = fmin(fmax(place, 0), 1);
    switch (p->h->map) {
    case MAP_DIVERGING: {
        int k = (int)lround(place * 8);
        return k == 4 ? (p->t->utf8 ? 0xb7 : '.') : (uint32_t)(k < 4 ? sides[k] : '0' + k - 4);
    }
    case MAP_CYCLIC: {
        int k = (int)lround(place * 8) % 8; // arrows point along the angle, -pi to pi
        return p->t->utf8 ? arrow[k] : (uint32_t)digits[k];
    }
    default:
        if (p->t->utf8)
            return block[(int)fmin(place * 8, 7)];
        return (uint32_t)ascii[(int)fmin(place * 9, 8)];
    }
}

// The nearest colour of the 6 x 6 x 6 cube.
static int colour_of(const picture *p, double place) {
    if (!p->t->colour || isnan(place))
        return p->t->colour ? TEXT_GREY : GRID_PLAIN;
    palette_map_id map = p->h->map == MAP_DIVERGING ? PALETTE_DIVERGING
                         : p->h->map == MAP_CYCLIC  ? PALETTE_CYCLIC
                                                    : PALETTE_VIRIDIS;
    rgb c = palette_map(map, place);
    return 16 + 36 * (int)lround(c.r * 5) + 6 * (int)lround(c.g * 5) + (int)lround(c.b * 5);
}

// Place of edge k; an edge at 0 on a log axis lies at its lower end.
static double edge(const picture *p, size_t k) {
    double place = axes_place(&p->x, p->h->x[k]);
    return isnan(place) ? 0 : place;
}

static double middle(const picture *p, size_t k) {
    return (edge(p, k) + edge(p, k + 1)) / 2;
}

static size_t map_row(const picture *p, size_t from_top) {
    return p->h->row_label ? from_top : p->h->rows - 1 - from_top;
}

// Mean place on the colour scale of the measured cells of rows [r0, r1) in the columns whose
// middles lie in [u0, u1), or of the one column that holds the middle of that range.
static double level(const picture *p, size_t r0, size_t r1, double u0, double u1) {
    const heat *h = p->h;
    double sum = 0, co = 0, si = 0, mid = (u0 + u1) / 2;
    size_t n = 0, from = 0, to = h->cols;
    // Edges ascend: search for the first column with its middle at u0 or beyond.
    while (from < to) {
        size_t k = (from + to) / 2;
        if (middle(p, k) < u0)
            from = k + 1;
        else
            to = k;
    }
    size_t end = from;
    while (end < h->cols && middle(p, end) < u1)
        end++;
    if (end == from) { // columns wider than a cell
        while (from > 0 && edge(p, from) > mid)
            from--;
        end = from < h->cols ? from + 1 : from;
    }
    for (size_t r = r0; r < r1; r++)
        for (size_t k = from; k < end; k++) {
            double v = h->cell[map_row(p, r) * h->cols + k];
            if (isnan(v))
                continue;
            n++;
            sum += v;
            co += cos(2 * M_PI * axes_place(&p->value, v));
            si += sin(2 * M_PI * axes_place(&p->value, v));
        }
    if (n == 0)
        return NAN;
    if (h->map != MAP_CYCLIC)
        return axes_place(&p->value, sum / (double)n);
    double a = atan2(si, co) / (2 * M_PI);
    return a < 0 ? a + 1 : a;
}

static void name_lines(picture *p) {
    int widest = 0;
    for (size_t i = 0; i < p->lines; i++) {
        size_t r = map_row(p, i * p->group);
        if (p->h->row_label)
            grid_escape(p->h->row_label[r], p->t->utf8, p->names[i], sizeof p->names[i]);
        else
            snprintf(p->names[i], sizeof p->names[i], "%.6g", heat_row_edge(p->h, r));
        int w = grid_width(p->names[i]);
        widest = w > widest ? w : widest;
    }
    p->left = (widest > NAME_CELLS ? NAME_CELLS : widest) + 2;
}

static void limits(picture *p) {
    axes_span x, v;
    axes_span_init(&x, p->t->f->x.scale);
    axes_span_add(&x, p->h->x, p->h->cols + 1);
    axes_limits(&p->x, &p->t->f->x, &x, 0);
    axes_span_init(&v, p->h->value.scale);
    axes_span_add(&v, p->h->cell, p->h->rows * p->h->cols);
    if (p->h->map == MAP_DIVERGING && v.finite) {
        v.hi = fmax(fabs(v.lo), fabs(v.hi));
        v.lo = -v.hi;
    }
    axes_limits(&p->value, &p->h->value, &v, 0);
}

static void key(const picture *p) {
    const textplot *t = p->t;
    char title[2 * AXES_TITLE], safe[AXES_TITLE], lo[48], hi[48], signs[64] = "";
    axes_title(p->h->value.name, p->h->value.unit, safe, sizeof safe);
    grid_spell(safe, t->utf8, title, sizeof title);
    grid g;
    int levels = p->h->map == MAP_SEQUENTIAL ? (t->utf8 ? 8 : 9) : 9;
    text_number_short(p->value.lo, lo, sizeof lo);
    text_number_short(p->value.hi, hi, sizeof hi);
    size_t missing = 0, clipped = 0, all = p->h->rows * p->h->cols;
    for (size_t i = 0; i < all; i++) {
        missing += isnan(p->h->cell[i]);
        clipped += p->h->cell[i] < p->value.lo || p->h->cell[i] > p->value.hi;
    }
    if (!grid_open(&g, t->columns, 1, t->utf8, t->colour, NULL))
        return;
    int at = grid_text(&g, 0, 0, lo, -1, GRID_PLAIN) + 1;
    for (int k = 0; k < levels; k++, at++) {
        double place = levels == 9 && p->h->map != MAP_SEQUENTIAL ? k / 8.0 : (k + 0.5) / levels;
        grid_put(&g, at, 0, sign_of(p, place), colour_of(p, place));
    }
    at += 1 + grid_text(&g, at + 1, 0, hi, -1, GRID_PLAIN);
    at += 2 + grid_text(&g, at + 2, 0, title, -1, GRID_PLAIN);
    if (missing)
        snprintf(signs, sizeof signs, "/ %s", heat_missing(p->h));
    grid_text(&g, at + 3, 0, signs, -1, GRID_PLAIN);
    grid_print(&g, t->out);
    grid_close(&g);
    if (clipped) {
        char percent[48];
        text_number_short(100.0 * (double)clipped / (double)all, percent, sizeof percent);
        text_say(t, "Clipped: %s%% of the cells.", percent);
    }
    if (p->group > 1 || p->h->cols > (size_t)p->w)
        text_say(t, "A sign is the mean of up to %zu x %zu cells.", p->group,
                 p->h->cols / (size_t)p->w + (p->h->cols % (size_t)p->w != 0));
}

// A row above the map with the names of vertical marks.
static bool mark_names(const picture *p, err *e) {
    const textplot *t = p->t;
    grid g;
    int end = 0;
    if (!grid_open(&g, t->columns, 1, t->utf8, t->colour, e))
        return false;
    for (size_t i = 0; i < t->f->n_marks; i++) {
        const mark *m = &t->f->marks[i];
        double place = axes_place(&p->x, m->value);
        if (m->kind != MARK_X || !(place >= 0 && place <= 1))
            continue;
        char name[160];
        grid_escape(m->label, t->utf8, name, sizeof name);
        int at = p->left + (int)fmin(place * p->w, p->w - 1);
        if (at < end || at + 1 + grid_width(name) > t->columns)
            continue;
        grid_put(&g, at, 0, t->utf8 ? 0x2577 : '|', GRID_PLAIN);
        end = at + 3 + grid_text(&g, at + 1, 0, name, -1, GRID_PLAIN);
    }
    if (end)
        grid_print(&g, t->out);
    grid_close(&g);
    return true;
}

bool text_heat(const textplot *t, err *e) {
    const heat *h = t->f->heat;
    if (!h || h->rows == 0 || h->cols == 0)
        return text_nothing(t, "no data");
    picture *p = mem_zalloc(1, sizeof *p, "a text heat map", e);
    if (!p)
        return false;
    p->t = t;
    p->h = h;
    limits(p);
    bool ok = false;
    grid g = {0};
    if (p->value.empty) {
        ok = text_nothing(t, t->f->all_nan ? t->f->all_nan
                                           : "no data: nothing was measured, every cell is NaN");
        goto done;
    }
    // Up to 40 rows keep a line each.
    p->group = h->rows <= MOST_LINES ? 1 : (h->rows + (size_t)t->rows - 1) / (size_t)t->rows;
    p->lines = (h->rows + p->group - 1) / p->group;
    name_lines(p);
    p->w = t->columns - p->left - 1;
    // Few cells get several signs each, but all the same number of them.
    if (h->cols < (size_t)p->w)
        p->w -= p->w % (int)h->cols;
    int n = (int)p->lines;
    if (!mark_names(p, e))
        goto done;
    axes_x_ticks(&p->x, t->f, p->w / 11, !t->utf8);
    if (!grid_open(&g, t->columns, n + TEXT_X_ROWS, t->utf8, t->colour, e))
        goto done;
    for (int i = 0; i < n; i++) {
        size_t r0 = (size_t)i * p->group, r1 = r0 + p->group < h->rows ? r0 + p->group : h->rows;
        grid_text(&g, 0, i, p->names[i], p->left - 2, GRID_PLAIN);
        grid_put(&g, p->left - 1, i, t->utf8 ? 0x2502 : '|', GRID_PLAIN);
        for (int c = 0; c < p->w; c++) {
            double place = level(p, r0, r1, (double)c / p->w, (double)(c + 1) / p->w);
            grid_put(&g, p->left + c, i, sign_of(p, place), colour_of(p, place));
        }
    }
    text_x_axis(&g, &p->x, p->left, p->w, n);
    grid_print(&g, t->out);
    text_title_below(t, &p->x, p->left, p->w);
    key(p);
    ok = true;
done:
    grid_close(&g);
    free(p);
    return ok;
}
