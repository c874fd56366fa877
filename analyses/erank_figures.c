#include "analyses/erank.h"
#include "analyses/erank_stats.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Fine bins for curves, coarser ones for the columns of a heat map.
enum { CURVE_OCTAVE = 16, HEAT_OCTAVE = 8, CURVE_LINEAR = 512, HEAT_LINEAR = 160 };

// What the results have in common decides what a curve and a title need to say.
typedef struct shared {
    bool model, document, max_rank, train_length;
} shared;

static shared compare(const erank_result *const *r, size_t n) {
    shared s = {true, true, true, true};
    for (size_t i = 1; i < n; i++) {
        s.model &= strcmp(r[i]->model, r[0]->model) == 0;
        s.document &= strcmp(r[i]->document, r[0]->document) == 0;
        s.max_rank &= r[i]->max_rank == r[0]->max_rank;
        s.train_length &= r[i]->train_length == r[0]->train_length;
    }
    return s;
}

// What tells this result from the others: model, document or both.
static void name_of(const erank_result *r, shared s, size_t n, char *buf, size_t size) {
    if (n == 1 || (s.document && !s.model))
        snprintf(buf, size, "%s", r->model);
    else if (s.model && !s.document)
        snprintf(buf, size, "%s", r->document);
    else
        snprintf(buf, size, "%s, %s", r->model, r->document);
}

static void sampling_of(const erank_result *r, char *buf, size_t size) {
    const char *what = r->micro ? "micro-step" : "token", *when = r->before ? "before" : "after";
    if (r->every == 1)
        snprintf(buf, size, "%s every %s", when, what);
    else
        snprintf(buf, size, "%s every %lld %ss", when, (long long)r->every, what);
}

static void subtitle_of(const erank_result *r, bool document, char *buf, size_t size) {
    char sampling[64], cut[64];
    sampling_of(r, sampling, sizeof sampling);
    if (r->authors)
        snprintf(cut, sizeof cut, "absolute cut 2.2e-16");
    else if (r->cut > 0)
        snprintf(cut, sizeof cut, "cut %g", r->cut);
    else
        snprintf(cut, sizeof cut, "no cut");
    snprintf(buf, size, "%s%s%lld token%s%s, %s; %s, %s, %s", document ? r->document : "",
             document ? ", " : "", (long long)r->length, r->length == 1 ? "" : "s",
             r->rows > 1 ? " a row, mean of rows" : "", sampling, r->device,
             precision_name(r->prec), cut);
}

static bool position_axis(figure *f, const erank_result *r, err *e) {
    if (!figure_axis(&f->x, "position", "tokens", r->linear ? SCALE_LINEAR : SCALE_LOG2, e))
        return false;
    f->x.tokens = true;
    return true;
}

static bool mark_positions(figure *f, const erank_result *r, err *e) {
    if (r->train_length > 0 && r->train_length <= r->length) {
        char label[64];
        snprintf(label, sizeof label, "training length %lld", (long long)r->train_length);
        if (!figure_mark(f, MARK_X, (double)r->train_length, label, e))
            return false;
    }
    if (r->n_starts > ERANK_MAX_STARTS)
        return figure_note(f, e, "The state is emptied at %lld document starts, too many to mark.",
                           (long long)r->n_starts);
    for (int64_t i = 0; i < r->n_starts; i++)
        if (!figure_mark(f, MARK_X, (double)r->starts[i], i == 0 ? "document starts" : "", e))
            return false;
    return true;
}

static bool note_states(figure *f, const erank_result *r, const char *name, err *e) {
    char list[128];
    int at = 0;
    if (r->zero > 0 && !r->authors &&
        !figure_note(f, e, "%s: %lld zero states have no effective rank and are left out.", name,
                     (long long)r->zero))
        return false;
    if (r->broken > 0 &&
        !figure_note(f, e, "%s: %lld states hold NaN or infinity.", name, (long long)r->broken))
        return false;
    for (int i = 0; i < r->n_left_out && at < (int)sizeof list - 16; i++)
        at += snprintf(list + at, sizeof list - (size_t)at, "%s%d", i ? ", " : "", r->left_out[i]);
    return r->n_left_out == 0 ||
           figure_note(f, e, "%s: without a recurrent state, left out: layer%s %s.", name,
                       r->n_left_out == 1 ? "" : "s", list);
}

