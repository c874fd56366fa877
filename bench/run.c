#include "bench/run.h"

#include "bench/environment.h"
#include "bench/measure.h"
#include "bench/op.h"
#include "bench/plugin_guard.h"
#include "bench/yardstick.h"
#include "core/mem.h"
#include "core/text.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda_open.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Inputs of all cases lie in memory together, so that rounds can go over all of them, unless that
// would take more than this.
#define RESIDENT_CPU 1.5e9
#define RESIDENT_GPU 24e9
enum { MOST_BACKENDS = 8 };
// A case whose single call lasts longer than so many times its budget is not begun: the gate and the
// first samples would be a multiple of that.
#define HOPELESS 4
// What takes longer than so many times its budget ends after LEAST_ROUNDS rounds.
#define OVERDRAWN 3
enum { LEAST_ROUNDS = 3 };

typedef struct job {
    const bench_case *c;
    size_t row; // in the record
    meter m;
    bool ready;
    double spent; // seconds of its blocks
} job;

typedef struct runner {
    const bench_plan *p;
    record *out;
    backend *be[MOST_BACKENDS];
    int64_t be_threads[MOST_BACKENDS];
    int n_be;
    nvml *card;
    backend *gpu; // borrowed: one of be
    job *jobs;
    size_t n;
    int64_t done, total;
} runner;

static bool tick(runner *r, err *e) {
    if (!r->p->progress || r->p->progress(r->p->progress_ctx, r->done, r->total))
        return true;
    return err_set(e, ERR_CANCELLED, "stopped");
}

static backend *open_backend(runner *r, const bench_case *c, err *e) {
    bool cuda = c->at[AXIS_DEVICE] == ON_CUDA;
    precision p = (precision)c->at[AXIS_DTYPE];
    for (int i = 0; i < r->n_be; i++)
        if ((strcmp(r->be[i]->device, "cpu") != 0) == cuda && r->be[i]->prec == p &&
            (cuda || r->be_threads[i] == c->at[AXIS_THREADS]))
            return r->be[i];
    if (r->n_be == MOST_BACKENDS) {
        err_set(e, ERR_UNSUPPORTED, "more than %d combinations of device, dtype and threads",
                MOST_BACKENDS);
        return NULL;
    }
    backend *be = cuda ? cuda_open(r->p->gpu, p, 0, e) : cpu_open(p, (int)c->at[AXIS_THREADS], e);
    if (!be)
        return NULL;
    if (cuda && !r->card)
        r->card = nvml_open(r->p->gpu, be->pci[0] ? be->pci : NULL);
    if (cuda)
        r->gpu = be;
    r->be_threads[r->n_be] = c->at[AXIS_THREADS];
    r->be[r->n_be++] = be;
    return be;
}

static bench_row *row_of(const runner *r, const job *j) {
    return &r->out->rows[j->row];
}

// The OpenMP setting is the process': every case has its own. So is the name for a crash.
static void begin(const runner *r, const job *j) {
    if (j->c->at[AXIS_DEVICE] == ON_CPU)
        omp_set_num_threads((int)j->c->at[AXIS_THREADS]);
    guard_name(row_of(r, j)->name);
}

static void drop(job *j) {
    if (j->m.work)
        j->c->op->free(j->m.work);
    j->m.work = NULL;
    j->ready = false;
}

static void fail_row(runner *r, job *j, row_status status, const char *why) {
    bench_row *row = row_of(r, j);
    row->status = status;
    snprintf(row->why, sizeof row->why, "%s", why);
    drop(j);
}

static double budget(const runner *r) {
    return r->p->seconds / (double)r->n;
}

static void fill_cost(bench_row *row, const job *j, const backend *be) {
    bench_cost x = {0};
    ceilings c = environment_ceilings(be, be->prec, (int)j->c->at[AXIS_THREADS]);
    j->c->op->cost(j->c, j->m.work, &x);
    row->flop = x.flop;
    row->bytes = x.bytes;
    row->chain = x.chain;
    row->items = x.items;
    snprintf(row->item, sizeof row->item, "%s", x.item);
    double by_bytes = 1e3 * x.bytes / c.bytes_per_second;
    double by_flop = 1e3 * x.flop / c.flop_per_second;
    if (!isfinite(by_bytes) || !isfinite(by_flop))
        return;
    row->bytes_ms = by_bytes;
    row->flop_ms = by_flop;
    row->floor_ms = fmax(by_bytes, by_flop);
    snprintf(row->bound, sizeof row->bound, "%s", by_bytes > by_flop ? "bytes" : "operations");
    // Chunks that wait for each other: more than the floor when few heads share the device.
    if (1e3 * c.chunk_seconds * x.chain > row->floor_ms)
        snprintf(row->bound, sizeof row->bound, "chain");
}

