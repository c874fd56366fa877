#include "analyses/report/head_stats.h"

#include "analyses/report/head_replay.h"

#include "core/mem.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct head_pass {
    head_stats *s;
    int n_model_layers;
    int *place; // [n_model_layers]: index into *s, -1
    layer_sums *sums;
};

// ---- results ------------------------------------------------------------------------------------

void head_stats_drop_traces(head_stats *s) {
    for (int i = 0; i < s->n_layers; i++) {
        if (s->gate)
            free(s->gate[i]);
        if (s->step)
            free(s->step[i]);
    }
    free(s->gate);
    free(s->step);
    s->gate = s->step = NULL;
}

void head_stats_free(head_stats *s) {
    head_stats_drop_traces(s);
    for (int i = 0; i < s->n_layers; i++) {
        if (s->mean)
            free(s->mean[i]);
        if (s->keys)
            free(s->keys[i]);
    }
    free(s->layer);
    free(s->shape);
    free(s->mean);
    free(s->keys);
    *s = (head_stats){0};
}

static double *nans(size_t n, const char *what, err *e) {
    double *v = mem_alloc(n, sizeof *v, what, e);
    for (size_t i = 0; v && i < n; i++)
        v[i] = NAN;
    return v;
}

static float *trace(const head_shape *s, int64_t T, err *e) {
    size_t n = (size_t)s->H * (size_t)T;
    float *v = mem_alloc(n, sizeof *v, "a trace of every token and head", e);
    for (size_t i = 0; v && i < n; i++)
        v[i] = NAN;
    return v;
}

static bool open_layer(head_stats *s, int i, bool traces, err *e) {
    const head_shape *h = &s->shape[i];
    s->mean[i] = nans((size_t)h->H * HEAD_SIGNALS * (size_t)s->bins, "statistics of heads", e);
    s->keys[i] = nans((size_t)h->H * HEAD_KEY_SHAPES, "statistics of heads", e);
    if (!s->mean[i] || !s->keys[i])
        return false;
    if (!traces)
        return true;
    if (h->decay != DECAY_NONE && !(s->gate[i] = trace(h, s->T, e)))
        return false;
    return (s->step[i] = trace(h, s->T, e)) != NULL;
}

bool head_stats_open(head_stats *s, const model *m, int64_t T, int64_t every, bool traces, err *e) {
    *s = (head_stats){.T = T, .every = every, .bins = (T + every - 1) / every};
    size_t L = (size_t)m->info.n_layers;
    s->layer = mem_alloc(L, sizeof *s->layer, "layers", e);
    s->shape = mem_alloc(L, sizeof *s->shape, "layers", e);
    s->mean = mem_zalloc(L, sizeof *s->mean, "layers", e);
    s->keys = mem_zalloc(L, sizeof *s->keys, "layers", e);
    s->gate = traces ? mem_zalloc(L, sizeof *s->gate, "layers", e) : NULL;
    s->step = traces ? mem_zalloc(L, sizeof *s->step, "layers", e) : NULL;
    bool ok = s->layer && s->shape && s->mean && s->keys && (!traces || (s->gate && s->step));
    for (int i = 0; ok && i < m->info.n_layers; i++) {
        const module *x = model_mixer(m, i);
        if (!x)
            continue;
        s->layer[s->n_layers] = i;
        s->shape[s->n_layers] = x->heads;
        ok = open_layer(s, s->n_layers++, traces, e);
    }
    if (!ok)
        head_stats_free(s);
    return ok;
}

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    head_pass *p = ctx;
    int at = p->place[layer];
    if (at < 0)
        return true;
    head_stats *r = p->s;
    layer_sums *sums = &p->sums[at];
    bool replayed = s->s.erase == ERASE_KEY || r->step;
    head_block x;
    bool ok = head_block_take(&x, s, t0, state, replayed, be, e);
    if (ok) {
        int jobs = s->s.H + s->s.Hk;
#pragma omp parallel for schedule(dynamic) if (be->threads > 1)
        for (int i = 0; i < jobs; i++) {
            err mine = {0};
            if (i >= s->s.H) {
                head_block_keys(&x, i - s->s.H, sums);
            } else if (!head_block_run(&x, i, sums, r, at, replayed, &mine)) {
#pragma omp critical(head_stats_error)
                {
                    ok = false;
                    err_set(e, mine.code, "%s", mine.text);
                }
            }
        }
        sums->n_keys += s->T * s->s.n_h;
    }
    head_block_free(&x);
    return ok;
}

// ---- the pass -----------------------------------------------------------------------------------

