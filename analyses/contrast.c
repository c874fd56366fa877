#include "analyses/contrast.h"

#include "analyses/kl.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One model while a row is read.
typedef struct side {
    const model *m;
    fwd *f;
    loss_watch *loss;
    spectrum_pass *spectrum;
    struct pass *pass;
    bool second;
    int32_t *best; // [block] likeliest tokens of the block
} side;

typedef struct pass {
    contrast *c;
    const contrast_options *o;
    int64_t T, row;
    bool spectra;
    side s[2];
    kl_tiles *tiles; // NULL: no divergences
    mat kept;        // what A's head read, [block, D]
    mat head_a;
    double *kl; // [block]
} pass;

void contrast_free(contrast *c) {
    for (int i = 0; i < 2; i++) {
        loss_free(&c->loss[i]);
        erank_free(&c->erank[i]);
        spectrum_result_free(&c->spectrum[i]);
    }
    free(c->kl);
    free(c->same_best);
    free(c->head);
    *c = (contrast){0};
}

static void release(pass *p) {
    backend *be = p->s[0].m->be;
    for (int i = 0; i < 2; i++) {
        loss_watch_free(p->s[i].loss);
        spectrum_pass_free(p->s[i].spectrum);
        fwd_free(p->s[i].f);
        free(p->s[i].best);
    }
    kl_tiles_free(p->tiles);
    if (!mat_none(p->kept))
        be->op->free(be, p->kept);
    free(p->kl);
}

// Watching ----------------------------------------------------------------------------------------

// A's output is kept until B has read the same tokens.
static bool on_output(void *ctx, int64_t t0, mat y, mat head, backend *be, err *e) {
    side *s = ctx;
    pass *p = s->pass;
    mat kept = mat_rows(p->kept, 0, y.rows);
    if (!s->second) {
        be->op->copy(be, y, kept);
        p->head_a = head;
        return backend_check(be, e);
    }
    if (!kl_rows(p->tiles, kept, p->head_a, y, head, p->kl, e))
        return false;
    for (int64_t i = 0; i < y.rows && t0 + i < p->c->n; i++)
        p->c->kl[p->row * p->c->n + t0 + i] = p->kl[i];
    return true;
}

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    side *s = ctx;
    pass *p = s->pass;
    (void)loss, (void)e;
    if (!s->second)
        memcpy(s->best, best, (size_t)n * sizeof *best);
    for (int64_t i = 0; s->second && i < n && t0 + i < p->c->n; i++)
        p->c->same_best[p->row * p->c->n + t0 + i] = p->s[0].best[i] == best[i];
    return true;
}

static bool open_states(pass *p, int i, err *e) {
    const model *m = p->s[i].m;
    contrast *c = p->c;
    erank_options rank = {.every = p->o->every,
                          .cut = -1,
                          .train_length = p->o->train_length[i],
                          .model = p->o->name[i],
                          .document = p->o->document};
    if (!erank_open_model(&c->erank[i], m, c->rows, p->T, &rank, e))
        return false;
    if (!p->spectra)
        return true;
    p->s[i].spectrum = spectrum_pass_new(m, c->rows, p->T, p->o->block, &p->o->spectrum, NULL, NULL,
                                         &c->spectrum[i], e);
    return p->s[i].spectrum != NULL;
}

static bool open_side(pass *p, int i, err *e) {
    side *s = &p->s[i];
    contrast *c = p->c;
    s->pass = p;
    s->second = i == 1;
    c->states[i] = model_has_states(s->m);
    s->best = mem_alloc((size_t)p->o->block, sizeof *s->best, "likeliest tokens", e);
    return s->best &&
           loss_init(&c->loss[i], p->o->name[i], p->o->document, c->rows, c->n,
                     p->o->train_length[i], e) &&
           (!c->states[i] || open_states(p, i, e)) &&
           (s->f = fwd_new(s->m, p->o->block, p->T, e)) != NULL;
}

static bool open_kl(pass *p, err *e) {
    const model *a = p->s[0].m, *b = p->s[1].m;
    contrast *c = p->c;
    size_t n = (size_t)(c->rows * c->n);
    c->same_best = mem_zalloc(n, sizeof *c->same_best, "likeliest tokens", e);
    if (!c->same_best)
        return false;
    if (a->head.rows != b->head.rows) {
        snprintf(
            c->why_no_kl, sizeof c->why_no_kl,
            "the vocabularies have %lld and %lld words: their distributions cannot be compared",
            (long long)a->head.rows, (long long)b->head.rows);
        return true;
    }
    p->tiles = kl_tiles_new(a->be, a->head.rows, e);
    p->kept = a->be->op->alloc(a->be, p->o->block, a->info.D);
    p->kl = mem_alloc((size_t)p->o->block, sizeof *p->kl, "divergences", e);
    c->kl = mem_alloc(n, sizeof *c->kl, "divergences", e);
    for (size_t i = 0; c->kl && i < n; i++)
        c->kl[i] = NAN;
    return p->tiles && p->kl && c->kl && backend_check(a->be, e);
}

