// Panel 6: what the cursor's head wrote, forgot and turned by at the tokens around the cursor.
#include "cli/dash/panel.h"

#include "analyses/loss.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_W = 6, ROWS = 2 * MICRO_MOST + 3 };

typedef struct gate_row {
    char name[40];
    const float *v; // NULL: the family has none
    double lo, hi;
    const char *unit;
    int digits;
} gate_row;

static int rows_of(const scene *x, gate_row *row) {
    const run_head *h = &x->r->head[x->head];
    int n = 0, n_h = h->s.n_h < MICRO_MOST ? h->s.n_h : MICRO_MOST;
    double beta_max = h->s.beta_max > 0 ? h->s.beta_max : 1;
    for (int j = 0; j < n_h; j++) {
        gate_row *g = &row[n++];
        *g = (gate_row){.v = h->beta ? h->beta + j * x->r->stored : NULL,
                        .hi = beta_max,
                        .unit = "",
                        .digits = 2};
        snprintf(g->name, sizeof g->name, n_h > 1 ? "beta%d" : "beta", j + 1);
        if (!h->beta)
            break;
    }
    for (int j = 0; j < (n_h > 1 ? n_h - 1 : 1); j++) {
        gate_row *g = &row[n++];
        *g = (gate_row){.v = h->angle + j * x->r->stored, .hi = 90, .unit = " deg"};
        if (n_h > 1)
            snprintf(g->name, sizeof g->name, "ang%d%d", j + 1, j + 2);
        else
            snprintf(g->name, sizeof g->name, "ang-1");
    }
    row[n++] = (gate_row){"gate", h->decay, 0, 1, "", 3};
    if (h->least)
        row[n++] = (gate_row){"min", h->least, 0, 1, "", 3};
    return n;
}

// First token of the strip: the cursor stands in its middle.
static int64_t first_of(const scene *x, int w) {
    int64_t every = x->r->every, span = w * every, first = x->t - span / 2;
    if (first + span > x->T)
        first = x->T - span;
    first = first < 0 ? 0 : first;
    return first / every * every;
}

static void draw(surface *s, rect r, const scene *x) {
    char left[64], name[32], text[64], a[24];
    gate_row row[ROWS];
    scene_head_name(x, x->head, name, sizeof name);
    snprintf(left, sizeof left, "gates %s", name);
    if (x->r && x->r->every > 1)
        snprintf(text, sizeof text, "every %lld tokens", (long long)x->r->every);
    else
        snprintf(text, sizeof text, "at cursor");
    panel_title(s, r, x, 6, left, text);
    if (panel_waits(s, r, x))
        return;
    if (x->head < 0) {
        panel_why(s, r, "no head with a matrix state");
        return;
    }
    int n = rows_of(x, row), w = r.w - NAME_W - 8;
    if (w < 4)
        return;
    int64_t first = first_of(x, w), every = x->r->every;
    int y = r.y + 1, last = r.y + r.h - 1, dim = x->stale ? ATTR_DIM : 0;
    for (int i = 0; i < n && y < last; i++, y++) {
        surface_text(s, y, r.x, NAME_W, 0, INK_PLAIN, row[i].name);
        if (!row[i].v) {
            surface_text(s, y, r.x + NAME_W, r.w - NAME_W, ATTR_DIM, INK_PLAIN,
                         "none in this family");
            continue;
        }
        for (int c = 0; c < w; c++) {
            int64_t t = first + c * every;
            if (t >= x->read || t >= x->T)
                break;
            int level = panel_ramp(row[i].v[t / every], row[i].lo, row[i].hi);
            surface_put(s, y, r.x + NAME_W + c, level < 0 ? 0 : panel_block(level),
                        dim | (t / every == x->t / every ? ATTR_BOLD : 0),
                        level < 0 ? INK_PLAIN : INK_RAMP + level);
        }
        if (x->t < x->read) {
            double v = row[i].v[x->t / every];
            if (isnan(v))
                snprintf(a, sizeof a, "nan");
            else
                snprintf(a, sizeof a, "%.*f%s", row[i].digits, v, row[i].unit);
            surface_text(s, y, r.x + r.w - 7, 7, 0, INK_PLAIN, a);
        }
    }
    if (y < last) {
        const run_head *h = &x->r->head[x->head];
        if (h->beta)
            snprintf(a, sizeof a, "beta 0..%g  ", h->s.beta_max);
        else
            a[0] = 0;
        surface_printf(s, y, r.x, r.w, ATTR_DIM, INK_PLAIN, "%sangle(k_i,k_j) 0..90%s", a,
                       h->decay ? "  gate 0..1" : "");
    }
    // Positions below, and the cursor between them.
    int64_t end = first + (w - 1) * every < x->T ? first + (w - 1) * every : x->T - 1;
    int at = r.x + NAME_W + (int)((x->t - first) / every);
    int used =
        surface_text(s, last, r.x + NAME_W, w, 0, INK_PLAIN, scene_count(first, a, sizeof a));
    scene_count(end, a, sizeof a);
    if (at < r.x + NAME_W + w - (int)strlen(a)) // the cursor's sign comes first
        surface_right(s, last, r.x + NAME_W + used + 1, w - used - 1, 0, INK_PLAIN, a);
    surface_put(s, last, at, '^', ATTR_BOLD, INK_PLAIN);
}

