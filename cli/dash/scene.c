#include "cli/dash/scene.h"

#include "analyses/spectrum.h"
#include "core/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

scene scene_make(const dash *d, const snap *s, const live *live, int rows, int cols, bool gpu) {
    scene x = {.d = d, .s = s, .live = live, .head = -1};
    x.l = layout_make(rows, cols, d->open, d->focus, d->zoom, gpu);
    x.r = d->in.slot < MODELS_MOST ? s->shown[d->in.slot] : NULL;
    x.T = d->T;
    x.t = d->t;
    x.t0 = d->t0;
    x.t1 = dash_t1(d);
    if (!x.r)
        return x;
    x.text = x.r->of;
    x.read = run_read(x.r);
    x.stale = x.r->generation != d->want.generation;
    for (int i = 0; i < d->in.n_models; i++)
        x.bytes |= s->base[i] && s->base[0] && s->base[i]->of->mark != s->base[0]->of->mark &&
                   s->base[i]->of->offset && s->base[0]->of->offset;
    x.head = run_find(x.r, d->layer, d->head);
    if (x.head >= 0)
        x.heads[x.n_heads++] = x.head;
    for (int i = 0; i < d->n_marks; i++) {
        int h = run_find(x.r, d->mark[i].layer, d->mark[i].head);
        if (h >= 0 && h != x.head)
            x.heads[x.n_heads++] = h;
    }
    if (s->spot && s->spot->slot == d->in.slot && s->spot->generation == x.r->generation)
        x.spot = s->spot;
    return x;
}

double scene_rank(const scene *x, int head, quantity q, int64_t t, int64_t *at) {
    if (x->spot && x->spot->t == t && head < x->spot->n_heads) {
        *at = t;
        return x->spot->q[head * Q_N + q];
    }
    return run_rank(x->r, head, q, t, at);
}

const spot_window *scene_window(const scene *x, int head) {
    // While the cursor runs along with the pass, the last place that was looked at stands for it.
    bool running = x->d->follow && x->read < x->T;
    if (!x->spot || head < 0 || head >= x->spot->n_heads || (x->spot->t != x->t && !running) ||
        x->spot->W != x->d->look.W || x->spot->win[head].K == 0)
        return NULL;
    return &x->spot->win[head];
}

// Means over samples of effective rank after tokens (from, to].
static double mean_rank(const run *r, int head, int64_t from, int64_t to) {
    double sum = 0;
    int64_t n = 0, most = atomic_load_explicit(&((run *)r)->sampled, memory_order_acquire);
    for (int64_t i = from / RANK_EVERY; i < most; i++) {
        int64_t t = run_base_token(r, i);
        double v = r->head[head].base[i * Q_N + Q_ERANK];
        if (t < from || t >= to || isnan(v))
            continue;
        sum += v;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

static double growth(const scene *x, int head, char *state) {
    const card *c = dash_card(x->d);
    int64_t L = c ? c->train_length : 0;
    if (L < 2 || x->T <= L) {
        *state = '-';
        return NAN;
    }
    if (x->read <= L + RANK_EVERY) {
        *state = '?';
        return NAN;
    }
    return mean_rank(x->r, head, L, x->T) / mean_rank(x->r, head, L / 2, L);
}

enum { MEAN_OF = 512 };

// Mean of a gate over the view, of at most MEAN_OF tokens evenly spread.
static double gate_mean(const scene *x, const float *v, int rows, char *state) {
    if (!v) {
        *state = '-';
        return NAN;
    }
    int64_t to = x->t1 < x->read ? x->t1 : x->read, n = to - x->t0;
    if (n <= 0) {
        *state = '?';
        return NAN;
    }
    double sum = 0;
    int64_t k = n < MEAN_OF ? n : MEAN_OF;
    for (int64_t i = 0; i < k; i++)
        for (int j = 0; j < rows; j++)
            sum += v[j * x->r->stored + (x->t0 + i * n / k) / x->r->every];
    return sum / (double)(k * rows);
}

static double tried(const scene *x, int head, char *state) {
    const run_head *h = &x->r->head[head];
    for (int i = x->s->n_effects - 1; i >= 0; i--) {
        const effect *f = &x->s->effects[i];
        if (f->n_off == 1 && f->off[0].layer == h->layer && f->off[0].head == h->head)
            return f->mean[1];
    }
    *state = '?';
    return NAN;
}

// The median over modes as analyses/spectrum_stats.c takes it: what is lost in rounding is short, by no known
// measure.
static double half_life(const scene *x, const spot_window *w, int head, char *state) {
    if (!spectrum_window_tells(&x->r->head[head].s, x->spot->W)) {
        *state = '-';
        return NAN;
    }
    double v[1024];
    int n = w->K < 1024 ? w->K : 1024;
    const double noise = spectrum_noise(&x->r->head[head].s, &w->facts);
    int lost = 0;
    for (int i = 0; i < n; i++) {
        double modulus = hypot(w->eig[2 * i], w->eig[2 * i + 1]);
        bool known = modulus > noise || modulus == 0;
        v[i] = known ? spectrum_mode_half_life(modulus, w->facts.log_scale, x->spot->W) : 0;
        lost += !known;
    }
    double median = order_median(v, (size_t)n);
    if (2 * lost < n)
        return median;
    *state = '-';
    return NAN;
}

double scene_metric(const scene *x, metric m, int head, char *state) {
    int64_t at = -1;
    double v = NAN;
    const run_head *h = &x->r->head[head];
    const spot_window *w;
    *state = 0;
    switch (m) {
    case METRIC_ERANK:
    case METRIC_NORM:
        v = scene_rank(x, head, m == METRIC_ERANK ? Q_ERANK : Q_NORM, x->t, &at);
        *state = at < 0 ? '?' : 0;
        break;
    case METRIC_GROWTH:
        v = growth(x, head, state);
        break;
    case METRIC_GATE:
        v = gate_mean(x, h->decay, 1, state);
        break;
    case METRIC_BETA:
        v = gate_mean(x, h->beta, h->s.n_h, state);
        break;
    case METRIC_RHO:
    case METRIC_HALF:
        w = scene_window(x, head);
        if (!w)
            *state = '?';
        else if (m == METRIC_RHO)
            v = w->facts.radius * exp(w->facts.log_scale);
        else
            v = half_life(x, w, head, state);
        break;
    case METRIC_ABL:
        v = tried(x, head, state);
        break;
    case METRICS:
        break;
    }
    return v;
}

const char *scene_head_name(const scene *x, int head, char *buf, size_t size) {
    if (!x->r || head < 0)
        snprintf(buf, size, "no head");
    else
        snprintf(buf, size, "L%d.H%d", x->r->head[head].layer, x->r->head[head].head);
    return buf;
}
