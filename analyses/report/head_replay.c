#include "analyses/report/head_replay.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool take(double **to, mat m, backend *be, err *e) {
    *to = NULL;
    if (mat_none(m))
        return true;
    *to = mem_alloc((size_t)(m.rows * m.cols), sizeof **to, "steps of a block", e);
    if (*to)
        be->op->read(be, m, *to);
    return *to && backend_check(be, e);
}

void head_block_free(head_block *x) {
    free(x->k);
    free(x->v);
    free(x->beta);
    free(x->decay);
    free(x->a);
    free(x->b);
    free(x->state);
}

bool head_block_take(head_block *x, const steps *s, int64_t t0, mat state, bool replayed,
                     backend *be, err *e) {
    *x = (head_block){.s = s->s, .T = s->T, .t0 = t0};
    return take(&x->k, s->k, be, e) && take(&x->beta, s->beta, be, e) &&
           take(&x->decay, s->decay, be, e) &&
           (!replayed || (take(&x->v, s->v, be, e) && take(&x->a, s->a, be, e) &&
                          take(&x->b, s->b, be, e) && take(&x->state, state, be, e)));
}

static const double *key_of(const head_block *x, int64_t t, int j, int h) {
    const head_shape *s = &x->s;
    return x->k + ((t * s->n_h + j) * s->Hk + h / (s->H / s->Hk)) * s->K;
}

static double beta_of(const head_block *x, int64_t t, int j, int h) {
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

static void add_gates(const head_block *x, int64_t t, int h, const bin *to, float *gate) {
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

static void add_writes(const head_block *x, int64_t t, int h, const bin *to) {
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
static void decay(const head_block *x, int64_t t, int h, double *H) {
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
static void replay(const head_block *x, int64_t t, int h, double *H, double *r, const bin *to) {
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

bool head_block_run(const head_block *x, int h, layer_sums *sums, const head_stats *out, int at,
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

void head_block_keys(const head_block *x, int hk, layer_sums *sums) {
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
