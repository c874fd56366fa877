// deltop report - one page over many models and documents.
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report/assemble.h"
#include "cli/report/tasks.h"
#include "cli/say.h"

#include "core/outfile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const report_options defaults = {.samples = 16, .resamples = 200, .jump = 3};

static const option_spec own[] = {
    {"doc", OPT_TEXTS, offsetof(report_options, documents), .value = "DOCUMENT",
     .help = "a document to read; may be repeated, and documents may also stand among the models"},
    {"rules", OPT_TEXT, offsetof(report_options, rules), .value = "FILE",
     .help = "check these rules (docs/facts.md names the numbers); a broken one ends with 4"},
    {"baseline", OPT_TEXT, offsetof(report_options, baseline), .value = "FILE",
     .help = "results.jsonl of another run, or its folder: what `baseline` in rules means"},
    {"every", OPT_INT, offsetof(report_options, every), .lo = 1, .hi = 1 << 30,
     .help = "tokens between samples of the states (default: 128 to 256 samples a row)"},
    {"samples", OPT_INT, offsetof(report_options, samples), .lo = 2, .hi = 1 << 16,
     .help =
         "window products of each length in a row (default 16; fewer for models of many heads)"},
    {"resamples", OPT_INT, offsetof(report_options, resamples), .lo = 0, .hi = 100000,
     .help = "bootstrap resamples for intervals (default 200; 0 = none)"},
    {"jump", OPT_REAL, offsetof(report_options, jump), .lo = 0, .hi = 1000, .above_lo = true,
     .value = "NATS", .help = "rise of the mean of 64 losses that is flagged (default 3)"},
    {"timing", OPT_FLAG, offsetof(report_options, timing),
     .help = "write times and throughput of the tasks run now to timing.json"},
};

// What --timing tells: a line for every task that was run now.
typedef struct times {
    json_t *list; // NULL: nobody asked
    double all;   // seconds of all tasks
} times;

static bool add_time(times *t, const report *r, size_t i, double seconds, err *e) {
    const report_pair *p = &r->pair[r->task[i].pair];
    t->all += seconds;
    if (!t->list)
        return true;
    json_t *v = json_pack("{s:o, s:o, s:I, s:I, s:f, s:f}", "model",
                          output_json_text(output_model(r->out, p->model)), "document",
                          output_json_text(output_document(r->out, p->document)), "row",
                          (json_int_t)r->task[i].row, "tokens", (json_int_t)p->length, "seconds",
                          seconds, "tokens_per_second", (double)p->length / seconds);
    return json_array_append_new(t->list, v) == 0 ||
           err_set(e, ERR_NOMEM, "out of memory: the times");
}

static bool save_times(const times *t, const report *r, err *e) {
    if (!t->list)
        return true;
    json_t *v = json_pack("{s:s, s:f, s:O}", "how", r->how, "seconds", t->all, "rows", t->list);
    char *text = v ? json_dumps(v, JSON_INDENT(2)) : NULL,
         *path = output_path(r->out, "timing.json", e);
    bool ok = path && (text || err_set(e, ERR_NOMEM, "out of memory: the times")) &&
              outfile_save(path, text, strlen(text), e) && output_wrote(r->out, path, e);
    json_decref(v);
    free(text);
    free(path);
    return ok;
}

// Tasks that are not done yet, one after the other. False: stopped, or nothing can be written.
static bool run_tasks(const report *r, backend *be, backend *exact, times *t, err *e) {
    size_t todo = 0;
    for (size_t i = 0; i < r->n_tasks; i++)
        todo += !report_task_done(r, i);
    if (todo < r->n_tasks)
        say_note("%zu of %zu rows are there already", r->n_tasks - todo, r->n_tasks);
    if (todo == 0)
        return true;
    report_worker *w = report_worker_open(r, be, exact, e);
    progress bar;
    bool ok = w != NULL;
    progress_begin(&bar, "report", (int)todo, STDERR_FILENO);
    for (size_t i = 0; ok && i < r->n_tasks; i++) {
        err why = {0};
        char name[256];
        double seconds = 0;
        if (report_task_done(r, i))
            continue;
        progress_phase(&bar, "tokens");
        task_outcome got = report_task_run(w, i, progress_tick, &bar, &seconds, &why);
        if (got == TASK_FAILED)
            say_warning("%s: %s", report_task_name(r, i, name, sizeof name), why.text);
        if (got == TASK_STOP)
            ok = err_set(e, why.code, "%s", why.text);
        if (got == TASK_STORED)
            ok = add_time(t, r, i, seconds, e);
    }
    progress_end(&bar);
    report_worker_free(w);
    return ok;
}

static int run(const options *o, err *e) {
    int code = EXIT_FAILED;
    report *r = NULL;
    backend *exact = NULL, *be = NULL;
    if (!o->out) {
        err_set(e, ERR_USAGE, "report: a folder for the results is missing; add --out DIR");
        return EXIT_USAGE;
    }
    const report_options *own = o->own;
    times t = {.list = own->timing ? json_array() : NULL};
    bool ok = (be = device_open(o, e)) != NULL;
    if (ok && be->prec != PRECISION_F64)
        ok = (exact = device_open_in(o, PRECISION_F64, e)) != NULL;
    ok = ok && (r = report_open(o, be, e)) != NULL && report_sweep(r, e) &&
         run_tasks(r, be, exact, &t, e) && save_times(&t, r, e) && report_assemble(r, &code, e);
    report_free(r);
    json_decref(t.list);
    backend_close(exact);
    backend_close(be);
    return ok ? code : EXIT_FAILED;
}

const command command_report = {
    .name = "report",
    .summary = "one page over many models and documents",
    .usage = "MODEL... --doc DOCUMENT... --out DIR",
    .details =
        "Reads every document with every model and writes one page that needs nothing else: what "
        "broke beyond the training length, in words with numbers; losses, ranks, spectra, gates, "
        "betas and keys with intervals over rows; pictures, arrays, and results.jsonl with one "
        "measured number a line.\n"
        "An interrupted report goes on where it stopped: results lie in DIR/tasks, one file a row, "
        "and are used again only for the same settings, models and documents. A row that cannot be "
        "read is named on the page, the rest goes on, and the exit code is 1. The same inputs give "
        "the same bytes.",
    .example = "deltop report examples/small-deltanet examples/small-deltaproduct2 "
               "--doc examples/text_kjv.txt --length 4k --rows 2 --out report-out",
    .files = "report.md, index.html, results.jsonl, pictures, CSV and NPY",
    .document_option = "doc",
    .min_models = 1,
    .max_models = ANY_NUMBER,
    .min_documents = 1,
    .max_documents = ANY_NUMBER,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_LENGTH | TAKES_ROWS | TAKES_BLOCK |
             TAKES_ADD_BOS | TAKES_RESET | TAKES_TRAIN_LENGTH | TAKES_THREADS | TAKES_SEED |
             TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(report_options),
    .own_defaults = &defaults,
    .run = run,
};
