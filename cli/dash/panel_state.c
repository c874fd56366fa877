// Panel 8: size and shape of the cursor's state along the document.
#include "cli/dash/plotarea.h"

#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_W = 13, VALUE_W = 7 };

static const struct {
    quantity q;
    const char *name;
    bool share;
} rows[] = {{Q_NORM, "|H|_F", false}, {Q_STABLE, "stabl", false}, {Q_COND, "log c", false},
            {Q_S1, "s1", true},       {Q_S4, "s2-4", true},       {Q_S16, "s5-16", true},
            {Q_REST, "s17+", true}};
enum { ROWS = sizeof rows / sizeof *rows };

// Mean of the base samples in [from, to); the last one before when there is none.
static double column_mean(const run *r, int head, quantity q, int64_t from, int64_t to) {
    int64_t n = atomic_load_explicit(&((run *)r)->sampled, memory_order_acquire);
    double sum = 0;
    int k = 0;
    for (int64_t i = from / RANK_EVERY; i < n && run_base_token(r, i) < to; i++) {
        double v = r->head[head].base[i * Q_N + q];
        if (run_base_token(r, i) >= from && isfinite(v))
            sum += v, k++;
    }
    if (k)
        return sum / k;
    int64_t i = (to + RANK_EVERY - 1) / RANK_EVERY - 1; // the sample that covers it
    return i >= 0 && i < n ? r->head[head].base[i * Q_N + q] : NAN;
}

// One value a column; returns the largest.
static double fill(const scene *x, quantity q, double *v, int w, int64_t span) {
    double top = 0;
    for (int c = 0; c < w; c++) {
        int64_t from = x->t0 + span * c / w, to = x->t0 + span * (c + 1) / w;
        v[c] =
            from < x->read ? column_mean(x->r, x->head, q, from, to > from ? to : from + 1) : NAN;
        top = isfinite(v[c]) ? fmax(top, v[c]) : top;
    }
    return top;
}

static void draw(surface *s, rect r, const scene *x) {
    char left[64], name[32], a[64], b[32];
    scene_head_name(x, x->head, name, sizeof name);
    snprintf(left, sizeof left, "state %s", name);
    panel_title(s, r, x, 8, left, "shares of the sum of sigma");
    if (panel_waits(s, r, x))
        return;
    if (x->head < 0) {
        panel_why(s, r, "no head with a matrix state");
        return;
    }
    static _Thread_local double v[SURFACE_MOST];
    int w = r.w - NAME_W - VALUE_W, y = r.y + 1, last = r.y + r.h - 1;
    const head_shape *shape = &x->r->head[x->head].s;
    int rank = shape->K < shape->V ? shape->K : shape->V;
    if (w < 4)
        return;
    int64_t span = x->t1 - x->t0;
    double top_share = 0;
    for (int i = 0; i < ROWS; i++) // one scale for all shares
        if (rows[i].share)
            top_share = fmax(top_share, fill(x, rows[i].q, v, w, span));
    top_share = ceil(top_share * 10 - 1e-9) / 10;
    for (int i = 0; i < ROWS && y < last; i++) {
        if ((rows[i].q == Q_REST && rank < 17) || (rows[i].q == Q_S16 && rank < 5))
            continue;
        double top = fill(x, rows[i].q, v, w, span);
        top = rows[i].share ? top_share : top > 1 ? ceil(top) : top;
        if (top >= 1)
            snprintf(a, sizeof a, "%-5s 0..%.0f", rows[i].name, top);
        else
            snprintf(a, sizeof a, "%-5s 0..%s", rows[i].name, scene_number(top, 3, b, sizeof b));
        surface_text(s, y, r.x, NAME_W - 1, 0, INK_PLAIN, a);
        for (int c = 0; c < w; c++) {
            int level = panel_ramp(v[c], 0, top);
            if (level >= 0)
                surface_put(s, y, r.x + NAME_W + c, panel_block(level), x->stale ? ATTR_DIM : 0,
                            INK_RAMP + level);
        }
        int64_t at;
        double here = scene_rank(x, x->head, rows[i].q, x->t, &at);
        if (at >= 0 && rows[i].q == Q_COND && isfinite(here))
            snprintf(a, sizeof a, " 1e%.1f", here);
        else if (at >= 0 && rows[i].share && isfinite(here))
            snprintf(a, sizeof a, " %.0f%%", 100 * here);
        else if (at >= 0)
            snprintf(a, sizeof a, " %s", scene_number(here, 4, b, sizeof b));
        else
            snprintf(a, sizeof a, " ?");
        surface_text(s, y++, r.x + r.w - VALUE_W, VALUE_W, 0, INK_PLAIN, a);
    }
    plotarea_positions(s, last, r.x + NAME_W, w, x->t0, x->t1);
}

static void click(dash *d, const scene *x, rect r, int y, int at) {
    int w = r.w - NAME_W - VALUE_W;
    (void)y;
    if (w > 0 && at >= r.x + NAME_W && at < r.x + NAME_W + w)
        dash_move_to(d, x->t0 + (x->t1 - x->t0) * (at - r.x - NAME_W) / w);
}

static bool make_figures(const scene *x, figures *out, err *e) {
    const card *c = dash_card(x->d);
    if (x->head < 0)
        return err_set(e, ERR_INPUT, "no head with a matrix state");
    int64_t n = atomic_load_explicit(&((run *)x->r)->sampled, memory_order_acquire);
    double *xs = mem_alloc((size_t)n + 1, sizeof *xs, "states", e);
    double *ys = mem_alloc((size_t)n + 1, sizeof *ys, "states", e);
    static const char *const axis[][2] = {{"Frobenius norm", "1"},
                                          {"stable rank", "1"},
                                          {"log10 of the condition number", "1"},
                                          {"share of the sum of singular values", "1"}};
    bool ok = xs && ys;
    figure *f = NULL;
    for (int i = 0; ok && i < ROWS; i++) {
        if (i <= 3) {
            char title[300], sub[300], name[32], id[32];
            scene_head_name(x, x->head, name, sizeof name);
            snprintf(title, sizeof title, "%s, %s %s", axis[i][0], c->name, name);
            snprintf(sub, sizeof sub, "along %s; %s", x->text->d.name, x->r->device);
            snprintf(id, sizeof id, "state-%d", i + 1);
            f = figure_new(FIG_CURVES, id, title, sub, e);
            ok = f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, e) &&
                 figure_axis(&f->y, axis[i][0], axis[i][1], SCALE_LINEAR, e) &&
                 figures_add(out, f, e);
            if (ok)
                f->x.whole = true;
        }
        size_t k = 0;
        bool any = false;
        for (int64_t j = 0; ok && j < n; j++) {
            int64_t t = run_base_token(x->r, j);
            if (t < x->t0 || t >= x->t1)
                continue;
            xs[k] = (double)t;
            ys[k] = x->r->head[x->head].base[j * Q_N + rows[i].q];
            any |= isfinite(ys[k++]);
        }
        if (ok && any)
            ok = figure_series(f, rows[i].name, STYLE_LINE, k, xs, ys, NULL, NULL, NULL, e);
        // Alone in its figure, a curve has its name in the title, and in full.
        if (ok && any && !rows[i].share)
            f->series[0].silent = true;
    }
    free(xs);
    free(ys);
    return ok;
}

const panel panel_state = {
    .number = 8,
    .name = "state",
    .what = "norm, stable rank, condition and singular values of the cursor's state",
    .draw = draw,
    .figures = make_figures,
    .click = click,
};
