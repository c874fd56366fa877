#include "analyses/erank.h"

#include "analyses/rank.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// States whose singular values are asked for at once: enough to fill the kernel's lanes, few enough
// that a stop or the progress bar need not wait for long.
enum { GROUP_STATES = 8192, DEFAULT_BLOCK = 1024 };

const char *erank_quantity_name(erank_quantity q) {
    static const char *const names[ERANK_QUANTITIES] = {
        "erank", "norm", "spectral", "stable_rank", "nuclear", "condition", "top_energy"};
    return names[q];
}

static bool listed(const int *list, int n, int x) {
    for (int i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return !list;
}

// Which layers are shown, and the largest of their sizes. *H: value heads of the widest layer.
static bool choose_layers(erank_result *r, const head_shape *const *mixer, int n,
                          const erank_options *o, int *H, err *e) {
    r->layer = mem_alloc((size_t)n, sizeof *r->layer, "a list of layers", e);
    r->left_out = mem_alloc((size_t)n, sizeof *r->left_out, "a list of layers", e);
    if (!r->layer || !r->left_out)
        return false;
    for (int i = 0; i < o->n_layers && o->layers; i++)
        if (o->layers[i] < 0 || o->layers[i] >= n)
            return err_set(e, ERR_INPUT, "option --layers: there is no layer %d (0 to %d)",
                           o->layers[i], n - 1);
    for (int L = 0; L < n; L++) {
        if (!listed(o->layers, o->n_layers, L))
            continue;
        const head_shape *s = mixer[L];
        if (!s) {
            r->left_out[r->n_left_out++] = L;
            continue;
        }
        if (r->n_layers > 0 && o->micro && s->n_h != r->n_h)
            return err_set(e, ERR_INPUT,
                           "layer %d takes %d micro-steps a token and layer %d takes %d: "
                           "micro-steps have no common axis, choose layers that agree",
                           r->layer[0], r->n_h, L, s->n_h);
        int rank = s->K < s->V ? s->K : s->V;
        r->layer[r->n_layers++] = L;
        r->K = s->K > r->K ? s->K : r->K;
        r->V = s->V > r->V ? s->V : r->V;
        r->n_h = s->n_h > r->n_h ? s->n_h : r->n_h;
        r->max_rank = rank > r->max_rank ? rank : r->max_rank;
        *H = s->H > *H ? s->H : *H;
    }
    if (r->n_layers == 0)
        return err_set(e, o->layers ? ERR_USAGE : ERR_UNSUPPORTED,
                       "%s a matrix as its recurrent state: effective rank does not apply",
                       o->layers ? "none of the chosen layers has" : "no layer of this model has");
    return true;
}

static bool choose_heads(erank_result *r, int H, const erank_options *o, err *e) {
    r->head = mem_alloc((size_t)H, sizeof *r->head, "a list of heads", e);
    if (!r->head)
        return false;
    for (int i = 0; i < o->n_heads && o->heads; i++)
        if (o->heads[i] < 0 || o->heads[i] >= H)
            return err_set(e, ERR_INPUT, "option --heads: there is no head %d (0 to %d)",
                           o->heads[i], H - 1);
    for (int h = 0; h < H; h++)
        if (listed(o->heads, o->n_heads, h))
            r->head[r->n_heads++] = h;
    return true;
}

static bool alloc_results(erank_result *r, err *e) {
    size_t n = (size_t)r->rows;
    if (!mem_mul(n, (size_t)r->n_layers, &n) || !mem_mul(n, (size_t)r->n_heads, &n) ||
        !mem_mul(n, (size_t)r->positions, &n))
        return err_set(e, ERR_NOMEM, "out of memory: ranks of %lld positions",
                       (long long)r->positions);
    for (int q = 0; q < ERANK_QUANTITIES; q++) {
        r->v[q] = mem_alloc(n, sizeof(double), "the ranks of every position", e);
        if (!r->v[q])
            return false;
        for (size_t i = 0; i < n; i++)
            r->v[q][i] = NAN;
    }
    return true;
}

bool erank_open(erank_result *r, const head_shape *const *mixer, int n_mixers, const backend *be,
                int64_t rows, int64_t length, const erank_options *o, err *e) {
    *r = (erank_result){
        .device = be->device,
        .prec = be->prec,
        .every = o->every < 1 ? 1 : o->every,
        .train_length = o->train_length,
        .micro = o->micro,
        .before = o->before,
        .authors = o->authors,
        .linear = o->linear,
        .cut = o->cut >= 0                 ? o->cut
               : be->prec == PRECISION_F64 ? 0
                                           : RANK_CUT,
        .top = o->top < 1 ? 1 : o->top,
        .rows = rows,
        .length = length,
    };
    int H = 0;
    r->model = mem_strdup(o->model ? o->model : "", e);
    r->document = mem_strdup(o->document ? o->document : "", e);
    if (!r->model || !r->document || !choose_layers(r, mixer, n_mixers, o, &H, e) ||
        !choose_heads(r, H, o, e))
        goto fail;
    int64_t steps = length * (r->micro ? r->n_h : 1);
    r->positions = steps / r->every;
    if (r->positions < 1 || rows < 1) {
        err_set(e, ERR_INPUT,
                "%s%sa row of %lld token%s has no position to look at with --every %lld (%s)",
                r->document, r->document[0] ? ": " : "", (long long)length, length == 1 ? "" : "s",
                (long long)r->every, r->micro ? "micro-steps" : "tokens");
        goto fail;
    }
    if (alloc_results(r, e))
        return true;
fail:
    erank_free(r);
    return false;
}

void erank_free(erank_result *r) {
    free(r->model);
    free(r->document);
    free(r->layer);
    free(r->head);
    free(r->left_out);
    for (int q = 0; q < ERANK_QUANTITIES; q++)
        free(r->v[q]);
    *r = (erank_result){0};
}

bool erank_check_ranks(const erank_result *r, err *e) {
    if (r->broken)
        return err_set(e, ERR_NUMERIC, "%lld state%s with NaN or infinity", (long long)r->broken,
                       r->broken == 1 ? "" : "s");
    // Before its first token a state is zero, and nothing is wrong with that.
    bool written = erank_tokens(r, r->positions - 1) > 0;
    return r->zero == 0 || r->alive > 0 || !written ||
           err_set(e, ERR_NUMERIC, "every state is zero");
}

void erank_keep_for_figures(erank_result *r) {
    for (int q = 0; q < ERANK_QUANTITIES; q++)
        if (q != ERANK_RANK && q != ERANK_NORM && q != ERANK_STABLE) {
            free(r->v[q]);
            r->v[q] = NULL;
        }
}

static size_t line_at(const erank_result *r, int64_t row, int layer, int head) {
    return (((size_t)row * (size_t)r->n_layers + (size_t)layer) * (size_t)r->n_heads +
            (size_t)head) *
           (size_t)r->positions;
}

const double *erank_line(const erank_result *r, erank_quantity q, int64_t row, int layer,
                         int head) {
    return r->v[q] + line_at(r, row, layer, head);
}

double erank_tokens(const erank_result *r, int64_t i) {
    double taken = (double)((i + 1) * r->every - (r->before ? 1 : 0));
    return r->micro ? taken / r->n_h : taken;
}

// Smallest position at step `step` or later.
static int64_t position_from(const erank_result *r, int64_t step) {
    int64_t i = (step + r->every) / r->every - 1;
    return i < r->positions ? i : r->positions;
}

static void put(erank_result *r, size_t at, const double *sv, double fro, int n) {
    r->v[ERANK_RANK][at] =
        r->authors ? rank_effective_authors(sv, n) : rank_effective(sv, n, r->cut);
    r->v[ERANK_NORM][at] = fro;
    r->v[ERANK_SPECTRAL][at] = rank_spectral(sv, n);
    r->v[ERANK_STABLE][at] = rank_stable(sv, n);
    r->v[ERANK_NUCLEAR][at] = rank_nuclear(sv, n);
    r->v[ERANK_CONDITION][at] = rank_condition(sv, n);
    r->v[ERANK_ENERGY][at] = rank_energy(sv, n, r->top);
}

// One layer's work in one block: positions first .. first + n - 1 at micro-steps at[0 .. n).
typedef struct sample {
    int layer; // along the layers axis
    int64_t first, n;
    int64_t *at;
    int *heads; // numbers of the heads this layer has, the first n_heads of r->head
    int n_heads;
    double *sv, *fro; // of one group of heads
} sample;

static bool sample_new(sample *x, const erank_result *r, int64_t t0, const steps *s, int group,
                       err *e) {
    int n_h = s->s.n_h, rank = s->s.K < s->s.V ? s->s.K : s->s.V;
    int64_t per_token = r->micro ? n_h : 1;
    x->first = position_from(r, t0 * per_token);
    x->n = position_from(r, (t0 + s->T) * per_token) - x->first;
    if (x->n == 0)
        return true;
    x->at = mem_alloc((size_t)x->n, sizeof *x->at, "positions", e);
    x->heads = mem_alloc((size_t)r->n_heads, sizeof *x->heads, "heads", e);
    size_t states = (size_t)group * (size_t)x->n;
    x->sv = mem_alloc(states * (size_t)rank, sizeof *x->sv, "singular values", e);
    x->fro = mem_alloc(states, sizeof *x->fro, "norms", e);
    if (!x->at || !x->heads || !x->sv || !x->fro)
        return false;
    int64_t step_size = r->micro ? 1 : n_h;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t step = (x->first + i + 1) * r->every - 1 - t0 * per_token;
        x->at[i] = (step + (r->before ? 0 : 1)) * step_size;
    }
    while (x->n_heads < r->n_heads && r->head[x->n_heads] < s->s.H) {
        x->heads[x->n_heads] = r->head[x->n_heads];
        x->n_heads++;
    }
    return true;
}

