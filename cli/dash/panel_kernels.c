// Panel 9: the operations of the model in its own sizes, measured by the engine of `deltop bench`.
#include "cli/dash/panel.h"

#include "core/precision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Columns from the right, each dropped when there is no room for it and a name and a shape.
enum { OP_W = 13, SHAPE_W = 13, LEAST_SHAPE = 7, COLUMNS = 4 };
static const struct column_spec {
    const char *name;
    int w;
    int order; // the highest goes first
} columns[COLUMNS] = {{"ms", 8, 0}, {"+-%", 5, 3}, {"M/s", 7, 1}, {"%floor", 7, 2}};

static const kernels *kernels_of(const scene *x) {
    const kernels *k = x->s->kernels;
    int want = x->d->want.kernels ? x->d->want.kernels_slot : x->d->in.slot;
    return k && k->slot == want && k->reload == x->d->want.reload ? k : NULL;
}

static double value(const kernel_row *r, int column) {
    const double v[COLUMNS] = {r->ms, 100 * r->spread, r->rate / 1e6, 100 * r->floor};
    return v[column];
}

static int shown(int width, bool *use) {
    int left = width - OP_W - LEAST_SHAPE;
    for (int i = 0; i < COLUMNS; i++)
        use[i] = false;
    for (int order = 0; order < COLUMNS; order++)
        for (int i = 0; i < COLUMNS; i++)
            if (columns[i].order == order && columns[i].w <= left) {
                use[i] = true;
                left -= columns[i].w;
            }
    return left + LEAST_SHAPE < SHAPE_W ? left + LEAST_SHAPE : SHAPE_W;
}

// What stands in place of numbers, "" when they are there.
static void state_of(const scene *x, const kernels *k, const kernel_row *r, char *buf,
                     size_t size) {
    char a[32];
    buf[0] = 0;
    switch (r->state) {
    case KERNEL_WAITING:
        snprintf(buf, size, "%s", k->asked && x->d->want.kernels == k->asked ? "waiting" : "");
        break;
    case KERNEL_CHECKED:
        if (isfinite(r->spread) && x->live->on)
            snprintf(buf, size, "run %d of %d, noise %s%%", r->round, KERNEL_ROUNDS,
                     scene_number(100 * r->spread, 4, a, sizeof a));
        else
            snprintf(buf, size, "run %d of %d", r->round, KERNEL_ROUNDS);
        break;
    case KERNEL_WRONG:
        snprintf(buf, size, "gate failed: error %.0e", r->error);
        break;
    case KERNEL_FAILED:
        snprintf(buf, size, "%s", r->why);
        break;
    case KERNEL_DONE:
        break;
    }
}

static void draw_row(surface *s, int y, rect r, const scene *x, const kernels *k,
                     const kernel_row *row, const bool *use, int shape_w) {
    char text[256], a[32];
    surface_text(s, y, r.x, OP_W - 1, 0, INK_PLAIN, row->op);
    surface_text(s, y, r.x + OP_W, shape_w - 1, 0, INK_PLAIN, row->shape);
    state_of(x, k, row, text, sizeof text);
    int at = r.x + OP_W + shape_w;
    if (text[0]) {
        bool bad = row->state == KERNEL_WRONG || row->state == KERNEL_FAILED;
        surface_text(s, y, at, r.x + r.w - at, bad ? ATTR_REVERSE : ATTR_DIM, INK_PLAIN, text);
        return;
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (!use[i])
            continue;
        double v = value(row, i);
        // Times differ from run to run: shown where the clock is.
        bool there = x->live->on && isfinite(v);
        surface_right(s, y, at, columns[i].w, 0, INK_PLAIN,
                      there ? scene_number(v, columns[i].w - 1, a, sizeof a) : "-");
        at += columns[i].w;
    }
}

static void foot(surface *s, rect r, const kernels *k, const scene *x) {
    int passed = 0, wrong = 0;
    char clocks[64] = "", where[160];
    for (int i = 0; i < k->n; i++) {
        passed += k->row[i].state == KERNEL_DONE || k->row[i].state == KERNEL_CHECKED;
        wrong += k->row[i].state == KERNEL_WRONG;
    }
    if (k->threads)
        snprintf(where, sizeof where, "%s %s, %d thread%s", k->device, precision_name(k->prec),
                 k->threads, k->threads == 1 ? "" : "s");
    else
        snprintf(where, sizeof where, "%s %s", k->device, precision_name(k->prec));
    if (!k->threads && isfinite(k->clock_mhz) && x->live->on)
        snprintf(clocks, sizeof clocks, "; clock %.0f MHz", k->clock_mhz);
    int y = r.y + r.h - 1;
    if (wrong)
        surface_printf(s, y, r.x, r.w, ATTR_BOLD, INK_PLAIN, "%d wrong; gate passed on %d; %s",
                       wrong, passed, where);
    else if (passed)
        surface_printf(s, y, r.x, r.w, ATTR_DIM, INK_PLAIN, "gate passed on %d case%s; %s%s",
                       passed, passed == 1 ? "" : "s", where, clocks);
    else
        surface_printf(s, y, r.x, r.w, ATTR_DIM, INK_PLAIN, "R measures them; %s", where);
}

