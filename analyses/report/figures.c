#include "analyses/report/figures.h"

#include "core/mem.h"
#include "core/order.h"

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

// Over rows, bins first .. last - 1 and heads that have the signal: their mean; of half-lives, which lie
// orders of magnitude apart, the median of the heads'. scratch: room for all heads.
static double value_of(const pair *p, const signal_kind *k, int64_t first, int64_t last,
                       double *scratch) {
    const head_stats *shape = &p->row[0].heads;
    size_t n = 0;
    for (int i = 0; i < shape->n_layers; i++)
        for (int h = 0; h < shape->shape[i].H; h++) {
            double sum = 0;
            int64_t known = 0;
            for (int64_t row = 0; row < p->n; row++)
                for (int64_t b = first; b < last; b++) {
                    double v = head_stats_line(&p->row[row].heads, i, h, k->signal)[b];
                    if (isfinite(v)) {
                        sum += v;
                        known++;
                    }
                }
            if (known)
                scratch[n++] = sum / (double)known;
        }
    if (n == 0)
        return NAN;
    if (k->half_life) {
        double forget = order_median(scratch, n);
        return forget > 0 ? M_LN2 / forget : NAN;
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += scratch[i];
    return sum / (double)n;
}

static size_t heads_of(const pair *p) {
    size_t n = 0;
    for (int i = 0; i < p->row[0].heads.n_layers; i++)
        n += (size_t)p->row[0].heads.shape[i].H;
    return n;
}

// Bins are gathered so that an eighth of an octave has one point: a point every some tokens would be
// noise at the right of a logarithmic axis.
static bool add_curve(figure *f, const pair *p, int colour, const signal_kind *k, bool *any,
                      err *e) {
    const head_stats *s = &p->row[0].heads;
    size_t n = 0;
    double *x = mem_alloc((size_t)s->bins, sizeof *x, "a curve", e);
    double *y = mem_alloc((size_t)s->bins, sizeof *y, "a curve", e);
    double *scratch = mem_alloc(heads_of(p), sizeof *scratch, "a curve", e);
    bool ok = x && y && scratch, some = false;
    for (int64_t first = 0, last; ok && first < s->bins; first = last) {
        last = first + 1;
        while (last < s->bins && (double)(last + 1) < (double)(first + 1) * 1.0905) // 2^(1/8)
            last++;
        double end = (double)last * (double)s->every;
        x[n] = end < (double)s->T ? end : (double)s->T;
        y[n] = value_of(p, k, first, last, scratch);
        some = some || !isnan(y[n]);
        n++;
    }
    if (ok && some) {
        ok = figure_series(f, p->model, STYLE_LINE, n, x, y, NULL, NULL, NULL, e);
        if (ok) // the same for a model in every picture, also where others have no curve
            f->series[f->n_series - 1].colour = colour;
    }
    *any = *any || some;
    free(x);
    free(y);
    free(scratch);
    return ok;
}

static figure *draw(const pair *const *p, size_t n, const signal_kind *k, const char *how,
                    bool *any, err *e) {
    char subtitle[512];
    const head_stats *s = &p[0]->row[0].heads;
    snprintf(subtitle, sizeof subtitle, "%.200s, %lld row%s of %lld tokens, %s over heads; %.100s",
             p[0]->document, (long long)p[0]->n, p[0]->n == 1 ? "" : "s", (long long)s->T,
             k->half_life ? "median" : "mean", how);
    figure *f = figure_new(FIG_CURVES, k->id, k->title, subtitle, e);
    *any = false;
    if (!f || !figure_axis(&f->x, "position", "tokens", SCALE_LOG2, e) ||
        !figure_axis(&f->y, k->axis, k->unit, k->half_life ? SCALE_LOG10 : SCALE_LINEAR, e))
        goto fail;
    f->x.tokens = true;
    for (size_t i = 0; i < n; i++)
        if (!add_curve(f, p[i], (int)i, k, any, e))
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

// ---- boundaries ---------------------------------------------------------------------------------

// Mean over the rows that have it.
static double over_rows_of(const pair *p, int layer, int head, int64_t boundary_only, int which) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const row_record *r = &p->row[i];
        double v = boundary_only
                       ? r->boundary[layer][head * BOUNDARY_NUMBERS + which]
                       : r->aligned[layer][head * BOUNDARY_ALIGNED * BOUNDARY_SPAN + which];
        if (r->boundaries && isfinite(v)) {
            sum += v;
            n++;
        }
    }
    return n ? sum / (double)n : NAN;
}

// The head that tells boundaries best by the number; false: none has it.
static bool best_head(const pair *p, boundary_number by, int *layer, int *head) {
    double best = -1;
    const head_stats *s = &p->row[0].heads;
    for (int i = 0; i < s->n_layers; i++)
        for (int h = 0; h < s->shape[i].H; h++) {
            double v = over_rows_of(p, i, h, 1, (int)by);
            if (v > best) {
                best = v;
                *layer = i;
                *head = h;
            }
        }
    return best >= 0;
}

static figure *draw_boundary(const pair *const *p, size_t n, bool gate, const char *how, bool *any,
                             err *e) {
    char subtitle[512], name[300];
    double x[BOUNDARY_SPAN], y[BOUNDARY_SPAN];
    int64_t all = 0;
    *any = false;
    for (int64_t i = 0; i < p[0]->n; i++)
        all += p[0]->row[i].boundaries;
    snprintf(subtitle, sizeof subtitle,
             "%.200s, mean over %lld boundaries, best head of a model; %.100s", p[0]->document,
             (long long)all, how);
    figure *f = figure_new(FIG_CURVES, gate ? "boundary-gate" : "boundary-size",
                           gate ? "gate around a document boundary"
                                : "size of the state around a document boundary",
                           subtitle, e);
    if (!f || !figure_axis(&f->x, "token after the boundary", "tokens", SCALE_LINEAR, e) ||
        !figure_axis(&f->y, gate ? "decay g" : "|H| over |H| before", "1", SCALE_LINEAR, e) ||
        !figure_mark(f, MARK_X, 0, "boundary", e))
        goto fail;
    f->x.whole = true;
    for (size_t m = 0; m < n; m++) {
        int layer = 0, head = 0;
        if (!best_head(p[m], gate ? BOUNDARY_AUC_GATE : BOUNDARY_AUC_NORM, &layer, &head))
            continue;
        *any = true;
        for (int i = 0; i < BOUNDARY_SPAN; i++) {
            int which = gate ? BOUNDARY_ALIGNED_FORGET : BOUNDARY_ALIGNED_SIZE;
            double v = over_rows_of(p[m], layer, head, 0, which * BOUNDARY_SPAN + i);
            x[i] = i - BOUNDARY_BEFORE;
            y[i] = exp(gate ? -v : v);
        }
        snprintf(name, sizeof name, "%.250s L%d.H%d", p[m]->model, p[m]->row[0].heads.layer[layer],
                 head);
        if (!figure_series(f, name, STYLE_LINE, BOUNDARY_SPAN, x, y, NULL, NULL, NULL, e))
            goto fail;
        f->series[f->n_series - 1].colour = (int)m;
    }
    return f;
fail:
    figure_free(f);
    return NULL;
}

bool report_boundary_figures(const pair *const *p, size_t n, const char *how, figures *out,
                             err *e) {
    figures_init(out, 2);
    for (int k = 0; k < 2; k++) {
        bool any;
        figure *f = draw_boundary(p, n, k == 0, how, &any, e);
        if (f && !any) {
            figure_free(f);
            continue;
        }
        if (!figures_add(out, f, e)) {
            figures_free(out);
            return false;
        }
    }
    return true;
}
