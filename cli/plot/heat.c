// Heat maps. Every pixel of the frame is computed here: the cell it lies in, or the mean of the
// cells whose middles lie in it. No image filter decides anything.
#include "cli/plot/panel.h"

#include "core/mem.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static palette_map_id map_of(const panel *p) {
    switch (p->f->heat->map) {
    case MAP_DIVERGING:
        return PALETTE_DIVERGING;
    case MAP_CYCLIC:
        return PALETTE_CYCLIC;
    default:
        return p->o->cividis ? PALETTE_CIVIDIS : PALETTE_VIRIDIS;
    }
}

void heat_limits(panel *p) {
    const heat *h = p->f->heat;
    axes_span s;
    axes_span_init(&s, h->value.scale);
    axes_span_add(&s, h->cell, h->rows * h->cols);
    // Zero is the middle of a diverging map.
    if (h->map == MAP_DIVERGING && s.finite) {
        s.hi = fmax(fabs(s.lo), fabs(s.hi));
        s.lo = -s.hi;
    }
    axes_limits(&p->value, &h->value, &s, 0);
}

// Cells [from, to) that a pixel shows; none when from == to.
typedef struct cells {
    size_t from, to;
} cells;

// Splits n pixels over `count` cells whose edges lie at place(0..count) pixels, ascending.
static void assign(cells *out, size_t n, const double *edge, size_t count) {
    size_t near = 0, first = 0;
    for (size_t k = 0; k < n; k++) {
        double mid = (double)k + 0.5;
        out[k] = (cells){0, 0};
        while (near < count && edge[near + 1] <= mid)
            near++;
        while (first < count && (edge[first] + edge[first + 1]) / 2 < (double)k)
            first++;
        size_t end = first;
        while (end < count && (edge[end] + edge[end + 1]) / 2 < (double)k + 1)
            end++;
        if (end > first)
            out[k] = (cells){first, end};
        else if (near < count && edge[near] <= mid)
            out[k] = (cells){near, near + 1};
    }
}

// Mean of the measured cells, as a place on the colour scale. Angles are averaged as directions.
static double shade(const panel *p, cells r, cells c) {
    const heat *h = p->f->heat;
    bool cyclic = h->map == MAP_CYCLIC;
    double sum = 0, co = 0, si = 0;
    size_t n = 0;
    for (size_t i = r.from; i < r.to; i++) {
        // With names the first row is at the top; pixel rows are counted from the top.
        const double *row = h->cell + (h->row_label ? i : h->rows - 1 - i) * h->cols;
        for (size_t j = c.from; j < c.to; j++) {
            if (isnan(row[j]))
                continue;
            n++;
            if (cyclic) {
                double a = 2 * M_PI * axes_place(&p->value, row[j]);
                co += cos(a);
                si += sin(a);
            } else {
                sum += row[j];
            }
        }
    }
    if (n == 0)
        return NAN;
    if (!cyclic)
        return axes_place(&p->value, sum / (double)n);
    double a = atan2(si, co) / (2 * M_PI);
    return a < 0 ? a + 1 : a;
}

static uint32_t pack(rgb c) {
    return (uint32_t)lround(c.r * 255) << 16 | (uint32_t)lround(c.g * 255) << 8 |
           (uint32_t)lround(c.b * 255);
}

// Edges of columns and rows in pixels of the frame.
static void edges(const panel *p, double w, double h, double *ex, double *ey) {
    const heat *m = p->f->heat;
    for (size_t j = 0; j <= m->cols; j++) {
        double at = axes_place(&p->x, m->x[j]);
        ex[j] = isnan(at) ? 0 : at * w; // an edge at 0 on a log axis: the cell begins at the frame
    }
    for (size_t i = 0; i <= m->rows; i++)
        ey[i] = (1 - axes_place(&p->y, heat_row_edge(m, m->rows - i))) * h;
}

static void paint(const panel *p, cairo_surface_t *s, const cells *row, const cells *col) {
    int w = cairo_image_surface_get_width(s), h = cairo_image_surface_get_height(s);
    size_t stride = (size_t)cairo_image_surface_get_stride(s);
    unsigned char *data = cairo_image_surface_get_data(s);
    long period = lround(4 * p->c->scale), thick = lround(0.7 * p->c->scale);
    if (period < 3)
        period = 3;
    if (thick < 1)
        thick = 1;
    palette_map_id map = map_of(p);
    uint32_t grey = pack(palette_missing()), line = 0xA0A0A0;
    cairo_surface_flush(s);
    for (int y = 0; y < h; y++) {
        uint32_t *out = (uint32_t *)(data + (size_t)y * stride);
        for (int x = 0; x < w; x++) {
            if (row[y].from == row[y].to || col[x].from == col[x].to) {
                out[x] = 0xFFFFFF; // beyond the grid
                continue;
            }
            double t = shade(p, row[y], col[x]);
            bool on_line = (x + y) % period < thick;
            out[x] = isnan(t) ? (on_line ? line : grey) : pack(palette_map(map, t));
        }
    }
    cairo_surface_mark_dirty(s);
}

