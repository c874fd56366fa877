#include "analyses/figure.h"

#include "core/mem.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The arrays of a figure keep no capacity: it follows from the count, because every array starts
// empty and grows through here (mem_grow begins at 16 and doubles).
static bool grow(void **v, size_t n, size_t size, const char *what, err *e) {
    size_t cap = n ? 16 : 0;
    while (cap < n)
        cap *= 2;
    return mem_grow(v, &cap, n + 1, size, what, e);
}

// *dst = copy of n doubles; NULL stays NULL.
static bool copy_reals(double **dst, const double *src, size_t n, err *e) {
    *dst = NULL;
    if (!src)
        return true;
    *dst = mem_alloc(n, sizeof **dst, "the numbers of a figure", e);
    if (*dst && n)
        memcpy(*dst, src, n * sizeof **dst);
    return *dst != NULL;
}

static bool copy_text(char **dst, const char *src, err *e) {
    *dst = mem_strdup(src ? src : "", e);
    return *dst != NULL;
}

static bool copy_texts(char ***dst, const char *const *src, size_t n, err *e) {
    *dst = NULL;
    if (!src)
        return true;
    *dst = mem_zalloc(n, sizeof **dst, "the texts of a figure", e);
    if (!*dst)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!copy_text(&(*dst)[i], src[i], e))
            return false;
    return true;
}

static void free_texts(char **v, size_t n) {
    for (size_t i = 0; v && i < n; i++)
        free(v[i]);
    free(v);
}

static bool axis_init(axis *a, const char *name, const char *unit, axis_scale scale, err *e) {
    memset(a, 0, sizeof *a);
    a->lo = a->hi = NAN;
    a->scale = scale;
    return copy_text(&a->name, name, e) && copy_text(&a->unit, unit, e);
}

static void axis_reset(axis *a) {
    free(a->name);
    free(a->unit);
}

bool figure_axis(axis *a, const char *name, const char *unit, axis_scale scale, err *e) {
    axis fresh;
    if (!axis_init(&fresh, name, unit, scale, e)) {
        axis_reset(&fresh);
        return false;
    }
    axis_reset(a);
    *a = fresh;
    return true;
}

figure *figure_new(figure_kind kind, const char *id, const char *title, const char *subtitle,
                   err *e) {
    figure *f = mem_zalloc(1, sizeof *f, "a figure", e);
    if (!f)
        return NULL;
    f->kind = kind;
    if (copy_text(&f->id, id, e) && copy_text(&f->title, title, e) &&
        copy_text(&f->subtitle, subtitle, e) && axis_init(&f->x, "", "", SCALE_LINEAR, e) &&
        axis_init(&f->y, "", "", SCALE_LINEAR, e))
        return f;
    figure_free(f);
    return NULL;
}

static void series_reset(series *s) {
    free(s->name);
    free(s->x);
    free(s->y);
    free(s->lo);
    free(s->hi);
    free(s->band);
}

static void heat_free(heat *h) {
    if (!h)
        return;
    free_texts(h->row_label, h->rows);
    free_texts(h->col_label, h->cols);
    axis_reset(&h->value);
    free(h->missing);
    free(h->cell);
    free(h->x);
    free(h);
}

static void column_reset(column *c) {
    free(c->name);
    free(c->unit);
    free(c->num);
    free_texts(c->text, c->n);
}

void figure_free(figure *f) {
    if (!f)
        return;
    for (size_t i = 0; i < f->n_series; i++)
        series_reset(&f->series[i]);
    for (size_t i = 0; i < f->n_marks; i++)
        free(f->marks[i].label);
    for (size_t i = 0; i < f->n_columns; i++)
        column_reset(&f->columns[i]);
    free(f->series);
    free(f->marks);
    free(f->columns);
    free_texts(f->category, f->n_category);
    free_texts(f->notes, f->n_notes);
    heat_free(f->heat);
    axis_reset(&f->x);
    axis_reset(&f->y);
    free(f->id);
    free(f->title);
    free(f->subtitle);
    free(f->all_nan);
    free(f);
}

bool figure_series(figure *f, const char *name, series_style style, size_t n, const double *x,
                   const double *y, const double *lo, const double *hi, const char *band, err *e) {
    assert((lo != NULL) == (hi != NULL));
    series s = {.style = style, .colour = -1, .n = n};
    size_t n_x = f->kind == FIG_HIST ? n + 1 : n;
    if (copy_text(&s.name, name, e) && copy_reals(&s.x, x, n_x, e) && copy_reals(&s.y, y, n, e) &&
        copy_reals(&s.lo, lo, n, e) && copy_reals(&s.hi, hi, n, e) &&
        (!band || copy_text(&s.band, band, e)) &&
        grow((void **)&f->series, f->n_series, sizeof s, "the series of a figure", e)) {
        f->series[f->n_series++] = s;
        return true;
    }
    series_reset(&s);
    return false;
}

