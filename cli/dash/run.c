#include "cli/dash/run.h"

#include "analyses/rank.h"
#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

static void reading_drop(run *r) {
    shared_drop(r->of);
}

static void run_free(void *p) {
    run *r = p;
    for (int i = 0; r->head && i < r->n_heads; i++) {
        run_head *h = &r->head[i];
        free(h->beta);
        free(h->decay);
        free(h->least);
        free(h->angle);
        free(h->base);
        free(atomic_load(&h->fine));
    }
    free(r->head);
    free(r->first);
    free(r->linear);
    free(r->loss);
    free(r->sum);
    free(r->odd);
    reading_drop(r);
    free(r);
}

// Rows of gates that a head keeps.
static int gate_rows(const head_shape *s) {
    int rows = s->beta_max > 0 ? s->n_h : 0;
    rows += s->decay != DECAY_NONE ? 1 : 0;
    rows += s->decay == DECAY_CHANNEL ? 1 : 0;
    return rows + (s->n_h > 1 ? s->n_h - 1 : 1);
}

static bool alloc_head(run *r, run_head *h, err *e) {
    size_t n = (size_t)r->stored;
    bool ok = true;
    if (h->s.beta_max > 0)
        ok = (h->beta = mem_zalloc(n * (size_t)h->s.n_h, sizeof(float), "write strengths", e));
    if (ok && h->s.decay != DECAY_NONE)
        ok = (h->decay = mem_zalloc(n, sizeof(float), "decays", e));
    if (ok && h->s.decay == DECAY_CHANNEL)
        ok = (h->least = mem_zalloc(n, sizeof(float), "decays", e));
    size_t angles = h->s.n_h > 1 ? (size_t)h->s.n_h - 1 : 1;
    ok = ok && (h->angle = mem_zalloc(n * angles, sizeof(float), "angles", e));
    return ok && (h->base = mem_zalloc((size_t)r->n_base * Q_N, sizeof(float), "ranks", e));
}

static bool list_heads(run *r, const model *m, err *e) {
    r->n_layers = m->info.n_layers;
    r->first = mem_zalloc((size_t)r->n_layers + 1, sizeof *r->first, "layers", e);
    r->linear = mem_zalloc((size_t)r->n_layers, sizeof *r->linear, "layers", e);
    if (!r->first || !r->linear)
        return false;
    for (int L = 0; L < r->n_layers; L++) {
        const module *x = model_mixer(m, L);
        r->linear[L] = x != NULL;
        r->n_heads += x ? x->heads.H : 0;
        r->first[L + 1] = r->n_heads;
    }
    r->head = mem_zalloc((size_t)r->n_heads + 1, sizeof *r->head, "heads", e);
    for (int L = 0; r->head && L < r->n_layers; L++)
        for (int i = r->first[L]; i < r->first[L + 1]; i++)
            r->head[i] =
                (run_head){.layer = L, .head = i - r->first[L], .s = model_mixer(m, L)->heads};
    return r->head != NULL;
}

run *run_new(const model *m, reading *of, int slot, int generation, const head_ref *off, int n_off,
             int64_t most_bytes, err *e) {
    run *r = mem_zalloc(1, sizeof *r, "a reading", e);
    if (!r)
        return NULL;
    shared_init(&r->ref, run_free);
    r->of = shared_take(of);
    r->T = of->T;
    r->slot = slot;
    r->generation = generation;
    r->n_off = n_off;
    if (n_off)
        memcpy(r->off, off, (size_t)n_off * sizeof *off);
    r->device = m->be->device;
    r->prec = m->be->prec;
    r->n_base = (r->T + RANK_EVERY - 1) / RANK_EVERY;
    if (!list_heads(r, m, e))
        goto fail;
    int64_t a_token = 0;
    for (int i = 0; i < r->n_heads; i++)
        a_token += gate_rows(&r->head[i].s) * (int64_t)sizeof(float);
    for (r->every = 1; a_token * (r->T / r->every) > most_bytes;)
        r->every *= 2;
    r->stored = (r->T + r->every - 1) / r->every;
    size_t T = (size_t)r->T;
    r->loss = mem_alloc(T + 1, sizeof *r->loss, "losses", e);
    r->sum = mem_zalloc(T + 1, sizeof *r->sum, "losses", e);
    r->odd = mem_zalloc(T + 1, sizeof *r->odd, "losses", e);
    if (!r->loss || !r->sum || !r->odd)
        goto fail;
    for (size_t t = 0; t < T; t++)
        r->loss[t] = NAN;
    for (int i = 0; i < r->n_heads; i++)
        if (!alloc_head(r, &r->head[i], e))
            goto fail;
    atomic_init(&r->level, RANK_EVERY);
    return r;
fail:
    shared_drop(r);
    return NULL;
}

