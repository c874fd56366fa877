// Going back to places that a pass has read: finer ranks, window products, half-lives.
#include "cli/dash/lane.h"

#include "analyses/spectrum.h"
#include "analyses/tape.h"
#include "cli/dash/lane_parts.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Going back --------------------------------------------------------------------------------------

// Runs tokens up to `to` (exclusive, read before) with a probe, from a place at or before `from`.
static bool replay(lane *l, int64_t from, int64_t to, int layers, const probe *look, err *e) {
    if (!l->resume && !(l->resume = fwd_point_new(l->f, e)))
        return false;
    // Where f stands may do, and be nearer than any point.
    int64_t here = l->at_layers >= layers ? fwd_tokens(l->f) : -1;
    size_t i = l->n_points;
    while (i > 0 && fwd_point_tokens(l->point[i - 1]) > from)
        i--;
    assert(i > 0);
    bool stay = here >= 0 && here <= from && here >= fwd_point_tokens(l->point[i - 1]);
    if (!stay && !fwd_return(l->f, l->point[i - 1], e))
        return false;
    l->at_layers = layers;
    probe stop = {.ctx = l, .on_hidden = lane_may_go_on};
    const probe *probes[] = {look, &stop};
    while (fwd_tokens(l->f) < to) {
        int64_t most = to - fwd_tokens(l->f);
        if (!fwd_block(l->f, most < l->block ? most : l->block, layers, probes, 2, e)) {
            l->at_layers = 0; // half-way: not a place to go on from
            return false;
        }
    }
    return true;
}

// A place -----------------------------------------------------------------------------------------

typedef struct place {
    lane *l;
    spot *s; // NULL: only the window
    int64_t t, W;
    int head;    // of the window; -1: of all
    tape **tape; // [layers]
} place;

static void put_spot(void *ctx, int head, int64_t i, const float *q) {
    spot *s = ((void **)ctx)[0];
    int first = *(int *)((void **)ctx)[1];
    (void)i;
    memcpy(s->q + (size_t)(first + head) * Q_N, q, Q_N * sizeof *q);
}

static bool place_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                        err *e) {
    place *p = ctx;
    const run *r = p->l->r;
    int first = r->first[layer];
    bool mine = p->W > 0 && (p->head < 0 || r->head[p->head].layer == layer);
    if (mine && t0 + s->T > p->t - p->W + 1) {
        int one = p->head < 0 ? 0 : r->head[p->head].head;
        if (!p->tape[layer] &&
            !(p->tape[layer] = tape_new(&s->s, p->head < 0 ? p->l->all : &one,
                                        p->head < 0 ? s->s.H : 1, p->W, p->l->block, e)))
            return false;
        if (p->l->f->pos == 0)
            tape_clear(p->tape[layer]);
        if (!tape_append(p->tape[layer], be, s, e))
            return false;
    }
    if (!p->s || t0 + s->T != p->t + 1)
        return true;
    void *to[] = {p->s, &first};
    return lane_look(p->l, s, state, p->l->all, s->s.H, (int64_t[]){s->T * s->s.n_h}, 1, put_spot,
                     to, be, e);
}

static bool place_run(place *p, int layers, err *e) {
    int64_t from = p->t - p->W + 1;
    probe look = {.ctx = p, .on_steps = place_steps};
    p->tape = mem_zalloc((size_t)p->l->r->n_layers + 1, sizeof *p->tape, "windows", e);
    if (!p->tape)
        return false;
    // The state after t must come from a block that ends there.
    from = p->s && from > p->t ? p->t : from;
    return replay(p->l, from < 0 ? 0 : from, p->t + 1, layers, &look, e);
}

static void place_free(place *p) {
    for (int i = 0; p->tape && i < p->l->r->n_layers; i++)
        tape_free(p->tape[i]);
    free(p->tape);
}

static bool window(lane *l, const tape *t, int i, int64_t W, spot_window *out, err *e) {
    transitions x = tape_view(t, i);
    backend *be = l->f->be;
    out->eig = mem_alloc((size_t)x.K * 2, sizeof *out->eig, "eigenvalues", e);
    out->cond = mem_alloc((size_t)x.K, sizeof *out->cond, "eigenvalues", e);
    if (!out->eig || !out->cond ||
        !be->op->window_spectrum(be, &x, x.T - 1, W, (complex_f64 *)out->eig, out->cond,
                                 &out->facts, e))
        return false;
    out->K = x.K;
    return true;
}

bool lane_spot(lane *l, spot *s, err *e) {
    const run *r = l->r;
    bool windows = s->W > 0 && (s->all || s->head >= 0);
    if (windows && s->W > s->t + 1) {
        snprintf(s->why, sizeof s->why, "needs t >= %lld", (long long)s->W - 1);
        windows = false;
    }
    place p = {.l = l, .s = s, .t = s->t, .W = windows ? s->W : 0, .head = s->all ? -1 : s->head};
    bool ok = place_run(&p, r->n_layers, e);
    for (int i = 0; ok && windows && i < r->n_heads; i++) {
        if (!s->all && i != s->head)
            continue;
        const tape *t = p.tape[r->head[i].layer];
        if (!t || tape_tokens(t) < s->W) {
            snprintf(s->why, sizeof s->why, "the state is emptied inside the window");
            continue;
        }
        if (l->stop && l->stop(l->stop_ctx))
            ok = err_set(e, ERR_CANCELLED, "stopped");
        err why = {0};
        if (ok && !window(l, t, s->all ? r->head[i].head : 0, s->W, &s->win[i], &why))
            snprintf(s->why, sizeof s->why, "%.159s", why.text);
    }
    place_free(&p);
    return ok;
}