bool figure_mark(figure *f, mark_kind kind, double value, const char *label, err *e) {
    mark m = {.kind = kind, .value = value};
    if (copy_text(&m.label, label, e) &&
        grow((void **)&f->marks, f->n_marks, sizeof m, "the marks of a figure", e)) {
        f->marks[f->n_marks++] = m;
        return true;
    }
    free(m.label);
    return false;
}

bool figure_all_nan(figure *f, const char *means, err *e) {
    free(f->all_nan);
    f->all_nan = NULL;
    return copy_text(&f->all_nan, means, e);
}

bool figure_note(figure *f, err *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return err_set(e, ERR_INPUT, "a note of figure %s cannot be formatted", f->id);
    char *s = mem_alloc((size_t)n + 1, 1, "a note", e);
    if (!s)
        return false;
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    if (!grow((void **)&f->notes, f->n_notes, sizeof s, "the notes of a figure", e)) {
        free(s);
        return false;
    }
    f->notes[f->n_notes++] = s;
    return true;
}

bool figure_heat(figure *f, size_t rows, size_t cols, const double *cell, const double *x,
                 const char *const *row_label, const char *value_name, const char *value_unit,
                 double lo, double hi, heat_map map, err *e) {
    assert(!f->heat);
    size_t cells = 0;
    if (!mem_mul(rows, cols, &cells))
        return err_set(e, ERR_NOMEM, "a heat map of %zu x %zu cells", rows, cols);
    heat *h = mem_zalloc(1, sizeof *h, "a heat map", e);
    if (!h)
        return false;
    h->rows = rows;
    h->cols = cols;
    h->map = map;
    if (axis_init(&h->value, value_name, value_unit, SCALE_LINEAR, e) &&
        copy_reals(&h->cell, cell, cells, e) && copy_reals(&h->x, x, cols + 1, e) &&
        copy_texts(&h->row_label, row_label, rows, e)) {
        h->value.lo = lo;
        h->value.hi = hi;
        f->heat = h;
        return true;
    }
    heat_free(h);
    return false;
}

void figure_heat_rows(figure *f, double y0, double dy) {
    f->heat->y0 = y0;
    f->heat->dy = dy;
}

bool figure_heat_missing(figure *f, const char *means, err *e) {
    free(f->heat->missing);
    f->heat->missing = NULL;
    return copy_text(&f->heat->missing, means, e);
}

bool figure_heat_columns(figure *f, const char *const *name, err *e) {
    assert(!f->heat->col_label);
    return copy_texts(&f->heat->col_label, name, f->heat->cols, e);
}

bool figure_category(figure *f, const char *name, err *e) {
    char *s = NULL;
    if (copy_text(&s, name, e) &&
        grow((void **)&f->category, f->n_category, sizeof s, "the categories of a figure", e)) {
        f->category[f->n_category++] = s;
        return true;
    }
    free(s);
    return false;
}

bool figure_column(figure *f, const char *name, const char *unit, size_t n, const double *num,
                   const char *const *text, int decimals, err *e) {
    assert((num != NULL) != (text != NULL) || n == 0);
    assert(f->n_columns == 0 || f->columns[0].n == n);
    column c = {.n = n, .decimals = decimals};
    if (copy_text(&c.name, name, e) && copy_text(&c.unit, unit, e) &&
        copy_reals(&c.num, num, n, e) && copy_texts(&c.text, text, n, e) &&
        grow((void **)&f->columns, f->n_columns, sizeof c, "the columns of a figure", e)) {
        f->columns[f->n_columns++] = c;
        return true;
    }
    column_reset(&c);
    return false;
}

void figures_init(figures *s, int columns) {
    *s = (figures){.columns = columns < 1 ? 1 : columns};
}

bool figures_add(figures *s, figure *f, err *e) {
    if (!f)
        return false; // whoever could not make it has said why
    if (!grow((void **)&s->v, s->n, sizeof *s->v, "the figures of a page", e)) {
        figure_free(f);
        return false;
    }
    s->v[s->n++] = f;
    return true;
}

void figures_free(figures *s) {
    for (size_t i = 0; i < s->n; i++)
        figure_free(s->v[i]);
    free(s->v);
    *s = (figures){.columns = s->columns};
}
