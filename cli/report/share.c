#include "cli/report/share.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool share_open(share *s, const report *r, alive *self, err *e) {
    *s = (share){.r = r};
    char *folder = file_join(r->o->out, SHARE_FOLDER, e);
    s->known = folder ? mem_zalloc(r->n_tasks + 1, sizeof *s->known, "tasks", e) : NULL;
    s->c = s->known ? claims_open(folder, self, e) : NULL;
    free(folder);
    if (!s->c)
        share_close(s);
    return s->c != NULL;
}

void share_close(share *s) {
    claims_close(s->c);
    free(s->known);
    *s = (share){0};
}

size_t share_start(const report *r, int worker, int workers) {
    return workers > 0 ? r->n_tasks * (size_t)(worker % workers) / (size_t)workers : 0;
}

// The same in every process of every run, whatever else is in the list; and other settings are another
// task.
static const char *key(const report *r, size_t i, char buf[CLAIM_TASK]) {
    const report_task *t = &r->task[i];
    const report_pair *p = &r->pair[t->pair];
    const char *names[] = {output_model(r->out, p->model), output_document(r->out, p->document)};
    uint64_t h = UINT64_C(1469598103934665603); // FNV-1a
    for (int k = 0; k < 2; k++)
        for (const char *c = names[k]; c == names[k] || c[-1]; c++)
            h = (h ^ (unsigned char)*c) * UINT64_C(1099511628211);
    snprintf(buf, CLAIM_TASK, "%016" PRIx64 "-%.16s-%" PRId64, h, p->settings, t->row);
    return buf;
}

static bool is_stored(share *s, size_t i) {
    if (s->known[i] != SHARE_STORED && report_task_done(s->r, i))
        s->known[i] = SHARE_STORED;
    return s->known[i] == SHARE_STORED;
}

// One task that is ours. false: give up.
static bool run_one(share *s, report_worker *w, size_t i, const char *task, const share_calls *x,
                    err *e) {
    if (is_stored(s, i)) // another one has just finished it
        return claims_done(s->c, task, e);
    err why = {0};
    double seconds = 0;
    if (x->begin)
        x->begin(x->ctx, i);
    task_outcome how = report_task_run(w, i, x->progress, x->ctx, &seconds, &why);
    if (how == TASK_STOP)
        return err_set(e, why.code, "%s", why.text);
    if (how == TASK_STORED)
        s->known[i] = SHARE_STORED;
    if (x->end)
        x->end(x->ctx, i, how, seconds, &why);
    return how == TASK_STORED ? claims_done(s->c, task, e) : claims_failed(s->c, task, why.text, e);
}

bool share_work(share *s, report_worker *w, size_t start, const share_calls *calls, err *e) {
    size_t n = s->r->n_tasks;
    for (size_t k = 0; k < n; k++) {
        size_t i = (start + k) % n;
        char task[CLAIM_TASK];
        claim_state state;
        if (is_stored(s, i))
            continue;
        if (!claims_take(s->c, key(s->r, i, task), &state, e))
            return false;
        if (state == CLAIM_OURS && !run_one(s, w, i, task, calls, e))
            return false;
    }
    return true;
}

bool share_look(share *s, share_state *state, err *e) {
    *state = (share_state){0};
    for (size_t i = 0; i < s->r->n_tasks; i++) {
        char task[CLAIM_TASK], why[1024];
        claim_state c = CLAIM_FREE;
        if (!is_stored(s, i) && !claims_look(s->c, key(s->r, i, task), &c, e))
            return false;
        // Between the two looks it may have been stored and its claim be gone.
        if (is_stored(s, i)) {
            state->stored++;
        } else if (c == CLAIM_FAILED) {
            state->failed++;
        } else if (c == CLAIM_LOST) {
            state->lost++;
            if (s->known[i] != SHARE_GIVEN_UP &&
                !report_task_give_up(s->r, i, claims_why(s->c, task, why, sizeof why), e))
                return false;
            s->known[i] = SHARE_GIVEN_UP;
        } else if (c == CLAIM_FREE) {
            state->free++;
        } else {
            state->working++;
        }
    }
    return true;
}

bool share_wait(share *s, bool comes_goes, share_state *state, share_tick tick, void *ctx, err *e) {
    enum { LOOKS_A_SECOND = 5, SURE = ALIVE_PATIENCE + 5 };
    for (int looks = 0; share_look(s, state, e); looks++) {
        if (!state->working || state->free || (comes_goes && looks > SURE * LOOKS_A_SECOND))
            return true;
        if (tick && !tick(ctx, state))
            return err_set(e, ERR_CANCELLED, "stopped");
        nanosleep(&(struct timespec){0, 1000000000 / LOOKS_A_SECOND}, NULL);
    }
    return false;
}

void share_clean(share *s) {
    char task[CLAIM_TASK];
    for (size_t i = 0; i < s->r->n_tasks; i++)
        if (s->known[i] == SHARE_STORED)
            claims_forget(s->c, key(s->r, i, task));
}
