// deltop report - one page over many models and documents.
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report/assemble.h"
#include "cli/report/tasks.h"
#include "cli/say.h"

#include <stdlib.h>
#include <unistd.h>

static const report_options defaults = {.samples = 16, .resamples = 200, .jump = 3};

static const option_spec own[] = {
    {"doc", OPT_TEXTS, offsetof(report_options, documents), .value = "DOCUMENT",
     .help = "a document to read; may be repeated, and documents may also stand among the models"},
    {"rules", OPT_TEXT, offsetof(report_options, rules), .value = "FILE",
     .help = "check these rules (docs/facts.md names the numbers); a broken one ends with 4"},
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

// Tasks that are not done yet, one after the other. False: stopped, or nothing can be written.
static bool run_tasks(const report *r, backend *be, backend *exact, err *e) {
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
        if (report_task_done(r, i))
            continue;
        progress_phase(&bar, "tokens");
        task_outcome got = report_task_run(w, i, progress_tick, &bar, NULL, &why);
        if (got == TASK_FAILED)
            say_warning("%s: %s", report_task_name(r, i, name, sizeof name), why.text);
        if (got == TASK_STOP)
            ok = err_set(e, why.code, "%s", why.text);
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
    bool ok = (be = device_open(o, e)) != NULL;
    if (ok && be->prec != PRECISION_F64)
        ok = (exact = device_open_in(o, PRECISION_F64, e)) != NULL;
    ok = ok && (r = report_open(o, be, e)) != NULL && report_sweep(r, e) &&
         run_tasks(r, be, exact, e) && report_assemble(r, &code, e);
    report_free(r);
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
    .files = "index.html, report.md, results.jsonl, pictures, CSV and NPY",
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