// ---- curves -------------------------------------------------------------------------------------

// One curve; layer -1: mean over all layers, of that name. Norms: geometric means.
static bool add_curve(figure *f, const erank_result *r, erank_quantity q, const erank_bins *b,
                      int layer, const char *name, series_style style, int colour, err *e) {
    char text[320];
    double *y = mem_alloc(b->n, sizeof *y, "a curve", e);
    if (!y)
        return false;
    for (size_t i = 0; i < b->n; i++)
        y[i] = q == ERANK_NORM ? pow(10, erank_bin_mean(r, q, b, i, layer, -1, true))
                               : erank_bin_mean(r, q, b, i, layer, -1, false);
    if (layer < 0)
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "layer %d", r->layer[layer]);
    bool ok = figure_series(f, text, style, b->n, b->centre, y, NULL, NULL, NULL, e);
    if (ok) {
        f->series[f->n_series - 1].colour = colour;
        f->series[f->n_series - 1].silent = layer >= 0;
    }
    free(y);
    return ok;
}

static bool note_bins(figure *f, const erank_result *r, const erank_bins *b, err *e) {
    if (r->linear)
        return figure_note(f, e, "Curves are means over %lld positions.",
                           (long long)(b->first[1] - b->first[0]));
    return figure_note(f, e, "Curves are means over 1/%d octave of positions.", CURVE_OCTAVE);
}

// *noted: the picture says already that its curves are means of several positions.
static bool add_curves(figure *f, const erank_result *r, erank_quantity q, const char *name,
                       bool alone, int colour, bool *noted, err *e) {
    erank_bins b;
    if (!erank_bins_make(r, r->linear ? CURVE_LINEAR : CURVE_OCTAVE, &b, e))
        return false;
    bool ok = true;
    // The layers' own curves lie behind, so they come first.
    for (int l = 0; ok && alone && r->n_layers > 1 && l < r->n_layers; l++)
        ok = add_curve(f, r, q, &b, l, "", STYLE_FAINT, colour, e);
    ok = ok && add_curve(f, r, q, &b, -1, name, STYLE_LINE, colour, e);
    if (ok && !b.single && !*noted)
        ok = *noted = note_bins(f, r, &b, e);
    erank_bins_free(&b);
    return ok;
}

static void curves_title(const erank_result *const *r, size_t n, shared s, const char *what,
                         char *buf, size_t size) {
    if (n == 1)
        snprintf(buf, size, "%s, %s", what, r[0]->model);
    else if (s.model)
        snprintf(buf, size, "%s, %s, %zu documents", what, r[0]->model, n);
    else
        snprintf(buf, size, "%s, %zu %s", what, n, s.document ? "models" : "runs");
}

static bool curves_axes(figure *f, const erank_result *const *r, shared s, erank_quantity q,
                        err *e) {
    char unit[32] = "1";
    if (!position_axis(f, r[0], e) || (s.train_length && !mark_positions(f, r[0], e)))
        return false;
    if (q == ERANK_NORM)
        return figure_axis(&f->y, "Frobenius norm", unit, SCALE_LOG10, e);
    if (s.max_rank)
        snprintf(unit, sizeof unit, "of %d", r[0]->max_rank);
    if (!figure_axis(&f->y, "effective rank", unit, SCALE_LINEAR, e))
        return false;
    f->y.lo = 0;
    return !s.max_rank || figure_mark(f, MARK_Y, r[0]->max_rank, "largest possible", e);
}

static figure *curves(const erank_result *const *r, size_t n, shared s, erank_quantity q, err *e) {
    char title[512], subtitle[640], name[256];
    bool rank = q == ERANK_RANK, noted = false;
    curves_title(r, n, s, rank ? "mean effective rank" : "mean size of states", title,
                 sizeof title);
    subtitle_of(r[0], s.document, subtitle, sizeof subtitle);
    figure *f = figure_new(FIG_CURVES, rank ? "erank" : "norm", title, subtitle, e);
    if (!f || !curves_axes(f, r, s, q, e))
        goto fail;
    for (size_t i = 0; i < n; i++) {
        name_of(r[i], s, n, name, sizeof name);
        if (!add_curves(f, r[i], q, name, n == 1, (int)i, &noted, e) ||
            (rank && !note_states(f, r[i], name, e)))
            goto fail;
    }
    if (n == 1 && r[0]->n_layers > 1 &&
        !figure_note(f, e, "Thin curves: the %d layers, means over %d head%s each.", r[0]->n_layers,
                     r[0]->n_heads, r[0]->n_heads == 1 ? "" : "s"))
        goto fail;
    if (!figure_note(f, e,
                     rank ? "Effective rank is about shape only: see the norms beside it."
                          : "Geometric mean over heads."))
        goto fail;
    return f;
fail:
    figure_free(f);
    return NULL;
}

