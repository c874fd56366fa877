// The worker's start: the device, the models, what each of them reads, and the weight statistics.
#include "cli/dash/reading.h"
#include "cli/dash/work_parts.h"
#include "cli/device.h"
#include "core/mem.h"
#include "core/text.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool work_device(worker *w, err *e) {
    options o = *w->o;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    // One core stays free for keys where there are more than two.
    if (!o.threads && cores > 2)
        o.threads = cores - 1;
    work_enter(w, STAGE_DEVICE);
    w->be = device_open(&o, e);
    if (!w->be)
        return false;
    pthread_mutex_lock(&w->lock);
    w->out.device = w->be->device;
    w->out.prec = w->be->prec;
    pthread_mutex_unlock(&w->lock);
    work_say(w, ' ', "%s ready: %s", w->be->device, precision_name(w->be->prec));
    return true;
}

// What belongs to one document.
static void close_reading(worker *w, int i) {
    slot *s = &w->slot[i];
    lane_free(s->base);
    lane_free(s->cut);
    shared_drop(s->text);
    s->base = s->cut = NULL;
    s->text = NULL;
    s->cut_generation = 0;
}

void work_close_slot(worker *w, int i) {
    close_reading(w, i);
    model_free(w->slot[i].m);
    w->slot[i] = (slot){0};
}

static bool open_model(worker *w, int i, err *e) {
    slot *s = &w->slot[i];
    work_enter(w, STAGE_MODEL);
    s->path = w->now.model[i];
    s->bos = -1;
    s->m = model_open(s->path, w->be, e);
    if (!s->m)
        return false;
    for (size_t k = 0; k < s->m->notes.n; k++)
        work_say(w, ' ', "%s: %s", text_show(s->path), s->m->notes.v[k]);
    if (s->m->leftover.n)
        work_say(w, '!', "%s: %zu tensor%s that nothing reads (%s%s)", text_show(s->path),
                 s->m->leftover.n, s->m->leftover.n == 1 ? "" : "s", s->m->leftover.v[0],
                 s->m->leftover.n > 1 ? " ..." : "");
    return true;
}

static bool open_text(worker *w, int i, err *e) {
    slot *s = &w->slot[i];
    char remark[128];
    work_enter(w, STAGE_DOCUMENT);
    s->text = reading_open(w->o, s->path, w->now.document, s->m->info.n_vocab, w->marks, &s->bos,
                           remark, sizeof remark, e);
    if (!s->text)
        return false;
    if (i == 0)
        work_say(w, ' ', "%s: %lld of %lld tokens from %zu bytes%s", text_show(s->text->d.name),
                 (long long)s->text->T, (long long)s->text->d.n, s->text->d.bytes,
                 s->text->d.n_starts > 1 ? ", several documents" : "");
    if (remark[0])
        work_say(w, '!', "%s: %s", text_show(s->text->d.name), remark);
    return true;
}

static int64_t block_of(const worker *w) {
    if (w->o->block)
        return w->o->block;
    // Small enough to stay answerable on a CPU; whole blocks of samples on a GPU.
    return w->be->threads > 0 ? RANK_EVERY
                              : (w->be->block + RANK_EVERY - 1) / RANK_EVERY * RANK_EVERY;
}

static bool start_pass(worker *w, int i, const head_ref *off, int n_off, lane **out, err *e) {
    slot *s = &w->slot[i];
    row_options how = {.reset_id = w->o->reset_at_bos ? s->bos : -1};
    if (w->o->reset_at_bos) {
        how.starts = s->text->d.starts + 1; // the first document starts anyhow
        how.n_starts = s->text->d.n_starts > 1 ? s->text->d.n_starts - 1 : 0;
    }
    run *r = run_new(s->m, s->text, i, n_off ? w->now.generation : 0, off, n_off, w->state_mem, e);
    if (!r)
        return false;
    *out = lane_new(s->m, r, &how, block_of(w), w->state_mem / (n_off ? 2 : 1), false, work_quits,
                    w, e);
    shared_drop(r);
    if (!*out)
        return false;
    if (n_off) // seen only when it has got somewhere
        return true;
    work_publish(w, &w->out.base[i], shared_take((*out)->r));
    work_publish(w, &w->out.shown[i], shared_take((*out)->r));
    return true;
}

