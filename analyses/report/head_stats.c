#include "analyses/report/head_stats.h"

#include "core/mem.h"

#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Sums of one layer while its row is read.
typedef struct layer_sums {
    double *sum;       // [H, HEAD_SIGNALS, bins]
    int64_t *n;        // the same
    double *second;    // [Hk, K, K] of keys
    double *first;     // [Hk, K]
    int64_t n_keys;    // keys of one head so far
    double *last_norm; // [H] |H| after the last token read; NaN: none
} layer_sums;

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

// ---- one block of one layer ---------------------------------------------------------------------

// Its steps on the host; NULL where a kind has none.
typedef struct block {
    head_shape s;
    int64_t T, t0;
    double *k, *v, *beta, *decay, *a, *b;
    double *state; // [H K, V]
} block;

static bool take(double **to, mat m, backend *be, err *e) {
    *to = NULL;
    if (mat_none(m))
        return true;
    *to = mem_alloc((size_t)(m.rows * m.cols), sizeof **to, "steps of a block", e);
    if (*to)
        be->op->read(be, m, *to);
    return *to && backend_check(be, e);
}

static void block_free(block *x) {
    free(x->k);
    free(x->v);
    free(x->beta);
    free(x->decay);
    free(x->a);
    free(x->b);
    free(x->state);
}

static bool block_take(block *x, const steps *s, int64_t t0, mat state, bool replayed, backend *be,
                       err *e) {
    *x = (block){.s = s->s, .T = s->T, .t0 = t0};
    return take(&x->k, s->k, be, e) && take(&x->beta, s->beta, be, e) &&
           take(&x->decay, s->decay, be, e) &&
           (!replayed || (take(&x->v, s->v, be, e) && take(&x->a, s->a, be, e) &&
                          take(&x->b, s->b, be, e) && take(&x->state, state, be, e)));
}

static const double *key_of(const block *x, int64_t t, int j, int h) {
    const head_shape *s = &x->s;
    return x->k + ((t * s->n_h + j) * s->Hk + h / (s->H / s->Hk)) * s->K;
}

static double beta_of(const block *x, int64_t t, int j, int h) {
    return x->beta ? x->beta[(t * x->s.n_h + j) * x->s.H + h] : 1;
}

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// Where a signal of one head is summed.
typedef struct bin {
    double *sum;
    int64_t *n;
    int64_t bins, at;
} bin;

static void add(const bin *b, head_signal x, double v) {
    if (!isfinite(v))
        return;
    b->sum[x * b->bins + b->at] += v;
    b->n[x * b->bins + b->at]++;
}

static void add_gates(const block *x, int64_t t, int h, const bin *to, float *gate) {
    const head_shape *s = &x->s;
    if (!x->decay)
        return;
    int n = s->decay == DECAY_CHANNEL ? s->K : 1;
    const double *g = x->decay + (t * s->H + h) * n;
    double forget = 0;
    for (int i = 0; i < n; i++) {
        double v = exp(g[i]);
        add(to, HEAD_GATE, v);
        add(to, HEAD_FORGET, -g[i]);
        add(to, HEAD_GATE_OPEN, v >= 0.999);
        add(to, HEAD_GATE_CLOSED, v <= 0.001);
        forget -= g[i];
    }
    if (gate)
        gate[x->t0 + t] = (float)(forget / n);
}

static void add_writes(const block *x, int64_t t, int h, const bin *to) {
    const head_shape *s = &x->s;
    double before = 0;
    for (int j = 0; j < s->n_h; j++) {
        const double *k = key_of(x, t, j, h);
        double kk = dot(k, k, s->K), beta = beta_of(x, t, j, h);
        if (x->beta) {
            add(to, HEAD_BETA, beta);
            if (s->beta_max > 0) {
                add(to, HEAD_BETA_LOW, beta <= 0.01 * s->beta_max);
                add(to, HEAD_BETA_HIGH, beta >= 0.99 * s->beta_max);
            }
        }
        if (s->erase == ERASE_KEY)
            add(to, HEAD_REFLECTING, beta * kk > 1);
        add(to, HEAD_KEY_NORM, sqrt(kk));
        if (j > 0)
            add(to, HEAD_KEY_OVERLAP,
                fabs(dot(k, key_of(x, t, j - 1, h), s->K)) / sqrt(kk * before));
        before = kk;
    }
}

// ---- replay -------------------------------------------------------------------------------------

// H <- D_t H
static void decay(const block *x, int64_t t, int h, double *H) {
    const head_shape *s = &x->s;
    if (!x->decay)
        return;
    double g = s->decay == DECAY_HEAD ? exp(x->decay[t * s->H + h]) : 0;
    for (int i = 0; i < s->K; i++) {
        double w = s->decay == DECAY_HEAD ? g : exp(x->decay[(t * s->H + h) * s->K + i]);
        for (int c = 0; c < s->V; c++)
            H[i * s->V + c] *= w;
    }
}

