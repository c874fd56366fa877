// Pictures of a mechanism: DeltaProduct's figures 7 and 13, and the elements' spectra.
#include "analyses/words/mechanism.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BARS = 40 };

static bool add_bars(figure *f, const mechanism_head *h, const word_task *t, err *e) {
    bool ok = true;
    double *y = mem_alloc((size_t)t->n_inputs, sizeof *y, "bars", e);
    for (int g = 0; ok && g < t->n_inputs; g++)
        ok = figure_category(f, t->input[g], e);
    for (int j = 0; ok && y && j < h->n_h; j++) {
        char name[32];
        snprintf(name, sizeof name, "micro-step %d", j + 1);
        for (int g = 0; g < t->n_inputs; g++)
            y[g] = h->beta[g * h->n_h + j];
        ok = figure_series(f, name, STYLE_LINE, (size_t)t->n_inputs, NULL, y, NULL, NULL, NULL, e);
    }
    free(y);
    return ok && y;
}

// More elements than bars would be told apart by.
static bool add_cells(figure *f, const mechanism_head *h, const word_task *t, err *e) {
    size_t rows = (size_t)h->n_h, cols = (size_t)t->n_inputs;
    double *cell = mem_alloc(rows * cols, sizeof *cell, "cells", e);
    double *x = mem_alloc(cols + 1, sizeof *x, "cells", e);
    char(*name)[40] = mem_alloc(rows, sizeof *name, "cells", e);
    char(*id)[24] = mem_alloc(cols, sizeof *id, "cells", e);
    const char **label = mem_alloc(rows, sizeof *label, "cells", e);
    const char **element = mem_alloc(cols, sizeof *element, "cells", e);
    bool ok = cell && x && name && id && label && element;
    for (size_t j = 0; ok && j < rows; j++) {
        snprintf(name[j], sizeof name[j], "micro-step %zu", j + 1);
        label[j] = name[j];
        for (size_t g = 0; g < cols; g++)
            cell[j * cols + g] = h->beta[g * rows + j];
    }
    for (size_t g = 0; ok && g < cols; g++) {
        snprintf(id[g], sizeof id[g], "%zu", g);
        element[g] = id[g];
    }
    for (size_t g = 0; ok && g <= cols; g++)
        x[g] = (double)g;
    ok = ok && figure_heat(f, rows, cols, cell, x, label, "beta", "1", 0, 2, MAP_SEQUENTIAL, e) &&
         figure_heat_columns(f, element, e);
    free(cell);
    free(x);
    free(name);
    free(id);
    free(label);
    free(element);
    return ok;
}

