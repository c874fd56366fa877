// A block of a layer: windows, single tokens and exponents that end in it (analyses/spectrum.h).
#include "analyses/spectrum_pass.h"
#include "analyses/spectrum_tokens.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// One independent piece of work, safe to run beside any other.
typedef struct job {
    enum { JOB_WINDOW, JOB_TOKENS, JOB_LYAPUNOV } kind;
    int head;
    int window; // JOB_WINDOW
    int64_t sample, last;
    int64_t first, n; // JOB_LYAPUNOV: tokens on the tape
    bool done;
} job;

static transitions last_tokens(transitions x, int64_t n) {
    int64_t skip = x.T - n, g = x.decay == TDECAY_CHANNEL ? x.K : 1;
    x.T = n;
    x.token0 += skip;
    x.k = x.k ? x.k + skip * x.n_h * x.K : NULL;
    x.beta = x.beta ? x.beta + skip * x.n_h : NULL;
    x.a = x.a ? x.a + skip * x.K : NULL;
    x.b = x.b ? x.b + skip * x.K : NULL;
    x.g = x.g ? x.g + skip * g : NULL;
    return x;
}

// A head's tokens on the tape, of which the last T are the row's from t0 on.
static transitions head_on_tape(const tape *tape, int head, int64_t t0, int64_t T) {
    transitions x = tape_view(tape, head);
    x.token0 = t0 + T - tape_tokens(tape);
    return x;
}

static bool add_ledger(spectrum_pass *p, spectrum_head *h, const transitions *x, int64_t t0,
                       backend *be, err *e) {
    double *all = mem_alloc((size_t)x->T, sizeof *all, "a ledger", e);
    if (!all)
        return false;
    bool ok = true;
    be->op->ledger(be, x, all);
    for (int64_t t = 0; t < x->T; t++) {
        // Windows and single values are samples; this sees every token. -inf is a singular one.
        if (isnan(all[t]) || all[t] == INFINITY) {
            ok = err_set(e, ERR_NUMERIC,
                         "transition of token %lld: its determinant is not a finite number",
                         (long long)(t0 + t));
            break;
        }
        int64_t at = (t0 + t) * p->r->points / p->r->T;
        if (h->ledger)
            h->ledger[p->row * p->r->T + t0 + t] = all[t];
        if (isfinite(all[t])) {
            h->rate[at] += all[t];
            h->rate_n[at]++;
        } else {
            h->singular++;
        }
    }
    free(all);
    return ok;
}

static bool run_window(spectrum_pass *p, spectrum_layer *l, const job *j, const transitions *x,
                       backend *be, err *e) {
    spectrum_head *h = &l->head[j->head];
    int64_t at = j->window * p->r->samples + j->sample, W = p->r->windows[j->window];
    window_facts *f = &h->facts[at], got;
    int64_t K = l->shape.K;
    if (!be->op->window_spectrum(be, x, j->last, W, h->eig + at * K,
                                 h->cond ? h->cond + at * K : NULL, &got, e))
        return err_prefix(e, "window of %lld tokens", (long long)W);
    *f = got;
    return true;
}

static bool run_job(spectrum_pass *p, spectrum_layer *l, const job *j, const tape *tape, int64_t t0,
                    int64_t T, backend *be, err *e) {
    if (j->done)
        return true;
    spectrum_head *h = &l->head[j->head];
    transitions x = head_on_tape(tape, j->head, t0, T);
    switch (j->kind) {
    case JOB_WINDOW:
        return run_window(p, l, j, &x, be, e);
    case JOB_LYAPUNOV:
        return be->op->lyapunov(be, &x, j->first, j->n, h->lyapunov, e);
    default:
        x = last_tokens(x, T);
        return add_ledger(p, h, &x, t0, be, e) &&
               spectrum_tokens_add(&h->tokens, &x, t0, p->r->T, be, e);
    }
}

// What a block of T tokens from t0 on makes possible, long windows first. The block's first token
// is number `start` on the tape. Returns the number of jobs; jobs NULL: only counts.
static int64_t plan(const spectrum_pass *p, const spectrum_layer *l, int64_t start, int64_t t0,
                    int64_t T, job *jobs) {
    int64_t n = 0;
    const spectrum_result *r = p->r;
    if (r->lyapunov_tokens && p->row == r->rows - 1 && t0 + T == r->T) {
        int64_t held = start + T, most = r->lyapunov_tokens < held ? r->lyapunov_tokens : held;
        for (int h = 0; h < l->n_heads; h++, n++)
            if (jobs)
                jobs[n] = (job){.kind = JOB_LYAPUNOV, .head = h, .first = held - most, .n = most};
    }
    for (int w = r->n_windows - 1; w >= 0; w--)
        for (int64_t i = 0; i < r->samples; i++) {
            int64_t last = start + r->ends[i] - t0;
            if (r->end_row[i] != p->row || r->ends[i] < t0 || r->ends[i] >= t0 + T ||
                last + 1 < r->windows[w])
                continue;
            for (int h = 0; h < l->n_heads; h++, n++)
                if (jobs)
                    jobs[n] = (job){
                        .kind = JOB_WINDOW, .head = h, .window = w, .sample = i, .last = last};
        }
    for (int h = 0; h < l->n_heads; h++, n++)
        if (jobs)
            jobs[n] = (job){.kind = JOB_TOKENS, .head = h};
    return n;
}

// Condition numbers are the host's.
static bool for_device(const backend *be, const spectrum_layer *l, const job *j) {
    if (j->kind == JOB_WINDOW)
        return be->op->window_spectra && !l->head[j->head].cond;
    return j->kind == JOB_LYAPUNOV && be->op->lyapunov_spectra;
}

