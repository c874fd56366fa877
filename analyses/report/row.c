#include "analyses/report/row.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int64_t row_record_every(int64_t T) {
    int64_t every = 1;
    while (every * 256 <= T)
        every *= 2;
    return every;
}

static void free_layers(double **v, int n) {
    for (int i = 0; v && i < n; i++)
        free(v[i]);
    free(v);
}

void row_record_free(row_record *r) {
    free_layers(r->boundary, r->heads.n_layers);
    free_layers(r->aligned, r->heads.n_layers);
    loss_free(&r->loss);
    erank_free(&r->erank);
    head_stats_free(&r->heads);
    spectrum_result_free(&r->spectrum);
    *r = (row_record){0};
}

// Per layer H x each numbers that are NaN. NULL: *e is filled.
static double **open_layers(const head_stats *s, size_t each, err *e) {
    size_t L = (size_t)s->n_layers;
    double **v = mem_zalloc(L, sizeof *v, "boundaries", e);
    for (size_t i = 0; v && i < L; i++) {
        size_t n = (size_t)s->shape[i].H * each;
        v[i] = mem_alloc(n, sizeof **v, "boundaries", e);
        if (!v[i]) {
            free_layers(v, s->n_layers);
            return NULL;
        }
        for (size_t k = 0; k < n; k++)
            v[i][k] = NAN;
    }
    return v;
}

static bool open_boundary(row_record *r, err *e) {
    r->boundary = open_layers(&r->heads, BOUNDARY_NUMBERS, e);
    r->aligned = open_layers(&r->heads, BOUNDARY_ALIGNED * BOUNDARY_SPAN, e);
    return r->boundary && r->aligned;
}

// What watches one pass.
typedef struct watch {
    loss_watch *loss;
    head_pass *heads;
    spectrum_pass *spectrum;
    bool *mark; // boundaries of the row
} watch;

static void watch_free(watch *w) {
    loss_watch_free(w->loss);
    head_pass_free(w->heads);
    spectrum_pass_free(w->spectrum);
    free(w->mark);
}

static bool open_states(row_record *r, watch *w, const model *m, int64_t T, bool spectra,
                        const measure_options *o, err *e) {
    erank_options rank = {.every = o->every,
                          .cut = -1,
                          .train_length = o->train_length,
                          .model = o->model,
                          .document = o->document};
    spectrum_options how = {.windows = o->windows,
                            .n_windows = o->n_windows,
                            .samples = o->samples,
                            .lyapunov = o->lyapunov};
    bool ok = erank_open_model(&r->erank, m, 1, T, &rank, e);
    w->heads = ok ? head_pass_new(&r->heads, m, e) : NULL;
    if (w->heads && spectra)
        w->spectrum = spectrum_pass_new(m, 1, T, o->block, &how, NULL, NULL, &r->spectrum, e);
    return w->heads && (!spectra || w->spectrum);
}

static bool open_all(row_record *r, watch *w, const model *m, const int32_t *ids, int64_t T,
                     bool spectra, const measure_options *o, err *e) {
    if (!loss_init(&r->loss, o->model, o->document, 1, T - 1, o->train_length, e))
        return false;
    w->mark = mem_alloc((size_t)T, sizeof *w->mark, "boundaries", e);
    w->loss = loss_watch_new(&r->loss, 0, m, ids, e);
    if (!w->mark || !w->loss)
        return false;
    r->boundaries = boundary_mark(ids, T, o->starts, o->n_starts, o->bos, w->mark);
    for (int64_t i = 0; i < o->n_starts; i++)
        r->documents += o->starts[i] >= 0 && o->starts[i] < T;
    return head_stats_open(&r->heads, m, T, o->every, r->boundaries > 0, e) &&
           open_boundary(r, e) && (!model_has_states(m) || open_states(r, w, m, T, spectra, o, e));
}

