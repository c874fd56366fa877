// deltop spectrum - eigenvalues of transitions along documents.
#include "analyses/spectrum.h"

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/results.h"
#include "cli/say.h"
#include "cli/session.h"
#include "cli/spectrum_arrays.h"
#include "cli/spectrum_json.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct own_options {
    int_list windows, ends;
    int64_t samples, lyapunov;
    bool cond;
} own_options;

static const own_options defaults = {.samples = 32, .lyapunov = 2048};

static const option_spec own[] = {
    {"windows", OPT_LIST, offsetof(own_options, windows), .lo = 1, .hi = 1 << 24, .most = 1024,
     .help = "window lengths in tokens (default 1,2,4,...,512)"},
    {"samples", OPT_INT, offsetof(own_options, samples), .lo = 1, .hi = 1 << 20,
     .help = "windows of each length in a row, spread evenly over it (default 32)"},
    {"ends", OPT_LIST, offsetof(own_options, ends), .lo = 0, .hi = 1 << 30,
     .help = "last tokens of the windows instead, counted from 0 in each row"},
    {"lyapunov", OPT_INT, offsetof(own_options, lyapunov), .lo = 0, .hi = 1 << 24,
     .help = "last tokens that Lyapunov exponents are taken over (default 2048; 0 = none)"},
    {"cond", OPT_FLAG, offsetof(own_options, cond),
     .help = "condition numbers of the eigenvalues, and their error estimate"},
};

// One model on one document.
typedef struct reading {
    spectrum_result r;
    char *name, *subtitle; // owned
} reading;

typedef struct job {
    const options *o;
    const own_options *own;
    session s;
    output *out;
    spectrum_options how;
    reading *done; // [models * documents]
    size_t n;
    json_t *results;
    char device[128], *source; // sources with their digests, owned
} job;

