// Tables of a report.
#include "cli/report/parts.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- models on one document ---------------------------------------------------------------------

// N at which a column is looked up.
typedef enum { AT_ROW, AT_TRAIN, AT_END } column_at;

typedef struct column_kind {
    const char *fact, *name, *unit;
    column_at at;
    int digits;
} column_kind;

static const column_kind overview[] = {
    {"loss", "loss at L", "nats/token", AT_TRAIN, 4},
    {"loss", "loss at end", "nats/token", AT_END, 4},
    {"ppl", "perplexity at end", "", AT_END, 4},
    {"extrapolation_index", "extrapolation", "nats/token past L", AT_ROW, 3},
    {"accuracy", "accuracy", "", AT_ROW, 3},
    {"erank", "eff. rank at L", "", AT_TRAIN, 3},
    {"erank", "eff. rank at end", "", AT_END, 3},
    {"erank_growing", "heads growing", "by > 1 past L", AT_ROW, 4},
    {"state_norm_growth", "norm growth", "factor past L", AT_ROW, 3},
    {"delta_loss", "delta-rule loss", "at end", AT_END, 3},
    {"complex_share", "complex pairs", "share of tokens", AT_ROW, 3},
    {"half_life", "half-life", "tokens", AT_ROW, 3},
    {"gate_saturated", "gates saturated", "share at end", AT_END, 3},
    {"beta_saturated", "betas saturated", "share at end", AT_END, 3},
    {"boundary_auc", "boundary AUC", "best head", AT_ROW, 3},
    {"precision_error", "against float64", "nats, largest", AT_ROW, 2},
};
enum { OVERVIEW = sizeof overview / sizeof *overview };

static int64_t position_of(const assembly_pair *x, column_at at) {
    int64_t L = x->p.loss.train_length;
    return at == AT_ROW ? FACT_NONE : at == AT_END ? assembly_end(x) : L > 0 ? L : FACT_NONE;
}

// A column of numbers that are all missing says nothing.
static bool any(const double *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            return true;
    return false;
}

// The interval of the extrapolation index; nothing where no model has one.
static bool intervals(const assembly *a, figure *f, const assembly_pair *const *x, size_t n,
                      err *e) {
    char(*cell)[64] = mem_alloc(n, sizeof *cell, "a table", e);
    const char **text = mem_alloc(n, sizeof *text, "a table", e);
    bool some = false, ok = cell && text;
    for (size_t i = 0; ok && i < n; i++) {
        const fact *v = assembly_fact(a, x[i], "extrapolation_index", FACT_NONE);
        bool has = v && !isnan(v->lo) && !isnan(v->hi);
        text[i] = cell[i];
        snprintf(cell[i], sizeof cell[i], "%s", "");
        if (has)
            snprintf(cell[i], sizeof cell[i], "%+.3f to %+.3f", v->lo, v->hi);
        some = some || has;
    }
    ok = ok && (!some || figure_column(f, "its interval", "95 % over rows", n, NULL, text, 0, e));
    free(cell);
    free(text);
    return ok;
}

bool report_overview_table(assembly *a, size_t document, err *e) {
    size_t M = a->r->o->n_models, n = 0;
    const char **name = mem_alloc(M, sizeof *name, "a table", e);
    const assembly_pair **x = mem_alloc(M, sizeof *x, "a table", e);
    double *v = mem_alloc(M, sizeof *v, "a table", e);
    figure *f = figure_new(FIG_TABLE, "overview", "", "", e);
    bool ok = name && x && v && f;
    for (size_t m = 0; ok && m < M; m++)
        if (assembly_has(assembly_at(a, m, document))) {
            x[n] = assembly_at(a, m, document);
            name[n++] = output_model(a->r->out, m);
        }
    ok = ok && figure_column(f, "model", "", n, NULL, name, 0, e);
    for (int k = 0; ok && k < OVERVIEW; k++) {
        const column_kind *c = &overview[k];
        for (size_t i = 0; i < n; i++)
            v[i] = assembly_value(a, x[i], c->fact, position_of(x[i], c->at));
        if (any(v, n))
            ok = figure_column(f, c->name, c->unit, n, v, NULL, c->digits, e) &&
                 (strcmp(c->fact, "extrapolation_index") != 0 || intervals(a, f, x, n, e));
    }
    free(name);
    free(x);
    free(v);
    if (ok && n)
        return page_table(&a->page, f, e);
    figure_free(f);
    return ok;
}

