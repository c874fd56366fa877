// Panel 2: effective rank of the cursor's head and of marked ones along the document.
#include "cli/dash/plotarea.h"

#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Fine cells where there are some, else base samples.
static double sample(const run *r, int head, const float *fine, quantity q, int64_t t,
                     bool *there) {
    if (fine) {
        float v = run_cell(fine + t * Q_N + q);
        if (v != RUN_PENDING) {
            *there = true;
            return v;
        }
    }
    bool whole = (t + 1) % RANK_EVERY == 0;
    if (!whole && t != r->T - 1) {
        *there = false;
        return NAN;
    }
    int64_t i = whole ? (t + 1) / RANK_EVERY - 1 : r->n_base - 1;
    *there = i < atomic_load_explicit(&((run *)r)->sampled, memory_order_acquire);
    return *there ? r->head[head].base[i * Q_N + q] : NAN;
}

// The next token from t on that may have a sample.
static int64_t next_sample(const run *r, const float *fine, int64_t t) {
    if (fine || t >= r->T - 1)
        return t;
    int64_t k = (t + RANK_EVERY) / RANK_EVERY * RANK_EVERY - 1;
    return k < r->T - 1 ? k : r->T - 1;
}

// Mean of the samples of each dot column; columns between two samples lie on the line between them.
static void fill(const plotarea *p, const run *r, int head, quantity q, value_scale scale,
                 double *y, int *nan) {
    const float *fine = atomic_load_explicit(&((run *)r)->head[head].fine, memory_order_acquire);
    int last = -1;
    int64_t far = 0, read = run_read(r);
    for (int i = 0; i < p->n; i++) {
        int64_t from, to;
        double sum = 0;
        int n = 0, bad = 0;
        plotarea_tokens(p, i, &from, &to);
        to = to < read ? to : read;
        for (int64_t t = next_sample(r, fine, from); t < to; t = next_sample(r, fine, t + 1)) {
            bool there;
            double v = sample(r, head, fine, q, t, &there);
            if (there && isfinite(v))
                sum += v, n++;
            else if (there)
                bad++;
        }
        *nan += bad;
        y[i] = bad || !n ? NAN : plotarea_scaled(sum / n, scale);
        if (bad)
            last = -1;
        if (!n)
            continue;
        int64_t gap = last >= 0 ? from - far : 0;
        for (int k = last + 1; last >= 0 && k < i && gap <= 2 * RANK_EVERY; k++)
            y[k] = y[last] + (y[i] - y[last]) * (k - last) / (i - last);
        last = i;
        far = from;
    }
}

static int curves_of(const scene *x, const run **r, int *head, char (*name)[80]) {
    int n = 0;
    for (int i = 0; i < x->n_heads && n < CURVES; i++) {
        r[n] = x->r;
        head[n] = x->heads[i];
        scene_head_name(x, head[n], name[n], sizeof name[n]);
        n++;
    }
    for (int m = 0; x->d->look.compare == COMPARE_BOTH && m < x->d->in.n_models && n < CURVES;
         m++) {
        const run *other = x->s->shown[m];
        int h = other && m != x->d->in.slot ? run_find(other, x->d->layer, x->d->head) : -1;
        if (h < 0)
            continue;
        r[n] = other;
        head[n] = h;
        snprintf(name[n], sizeof name[n], "L%d.H%d of %c", x->d->layer, x->d->head, 'a' + m);
        n++;
    }
    return n;
}