static figure *strengths(const mechanism_head *h, const word_task *t, const char *model,
                         const char *how, err *e) {
    char id[64], title[200], sub[260];
    bool bars = t->n_inputs <= MOST_BARS;
    snprintf(id, sizeof id, "words-beta-l%d-h%d", h->layer, h->head);
    snprintf(title, sizeof title, "write strength of each element of %s, %s L%d.H%d", t->name,
             model, h->layer, h->head);
    if (h->dims)
        snprintf(sub, sizeof sub, "A_g A_h = A_gh in %d dimensions: median error %.2g; %s", h->dims,
                 h->fit_median, how);
    else
        snprintf(sub, sizeof sub, "%s", how);
    figure *f = figure_new(bars ? FIG_BARS : FIG_HEATMAP, id, title, sub, e);
    bool ok =
        f &&
        figure_axis(&f->x, bars ? "element" : "element (id)", "of the group", SCALE_LINEAR, e) &&
        figure_axis(&f->y, bars ? "beta" : "micro-step", "1", SCALE_LINEAR, e) &&
        (bars ? add_bars(f, h, t, e) : add_cells(f, h, t, e));
    if (ok && bars) {
        f->y.lo = 0;
        f->y.hi = 2.2;
        ok = figure_mark(f, MARK_Y, 2, "reflection", e);
    }
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

// Eigenvalues of B_g of all elements: roots of unity in a representation.
static figure *spectrum(const mechanism_head *h, const word_task *t, const char *model,
                        const char *how, err *e) {
    char title[200], sub[260];
    size_t n = (size_t)t->n_inputs * (size_t)h->dims;
    double *x = mem_alloc(n, sizeof *x, "eigenvalues", e);
    double *y = mem_alloc(n, sizeof *y, "eigenvalues", e);
    for (size_t i = 0; x && y && i < n; i++) {
        x[i] = creal(h->eig[i]);
        y[i] = cimag(h->eig[i]);
    }
    snprintf(title, sizeof title, "eigenvalues of the elements' transitions, %s L%d.H%d", model,
             h->layer, h->head);
    snprintf(sub, sizeof sub, "%d elements of %s, in the %d directions of the states; %s",
             t->n_inputs, t->name, h->dims, how);
    figure *f = figure_new(FIG_SCATTER, "words-eigenvalues", title, sub, e);
    bool ok = f && x && y && figure_axis(&f->x, "Re lambda", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "Im lambda", "1", SCALE_LINEAR, e) &&
              figure_series(f, "", STYLE_POINTS, n, x, y, NULL, NULL, NULL, e) &&
              figure_mark(f, MARK_CIRCLE, 1, "|lambda| = 1", e);
    if (f)
        f->equal_scale = true;
    free(x);
    free(y);
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

static figure *components(const mechanism *x, const word_task *t, const char *model,
                          const char *how, err *e) {
    char title[200], sub[260];
    double n[MECHANISM_PCA];
    snprintf(title, sizeof title, "directions that the keys need, %s on %s", model, t->name);
    snprintf(sub, sizeof sub, "cumulative share of the keys' squared length; %s", how);
    for (int i = 0; i < MECHANISM_PCA; i++)
        n[i] = i + 1;
    figure *f = figure_new(FIG_CURVES, "words-key-pca", title, sub, e);
    bool ok = f && figure_axis(&f->x, "principal directions", "count", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "share", "fraction", SCALE_LINEAR, e);
    if (ok) {
        f->x.whole = true;
        f->x.lo = f->y.lo = 0;
        f->x.hi = MECHANISM_PCA;
        f->y.hi = 1.05;
    }
    // Other heads in grey, the best one last, on top.
    for (int i = x->n_heads - 1; ok && i >= 0; i--) {
        const mechanism_head *h = &x->head[i];
        char name[64];
        if (isnan(h->pca[0]))
            continue;
        snprintf(name, sizeof name, i == 0 ? "L%d.H%d, not centred" : "L%d.H%d", h->layer, h->head);
        ok = figure_series(f, name, i == 0 ? STYLE_LINE : STYLE_FAINT, MECHANISM_PCA, n, h->pca,
                           NULL, NULL, NULL, e);
        if (ok && i > 0)
            f->series[f->n_series - 1].silent = true;
        if (ok && i == 0) {
            snprintf(name, sizeof name, "L%d.H%d, centred", h->layer, h->head);
            ok = figure_series(f, name, STYLE_LINE, MECHANISM_PCA, n, h->pca_centred, NULL, NULL,
                               NULL, e);
        }
    }
    ok = ok && figure_mark(f, MARK_Y, 0.95, "95 %", e) &&
         (x->n_heads == 1 || figure_note(f, e, "Grey: the other heads."));
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

bool mechanism_figures(const mechanism *x, const word_task *t, const char *model, const char *how,
                       bool all, figures *out, err *e) {
    figures_init(out, all && x->n_heads > 1 ? 3 : 2);
    bool ok = true;
    for (int i = 0; ok && i < (all ? x->n_heads : 1); i++)
        if (!isnan(x->head[i].beta[0]))
            ok = figures_add(out, strengths(&x->head[i], t, model, how, e), e);
    if (ok && x->head[0].dims)
        ok = figures_add(out, spectrum(&x->head[0], t, model, how, e), e);
    if (ok && !isnan(x->head[0].pca[0]))
        ok = figures_add(out, components(x, t, model, how, e), e);
    if (!ok)
        figures_free(out);
    return ok;
}
