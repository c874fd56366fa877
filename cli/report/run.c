#include "cli/report/run.h"

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/progress.h"
#include "cli/report/assemble.h"
#include "cli/report/launch.h"
#include "cli/report/share.h"
#include "cli/report/timing.h"
#include "cli/report/workers.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "core/file.h"
#include "core/text.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda_open.h"

#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// What workers tell the process that waits for them.
typedef struct told {
    atomic_int planned; // 1: the list of tasks is made, and what is odd about it has been said; -1:
                        // it cannot be made
    atomic_llong todo, done; // tasks
} told;

typedef struct job {
    const options *o;
    const report_way *way;
    launch launch;
    char *folder;  // of claims; owned
    int workers;   // 0: this process does the tasks
    alive *self;   // of this process; owned
    told *told;    // shared with workers; NULL without
    timing *times; // owned; NULL: nobody asked
    progress bar;
    bool hopeless; // no worker could begin
    int deaths;    // of workers, since a task was done
    long long done;
} job;

static const alive_about *run_about(const job *j, alive_about *about, bool worker) {
    *about = (alive_about){.folder = j->folder,
                           .run = j->launch.run,
                           .rank = worker ? -1 : j->launch.rank,
                           .who = j->launch.who};
    return about;
}

// ---- what every process opens -------------------------------------------------------------------

typedef struct opened {
    backend *be, *exact; // exact NULL: be is exact
    report *r;
    share s;
} opened;

static void close_all(opened *x) {
    share_close(&x->s);
    report_free(x->r);
    backend_close(x->exact);
    backend_close(x->be);
    *x = (opened){0};
}

// worker: which card it takes. speaks: says what is odd about models and documents.
static bool open_all(opened *x, const job *j, alive *self, int worker, bool speaks, err *e) {
    bool gpu = strcmp(j->o->device, "cpu") != 0;
    int cards = gpu ? cuda_count() : 0, card = j->launch.local_rank * j->workers + worker;
    *x = (opened){0};
    x->be = device_open_card(j->o, cards > 0 ? card % cards : 0, e);
    if (x->be && x->be->prec != PRECISION_F64)
        x->exact = cpu_open(PRECISION_F64, (int)j->o->threads, e);
    bool ok = x->be && (x->exact || x->be->prec == PRECISION_F64);
    say_set_mute(!speaks);
    x->r = ok ? report_open(j->o, x->be, e) : NULL;
    say_set_mute(false);
    if (x->r && j->way->of) {
        x->r->of = j->way->of;
        output_always_nested(x->r->out);
    }
    if (x->r && share_open(&x->s, x->r, self, e))
        return true;
    close_all(x);
    return false;
}

// ---- doing tasks --------------------------------------------------------------------------------

typedef struct doing {
    const report *r;
    progress bar;  // off in workers
    told *told;    // NULL: the bar is ours
    timing *times; // NULL
} doing;

static void begin(void *ctx, size_t task) {
    doing *d = ctx;
    (void)task;
    if (!d->told)
        progress_phase(&d->bar, "tokens");
}

static bool tick(void *ctx, int64_t done, int64_t total) {
    return progress_tick(&((doing *)ctx)->bar, done, total);
}

static void end(void *ctx, size_t task, task_outcome how, double seconds, const err *why) {
    doing *d = ctx;
    char name[256];
    if (d->times)
        timing_add(d->times, task, seconds);
    if (how == TASK_FAILED)
        say_warning("%s: %s", report_task_name(d->r, task, name, sizeof name), why->text);
    if (d->told)
        atomic_fetch_add(&d->told->done, 1);
}

static bool go_on(void *ctx, const share_state *state) {
    (void)ctx, (void)state;
    return !signals_caught();
}

static size_t to_do(const report *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_tasks; i++)
        n += !report_task_done(r, i);
    return n;
}

