// The cases of the kernel panel, measured by the engine of `deltop bench`: the gate first, a case at a
// time. Only when nothing else is to be done, so never beside a forward pass; whatever else is asked for
// meanwhile comes first, and the case begins anew.
#include "cli/dash/work_parts.h"

#include "bench/model_cases.h"
#include "bench/op.h"
#include "bench/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_CPU = 512, TOKENS_GPU = 8192 };
#define SECONDS 0.6 // of samples, for each case

static bool list_cases(worker *w, case_list *out, err *e) {
    char where[96];
    model *m = model_open(w->now.model[w->now.kernels_slot], NULL, e);
    bool cuda = w->be->threads == 0;
    snprintf(where, sizeof where, "dtype=%s device=%s",
             axis_choice(AXIS_DTYPE, (int64_t)w->be->prec), cuda ? "cuda" : "cpu");
    if (!cuda)
        snprintf(where + strlen(where), sizeof where - strlen(where), " threads=%d",
                 w->be->threads);
    bool ok = m && case_list_model(out, m, cuda ? TOKENS_GPU : TOKENS_CPU, where, e);
    model_free(m);
    return ok;
}

// A run that is under way is shown after every round.
typedef struct watch {
    worker *w;
    const record *r;
    int row;
} watch;

static void publish(worker *w, kernels *k) {
    w->kernels = k;
    work_publish(w, &w->out.kernels, k);
}

static bool on_round(void *ctx, int64_t done, int64_t total) {
    watch *x = ctx;
    err none = {0};
    (void)total;
    if (work_quits(x->w) || atomic_load(&x->w->seq) != x->w->now.seq)
        return false;
    kernels *k = kernels_copy(x->w->kernels, &none);
    if (k && x->r->n) {
        kernels_take(&k->row[x->row], &x->r->rows[0]);
        k->row[x->row].round = (int)done;
    }
    if (k)
        publish(x->w, k);
    return true;
}

// One case. What stops it is a row of the panel, not the end of the dashboard.
static bool measure(worker *w, const bench_case *c, int row, err *e) {
    record r;
    record_init(&r);
    watch x = {w, &r, row};
    case_list one = {.v = (bench_case *)c, .n = 1};
    bench_plan p = {.cases = &one,
                    .seconds = SECONDS,
                    .precision = 0.005,
                    .rounds = KERNEL_ROUNDS,
                    .gpu = strncmp(w->o->device, "cuda:", 5) == 0 ? atoi(w->o->device + 5) : 0,
                    .progress = on_round,
                    .progress_ctx = &x};
    err why = {0};
    bool ok = bench_run(&p, &r, &why);
    kernels *k = kernels_copy(w->kernels, e);
    kernel_row *out = k ? &k->row[row] : NULL;
    if (out && ok) {
        kernels_take(out, &r.rows[0]);
        out->state = out->state == KERNEL_CHECKED ? KERNEL_DONE : out->state;
        k->clock_mhz = r.rows[0].clock_mhz;
    } else if (out && why.code == ERR_CANCELLED) { // begins anew
        out->state = KERNEL_WAITING;
        out->round = 0;
    } else if (out) {
        out->state = KERNEL_FAILED;
        snprintf(out->why, sizeof out->why, "%.190s", why.text);
    }
    if (out) {
        k->done += out->state != KERNEL_WAITING;
        publish(w, k);
    }
    record_free(&r);
    return k != NULL;
}

static void tell(worker *w) {
    int bad = 0;
    const kernel_row *worst = NULL;
    for (int i = 0; i < w->kernels->n; i++)
        if (w->kernels->row[i].state == KERNEL_WRONG) {
            worst = &w->kernels->row[i];
            bad++;
        }
    if (bad)
        work_say(w, 'E', "%d kernel%s wrong: %s: %s", bad, bad == 1 ? "" : "s", worst->name,
                 worst->why);
    else
        work_say(w, ' ', "kernels measured: %d cases, every gate passed", w->kernels->done);
}

static bool begin(worker *w, const case_list *cases, const char *why, err *e) {
    kernels *k = kernels_new(cases, e);
    if (!k)
        return false;
    k->slot = w->now.kernels_slot;
    k->reload = w->now.reload;
    k->asked = w->now.kernels;
    k->prec = w->be->prec;
    k->threads = w->be->threads;
    snprintf(k->device, sizeof k->device, "%s", w->be->device);
    snprintf(k->why, sizeof k->why, "%.190s", why);
    publish(w, k);
    return true;
}

job_result work_kernels(worker *w, err *e) {
    const request *r = &w->now;
    const kernels *have = w->kernels;
    if (!r->want_kernels && !r->kernels)
        return JOB_NONE;
    bool same = have && have->slot == r->kernels_slot && have->reload == r->reload &&
                (!r->kernels || have->asked == r->kernels);
    if (same && (!r->kernels || have->done == have->n))
        return JOB_NONE;
    if (!w->be)
        return work_device(w, e) ? JOB_DONE : JOB_FAILED;
    case_list cases = {0};
    err why = {0};
    bool ok = true;
    if (!list_cases(w, &cases, &why))
        cases.n = 0;
    if (!same)
        ok = begin(w, &cases, why.text, e);
    for (size_t i = 0; same && i < cases.n; i++)
        if (have->row[i].state == KERNEL_WAITING) {
            ok = measure(w, &cases.v[i], (int)i, e);
            if (ok && w->kernels->done == w->kernels->n)
                tell(w);
            break;
        }
    case_list_free(&cases);
    return ok ? JOB_DONE : JOB_FAILED;
}
