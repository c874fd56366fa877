// Reading a row: its losses kept, and what is watched meanwhile (analyses/loss.h).
#include "analyses/loss.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is watched while a row is read (fault B124): a model that has fallen into a loop, a state
// that is no longer finite.
struct loss_watch {
    loss_result *r;
    const int32_t *ids;
    double *loss; // of this row
    int64_t row;
    int32_t same; // likeliest token so far
    int64_t since, seen;
    bool loop_told, large_told, broken_told;
    backend *be;
    int *heads;      // of each layer's state; 0: it has none
    mat norms;       // [layers, most heads]: as the states were after `watched` tokens
    int64_t watched; // 0: nothing new
};

static void set_flag(loss_flag *f, int64_t row, int64_t position, loss_flag_kind kind,
                     const char *what) {
    f->row = row;
    f->position = position;
    f->kind = kind;
    snprintf(f->what, sizeof f->what, "%s", what);
}

static void flag(loss_result *r, int64_t row, int64_t position, loss_flag_kind kind,
                 const char *what) {
    if (r->n_flags < LOSS_MAX_FLAGS)
        set_flag(&r->flag[r->n_flags++], row, position, kind, what);
}

// The norms of a layer's state heads go into the watcher's row of that layer, and are looked at when
// the block is over: a device does not wait for every layer.
static void watch_state(loss_watch *w, int layer, int64_t position, mat state, backend *be) {
    if (w->heads[layer] == 0)
        return;
    mat row = mat_cols(mat_rows(w->norms, layer, 1), 0, w->heads[layer]);
    be->op->head_norms(be, state, row);
    w->watched = position;
}

// The first head of the row whose state is no longer finite, and the first so large that a float32 keeps less than two
// digits of what a token of size 1 writes. w->watched: tokens read so far.
static bool look_at_states(loss_watch *w, backend *be, err *e) {
    const double bound = LOSS_STATE_BOUND;
    int64_t position = w->watched, most = w->norms.cols;
    w->watched = 0;
    if (position == 0 || w->broken_told)
        return true;
    double *norm = mem_alloc((size_t)(w->norms.rows * most), sizeof *norm, "norms of states", e);
    if (!norm)
        return false;
    be->op->read(be, w->norms, norm);
    for (int L = 0; L < w->norms.rows; L++)
        for (int h = 0; h < w->heads[L]; h++) {
            double x = norm[L * most + h];
            char text[96];
            if (!isfinite(x) && !w->broken_told) {
                snprintf(text, sizeof text, "the state of L%d.H%d is not finite", L, h);
                flag(w->r, w->row, position, FLAG_NOT_FINITE, text);
                if (!w->r->first_broken.what[0])
                    set_flag(&w->r->first_broken, w->row, position, FLAG_NOT_FINITE, text);
                w->broken_told = true;
            } else if (x > bound && isfinite(x) && !w->large_told) {
                snprintf(text, sizeof text, "the state of L%d.H%d has norm %.2g, beyond %.0g", L, h,
                         x, bound);
                flag(w->r, w->row, position, FLAG_LARGE_STATE, text);
                w->large_told = true;
            }
        }
    free(norm);
    return backend_check(be, e);
}

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    enum { LOOP = 256 };
    loss_watch *w = ctx;
    if (!look_at_states(w, w->be, e))
        return false;
    for (int64_t i = 0; i < n && t0 + i < w->r->n; i++) {
        w->loss[t0 + i] = loss[i];
        if (isnan(loss[i])) { // among logits that are no numbers none is the likeliest
            w->seen = 0;
            continue;
        }
        w->r->right += best[i] == w->ids[t0 + i + 1];
        if (w->seen++ == 0 || best[i] != w->same) {
            w->same = best[i];
            w->since = t0 + i;
        } else if (t0 + i - w->since + 1 == LOOP && !w->loop_told) {
            char text[96];
            snprintf(text, sizeof text, "the likeliest token is %d for %d tokens on end", w->same,
                     LOOP);
            flag(w->r, w->row, w->since, FLAG_LOOP, text);
            w->loop_told = true;
        }
    }
    return true;
}

// At the start of every block but the first; on_final_state sees what the last block left.
static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    (void)s, (void)e;
    if (t0 > 0)
        watch_state(ctx, layer, t0, state, be);
    return true;
}

