#include "cli/dash/work.h"

#include "cli/dash/work_parts.h"
#include "core/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void work_wake(worker *w) {
    if (!atomic_exchange(&w->pending, 1)) {
        ssize_t n = write(w->fd[1], "x", 1);
        (void)n; // a full pipe wakes as well
    }
}

int worker_fd(const worker *w) {
    return w->fd[0];
}

void worker_seen(worker *w) {
    char buf[64];
    while (read(w->fd[0], buf, sizeof buf) > 0)
        ;
    atomic_exchange(&w->pending, 0);
}

void work_say(worker *w, char level, const char *fmt, ...) {
    va_list ap;
    pthread_mutex_lock(&w->lock);
    if (w->n_messages == MESSAGES) {
        w->first_message = (w->first_message + 1) % MESSAGES;
        w->n_messages--;
    }
    work_message *m = &w->message[(w->first_message + w->n_messages++) % MESSAGES];
    m->level = level;
    m->seconds = seconds() - w->began;
    va_start(ap, fmt);
    vsnprintf(m->text, sizeof m->text, fmt, ap);
    va_end(ap);
    pthread_mutex_unlock(&w->lock);
    work_wake(w);
}

bool worker_message(worker *w, work_message *out) {
    pthread_mutex_lock(&w->lock);
    bool any = w->n_messages > 0;
    if (any) {
        *out = w->message[w->first_message];
        w->first_message = (w->first_message + 1) % MESSAGES;
        w->n_messages--;
    }
    pthread_mutex_unlock(&w->lock);
    return any;
}

void work_publish(worker *w, void *place, void *object) {
    pthread_mutex_lock(&w->lock);
    void *before = *(void **)place;
    *(void **)place = object;
    pthread_mutex_unlock(&w->lock);
    shared_drop(before);
    work_wake(w);
}

void work_enter(worker *w, work_stage s) {
    pthread_mutex_lock(&w->lock);
    bool news = w->out.stage != s;
    w->out.stage = s;
    pthread_mutex_unlock(&w->lock);
    if (news)
        work_wake(w);
}

void snap_drop(snap *s) {
    for (int i = 0; i < MODELS_MOST; i++) {
        shared_drop(s->shown[i]);
        shared_drop(s->base[i]);
    }
    shared_drop(s->spot);
    shared_drop(s->modes);
    shared_drop(s->stats);
    shared_drop(s->kernels);
    free(s->effects);
    *s = (snap){0};
}

void worker_snap(worker *w, snap *out) {
    snap_drop(out);
    pthread_mutex_lock(&w->lock);
    *out = w->out;
    // Runs of a document that is not wanted any more are nobody's business.
    if (w->out.document != w->newest.document || w->out.reload != w->newest.reload) {
        for (int i = 0; i < MODELS_MOST; i++)
            out->shown[i] = out->base[i] = NULL;
        out->spot = NULL;
        out->modes = NULL;
        out->to_refine = 0;
        out->fatal.code = ERR_NONE;
    }
    for (int i = 0; i < MODELS_MOST; i++) {
        shared_take(out->shown[i]);
        shared_take(out->base[i]);
    }
    shared_take(out->spot);
    shared_take(out->modes);
    shared_take(out->stats);
    shared_take(out->kernels);
    out->effects = NULL;
    if (w->out.n_effects) {
        out->effects = malloc((size_t)w->out.n_effects * sizeof *out->effects);
        if (out->effects)
            memcpy(out->effects, w->out.effects, (size_t)out->n_effects * sizeof *out->effects);
        else
            out->n_effects = 0;
    }
    pthread_mutex_unlock(&w->lock);
}

void worker_ask(worker *w, const request *r) {
    pthread_mutex_lock(&w->lock);
    uint64_t seq = w->newest.seq + 1;
    w->newest = *r;
    w->newest.seq = seq;
    atomic_store(&w->seq, seq);
    if (r->quit)
        atomic_store(&w->quit, true);
    pthread_cond_signal(&w->asked);
    pthread_mutex_unlock(&w->lock);
}

bool work_quits(void *ctx) {
    return atomic_load(&((worker *)ctx)->quit);
}