// What the operation needs and the gate's word. A case that cannot run or is wrong is a row without
// times; false: the whole run ends.
static bool prepare(runner *r, job *j, err *e) {
    const bench_case *c = j->c;
    bench_row *row = row_of(r, j);
    err own = {0};
    if (c->op->check && !c->op->check(c, &own)) {
        fail_row(r, j, ROW_SKIPPED, own.text);
        return true;
    }
    backend *be = open_backend(r, c, &own);
    if (!be && own.code == ERR_DEVICE)
        return err_set(e, own.code, "%s", own.text);
    if (!be) {
        fail_row(r, j, ROW_SKIPPED, own.text);
        return true;
    }
    begin(r, j);
    if (!c->op->needs_model) {
        fill_cost(row, j, be);
        if (row->floor_ms > 1e3 * HOPELESS * budget(r)) {
            char why[160];
            snprintf(why, sizeof why,
                     "one call takes %.2g s at least, and the budget is %.2g s (--budget)",
                     1e-3 * row->floor_ms, budget(r));
            fail_row(r, j, ROW_SKIPPED, why);
            return true;
        }
    }
    bench_setup set = {.c = c,
                       .be = be,
                       .seed = r->p->seed,
                       .kernel = r->p->plugins ? plugins_find(r->p->plugins, c->impl) : NULL};
    j->m = (meter){.be = be, .op = c->op, .card = c->at[AXIS_DEVICE] == ON_CUDA ? r->card : NULL};
    j->m.work = c->op->prepare(&set, &own);
    if (!j->m.work) {
        fail_row(r, j, own.code == ERR_UNSUPPORTED ? ROW_SKIPPED : ROW_FAILED, own.text);
        return true;
    }
    fill_cost(row, j, be);
    bench_gate g = {.tolerance = bench_tolerance(c), .state_error = NAN, .stress = NAN};
    if (!c->op->gate(j->m.work, &g, &own)) {
        fail_row(r, j, ROW_FAILED, own.text);
        return true;
    }
    begin(r, j);
    row->error = g.error;
    row->state_error = g.state_error;
    row->stress = g.stress;
    row->tolerance = g.tolerance;
    snprintf(row->gate, sizeof row->gate, "%s", g.how);
    snprintf(row->kernel, sizeof row->kernel, "%s", c->op->kernel(j->m.work));
    if (!g.passed) {
        fail_row(r, j, ROW_WRONG, g.what);
        return true;
    }
    if (r->p->slow_op && strcmp(r->p->slow_op, c->op->name) == 0)
        j->m.extra = r->p->slow_share;
    if (!measure_warm_up(&j->m, 0.25, &own)) {
        fail_row(r, j, ROW_FAILED, own.text);
        return true;
    }
    row->first_ms = j->m.first_ms;
    // The kernel that ran with the measured inputs, and the choice behind it.
    snprintf(row->kernel, sizeof row->kernel, "%s", c->op->kernel(j->m.work));
    snprintf(row->kernel_why, sizeof row->kernel_why, "%s", be->kernel_why);
    j->ready = true;
    return true;
}

static bool block(runner *r, job *j, int round, int rounds, double seconds, err *e) {
    bench_row *row = row_of(r, j);
    err own = {0};
    if (!j->ready || (round >= LEAST_ROUNDS && j->spent > OVERDRAWN * budget(r))) {
        r->done++;
        return tick(r, e);
    }
    begin(r, j);
    double since = clock_now();
    // A cold sample costs an eviction: a few of them.
    measure_limits warm = {.seconds = (r->p->cold ? 0.65 : 1) * seconds,
                           .precision = r->p->precision,
                           .least = rounds > 1 ? 3 : 10,
                           .most = rounds > 1 ? 200 : 2000};
    measure_limits cold = {.seconds = 0.35 * seconds,
                           .precision = r->p->precision,
                           .least = rounds > 1 ? 1 : 5,
                           .most = rounds > 1 ? 50 : 400};
    // A long call need not be repeated ten times a round.
    if (warm.least * j->m.call_ms > 2e3 * warm.seconds)
        warm.least = cold.least = rounds > 1 || j->m.call_ms > 1e3 * budget(r) ? 1 : 3;
    bool ok = measure_block(&j->m, false, &warm, round, &row->warm, &own) &&
              (!r->p->cold || measure_block(&j->m, true, &cold, round, &row->cold, &own));
    if (ok) {
        row->clock_mhz = j->m.clock_mhz;
        row->max_clock_mhz = j->m.max_clock_mhz;
        row->watt = j->m.watt;
        row->celsius = j->m.celsius;
        nvml_throttle_text(j->m.throttle, row->throttle, sizeof row->throttle);
        row->load = j->c->at[AXIS_DEVICE] == ON_CPU ? environment_load() : (double)NAN;
    } else {
        timings_free(&row->warm);
        timings_free(&row->cold);
        fail_row(r, j, ROW_FAILED, own.text);
    }
    j->spent += clock_now() - since;
    r->done++;
    return tick(r, e);
}

