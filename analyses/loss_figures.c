// The pictures of losses (analyses/loss.h).
#include "analyses/loss.h"

#include "analyses/resample.h"
#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct picked {
    int64_t *at; // positions drawn
    int64_t n;
} picked;

enum { POINTS = 2048 };

// Evenly spaced, the last one included.
static bool pick_even(picked *p, int64_t n, err *e) {
    int64_t stride = (n + POINTS - 1) / POINTS;
    p->n = 0;
    p->at = mem_alloc(POINTS + 2, sizeof *p->at, "positions", e);
    for (int64_t i = 0; p->at && i < n; i += stride)
        p->at[p->n++] = i;
    if (p->at && n > 0 && p->at[p->n - 1] != n - 1)
        p->at[p->n++] = n - 1;
    return p->at != NULL;
}

// All of the first ones, then half a percent apart: for a logarithmic axis.
static bool pick_log(picked *p, int64_t n, err *e) {
    double next = 0;
    p->n = 0;
    p->at = mem_alloc(2 * POINTS, sizeof *p->at, "positions", e);
    for (int64_t i = 0; p->at && i < n && p->n < 2 * POINTS; i++) {
        if ((double)i < next && i + 1 < n)
            continue;
        p->at[p->n++] = i;
        next = (double)i < 128 ? (double)i + 1 : (double)i * 1.005;
    }
    return p->at != NULL;
}

// Mean over rows of the smoothed losses, less those of `base` (NULL: nothing), with its band.
static bool add_loss_curve(figure *f, const loss_result *r, const loss_result *base, int64_t smooth,
                           int resamples, uint64_t seed, err *e) {
    bool ok = false;
    picked p = {0};
    size_t n = (size_t)r->n, rows = (size_t)r->rows;
    double *smoothed = mem_alloc(rows * n, sizeof *smoothed, "smoothed losses", e);
    double *raw = mem_alloc(n, sizeof *raw, "losses", e);
    double *scratch = mem_alloc((size_t)resamples + rows + 1, sizeof *scratch, "resamples", e);
    double *v = NULL;
    if (!smoothed || !raw || !scratch || !pick_even(&p, r->n, e))
        goto done;
    v = mem_alloc((size_t)p.n * 4 + 1, sizeof *v, "a curve", e);
    if (!v)
        goto done;
    double *x = v, *y = v + p.n, *lo = y + p.n, *hi = lo + p.n;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < n; i++)
            raw[i] = r->loss[row * n + i] - (base ? base->loss[row * n + i] : 0);
        loss_smooth(raw, r->n, smooth, smoothed + row * n);
    }
    for (int64_t i = 0; i < p.n; i++) {
        double sum = 0;
        for (size_t row = 0; row < rows; row++)
            sum += scratch[row] = smoothed[row * n + (size_t)p.at[i]];
        x[i] = (double)(p.at[i] + 1);
        y[i] = sum / (double)rows;
        resample_mean(scratch, r->rows, resamples, seed, scratch + rows, &lo[i], &hi[i]);
    }
    char band[64];
    snprintf(band, sizeof band, "95%% bootstrap over %lld rows, %d resamples", (long long)r->rows,
             resamples);
    bool banded = r->rows >= 2 && resamples >= 2;
    ok = figure_series(f, r->model, STYLE_LINE, (size_t)p.n, x, y, banded ? lo : NULL,
                       banded ? hi : NULL, banded ? band : NULL, e);
done:
    free(p.at);
    free(smoothed);
    free(raw);
    free(scratch);
    free(v);
    return ok;
}

static bool add_ppl_curves(figure *f, const loss_result *r, err *e) {
    bool ok = false;
    picked p = {0};
    double *v = NULL;
    if (!pick_log(&p, r->n, e))
        return false;
    v = mem_alloc((size_t)p.n * 2 + 6 * LOSS_MAX_STRETCHES, sizeof *v, "a curve", e);
    if (!v)
        goto done;
    double *x = v, *y = v + p.n, *bx = y + p.n, *by = bx + 3 * LOSS_MAX_STRETCHES, sum = 0;
    int64_t k = 0;
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t row = 0; row < r->rows; row++)
            sum += r->loss[row * r->n + i];
        if (k < p.n && p.at[k] == i) {
            x[k] = (double)(i + 1);
            y[k++] = exp(sum / (double)((i + 1) * r->rows));
        }
    }
    char name[256];
    snprintf(name, sizeof name, "%s, running", r->model);
    if (!figure_series(f, name, STYLE_LINE, (size_t)p.n, x, y, NULL, NULL, NULL, e))
        goto done;
    for (int64_t i = 0; i < r->n_stretches; i++) {
        const loss_stretch *s = &r->stretch[i];
        bx[3 * i] = s->from ? (double)s->from : 1;
        bx[3 * i + 1] = bx[3 * i + 2] = (double)s->to;
        by[3 * i] = by[3 * i + 1] = s->block_ppl;
        by[3 * i + 2] = NAN; // a gap between blocks
    }
    snprintf(name, sizeof name, "%s, block", r->model);
    ok =
        figure_series(f, name, STYLE_LINE, 3 * (size_t)r->n_stretches, bx, by, NULL, NULL, NULL, e);
    // Blocks wear the colour of their model's curve, and its name in the legend serves both.
    if (ok)
        f->series[f->n_series - 1].silent = true;
    if (ok && f->n_series >= 2)
        f->series[f->n_series - 1].colour = f->series[f->n_series - 2].colour =
            (int)(f->n_series / 2 - 1);
