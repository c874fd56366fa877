// deltop watch - a report on each new checkpoint of a training run.
#include "cli/commands.h"
#include "cli/report/launch.h"
#include "cli/report/option_rows.h"
#include "cli/report/report_rules.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/watch/round.h"
#include "cli/watch/scan.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct watch_options {
    report_options report; // first: a report takes it as its own
    bool once;
    int64_t until; // -1: not given
    double poll, settle;
    const char *on_fail;
} watch_options;

static const watch_options defaults = {
    .report = REPORT_DEFAULTS, .until = -1, .poll = 10, .settle = 10};

static const option_spec own[] = {
    {"doc", OPT_TEXTS, offsetof(watch_options, report.documents), .value = "DOCUMENT",
     .help = "a document that every checkpoint reads; may be repeated"},
    REPORT_OPTION_ROWS,
    {"once", OPT_FLAG, offsetof(watch_options, once),
     .help = "report on what is there and end: with 4 when a rule is broken"},
    {"until", OPT_INT, offsetof(watch_options, until), .value = "STEP", .lo = 0,
     .hi = 1099511627776.0,
     .help = "end after the checkpoint of this step (or a later one), like --once"},
    {"poll", OPT_REAL, offsetof(watch_options, poll), .value = "SECONDS", .lo = 0.05, .hi = 86400,
     .help = "between two looks at the folder (default 10)"},
    {"settle", OPT_REAL, offsetof(watch_options, settle), .value = "SECONDS", .lo = 0, .hi = 86400,
     .help = "a checkpoint whose files have not changed for so long is whole (default 10)"},
    {"on-fail", OPT_TEXT, offsetof(watch_options, on_fail), .value = "COMMAND",
     .help =
         "run this by sh when a new checkpoint breaks a rule; $DELTOP_CHECKPOINT, $DELTOP_STEP, "
         "$DELTOP_RULES and $DELTOP_REPORT tell which and how"},
};

typedef struct job {
    const options *o; // as given
    const watch_options *own;
    watch_list list;
    options report;     // of the report: o with the checkpoints as models
    size_t *at;         // [n_models] places on the list
    int64_t *step;      // [n_models]
    watch_failures bad; // of the last report
} job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Sleeps until then; false when a signal wants an end.
static bool sleep_until(double when) {
    for (double left; (left = when - now()) > 0 && !signals_caught();) {
        left = left < 0.2 ? left : 0.2;
        nanosleep(&(struct timespec){0, (long)(left * 1e9)}, NULL);
    }
    return !signals_caught();
}

static bool check(const job *j, err *e) {
    const options *o = j->o;
    const text_list *documents = &j->own->report.documents;
    launch l;
    if (o->n_operands != 1)
        return err_set(e, ERR_USAGE, "watch: takes the folder of one training run, got %s",
                       o->n_operands ? "several" : "none");
    if (!o->out)
        return err_set(e, ERR_USAGE, "watch: a folder for the results is missing; add --out OUT");
    if (documents->n == 0)
        return err_set(e, ERR_USAGE, "watch: a document is missing; add --doc DOCUMENT");
    if (!launch_read(&l, NULL, e))
        return false;
    if (l.ranks != 1)
        return err_set(
            e, ERR_USAGE,
            "watch: is one process, not one of %s's; several cards of a machine are taken "
            "by --device cuda:all",
            l.by);
    for (size_t i = 0; i < documents->n; i++) {
        if (strcmp(documents->v[i], "-") == 0)
            return err_set(
                e, ERR_USAGE,
                "watch: standard input can be read only once, and every checkpoint wants "
                "it; put the document into a file");
        if (!file_exists(documents->v[i]))
            return err_set(e, ERR_MISSING, "%s: %s", text_show(documents->v[i]),
                           err_system(ENOENT));
    }
    // The first checkpoint may be hours away: what is wrong with the rules is told before it.
    report_rules rules;
    if (!report_rules_open(&rules, j->own->report.rules, j->own->report.baseline, e))
        return false;
    report_rules_free(&rules);
    return true;
}