bool heat_draw(panel *p, err *e) {
    const heat *m = p->f->heat;
    rect f = p->frame;
    long w = lround(f.w * p->c->scale), h = lround(f.h * p->c->scale);
    if (w < 1 || h < 1 || m->rows == 0 || m->cols == 0)
        return true;
    bool ok = false;
    cairo_surface_t *image = NULL;
    double *ex = mem_alloc(m->cols + 1, sizeof *ex, "the columns of a heat map", e);
    double *ey = mem_alloc(m->rows + 1, sizeof *ey, "the rows of a heat map", e);
    cells *col = mem_alloc((size_t)w, sizeof *col, "the pixels of a heat map", e);
    cells *row = mem_alloc((size_t)h, sizeof *row, "the pixels of a heat map", e);
    if (!ex || !ey || !col || !row)
        goto done;
    edges(p, (double)w, (double)h, ex, ey);
    assign(col, (size_t)w, ex, m->cols);
    assign(row, (size_t)h, ey, m->rows);
    image = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)w, (int)h);
    if (cairo_surface_status(image) != CAIRO_STATUS_SUCCESS) {
        err_set(e, ERR_NOMEM, "out of memory: a heat map of %ld x %ld pixels", w, h);
        goto done;
    }
    paint(p, image, row, col);
    cairo_save(p->c->cr);
    cairo_identity_matrix(p->c->cr);
    double x0 = round(f.x * p->c->scale), y0 = round(f.y * p->c->scale);
    cairo_set_source_surface(p->c->cr, image, x0, y0);
    cairo_pattern_set_filter(cairo_get_source(p->c->cr), CAIRO_FILTER_NEAREST);
    cairo_rectangle(p->c->cr, x0, y0, (double)w, (double)h);
    cairo_fill(p->c->cr);
    cairo_restore(p->c->cr);
    ok = true;
done:
    if (image)
        cairo_surface_destroy(image);
    free(ex);
    free(ey);
    free(col);
    free(row);
    return ok;
}

// Cells outside the colour range, and cells not measured.
static void count_cells(const panel *p, size_t *below, size_t *above, size_t *missing) {
    const heat *m = p->f->heat;
    *below = *above = *missing = 0;
    for (size_t i = 0; i < m->rows * m->cols; i++) {
        *missing += isnan(m->cell[i]);
        *below += m->cell[i] < p->value.lo;
        *above += m->cell[i] > p->value.hi;
    }
}

void heat_notes(panel *p) {
    const heat *m = p->f->heat;
    size_t below, above, missing, all = m->rows * m->cols;
    count_cells(p, &below, &above, &missing);
    char lo[32], hi[32];
    if (!p->value.empty) {
        panel_number(p->value.lo, lo, sizeof lo);
        panel_number(p->value.hi, hi, sizeof hi);
        char percent[32] = "";
        panel_number(100.0 * (double)(below + above) / (double)all, percent, sizeof percent);
        panel_note(p, "Colours: %s .. %s%s%s%s.", lo, hi, below + above ? ", clipped " : "",
                   below + above ? percent : "", below + above ? "%" : "");
    }
    if (missing)
        panel_note(p, "Hatched: %s (%zu of %zu cells).", heat_missing(m), missing, all);
    double px = p->frame.w * p->c->scale, py = p->frame.h * p->c->scale;
    if (px > 0 && ((double)m->cols > px || (double)m->rows > py))
        panel_note(p, "More cells than pixels (%zu x %zu): a pixel is the mean of its cells.",
                   m->rows, m->cols);
}

void heat_draw_bar(panel *p, double x) {
    cairo_t *cr = p->c->cr;
    rect f = p->frame, bar = {x, f.y, 10, f.h};
    if (p->value.empty)
        return;
    size_t below, above, missing;
    count_cells(p, &below, &above, &missing);
    canvas_snap(p->c, &bar);
    palette_map_id map = map_of(p);
    long n = lround(bar.h * p->c->scale);
    for (long i = 0; i < n; i++) {
        canvas_colour(p->c, palette_map(map, 1 - ((double)i + 0.5) / (double)n), 1);
        cairo_rectangle(cr, bar.x, bar.y + (double)i / p->c->scale, bar.w, 1 / p->c->scale);
        cairo_fill(cr);
    }
    // A triangle at an end says that values go on beyond it.
    if (above) {
        canvas_colour(p->c, palette_map(map, 1), 1);
        cairo_move_to(cr, bar.x, bar.y);
        cairo_line_to(cr, bar.x + bar.w, bar.y);
        cairo_line_to(cr, bar.x + bar.w / 2, bar.y - 7);
        cairo_fill(cr);
    }
    if (below) {
        canvas_colour(p->c, palette_map(map, 0), 1);
        cairo_move_to(cr, bar.x, bar.y + bar.h);
        cairo_line_to(cr, bar.x + bar.w, bar.y + bar.h);
        cairo_line_to(cr, bar.x + bar.w / 2, bar.y + bar.h + 7);
        cairo_fill(cr);
    }
    double widest = 0;
    canvas_colour(p->c, (rgb){0.25, 0.25, 0.25}, 1);
    for (int i = 0; i < p->value.n; i++) {
        const axes_tick *t = &p->value.tick[i];
        double y = bar.y + (1 - axes_place(&p->value, t->at)) * bar.h;
        canvas_colour(p->c, (rgb){0.25, 0.25, 0.25}, 1);
        canvas_rule(p->c, bar.x + bar.w, y, bar.x + bar.w + (*t->label ? 3 : 2), y, 0.6);
        canvas_text(p->c, t->label, bar.x + bar.w + 5, y, 0, 0.5, &text_tick);
        widest = fmax(widest, canvas_text_width(p->c, t->label, &text_tick));
    }
    text_style up = text_axis;
    up.angle = M_PI / 2;
    char title[AXES_TITLE], whole[AXES_TITLE];
    canvas_known(p->c, p->value.title, whole, sizeof whole);
    while (up.size > 7 && canvas_text_width(p->c, whole, &up) > f.h + 8)
        up.size -= 0.5;
    canvas_fit(p->c, whole, f.h + 8, &up, title, sizeof title);
    canvas_text(p->c, title, bar.x + bar.w + 5 + widest + 12, f.y + f.h / 2, 0.5, 0, &up);
}