done:
    free(p.at);
    free(v);
    return ok;
}

static bool position_axis(figure *f, axis_scale scale, err *e) {
    f->x.tokens = true;
    return figure_axis(&f->x, "position", "tokens", scale, e);
}

static bool train_marks(figure *f, const loss_result *const *r, size_t n, err *e) {
    for (size_t i = 0; i < n; i++) {
        bool seen = r[i]->train_length <= 0 || r[i]->train_length > r[i]->n;
        for (size_t j = 0; j < i; j++)
            seen |= r[j]->train_length == r[i]->train_length;
        if (!seen && !figure_mark(f, MARK_X, (double)r[i]->train_length, "train length", e))
            return false;
    }
    return true;
}

// Differences mean something only where both models read the same tokens.
static bool paired(const loss_result *a, const loss_result *b) {
    return a->n == b->n && a->rows == b->rows && a->ids_mark == b->ids_mark;
}

// A panel of losses, or of differences to the first model.
static figure *loss_panel(const loss_result *const *r, size_t n, bool differences, int64_t smooth,
                          int resamples, uint64_t seed, const char *id, const char *how, err *e) {
    char title[256], sub[512], name[256];
    const loss_result *base = differences ? r[0] : NULL;
    if (differences)
        snprintf(title, sizeof title, "difference to %s along %s", r[0]->model, r[0]->document);
    else
        snprintf(title, sizeof title, "loss along %s", r[0]->document);
    snprintf(sub, sizeof sub, "%lld row%s of %lld tokens, moving mean of %lld, cut at the ends; %s",
             (long long)r[0]->rows, r[0]->rows == 1 ? "" : "s", (long long)r[0]->n + 1,
             (long long)smooth, how);
    snprintf(name, sizeof name, "%s", differences ? "loss difference" : "loss");
    figure *f = figure_new(FIG_CURVES, id, title, sub, e);
    bool ok = f && position_axis(f, SCALE_LINEAR, e) &&
              figure_axis(&f->y, name, "nats/token", SCALE_LINEAR, e);
    for (size_t i = 0; ok && i < n; i++)
        if (r[i]->n > 0 && (!differences || paired(r[i], base)))
            ok = add_loss_curve(f, r[i], base, smooth, resamples, seed, e);
    if (ok && train_marks(f, r, n, e))
        return f;
    figure_free(f);
    return NULL;
}

static figure *ppl_panel(const loss_result *const *r, size_t n, const char *id, err *e) {
    char title[256];
    snprintf(title, sizeof title, "perplexity along %s", r[0]->document);
    figure *f =
        figure_new(FIG_CURVES, id, title,
                   "curves: running (all tokens so far); level pieces: block (one stretch)", e);
    bool ok = f && position_axis(f, SCALE_LOG2, e) &&
              figure_axis(&f->y, "running and block perplexity", "1", SCALE_LOG10, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = r[i]->n == 0 || add_ppl_curves(f, r[i], e);
    if (ok && train_marks(f, r, n, e))
        return f;
    figure_free(f);
    return NULL;
}

// Wide enough for long rows, narrow enough to leave a short one its shape.
int64_t loss_default_smooth(int64_t n) {
    if (n / 32 > 501)
        return n / 32;
    return n / 8 < 501 ? n / 8 : 501;
}

// The panels of one document; which: its number, for the names.
static bool document_figures(const loss_result *const *r, size_t n, size_t which, int64_t smooth,
                             int resamples, uint64_t seed, const char *how, figures *out, err *e) {
    char id[3][64];
    static const char *const stem[] = {"loss", "difference", "perplexity"};
    for (int i = 0; i < 3; i++)
        snprintf(id[i], sizeof id[i], which ? "%s-%zu" : "%s", stem[i], which + 1);
    if (smooth == 0)
        smooth = loss_default_smooth(r[0]->n);
    smooth |= 1;
    bool pair = false;
    for (size_t i = 1; i < n; i++)
        pair |= paired(r[i], r[0]);
    return figures_add(out, loss_panel(r, n, false, smooth, resamples, seed, id[0], how, e), e) &&
           (!pair ||
            figures_add(out, loss_panel(r, n, true, smooth, resamples, seed, id[1], how, e), e)) &&
           figures_add(out, ppl_panel(r, n, id[2], e), e);
}

bool loss_figures(const loss_result *const *results, size_t n, int64_t smooth, int resamples,
                  uint64_t seed, const char *how, figures *out, err *e) {
    size_t which = 0;
    figures_init(out, n > 1 ? 3 : 2);
    const loss_result **same = mem_alloc(n ? n : 1, sizeof *same, "results", e);
    bool ok = same != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        bool first = true;
        size_t m = 0;
        for (size_t j = 0; j < n; j++)
            if (strcmp(results[j]->document, results[i]->document) == 0) {
                first &= j >= i;
                same[m++] = results[j];
            }
        if (first)
            ok = document_figures(same, m, which++, smooth, resamples, seed, how, out, e);
    }
    free(same);
    if (!ok)
        figures_free(out);
    return ok;
}