// One row -----------------------------------------------------------------------------------------

typedef struct watchers {
    probe p[4];
    const probe *list[4];
    int n;
} watchers;

static bool begin_row(pass *p, int i, const int32_t *ids, const row_options *how, watchers *w,
                      err *e) {
    side *s = &p->s[i];
    contrast *c = p->c;
    s->loss = loss_watch_new(&c->loss[i], p->row, s->m, ids, e);
    if (!s->loss)
        return false;
    if (!fwd_begin(s->f, ids, p->T, how, e))
        return err_prefix(e, "%s", text_show(p->o->name[i]));
    *w = (watchers){.p = {loss_watch_probe(s->loss),
                          {.ctx = s, .on_loss = on_loss, .on_output = p->tiles ? on_output : NULL}},
                    .n = 2};
    if (c->states[i]) {
        erank_begin_row(&c->erank[i], p->row, ids, p->T, how);
        w->p[w->n++] = erank_probe(&c->erank[i]);
    }
    if (s->spectrum) {
        spectrum_begin_row(s->spectrum, p->row, s->f);
        w->p[w->n++] = spectrum_probe(s->spectrum);
    }
    for (int k = 0; k < w->n; k++)
        w->list[k] = &w->p[k];
    return true;
}

static bool end_row(pass *p, int i, const watchers *w, err *e) {
    side *s = &p->s[i];
    bool ok = fwd_final_states(s->f, w->list, w->n, e) && loss_watch_end(s->loss, p->o->jump, e);
    loss_watch_free(s->loss);
    s->loss = NULL;
    fwd_end(s->f);
    return ok;
}

static bool read_row(pass *p, const int32_t *ids, const row_options *how, err *e) {
    watchers w[2];
    bool ok = begin_row(p, 0, ids, how, &w[0], e) && begin_row(p, 1, ids, how, &w[1], e);
    while (ok && fwd_tokens(p->s[0].f) < p->T) {
        for (int i = 0; ok && i < 2; i++)
            ok =
                fwd_block(p->s[i].f, p->o->block, p->s[i].m->info.n_layers, w[i].list, w[i].n, e) ||
                err_prefix(e, "%s", text_show(p->o->name[i]));
        int64_t done = p->row * p->T + (ok ? fwd_tokens(p->s[0].f) : 0);
        if (ok && p->o->progress && !p->o->progress(p->o->progress_ctx, done, p->c->rows * p->T))
            ok = err_set(e, ERR_CANCELLED, "stopped at token %lld", (long long)done);
    }
    return ok && end_row(p, 0, &w[0], e) && end_row(p, 1, &w[1], e);
}

static bool run(const model *const m[2], const int32_t *ids, int64_t rows, int64_t T,
                const row_options *row, bool spectra, const contrast_options *o, contrast *c,
                err *e) {
    pass p = {.c = c, .o = o, .T = T, .spectra = spectra, .s = {{.m = m[0]}, {.m = m[1]}}};
    *c = (contrast){.rows = rows, .n = T - 1, .kl_largest = NAN};
    bool ok = open_side(&p, 0, e) && open_side(&p, 1, e) && open_kl(&p, e);
    for (p.row = 0; ok && p.row < rows; p.row++)
        ok = read_row(&p, ids + p.row * T, row ? &row[p.row] : NULL, e);
    for (int i = 0; ok && i < 2; i++) {
        if (p.s[i].spectrum)
            spectrum_pass_end(p.s[i].spectrum);
        ok = loss_summarise(&c->loss[i], o->resamples, o->seed, e);
    }
    release(&p);
    ok = ok && contrast_summarise(c, m, o, e);
    if (!ok)
        contrast_free(c);
    return ok;
}

// Who compares a model that breaks wants to know from which token on: spectra that cannot be computed
// must not hide the losses, so the rows are read once more without.
bool contrast_run(const model *const m[2], const int32_t *ids, int64_t rows, int64_t T,
                  const row_options *row, const contrast_options *o, contrast *c, err *e) {
    err first = {0};
    if (run(m, ids, rows, T, row, true, o, c, &first))
        return true;
    if (first.code != ERR_NUMERIC)
        return err_set(e, first.code, "%s", first.text);
    if (!run(m, ids, rows, T, row, false, o, c, e))
        return false;
    snprintf(c->why_no_spectrum, sizeof c->why_no_spectrum, "%.250s", first.text);
    return true;
}