// ---- pairs of models ----------------------------------------------------------------------------

bool report_difference_table(assembly *a, size_t document, err *e) {
    enum { MOST = 40 };
    size_t M = a->r->o->n_models, n = 0;
    const assembly_pair *x[MOST];
    char cell[MOST][64];
    const char *text[MOST], *name[MOST];
    pair_options o = {.resamples = (int)a->r->own->resamples, .seed = (uint64_t)a->r->o->seed};
    for (size_t m = 0; m < M && n < MOST; m++)
        if (assembly_has(assembly_at(a, m, document))) {
            x[n] = assembly_at(a, m, document);
            name[n++] = output_model(a->r->out, m);
        }
    if (n < 2)
        return true;
    figure *f = figure_new(FIG_TABLE, "differences", "", "", e);
    bool ok = f && figure_column(f, "loss of", "", n, NULL, name, 0, e);
    for (size_t k = 0; ok && k < n; k++) {
        for (size_t i = 0; ok && i < n; i++) {
            double mean, lo, hi;
            int64_t end = assembly_end(x[k]);
            ok = pair_loss_change(&x[k]->p, &x[i]->p, end / 2, end - 1, &o, &mean, &lo, &hi, e);
            text[i] = cell[i];
            if (i == k)
                snprintf(cell[i], sizeof cell[i], "\xc2\xb7");
            else if (isnan(mean))
                snprintf(cell[i], sizeof cell[i], "other tokens");
            else
                // A difference whose interval holds 0 is not marked.
                snprintf(cell[i], sizeof cell[i], "%+.3f%s", mean, lo > 0 || hi < 0 ? " *" : "");
        }
        char head[300];
        snprintf(head, sizeof head, "less %.280s", name[k]);
        ok = ok && figure_column(f, head, "", n, NULL, text, 0, e);
    }
    ok =
        ok && figure_note(f, e,
                          "Nats/token over the second half of the rows, paired token by token. *: "
                          "the 95 %% interval over blocks of neighbouring tokens does not hold 0.");
    if (ok)
        return page_table(&a->page, f, e);
    figure_free(f);
    return false;
}

// ---- heads --------------------------------------------------------------------------------------

static const column_kind heads[] = {
    {"erank", "eff. rank", "at L", AT_TRAIN, 3},
    {"erank", "eff. rank", "at end", AT_END, 3},
    {"erank_growth", "growth", "past L", AT_ROW, 3},
    {"stable_rank", "stable rank", "at end", AT_END, 3},
    {"state_norm", "norm", "at end", AT_END, 3},
    {"state_norm_growth", "norm growth", "factor past L", AT_ROW, 3},
    {"norm_outlier", "outlier", "robust sd", AT_ROW, 3},
    {"delta_loss", "delta-rule loss", "at end", AT_END, 3},
    {"gate", "gate", "mean at end", AT_END, 3},
    {"gate_half_life", "gate half-life", "tokens", AT_END, 3},
    {"gate_saturated", "gate saturated", "share", AT_END, 3},
    {"beta", "beta", "mean at end", AT_END, 3},
    {"beta_saturated", "beta saturated", "share", AT_END, 3},
    {"reflecting", "reflecting", "share", AT_END, 3},
    {"key_rank", "rank of keys", "", AT_ROW, 3},
    {"key_overlap", "key overlap", "at end", AT_END, 3},
    {"complex_share", "complex pairs", "share", AT_ROW, 3},
    {"median_modulus", "median |lambda|", "", AT_ROW, 3},
    {"half_life", "half-life", "tokens", AT_ROW, 3},
    {"boundary_auc", "boundary AUC", "", AT_ROW, 3},
};
enum { HEADS = sizeof heads / sizeof *heads };

