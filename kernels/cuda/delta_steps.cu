// The recurrence of core/steps.h on the tensor-core delta rule (kernels/cuda/delta.h), where device and
// shapes allow it.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/delta.h"

#include <stdlib.h>

// The copy engine wants 16-byte steps from row to row and head to head.
static bool engine_takes(mat m, int width) {
    return m.esize == sizeof(bf16) && width % 8 == 0 && (uintptr_t)m.p % 16 == 0 && m.ld % 8 == 0;
}

// Of the longest segment of any layout.
static int segment_chunks(const delta_plan *plan) {
    int most = 0;
    for (const delta_layout &l : plan->layout) {
        const int longest = plan->segments > 1 && l.rest > l.first ? l.rest : l.first;
        most = longest > most ? longest : most;
    }
    return most;
}

// What bench reports: which kernel, and why so many segments. Decays, which the host does not see, may spare much of the ends.
static void name_kernel(backend *be, const delta_call *c, const delta_plan *plan, int processors) {
    double us = plan->first_pass + plan->scan + plan->second_pass;
    char rows[48] = "";
    if (c->rows)
        snprintf(rows, sizeof rows, "%d rows, the longest: ", c->n_rows);
    if (plan->segments > 1) {
        delta_plan one = delta_plan_for(c, processors, 1);
        be->kernel = "cuda chunks on tensor cores, segments side by side";
        snprintf(be->kernel_why, sizeof be->kernel_why,
                 "%s%d segments of up to %d chunks: %s%.0f us expected (ends %.0f, scan %.0f, "
                 "outputs %.0f), in one pass %.0f",
                 rows, plan->segments, segment_chunks(plan), c->decay ? "up to " : "", us,
                 plan->first_pass, plan->scan, plan->second_pass, one.second_pass);
    } else {
        be->kernel = "cuda chunks on tensor cores, one pass";
        snprintf(be->kernel_why, sizeof be->kernel_why, "%s%d chunks in one pass: %.0f us expected",
                 rows, segment_chunks(plan), us);
    }
}

static void pass_done(void *be, const char *pass) {
    phase_done((backend *)be, pass);
}

// Boundaries lie at chunks' starts: chunks may be shorter for that, but not by half. Shorter intervals are chunks.
static bool takes_boundaries(const delta_call *c) {
    const int tokens = delta_tokens(c);
    return c->every <= 0 || tokens == c->every || 2 * tokens > CHUNK / c->n_h;
}

bool cuda_delta_recurrence(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    const head_shape *p = &s->s;
    if (be->recurrence == RECURRENCE_STEP || be->recurrence == RECURRENCE_PORTABLE ||
        p->erase != ERASE_KEY || p->decay == DECAY_CHANNEL || p->K > WIDTH || p->n_h > CHUNK / 4 ||
        s->T * p->n_h < CHUNK || !engine_takes(s->q, p->K) || !engine_takes(s->k, p->K) ||
        !engine_takes(s->v, p->V) || o.esize != sizeof(bf16) || o.ld % 2 != 0 ||
        (uintptr_t)o.p % 4 != 0 || s->T * p->n_h > INT32_MAX || !of(be)->hopper)
        return false;
    delta_call c = {};
    c.q = (const bf16 *)s->q.p;
    c.k = (const bf16 *)s->k.p;
    c.v = (const bf16 *)s->v.p;
    c.beta = (const float *)s->beta.p;
    c.decay = p->decay == DECAY_HEAD ? (const float *)s->decay.p : NULL;
    c.ldq = s->q.ld;
    c.ldk = s->k.ld;
    c.ldv = s->v.ld;
    c.ldbeta = s->beta.ld;
    c.lddecay = s->decay.ld;
    c.ldo = o.ld;
    c.o = (bf16 *)o.p;
    c.H = p->H;
    c.Hk = p->Hk;
    c.K = p->K;
    c.V = p->V;
    c.n_h = p->n_h;
    c.T = s->T;
    c.n_rows = 1;
    c.scale = (float)p->scale;
    c.every = r ? r->every : 0;
    if (!takes_boundaries(&c))
        return false;
    if (c.every > 0) {
        c.states = (float *)r->states.p;
        c.ldstates = r->states.ld;
    }
    delta_row *rows = NULL;
    if (r && r->starts) {
        rows = (delta_row *)mem_alloc((size_t)r->n, sizeof *rows, "rows of tokens", &be->fail);
        if (!rows)
            return true; // the failure is kept
        c.n_rows = delta_rows_of(&c, r->starts, r->n, rows);
        c.rows = rows;
    }
    const int processors = of(be)->processors;
    delta_plan plan = delta_plan_for(&c, processors, 0);
    size_t floats = delta_scratch(&c, &plan);
    float *scratch = floats ? (float *)device_scratch(be, floats * sizeof(float)) : NULL;
    if (!floats || scratch) { // else the failure is kept
        name_kernel(be, &c, &plan, processors);
        c.done = pass_done;
        c.done_ctx = be;
        cuda_ok(be, delta_run(c, &plan, (float *)state.p, state.ld, scratch, of(be)->stream),
                "recurrence on tensor cores");
    }
    free(rows);
    return true;
}
