// What the worker does once everything is open: the pass, and looking closer.
#include "cli/dash/work_parts.h"

#include "analyses/resample.h"
#include "cli/head_list.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static job_result end(bool ok) {
    return ok ? JOB_DONE : JOB_FAILED;
}

lane *work_lane(worker *w) {
    slot *s = &w->slot[w->now.slot];
    return w->now.n_off ? s->cut : s->base;
}

// The pass ----------------------------------------------------------------------------------------

enum { EFFECT_RESAMPLES = 1000, EFFECT_FIRST = 4096 };

bool work_effect(worker *w, const run *base, const run *off, bool tell, err *e) {
    effect x = {.n_off = off->n_off, .upto = {EFFECT_FIRST, off->T}};
    memcpy(x.off, off->off, sizeof x.off);
    for (int i = 0; i < 2; i++) {
        int64_t n = x.upto[i] < off->T ? x.upto[i] : off->T;
        paired_change c = {.mean = NAN};
        if (n > 1 &&
            !resample_paired(base->loss + 1, off->loss + 1, n - 1, 0, EFFECT_RESAMPLES, 0, &c, e))
            return false;
        x.mean[i] = c.mean;
        x.lo[i] = c.lo;
        x.hi[i] = c.hi;
    }
    pthread_mutex_lock(&w->lock);
    size_t cap = (size_t)w->out.cap_effects;
    bool ok = mem_grow((void **)&w->out.effects, &cap, (size_t)w->out.n_effects + 1,
                       sizeof *w->out.effects, "effects", e);
    w->out.cap_effects = (int)cap;
    if (ok)
        w->out.effects[w->out.n_effects++] = x;
    pthread_mutex_unlock(&w->lock);
    char name[512], first[64] = "";
    if (off->T > EFFECT_FIRST)
        snprintf(first, sizeof first, "%+.3f (4k) ", x.mean[0]);
    if (ok && tell)
        work_say(w, ' ', "%s off: loss %s%+.3f (%lldk), 95%% %+.3f..%+.3f",
                 head_list_name(off->off, off->n_off, name, sizeof name), first, x.mean[1],
                 (long long)((off->T + 512) / 1024), x.lo[1], x.hi[1]);
    return ok;
}

static void tell_over(worker *w, int i) {
    const run *r = w->slot[i].base->r;
    char name[16] = "forward";
    if (w->now.n_models > 1)
        snprintf(name, sizeof name, "forward %c", 'a' + i);
    work_say(w, ' ', "%s done: %lld tokens, mean loss %.3f nats", name, (long long)r->T,
             run_loss_so_far(r));
}

static bool paired(const worker *w, int i) {
    return w->slot[i].base && lane_over(w->slot[i].base);
}

job_result work_pass(worker *w, err *e) {
    const request *r = &w->now;
    if (r->cancelled)
        return JOB_NONE;
    // The model that is looked at first, then the others.
    for (int k = 0; k < r->n_models; k++) {
        int i = (r->slot + k) % r->n_models;
        lane *l = w->slot[i].base;
        if (lane_over(l) || (r->hold >= 0 && run_read(l->r) >= r->hold))
            continue;
        if (!lane_step(l, r->hold, e))
            return JOB_FAILED;
        if (lane_over(l))
            tell_over(w, i);
        work_wake(w);
        return JOB_DONE;
    }
    lane *cut = r->n_off ? w->slot[r->slot].cut : NULL;
    if (cut && !lane_over(cut) && (r->hold < 0 || run_read(cut->r) < r->hold)) {
        if (!lane_step(cut, r->hold, e))
            return JOB_FAILED;
        if (lane_over(cut) && paired(w, r->slot) &&
            !work_effect(w, w->slot[r->slot].base->r, cut->r, true, e))
            return JOB_FAILED;
    }
    // The new numbers take the old ones' place when they reach the cursor.
    run *want = cut ? (lane_over(cut) || run_read(cut->r) > r->t ? cut->r : NULL)
                    : w->slot[r->slot].base->r;
    if (want && want != w->out.shown[r->slot]) {
        work_publish(w, &w->out.shown[r->slot], shared_take(want));
        return JOB_DONE;
    }
    if (cut && !lane_over(cut) && (r->hold < 0 || run_read(cut->r) < r->hold)) {
        work_wake(w);
        return JOB_DONE;
    }
    return JOB_NONE;
}