// ---- heat maps ----------------------------------------------------------------------------------

static bool head_label(char **label, const erank_result *r, int l, int h, err *e) {
    char text[48];
    snprintf(text, sizeof text, "L%d.H%d", r->layer[l], r->head[h]);
    *label = mem_strdup(text, e);
    return *label != NULL;
}

static bool fill_heat(figure *f, const erank_result *r, erank_quantity q, err *e) {
    bool ok = false, size = q == ERANK_NORM;
    size_t rows = (size_t)r->n_layers * (size_t)r->n_heads;
    erank_bins b;
    if (!erank_bins_make(r, r->linear ? HEAT_LINEAR : HEAT_OCTAVE, &b, e))
        return false;
    double *cell = mem_alloc(rows * b.n, sizeof *cell, "a heat map", e);
    char **label = mem_zalloc(rows, sizeof *label, "names of heads", e);
    if (!cell || !label)
        goto done;
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->n_heads; h++) {
            size_t row = (size_t)(l * r->n_heads + h);
            if (!head_label(&label[row], r, l, h, e))
                goto done;
            for (size_t i = 0; i < b.n; i++)
                cell[row * b.n + i] = erank_bin_mean(r, q, &b, i, l, h, size);
        }
    char unit[32];
    snprintf(unit, sizeof unit, "of %d", r->max_rank);
    ok = figure_heat(f, rows, b.n, cell, b.edge, (const char *const *)label,
                     size ? "log10 Frobenius norm" : "effective rank", size ? "1" : unit,
                     size ? NAN : 0, size ? NAN : r->max_rank, MAP_SEQUENTIAL, e);
done:
    for (size_t i = 0; label && i < rows; i++)
        free(label[i]);
    free(label);
    free(cell);
    erank_bins_free(&b);
    return ok;
}

// number: which of several results, 0 = the only one.
static figure *heat_of(const erank_result *r, const char *name, erank_quantity q, size_t number,
                       err *e) {
    char id[64], title[512], subtitle[640];
    const char *stem = q == ERANK_NORM ? "norm-heads" : "erank-heads";
    if (number == 0)
        snprintf(id, sizeof id, "%s", stem);
    else
        snprintf(id, sizeof id, "%s-%zu", stem, number);
    snprintf(title, sizeof title, "%s of each head, %s",
             q == ERANK_NORM ? "state norm" : "effective rank", name);
    subtitle_of(r, true, subtitle, sizeof subtitle);
    figure *f = figure_new(FIG_HEATMAP, id, title, subtitle, e);
    if (!f)
        return NULL;
    if (position_axis(f, r, e) && figure_axis(&f->y, "head", "layer.head", SCALE_LINEAR, e) &&
        fill_heat(f, r, q, e) && mark_positions(f, r, e))
        return f;
    figure_free(f);
    return NULL;
}

// ---- table --------------------------------------------------------------------------------------

// Columns under construction: one row per result, layer and head.
typedef struct table {
    size_t n;
    double *num;
    char **text;
} table;

typedef double (*pick)(const erank_head *h, int k);

static double pick_stretch(const erank_head *h, int k) {
    return h->stretch[k];
}
static double pick_layer(const erank_head *h, int k) {
    (void)k;
    return h->layer;
}
static double pick_head(const erank_head *h, int k) {
    (void)k;
    return h->head;
}
static double pick_growth(const erank_head *h, int k) {
    (void)k;
    return h->growth;
}
static double pick_norm(const erank_head *h, int k) {
    (void)k;
    return h->norm;
}
static double pick_norm_growth(const erank_head *h, int k) {
    (void)k;
    return h->norm_growth;
}
static double pick_stable(const erank_head *h, int k) {
    (void)k;
    return h->stable;
}