static void draw(surface *s, rect r, const scene *x) {
    static _Thread_local plot_curve c[CURVES];
    const run *of[CURVES];
    int head[CURVES], nan = 0;
    char name[CURVES][80], left[64], right[360] = "";
    const card *card = dash_card(x->d);
    int most = card ? (card->s.K < card->s.V ? card->s.K : card->s.V) : 0;
    snprintf(left, sizeof left, "effective rank (of %d)", most);
    if (!x->r || x->read == 0 || x->n_heads == 0) {
        panel_title(s, r, x, 2, "effective rank", "");
        if (!panel_waits(s, r, x))
            panel_why(s, r, "no head with a matrix state");
        return;
    }
    plotarea p = plotarea_make(r, x->t0, x->t1);
    int n = curves_of(x, of, head, name);
    for (int i = 0; i < n; i++) {
        c[i] = (plot_curve){.letter = (char)('a' + i), .ink = INK_A + i};
        fill(&p, of[i], head[i], Q_ERANK, x->d->look.scale == SCALE_AXIS_LOG ? SCALE_AXIS_LOG : 0,
             c[i].y, &nan);
        size_t at = strlen(right);
        snprintf(right + at, sizeof right - at, "%s%c %s", at ? "  " : "", 'a' + i, name[i]);
    }
    if (nan)
        snprintf(right, sizeof right, "%d nan", nan);
    if (strlen(left) + strlen(right) + 7 > (size_t)r.w) // the names matter more than the word
        snprintf(left, sizeof left, "erank (of %d)", most);
    panel_title(s, r, x, 2, left, right);
    double lo, hi;
    if (!plotarea_range(&p, c, n, &lo, &hi)) {
        panel_why(s, r,
                  nan ? "undefined here: states of nothing have no rank"
                      : "no state is sampled in this stretch yet");
        return;
    }
    if (x->d->look.same_scale && x->d->look.scale == SCALE_AXIS_LINEAR) {
        lo = 0;
        hi = most;
    }
    plotarea_draw(s, &p, x, c, n, lo, hi, x->d->look.scale == SCALE_AXIS_LOG ? SCALE_AXIS_LOG : 0,
                  x->read);
}

static void click(dash *d, const scene *x, rect r, int y, int at) {
    plotarea p = plotarea_make(r, x->t0, x->t1);
    (void)y;
    if (at >= p.in.x)
        dash_move_to(d, plotarea_token(&p, at));
}

static bool make_figures(const scene *x, figures *out, err *e) {
    const run *of[CURVES];
    int head[CURVES];
    char name[CURVES][80], sub[256];
    const card *card = dash_card(x->d);
    int n = curves_of(x, of, head, name);
    // The screen's header says which model is b; a picture stands alone.
    for (int i = 0; i < n; i++)
        for (int m = 0; of[i] != x->r && m < x->d->in.n_models; m++)
            if (of[i] == x->s->shown[m])
                snprintf(name[i], sizeof name[i], "L%d.H%d of %s", x->d->layer, x->d->head,
                         x->d->in.model[m]->name);
    char title[300], unit[24];
    snprintf(title, sizeof title, "effective rank, %s", card->name);
    snprintf(sub, sizeof sub, "along %s; %s, %s", x->text->d.name, x->r->device,
             precision_name(x->r->prec));
    snprintf(unit, sizeof unit, "of %d", card->s.K < card->s.V ? card->s.K : card->s.V);
    figure *f = figure_new(FIG_CURVES, "rank", title, sub, e);
    size_t room = (size_t)(x->t1 - x->t0) + 1;
    double *xs = mem_alloc(room, sizeof *xs, "a curve", e),
           *ys = mem_alloc(room, sizeof *ys, "a curve", e);
    bool ok = f && xs && ys && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "effective rank", unit, SCALE_LINEAR, e);
    if (f)
        f->x.tokens = true;
    for (int i = 0; ok && i < n; i++) {
        const float *fine =
            atomic_load_explicit(&((run *)of[i])->head[head[i]].fine, memory_order_acquire);
        size_t k = 0;
        for (int64_t t = x->t0; t < x->t1 && t < run_read(of[i]); t++) {
            bool there;
            double v = sample(of[i], head[i], fine, Q_ERANK, t, &there);
            if (!there)
                continue;
            xs[k] = (double)t;
            ys[k++] = v;
        }
        ok = k == 0 || figure_series(f, name[i], STYLE_LINE, k, xs, ys, NULL, NULL, NULL, e);
    }
    if (ok && card->train_length > 0 && card->train_length < x->t1)
        ok = figure_mark(f, MARK_X, (double)card->train_length, "train length", e);
    free(xs);
    free(ys);
    if (!ok) {
        figure_free(f);
        return false;
    }
    return figures_add(out, f, e);
}

const panel panel_rank = {
    .number = 2,
    .name = "rank",
    .what = "effective rank of the cursor's head (a) and marked ones (b c d) along the document",
    .draw = draw,
    .figures = make_figures,
    .click = click,
};