// Looking closer ----------------------------------------------------------------------------------

job_result work_spot(worker *w, err *e) {
    const request *r = &w->now;
    lane *l = work_lane(w);
    bool window = r->want_window || r->want_all_windows;
    if (!l || r->t < 0 || r->t >= run_read(l->r))
        return JOB_NONE;
    const spot *have = w->done_spot;
    if (have && have->slot == r->slot && have->generation == l->r->generation && have->t == r->t &&
        (!window ||
         (have->W == r->W && (have->all || (!r->want_all_windows && have->head == r->head)))))
        return JOB_NONE;
    w->after_spot = 0;
    spot *s = spot_new(l->r->n_heads, e);
    if (!s)
        return JOB_FAILED;
    s->slot = r->slot;
    s->generation = l->r->generation;
    s->t = r->t;
    s->W = window ? r->W : 0;
    s->head = r->head < l->r->n_heads ? r->head : -1;
    s->all = r->want_all_windows;
    l->stop = work_outdated;
    bool ok = lane_spot(l, s, e);
    l->stop = work_quits;
    if (!ok) {
        shared_drop(s);
        return e->code == ERR_CANCELLED ? (err_clear(e), JOB_DONE) : JOB_FAILED;
    }
    w->done_spot = s;
    work_publish(w, &w->out.spot, s);
    return JOB_DONE;
}

job_result work_refine(worker *w, err *e) {
    const request *r = &w->now;
    lane *l = work_lane(w);
    if (!l || !lane_over(l))
        return JOB_NONE;
    int heads[1 + MARKS_MOST] = {r->head};
    memcpy(heads + 1, r->marks, sizeof r->marks);
    bool done = true;
    int64_t left = 0, total = 0;
    l->stop = work_outdated;
    bool ok = lane_refine(l, heads, 1 + MARKS_MOST, r->t0, r->t1, lane_wanted_stride(r->t1 - r->t0),
                          &done, &left, &total, e);
    l->stop = work_quits;
    if (!ok)
        return e->code == ERR_CANCELLED ? (err_clear(e), JOB_DONE) : JOB_FAILED;
    pthread_mutex_lock(&w->lock);
    w->out.refined = total - left;
    w->out.to_refine = done ? 0 : total;
    pthread_mutex_unlock(&w->lock);
    if (!done)
        work_wake(w);
    return done ? JOB_NONE : JOB_DONE;
}

enum { MODE_WINDOWS = 64, MODE_SLICE = 4 };

// 0, 32, 16, 48, 8 ...: the view is covered coarsely first.
static int spread(int i) {
    int out = 0;
    for (int b = 1; b < MODE_WINDOWS; b *= 2, i /= 2)
        out = 2 * out + i % 2;
    return out;
}

static void modes_free(void *p) {
    free(p);
}

