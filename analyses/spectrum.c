#include "analyses/spectrum.h"

#include "analyses/spectrum_tokens.h"
#include "analyses/tape.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double spectrum_strength_limit(precision p) {
    // |k|^2 of a key rounded to p carries about two units in the last place.
    return 2 * (1 + (p == PRECISION_F64 ? 1e-12 : p == PRECISION_BF16 ? 2e-2 : 1e-5));
}

double spectrum_norm_limit(precision p) {
    return 1 + (p == PRECISION_F64 ? 1e-6 : p == PRECISION_BF16 ? 1e-1 : 1e-3);
}

bool spectrum_window_tells(const head_shape *s, int64_t W) {
    bool ungated = s->decay == DECAY_NONE && s->erase != ERASE_NONE;
    return !ungated || W >= s->K || W * s->n_h >= s->K;
}

const char *spectrum_kind_note(const head_shape *s) {
    bool channel = s->decay == DECAY_CHANNEL;
    switch (s->erase) {
    case ERASE_NONE:
        return s->decay == DECAY_NONE
                   ? "no decay and nothing erased: every product is the identity"
                   : "diagonal transitions: eigenvalues are the exponentials of the summed log "
                     "decays, exact over any window";
    case ERASE_PAIR:
        return channel ? "erases along one vector what it read along another: single tokens have "
                         "real eigenvalues, but products are no contraction (G15) and a norm "
                         "above 1 is no fault"
                       : "erases along one vector what it read along another: products are no "
                         "contraction (G15) and a norm above 1 is no fault";
    case ERASE_KEY:
        break;
    }
    return channel ? "one decay per channel: the eigenvalues of single tokens are real (similar to "
                     "a symmetric matrix); every some-th token was solved"
                   : NULL;
}

// One pass -----------------------------------------------------------------------------------------

struct spectrum_pass {
    spectrum_options o;
    spectrum_result *r;
    tape **tape; // [n_tapes]: one a layer of the result
    int n_tapes;
    int *place;   // [layers of the model]: index into the result, -1
    const fwd *f; // borrowed: says where states were emptied
    int64_t row;
    // Progress over all rows; the last block, whose windows and exponents take far longer than its
    // tokens, counts its pieces instead.
    progress_fn progress;
    void *progress_ctx;
    int64_t piece, pieces; // of the last block; pieces 0: not there yet
};

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
    x.k = x.k ? x.k + skip * x.n_h * x.K : NULL;
    x.beta = x.beta ? x.beta + skip * x.n_h : NULL;
    x.a = x.a ? x.a + skip * x.K : NULL;
    x.b = x.b ? x.b + skip * x.K : NULL;
    x.g = x.g ? x.g + skip * g : NULL;
    return x;
}

