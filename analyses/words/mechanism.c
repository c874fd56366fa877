#include "analyses/words/mechanism.h"

#include "analyses/tape.h"
#include "analyses/words/mechanism_fit.h"
#include "core/mem.h"
#include "core/random.h"
#include "kernels/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, LEAST_TOKENS = 512, MOST_TOKENS = 8192, MOST_CONTEXTS = 32 };

// ---- reading one word -----------------------------------------------------------------------------------

typedef struct layer_tape {
    int layer;
    head_shape s;
    tape *t;
    double *cov; // [H, K, K] sum of H H^T over the states that blocks start from
} layer_tape;

typedef struct gather {
    layer_tape *l;
    int n;
    int64_t tokens;
} gather;

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    gather *g = ctx;
    layer_tape *l = g->l;
    while (l->layer != layer)
        l++;
    int64_t K = s->s.K, V = s->s.V;
    if (t0 > 0) {
        double *h = mem_alloc((size_t)(state.rows * state.cols), sizeof *h, "states", e);
        if (!h)
            return false;
        be->op->read(be, state, h);
        for (int64_t head = 0; head < s->s.H; head++)
            for (int64_t i = 0; i < K; i++)
                for (int64_t j = 0; j < K; j++)
                    for (int64_t v = 0; v < V; v++)
                        l->cov[(head * K + i) * K + j] +=
                            h[(head * K + i) * V + v] * h[(head * K + j) * V + v];
        free(h);
    }
    return tape_append(l->t, be, s, e);
}

static void gather_free(gather *g) {
    for (int i = 0; g->l && i < g->n; i++) {
        tape_free(g->l[i].t);
        free(g->l[i].cov);
    }
    free(g->l);
}

static bool gather_new(gather *g, const model *m, int64_t tokens, err *e) {
    *g = (gather){.tokens = tokens};
    g->l = mem_zalloc((size_t)m->info.n_layers, sizeof *g->l, "layers", e);
    for (int L = 0; g->l && L < m->info.n_layers; L++) {
        const module *x = model_mixer(m, L);
        if (!x)
            continue;
        int heads[1024], H = x->heads.H < 1024 ? x->heads.H : 1024;
        for (int h = 0; h < H; h++)
            heads[h] = h;
        layer_tape *l = &g->l[g->n++];
        *l = (layer_tape){.layer = L, .s = x->heads};
        l->s.H = H;
        l->t = tape_new(&x->heads, heads, H, tokens, BLOCK, e);
        l->cov = mem_zalloc((size_t)H * (size_t)(l->s.K * l->s.K), sizeof *l->cov, "states", e);
        if (!l->t || !l->cov)
            return false;
    }
    return g->l &&
           (g->n || err_set(e, ERR_UNSUPPORTED, "the model has no layer with a matrix state"));
}

// ids [prefix + tokens]; input[k] is the k-th token of the word.
static void draw_word(const word_task *t, int64_t tokens, uint64_t seed, int32_t *ids, int *input) {
    for (int i = 0; i < t->n_prefix; i++)
        ids[i] = t->prefix[i];
    for (int64_t k = 0; k < tokens; k++) {
        input[k] = (int)random_below(&seed, t->n_inputs);
        ids[t->n_prefix + k] = t->input_id[input[k]];
    }
}

// ---- one head -------------------------------------------------------------------------------------------

static bool shares(const double *cov, int K, double *out, err *e) {
    double *a = mem_alloc((size_t)(K * K), sizeof *a, "a PCA", e);
    double *w = mem_alloc((size_t)K, sizeof *w, "a PCA", e), sum = 0, run = 0;
    bool ok = a && w;
    if (ok) {
        memcpy(a, cov, (size_t)(K * K) * sizeof *a);
        ok = mechanism_symmetric(a, K, w, e);
    }
    for (int i = 0; ok && i < K; i++)
        sum += fmax(w[i], 0);
    for (int i = 0; ok && i < MECHANISM_PCA; i++) {
        run += i < K ? fmax(w[K - 1 - i], 0) : 0;
        out[i] = sum > 0 ? run / sum : NAN;
    }
    free(a);
    free(w);
    return ok;
}