static void click(dash *d, const scene *x, rect r, int y, int at) {
    (void)y;
    int w = r.w - NAME_W - 8;
    if (x->r && w >= 4 && at >= r.x + NAME_W && at < r.x + NAME_W + w)
        dash_move_to(d, first_of(x, w) + (at - r.x - NAME_W) * x->r->every);
}

// From so many tokens on a curve of all of them is a block of colour: a mean is drawn over it.
enum { DENSE = 1024 };

static size_t mean_window(size_t n) {
    return n < DENSE ? 1 : n / 64 | 1;
}

// The curve of row g, faint behind its mean where it is dense; mean: room for k values. The mean has fewer
// points, so that an array of the panel's data (export_data.c) holds the tokens' own values alone.
static bool add_row(figure *f, const gate_row *g, size_t k, const double *xs, const double *ys,
                    double *mean, double *at, err *e) {
    size_t w = mean_window(k), stride = w / 8 > 1 ? w / 8 : 2, n = 0;
    if (!figure_series(f, g->name, w > 1 ? STYLE_FAINT : STYLE_LINE, k, xs, ys, NULL, NULL, NULL,
                       e))
        return false;
    if (w == 1)
        return true;
    char name[sizeof g->name + 8];
    series *raw = &f->series[f->n_series - 1];
    raw->silent = true;
    raw->colour = (int)(f->n_series / 2);
    loss_smooth(ys, (int64_t)k, (int64_t)w, mean);
    for (size_t j = 0; j < k; j += stride, n++) {
        mean[n] = mean[j];
        at[n] = xs[j];
    }
    snprintf(name, sizeof name, "%.39s mean", g->name);
    if (!figure_series(f, name, STYLE_LINE, n, at, mean, NULL, NULL, NULL, e))
        return false;
    f->series[f->n_series - 1].colour = (int)(f->n_series / 2 - 1);
    return true;
}

static bool make_figures(const scene *x, figures *out, err *e) {
    gate_row row[ROWS];
    const card *c = dash_card(x->d);
    if (x->head < 0)
        return err_set(e, ERR_INPUT, "no head with a matrix state");
    int n = rows_of(x, row);
    int64_t to = x->t1 < x->read ? x->t1 : x->read, every = x->r->every;
    int64_t from = (x->t0 + every - 1) / every * every;
    size_t k = to > from ? (size_t)((to - from + every - 1) / every) : 0;
    double *xs = mem_alloc(k + 1, sizeof *xs, "gates", e),
           *ys = mem_alloc(k + 1, sizeof *ys, "gates", e),
           *mean = mem_alloc(k + 1, sizeof *mean, "gates", e),
           *at = mem_alloc(k + 1, sizeof *at, "gates", e);
    bool ok = xs && ys && mean && at;
    char how[64] = "";
    if (mean_window(k) > 1)
        snprintf(how, sizeof how, "faint: single tokens, dark: mean of %lld; ",
                 (long long)mean_window(k) * every);
    for (int kind = 0; ok && kind < 2; kind++) { // factors, then angles
        char title[300], sub[300], name[32];
        scene_head_name(x, x->head, name, sizeof name);
        snprintf(title, sizeof title, "%s, %s %s",
                 kind ? "angles between keys" : "write strengths and decays", c->name, name);
        snprintf(sub, sizeof sub, "along %s; %s%s", x->text->d.name, how, x->r->device);
        figure *f = figure_new(FIG_CURVES, kind ? "angles" : "gates", title, sub, e);
        ok = f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, e) &&
             figure_axis(&f->y, kind ? "angle" : "factor", kind ? "degrees" : "1", SCALE_LINEAR, e);
        if (ok)
            f->x.whole = true;
        int drawn = 0;
        for (int i = 0; ok && i < n && k > 0; i++) {
            if (!row[i].v || (row[i].hi == 90) != (kind == 1))
                continue;
            for (size_t j = 0; j < k; j++) {
                xs[j] = (double)(from + (int64_t)j * every);
                ys[j] = row[i].v[(from + (int64_t)j * every) / every];
            }
            ok = add_row(f, &row[i], k, xs, ys, mean, at, e);
            drawn++;
        }
        if (ok && drawn)
            ok = figures_add(out, f, e);
        else
            figure_free(f);
    }
    free(xs);
    free(ys);
    free(mean);
    free(at);
    return ok;
}

const panel panel_gates = {
    .number = 6,
    .name = "gates",
    .what = "write strengths, decays and angles between keys of the cursor's head, token by token",
    .draw = draw,
    .figures = make_figures,
    .click = click,
};