static bool add_ledger(spectrum_pass *p, spectrum_head *h, const transitions *x, int64_t t0,
                       backend *be, err *e) {
    double *all = mem_alloc((size_t)x->T, sizeof *all, "a ledger", e);
    if (!all)
        return false;
    be->op->ledger(be, x, all);
    for (int64_t t = 0; t < x->T; t++) {
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
    return true;
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
    transitions x = tape_view(tape, j->head);
    switch (j->kind) {
    case JOB_WINDOW:
        return run_window(p, l, j, &x, be, e);
    case JOB_LYAPUNOV:
        return be->op->lyapunov(be, &x, j->first, j->n, h->lyapunov, e);
    default:
        x = last_tokens(x, T);
        return spectrum_tokens_add(&h->tokens, &x, t0, p->r->T, be, e) &&
               add_ledger(p, h, &x, t0, be, e);
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
                      backend *be, err *e) {
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
        x[h] = tape_view(tape, (int)h);
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

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
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
    bool ok = run_ahead(p, l, jobs, n, tape, be, e);
    int64_t done = 0;
#pragma omp parallel for schedule(dynamic) if (be->threads > 1)
    for (int64_t i = 0; i < n; i++) {
        bool go;
        err mine = {0};
#pragma omp atomic read
        go = ok;
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
            err_set(e, mine.code, "%s", mine.text);
#pragma omp atomic write
            ok = false;
        }
    }
    free(jobs);
    return ok;
}

static bool on_progress(void *ctx, int64_t done, int64_t total) {
    spectrum_pass *p = ctx;
    return !p->progress || p->pieces ||
           p->progress(p->progress_ctx, p->row * total + done, p->r->rows * total);
}

// Setting up ---------------------------------------------------------------------------------------

static bool listed(const int64_t *v, size_t n, int64_t x) {
    bool found = n == 0;
    for (size_t i = 0; i < n; i++)
        found |= v[i] == x;
    return found;
}

static bool init_head(spectrum_head *h, const spectrum_result *r, const head_shape *s,
                      const spectrum_options *o, err *e) {
    size_t products = (size_t)r->n_windows * (size_t)r->samples, K = (size_t)s->K;
    h->eig = mem_alloc(products * K, sizeof *h->eig, "eigenvalues", e);
    h->facts = mem_alloc(products, sizeof *h->facts, "facts of windows", e);
    h->rate = mem_zalloc((size_t)r->points, sizeof *h->rate, "a ledger", e);
    h->rate_n = mem_zalloc((size_t)r->points, sizeof *h->rate_n, "a ledger", e);
    if (!h->eig || !h->facts || !h->rate || !h->rate_n)
        return false;
    if (o->cond && !(h->cond = mem_alloc(products * K, sizeof *h->cond, "condition numbers", e)))
        return false;
    for (size_t i = 0; i < products * K; i++) {
        h->eig[i] = CMPLX(NAN, NAN);
        if (h->cond)
            h->cond[i] = NAN;
    }
    for (size_t i = 0; i < products; i++)
        h->facts[i] =
            (window_facts){.norm2 = NAN, .radius = NAN, .logabsdet = NAN, .asymmetry = NAN};
    if (r->lyapunov_tokens) {
        if (!(h->lyapunov = mem_alloc(K, sizeof *h->lyapunov, "exponents", e)))
            return false;
        for (size_t i = 0; i < K; i++)
            h->lyapunov[i] = NAN;
    }
    if (o->keep_ledger) {
        size_t n = (size_t)r->rows * (size_t)r->T;
        if (!(h->ledger = mem_alloc(n, sizeof *h->ledger, "a ledger", e)))
            return false;
    }
    return spectrum_tokens_init(&h->tokens, 1024, e);
}

static bool init_layer(spectrum_layer *l, int index, const head_shape *s, const spectrum_result *r,
                       const spectrum_options *o, err *e) {
    *l = (spectrum_layer){.layer = index, .shape = *s};
    for (size_t i = 0; i < o->n_heads; i++)
        if (o->heads[i] >= s->H)
            return err_set(e, ERR_USAGE,
                           "option --heads: there is no head %lld in layer %d (0 to %d)",
                           (long long)o->heads[i], index, s->H - 1);
    l->head = mem_zalloc((size_t)s->H, sizeof *l->head, "heads", e);
    if (!l->head)
        return false;
    for (int h = 0; h < s->H; h++)
        if (listed(o->heads, o->n_heads, h)) {
            spectrum_head *x = &l->head[l->n_heads++];
            x->head = h;
            if (!init_head(x, r, s, o, e))
                return false;
        }
    return true;
}

// Every eigenvalue is kept: refused before anything is allocated, not by the kernel's killer.
static bool check_size(const model *m, const spectrum_options *o, int64_t rows, int64_t T, err *e) {
    double places = (double)(o->ends ? o->n_ends : o->samples < T ? o->samples : T) * (double)rows;
    double each = 0;
    for (int i = 0; i < m->info.n_layers; i++) {
        const module *x = model_mixer(m, i);
        if (x && listed(o->layers, o->n_layers, i))
            each += (double)x->heads.K * (o->n_heads ? (double)o->n_heads : x->heads.H);
    }
    double all = places * o->n_windows * each;
    if (all <= SPECTRUM_MOST)
        return true;
    return err_set(e, ERR_USAGE,
                   "%d windows (--windows) at %.0f places (--samples, --ends, --rows) are %.0f "
                   "eigenvalues, at most %.0f are kept; choose fewer, or --layers and --heads",
                   o->n_windows, places, all, SPECTRUM_MOST);
}

// Positions of the windows' last tokens: given, or N of them, evenly, the last token among them.
static bool init_ends(spectrum_result *r, const spectrum_options *o, err *e) {
    int64_t per_row = o->ends ? o->n_ends : o->samples < r->T ? o->samples : r->T;
    r->samples = per_row * r->rows;
    r->ends = mem_alloc((size_t)r->samples, sizeof *r->ends, "positions", e);
    r->end_row = mem_alloc((size_t)r->samples, sizeof *r->end_row, "positions", e);
    if (!r->ends || !r->end_row)
        return false;
    for (int64_t i = 0; i < r->samples; i++) {
        int64_t k = i % per_row;
        r->ends[i] = o->ends ? o->ends[k] : (k + 1) * r->T / per_row - 1;
        r->end_row[i] = i / per_row;
        if (r->ends[i] < 0 || r->ends[i] >= r->T)
            return err_set(
                e, ERR_USAGE,
                "option --ends: a window cannot end at token %lld of a row of %lld (0 to %lld)",
                (long long)r->ends[i], (long long)r->T, (long long)r->T - 1);
    }
    return true;
}

static bool init(spectrum_result *r, spectrum_pass *p, const model *m, int64_t block,
                 const spectrum_options *o, err *e) {
    size_t L = (size_t)m->info.n_layers;
    for (size_t i = 0; i < o->n_layers; i++)
        if (o->layers[i] >= m->info.n_layers)
            return err_set(e, ERR_USAGE, "option --layers: there is no layer %lld (0 to %d)",
                           (long long)o->layers[i], m->info.n_layers - 1);
    if (!check_size(m, o, r->rows, r->T, e))
        return false;
    r->windows = mem_alloc((size_t)o->n_windows, sizeof *r->windows, "windows", e);
    r->layer = mem_zalloc(L, sizeof *r->layer, "layers", e);
    p->tape = mem_zalloc(L, sizeof *p->tape, "layers", e);
    p->place = mem_alloc(L, sizeof *p->place, "layers", e);
    if (!r->windows || !r->layer || !p->tape || !p->place || !init_ends(r, o, e))
        return false;
    memcpy(r->windows, o->windows, (size_t)o->n_windows * sizeof *r->windows);
    block = block < r->T ? block : r->T;
    int64_t keep = o->windows[o->n_windows - 1];
    keep = keep > r->lyapunov_tokens ? keep : r->lyapunov_tokens;
    keep = keep < r->T ? keep : r->T;
    for (int i = 0; i < m->info.n_layers; i++) {
        const module *x = model_mixer(m, i);
        p->place[i] = -1;
        if (!x || !listed(o->layers, o->n_layers, i))
            continue;
        p->place[i] = r->n_layers++;
        spectrum_layer *l = &r->layer[p->place[i]];
        if (!init_layer(l, i, &x->heads, r, o, e))
            return false;
        r->K = x->heads.K > r->K ? x->heads.K : r->K;
        int *heads = mem_alloc((size_t)l->n_heads, sizeof *heads, "heads", e);
        for (int h = 0; heads && h < l->n_heads; h++)
            heads[h] = l->head[h].head;
        p->n_tapes = r->n_layers;
        if (heads)
            p->tape[p->place[i]] = tape_new(&l->shape, heads, l->n_heads, keep, block, e);
        free(heads);
        if (!p->tape[p->place[i]])
            return false;
    }
    if (r->n_layers == 0)
        return err_set(e, o->n_layers ? ERR_USAGE : ERR_UNSUPPORTED,
                       "%s a matrix as its recurrent state: spectra of transitions do not apply",
                       o->n_layers ? "none of the chosen layers has"
                                   : "no layer of this model has");
    return true;
}

// A delta rule is a contraction (G08): what lies above is a wrong model or a wrong program.
static void count_over_norm(spectrum_result *r) {
    double limit = spectrum_norm_limit(r->prec);
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; r->layer[i].shape.erase == ERASE_KEY && h < r->layer[i].n_heads; h++) {
            spectrum_head *x = &r->layer[i].head[h];
            for (int64_t k = 0; k < r->n_windows * r->samples; k++)
                x->over_norm += x->facts[k].log_scale >= 0 && x->facts[k].norm2 > limit;
        }
}