// Everything that was read is let go when another document is wanted; the models too when all is to be
// fresh from disk.
static void forget(worker *w, bool models) {
    lane_free(w->try);
    w->try = NULL;
    for (int i = 0; i < MODELS_MOST; i++) {
        work_publish(w, &w->out.base[i], NULL);
        work_publish(w, &w->out.shown[i], NULL);
        if (models)
            work_close_slot(w, i);
        else
            close_reading(w, i);
    }
    work_publish(w, &w->out.spot, NULL);
    work_publish(w, &w->out.modes, NULL);
    w->done_spot = NULL;
    w->done_modes = NULL;
    pthread_mutex_lock(&w->lock);
    w->out.n_effects = 0;
    pthread_mutex_unlock(&w->lock);
}

job_result work_open(worker *w, err *e) {
    const request *r = &w->now;
    if (!r->document)
        return JOB_NONE;
    if (w->reload != r->reload || w->document != r->document) {
        forget(w, w->reload != r->reload);
        w->reload = r->reload;
        w->document = r->document;
        pthread_mutex_lock(&w->lock);
        w->out.document = r->document;
        w->out.reload = r->reload;
        pthread_mutex_unlock(&w->lock);
    }
    if (!w->be)
        return work_device(w, e) ? JOB_DONE : JOB_FAILED;
    for (int i = 0; i < r->n_models; i++) {
        slot *s = &w->slot[i];
        bool ok = true;
        if (!s->m)
            ok = open_model(w, i, e);
        else if (!s->text)
            ok = open_text(w, i, e);
        else if (!s->base)
            ok = start_pass(w, i, NULL, 0, &s->base, e);
        else if (r->n_off && i == r->slot && s->cut_generation != r->generation) {
            lane_free(s->cut);
            s->cut = NULL;
            s->cut_generation = r->generation;
            if (!fwd_check_heads(s->m, r->off, r->n_off, e)) {
                work_say(w, 'E', "%s", e->text);
                err_clear(e);
                return JOB_DONE;
            }
            ok = start_pass(w, i, r->off, r->n_off, &s->cut, e);
        } else
            continue;
        if (!ok)
            work_close_slot(w, i);
        return ok ? JOB_DONE : JOB_FAILED;
    }
    work_enter(w, STAGE_WORK);
    return JOB_NONE;
}

// Weight statistics -------------------------------------------------------------------------------

static void stats_free(void *p) {
    free(((stats *)p)->v);
    free(p);
}

static bool go_on(void *ctx, int64_t done, int64_t total) {
    worker *w = ctx;
    (void)done, (void)total;
    return !atomic_load(&w->quit);
}

job_result work_stats(worker *w, err *e) {
    if (!w->now.want_stats || w->now.n_models < 1 || (w->stats && w->stats->n == w->stats->total))
        return JOB_NONE;
    if (!w->c && !(w->c = ckpt_open(w->now.model[0], e)))
        return JOB_FAILED;
    int64_t n = ckpt_count(w->c), have = w->stats ? w->stats->n : 0;
    // A fresh object each time: what has been handed over never changes.
    stats *s = mem_zalloc(1, sizeof *s, "weight statistics", e);
    if (!s)
        return JOB_FAILED;
    shared_init(&s->ref, stats_free);
    s->total = n;
    s->v = mem_zalloc((size_t)n + 1, sizeof *s->v, "weight statistics", e);
    if (!s->v) {
        shared_drop(s);
        return JOB_FAILED;
    }
    if (w->stats)
        memcpy(s->v, w->stats->v, (size_t)have * sizeof *s->v);
    int64_t bytes = 0;
    for (s->n = have; s->n < n && (bytes < 32 << 20 || s->n == have); s->n++) {
        const tensor *t = ckpt_at(w->c, s->n);
        bytes += (int64_t)t->bytes;
        if (!inspect_stats(w->c, t, &s->v[s->n], go_on, w, 0, 0, e)) {
            shared_drop(s);
            return JOB_FAILED;
        }
    }
    shared_drop(w->stats);
    w->stats = shared_take(s);
    work_publish(w, &w->out.stats, s);
    return JOB_DONE;
}