// r = H^T k
static void recall(const double *H, const double *k, int K, int V, double *r) {
    memset(r, 0, (size_t)V * sizeof *r);
    for (int i = 0; i < K; i++) {
        const double *row = H + i * V, x = k[i];
        for (int c = 0; c < V; c++)
            r[c] += x * row[c];
    }
}

// H <- H + beta k v^T
static void write(double *H, double beta, const double *k, const double *v, int K, int V) {
    for (int i = 0; i < K; i++) {
        double *row = H + i * V, x = beta * k[i];
        for (int c = 0; c < V; c++)
            row[c] += x * v[c];
    }
}

// One token; r: V numbers of scratch.
static void replay(const block *x, int64_t t, int h, double *H, double *r, const bin *to) {
    const head_shape *s = &x->s;
    int K = s->K, V = s->V;
    if (s->erase == ERASE_PAIR) // b reads the undecayed state
        recall(H, x->b + (t * s->Hk + h / (s->H / s->Hk)) * K, K, V, r);
    decay(x, t, h, H);
    if (s->erase == ERASE_PAIR)
        write(H, 1, x->a + (t * s->H + h) * K, r, K, V);
    for (int j = 0; j < s->n_h; j++) {
        const double *k = key_of(x, t, j, h), *v = x->v + ((t * s->n_h + j) * s->H + h) * V;
        double beta = beta_of(x, t, j, h);
        if (s->erase == ERASE_KEY) {
            recall(H, k, K, V, r);
            for (int c = 0; c < V; c++)
                r[c] = v[c] - r[c];
            double error = sqrt(dot(r, r, V));
            add(to, HEAD_DELTA_LOSS, error / sqrt(dot(v, v, V)));
            add(to, HEAD_WRITE_SIZE, beta * error);
            v = r;
        }
        write(H, beta, k, v, K, V);
    }
}

// One head through a block; at: its layer's place in *out.
static bool run_head(const block *x, int h, layer_sums *sums, const head_stats *out, int at,
                     bool replayed, err *e) {
    const head_shape *s = &x->s;
    int64_t bins = out->bins;
    float *gate = out->gate && out->gate[at] ? out->gate[at] + h * out->T : NULL;
    float *step = out->step ? out->step[at] + h * out->T : NULL;
    double *H = x->state ? x->state + (int64_t)h * s->K * s->V : NULL;
    double *r = mem_alloc((size_t)s->V, sizeof *r, "scratch", e);
    if (!r)
        return false;
    bin to = {sums->sum + (int64_t)h * HEAD_SIGNALS * bins,
              sums->n + (int64_t)h * HEAD_SIGNALS * bins, bins, 0};
    for (int64_t t = 0; t < x->T; t++) {
        to.at = (x->t0 + t) / out->every;
        add_gates(x, t, h, &to, gate);
        add_writes(x, t, h, &to);
        if (!replayed)
            continue;
        replay(x, t, h, H, r, &to);
        if (step) {
            double norm = sqrt(dot(H, H, s->K * s->V)), grown = log(norm) - log(sums->last_norm[h]);
            step[x->t0 + t] = isfinite(grown) ? (float)grown : NAN;
            sums->last_norm[h] = norm;
        }
    }
    free(r);
    return true;
}

static void add_keys(const block *x, int hk, layer_sums *sums) {
    const head_shape *s = &x->s;
    int K = s->K;
    double *second = sums->second + (int64_t)hk * K * K, *first = sums->first + (int64_t)hk * K;
    for (int64_t i = 0; i < x->T * s->n_h; i++) {
        const double *k = x->k + (i * s->Hk + hk) * K;
        for (int a = 0; a < K; a++) {
            first[a] += k[a];
            double *row = second + (int64_t)a * K, v = k[a];
            for (int b = 0; b <= a; b++)
                row[b] += v * k[b];
        }
    }
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
    block x;
    bool ok = block_take(&x, s, t0, state, replayed, be, e);
    if (ok) {
        int jobs = s->s.H + s->s.Hk;
#pragma omp parallel for schedule(dynamic) if (be->threads > 1)
        for (int i = 0; i < jobs; i++) {
            err mine = {0};
            if (i >= s->s.H) {
                add_keys(&x, i - s->s.H, sums);
            } else if (!run_head(&x, i, sums, r, at, replayed, &mine)) {
#pragma omp critical(head_stats_error)
                {
                    ok = false;
                    err_set(e, mine.code, "%s", mine.text);
                }
            }
        }
        sums->n_keys += s->T * s->s.n_h;
    }
    block_free(&x);
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