spectrum_pass *spectrum_pass_new(const model *m, int64_t rows, int64_t T, int64_t block,
                                 const spectrum_options *o, progress_fn progress,
                                 void *progress_ctx, spectrum_result *out, err *e) {
    *out = (spectrum_result){.T = T,
                             .rows = rows,
                             .n_windows = o->n_windows,
                             .points = (int)(T < SPECTRUM_POINTS ? T : SPECTRUM_POINTS),
                             .lyapunov_tokens = o->lyapunov < T ? o->lyapunov : T,
                             .prec = m->be->prec};
    spectrum_pass *p = mem_zalloc(1, sizeof *p, "spectra", e);
    if (p) {
        *p = (spectrum_pass){.o = *o, .r = out, .progress = progress, .progress_ctx = progress_ctx};
        if (init(out, p, m, block, o, e))
            return p;
    }
    spectrum_pass_free(p);
    spectrum_result_free(out);
    return NULL;
}

void spectrum_pass_free(spectrum_pass *p) {
    if (!p)
        return;
    for (int i = 0; p->tape && i < p->n_tapes; i++)
        tape_free(p->tape[i]);
    free(p->tape);
    free(p->place);
    free(p);
}

void spectrum_begin_row(spectrum_pass *p, int64_t row, const fwd *f) {
    p->row = row;
    p->f = f;
}