static bool sums_open(layer_sums *x, const head_shape *h, int64_t bins, err *e) {
    size_t n = (size_t)h->H * HEAD_SIGNALS * (size_t)bins, K = (size_t)h->K;
    x->sum = mem_zalloc(n, sizeof *x->sum, "statistics of heads", e);
    x->n = mem_zalloc(n, sizeof *x->n, "statistics of heads", e);
    x->second = mem_zalloc((size_t)h->Hk * K * K, sizeof *x->second, "statistics of keys", e);
    x->first = mem_zalloc((size_t)h->Hk * K, sizeof *x->first, "statistics of keys", e);
    x->last_norm = nans((size_t)h->H, "norms", e);
    return x->sum && x->n && x->second && x->first && x->last_norm;
}

head_pass *head_pass_new(head_stats *s, const model *m, err *e) {
    head_pass *p = mem_zalloc(1, sizeof *p, "statistics of heads", e);
    if (!p)
        return NULL;
    p->s = s;
    p->n_model_layers = m->info.n_layers;
    p->place = mem_alloc((size_t)m->info.n_layers, sizeof *p->place, "layers", e);
    p->sums = mem_zalloc((size_t)s->n_layers, sizeof *p->sums, "layers", e);
    bool ok = p->place && p->sums;
    for (int i = 0; ok && i < m->info.n_layers; i++)
        p->place[i] = -1;
    for (int i = 0; ok && i < s->n_layers; i++) {
        p->place[s->layer[i]] = i;
        ok = sums_open(&p->sums[i], &s->shape[i], s->bins, e);
    }
    if (ok)
        return p;
    head_pass_free(p);
    return NULL;
}

probe head_pass_probe(head_pass *p) {
    return (probe){.ctx = p, .on_steps = on_steps};
}

// Eigenvalues of the symmetric a [K, K] (lower triangle; destroyed) -> share of the largest three and
// the rank.
static bool shape_of(double *a, int K, double *w, double *top3, double *rank, err *e) {
    if (LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'N', 'L', K, a, K, w) != 0)
        return err_set(e, ERR_NUMERIC, "the eigenvalues of a symmetric matrix did not converge");
    double all = 0, entropy = 0, top = 0;
    for (int i = 0; i < K; i++)
        all += w[i] > 0 ? w[i] : 0; // rounding leaves the smallest a little below 0
    for (int i = 0; i < K; i++) {
        double part = w[i] > 0 ? w[i] / all : 0;
        entropy -= part > 0 ? part * log(part) : 0;
        top += i >= K - 3 ? part : 0;
    }
    *top3 = all > 0 ? top : NAN;
    *rank = all > 0 ? exp(entropy) : NAN;
    return true;
}

static bool key_shapes(const layer_sums *x, const head_shape *s, double *out, err *e) {
    int K = s->K;
    size_t KK = (size_t)K * (size_t)K;
    double *a = mem_alloc(KK, sizeof *a, "moments of keys", e);
    double *w = mem_alloc((size_t)K, sizeof *w, "moments of keys", e);
    bool ok = a && w;
    for (int hk = 0; ok && hk < s->Hk; hk++) {
        double shape[HEAD_KEY_SHAPES] = {NAN, NAN, NAN}, unused, n = (double)x->n_keys;
        const double *second = x->second + (size_t)hk * KK, *first = x->first + hk * K;
        bool finite = true;
        for (size_t i = 0; i < KK; i++)
            finite = finite && isfinite(second[i]);
        if (finite && x->n_keys) {
            memcpy(a, second, KK * sizeof *a);
            ok = shape_of(a, K, w, &shape[HEAD_KEY_TOP3], &shape[HEAD_KEY_RANK], e);
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++)
                    a[i * K + j] = second[i * K + j] - first[i] * first[j] / n;
            ok = ok && shape_of(a, K, w, &shape[HEAD_KEY_TOP3_CENTRED], &unused, e);
        }
        int group = s->H / s->Hk;
        for (int h = hk * group; h < (hk + 1) * group; h++)
            memcpy(out + h * HEAD_KEY_SHAPES, shape, sizeof shape);
    }
    free(a);
    free(w);
    return ok;
}

bool head_pass_end(head_pass *p, err *e) {
    for (int i = 0; i < p->s->n_layers; i++) {
        const layer_sums *x = &p->sums[i];
        int64_t n = p->s->shape[i].H * (int64_t)HEAD_SIGNALS * p->s->bins;
        for (int64_t k = 0; k < n; k++)
            p->s->mean[i][k] = x->n[k] ? x->sum[k] / (double)x->n[k] : NAN;
        if (!key_shapes(x, &p->s->shape[i], p->s->keys[i], e))
            return false;
    }
    return true;
}

void head_pass_free(head_pass *p) {
    if (!p)
        return;
    for (int i = 0; p->sums && i < p->s->n_layers; i++) {
        free(p->sums[i].sum);
        free(p->sums[i].n);
        free(p->sums[i].second);
        free(p->sums[i].first);
        free(p->sums[i].last_norm);
    }
    free(p->sums);
    free(p->place);
    free(p);
}
