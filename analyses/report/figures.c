#include "analyses/report/figures.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool report_pick(figures *from, const char *id, figures *to, err *e) {
    for (size_t i = 0; i < from->n; i++)
        if (from->v[i] && strcmp(from->v[i]->id, id) == 0) {
            figure *f = from->v[i];
            memmove(from->v + i, from->v + i + 1, (from->n - i - 1) * sizeof *from->v);
            from->n--;
            return figures_add(to, f, e);
        }
    return err_set(e, ERR_INPUT, "there is no figure %s", id);
}

typedef struct signal_kind {
    const char *id, *title, *axis, *unit;
    head_signal signal;
    bool half_life; // ln 2 / the signal
} signal_kind;

static const signal_kind kinds[] = {
    {"delta-loss", "delta-rule loss along the row", "|v - H^T k| / |v|", "1", HEAD_DELTA_LOSS,
     false},
    {"beta", "write strength along the row", "beta", "1", HEAD_BETA, false},
    {"gate", "half-life of the gate along the row", "half-life", "tokens", HEAD_FORGET, true},
};

// Mean over rows and heads that have the signal; NaN for none.
static double mean_of(const pair *p, const signal_kind *k, int64_t bin) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t row = 0; row < p->n; row++) {
        const head_stats *s = &p->row[row].heads;
        for (int i = 0; i < s->n_layers; i++)
            for (int h = 0; h < s->shape[i].H; h++) {
                double v = head_stats_line(s, i, h, k->signal)[bin];
                if (isfinite(v)) {
                    sum += v;
                    n++;
                }
            }
    }
    double mean = n ? sum / (double)n : NAN;
    return k->half_life ? (mean > 0 ? M_LN2 / mean : NAN) : mean;
}

static bool add_curve(figure *f, const pair *p, const signal_kind *k, bool *any, err *e) {
    const head_stats *s = &p->row[0].heads;
    size_t n = (size_t)s->bins;
    double *x = mem_alloc(n, sizeof *x, "a curve", e), *y = mem_alloc(n, sizeof *y, "a curve", e);
    bool ok = x && y, some = false;
    for (size_t b = 0; ok && b < n; b++) {
        double end = (double)(b + 1) * (double)s->every;
        x[b] = end < (double)s->T ? end : (double)s->T;
        y[b] = mean_of(p, k, (int64_t)b);
        some = some || !isnan(y[b]);
    }
    if (ok && some)
        ok = figure_series(f, p->model, STYLE_LINE, n, x, y, NULL, NULL, NULL, e);
    *any = *any || some;
    free(x);
    free(y);
    return ok;
}

static figure *draw(const pair *const *p, size_t n, const signal_kind *k, const char *how,
                    bool *any, err *e) {
    char subtitle[512];
    const head_stats *s = &p[0]->row[0].heads;
    snprintf(subtitle, sizeof subtitle,
             "%.200s, %lld rows of %lld tokens, mean over heads and %lld tokens; %.100s",
             p[0]->document, (long long)p[0]->n, (long long)s->T, (long long)s->every, how);
    figure *f = figure_new(FIG_CURVES, k->id, k->title, subtitle, e);
    *any = false;
    if (!f || !figure_axis(&f->x, "position", "tokens", SCALE_LOG2, e) ||
        !figure_axis(&f->y, k->axis, k->unit, k->half_life ? SCALE_LOG10 : SCALE_LINEAR, e))
        goto fail;
    f->x.tokens = true;
    for (size_t i = 0; i < n; i++)
        if (!add_curve(f, p[i], k, any, e))
            goto fail;
    int64_t L = p[0]->loss.train_length;
    bool alike = L > 0 && L < s->T;
    for (size_t i = 1; i < n; i++)
        alike = alike && p[i]->loss.train_length == L;
    if (alike && !figure_mark(f, MARK_X, (double)L, "training length", e))
        goto fail;
    return f;
fail:
    figure_free(f);
    return NULL;
}

bool report_signal_figures(const pair *const *p, size_t n, const char *how, figures *out, err *e) {
    figures_init(out, 3);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool any;
        figure *f = draw(p, n, &kinds[k], how, &any, e);
        if (f && !any) {
            figure_free(f);
            continue;
        }
        if (!figures_add(out, f, e)) {
            figures_free(out);
            return false;
        }
    }
    out->columns = out->n ? (int)out->n : 1;
    return true;
}
