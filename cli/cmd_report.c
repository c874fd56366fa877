// deltop report - one page over many models and documents.
#include "cli/commands.h"
#include "cli/report/run.h"
#include "cli/say.h"

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
    {"workers", OPT_INT, offsetof(report_options, workers), .lo = 1, .hi = 1024,
     .help =
         "processes that share the rows on this machine (default 1; with --device cuda:all one a "
         "card)"},
    {"assemble", OPT_FLAG, offsetof(report_options, assemble),
     .help = "read nothing more: make the page of what is there, and say what is missing"},
    {"run", OPT_TEXT, offsetof(report_options, run), .value = "NAME",
     .help = "work beside all others that give this name and the same --out, here or elsewhere; "
             "mpirun, srun and Slurm's array jobs need none (docs/cluster.md)"},
};

static int run(const options *o, err *e) {
    const report_options *mine = o->own;
    report_way way = {.workers = mine->workers, .run = mine->run, .assemble = mine->assemble};
    int code = EXIT_FAILED;
    return report_run(o, &way, &code, e) ? code : EXIT_FAILED;
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
