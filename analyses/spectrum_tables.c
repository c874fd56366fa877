// Tables, and all pictures of a spectrum in order.
#include "analyses/spectrum_draw.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Columns that are filled row by row.
enum { MOST_COLUMNS = 16, LABEL = 64 };
typedef struct sheet {
    size_t rows, cols, at;
    double *cell; // [cols, rows]
    char *label;  // [rows, LABEL]: the second text column
    const char **model, **name;
} sheet;

static bool sheet_new(sheet *s, size_t rows, size_t cols, err *e) {
    *s = (sheet){.rows = rows, .cols = cols};
    s->cell = mem_alloc(rows * cols, sizeof *s->cell, "a table", e);
    s->label = mem_zalloc(rows, LABEL, "a table", e);
    s->model = mem_alloc(rows, sizeof *s->model, "a table", e);
    s->name = mem_alloc(rows, sizeof *s->name, "a table", e);
    return s->cell && s->label && s->model && s->name;
}

static void sheet_free(sheet *s) {
    free(s->cell);
    free(s->label);
    free(s->model);
    free(s->name);
}

static char *sheet_row(sheet *s, const char *model, const double *v) {
    for (size_t c = 0; c < s->cols; c++)
        s->cell[c * s->rows + s->at] = v[c];
    s->model[s->at] = model;
    s->name[s->at] = s->label + s->at * LABEL;
    return s->label + s->at++ * LABEL;
}

typedef struct head_line {
    const char *name, *unit;
    int digits;
} head_line;

static bool sheet_columns(figure *f, const sheet *s, const char *second, const head_line *h,
                          err *e) {
    bool ok = figure_column(f, "model", "", s->at, NULL, s->model, 0, e);
    if (second)
        ok = ok && figure_column(f, second, "", s->at, NULL, s->name, 0, e);
    for (size_t c = 0; ok && c < s->cols; c++)
        ok = figure_column(f, h[c].name, h[c].unit, s->at, s->cell + c * s->rows, NULL, h[c].digits,
                           e);
    return ok;
}

figure *spectrum_table_heads(const spectrum_item *x, size_t n, err *e) {
    static const head_line lines[] = {
        {"tokens that rotate", "%", 4},
        {"eigenvalues below 0", "%", 4},
        {"median |lambda|", "", 4},
        {"mean rate", "nats/token", 4},
        {"half-life", "tokens", 4},
        {"over W", "tokens", 6},
        {"half-life by exponents", "tokens", 4},
        {"largest exponent", "nats/token", 4},
        {"smallest exponent", "nats/token", 4},
        {"largest norm", "", 7},
    };
    enum { COLS = sizeof lines / sizeof *lines };
    size_t rows = 0;
    for (size_t i = 0; i < n; i++)
        for (int l = 0; l < x[i].result->n_layers; l++)
            rows += (size_t)x[i].result->layer[l].n_heads;
    sheet s;
    figure *f = figure_new(FIG_TABLE, "heads", "spectra by layer and head", "", e);
    bool ok = sheet_new(&s, rows, COLS, e) && f;
    for (size_t i = 0; ok && i < n; i++)
        for (int l = 0; ok && l < x[i].result->n_layers; l++)
            for (int h = 0; ok && h < x[i].result->layer[l].n_heads; h++) {
                spectrum_summary a;
                ok = spectrum_summarise(x[i].result, l, h, &a, e);
                double v[COLS] = {
                    100 * a.complex_share, 100 * a.negative_share,
                    a.median_modulus,      a.rate,
                    a.half_life,           a.half_life_window ? (double)a.half_life_window : NAN,
                    a.exponent_half_life,  a.largest_exponent,
                    a.smallest_exponent,   a.largest_norm};
                snprintf(sheet_row(&s, x[i].name, v), LABEL, "L%d.H%d", x[i].result->layer[l].layer,
                         x[i].result->layer[l].head[h].head);
            }
    ok = ok && sheet_columns(f, &s, "head", lines, e);
    sheet_free(&s);
    return spectrum_drawn(f, ok);
}

figure *spectrum_table_windows(const spectrum_item *x, size_t n, err *e) {
    static const head_line lines[] = {
        {"W", "tokens", 6},
        {"products", "", 6},
        {"frozen directions", "", 4},
        {"radius", "", 4},
        {"norm", "", 4},
        {"norm, 95%", "", 7},
        {"asymmetry", "", 3},
        {"complex", "%", 3},
        {"below 0.01", "%", 3},
        {"half-life, 10%", "tokens", 4},
        {"half-life", "tokens", 4},
        {"half-life, 90%", "tokens", 4},
        {"never decay", "%", 3},
        {"lost in rounding", "%", 3},
        {"condition", "", 3},
        {"error estimate", "", 2},
    };
    enum { COLS = sizeof lines / sizeof *lines };
    size_t rows = 0;
    for (size_t i = 0; i < n; i++)
        rows += (size_t)x[i].result->n_windows;
    sheet s;
    figure *f = figure_new(FIG_TABLE, "windows", "window products, all chosen layers and heads",
                           "medians", e);
    bool ok = sheet_new(&s, rows, COLS, e) && f;
    for (size_t i = 0; ok && i < n; i++)
        for (int w = 0; ok && w < x[i].result->n_windows; w++) {
            spectrum_span a;
            ok = spectrum_window_summary(x[i].result, -1, -1, w, &a, e);
            double v[COLS] = {
                (double)a.W,      (double)a.products, a.frozen,       a.radius[1],
                a.norm2[1],       a.norm2[2],         a.asymmetry,    100 * a.complex_share,
                100 * a.vanished, a.half_life[0],     a.half_life[1], a.half_life[2],
                100 * a.never,    100 * a.lost,       a.cond,         a.error};
            sheet_row(&s, x[i].name, v);
        }
    ok = ok && sheet_columns(f, &s, NULL, lines, e);
    sheet_free(&s);
    return spectrum_drawn(f, ok);
}

// Adds what was drawn; NULL without an error is a picture that does not apply.
static bool add(figures *out, figure *f, err *e) {
    if (!f && e->code == ERR_NONE)
        return true;
    return figures_add(out, f, e);
}

bool spectrum_figures(const spectrum_item *x, size_t n, figures *out, err *e) {
    figures_init(out, n == 1 || n == 3 ? 3 : n == 2 ? 2 : 4);
    bool ok = true;
    for (int which = PLANE_TOKENS; which <= PLANE_LONG; which++)
        for (size_t i = 0; ok && i < n; i++)
            ok = add(out, spectrum_draw_plane(&x[i], i, (spectrum_plane)which, e), e);
    for (size_t i = 0; ok && i < n; i++)
        ok = add(out, spectrum_draw_moduli(&x[i], i, e), e);
    for (size_t i = 0; ok && i < n; i++)
        ok = add(out, spectrum_draw_norms(&x[i], i, e), e);
    ok = ok && add(out, spectrum_draw_angles(x, n, e), e) &&
         add(out, spectrum_draw_reals(x, n, e), e) && add(out, spectrum_draw_ledger(x, n, e), e) &&
         add(out, spectrum_draw_lyapunov(x, n, e), e) &&
         add(out, spectrum_draw_half_lives(x, n, e), e) &&
         add(out, spectrum_table_heads(x, n, e), e) && add(out, spectrum_table_windows(x, n, e), e);
    if (!ok)
        figures_free(out);
    return ok;
}