int run_find(const run *r, int layer, int head) {
    if (layer < 0 || layer >= r->n_layers || head < 0 ||
        r->first[layer] + head >= r->first[layer + 1])
        return -1;
    return r->first[layer] + head;
}

double run_rank(const run *r, int head, quantity q, int64_t t, int64_t *at) {
    const run_head *h = &r->head[head];
    int64_t n = atomic_load_explicit(&((run *)r)->sampled, memory_order_acquire);
    int64_t i = (t + 1) / RANK_EVERY - 1; // last whole sample at or before t
    if (n > 0 && n == r->n_base && t >= r->T - 1)
        i = n - 1;
    i = i < n ? i : n - 1;
    int64_t from = i >= 0 ? run_base_token(r, i) : -1;
    const float *fine = atomic_load_explicit(&((run_head *)h)->fine, memory_order_acquire);
    for (int64_t k = t; fine && k > from && k > t - RANK_EVERY; k--) {
        float v = run_cell(fine + k * Q_N + q);
        if (v != RUN_PENDING) {
            *at = k;
            return v;
        }
    }
    *at = from;
    return from >= 0 ? h->base[i * Q_N + q] : NAN;
}

double run_loss_mean(const run *r, int64_t t, int64_t h, int64_t read) {
    int64_t from = t - h < 1 ? 1 : t - h, to = t + h + 1 < read ? t + h + 1 : read;
    if (from >= to || r->odd[to] != r->odd[from])
        return NAN;
    return h == 0 ? r->loss[t] : (r->sum[to] - r->sum[from]) / (double)(to - from);
}

double run_loss_so_far(const run *r) {
    int64_t n = run_read(r);
    int64_t good = n - r->odd[n];
    return good > 0 ? r->sum[n] / (double)good : NAN;
}

void run_quantities(const double *sv, int n, double norm, double cut, float *out) {
    double sum = rank_nuclear(sv, n), part = 0;
    out[Q_ERANK] = (float)rank_effective(sv, n, cut);
    out[Q_NORM] = (float)norm;
    out[Q_STABLE] = (float)rank_stable(sv, n);
    out[Q_COND] = (float)log10(rank_condition(sv, n));
    static const int upto[] = {1, 4, 16, 1 << 30};
    for (int k = 0, i = 0; k < 4; k++) {
        int had = i;
        for (part = 0; i < n && i < upto[k]; i++)
            part += sv[i];
        out[Q_S1 + k] = i == had || !(sum > 0) ? NAN : (float)(part / sum);
    }
}

static void spot_free(void *p) {
    spot *s = p;
    for (int i = 0; s->win && i < s->n_heads; i++) {
        free(s->win[i].eig);
        free(s->win[i].cond);
    }
    free(s->win);
    free(s->q);
    free(s);
}

spot *spot_new(int n_heads, err *e) {
    spot *s = mem_zalloc(1, sizeof *s, "a place", e);
    if (!s)
        return NULL;
    shared_init(&s->ref, spot_free);
    s->n_heads = n_heads;
    s->q = mem_alloc((size_t)n_heads * Q_N + 1, sizeof *s->q, "a place", e);
    s->win = mem_zalloc((size_t)n_heads + 1, sizeof *s->win, "a place", e);
    if (s->q && s->win) {
        for (int i = 0; i < n_heads * Q_N; i++)
            s->q[i] = NAN;
        return s;
    }
    shared_drop(s);
    return NULL;
}