probe spectrum_probe(spectrum_pass *p) {
    return (probe){.ctx = p, .on_steps = on_steps};
}

void spectrum_pass_end(spectrum_pass *p) {
    count_over_norm(p->r);
}

bool spectrum_run(const model *m, const int32_t *ids, int64_t rows, int64_t T, int64_t block,
                  const row_options *row, const spectrum_options *o, progress_fn progress,
                  void *progress_ctx, spectrum_result *out, err *e) {
    spectrum_pass *p = spectrum_pass_new(m, rows, T, block, o, progress, progress_ctx, out, e);
    fwd *f = p ? fwd_new(m, block, T, e) : NULL;
    bool ok = f != NULL;
    if (ok && o->phase)
        o->phase(progress_ctx, "tokens");
    probe look = {0};
    const probe *probes[] = {&look};
    if (ok)
        look = spectrum_probe(p);
    for (int64_t i = 0; ok && i < rows; i++) {
        spectrum_begin_row(p, i, f);
        ok = fwd_row(f, ids + i * T, T, row ? row + i : NULL, probes, 1, on_progress, p, e);
    }
    if (ok)
        spectrum_pass_end(p);
    else if (p)
        spectrum_result_free(out);
    spectrum_pass_free(p);
    fwd_free(f);
    return ok;
}

void spectrum_result_free(spectrum_result *r) {
    for (int i = 0; r->layer && i < r->n_layers; i++) {
        spectrum_layer *l = &r->layer[i];
        for (int h = 0; h < l->n_heads; h++) {
            spectrum_head *x = &l->head[h];
            free(x->eig);
            free(x->cond);
            free(x->facts);
            free(x->lyapunov);
            free(x->ledger);
            free(x->rate);
            free(x->rate_n);
            spectrum_tokens_free(&x->tokens);
        }
        free(l->head);
    }
    free(r->layer);
    free(r->windows);
    free(r->ends);
    free(r->end_row);
    *r = (spectrum_result){0};
}