static void sample_free(sample *x) {
    free(x->at);
    free(x->heads);
    free(x->sv);
    free(x->fro);
}

// Heads from .. from + n - 1 of the sample.
static bool look(erank_result *r, const sample *x, int from, int n, const steps *s, mat state,
                 backend *be, err *e) {
    int64_t zero = 0, broken = 0, alive = 0;
    int rank = s->s.K < s->s.V ? s->s.K : s->s.V;
    if (!be->op->state_svals(be, s, state, x->heads + from, n, x->at, x->n, x->sv, x->fro, e))
        return false;
#pragma omp parallel for schedule(static) collapse(2) reduction(+ : zero, broken, alive)
    for (int h = 0; h < n; h++)
        for (int64_t i = 0; i < x->n; i++) {
            int64_t j = h * x->n + i;
            put(r, line_at(r, r->row, x->layer, from + h) + (size_t)(x->first + i),
                x->sv + j * rank, x->fro[j], rank);
            zero += x->fro[j] == 0;
            broken += !isfinite(x->fro[j]);
            alive += x->fro[j] > 0 && isfinite(x->fro[j]);
        }
    r->zero += zero;
    r->broken += broken;
    r->alive += alive;
    return true;
}

// Tokens of all rows that the work so far amounts to: layers are passed one after the other.
static bool tell(const erank_result *r, int64_t t0, int64_t T, int layer, double part, err *e) {
    if (!r->progress)
        return true;
    int64_t done = r->row * r->length + t0 + (int64_t)((double)T * (layer + part) / r->n_layers);
    if (r->progress(r->progress_ctx, done, r->rows * r->length))
        return true;
    return err_set(e, ERR_CANCELLED, "stopped at token %lld of %lld", (long long)done,
                   (long long)(r->rows * r->length));
}

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    erank_result *r = ctx;
    sample x = {0};
    while (x.layer < r->n_layers && r->layer[x.layer] != layer)
        x.layer++;
    if (x.layer == r->n_layers)
        return true;
    int64_t about = s->T * (r->micro ? s->s.n_h : 1) / r->every + 1;
    int group = about < GROUP_STATES ? (int)(GROUP_STATES / about) : 1;
    // The replay of states runs one head a thread.
    group = group < be->threads ? be->threads : group;
    group = group > r->n_heads ? r->n_heads : group;
    bool ok = sample_new(&x, r, t0, s, group, e);
    for (int h = 0; ok && x.n > 0 && h < x.n_heads; h += group) {
        int n = x.n_heads - h < group ? x.n_heads - h : group;
        ok = look(r, &x, h, n, s, state, be, e) &&
             tell(r, t0, s->T, x.layer, (double)(h + n) / x.n_heads, e);
    }
    sample_free(&x);
    return ok;
}