// Until nothing is free any more; what others give back is free again.
static bool do_tasks(const job *j, opened *x, int worker, size_t todo, err *e) {
    int each = j->workers ? j->workers : 1, of = (j->launch.ranks ? j->launch.ranks : 1) * each;
    size_t start = share_start(x->r, j->launch.rank * each + worker, of);
    doing d = {.r = x->r, .told = j->told, .times = j->times};
    share_calls calls = {.begin = begin, .progress = tick, .end = end, .ctx = &d};
    share_state state = {.free = todo};
    report_worker *w = todo ? report_worker_open(x->r, x->be, x->exact, e) : NULL;
    bool ok = w || !todo;
    if (w && !j->told)
        progress_begin(&d.bar, "report", (int)todo, STDERR_FILENO);
    while (ok && state.free)
        ok = share_work(&x->s, w, start, &calls, e) &&
             share_wait(&x->s, j->launch.comes_goes, &state, go_on, NULL, e);
    if (w && !j->told)
        progress_end(&d.bar);
    report_worker_free(w);
    return ok;
}

// ---- workers ------------------------------------------------------------------------------------

// The first one has said what there is to say.
static bool plan_is_good(const job *j, int worker) {
    while (worker > 0 && atomic_load(&j->told->planned) == 0 && !signals_caught())
        usleep(20000);
    return atomic_load(&j->told->planned) >= 0;
}

static int work(void *ctx, int worker) {
    job *j = ctx;
    opened x;
    err e = {0};
    alive_about about;
    bool speaks = worker == 0 && j->launch.rank == 0 && atomic_load(&j->told->planned) == 0;
    if (!plan_is_good(j, worker))
        return EXIT_DONE;
    alive *self = alive_open(run_about(j, &about, true), &e);
    bool ok = self && open_all(&x, j, self, worker, speaks, &e);
    size_t todo = ok ? to_do(x.r) : 0;
    if (worker == 0) {
        atomic_store(&j->told->todo, (long long)todo);
        atomic_store(&j->told->planned, ok ? 1 : -1);
    }
    if (ok && speaks && todo < x.r->n_tasks)
        say_note("%zu of %zu rows are there already", x.r->n_tasks - todo, x.r->n_tasks);
    if (ok) {
        ok = do_tasks(j, &x, worker, todo, &e);
        close_all(&x);
    }
    alive_close(self);
    if (!ok && e.code != ERR_CANCELLED)
        say_error(&e);
    return ok ? EXIT_DONE : say_exit_code(e.code);
}

static bool look_at_workers(void *ctx) {
    job *j = ctx;
    long long done = atomic_load(&j->told->done);
    if (done != j->done)
        j->deaths = 0;
    j->done = done;
    return progress_tick(&j->bar, done, atomic_load(&j->told->todo));
}

// Is there to be another one in its place? Not for ever, when they die before they do anything.
static bool died(void *ctx, int worker, int signal) {
    enum { MOST_DEATHS = 8 };
    job *j = ctx;
    bool again = ++j->deaths <= MOST_DEATHS;
    say_warning("%s: worker %d was ended by signal %d (%s%s)", j->launch.who, worker, signal,
                strsignal(signal),
                signal == SIGKILL ? ": memory was short, or somebody did it" : "");
    if (!again)
        atomic_compare_exchange_strong(&j->told->planned, &(int){0}, -1);
    return again;
}

static bool run_workers(job *j, int *code, err *e) {
    workers_how how = {.n = j->workers, .tick = look_at_workers, .died = died};
    j->told =
        mmap(NULL, sizeof *j->told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j->told == MAP_FAILED) {
        j->told = NULL;
        return err_set(e, ERR_NOMEM, "out of memory: workers");
    }
    progress_begin(&j->bar, "report", 1, STDERR_FILENO);
    progress_phase(&j->bar, "rows");
    bool ok = workers_run(&how, work, j, code, e);
    progress_end(&j->bar);
    j->hopeless = atomic_load(&j->told->planned) < 0;
    munmap(j->told, sizeof *j->told);
    j->told = NULL;
    return ok;
}

// ---- the page -----------------------------------------------------------------------------------

