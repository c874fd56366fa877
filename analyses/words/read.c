#include "analyses/words/read.h"

#include "core/mem.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

// ---- the intervention ---------------------------------------------------------------------------------

// Before the recurrence runs, and before any other probe looks: beta <- min(beta, *ctx).
static bool cut_beta(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    (void)layer, (void)t0, (void)state;
    double most = *(const double *)ctx;
    if (mat_none(s->beta))
        return true;
    size_t n = (size_t)(s->beta.rows * s->beta.cols);
    double *v = mem_alloc(n, sizeof *v, "write strengths", e);
    if (!v)
        return false;
    be->op->read(be, s->beta, v);
    for (size_t i = 0; i < n; i++)
        v[i] = v[i] < most ? v[i] : most;
    be->op->write(be, v, s->beta);
    free(v);
    return backend_check(be, e);
}

static bool has_beta(const model *m, err *e) {
    for (int L = 0; L < m->info.n_layers; L++)
        if (model_mixer(m, L) && model_mixer(m, L)->heads.beta_max > 0)
            return true;
    return err_set(e, ERR_UNSUPPORTED, "%s: no layer has a write strength beta to limit",
                   m->info.family);
}

// ---- rows ---------------------------------------------------------------------------------------------

// One thread's share.
typedef struct reader {
    fwd *f;
    int32_t *ids, *want, *best;
} reader;

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)loss, (void)e;
    memcpy((int32_t *)ctx + t0, best, (size_t)n * sizeof *best);
    return true;
}

static bool reader_open(reader *r, const model *m, int64_t block, int64_t longest, err *e) {
    size_t n = (size_t)longest;
    *r = (reader){.f = fwd_new(m, block, longest, e)};
    r->ids = mem_alloc(n, sizeof *r->ids, "a word", e);
    r->want = mem_alloc(n, sizeof *r->want, "a word", e);
    r->best = mem_zalloc(n, sizeof *r->best, "a word", e);
    return r->f && r->ids && r->want && r->best;
}

static void reader_close(reader *r) {
    fwd_free(r->f);
    free(r->ids);
    free(r->want);
    free(r->best);
}

// progress is asked between the blocks of the word.
static bool read_row(reader *r, const word_source *s, int64_t i, double *beta_max,
                     progress_fn progress, void *progress_ctx, err *e) {
    probe say = {.ctx = r->best, .on_loss = on_loss};
    probe cut = {.ctx = beta_max, .on_steps = cut_beta};
    const probe *probes[] = {&say, &cut};
    int64_t n = 0;
    s->make(s->ctx, i, r->ids, r->want, &n);
    return fwd_row(r->f, r->ids, n, NULL, probes, *beta_max > 0 ? 2 : 1, progress, progress_ctx,
                   e) &&
           (s->took(s->ctx, i, r->best, r->want, n), true);
}

// The sink and the progress are called by one thread at a time; fwd_row and took are split so that
// only the latter waits.
typedef struct gate {
    const word_source *s;
    omp_lock_t lock;
} gate;

static void took_alone(void *ctx, int64_t i, const int32_t *best, const int32_t *want, int64_t n) {
    gate *g = ctx;
    omp_set_lock(&g->lock);
    g->s->took(g->s->ctx, i, best, want, n);
    omp_unset_lock(&g->lock);
}

static void make_through(void *ctx, int64_t i, int32_t *ids, int32_t *want, int64_t *n) {
    gate *g = ctx;
    g->s->make(g->s->ctx, i, ids, want, n);
}

// The caller's progress counts words, and is asked within long ones too. Only one thread may touch
// the screen: the others learn from `ok` that there is no need to go on.
typedef struct pace {
    progress_fn progress; // NULL: nobody watches, or another thread asks
    void *ctx;
    const int64_t *done; // words, of all threads
    int64_t total;
    const bool *ok;
    bool in_vain; // another thread has failed, and says why
} pace;

static bool keep_pace(void *ctx, int64_t at, int64_t n) {
    pace *p = ctx;
    bool go;
    int64_t done;
    (void)at, (void)n;
#pragma omp atomic read
    go = *p->ok;
#pragma omp atomic read
    done = *p->done;
    p->in_vain = !go;
    return go && (!p->progress || p->progress(p->ctx, done, p->total));
}

static bool side_by_side(const model *m, const word_source *s, int64_t block, double beta_max,
                         progress_fn progress, void *progress_ctx, err *e) {
    gate g = {.s = s};
    word_source alone = {&g, s->rows, s->longest, make_through, took_alone};
    int64_t done = 0;
    bool ok = true;
    omp_init_lock(&g.lock);
#pragma omp parallel num_threads(m->be->threads)
    {
        reader r;
        err mine = {0};
        pace p = {
            omp_get_thread_num() == 0 ? progress : NULL, progress_ctx, &done, s->rows, &ok, false};
        bool good = reader_open(&r, m, block, s->longest, &mine);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < s->rows; i++) {
            bool go;
#pragma omp atomic read
            go = ok;
            if (!go || !good)
                continue;
            good = read_row(&r, &alone, i, &beta_max, keep_pace, &p, &mine);
#pragma omp atomic update
            done++;
            if (good && p.progress && !keep_pace(&p, 0, 0) && !p.in_vain)
                good = err_set(&mine, ERR_CANCELLED, "stopped at word %lld of %lld",
                               (long long)i + 1, (long long)s->rows);
            if (!good)
#pragma omp atomic write
                ok = false;
        }
        if (!good && !p.in_vain)
#pragma omp critical(words_failed)
        {
            ok = false;
            err_set(e, mine.code, "%s", mine.text);
        }
        reader_close(&r);
    }
    omp_destroy_lock(&g.lock);
    return ok;
}

static bool one_by_one(const model *m, const word_source *s, int64_t block, double beta_max,
                       progress_fn progress, void *progress_ctx, err *e) {
    reader r;
    bool ok = reader_open(&r, m, block, s->longest, e);
    int64_t i = 0;
    pace p = {progress, progress_ctx, &i, s->rows, &ok, false};
    for (; ok && i < s->rows; i++) {
        ok = read_row(&r, s, i, &beta_max, keep_pace, &p, e);
        if (ok && progress && !progress(progress_ctx, i + 1, s->rows))
            ok = err_set(e, ERR_CANCELLED, "stopped at word %lld of %lld", (long long)i + 1,
                         (long long)s->rows);
    }
    reader_close(&r);
    return ok;
}

bool words_read(const model *m, const word_source *s, int64_t block, double beta_max,
                progress_fn progress, void *progress_ctx, err *e) {
    if (beta_max > 0 && !has_beta(m, e))
        return false;
    // A row slightly longer than a block would leave a block of a few tokens.
    if (!block)
        block = s->longest <= 2 * m->be->block ? s->longest : m->be->block;
    if (block > s->longest)
        block = s->longest;
    bool parallel = m->be->reentrant && m->be->threads > 1 && s->rows > 1;
    return (parallel ? side_by_side : one_by_one)(m, s, block, beta_max, progress, progress_ctx, e);
}
