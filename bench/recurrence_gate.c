#include "bench/recurrence_gate.h"

#include "core/mem.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADS = 6, COLUMNS = 16 };
// Token-heads times K x columns that the CPU does in about a second.
#define WORK 4e8

typedef struct sample {
    int head[MOST_HEADS], n;
    int first, columns; // of each head's V
} sample;

static sample choose(const head_shape *s, int64_t T) {
    sample x = {.columns = s->V};
    double per = (double)T * s->n_h * s->K;
    if (per * s->V * s->H > WORK && x.columns > COLUMNS) {
        x.columns = COLUMNS;
        x.first = (s->V - COLUMNS) / 2;
    }
    int most = (int)fmin(MOST_HEADS, fmax(1, WORK / (per * x.columns)));
    const int wanted[MOST_HEADS] = {s->H > 3 ? 3 : 0, 0, s->H - 1, s->H / 2, 1, s->H / 3};
    for (int i = 0; i < MOST_HEADS && x.n < most; i++) {
        bool new = wanted[i] < s->H;
        for (int k = 0; k < x.n; k++)
            new = new &&x.head[k] != wanted[i];
        if (new)
            x.head[x.n++] = wanted[i];
    }
    return x;
}

// Columns first.. of FROM on the device, as columns of TO on the host backend (float64).
static void bring(backend *be, mat from, int64_t first, backend *host, mat to, double *v) {
    bench_bring(be, mat_cols(from, first, to.cols), host, to, v);
}

typedef struct reference {
    backend *be; // CPU, float64
    steps s;
    step_rows rows;
    mat state, o;
} reference;

static mat part(mat m, int64_t i, int64_t width) {
    return mat_cols(m, i * width, width);
}

static bool make(reference *f, const recurrence_set *r, const sample *x, double *v, err *e) {
    const head_shape *s = &r->s.s;
    const backend_ops *op = f->be->op;
    int64_t T = r->s.T, M = T * s->n_h, n = x->n, K = s->K;
    f->s = (steps){.s = *s, .T = T};
    f->s.s.H = f->s.s.Hk = x->n;
    f->s.s.V = x->columns;
    f->s.q = op->alloc(f->be, T, n * K);
    f->s.k = op->alloc(f->be, M, n * K);
    f->s.v = op->alloc(f->be, M, n * x->columns);
    f->s.beta = mat_none(r->s.beta) ? MAT_NONE : op->alloc(f->be, M, n);
    int64_t wide = s->decay == DECAY_CHANNEL ? K : 1;
    f->s.decay = mat_none(r->s.decay) ? MAT_NONE : op->alloc(f->be, T, n * wide);
    f->s.a = mat_none(r->s.a) ? MAT_NONE : op->alloc(f->be, T, n * K);
    f->s.b = mat_none(r->s.b) ? MAT_NONE : op->alloc(f->be, T, n * K);
    f->rows = r->rows;
    if (r->rows.every)
        f->rows.states = op->alloc(f->be, rows_states(&r->rows, T) * n * K, x->columns);
    f->state = op->alloc(f->be, recurrence_docs(r) * n * K, x->columns);
    f->o = op->alloc(f->be, T, n * x->columns);
    if (!backend_check(f->be, e))
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t h = x->head[i], hk = h / (s->H / s->Hk);
        bring(r->be, r->s.q, hk * K, f->be, part(f->s.q, i, K), v);
        bring(r->be, r->s.k, hk * K, f->be, part(f->s.k, i, K), v);
        bring(r->be, r->s.v, h * s->V + x->first, f->be, part(f->s.v, i, x->columns), v);
        if (!mat_none(f->s.beta))
            bring(r->be, r->s.beta, h, f->be, part(f->s.beta, i, 1), v);
        if (!mat_none(f->s.decay))
            bring(r->be, r->s.decay, h * wide, f->be, part(f->s.decay, i, wide), v);
        if (!mat_none(f->s.a)) {
            bring(r->be, r->s.a, h * K, f->be, part(f->s.a, i, K), v);
            bring(r->be, r->s.b, hk * K, f->be, part(f->s.b, i, K), v);
        }
    }
    return backend_check(r->be, e) && backend_check(f->be, e);
}

