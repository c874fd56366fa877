// deltop report - one page over many models and documents.
#include "cli/commands.h"
#include "cli/report/option_rows.h"
#include "cli/report/run.h"
#include "cli/say.h"

static const report_options defaults = REPORT_DEFAULTS;

static const option_spec own[] = {
    {"doc", OPT_TEXTS, offsetof(report_options, documents), .value = "DOCUMENT",
     .help = "a document to read; may be repeated, and documents may also stand among the models"},
    REPORT_OPTION_ROWS,
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
        "the same bytes.\n"
        "Rows are shared out by --workers, --device cuda:all, mpirun and srun (docs/cluster.md): "
        "the "
        "same bytes again.",
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