bool work_outdated(void *ctx) {
    worker *w = ctx;
    if (atomic_load(&w->quit))
        return true;
    if (atomic_load(&w->seq) == w->now.seq)
        return false;
    pthread_mutex_lock(&w->lock);
    const request *a = &w->now, *b = &w->newest;
    bool other = a->slot != b->slot || a->generation != b->generation || a->reload != b->reload ||
                 a->head != b->head || (a->t != b->t && !(a->follow && b->follow)) ||
                 a->W != b->W || a->document != b->document || b->paused;
    pthread_mutex_unlock(&w->lock);
    return other;
}

// The most wanted thing that is still to be done.
static job_result slice(worker *w, err *e) {
    const request *r = &w->now;
    if (w->broken)
        return JOB_NONE;
    job_result did = work_open(w, e);
    if (did != JOB_NONE)
        return did;
    if (r->paused)
        return JOB_NONE;
    if (r->document) {
        // A place does not hold up the pass for long: some blocks go by before the next one, more
        // while the cursor runs along with the pass.
        if (w->after_spot >= (r->follow ? 40 : 4) && (did = work_spot(w, e)) != JOB_NONE)
            return did;
        w->after_spot++;
        if ((did = work_pass(w, e)) != JOB_NONE)
            return did;
        if ((did = work_spot(w, e)) != JOB_NONE || (did = work_refine(w, e)) != JOB_NONE ||
            (did = work_modes(w, e)) != JOB_NONE || (did = work_sweep(w, e)) != JOB_NONE)
            return did;
    }
    if ((did = work_kernels(w, e)) != JOB_NONE)
        return did;
    return work_stats(w, e);
}

static void *run_worker(void *ctx) {
    worker *w = ctx;
    // Keys and frames come first where cores are few.
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5);
    bool idle = false;
    while (!atomic_load(&w->quit)) {
        pthread_mutex_lock(&w->lock);
        if (idle) {
            if (w->now.seq == w->newest.seq && w->out.served != w->now.seq) {
                w->out.served = w->now.seq;
                pthread_mutex_unlock(&w->lock);
                work_wake(w);
                pthread_mutex_lock(&w->lock);
            }
            while (w->now.seq == w->newest.seq)
                pthread_cond_wait(&w->asked, &w->lock);
        }
        if (w->newest.reload != w->now.reload || w->newest.document != w->now.document ||
            w->newest.n_models != w->now.n_models) {
            w->broken = false;
            w->out.fatal.code = ERR_NONE;
        }
        w->now = w->newest;
        pthread_mutex_unlock(&w->lock);
        err e = {0};
        job_result did = slice(w, &e);
        idle = did == JOB_NONE;
        if (did == JOB_FAILED && e.code != ERR_CANCELLED) {
            pthread_mutex_lock(&w->lock);
            w->out.fatal = e;
            pthread_mutex_unlock(&w->lock);
            work_say(w, 'E', "%s", e.text);
            w->broken = true;
        }
    }
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_signal(&w->asked);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

worker *worker_start(const options *o, const char *marks, int64_t state_mem, err *e) {
    worker *w = mem_zalloc(1, sizeof *w, "a worker", e);
    if (!w)
        return NULL;
    w->o = o;
    w->marks = marks;
    w->state_mem = state_mem;
    w->began = seconds();
    w->after_spot = 40;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->asked, NULL);
    if (pipe2(w->fd, O_NONBLOCK | O_CLOEXEC) != 0) {
        err_set(e, ERR_IO, "no pipe: %s", err_system(errno));
        free(w);
        return NULL;
    }
    // Signals are the screen's.
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    int rc = pthread_create(&w->thread, NULL, run_worker, w);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    if (rc == 0)
        return w;
    err_set(e, ERR_NOMEM, "no thread: %s", err_system(rc));
    close(w->fd[0]);
    close(w->fd[1]);
    free(w);
    return NULL;
}

static void release(worker *w) {
    snap_drop(&w->out);
    shared_drop(w->stats);
    lane_free(w->try);
    for (int i = 0; i < MODELS_MOST; i++)
        work_close_slot(w, i);
    ckpt_close(w->c);
    backend_close(w->be);
    close(w->fd[0]);
    close(w->fd[1]);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->asked);
    free(w);
}

bool worker_stop(worker *w, int milliseconds) {
    if (!w)
        return true;
    request r = w->newest;
    r.quit = true;
    worker_ask(w, &r);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    until.tv_sec += milliseconds / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->lock);
    int rc = 0;
    while (!w->ended && rc == 0)
        rc = pthread_cond_timedwait(&w->asked, &w->lock, &until);
    bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    if (!ended)
        return false;
    pthread_join(w->thread, NULL);
    release(w);
    return true;
}
