// Pictures and arrays of a report. Of each document, all models: loss.png, states.png, writes.png at
// the top of DIR; of each model and document: heads.png, spectrum.png and the arrays.
#include "analyses/report/figures.h"
#include "cli/plot/plot.h"
#include "cli/report/parts.h"
#include "cli/results.h"
#include "cli/spectrum_arrays.h"
#include "cli/table.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- one picture --------------------------------------------------------------------------------

typedef struct about {
    const char *path;   // of the PNG
    const char *source; // models, document and its digest
    size_t models;      // that share its panels
    bool own;           // of one model and one document
} about;

enum { FEW_MODELS = 4, OWN_DPI = 100 };

static bool save_png(assembly *a, const figures *f, const about *w, err *e) {
    const report *r = a->r;
    plot_options p = plot_defaults();
    char *again = report_command_line(r, e);
    // A page over many models holds hundreds of these.
    p.dpi = w->own ? OWN_DPI : p.dpi;
    // Room for a legend of many models below each panel.
    if (w->models > FEW_MODELS) {
        size_t across = (size_t)(f->columns > 0 ? f->columns : 1);
        size_t down = (f->n + across - 1) / across;
        p.height = (double)down * (3.3 + 0.2 * (double)(w->models - FEW_MODELS));
        p.width = (double)across * 4.8;
    }
    p.title = f->v[0]->title;
    p.software = "deltop " DELTOP_VERSION;
    p.comment = again;
    p.source = w->source;
    p.description = r->how;
    bool ok = again && plot_png(f, &p, w->path, e) && output_wrote(r->out, w->path, e);
    free(again);
    return ok;
}

static bool save_csv(assembly *a, const figures *f, const char *path, err *e) {
    char *again = report_command_line(a->r, e);
    bool ok = again && table_csv_save(f, again, path, e) && output_wrote(a->r->out, path, e);
    free(again);
    return ok;
}

// NAME, or NAME-DOCUMENT where there are several. Caller frees.
static char *top_path(const assembly *a, size_t document, const char *name, const char *end,
                      err *e) {
    char *file = NULL, *path = NULL;
    bool one = a->r->o->n_documents == 1;
    if (asprintf(&file, "%s%s%s.%s", name, one ? "" : "-",
                 one ? "" : output_document(a->r->out, document), end) < 0) {
        err_set(e, ERR_NOMEM, "out of memory: a path");
        return NULL;
    }
    path = output_path(a->r->out, file, e);
    free(file);
    return path;
}

static bool save_top(assembly *a, size_t document, const char *name, const figures *f, err *e) {
    char source[512] = "";
    results_add_source(source, sizeof source, output_document(a->r->out, document),
                       a->r->pair[document].sha256);
    char *png = top_path(a, document, name, "png", e), *csv = top_path(a, document, name, "csv", e);
    about w = {.path = png, .source = source, .models = a->r->o->n_models};
    bool ok = png && csv && (f->n == 0 || (save_png(a, f, &w, e) && save_csv(a, f, csv, e)));
    free(png);
    free(csv);
    return ok;
}

// ---- of a document ------------------------------------------------------------------------------

// Pairs of one document that are there, in the order of the models.
static size_t of_document(assembly *a, size_t d, const pair **p) {
    size_t n = 0;
    for (size_t m = 0; m < a->r->o->n_models; m++)
        if (assembly_has(assembly_at(a, m, d)))
            p[n++] = &assembly_at(a, m, d)->p;
    return n;
}

static bool losses(assembly *a, size_t d, const pair *const *p, size_t n, err *e) {
    const loss_result **list = mem_alloc(n, sizeof *list, "results", e);
    figures f;
    for (size_t i = 0; list && i < n; i++)
        list[i] = &p[i]->loss;
    bool ok = list && loss_figures(list, n, 0, (int)a->r->own->resamples, (uint64_t)a->r->o->seed,
                                   a->r->how, &f, e);
    free(list);
    if (!ok)
        return false;
    ok = save_top(a, d, "loss", &f, e);
    figures_free(&f);
    return ok;
}