// The whole ones become the models of j->report; *fresh: how many of them are new.
static bool choose(job *j, size_t *fresh, err *e) {
    size_t n = 0;
    *fresh = 0;
    free(j->report.model);
    free(j->at);
    free(j->step);
    j->report.model = mem_zalloc(j->list.n + 1, sizeof *j->report.model, "checkpoints", e);
    j->at = mem_zalloc(j->list.n + 1, sizeof *j->at, "checkpoints", e);
    j->step = mem_zalloc(j->list.n + 1, sizeof *j->step, "checkpoints", e);
    if (!j->report.model || !j->at || !j->step)
        return false;
    for (size_t i = 0; i < j->list.n; i++) {
        if (!j->list.v[i].whole)
            continue;
        j->at[n] = i;
        j->step[n] = j->list.v[i].step;
        j->report.model[n++] = j->list.v[i].path;
        *fresh += !j->list.v[i].treated;
    }
    j->report.n_models = n;
    return true;
}

// What is there but cannot be read yet; each reason once.
static void tell_unfinished(job *j) {
    for (size_t i = 0; i < j->list.n; i++) {
        watched *w = &j->list.v[i];
        const char *why =
            w->whole ? ""
                     : w->why + strlen(w->why) -
                           (strlen(w->why) < sizeof w->told ? strlen(w->why) : sizeof w->told - 1);
        if (!w->whole && strcmp(why, w->told) != 0)
            say_note("not yet: %s", w->why);
        snprintf(w->told, sizeof w->told, "%s", why);
    }
}

// Rules that the checkpoints of this round break.
static bool tell_failures(job *j, err *e) {
    for (size_t i = 0; i < j->report.n_models; i++) {
        const watched *w = &j->list.v[j->at[i]];
        char *sentences = w->treated ? NULL : watch_failures_of(&j->bad, i, e);
        if (!sentences)
            continue;
        if (*sentences) {
            say_warning("%s breaks rules", text_show(w->path));
            if (j->own->on_fail)
                watch_on_fail(j->own->on_fail, w->path, w->step, sentences, j->o->out);
        }
        free(sentences);
    }
    return e->code == ERR_NONE;
}

// A report over what is whole now. *code as report_run.
static bool report_now(job *j, size_t fresh, int *code, err *e) {
    for (size_t i = 0; i < j->report.n_models; i++)
        if (!j->list.v[j->at[i]].treated && j->step[i] >= 0)
            say_note("%s: step %" PRId64, text_show(j->report.model[i]), j->step[i]);
    say_note("a report on %zu checkpoint%s, %zu of them new", j->report.n_models,
             j->report.n_models == 1 ? "" : "s", fresh);
    watch_failures_free(&j->bad);
    if (!watch_round(&j->report, j->own->report.workers, j->step, code, &j->bad, e) ||
        !tell_failures(j, e))
        return false;
    for (size_t i = 0; i < j->report.n_models; i++)
        j->list.v[j->at[i]].treated = true;
    return true;
}

static bool reached(const job *j) {
    for (size_t i = 0; j->own->until >= 0 && i < j->list.n; i++)
        if (j->list.v[i].treated && j->list.v[i].step >= j->own->until)
            return true;
    return false;
}

// Whether a checkpoint of that step or a later one can be read; -1: no step is asked for.
static bool is_there(const job *j, int64_t step) {
    bool there = step < 0;
    for (size_t i = 0; i < j->list.n; i++)
        there = there || (j->list.v[i].whole && j->list.v[i].step >= step);
    return there;
}

// Nothing that a later checkpoint could make better.
static bool ends_watch(const err *e) {
    return e->code == ERR_USAGE || e->code == ERR_CANCELLED || e->code == ERR_NOMEM ||
           e->code == ERR_DEVICE || e->code == ERR_IO;
}