static bool number_column(figure *f, table *t, const erank_stats *s, size_t n, const char *name,
                          const char *unit, pick from, int k, int decimals, err *e) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < s[i].n_heads; h++)
            t->num[at++] = from(&s[i].head[h], k);
    return figure_column(f, name, unit, t->n, t->num, NULL, decimals, e);
}

static bool text_column(figure *f, table *t, const erank_result *const *r, const erank_stats *s,
                        size_t n, bool document, err *e) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < s[i].n_heads; h++)
            t->text[at++] = document ? r[i]->document : r[i]->model;
    return figure_column(f, document ? "document" : "model", "", t->n, NULL,
                         (const char *const *)t->text, 0, e);
}

// Stretches of the longest result; a shorter one is NaN beyond its end. Results that end inside a
// stretch have the mean of the part they cover.
static bool stretch_columns(figure *f, table *t, const erank_stats *s, size_t n, err *e) {
    const erank_stats *longest = &s[0];
    for (size_t i = 1; i < n; i++)
        if (s[i].edge[s[i].n_stretches] > longest->edge[longest->n_stretches])
            longest = &s[i];
    for (int k = 0; k < longest->n_stretches; k++) {
        char name[80];
        snprintf(name, sizeof name, "tokens %lld-%lld", (long long)longest->edge[k],
                 (long long)longest->edge[k + 1]);
        if (!number_column(f, t, s, n, name, "mean effective rank", pick_stretch, k, 3, e))
            return false;
    }
    return true;
}

static figure *heads_table(const erank_result *const *r, size_t n, const erank_stats *s, err *e) {
    char subtitle[640];
    subtitle_of(r[0], compare(r, n).document, subtitle, sizeof subtitle);
    figure *f = figure_new(FIG_TABLE, "erank-table", "effective rank and size of each head's state",
                           subtitle, e);
    table t = {0};
    for (size_t i = 0; i < n; i++)
        t.n += s[i].n_heads;
    t.num = mem_alloc(t.n, sizeof *t.num, "a table", e);
    t.text = mem_alloc(t.n, sizeof *t.text, "a table", e);
    bool ok = f && t.num && t.text && text_column(f, &t, r, s, n, false, e) &&
              text_column(f, &t, r, s, n, true, e) &&
              number_column(f, &t, s, n, "layer", "", pick_layer, 0, 3, e) &&
              number_column(f, &t, s, n, "head", "", pick_head, 0, 3, e) &&
              stretch_columns(f, &t, s, n, e) &&
              number_column(f, &t, s, n, "growth", "rank past the training length less before",
                            pick_growth, 0, 3, e) &&
              number_column(f, &t, s, n, "norm", "geometric mean", pick_norm, 0, 3, e) &&
              number_column(f, &t, s, n, "norm growth", "factor", pick_norm_growth, 0, 3, e) &&
              number_column(f, &t, s, n, "stable rank", "mean", pick_stable, 0, 3, e) &&
              figure_note(f, e,
                          "Growth compares all tokens past the training length with the second "
                          "half of it.");
    free(t.num);
    free(t.text);
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

bool erank_figures(const erank_result *const *results, size_t n, figures *out, err *e) {
    bool ok = false;
    shared s = compare(results, n);
    // Ranks on the left, norms on the right, a row for each result.
    figures_init(out, 2);
    erank_stats *stats = mem_zalloc(n, sizeof *stats, "summaries", e);
    if (!stats)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!erank_stats_make(results[i], &stats[i], e))
            goto done;
    if (!figures_add(out, curves(results, n, s, ERANK_RANK, e), e) ||
        !figures_add(out, curves(results, n, s, ERANK_NORM, e), e))
        goto done;
    for (size_t i = 0; i < n; i++) {
        char name[256];
        name_of(results[i], s, n, name, sizeof name);
        size_t number = n == 1 ? 0 : i + 1;
        if (!figures_add(out, heat_of(results[i], name, ERANK_RANK, number, e), e) ||
            !figures_add(out, heat_of(results[i], name, ERANK_NORM, number, e), e))
            goto done;
    }
    ok = figures_add(out, heads_table(results, n, stats, e), e);
done:
    for (size_t i = 0; i < n; i++)
        erank_stats_free(&stats[i]);
    free(stats);
    if (!ok)
        figures_free(out);
    return ok;
}