static const int64_t doublings[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

static void next_phase(void *bar, const char *unit) {
    progress_phase(bar, unit);
}

static void choose(job *j) {
    const options *o = j->o;
    const own_options *w = j->own;
    j->how = (spectrum_options){
        .windows = w->windows.n ? w->windows.v : doublings,
        .n_windows = w->windows.n ? (int)w->windows.n : (int)(sizeof doublings / sizeof *doublings),
        .samples = w->samples,
        .ends = w->ends.n ? w->ends.v : NULL,
        .n_ends = (int64_t)w->ends.n,
        .lyapunov = w->lyapunov,
        .cond = w->cond,
        .phase = next_phase,
        .keep_ledger = output_wants_files(j->out),
        .layers = o->layers.v,
        .n_layers = o->layers.n,
        .heads = o->heads.v,
        .n_heads = o->heads.n,
    };
}

// Text ------------------------------------------------------------------------------------------

static void print_windows(const job *j, const spectrum_result *r, const spectrum_span *w) {
    output_print(j->out, "  %6s %8s %7s %8s %8s %9s %11s %9s\n", "W", "products", "frozen", "|P|_2",
                 "radius", "complex", "half-life", "never");
    bool lost = false;
    for (int i = 0; i < r->n_windows; i++) {
        if (w[i].products == 0)
            continue;
        char life[32] = "-", never[32] = "-";
        if (isinf(w[i].half_life[1]))
            snprintf(life, sizeof life, "never");
        else if (!isnan(w[i].half_life[1]))
            snprintf(life, sizeof life, "%.4g", w[i].half_life[1]);
        else if (w[i].lost > 0.5)
            snprintf(life, sizeof life, "lost"), lost = true;
        if (!isnan(w[i].never))
            snprintf(never, sizeof never, "%.3g%%", 100 * w[i].never);
        output_print(j->out, "  %6lld %8lld %7d %8.4g %8.4g %8.1f%% %11s %9s\n", (long long)w[i].W,
                     (long long)w[i].products, w[i].frozen, w[i].norm2[1], w[i].radius[1],
                     100 * w[i].complex_share, life, never);
    }
    output_print(j->out, "  (medians over products; half-life in tokens, median over their modes;"
                         " never: share that does not decay)\n");
    if (lost)
        output_print(j->out,
                     "  (lost: most modes are below rounding, so their median is not known)\n");
}

// "12.3 tokens", "never", "-" (not measured).
static const char *tokens(double v, char *buf, size_t size) {
    if (isinf(v))
        snprintf(buf, size, "never");
    else
        snprintf(buf, size, isnan(v) ? "-" : "%.4g tokens", v);
    return buf;
}

static void print_half_life(const job *j, const spectrum_summary *s) {
    char a[32], b[32];
    if (s->half_life_window)
        output_print(j->out, "  half-life: median %s over windows of %lld",
                     tokens(s->half_life, a, sizeof a), (long long)s->half_life_window);
    if (!isnan(s->exponent_half_life))
        output_print(j->out, "%s %s by exponents", s->half_life_window ? "," : "  half-life:",
                     tokens(s->exponent_half_life, b, sizeof b));
    if (s->half_life_window || !isnan(s->exponent_half_life))
        output_print(j->out, "\n");
}

static void print_summary(const job *j, const reading *x, size_t model, size_t document,
                          const rows *rows, const spectrum_summary *s) {
    const spectrum_result *r = &x->r;
    const spectrum_layer *l = &r->layer[0];
    output_print(j->out, "%s on %s: %lld row%s of %lld token%s, %d layer%s, %d head%s, K = %d",
                 output_model(j->out, model), output_document(j->out, document), (long long)r->rows,
                 r->rows == 1 ? "" : "s", (long long)r->T, r->T == 1 ? "" : "s", r->n_layers,
                 r->n_layers == 1 ? "" : "s", l->n_heads, l->n_heads == 1 ? "" : "s", l->shape.K);
    if (l->shape.erase == ERASE_KEY)
        output_print(j->out, ", n_h = %d", l->shape.n_h);
    output_print(j->out, " (%s)\n", j->device);
    if (rows->d.added[0])
        output_print(j->out, "  ids that the text does not hold: %s\n", rows->d.added);
    output_print(j->out,
                 "  single tokens: %.3g%% rotate (complex pair), %.3g%% of eigenvalues below 0, "
                 "median |lambda| %.3f%s\n",
                 100 * s->complex_share, 100 * s->negative_share, s->median_modulus,
                 l->shape.erase == ERASE_NONE || l->shape.decay == DECAY_CHANNEL
                     ? ""
                     : " (frozen directions left out)");
    output_print(j->out, "  mean Lyapunov rate from determinants: %.5f nats/token", s->rate);
    if (s->singular)
        output_print(j->out, " (%lld singular tokens left out)", (long long)s->singular);
    if (r->lyapunov_tokens)
        output_print(j->out, "; exponents over the last %lld token%s: %.5f to %.5f",
                     (long long)r->lyapunov_tokens, r->lyapunov_tokens == 1 ? "" : "s",
                     s->largest_exponent, s->smallest_exponent);
    output_print(j->out, "\n");
    print_half_life(j, s);
}

static void print_notes(const job *j, const spectrum_result *r, const spectrum_summary *s) {
    for (int i = 0; i < r->n_layers; i++) {
        const head_shape *h = &r->layer[i].shape;
        if (spectrum_window_tells(h, 1))
            continue;
        output_print(j->out,
                     "  no gate: windows below K / n_h = %d tokens leave directions frozen at 1 "
                     "and say nothing about half-lives\n",
                     (h->K + h->n_h - 1) / h->n_h);
        break;
    }
    for (int i = 0; i < r->n_layers; i++) {
        const char *note = spectrum_kind_note(&r->layer[i].shape);
        for (int k = 0; note && k < i; k++) // once per kind: hybrids have several
            if (spectrum_kind_note(&r->layer[k].shape) == note)
                note = NULL;
        if (note)
            output_print(j->out, "  %s\n", note);
    }
    output_print(j->out, "  largest |P|_2 %.6f", s->largest_norm);
    if (!isnan(s->strongest))
        output_print(j->out, ", largest beta |k|^2 %.6f", s->strongest);
    output_print(j->out, "\n");
}

static void warn(const reading *x, const spectrum_summary *s) {
    if (s->strong)
        say_warning("%s: %lld factors with beta |k|^2 above 2 (largest %.6g): the transitions are "
                    "no contraction; is this the right model?",
                    text_show(x->name), (long long)s->strong, s->strongest);
    if (s->over_norm)
        say_warning("%s: %lld window products with a norm above 1 (largest %.6g), which a delta "
                    "rule cannot give",
                    text_show(x->name), (long long)s->over_norm, s->largest_norm);
}

// Running ---------------------------------------------------------------------------------------

static char *format(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static char *format(err *e, const char *fmt, ...) {
    va_list ap;
    char *s = NULL;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n >= 0)
        return s;
    err_set(e, ERR_NOMEM, "out of memory: a name");
    return NULL;
}

static bool name_it(job *j, reading *x, size_t model, size_t document, const rows *rows, err *e) {
    const char *m = output_model(j->out, model), *d = output_document(j->out, document);
    session_how(&j->s, j->device, sizeof j->device);
    x->name = j->o->n_documents == 1 ? mem_strdup(m, e) : format(e, "%s on %s", m, d);
    x->subtitle = format(e, "%s, %lld row%s of %lld token%s, %s", d, (long long)rows->n,
                         rows->n == 1 ? "" : "s", (long long)rows->length,
                         rows->length == 1 ? "" : "s", j->device);
    char *source = format(e, "%s%s%s on %s (sha256 %s)", j->source ? j->source : "",
                          j->source ? "; " : "", m, d, rows->d.sha256);
    free(j->source);
    j->source = source;
    return x->name && x->subtitle && source;
}

static bool read_rows(job *j, reading *x, const rows *rows, err *e) {
    progress bar;
    char title[64];
    snprintf(title, sizeof title, "spectrum %.50s", x->name);
    progress_begin(&bar, title, 2, STDERR_FILENO);
    bool ok = spectrum_run(j->s.m, rows_ids(rows, 0), rows->n, rows->length, session_block(&j->s),
                           rows->opt, &j->how, progress_tick, &bar, &x->r, e);
    progress_end(&bar);
    return ok;
}

// Takes v; NULL has failed before.
static bool add_json(job *j, size_t model, size_t document, const rows *rows, json_t *v, err *e) {
    if (!v)
        return false;
    int bad = json_object_set_new(v, "model", output_json_text(output_model(j->out, model)));
    bad |= json_object_set_new(v, "document", output_json_text(output_document(j->out, document)));
    bad |= json_object_set_new(v, "reading", session_rows_json(&j->s, rows));
    bad |= json_array_append_new(j->results, v);
    return bad ? err_set(e, ERR_NOMEM, "out of memory: the JSON result") : true;
}

static bool report(job *j, reading *x, size_t model, size_t document, const rows *rows, err *e) {
    const spectrum_result *r = &x->r;
    spectrum_summary s;
    spectrum_span *w = mem_alloc((size_t)r->n_windows, sizeof *w, "a summary", e);
    bool ok = w && spectrum_summarise(r, -1, -1, &s, e);
    for (int i = 0; ok && i < r->n_windows; i++)
        ok = spectrum_window_summary(r, -1, -1, i, &w[i], e);
    ok = ok && add_json(j, model, document, rows, spectrum_json(r, &s, w, e), e);
    if (ok) {
        print_summary(j, x, model, document, rows, &s);
        print_windows(j, r, w);
        print_notes(j, r, &s);
        warn(x, &s);
        ok = spectrum_arrays_write(j->out, model, document, r, e);
    }
    free(w);
    return ok;
}

static bool one(void *ctx, size_t model, size_t document, err *e) {
    job *j = ctx;
    rows rows;
    if (!session_rows(&j->s, document, 1, &rows, e))
        return false;
    reading *x = &j->done[j->n];
    bool ok = name_it(j, x, model, document, &rows, e) && read_rows(j, x, &rows, e);
    if (ok) {
        j->n++;
        ok = report(j, x, model, document, &rows, e);
    }
    rows_free(&rows);
    return ok;
}

static bool pictures(job *j, err *e) {
    figures f = {0};
    spectrum_item *item = mem_alloc(j->n, sizeof *item, "results", e);
    if (!item)
        return false;
    for (size_t i = 0; i < j->n; i++)
        item[i] = (spectrum_item){j->done[i].name, j->done[i].subtitle, &j->done[i].r};
    bool ok = spectrum_figures(item, j->n, &f, e);
    free(item);
    if (!ok)
        return false;
    int text = 0; // the picture that all models share and that shows reflections (values below 0)
    for (size_t i = 0; i < f.n; i++)
        text = strcmp(f.v[i]->id, "reals") == 0 ? (int)i : text;
    results_about a = {.name = "spectrum", .source = j->source, .description = j->device};
    ok = results_figures(j->out, j->o, &f, &a, text, e);
    figures_free(&f);
    return ok;
}

static void release(job *j) {
    for (size_t i = 0; j->done && i < j->o->n_models * j->o->n_documents; i++) {
        spectrum_result_free(&j->done[i].r);
        free(j->done[i].name);
        free(j->done[i].subtitle);
    }
    free(j->done);
    free(j->source);
    json_decref(j->results);
    output_free(j->out);
    session_close(&j->s);
}

static int run(const options *o, err *e) {
    job j = {.o = o, .own = o->own, .results = json_array()};
    bool ok = session_open(&j.s, o, e) && (j.out = output_open(o, e)) != NULL;
    if (ok)
        output_ran_on(j.out, j.s.be);
    if (ok) {
        choose(&j);
        j.done = mem_zalloc(o->n_models * o->n_documents, sizeof *j.done, "results", e);
        ok = j.done != NULL;
    }
    ok = ok && session_each(&j.s, one, &j, e) && pictures(&j, e) &&
         results_finish(j.out, "spectrum.json", j.results, e);
    release(&j);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

const command command_spectrum = {
    .name = "spectrum",
    .summary = "eigenvalues of transitions, half-lives, exponents",
    .usage = "MODEL... DOCUMENT...",
    .details =
        "A token multiplies the state of a head by a K x K matrix A_t; a window of W tokens by "
        "P = A_t ... A_{t-W+1}, the newest factor on the left. Shown are the eigenvalues of single "
        "tokens (those that are not frozen) and of windows, the norm of P beside its spectral "
        "radius, the mean rate from determinants, Lyapunov exponents by QR, and half-lives "
        "W ln 2 / -ln|lambda|.\n"
        "eig.npy is [layers, heads, windows, samples, K], norm2.npy and radius.npy are without K, "
        "NaN where no whole window lies behind the sampled token; spectrum.json names windows and "
        "tokens. Products that would underflow are kept scaled: where there is a log_scale.npy, "
        "multiply by exp(log_scale). ledger.npy is ln|det A_t| [layers, heads, tokens] (several "
        "rows: [layers, heads, rows, tokens]), lyapunov.npy [layers, heads, K].\n"
        "A transition that is not finite has no spectrum: it is named, what was read before stays, "
        "spectrum.json and the picture are not written, and the exit code is 1.",
    .example = "deltop spectrum examples/small-deltanet examples/small-deltaproduct2 "
               "examples/text_kjv.txt --length 16k --out spectrum-out",
    .files = "spectrum.png, spectrum.csv, spectrum.json, eig.npy and its companions",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .min_documents = 1,
    .max_documents = ANY_NUMBER,
    .takes = TAKES_ALL & ~(TAKES_TRAIN_LENGTH | TAKES_SEED),
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(own_options),
    .own_defaults = &defaults,
    .run = run,
};