bool report_heads_table(assembly *a, const assembly_pair *x, err *e) {
    size_t n = assembly_n_heads(x);
    char(*label)[32] = mem_alloc(n, sizeof *label, "a table", e);
    const char **name = mem_alloc(n, sizeof *name, "a table", e);
    double *v = mem_alloc(n, sizeof *v, "a table", e);
    figure *f = figure_new(FIG_TABLE, "heads", "", "", e);
    bool ok = label && name && v && f;
    for (size_t i = 0; ok && i < n; i++)
        name[i] = assembly_head_name(x, i, label[i], sizeof label[i]);
    ok = ok && figure_column(f, "head", "", n, NULL, name, 0, e);
    for (int k = 0; ok && k < HEADS; k++) {
        const column_kind *c = &heads[k];
        int64_t at = position_of(x, c->at);
        if (c->at == AT_TRAIN && (at == FACT_NONE || at > assembly_end(x)))
            continue;
        assembly_heads(a, x, c->fact, at, v);
        if (any(v, n))
            ok = figure_column(f, c->name, c->unit, n, v, NULL, c->digits, e);
    }
    free(label);
    free(name);
    free(v);
    if (ok)
        return page_table(&a->page, f, e);
    figure_free(f);
    return false;
}

// ---- outliers -----------------------------------------------------------------------------------

typedef struct outlier {
    const assembly_pair *x;
    size_t head;
    double z, norm;
} outlier;

static int furthest_first(const void *a, const void *b) {
    const outlier *x = a, *y = b;
    double p = fabs(x->z), q = fabs(y->z);
    if (p != q)
        return p < q ? 1 : -1;
    return x->x != y->x ? (x->x > y->x) - (x->x < y->x) : (x->head > y->head) - (x->head < y->head);
}

static bool collect(const assembly *a, outlier *all, size_t *n, err *e) {
    for (size_t i = 0; i < a->r->n_pairs; i++) {
        const assembly_pair *x = &a->pair[i];
        size_t H = assembly_has(x) ? assembly_n_heads(x) : 0;
        double *z = mem_alloc(2 * H, sizeof *z, "outliers", e);
        if (!z)
            return false;
        if (H) {
            assembly_heads(a, x, "norm_outlier", FACT_NONE, z);
            assembly_heads(a, x, "state_norm", assembly_end(x), z + H);
        }
        for (size_t h = 0; h < H; h++)
            if (!isnan(z[h]))
                all[(*n)++] = (outlier){x, h, z[h], z[H + h]};
        free(z);
    }
    qsort(all, *n, sizeof *all, furthest_first);
    return true;
}

bool report_outlier_table(assembly *a, err *e) {
    enum { MOST = 12 };
    size_t room = 0, n = 0;
    for (size_t i = 0; i < a->r->n_pairs; i++)
        room += assembly_has(&a->pair[i]) ? assembly_n_heads(&a->pair[i]) : 0;
    outlier *all = mem_alloc(room, sizeof *all, "outliers", e);
    bool ok = all && collect(a, all, &n, e);
    n = n < MOST ? n : MOST;
    char label[MOST][32];
    const char *model[MOST], *document[MOST], *head[MOST];
    double z[MOST], norm[MOST];
    for (size_t i = 0; ok && i < n; i++) {
        model[i] = all[i].x->p.model;
        document[i] = all[i].x->p.document;
        head[i] = assembly_head_name(all[i].x, all[i].head, label[i], sizeof label[i]);
        z[i] = all[i].z;
        norm[i] = all[i].norm;
    }
    free(all);
    if (!ok || n == 0)
        return ok;
    figure *f = figure_new(FIG_TABLE, "outliers", "", "", e);
    ok = f && figure_column(f, "model", "", n, NULL, model, 0, e) &&
         figure_column(f, "document", "", n, NULL, document, 0, e) &&
         figure_column(f, "head", "", n, NULL, head, 0, e) &&
         figure_column(f, "outlier", "robust sd", n, z, NULL, 3, e) &&
         figure_column(f, "norm at end", "", n, norm, NULL, 3, e) &&
         figure_note(f, e,
                     "How far ln |H| lies from the median of the model's heads, in 1.4826 x median "
                     "absolute deviations; the furthest of all models and documents first.");
    if (ok)
        return page_table(&a->page, f, e);
    figure_free(f);
    return false;
}
