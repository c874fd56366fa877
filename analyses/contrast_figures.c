// Two models on the same tokens, as pictures.
#include "analyses/contrast.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 2000 }; // most of a curve

// Mean over rows, then over neighbours.
static double *smoothed(const contrast *c, int64_t window, err *e) {
    double *x = mem_alloc(2 * (size_t)c->n, sizeof *x, "a curve", e), *out = x + c->n;
    if (!x)
        return NULL;
    for (int64_t i = 0; i < c->n; i++) {
        x[i] = 0;
        for (int64_t r = 0; r < c->rows; r++)
            x[i] += c->kl[r * c->n + i] / (double)c->rows;
    }
    loss_smooth(x, c->n, window, out);
    memcpy(x, out, (size_t)c->n * sizeof *x);
    return x;
}

static bool kl_curve(figure *f, const contrast *c, int64_t window, const char *name, err *e) {
    int64_t step = (c->n + POINTS - 1) / POINTS;
    double *y = smoothed(c, window, e);
    double *at = y ? mem_alloc((size_t)c->n, sizeof *at, "a curve", e) : NULL;
    size_t n = 0;
    for (int64_t i = 0; at && i < c->n; i += step) {
        at[n] = (double)(i + 1);
        y[n++] = y[i];
    }
    bool ok = at && figure_series(f, name, STYLE_LINE, n, at, y, NULL, NULL, NULL, e);
    free(at);
    free(y);
    return ok;
}

static bool training_marks(figure *f, const contrast *c, const contrast_options *o, err *e) {
    for (int i = 0; i < 2; i++) {
        int64_t L = o->train_length[i];
        if (L > 0 && L <= c->n && (i == 0 || L != o->train_length[0]) &&
            !figure_mark(f, MARK_X, (double)L, "train length", e))
            return false;
    }
    return true;
}

static figure *kl_panel(const contrast *c, const contrast_options *o, const char *how, err *e) {
    char title[400], sub[400], name[300];
    int64_t window = loss_default_smooth(c->n) | 1;
    snprintf(title, sizeof title, "KL divergence along %s", o->document);
    snprintf(sub, sizeof sub, "%lld row%s of %lld tokens, moving mean of %lld, cut at the ends; %s",
             (long long)c->rows, c->rows == 1 ? "" : "s", (long long)c->n + 1, (long long)window,
             how);
    snprintf(name, sizeof name, "%s from %s", o->name[1], o->name[0]);
    figure *f = figure_new(FIG_CURVES, "kl", title, sub, e);
    if (f && figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, e) &&
        figure_axis(&f->y, "KL of the next token", "nats", SCALE_LINEAR, e) &&
        kl_curve(f, c, window, name, e) && training_marks(f, c, o, e)) {
        f->x.tokens = true;
        return f;
    }
    figure_free(f);
    return NULL;
}

// A column of both models' numbers.
static bool columns(figure *f, const contrast *c, const contrast_options *o, const char *what,
                    const char *unit, size_t field, double *v, err *e) {
    for (int i = 0; i < 2; i++) {
        char name[300];
        for (size_t k = 0; k < c->n_heads; k++)
            v[k] = ((const double *)((const char *)&c->head[k] + field))[i];
        snprintf(name, sizeof name, "%s, %s", what, o->name[i]);
        if (!figure_column(f, name, unit, c->n_heads, v, NULL, 4, e))
            return false;
    }
    return true;
}

static figure *head_table(const contrast *c, const char *how, const contrast_options *o, err *e) {
    double *v = mem_alloc(c->n_heads + 1, sizeof *v, "a table", e);
    figure *f = v ? figure_new(FIG_TABLE, "heads", "heads, second half of the rows", how, e) : NULL;
    bool ok = f != NULL;
    for (size_t k = 0; ok && k < c->n_heads; k++)
        v[k] = c->head[k].layer;
    ok = ok && figure_column(f, "layer", "", c->n_heads, v, NULL, 6, e);
    for (size_t k = 0; ok && k < c->n_heads; k++)
        v[k] = c->head[k].head;
    ok = ok && figure_column(f, "head", "", c->n_heads, v, NULL, 6, e) &&
         columns(f, c, o, "effective rank", "", offsetof(contrast_head, erank), v, e) &&
         columns(f, c, o, "norm", "", offsetof(contrast_head, norm), v, e) &&
         columns(f, c, o, "half-life", "tokens", offsetof(contrast_head, half_life), v, e);
    free(v);
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

// Moves the figures of *from behind those of *to, but for those that `drop` begins the id of.
static bool move(figures *to, figures *from, const char *drop, err *e) {
    bool ok = true;
    for (size_t i = 0; i < from->n; i++) {
        bool dropped = drop && strncmp(from->v[i]->id, drop, strlen(drop)) == 0;
        if (ok && !dropped)
            ok = figures_add(to, from->v[i], e);
        else
            figure_free(from->v[i]);
    }
    free(from->v);
    *from = (figures){0};
    return ok;
}

static bool add_states(const contrast *c, const contrast_options *o, const char *how, figures *out,
                       err *e) {
    const erank_result *rank[2];
    spectrum_item item[2];
    size_t n = 0, spectra = 0;
    figures part = {0};
    char sub[500];
    snprintf(sub, sizeof sub, "%s, %lld row%s of %lld tokens, %s", o->document, (long long)c->rows,
             c->rows == 1 ? "" : "s", (long long)c->n + 1, how);
    for (int i = 0; i < 2; i++)
        if (c->states[i]) {
            rank[n++] = &c->erank[i];
            if (!c->why_no_spectrum[0])
                item[spectra++] = (spectrum_item){o->name[i], sub, &c->spectrum[i]};
        }
    if (n == 0)
        return true;
    // Planes of single models say little about a difference.
    return erank_figures(rank, n, &part, e) && move(out, &part, NULL, e) &&
           (!spectra ||
            (spectrum_figures(item, spectra, &part, e) && move(out, &part, "plane", e))) &&
           (!c->n_heads || figures_add(out, head_table(c, sub, o, e), e));
}

bool contrast_figures(const contrast *c, const contrast_options *o, const char *how, figures *out,
                      err *e) {
    const loss_result *loss[] = {&c->loss[0], &c->loss[1]};
    figures part = {0};
    figures_init(out, 2);
    bool ok = loss_figures(loss, 2, 0, o->resamples, o->seed, how, &part, e) &&
              move(out, &part, NULL, e) &&
              (!c->kl || figures_add(out, kl_panel(c, o, how, e), e)) &&
              add_states(c, o, how, out, e);
    if (!ok)
        figures_free(out);
    return ok;
}
