#include "analyses/spectrum.h"

#include "analyses/spectrum_pass.h"
#include "analyses/spectrum_tokens.h"
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
    return (probe){.ctx = p, .on_steps = spectrum_on_steps};
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
