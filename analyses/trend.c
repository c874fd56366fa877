#include "analyses/trend.h"

#include "core/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Where along the row: facts without positions, or at the training length and at the end.
typedef enum { WHOLE, END, TRAINED_AND_END } where;

static const struct panel {
    const char *name, *title, *unit; // unit NULL: the fact's own
    where at;
    bool whole; // counts something
} panels[] = {
    {"loss", "loss", NULL, TRAINED_AND_END, false},
    {"extrapolation_index", "loss past the training length", NULL, WHOLE, false},
    {"erank", "effective rank", NULL, END, false},
    {"erank_growing", "heads that grow past the training length", NULL, WHOLE, true},
    {"complex_share", "tokens with a complex pair", "share", WHOLE, false},
    {"half_life", "half-life", NULL, WHOLE, false},
    {"gate_saturated", "saturated gates", "share", END, false},
    {"beta_saturated", "saturated betas", "share", END, false},
};

static bool is_whole(const fact *x, const char *name) {
    return x->layer == FACT_NONE && x->head == FACT_NONE && x->row == FACT_NONE &&
           strcmp(x->name, name) == 0;
}

static const fact *find(const facts *f, const char *name, const char *model, const char *document,
                        int64_t position) {
    for (size_t i = 0; i < f->n; i++) {
        const fact *x = &f->v[i];
        if (is_whole(x, name) && x->position == position && strcmp(x->model, model) == 0 &&
            strcmp(x->document, document) == 0)
            return x;
    }
    return NULL;
}

bool trend_takes(const fact *x) {
    if (is_whole(x, TREND_STEP))
        return true;
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++)
        if (is_whole(x, panels[i].name))
            return true;
    return is_whole(x, "train_length");
}

typedef struct point {
    const char *model;
    double step;
} point;

static int by_step(const void *a, const void *b) {
    const point *x = a, *y = b;
    return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
                              : strcmp(x->model, y->model);
}

// The longest position that the fact is given at for this document, FACT_NONE when there is none.
static int64_t longest(const facts *f, const char *name, const char *document) {
    int64_t most = FACT_NONE;
    for (size_t i = 0; i < f->n; i++)
        if (is_whole(&f->v[i], name) && strcmp(f->v[i].document, document) == 0 &&
            f->v[i].position > most)
            most = f->v[i].position;
    return most;
}

typedef struct curve {
    double *x, *y, *lo, *hi; // [n]
    size_t n, known;
    bool band;
    const char *unit;
} curve;

static void fill(curve *c, const facts *f, const struct panel *p, const point *point, size_t n,
                 const char *document, int64_t position) {
    c->n = c->known = 0;
    c->band = false;
    for (size_t i = 0; i < n; i++) {
        const fact *x = find(f, p->name, point[i].model, document, position);
        size_t k = c->n++;
        c->x[k] = point[i].step;
        c->y[k] = x ? x->value : NAN;
        c->lo[k] = x ? x->lo : NAN;
        c->hi[k] = x ? x->hi : NAN;
        c->known += isfinite(c->y[k]);
        c->band = c->band || isfinite(c->lo[k]);
        if (x)
            c->unit = x->unit;
    }
}

static bool add_curve(figure *f, const curve *c, const char *document, int64_t position,
                      bool positions, err *e) {
    char name[320];
    if (positions)
        snprintf(name, sizeof name, "%.200s at %" PRId64, document, position);
    else
        snprintf(name, sizeof name, "%.200s", document);
    return figure_series(f, name, c->known > 1 ? STYLE_LINE : STYLE_POINTS, c->n, c->x, c->y,
                         c->band ? c->lo : NULL, c->band ? c->hi : NULL,
                         c->band ? "95% bootstrap over rows" : NULL, e);
}

// The document of fact i is named for the first time there.
static bool first_of_document(const facts *f, size_t i) {
    if (!f->v[i].document[0])
        return false;
    for (size_t k = 0; k < i; k++)
        if (strcmp(f->v[k].document, f->v[i].document) == 0)
            return false;
    return true;
}

static bool draw(const facts *f, const struct panel *p, const point *point, size_t n, curve *c,
                 figures *out, err *e) {
    char id[96];
    snprintf(id, sizeof id, "trend-%s", p->name);
    for (char *s = id; *s; s++)
        *s = *s == '_' ? '-' : *s;
    figure *g = figure_new(FIG_CURVES, id, p->title, "over training steps", e);
    bool ok = g != NULL;
    c->unit = NULL;
    for (size_t i = 0; ok && i < f->n; i++) {
        const char *document = f->v[i].document;
        if (!first_of_document(f, i))
            continue;
        int64_t end = p->at == WHOLE ? FACT_NONE : longest(f, p->name, document);
        const fact *L = find(f, "train_length", point[0].model, "", FACT_NONE);
        int64_t trained = L && isfinite(L->value) ? (int64_t)L->value : FACT_NONE;
        if (p->at == TRAINED_AND_END && trained > 0 && trained < end) {
            fill(c, f, p, point, n, document, trained);
            if (c->known)
                ok = add_curve(g, c, document, trained, true, e);
        }
        fill(c, f, p, point, n, document, end);
        if (ok && c->known)
            ok = add_curve(g, c, document, end, p->at != WHOLE, e);
    }
    if (!ok || !g->n_series) {
        figure_free(g);
        return ok;
    }
    if (!figure_axis(&g->x, "training", "steps", SCALE_LINEAR, e) ||
        !figure_axis(&g->y, p->title,
                     p->unit   ? p->unit
                     : c->unit ? c->unit
                               : "1",
                     SCALE_LINEAR, e)) {
        figure_free(g);
        return false;
    }
    g->x.whole = true;
    g->y.whole = p->whole;
    return figures_add(out, g, e);
}

bool trend_figures(const facts *f, figures *out, err *e) {
    figures_init(out, 2);
    curve c = {0};
    size_t n = 0;
    point *p = mem_alloc(f->n + 1, sizeof *p, "steps", e);
    if (!p)
        return false;
    for (size_t i = 0; i < f->n; i++)
        if (is_whole(&f->v[i], TREND_STEP) && f->v[i].value >= 0)
            p[n++] = (point){f->v[i].model, f->v[i].value};
    if (n)
        qsort(p, n, sizeof *p, by_step);
    c.x = mem_alloc(4 * n + 1, sizeof *c.x, "curves over steps", e);
    bool ok = c.x != NULL;
    if (ok) {
        c.y = c.x + n;
        c.lo = c.y + n;
        c.hi = c.lo + n;
    }
    for (size_t i = 0; ok && n && i < sizeof panels / sizeof *panels; i++)
        ok = draw(f, &panels[i], p, n, &c, out, e);
    free(c.x);
    free(p);
    if (!ok)
        figures_free(out);
    return ok;
}