// Windows and exponents that the device does many at a time; it leaves some undone.
static bool run_ahead(spectrum_pass *p, spectrum_layer *l, job *jobs, int64_t n, const tape *tape,
                      int64_t t0, int64_t T, backend *be, err *e) {
    const spectrum_result *r = p->r;
    if (!be->op->window_spectra && !be->op->lyapunov_spectra)
        return true;
    size_t N = (size_t)n, H = (size_t)l->n_heads;
    int64_t n_w = 0, n_l = 0, done_w = 0, done_l = 0;
    transitions *x = mem_alloc(H, sizeof *x, "heads", e);
    window_job *w = mem_alloc(N, sizeof *w, "a list of windows", e);
    lyapunov_job *y = mem_alloc(N, sizeof *y, "a list of exponents", e);
    window_facts *facts = mem_alloc(N, sizeof *facts, "facts of windows", e);
    bool ok = x && w && y && facts;
    for (size_t h = 0; ok && h < H; h++)
        x[h] = head_on_tape(tape, (int)h, t0, T);
    for (int64_t i = 0; ok && i < n; i++) {
        const job *j = &jobs[i];
        spectrum_head *h = &l->head[j->head];
        int64_t at = j->window * r->samples + j->sample;
        if (!for_device(be, l, j))
            continue;
        if (j->kind == JOB_WINDOW) {
            w[n_w] = (window_job){.x = &x[j->head],
                                  .last = j->last,
                                  .W = r->windows[j->window],
                                  .eig = h->eig + at * l->shape.K,
                                  .facts = &facts[n_w]};
            n_w++;
        } else {
            y[n_l++] = (lyapunov_job){
                .x = &x[j->head], .first = j->first, .n = j->n, .exponents = h->lyapunov};
        }
    }
    ok = ok && (n_w == 0 || be->op->window_spectra(be, w, n_w, e)) &&
         (n_l == 0 || be->op->lyapunov_spectra(be, y, n_l, e));
    for (int64_t i = 0; ok && i < n; i++) {
        job *j = &jobs[i];
        if (!for_device(be, l, j))
            continue;
        if (j->kind == JOB_WINDOW) {
            if ((j->done = w[done_w].done))
                l->head[j->head].facts[j->window * r->samples + j->sample] = facts[done_w];
            done_w++;
        } else {
            j->done = y[done_l++].done;
        }
    }
    free(x);
    free(w);
    free(y);
    free(facts);
    return ok;
}

// The last block begins: every tape has the same past, so all its pieces can be counted.
static void begin_pieces(spectrum_pass *p, int64_t start, int64_t t0, int64_t T) {
    for (int i = 0; i < p->r->n_layers; i++)
        p->pieces += plan(p, &p->r->layer[i], start, t0, T, NULL);
    if (p->o.phase)
        p->o.phase(p->progress_ctx, "pieces");
}

// Windows of a large model take minutes a block: the bar moves, and the user may stop, between
// them. done of n jobs of the layer at `place` in the block of T tokens from t0 on.
static bool go_on(spectrum_pass *p, int place, int64_t done, int64_t n, int64_t t0, int64_t T) {
    if (!p->progress)
        return true;
    if (p->pieces)
        return p->progress(p->progress_ctx, ++p->piece, p->pieces);
    double part = (place + (double)done / (double)n) / p->r->n_layers;
    return p->progress(p->progress_ctx, p->row * p->r->T + t0 + (int64_t)((double)T * part),
                       p->r->rows * p->r->T);
}

bool spectrum_on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                       err *e) {
    (void)state;
    spectrum_pass *p = ctx;
    if (p->place[layer] < 0)
        return true;
    spectrum_layer *l = &p->r->layer[p->place[layer]];
    tape *tape = p->tape[p->place[layer]];
    // No product reaches over a place where the state was emptied.
    if (p->f->pos == 0)
        tape_clear(tape);
    if (!tape_append(tape, be, s, e))
        return false;
    int64_t start = tape_tokens(tape) - s->T, n = plan(p, l, start, t0, s->T, NULL);
    job *jobs = mem_alloc((size_t)n, sizeof *jobs, "a list of windows", e);
    if (!jobs)
        return false;
    plan(p, l, start, t0, s->T, jobs);
    if (p->place[layer] == 0 && p->row == p->r->rows - 1 && t0 + s->T == p->r->T)
        begin_pieces(p, start, t0, s->T);
    bool ok = run_ahead(p, l, jobs, n, tape, t0, s->T, be, e);
    int64_t done = 0, failed = ok ? n : 0; // the first job that failed
#pragma omp parallel for schedule(dynamic) if (be->threads > 1)
    for (int64_t i = 0; i < n; i++) {
        int64_t before;
        err mine = {0};
#pragma omp atomic read
        before = failed;
        bool go =
            i < before; // so that of several the first one is told, whatever thread was faster
        if (go && !run_job(p, l, &jobs[i], tape, t0, s->T, be, &mine)) {
            err_prefix(&mine, "head %d", l->head[jobs[i].head].head);
            go = false;
        } else if (go) {
#pragma omp critical(spectrum_progress)
            go = go_on(p, p->place[layer], ++done, n, t0, s->T);
            if (!go)
                err_set(&mine, ERR_CANCELLED, "stopped at token %lld", (long long)t0);
        }
        if (!go && mine.code != ERR_NONE) {
#pragma omp critical(spectrum_error)
            if (i < failed) {
                if (e)
                    *e = (err){0};
                err_set(e, mine.code, "%s", mine.text);
#pragma omp atomic write
                failed = i;
            }
        }
    }
    free(jobs);
    return ok && failed == n;
}