// worker_code: exit code of a worker that could not work.
static bool make_page(job *j, opened *x, int worker_code, int *code, err *e) {
    share_state state;
    bool first = true;
    if (!share_wait(&x->s, j->launch.comes_goes, &state, go_on, NULL, e) ||
        !alive_first(j->self, &first, e))
        return false;
    *code = EXIT_DONE;
    if (state.working) {
        say_note("%s: %zu row%s in work elsewhere; the last one to finish makes the page",
                 j->launch.who, state.working, state.working == 1 ? " is" : "s are");
        return true;
    }
    if (worker_code && state.free) {
        *code = worker_code; // it has said why
        return true;
    }
    if (!first)
        return true;
    share_clean(&x->s);
    alive_sweep(j->self);
    return report_sweep(x->r, e) && (!j->times || timing_save(j->times, x->r, e)) &&
           report_assemble(x->r, code, e);
}

static int count_workers(const options *o, const report_way *way, const launch *l) {
    if (way->workers)
        return (int)way->workers;
    if (strcmp(o->device, "cuda:all") == 0 && l->ranks == 1) {
        int cards = device_cards();
        return cards > 1 ? cards : 0;
    }
    return l->ranks == 1 ? 0 : 1;
}

// What is wrong with the command line is told before anything is made.
static bool check(const options *o, const job *j, err *e) {
    const report_options *own = o->own;
    report_rules rules;
    if (!o->out)
        return err_set(e, ERR_USAGE, "%s: a folder for the results is missing; add --out DIR",
                       o->command->name);
    for (size_t i = 0; i < o->n_documents; i++)
        if (j->workers && strcmp(o->document[i], "-") == 0)
            return err_set(e, ERR_USAGE,
                           "%s: standard input cannot be read by several processes; put the "
                           "document into a file",
                           o->command->name);
    // Every row opens its document again; a pipe would be empty then, or nobody would write to it.
    struct stat st;
    for (size_t i = 0; i < o->n_documents; i++)
        if (stat(o->document[i], &st) == 0 && S_ISFIFO(st.st_mode))
            return err_set(e, ERR_INPUT,
                           "%s: is a pipe, which can be read only once; give it as standard input "
                           "(-) or put it into a file",
                           text_show(o->document[i]));
    if (!report_rules_open(&rules, own->rules, own->baseline, e))
        return false;
    report_rules_free(&rules);
    return output_make_folder(o->out, e);
}

bool report_run(const options *o, const report_way *way, int *code, err *e) {
    job j = {.o = o, .way = way};
    opened x = {0};
    alive_about about;
    int worker_code = EXIT_DONE;
    *code = EXIT_FAILED;
    signals_at_end(alive_remove_all);
    if (!launch_read(&j.launch, way->run, e))
        return false;
    j.workers = count_workers(o, way, &j.launch);
    // Cores are shared out among workers, unless --threads says how many each takes.
    if (j.workers > 1 && !o->threads) {
        int each = omp_get_max_threads() / j.workers;
        omp_set_num_threads(each > 1 ? each : 1);
    }
    bool ok = check(o, &j, e);
    ok = ok && (j.folder = file_join(o->out, SHARE_FOLDER, e)) != NULL;
    ok = ok && (j.self = alive_open(run_about(&j, &about, false), e)) != NULL;
    if (way->assemble)
        j.workers = 0;
    if (ok && ((const report_options *)o->own)->timing)
        ok = (j.times = timing_new(e)) != NULL;
    if (ok && j.workers)
        ok = run_workers(&j, &worker_code, e);
    if (ok && j.hopeless) {
        *code = worker_code ? worker_code : EXIT_FAILED; // it has said why
    } else if (ok) {
        bool alone = !j.workers;
        ok = open_all(&x, &j, j.self, 0, alone, e);
        size_t todo = ok && alone && !way->assemble ? to_do(x.r) : 0;
        if (ok && alone && !way->assemble && todo < x.r->n_tasks)
            say_note("%zu of %zu rows are there already", x.r->n_tasks - todo, x.r->n_tasks);
        ok = ok && (!todo || do_tasks(&j, &x, 0, todo, e)) &&
             make_page(&j, &x, worker_code, code, e);
    }
    close_all(&x);
    alive_close(j.self);
    timing_free(j.times);
    free(j.folder);
    return ok;
}