static bool states(assembly *a, size_t d, const pair *const *p, size_t n, err *e) {
    const erank_result **list = mem_alloc(n, sizeof *list, "results", e);
    figures f, top;
    size_t k = 0;
    for (size_t i = 0; list && i < n; i++)
        if (p[i]->erank.n_layers)
            list[k++] = &p[i]->erank;
    bool ok = list != NULL;
    if (ok && k) {
        ok = erank_figures(list, k, &f, e);
        if (ok) {
            figures_init(&top, 2);
            ok = report_pick(&f, "erank", &top, e) && report_pick(&f, "norm", &top, e) &&
                 save_top(a, d, "states", &top, e);
            figures_free(&top);
            figures_free(&f);
        }
    }
    free(list);
    return ok;
}

static bool writes(assembly *a, size_t d, const pair *const *p, size_t n, err *e) {
    figures f;
    if (!report_signal_figures(p, n, a->r->how, &f, e))
        return false;
    bool ok = save_top(a, d, "writes", &f, e);
    a->has_writes[d] = f.n > 0;
    figures_free(&f);
    return ok;
}

static bool boundaries(assembly *a, size_t d, const pair *const *p, size_t n, err *e) {
    figures f;
    if (!report_boundary_figures(p, n, a->r->how, &f, e))
        return false;
    bool ok = save_top(a, d, "boundaries", &f, e);
    a->has_boundaries[d] = f.n > 0;
    figures_free(&f);
    return ok;
}

// ---- of a model and a document ------------------------------------------------------------------

static bool save_own(assembly *a, size_t m, size_t d, const char *name, const figures *f, err *e) {
    char source[1024];
    snprintf(source, sizeof source, "%.200s; ", output_model(a->r->out, m));
    results_add_source(source, sizeof source, output_document(a->r->out, d),
                       a->r->pair[m * a->r->o->n_documents + d].sha256);
    char *path = output_array_path(a->r->out, m, d, name, e);
    about w = {.path = path, .source = source, .own = true};
    bool ok = path && save_png(a, f, &w, e);
    free(path);
    return ok;
}

static bool heads(assembly *a, size_t m, size_t d, const pair *p, err *e) {
    const erank_result *one = &p->erank;
    figures f, own;
    if (!erank_figures(&one, 1, &f, e))
        return false;
    figures_init(&own, 2);
    bool ok = report_pick(&f, "erank-heads", &own, e) && report_pick(&f, "norm-heads", &own, e) &&
              save_own(a, m, d, "heads.png", &own, e);
    figures_free(&own);
    figures_free(&f);
    return ok;
}

static bool spectrum(assembly *a, size_t m, size_t d, const pair *p, err *e) {
    char subtitle[512];
    snprintf(subtitle, sizeof subtitle, "%.200s, %lld rows of %lld tokens, %.100s", p->document,
             (long long)p->n, (long long)p->spectrum.T, a->r->how);
    spectrum_item item = {p->model, subtitle, &p->spectrum};
    figures f;
    if (!spectrum_figures(&item, 1, &f, e))
        return false;
    bool ok = save_own(a, m, d, "spectrum.png", &f, e);
    figures_free(&f);
    return ok;
}

static bool trend(assembly *a, err *e) {
    figures f;
    if (!report_trend(a, &f, e))
        return false;
    char *png = output_path(a->r->out, "trend.png", e),
         *csv = output_path(a->r->out, "trend.csv", e);
    about w = {.path = png, .source = ""};
    bool ok = png && csv && (f.n == 0 || (save_png(a, &f, &w, e) && save_csv(a, &f, csv, e)));
    a->has_trend = f.n > 0;
    figures_free(&f);
    free(png);
    free(csv);
    return ok;
}

