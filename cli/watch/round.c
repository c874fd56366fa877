#include "cli/watch/round.h"

#include "cli/report/workers.h"
#include "cli/say.h"
#include "core/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the round tells is written to a file without a name: first this, then `failures` times a
// telling and its text.
typedef struct outcome {
    bool ok;
    int code;
    err e;
    size_t failures;
} outcome;

typedef struct telling {
    size_t checkpoint, length;
} telling;

typedef struct job {
    const options *o;
    report_way way;
    FILE *told;
    watch_failures bad; // in the round's process
    bool died;
} job;

static void keep(void *ctx, const report *r, const rule_outcomes *outcomes) {
    job *j = ctx;
    for (size_t i = 0; i < outcomes->n; i++)
        for (size_t m = 0; m < j->o->n_models; m++)
            if (outcomes->v[i].verdict != RULE_HOLDS &&
                strcmp(output_model(r->out, m), outcomes->v[i].model) == 0)
                watch_failures_add(&j->bad, m, &outcomes->v[i]);
}

static int work(void *ctx, int worker) {
    job *j = ctx;
    outcome x = {0};
    (void)worker;
    x.ok = report_run(j->o, &j->way, &x.code, &x.e) && !j->bad.failed;
    if (j->bad.failed)
        err_set(&x.e, ERR_NOMEM, "out of memory: broken rules");
    x.failures = j->bad.n;
    bool wrote = fwrite(&x, sizeof x, 1, j->told) == 1;
    for (size_t i = 0; wrote && i < j->bad.n; i++) {
        telling t = {j->bad.v[i].checkpoint, strlen(j->bad.v[i].sentence)};
        wrote = fwrite(&t, sizeof t, 1, j->told) == 1 &&
                fwrite(j->bad.v[i].sentence, 1, t.length, j->told) == t.length;
    }
    return wrote && fflush(j->told) == 0 ? EXIT_DONE : EXIT_FAILED;
}

static bool died(void *ctx, int worker, int signal) {
    job *j = ctx;
    (void)worker;
    j->died = true;
    say_warning("the report was ended by signal %d (%s)", signal, strsignal(signal));
    return false;
}

static bool read_failures(FILE *f, size_t n, watch_failures *bad, err *e) {
    for (size_t i = 0; i < n; i++) {
        telling t;
        char *s = fread(&t, sizeof t, 1, f) == 1 ? mem_zalloc(t.length + 1, 1, "rules", e) : NULL;
        if (!s || fread(s, 1, t.length, f) != t.length ||
            !watch_failures_take(bad, t.checkpoint, s, e))
            return err_set(e, ERR_IO, "the report's end was not told");
    }
    return true;
}

bool watch_round(const options *o, int64_t workers, const int64_t *step, int *code,
                 watch_failures *bad, err *e) {
    job j = {.o = o};
    report_run_of of = {.step = step, .rules = keep, .ctx = &j};
    workers_how how = {.n = 1, .died = died};
    outcome x = {0};
    int ended = 0;
    j.way = (report_way){.workers = workers, .of = &of};
    *bad = (watch_failures){0};
    j.told = tmpfile();
    if (!j.told)
        return err_set(e, ERR_IO, "no temporary file: %s", err_system(errno));
    bool ok = workers_run(&how, work, &j, &ended, e);
    if (ok) {
        rewind(j.told);
        ok = !j.died && fread(&x, sizeof x, 1, j.told) == 1;
        if (!ok)
            err_set(e, ERR_INPUT, "the report did not come to its end");
    }
    if (ok && !x.ok)
        ok = err_set(e, x.e.code, "%s", x.e.text);
    *code = x.code;
    ok = ok && read_failures(j.told, x.failures, bad, e);
    fclose(j.told);
    if (!ok)
        watch_failures_free(bad);
    return ok;
}
