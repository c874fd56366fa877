// Two models on the same tokens, in few numbers.
#include "analyses/contrast.h"

#include "analyses/loss.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double mean(const double *v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += v[i];
    return isnan(sum) ? NAN : sum / (double)n; // without the sign that processors give it
}

static bool stretch(const contrast *c, const contrast_options *o, int64_t from, int64_t to,
                    double *x, double *y, contrast_stretch *s, err *e) {
    int64_t n = c->rows * (to - from), agree = 0;
    *s = (contrast_stretch){.from = from, .to = to, .kl = NAN};
    if (c->kl) {
        loss_gather(c->kl, c->rows, c->n, from, to, x);
        s->kl = mean(x, n);
    }
    loss_gather(c->loss[0].loss, c->rows, c->n, from, to, x);
    loss_gather(c->loss[1].loss, c->rows, c->n, from, to, y);
    s->loss[0] = mean(x, n);
    s->loss[1] = mean(y, n);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = from; i < to; i++)
            agree += c->same_best[r * c->n + i];
    s->agree = (double)agree / (double)n;
    return resample_paired(x, y, n, 0, o->resamples, o->seed, &s->change, e);
}

static bool stretches(contrast *c, const contrast_options *o, err *e) {
    size_t all = (size_t)(c->rows * c->n);
    double *x = mem_alloc(all, sizeof *x, "losses", e), *y = mem_alloc(all, sizeof *y, "losses", e);
    bool ok = x && y;
    c->n_stretches = (int)c->loss[0].n_stretches + 1;
    for (int i = 0; ok && i < c->n_stretches; i++) {
        bool whole = i == c->n_stretches - 1;
        ok = stretch(c, o, whole ? 0 : c->loss[0].stretch[i].from,
                     whole ? c->n : c->loss[0].stretch[i].to, x, y, &c->stretch[i], e);
    }
    free(x);
    free(y);
    return ok;
}

static void find_largest(contrast *c) {
    c->kl_largest = NAN;
    for (int64_t i = 0; c->kl && i < c->rows * c->n; i++)
        if (isnan(c->kl_largest) || c->kl[i] > c->kl_largest) {
            c->kl_largest = c->kl[i];
            c->kl_row = i / c->n;
            c->kl_at = i % c->n;
        }
}

// Mean over the samples of the second half of all rows; of logarithms for norms.
static double second_half(const erank_result *r, erank_quantity q, int layer, int head) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t row = 0; row < r->rows; row++) {
        const double *v = erank_line(r, q, row, layer, head);
        for (int64_t i = r->positions / 2; i < r->positions; i++) {
            double x = q == ERANK_NORM ? log(v[i]) : v[i];
            if (!isfinite(x))
                continue;
            sum += x;
            n++;
        }
    }
    double m = n ? sum / (double)n : NAN;
    return q == ERANK_NORM ? exp(m) : m;
}

static int place(const int *list, int n, int x) {
    for (int i = 0; i < n; i++)
        if (list[i] == x)
            return i;
    return -1;
}

static const spectrum_layer *spectrum_of(const spectrum_result *r, int layer, int *at) {
    for (*at = 0; *at < r->n_layers; (*at)++)
        if (r->layer[*at].layer == layer)
            return &r->layer[*at];
    return NULL;
}

static bool fill_head(const contrast *c, int i, contrast_head *h, err *e) {
    const erank_result *r = &c->erank[i];
    int L = place(r->layer, r->n_layers, h->layer), H = place(r->head, r->n_heads, h->head), at;
    h->erank[i] = second_half(r, ERANK_RANK, L, H);
    h->norm[i] = second_half(r, ERANK_NORM, L, H);
    h->half_life[i] = NAN;
    const spectrum_layer *s = spectrum_of(&c->spectrum[i], h->layer, &at);
    for (int k = 0; s && k < s->n_heads; k++) {
        spectrum_summary sum;
        if (s->head[k].head != h->head)
            continue;
        if (!spectrum_summarise(&c->spectrum[i], at, k, &sum, e))
            return false;
        h->half_life[i] = sum.half_life;
    }
    return true;
}

// Does layer L of the model have this head?
static bool has_head(const model *m, int layer, int head) {
    const module *x = layer < m->info.n_layers ? model_mixer(m, layer) : NULL;
    return x && head < x->heads.H;
}

static bool heads(contrast *c, const model *const m[2], err *e) {
    const erank_result *a = &c->erank[0];
    if (!c->states[0] || !c->states[1])
        return true;
    c->head = mem_zalloc((size_t)a->n_layers * (size_t)a->n_heads + 1, sizeof *c->head, "heads", e);
    if (!c->head)
        return false;
    for (int L = 0; L < a->n_layers; L++)
        for (int H = 0; H < a->n_heads; H++) {
            contrast_head *h = &c->head[c->n_heads];
            *h = (contrast_head){.layer = a->layer[L], .head = a->head[H]};
            if (!has_head(m[0], h->layer, h->head) || !has_head(m[1], h->layer, h->head))
                continue;
            if (!fill_head(c, 0, h, e) || !fill_head(c, 1, h, e))
                return false;
            c->n_heads++;
        }
    return true;
}

bool contrast_summarise(contrast *c, const model *const m[2], const contrast_options *o, err *e) {
    find_largest(c);
    return stretches(c, o, e) && heads(c, m, e);
}