// States of the sampled heads, of documents or of boundaries.
static void compare_states(const reference *f, const recurrence_set *r, const sample *x, mat ours,
                           mat theirs, double *v, double *w, double *off, double *all) {
    const head_shape *s = &r->s.s;
    for (int64_t d = 0; d < theirs.rows / (x->n * s->K); d++)
        for (int64_t i = 0; i < x->n; i++) {
            mat S = mat_rows(ours, (d * s->H + x->head[i]) * s->K, s->K);
            r->be->op->read(r->be, mat_cols(S, x->first, x->columns), v);
            f->be->op->read(f->be, mat_rows(theirs, (d * x->n + i) * s->K, s->K), w);
            bench_add_squares(v, w, (int64_t)s->K * x->columns, off, all);
        }
}

static void compare(const reference *f, const recurrence_set *r, const sample *x, double *v,
                    double *w, double *error, double *state_error) {
    const head_shape *s = &r->s.s;
    double off = 0, all = 0, state_off = 0, state_all = 0;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t h = x->head[i];
        r->be->op->read(r->be, mat_cols(r->o, h * s->V + x->first, x->columns), v);
        f->be->op->read(f->be, part(f->o, i, x->columns), w);
        bench_add_squares(v, w, r->s.T * x->columns, &off, &all);
    }
    compare_states(f, r, x, r->state, f->state, v, w, &state_off, &state_all);
    compare_states(f, r, x, r->rows.states, f->rows.states, v, w, &state_off, &state_all);
    *error = bench_relative(off, all);
    *state_error = bench_relative(state_off, state_all);
}

static void rows_said(const recurrence_set *r, char *how, size_t size) {
    size_t at = strlen(how);
    if (r->rows.starts)
        at += (size_t)snprintf(how + at, size - at, ", %lld documents", (long long)r->rows.n);
    if (r->rows.every && at < size)
        snprintf(how + at, size - at, ", %lld boundary states",
                 (long long)rows_states(&r->rows, r->s.T));
}

bool recurrence_gate(recurrence_set *r, double *error, double *state_error, char *how, size_t size,
                     err *e) {
    const head_shape *s = &r->s.s;
    sample x = choose(s, r->s.T);
    int64_t widest = s->K > x.columns ? s->K : x.columns, rows = r->s.T * s->n_h;
    size_t room = (size_t)(rows > s->K ? rows : s->K) * (size_t)widest;
    int threads = omp_get_max_threads();
    bool ok = false;
    double *v = mem_alloc(room, sizeof *v, "a gate", e),
           *w = mem_alloc(room, sizeof *w, "a gate", e);
    // All cores for the reference; the thread count of the measured backend comes back below.
    reference f = {.be = cpu_open(PRECISION_F64, 0, e)};
    if (!v || !w || !f.be)
        goto done;
    r->be->op->zero(r->be, r->state);
    recurrence_call(r, r->s.T, s->Hk);
    r->be->op->wait(r->be);
    if (!backend_check(r->be, e) || !make(&f, r, &x, v, e))
        goto done;
    f.be->recurrence = RECURRENCE_STEP;
    rows_recurrence(f.be, &f.s, &f.rows, f.state, f.o);
    if (!backend_check(f.be, e))
        goto done;
    compare(&f, r, &x, v, w, error, state_error);
    ok = backend_check(r->be, e);
    snprintf(how, size,
             "%d of %d heads, %d of %d columns, all %lld tokens, against the float64 step form",
             x.n, s->H, x.columns, s->V, (long long)r->s.T);
    rows_said(r, how, size);
done:
    if (f.be) {
        mat all[] = {f.s.q, f.s.k, f.s.v,   f.s.beta, f.s.decay,
                     f.s.a, f.s.b, f.state, f.o,      f.rows.states};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            f.be->op->free(f.be, all[i]);
    }
    backend_close(f.be);
    omp_set_num_threads(threads);
    free(v);
    free(w);
    return ok;
}