// Covariance of the keys of a word's tokens, with and without their mean.
static bool key_pca(const transitions *x, int64_t skip, mechanism_head *h, err *e) {
    int K = x->K;
    for (int i = 0; i < MECHANISM_PCA; i++)
        h->pca[i] = h->pca_centred[i] = NAN;
    if (x->kind != TRANSITION_KEYS)
        return true;
    double *cov = mem_zalloc((size_t)(K * K), sizeof *cov, "a PCA", e);
    double *mean = mem_zalloc((size_t)K, sizeof *mean, "a PCA", e);
    bool ok = cov && mean;
    int64_t n = (x->T - skip) * x->n_h;
    const double *k = x->k + skip * x->n_h * K;
    for (int64_t r = 0; ok && r < n; r++)
        for (int i = 0; i < K; i++) {
            mean[i] += k[r * K + i] / (double)n;
            for (int j = 0; j < K; j++)
                cov[i * K + j] += k[r * K + i] * k[r * K + j] / (double)n;
        }
    ok = ok && shares(cov, K, h->pca, e);
    for (int i = 0; ok && i < K * K; i++)
        cov[i] -= mean[i / K] * mean[i % K];
    ok = ok && shares(cov, K, h->pca_centred, e);
    free(cov);
    free(mean);
    return ok;
}

// Mean A_g [n_inputs, K, K] over at most MOST_CONTEXTS places of g, and how much places differ.
static bool mean_transitions(const transitions *x, const word_task *t, const int *input, double *A,
                             double *within, err *e) {
    int K = x->K;
    size_t KK = (size_t)(K * K);
    int *seen = mem_zalloc((size_t)t->n_inputs, sizeof *seen, "contexts", e);
    double *P = mem_alloc(KK, sizeof *P, "a transition", e), log_scale = 0, squares = 0;
    bool ok = seen && P;
    int64_t used = 0;
    for (int pass = 0; ok && pass < 2; pass++) {
        memset(seen, 0, (size_t)t->n_inputs * sizeof *seen);
        for (int64_t k = 0; ok && k < x->T - t->n_prefix; k++) {
            int g = input[k];
            if (seen[g]++ >= MOST_CONTEXTS)
                continue;
            ok = spectrum_product(x, t->n_prefix + k, 1, P, &log_scale, e);
            for (size_t i = 0; ok && i < KK; i++) {
                double v = P[i] * exp(log_scale), d = v - A[(size_t)g * KK + i];
                if (pass == 0)
                    A[(size_t)g * KK + i] += v;
                else
                    squares += d * d;
            }
            used += pass;
        }
        for (int g = 0; pass == 0 && ok && g < t->n_inputs; g++)
            for (size_t i = 0; i < KK && seen[g]; i++)
                A[(size_t)g * KK + i] /= seen[g] < MOST_CONTEXTS ? seen[g] : MOST_CONTEXTS;
    }
    *within = used ? squares / (double)used : 0;
    free(seen);
    free(P);
    return ok;
}

static bool head_new(mechanism_head *h, const layer_tape *l, int head, int n, err *e) {
    size_t inputs = (size_t)n;
    *h = (mechanism_head){.layer = l->layer,
                          .head = head,
                          .n_h = l->s.n_h,
                          .K = l->s.K,
                          .fit_median = NAN,
                          .fit_rms = NAN};
    h->beta = mem_alloc(inputs * (size_t)h->n_h, sizeof *h->beta, "write strengths", e);
    h->error = mem_alloc(inputs, sizeof *h->error, "a fit", e);
    h->angle = mem_alloc(inputs, sizeof *h->angle, "a fit", e);
    h->determinant = mem_alloc(inputs, sizeof *h->determinant, "a fit", e);
    h->eig = mem_alloc(inputs * MECHANISM_DIMS, sizeof *h->eig, "a fit", e);
    if (!h->eig || !h->beta || !h->error || !h->angle || !h->determinant)
        return false;
    for (int g = 0; g < n; g++)
        h->error[g] = h->angle[g] = h->determinant[g] = NAN;
    return true;
}