void erank_begin_row(erank_result *r, int64_t row, const int32_t *ids, int64_t n,
                     const row_options *how) {
    r->row = row;
    if (row > 0 || !how)
        return;
    r->n_starts = 0;
    int64_t next = 0;
    for (int64_t t = 1; t < n; t++) {
        while (next < how->n_starts && how->starts[next] < t)
            next++;
        bool start = next < how->n_starts && how->starts[next] == t;
        if (!start && (how->reset_id < 0 || ids[t] != how->reset_id))
            continue;
        if (r->n_starts < ERANK_MAX_STARTS)
            r->starts[r->n_starts] = t;
        r->n_starts++;
    }
}

probe erank_probe(erank_result *r) {
    return (probe){.ctx = r, .on_steps = on_steps};
}

// The pass itself counts too: a block with no sampled position still moves the bar.
static bool on_block(void *ctx, int64_t done, int64_t total) {
    const erank_result *r = ctx;
    (void)total;
    return !r->progress ||
           r->progress(r->progress_ctx, r->row * r->length + done, r->rows * r->length);
}

bool erank_open_model(erank_result *r, const model *m, int64_t rows, int64_t length,
                      const erank_options *o, err *e) {
    size_t L = (size_t)m->info.n_layers;
    *r = (erank_result){0};
    const head_shape **mixer = mem_zalloc(L, sizeof *mixer, "a list of layers", e);
    if (!mixer)
        return false;
    for (int i = 0; i < m->info.n_layers; i++) {
        const module *x = model_mixer(m, i);
        mixer[i] = x ? &x->heads : NULL;
    }
    bool ok = erank_open(r, mixer, m->info.n_layers, m->be, rows, length, o, e);
    free(mixer);
    return ok;
}

bool erank_run(const model *m, const int32_t *ids, int64_t rows, int64_t length,
               const row_options *how, const erank_options *o, progress_fn progress,
               void *progress_ctx, erank_result *r, err *e) {
    bool ok = false;
    fwd *f = NULL;
    *r = (erank_result){0};
    if (!erank_open_model(r, m, rows, length, o, e))
        goto done;
    f = fwd_new(m, o->block > 0 ? o->block : DEFAULT_BLOCK, length, e);
    if (!f)
        goto done;
    r->progress = progress;
    r->progress_ctx = progress_ctx;
    probe p = erank_probe(r);
    const probe *probes[] = {&p};
    for (int64_t row = 0; row < rows; row++) {
        const int32_t *at = ids + row * length;
        erank_begin_row(r, row, at, length, how ? &how[row] : NULL);
        if (!fwd_row(f, at, length, how ? &how[row] : NULL, probes, 1, on_block, r, e))
            goto done;
    }
    ok = true;
done:
    r->progress = NULL;
    r->progress_ctx = NULL;
    fwd_free(f);
    if (!ok)
        erank_free(r);
    return ok;
}