bool lane_mode(lane *l, modes *m, int64_t t, err *e) {
    const run *r = l->r;
    place p = {.l = l, .t = t, .W = m->W, .head = m->head};
    spot_window w = {0};
    bool ok = place_run(&p, r->head[m->head].layer + 1, e);
    const tape *tape = ok ? p.tape[r->head[m->head].layer] : NULL;
    if (tape && tape_tokens(tape) >= m->W) {
        err why = {0};
        if (window(l, tape, 0, m->W, &w, &why)) {
            m->windows++;
            for (int i = 0; i < w.K; i++) {
                double half = spectrum_mode_half_life(hypot(w.eig[2 * i], w.eig[2 * i + 1]),
                                                      w.facts.log_scale, m->W);
                m->n++;
                if (isinf(half)) {
                    m->never++;
                    continue;
                }
                int b = 0;
                while (b + 1 < MODE_BINS && half >= 8.0 * (1 << b))
                    b++;
                m->bin[b]++;
            }
        } else {
            snprintf(m->why, sizeof m->why, "%.159s", why.text);
        }
        free(w.eig);
        free(w.cond);
    }
    place_free(&p);
    return ok;
}

// Finer ranks -------------------------------------------------------------------------------------

int lane_wanted_stride(int64_t tokens) {
    int stride = RANK_EVERY;
    while (stride > 1 && tokens / stride < 512)
        stride /= 4;
    return stride;
}

typedef struct fine_look {
    lane *l;
    const int *heads; // that are to be refined
    int n, stride;
    int64_t from, to; // tokens
} fine_look;

typedef struct fine_put {
    float *cell;
    int64_t t0, first;
    int stride;
} fine_put;

static void put_fine(void *ctx, int head, int64_t i, const float *q) {
    const fine_put *p = ctx;
    (void)head;
    float *cell = p->cell + (p->first + i * p->stride) * Q_N;
    for (int k = 0; k < Q_N; k++)
        if (run_cell(cell + k) == RUN_PENDING)
            run_set_cell(cell + k, q[k]);
}

static bool fine_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                       err *e) {
    const fine_look *x = ctx;
    const run *r = x->l->r;
    int64_t at[RANK_EVERY], n = 0, first = t0 > x->from ? t0 : x->from;
    int64_t end = t0 + s->T < x->to ? t0 + s->T : x->to;
    first = (first + x->stride) / x->stride * x->stride - 1; // t + 1 is a multiple of the stride
    for (int64_t t = first; t < end && n < RANK_EVERY; t += x->stride)
        at[n++] = (t + 1 - t0) * s->s.n_h;
    for (int i = 0; n > 0 && i < x->n; i++) {
        run_head *h = &((run *)r)->head[x->heads[i]];
        if (h->layer != layer)
            continue;
        fine_put p = {atomic_load(&h->fine), t0, first, x->stride};
        if (!lane_look(x->l, s, state, &h->head, 1, at, n, put_fine, &p, be, e))
            return false;
    }
    return true;
}

// Memory for a head's fine ranks. False without an error: there is none to spare.
static bool fine_room(lane *l, int head, err *e) {
    run *r = l->r;
    if (atomic_load(&r->head[head].fine))
        return true;
    size_t n = (size_t)r->T * Q_N;
    if (l->fine_bytes + n * sizeof(float) > l->most_fine)
        return false;
    float *p = mem_alloc(n, sizeof *p, "fine ranks", e);
    if (!p)
        return false;
    for (size_t i = 0; i < n; i++)
        p[i] = RUN_PENDING;
    l->fine_bytes += n * sizeof *p;
    atomic_store_explicit(&r->head[head].fine, p, memory_order_release);
    return true;
}

bool lane_refine(lane *l, const int *heads, int n, int64_t t0, int64_t t1, int finest, bool *done,
                 int64_t *left, int64_t *total, err *e) {
    run *r = l->r;
    int mine[8], m = 0, layers = 0;
    *done = true;
    *left = *total = 0;
    for (int i = 0; i < n && m < 8; i++)
        if (heads[i] >= 0 && heads[i] < r->n_heads && fine_room(l, heads[i], e)) {
            mine[m++] = heads[i];
            layers = r->head[heads[i]].layer + 1 > layers ? r->head[heads[i]].layer + 1 : layers;
        }
    if (e->code != ERR_NONE)
        return false;
    int64_t c0 = t0 / RANK_EVERY, c1 = (t1 + RANK_EVERY - 1) / RANK_EVERY;
    c1 = c1 < l->chunks ? c1 : l->chunks;
    if (m == 0 || c0 >= c1)
        return true;
    int stride = RANK_EVERY;
    int64_t chunk = -1;
    while (chunk < 0 && stride > finest) {
        stride /= 4;
        *left = 0;
        for (int64_t c = c0; c < c1; c++)
            for (int i = 0; i < m; i++)
                if (l->stride[mine[i] * l->chunks + c] > stride) {
                    chunk = chunk < 0 ? c : chunk;
                    ++*left;
                }
    }
    *total = (c1 - c0) * m;
    atomic_store(&r->level, chunk < 0 ? finest : stride * 4);
    if (chunk < 0)
        return true;
    *done = false;
    int todo[8], k = 0;
    for (int i = 0; i < m; i++)
        if (l->stride[mine[i] * l->chunks + chunk] > stride)
            todo[k++] = mine[i];
    int64_t from = chunk * RANK_EVERY, to = from + RANK_EVERY < r->T ? from + RANK_EVERY : r->T;
    fine_look x = {l, todo, k, stride, from, to};
    probe look = {.ctx = &x, .on_steps = fine_steps};
    if (!replay(l, from, to, layers, &look, e))
        return false;
    for (int i = 0; i < k; i++)
        l->stride[todo[i] * l->chunks + chunk] = (uint8_t)stride;
    return true;
}