static bool end_all(row_record *r, watch *w, const measure_options *o, err *e) {
    if (!loss_watch_end(w->loss, o->jump, e) || (w->heads && !head_pass_end(w->heads, e)))
        return false;
    if (w->spectrum)
        spectrum_pass_end(w->spectrum);
    for (int i = 0; r->boundaries && i < r->heads.n_layers; i++)
        if (!boundary_layer(&r->heads, i, w->mark, r->boundary[i], r->aligned[i], e))
            return false;
    head_stats_drop_traces(&r->heads);
    return true;
}

static bool measure(const model *m, const int32_t *ids, int64_t T, const row_options *how,
                    bool spectra, const measure_options *o, progress_fn progress,
                    void *progress_ctx, row_record *r, err *e) {
    watch w = {0};
    fwd *f = NULL;
    *r = (row_record){.check_error = NAN, .check_bias = NAN};
    bool ok =
        T >= 2 ? open_all(r, &w, m, ids, T, spectra, o, e)
               : err_set(e, ERR_INPUT, "a row of %lld token, at least 2 are needed", (long long)T);
    ok = ok && (f = fwd_new(m, o->block, T, e)) != NULL;
    if (ok) {
        probe p[4] = {loss_watch_probe(w.loss)};
        int n = 1;
        if (w.heads) {
            erank_begin_row(&r->erank, 0, ids, T, how);
            p[n++] = erank_probe(&r->erank);
            p[n++] = head_pass_probe(w.heads);
        }
        if (w.spectrum) {
            spectrum_begin_row(w.spectrum, 0, f);
            p[n++] = spectrum_probe(w.spectrum);
        }
        const probe *probes[] = {&p[0], &p[1], &p[2], &p[3]};
        ok = fwd_row(f, ids, T, how, probes, n, progress, progress_ctx, e) && end_all(r, &w, o, e);
    }
    fwd_free(f);
    watch_free(&w);
    if (!ok)
        row_record_free(r);
    return ok;
}

// Keys that are NaN have no spectrum, and that must not hide what the losses say: such a row is read
// once more without.
bool row_record_measure(const model *m, const int32_t *ids, int64_t T, const row_options *how,
                        const measure_options *o, progress_fn progress, void *progress_ctx,
                        row_record *r, err *e) {
    err first = {0};
    if (measure(m, ids, T, how, true, o, progress, progress_ctx, r, &first))
        return true;
    if (first.code != ERR_NUMERIC)
        return err_set(e, first.code, "%s", first.text);
    if (!measure(m, ids, T, how, false, o, progress, progress_ctx, r, e))
        return false;
    snprintf(r->spectrum_why, sizeof r->spectrum_why, "not computed: %.230s", first.text);
    return true;
}

// ---- against float64 ----------------------------------------------------------------------------

bool row_record_check(row_record *r, const model *exact, const int32_t *ids, const row_options *how,
                      err *e) {
    int64_t T = r->loss.n + 1 < ROW_CHECK ? r->loss.n + 1 : ROW_CHECK;
    loss_result x = {0};
    fwd *f = NULL;
    row_options first = how ? *how : (row_options){.reset_id = -1};
    while (first.n_starts > 0 && first.starts[first.n_starts - 1] >= T)
        first.n_starts--;
    bool ok = loss_init(&x, "", "", 1, T - 1, 0, e) && (f = fwd_new(exact, 0, T, e)) != NULL &&
              loss_read_row(&x, 0, f, ids, &first, 1e9, NULL, NULL, e);
    double worst = 0, sum = 0;
    for (int64_t i = 0; ok && i < T - 1; i++) {
        double d = r->loss.loss[i] - x.loss[i];
        worst = isnan(d) || isnan(worst) ? NAN : fmax(worst, fabs(d));
        sum += d;
    }
    if (ok) {
        r->n_check = T;
        r->check_error = worst;
        r->check_bias = sum / (double)(T - 1);
    }
    loss_free(&x);
    fwd_free(f);
    return ok;
}