static bool finish(runner *r, job *j) {
    err own = {0};
    if (j->ready && j->c->at[AXIS_DEVICE] == ON_CUDA && !measure_phases(&j->m, row_of(r, j), &own))
        row_of(r, j)->n_phases = 0;
    drop(j);
    return true;
}

// All cases in memory, round after round, every second one backwards; or case by case.
static bool in_rounds(runner *r, err *e) {
    double each = r->p->seconds / (double)(r->n * (size_t)r->p->rounds);
    for (size_t i = 0; i < r->n; i++) {
        if (!prepare(r, &r->jobs[i], e) || !tick(r, e))
            return false;
    }
    for (int k = 0; k < r->p->rounds; k++)
        for (size_t i = 0; i < r->n; i++)
            if (!block(r, &r->jobs[k % 2 ? r->n - 1 - i : i], k, r->p->rounds, each, e))
                return false;
    for (size_t i = 0; i < r->n; i++)
        finish(r, &r->jobs[i]);
    return true;
}

static bool one_by_one(runner *r, err *e) {
    double each = r->p->seconds / (double)r->n;
    for (size_t i = 0; i < r->n; i++) {
        if (!prepare(r, &r->jobs[i], e))
            return false;
        for (int k = 0; k < r->p->rounds; k++)
            if (!block(r, &r->jobs[i], k, r->p->rounds, each / r->p->rounds, e))
                return false;
        finish(r, &r->jobs[i]);
    }
    return true;
}

static double resident(const runner *r, case_device where) {
    double sum = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->jobs[i].c->at[AXIS_DEVICE] == where)
            sum += r->jobs[i].c->op->bytes ? r->jobs[i].c->op->bytes(r->jobs[i].c) : 0;
    return sum;
}

static bool add_rows(runner *r, err *e) {
    for (size_t i = 0; i < r->n; i++) {
        const bench_case *c = &r->p->cases->v[i];
        bench_row *row = record_add(r->out, e);
        json_t *params = row ? case_params(c) : NULL;
        if (!params)
            return err_set(e, ERR_NOMEM, "out of memory: a result row");
        json_decref(row->params);
        row->params = params;
        case_name(c, row->name, sizeof row->name);
        snprintf(row->source, sizeof row->source, "deltop");
        r->jobs[i] = (job){.c = c, .row = r->out->n - 1};
    }
    return true;
}

bool bench_run(const bench_plan *p, record *out, err *e) {
    runner r = {.p = p, .out = out, .n = p->cases->n};
    int threads = omp_get_max_threads();
    bool ok = false;
    r.jobs = mem_zalloc(r.n ? r.n : 1, sizeof *r.jobs, "cases", e);
    if (!r.jobs || !add_rows(&r, e))
        goto done;
    r.total = (int64_t)r.n * p->rounds;
    ok = resident(&r, ON_CPU) > RESIDENT_CPU || resident(&r, ON_CUDA) > RESIDENT_GPU
             ? one_by_one(&r, e)
             : in_rounds(&r, e);
    json_t *where = ok ? environment_json(r.gpu, r.card) : NULL;
    if (ok && (!where || json_object_set_new(out->about, "environment", where) != 0))
        ok = err_set(e, ERR_NOMEM, "out of memory: the environment");
done:
    for (size_t i = 0; r.jobs && i < r.n; i++)
        if (r.jobs[i].c)
            drop(&r.jobs[i]);
    for (int i = 0; i < r.n_be; i++)
        backend_close(r.be[i]);
    nvml_close(r.card);
    free(r.jobs);
    omp_set_num_threads(threads);
    return ok;
}
