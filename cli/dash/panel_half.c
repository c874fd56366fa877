// Panel 7: half-lives of all eigenvalues of windows spread over the view.
#include "cli/dash/panel.h"

#include <stdio.h>
#include <string.h>

enum { ALL_ROWS = MODE_BINS + 1, LABEL_W = 5, SHARE_W = 7 };

static const char *const edges[MODE_BINS + 1] = {"0",   "8",   "16", "32", "64", "128",
                                                 "256", "512", "1k", "2k", "4k", ""};

typedef struct bars {
    int n;
    char label[ALL_ROWS][12];
    double share[ALL_ROWS];
} bars;

// As many rows as there is room for: the longest are joined first, then the shortest.
static bars bars_of(const modes *m, int room) {
    bars b = {.n = 0};
    int lo = 0, hi = MODE_BINS - 1; // rows lo..hi keep bins of their own
    int want = room - 1;            // one row for those that never decay
    while (hi - lo + 1 > want && hi > 6)
        hi--;
    while (hi - lo + 1 > want && lo < 5)
        lo++;
    double all = m->n ? (double)m->n : 1;
    for (int i = lo; i <= hi; i++) {
        int64_t sum = 0;
        for (int k = i == lo ? 0 : i; k <= (i == hi ? MODE_BINS - 1 : i); k++)
            sum += m->bin[k];
        if (i == lo)
            snprintf(b.label[b.n], sizeof b.label[0], "<%s", edges[lo + 1]);
        else
            snprintf(b.label[b.n], sizeof b.label[0], "%s%s", edges[i], i == hi ? "+" : "");
        b.share[b.n++] = (double)sum / all;
    }
    snprintf(b.label[b.n], sizeof b.label[0], "never");
    b.share[b.n++] = (double)m->never / all;
    return b;
}

static const modes *modes_of(const scene *x) {
    const modes *m = x->s->modes;
    if (!m || !x->r || m->slot != x->d->in.slot || m->generation != x->r->generation ||
        m->head != x->head)
        return NULL;
    return m;
}

static void draw(surface *s, rect r, const scene *x) {
    char left[96], right[64] = "", name[32], a[32];
    scene_head_name(x, x->head, name, sizeof name);
    snprintf(left, sizeof left, "half-life %s (tokens)", name);
    const modes *m = modes_of(x);
    bool old = m && (m->t0 != x->t0 || m->t1 != x->t1 || m->W != dash_mode_window(x->d));
    if (m)
        snprintf(right, sizeof right, "%swindow %lld", old ? "stale  " : "", (long long)m->W);
    panel_title(s, r, x, 7, left, right);
    if (panel_waits(s, r, x))
        return;
    if (x->head < 0 || !m || m->n == 0) {
        panel_why(s, r, "%s",
                  x->head < 0      ? "no head with a matrix state"
                  : m && m->why[0] ? m->why
                  : x->read < x->T ? "after the pass"
                                   : "computing");
        return;
    }
    int rows = r.h - 1, foot = rows >= 6;
    bars b = bars_of(m, rows - foot < ALL_ROWS ? rows - foot : ALL_ROWS);
    double most = 1e-9;
    for (int i = 0; i < b.n; i++)
        most = fmax(most, b.share[i]);
    int w = r.w - LABEL_W - 1 - SHARE_W, dim = x->stale || old ? ATTR_DIM : 0;
    for (int i = 0; i < b.n && i < rows; i++) {
        int y = r.y + 1 + i;
        surface_right(s, y, r.x, LABEL_W, 0, INK_PLAIN, b.label[i]);
        surface_put(s, y, r.x + LABEL_W, 0x2502, 0, INK_PLAIN);
        if (w > 0)
            panel_bar(s, y, r.x + LABEL_W + 1, w, b.share[i] / most, INK_A);
        snprintf(a, sizeof a, "%.1f%%", 100 * b.share[i]);
        surface_right(s, y, r.x + r.w - SHARE_W, SHARE_W, 0, INK_PLAIN, a);
    }
    if (foot)
        surface_printf(s, r.y + r.h - 1, r.x, r.w, ATTR_DIM, INK_PLAIN,
                       "%s eigenvalues, %d of %d windows%s", scene_count(m->n, a, sizeof a),
                       m->windows, m->wanted, m->W != x->d->look.W ? ", W raised to K/n_h" : "");
    if (dim)
        surface_attr(s, (rect){r.y + 1, r.x, r.h - 1, r.w}, dim);
}

static bool make_figures(const scene *x, figures *out, err *e) {
    const modes *m = modes_of(x);
    const card *c = dash_card(x->d);
    if (!m || m->n == 0)
        return err_set(e, ERR_INPUT, "no half-lives yet");
    bars b = bars_of(m, ALL_ROWS);
    char title[300], sub[300], name[32];
    double y[ALL_ROWS], at[ALL_ROWS];
    scene_head_name(x, x->head, name, sizeof name);
    snprintf(title, sizeof title, "half-lives, %s %s", c->name, name);
    snprintf(sub, sizeof sub, "%d windows of %lld tokens, %s; %s", m->windows, (long long)m->W,
             x->text->d.name, x->r->device);
    figure *f = figure_new(FIG_BARS, "half-lives", title, sub, e);
    bool ok = f && figure_axis(&f->x, "half-life", "tokens", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "share of eigenvalues", "%", SCALE_LINEAR, e);
    for (int i = 0; ok && i < b.n; i++) {
        at[i] = i;
        y[i] = 100 * b.share[i];
        ok = figure_category(f, b.label[i], e);
    }
    ok = ok && figure_series(f, name, STYLE_LINE, (size_t)b.n, at, y, NULL, NULL, NULL, e);
    if (!ok) {
        figure_free(f);
        return false;
    }
    f->series[0].silent = true; // the title names the head
    return figures_add(out, f, e);
}

const panel panel_half = {
    .number = 7,
    .name = "half",
    .what = "half-lives of the eigenvalues of windows spread over the view",
    .draw = draw,
    .figures = make_figures,
};