static void draw(surface *s, rect r, const scene *x) {
    char left[128] = "kernels", right[64] = "";
    bool use[COLUMNS];
    const kernels *k = kernels_of(x);
    if (x->d->in.n_models > 1 && k)
        snprintf(left, sizeof left, "kernels %c", 'a' + k->slot);
    if (k && k->asked && k->n)
        snprintf(right, sizeof right, "%d of %d done", k->done, k->n);
    panel_title(s, r, x, 9, left, right);
    if (!k || k->n == 0) {
        panel_why(s, r, "%s",
                  k && k->why[0] ? k->why
                  : k            ? "no operation of this model is a case of bench"
                                 : "R measures the kernels of this model, after the pass");
        return;
    }
    int rows = r.h - 1, shape_w = shown(r.w, use), at = r.x + OP_W + shape_w;
    bool head = rows >= 3, bottom = rows >= 4;
    if (head) {
        surface_text(s, r.y + 1, r.x, OP_W, ATTR_DIM, INK_PLAIN, "kernel");
        surface_text(s, r.y + 1, r.x + OP_W, shape_w, ATTR_DIM, INK_PLAIN, "shape");
        for (int i = 0; i < COLUMNS; i++)
            if (use[i]) {
                surface_right(s, r.y + 1, at, columns[i].w, ATTR_DIM, INK_PLAIN, columns[i].name);
                at += columns[i].w;
            }
    }
    // The row being measured stays in sight.
    int room = rows - head - bottom, first = k->done - room + 1;
    first = first > k->n - room ? k->n - room : first;
    first = first < 0 ? 0 : first;
    for (int i = 0; i < room && first + i < k->n; i++)
        draw_row(s, r.y + 1 + head + i, r, x, k, &k->row[first + i], use, shape_w);
    if (bottom)
        foot(s, r, k, x);
}

// Bars of the rates, and a table with everything.
static bool add_bars(const kernels *k, const char *title, const char *sub, figures *out, err *e) {
    figure *f = figure_new(FIG_BARS, "kernels", title, sub, e);
    double *at = calloc((size_t)k->n + 1, sizeof *at), *y = calloc((size_t)k->n + 1, sizeof *y);
    bool ok = f && at && y && figure_axis(&f->x, "case", "", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "share of the floor", "%", SCALE_LINEAR, e);
    for (int i = 0; ok && i < k->n; i++) {
        char name[80];
        at[i] = i;
        y[i] = 100 * k->row[i].floor;
        snprintf(name, sizeof name, "%s %s", k->row[i].op, k->row[i].shape);
        ok = figure_category(f, name, e);
    }
    ok = ok && figure_series(f, "", STYLE_LINE, (size_t)k->n, at, y, NULL, NULL, NULL, e);
    free(at);
    free(y);
    if (ok)
        return figures_add(out, f, e);
    figure_free(f);
    return e->code != ERR_NONE ? false : err_set(e, ERR_NOMEM, "out of memory: a figure");
}

static bool add_table(const kernels *k, const char *title, const char *sub, figures *out, err *e) {
    static const char *const words[] = {"waiting", "running", "ok", "wrong", "failed"};
    static const struct {
        const char *name, *unit;
    } number[] = {{"median", "ms"},
                  {"half interval", "%"},
                  {"rate", "1e6/s"},
                  {"share of the floor", "%"},
                  {"error", "relative L2"}};
    enum { NUMBERS = 5 };
    size_t n = (size_t)k->n;
    figure *f = figure_new(FIG_TABLE, "kernels-table", title, sub, e);
    const char **name = calloc(n + 1, sizeof *name), **state = calloc(n + 1, sizeof *state);
    double *v = calloc(n + 1, sizeof *v);
    bool ok = f && name && state && v;
    for (size_t i = 0; ok && i < n; i++) {
        name[i] = k->row[i].name;
        state[i] = words[k->row[i].state];
    }
    ok = ok && figure_column(f, "case", "", n, NULL, name, 0, e) &&
         figure_column(f, "state", "", n, NULL, state, 0, e);
    for (int c = 0; ok && c < NUMBERS; c++) {
        for (size_t i = 0; i < n; i++)
            v[i] = c < COLUMNS ? value(&k->row[i], c) : k->row[i].error;
        ok = figure_column(f, number[c].name, number[c].unit, n, v, NULL, 4, e);
    }
    free(name);
    free(state);
    free(v);
    if (ok)
        return figures_add(out, f, e);
    figure_free(f);
    return e->code != ERR_NONE ? false : err_set(e, ERR_NOMEM, "out of memory: a figure");
}

static bool make_figures(const scene *x, figures *out, err *e) {
    const kernels *k = kernels_of(x);
    char title[300], sub[300];
    if (!k || k->done == 0)
        return err_set(e, ERR_INPUT, "nothing is measured yet: R does");
    snprintf(title, sizeof title, "kernels of %s", x->d->in.model[k->slot]->name);
    snprintf(sub, sizeof sub, "%d of %d cases, each gate first; %s %s", k->done, k->n, k->device,
             precision_name(k->prec));
    return add_bars(k, title, sub, out, e) && add_table(k, title, sub, out, e);
}

const panel panel_kernels = {
    .number = 9,
    .name = "kernels",
    .what = "the model's operations in its own sizes, checked and timed as deltop bench does",
    .no_reading = true,
    .draw = draw,
    .figures = make_figures,
};
