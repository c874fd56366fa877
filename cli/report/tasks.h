// cli/report/tasks.h - a report as a list of independent tasks, and where their results lie.
//
// A task is one row of one document read by one model (analyses/report/row.h). Its result is one
// file, DIR/tasks/MODEL/DOCUMENT/row-N.safetensors, which appears whole or not at all and carries a
// digest of everything that its numbers depend on: settings, precision, kind of device, the model's
// and the document's content. So
//
//   - any number of workers, in any order, in one process or in many that share DIR, may run tasks:
//     the files are the same bytes whoever wrote them;
//   - an interrupted report goes on where it stopped, and results of other settings are never taken
//     for this one's: they count as not there, and are replaced;
//   - assembling (cli/report/assemble.h) reads the files and nothing else of the run.
//
// Life of a report:
//
//     r = report_open(o, be, &e)          names, rows of every document: the same list everywhere
//     w = report_worker_open(r, be, exact, &e)
//     for i: if (!report_task_done(r, i)) report_task_run(w, i, ...)    spread over workers at will
//     report_assemble(r, ...)             one process, when all are done or given up
//
// A task that cannot be run (a damaged model, a number that cannot be computed) is not the end: the
// reason is kept in row-N.failed, assembling names it, and the next run tries again.
#ifndef DELTOP_REPORT_TASKS_H
#define DELTOP_REPORT_TASKS_H

#include "analyses/report/row.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report/report_rules.h"
#include "core/progress.h"

// The command's own options.
typedef struct report_options {
    text_list documents; // --doc; among o->document
    int64_t every;       // tokens between samples of states; 0: by the row's length
    int64_t samples;     // windows of each length in a row
    int64_t resamples;   // of bootstraps
    double jump;
    const char *rules, *baseline; // files; NULL: none
    bool timing;
    int64_t workers; // 0: see report_way
    const char *run; // NULL
    bool assemble;
} report_options;

// One model on one document.
typedef struct report_pair {
    size_t model, document; // indices into the operands
    err failed;             // why it cannot be read at all; code ERR_NONE: it can, then:
    int64_t rows, length;   // rows and tokens of each
    int64_t tokens, unread; // of the document
    int64_t train_length;   // 0: unknown
    int64_t state_bytes;
    int n_layers;
    char sha256[65];   // of the document
    char added[160];   // ids that the text does not hold, in words
    char settings[65]; // digest of all that a row's numbers depend on but its number
    size_t first_task;
} report_pair;

typedef struct report_task {
    size_t pair;
    int64_t row;
} report_task;

typedef struct report report;

// The models of a report that are checkpoints of one training run.
typedef struct report_run_of {
    const int64_t *step; // [n_models], -1: not known
    // Called with the outcomes of --rules; may be NULL.
    void (*rules)(void *ctx, const report *r, const rule_outcomes *outcomes);
    void *ctx;
} report_run_of;

struct report {
    const options *o;
    const report_options *own;
    output *out;       // owned
    char how[128];     // "cpu, f32"
    report_pair *pair; // [n_models * n_documents], models outermost; owned
    report_task *task; // owned
    size_t n_pairs, n_tasks;
    report_rules rules;      // owned; they change no task
    FILE *input;             // standard input, kept; owned
    const report_run_of *of; // what else is known of its models; NULL; borrowed
};

// Makes DIR, reads the head of every model (no weights) and all documents, and lists the tasks.
// be: the device that computes, for the settings; borrowed. Fails when DIR cannot be written, for a
// wrong command line, and when no pair at all can be read; a pair that cannot be read while others
// can is kept with its reason.
report *report_open(const options *o, const backend *be, err *e);
void report_free(report *r); // NULL is fine

// A whole result with these settings is there.
bool report_task_done(const report *r, size_t i);
// Why it failed when it was run last, with these settings; empty when it did not.
void report_task_failure(const report *r, size_t i, err *why);
// Stores such a reason for a task that nobody could finish (its process died).
bool report_task_give_up(const report *r, size_t i, const char *why, err *e);
// "small-deltanet on text_kjv, row 1" into buf; returns buf. Escaped.
const char *report_task_name(const report *r, size_t i, char *buf, size_t size);
// The result; row_record_free it. ERR_MISSING, ERR_INPUT as row_record_load; a damaged file is removed,
// so that the next run makes it again.
bool report_task_load(const report *r, size_t i, row_record *out, err *e);

// Runs tasks one after the other: holds a device, and the model and document of the last task. Tasks
// of one pair that follow each other share both. be and exact (the same device in float64, NULL: no
// comparison) are borrowed. A worker is used from one thread.
typedef struct report_worker report_worker;
report_worker *report_worker_open(const report *r, backend *be, backend *exact, err *e);
void report_worker_free(report_worker *w); // NULL is fine

typedef enum {
    TASK_STORED, // the result is there
    TASK_FAILED, // cannot be run; *e says why and row-N.failed was written; go on with others
    TASK_STOP,   // the user stopped it, or nothing can be written: *e says why; give up
} task_outcome;
// progress counts tokens of the row. seconds (may be NULL): time it took.
task_outcome report_task_run(report_worker *w, size_t i, progress_fn progress, void *progress_ctx,
                             double *seconds, err *e);

// Removes what a killed run left half-written in DIR and DIR/tasks: call it while no worker runs.
bool report_sweep(const report *r, err *e);

#endif