static void mean_beta(const transitions *x, const word_task *t, const int *input,
                      mechanism_head *h) {
    int n_h = h->n_h;
    for (int i = 0; i < t->n_inputs * n_h; i++)
        h->beta[i] = x->beta ? 0 : NAN;
    for (int g = 0; x->beta && g < t->n_inputs; g++) {
        int64_t seen = 0;
        for (int64_t k = 0; k < x->T - t->n_prefix; k++) {
            if (input[k] != g)
                continue;
            seen++;
            for (int j = 0; j < n_h; j++)
                h->beta[g * n_h + j] += x->beta[(t->n_prefix + k) * n_h + j];
        }
        for (int j = 0; j < n_h; j++)
            h->beta[g * n_h + j] /= (double)seen; // NaN for a token that never came
    }
}

static bool study(const layer_tape *l, int head, const word_task *t, const int *input,
                  mechanism_head *h, err *e) {
    transitions x = tape_view(l->t, head);
    size_t KK = (size_t)(l->s.K * l->s.K), n = (size_t)t->n_inputs;
    double within = 0, between = 0;
    double *A = mem_zalloc(n * KK, sizeof *A, "transitions of elements", e);
    bool ok = A && head_new(h, l, head, t->n_inputs, e) && key_pca(&x, t->n_prefix, h, e) &&
              mean_transitions(&x, t, input, A, &within, e);
    if (ok) {
        mean_beta(&x, t, input, h);
        for (size_t a = 1; a < n; a++)
            between += mechanism_distance2(A + a * KK, A + (a - 1) * KK, (int)KK) / (double)(n - 1);
        h->spread = within == 0 ? 0 : sqrt(within / between);
    }
    if (ok && t->g)
        ok = mechanism_fit(A, l->cov + (size_t)head * KK, t, h, e);
    free(A);
    return ok;
}

static int by_fit(const void *a, const void *b) {
    const mechanism_head *x = a, *y = b;
    if ((x->dims == 0) != (y->dims == 0))
        return x->dims == 0 ? 1 : -1;
    if (x->dims && x->fit_median != y->fit_median)
        return x->fit_median < y->fit_median ? -1 : 1;
    return x->layer != y->layer ? x->layer - y->layer : x->head - y->head;
}

bool mechanism_run(const model *m, const word_task *t, uint64_t seed, mechanism *out, err *e) {
    *out = (mechanism){.n_inputs = t->n_inputs};
    int64_t tokens = 24 * (int64_t)t->n_inputs, T;
    tokens = tokens < LEAST_TOKENS ? LEAST_TOKENS : tokens > MOST_TOKENS ? MOST_TOKENS : tokens;
    T = tokens + t->n_prefix;
    gather g;
    int total = 0;
    int32_t *ids = mem_alloc((size_t)T, sizeof *ids, "a word", e);
    int *input = mem_alloc((size_t)tokens, sizeof *input, "a word", e);
    bool ok = gather_new(&g, m, T, e) && ids && input;
    fwd *f = ok ? fwd_new(m, BLOCK, T, e) : NULL;
    probe p = {.ctx = &g, .on_steps = on_steps};
    const probe *probes[] = {&p};
    if (ok)
        draw_word(t, tokens, seed, ids, input);
    ok = ok && f && fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, e);
    for (int i = 0; ok && i < g.n; i++)
        total += g.l[i].s.H;
    if (ok)
        out->head = mem_zalloc((size_t)total, sizeof *out->head, "heads", e);
    ok = ok && out->head;
    for (int i = 0; ok && i < g.n; i++)
        for (int h = 0; ok && h < g.l[i].s.H; h++)
            ok = study(&g.l[i], h, t, input, &out->head[out->n_heads++], e);
    if (ok)
        qsort(out->head, (size_t)out->n_heads, sizeof *out->head, by_fit);
    fwd_free(f);
    gather_free(&g);
    free(ids);
    free(input);
    if (!ok)
        mechanism_free(out);
    return ok;
}

void mechanism_free(mechanism *x) {
    for (int i = 0; i < x->n_heads; i++) {
        free(x->head[i].beta);
        free(x->head[i].error);
        free(x->head[i].angle);
        free(x->head[i].determinant);
        free(x->head[i].eig);
    }
    free(x->head);
    *x = (mechanism){0};
}