job_result work_modes(worker *w, err *e) {
    const request *r = &w->now;
    lane *l = work_lane(w);
    if (!r->want_modes || !l || !lane_over(l) || r->head < 0 || r->head >= l->r->n_heads)
        return JOB_NONE;
    const modes *have = w->done_modes;
    bool same = have && have->slot == r->slot && have->generation == l->r->generation &&
                have->head == r->head && have->t0 == r->t0 && have->t1 == r->t1 &&
                have->W == r->mode_W;
    if (same && have->windows >= have->wanted)
        return JOB_NONE;
    modes *m = mem_zalloc(1, sizeof *m, "half-lives", e);
    if (!m)
        return JOB_FAILED;
    if (same) // all but the count of its holders
        memcpy((char *)m + sizeof m->ref, (const char *)have + sizeof have->ref,
               sizeof *m - sizeof m->ref);
    else
        *m = (modes){.slot = r->slot,
                     .generation = l->r->generation,
                     .head = r->head,
                     .t0 = r->t0,
                     .t1 = r->t1,
                     .W = r->mode_W};
    shared_init(&m->ref, modes_free);
    int64_t room = r->t1 - (r->t0 > r->mode_W - 1 ? r->t0 : r->mode_W - 1), from = r->t1 - room;
    m->wanted = room <= 0 ? 0 : room < MODE_WINDOWS ? (int)room : MODE_WINDOWS;
    if (room <= 0)
        snprintf(m->why, sizeof m->why, "the view is shorter than a window of %lld",
                 (long long)r->mode_W);
    bool ok = true;
    int first = m->windows;
    l->stop = work_outdated;
    for (int i = first; ok && i < first + MODE_SLICE && i < m->wanted; i++) {
        int at = m->wanted == MODE_WINDOWS ? spread(i) : i;
        int before = m->windows;
        ok = lane_mode(l, m, from + (2 * at + 1) * room / (2 * m->wanted), e);
        if (ok && m->windows == before) // a window that cannot be had counts as looked at
            m->windows++;
    }
    l->stop = work_quits;
    if (!ok) {
        shared_drop(m);
        return e->code == ERR_CANCELLED ? (err_clear(e), JOB_DONE) : JOB_FAILED;
    }
    w->done_modes = m;
    work_publish(w, &w->out.modes, m);
    return JOB_DONE;
}

// :ablate all -------------------------------------------------------------------------------------

static bool tried(worker *w, const run_head *h) {
    bool yes = false;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->out.n_effects; i++)
        yes |= w->out.effects[i].n_off == 1 && w->out.effects[i].off[0].layer == h->layer &&
               w->out.effects[i].off[0].head == h->head;
    pthread_mutex_unlock(&w->lock);
    return yes;
}

static void tell_sweep(worker *w, int n) {
    effect most = {.mean = {NAN, -INFINITY}};
    char name[512];
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->out.n_effects; i++)
        if (w->out.effects[i].n_off == 1 && w->out.effects[i].mean[1] > most.mean[1])
            most = w->out.effects[i];
    pthread_mutex_unlock(&w->lock);
    work_say(w, ' ', "%d heads tried; the loss rises most without %s: %+.3f, 95%% %+.3f..%+.3f", n,
             head_list_name(most.off, most.n_off, name, sizeof name), most.mean[1], most.lo[1],
             most.hi[1]);
}

job_result work_sweep(worker *w, err *e) {
    slot *s = &w->slot[w->now.slot];
    if (!w->now.sweep || !s->base || !lane_over(s->base) ||
        (w->try && w->try->r->slot != w->now.slot)) {
        lane_free(w->try);
        w->try = NULL;
        return JOB_NONE;
    }
    const run *base = s->base->r;
    if (!w->try) {
        int left = 0, next = -1;
        for (int i = 0; i < base->n_heads; i++)
            if (!tried(w, &base->head[i])) {
                next = next < 0 ? i : next;
                left++;
            }
        pthread_mutex_lock(&w->lock);
        bool last = left == 0 && w->out.sweeping > 0;
        w->out.sweeping = left;
        pthread_mutex_unlock(&w->lock);
        work_wake(w);
        if (last)
            tell_sweep(w, base->n_heads);
        if (next < 0)
            return JOB_NONE;
        head_ref off = {base->head[next].layer, base->head[next].head};
        run *r = run_new(s->m, s->text, w->now.slot, -1, &off, 1, 1 << 16, e);
        if (r)
            w->try =
                lane_new(s->m, r, &s->base->how, s->base->block, 1 << 20, true, work_quits, w, e);
        shared_drop(r);
        if (!w->try)
            return JOB_FAILED;
        return JOB_DONE;
    }
    if (!lane_over(w->try))
        return end(lane_step(w->try, -1, e));
    bool ok = work_effect(w, base, w->try->r, false, e);
    lane_free(w->try);
    w->try = NULL;
    return end(ok);
}