static bool watch(job *j, int *code, err *e) {
    double first = now();
    bool told = false; // that this waits, since the last report
    *code = EXIT_DONE;
    for (;;) {
        double looked = now();
        size_t fresh = 0;
        if (!watch_scan(&j->list, j->o->operand[0], j->own->settle, looked, e) ||
            !choose(j, &fresh, e))
            return false;
        if (fresh == 0)
            tell_unfinished(j);
        // What is being written may be whole in a moment; --once waits for it that long.
        bool wait =
            j->own->once && looked - first < j->own->settle + 1 && j->report.n_models < j->list.n;
        err mine = {0};
        if (fresh && !wait && !report_now(j, fresh, code, &mine)) {
            if (j->own->once || ends_watch(&mine))
                return err_set(e, mine.code, "%s", mine.text);
            say_warning("%s", mine.text);
            for (size_t i = 0; i < j->report.n_models; i++)
                j->list.v[j->at[i]].treated = true;
        }
        if (j->own->once && !wait) {
            if (j->report.n_models) // else the error says it
                tell_unfinished(j);
            if (j->report.n_models && !is_there(j, j->own->until))
                return err_set(e, ERR_MISSING,
                               "%s: no whole checkpoint of step %" PRId64 " or later",
                               text_show(j->o->operand[0]), j->own->until);
            return j->report.n_models ||
                   err_set(e, ERR_MISSING, "%s: no whole checkpoint in it%s%s",
                           text_show(j->o->operand[0]), j->list.n ? ": " : "",
                           j->list.n ? j->list.v[0].why : "");
        }
        if (reached(j))
            return true;
        if (fresh)
            told = false;
        if (!wait && !told)
            say_note("waiting for the next checkpoint in %s; ^C ends the watch",
                     text_show(j->o->operand[0]));
        told = told || !wait;
        double next = wait ? 0.3 : j->own->poll;
        if (!sleep_until(looked + next))
            return err_set(e, ERR_CANCELLED, "stopped");
    }
}

static int run(const options *o, err *e) {
    job j = {.o = o, .own = o->own, .report = *o};
    int code = EXIT_FAILED;
    bool ok = check(&j, e);
    j.report.model = NULL;
    j.report.document = (const char **)j.own->report.documents.v;
    j.report.n_documents = j.own->report.documents.n;
    ok = ok && watch(&j, &code, e);
    watch_failures_free(&j.bad);
    watch_list_free(&j.list);
    free(j.report.model);
    free(j.at);
    free(j.step);
    return ok ? code : EXIT_FAILED;
}

const command command_watch = {
    .name = "watch",
    .summary = "a report on each new checkpoint of a training run",
    .usage = "DIR --doc DOCUMENT... --out OUT",
    .details =
        "Looks into DIR for checkpoints (folders with a config and safetensors, also one level "
        "deeper) and makes a report of all of them, again whenever a new one is whole: the config "
        "can be read, every shard of the index is there and as long as its header says, and no "
        "file has changed for --settle seconds. Rows that were read before are not read again, "
        "also "
        "after a restart.\n"
        "The page begins with curves over training steps (from names such as checkpoint-1000 and "
        "step_2000); OUT/trend.jsonl keeps their facts, also of checkpoints that the trainer has "
        "taken away since.\n"
        "--once is for pipelines: what is there, and exit code 4 when a rule of --rules is broken. "
        "Without it ^C ends the watch.",
    .example =
        "deltop watch runs/dp3 --doc book.txt --length 8k --rules rules.ini --out watch-out\n"
        "deltop watch runs/dp3 --doc book.txt --length 8k --rules rules.ini --out watch-out "
        "--once\n"
        "deltop watch runs/dp3 --doc book.txt --out watch-out --rules rules.ini --on-fail "
        "'echo \"$DELTOP_RULES\" | mail -s \"$DELTOP_CHECKPOINT\" me'",
    .files = "what report writes, trend.png, trend.csv and trend.jsonl",
    .words = true,
    .takes = TAKES_DEVICE | TAKES_PRECISION | TAKES_LENGTH | TAKES_ROWS | TAKES_BLOCK |
             TAKES_ADD_BOS | TAKES_RESET | TAKES_TRAIN_LENGTH | TAKES_THREADS | TAKES_SEED |
             TAKES_OUT | TAKES_QUIET,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(watch_options),
    .own_defaults = &defaults,
    .run = run,
};