bool report_pictures(assembly *a, err *e) {
    const report *r = a->r;
    const pair **p = mem_alloc(r->o->n_models, sizeof *p, "results", e);
    bool ok = p != NULL;
    for (size_t d = 0; ok && d < r->o->n_documents; d++) {
        size_t n = of_document(a, d, p);
        ok = n == 0 || (losses(a, d, p, n, e) && states(a, d, p, n, e) && writes(a, d, p, n, e) &&
                        boundaries(a, d, p, n, e));
    }
    free(p);
    ok = ok && (!r->of || trend(a, e));
    for (size_t m = 0; ok && m < r->o->n_models; m++)
        for (size_t d = 0; ok && d < r->o->n_documents; d++) {
            const assembly_pair *x = assembly_at(a, m, d);
            if (assembly_has(x) && x->p.erank.n_layers)
                ok = heads(a, m, d, &x->p, e) &&
                     (x->p.spectrum.n_layers == 0 || spectrum(a, m, d, &x->p, e));
        }
    return ok;
}

// ---- arrays -------------------------------------------------------------------------------------

static const struct {
    head_signal signal;
    const char *name;
} signal_files[] = {
    {HEAD_DELTA_LOSS, "delta_loss.npy"},
    {HEAD_WRITE_SIZE, "write_size.npy"},
    {HEAD_GATE, "gate.npy"},
    {HEAD_BETA, "beta.npy"},
    {HEAD_REFLECTING, "reflecting.npy"},
    {HEAD_KEY_NORM, "key_norm.npy"},
};

// [rows, layers, heads, bins]; NaN beyond a smaller layer's heads. Nothing when no head has it.
static bool save_signal(assembly *a, size_t m, size_t d, const pair *p, head_signal signal,
                        const char *name, err *e) {
    const head_stats *s = &p->row[0].heads;
    int64_t H = 0;
    for (int i = 0; i < s->n_layers; i++)
        H = s->shape[i].H > H ? s->shape[i].H : H;
    int64_t dims[] = {p->n, s->n_layers, H, s->bins};
    size_t n = (size_t)(dims[0] * dims[1] * dims[2] * dims[3]);
    double *v = mem_alloc(n, sizeof *v, "an array", e);
    bool any = false;
    if (!v)
        return false;
    for (size_t k = 0; k < n; k++) {
        size_t bin = k % (size_t)dims[3], h = k / (size_t)dims[3] % (size_t)H,
               i = k / (size_t)dims[3] / (size_t)H % (size_t)dims[1],
               row = k / (size_t)dims[3] / (size_t)H / (size_t)dims[1];
        const head_stats *x = &p->row[row].heads;
        v[k] = (int)h < x->shape[i].H ? head_stats_line(x, (int)i, (int)h, signal)[bin] : NAN;
        any = any || !isnan(v[k]);
    }
    bool ok = !any || results_f64(a->r->out, m, d, name, 4, dims, v, e);
    free(v);
    return ok;
}

static bool arrays(assembly *a, size_t m, size_t d, const pair *p, err *e) {
    const erank_result *r = &p->erank;
    if (!results_f64(a->r->out, m, d, "loss.npy", 2, (int64_t[]){p->loss.rows, p->loss.n},
                     p->loss.loss, e))
        return false;
    if (r->n_layers == 0)
        return true;
    for (int q = 0; q < ERANK_QUANTITIES; q++) {
        char name[64];
        snprintf(name, sizeof name, "%s.npy", erank_quantity_name(q));
        if (!results_f64(a->r->out, m, d, name, 4,
                         (int64_t[]){r->rows, r->n_layers, r->n_heads, r->positions}, r->v[q], e))
            return false;
    }
    for (size_t i = 0; i < sizeof signal_files / sizeof *signal_files; i++)
        if (!save_signal(a, m, d, p, signal_files[i].signal, signal_files[i].name, e))
            return false;
    return p->spectrum.n_layers == 0 || spectrum_arrays_write(a->r->out, m, d, &p->spectrum, e);
}

bool report_arrays(assembly *a, err *e) {
    for (size_t m = 0; m < a->r->o->n_models; m++)
        for (size_t d = 0; d < a->r->o->n_documents; d++) {
            const assembly_pair *x = assembly_at(a, m, d);
            if (assembly_has(x) && !arrays(a, m, d, &x->p, e))
                return false;
        }
    return true;
}