static bool on_final_state(void *ctx, int layer, mat state, backend *be, err *e) {
    loss_watch *w = ctx;
    (void)e;
    watch_state(w, layer, w->r->n + 1, state, be);
    return true;
}

static void flag_jump(loss_result *r, int64_t row, const double *x, double jump) {
    enum { SPAN = 64 };
    double before = 0, after = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (!isfinite(x[i])) {
            flag(r, row, i, FLAG_NOT_FINITE, "the loss is not finite");
            return;
        }
    // The first tokens of a row are always dear: the watch begins after them. Where the difference
    // of the means passes the bound it goes on growing up to the jump itself: that place is told.
    double best = jump;
    int64_t at = -1;
    for (int64_t i = SPAN; i + 2 * SPAN <= r->n && (at < 0 || i <= at + SPAN); i++) {
        if (i == SPAN)
            for (int64_t j = 0; j < SPAN; j++) {
                before += x[i + j];
                after += x[i + SPAN + j];
            }
        if ((after - before) / SPAN > best) {
            best = (after - before) / SPAN;
            at = i;
        }
        before += x[i + SPAN] - x[i];
        if (i + 2 * SPAN < r->n)
            after += x[i + 2 * SPAN] - x[i + SPAN];
    }
    if (at >= 0) {
        char text[96];
        snprintf(text, sizeof text, "the mean of %d losses jumps by %.2f nats", SPAN, best);
        flag(r, row, at + SPAN, FLAG_JUMP, text);
    }
}

uint64_t loss_ids_mark(uint64_t mark, const int32_t *ids, int64_t n) {
    if (mark == 0)
        mark = 14695981039346656037u;
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 32; b += 8)
            mark = (mark ^ ((uint32_t)ids[i] >> b & 0xff)) * 1099511628211u;
    return mark;
}

// heads and norms. False: *e is filled.
static bool watcher_open(loss_watch *w, const model *m, err *e) {
    int n = m->info.n_layers, most = 1;
    w->be = m->be;
    w->heads = mem_zalloc((size_t)n, sizeof *w->heads, "heads", e);
    if (!w->heads)
        return false;
    for (int L = 0; L < n; L++) {
        const module *mixer = model_mixer(m, L);
        w->heads[L] = mixer ? mixer->heads.H : 0;
        most = w->heads[L] > most ? w->heads[L] : most;
    }
    w->norms = w->be->op->alloc_exact(w->be, n, most);
    return backend_check(w->be, e);
}

loss_watch *loss_watch_new(loss_result *r, int64_t row, const model *m, const int32_t *ids,
                           err *e) {
    loss_watch *w = mem_zalloc(1, sizeof *w, "a reading", e);
    if (!w)
        return NULL;
    *w = (loss_watch){.r = r, .ids = ids, .loss = r->loss + row * r->n, .row = row};
    if (watcher_open(w, m, e))
        return w;
    loss_watch_free(w);
    return NULL;
}

probe loss_watch_probe(loss_watch *w) {
    return (probe){
        .ctx = w, .on_loss = on_loss, .on_steps = on_steps, .on_final_state = on_final_state};
}

bool loss_watch_end(loss_watch *w, double jump, err *e) {
    if (!look_at_states(w, w->be, e))
        return false;
    loss_result *r = w->r;
    r->ids_mark = loss_ids_mark(r->ids_mark, w->ids, r->n + 1);
    flag_jump(r, w->row, w->loss, jump);
    return true;
}

void loss_watch_free(loss_watch *w) {
    if (!w)
        return;
    if (w->be)
        w->be->op->free(w->be, w->norms);
    free(w->heads);
    free(w);
}

bool loss_read_row(loss_result *r, int64_t row, fwd *f, const int32_t *ids, const row_options *opt,
                   double jump, progress_fn progress, void *ctx, err *e) {
    loss_watch *w = loss_watch_new(r, row, f->m, ids, e);
    if (!w)
        return false;
    probe p = loss_watch_probe(w);
    const probe *probes[] = {&p};
    bool ok =
        fwd_row(f, ids, r->n + 1, opt, probes, 1, progress, ctx, e) && loss_watch_end(w, jump, e);
    loss_watch_free(w);
    return ok;
}
