#include "analyses/parity.h"

#include "analyses/parity_dump.h"
#include "analyses/rank.h"
#include "analyses/tape.h"
#include "core/forward.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What one pass over the reference's ids gives for one layer.
typedef struct layer_facts {
    tape *tape;
    double *state;               // [H, K, V]
    double *early;               // the same after PARITY_EARLY tokens
    double *erank, *erank_micro; // [H, T], [H, T n_h]
    double *beta, *decay;        // [T, n_h, H], [T, H or H K]
    int64_t decay_width;
} layer_facts;

typedef struct collector {
    const model *m;
    int64_t T;
    double *loss, *logits, *hidden; // [T], [n_vocab], [L + 1, D]
    layer_facts *layer;
} collector;

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy(((collector *)ctx)->loss + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static bool on_logits(void *ctx, int64_t t, const double *logits, int64_t n_vocab, err *e) {
    (void)t, (void)e;
    memcpy(((collector *)ctx)->logits, logits, (size_t)n_vocab * sizeof *logits);
    return true;
}

static bool on_hidden(void *ctx, int layer, int64_t t0, mat x, backend *be, err *e) {
    collector *c = ctx;
    if (t0 + x.rows == c->T)
        be->op->read(be, mat_rows(x, x.rows - 1, 1), c->hidden + (layer + 1) * x.cols);
    return backend_check(be, e);
}

static bool on_early_state(void *ctx, int layer, mat state, backend *be, err *e) {
    layer_facts *l = &((collector *)ctx)->layer[layer];
    l->early = mem_alloc((size_t)(state.rows * state.cols), sizeof *l->early, "a state", e);
    if (!l->early)
        return false;
    be->op->read(be, state, l->early);
    return backend_check(be, e);
}

static bool on_final_state(void *ctx, int layer, mat state, backend *be, err *e) {
    be->op->read(be, state, ((collector *)ctx)->layer[layer].state);
    return backend_check(be, e);
}

// Effective ranks after every micro-step of the block.
static bool ranks(collector *c, layer_facts *l, int64_t t0, const steps *s, mat state, backend *be,
                  err *e) {
    bool ok = false;
    int H = s->s.H, n_h = s->s.n_h, n = s->s.K < s->s.V ? s->s.K : s->s.V;
    int64_t micro = s->T * n_h;
    int *heads = mem_alloc((size_t)H, sizeof *heads, "heads", e);
    int64_t *at = mem_alloc((size_t)micro, sizeof *at, "positions", e);
    double *sv = mem_alloc((size_t)(H * micro * n), sizeof *sv, "singular values", e);
    double *fro = mem_alloc((size_t)(H * micro), sizeof *fro, "norms", e);
    if (!heads || !at || !sv || !fro)
        goto done;
    for (int h = 0; h < H; h++)
        heads[h] = h;
    for (int64_t i = 0; i < micro; i++)
        at[i] = i + 1;
    if (!be->op->state_svals(be, s, state, heads, H, at, micro, sv, fro, e))
        goto done;
    double cut = be->prec == PRECISION_F64 ? 0 : RANK_CUT;
    for (int h = 0; h < H; h++)
        for (int64_t i = 0; i < micro; i++) {
            double r = rank_effective(sv + (h * micro + i) * n, n, cut);
            l->erank_micro[h * c->T * n_h + t0 * n_h + i] = r;
            if (i % n_h == n_h - 1)
                l->erank[h * c->T + t0 + i / n_h] = r;
        }
    ok = true;
done:
    free(heads);
    free(at);
    free(sv);
    free(fro);
    return ok;
}

static bool on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                     err *e) {
    collector *c = ctx;
    layer_facts *l = &c->layer[layer];
    if (!tape_append(l->tape, be, s, e) || !ranks(c, l, t0, s, state, be, e))
        return false;
    if (!mat_none(s->beta))
        be->op->read(be, s->beta, l->beta + t0 * s->s.n_h * s->s.H);
    if (!mat_none(s->decay))
        be->op->read(be, s->decay, l->decay + t0 * l->decay_width);
    return backend_check(be, e);
}

static void collector_free(collector *c) {
    for (int L = 0; c->layer && L < c->m->info.n_layers; L++) {
        layer_facts *l = &c->layer[L];
        tape_free(l->tape);
        free(l->state);
        free(l->early);
        free(l->erank);
        free(l->erank_micro);
        free(l->beta);
        free(l->decay);
    }
    free(c->layer);
    free(c->loss);
    free(c->logits);
    free(c->hidden);
}

static bool layer_init(layer_facts *l, const head_shape *s, int64_t T, int64_t block, err *e) {
    int *all = mem_alloc((size_t)s->H, sizeof *all, "heads", e);
    if (!all)
        return false;
    for (int h = 0; h < s->H; h++)
        all[h] = h;
    size_t H = (size_t)s->H, t = (size_t)T, n_h = (size_t)s->n_h;
    l->decay_width = s->decay == DECAY_CHANNEL ? (int64_t)s->H * s->K : s->H;
    l->tape = tape_new(s, all, s->H, T, block, e);
    l->state = mem_alloc(H * (size_t)s->K * (size_t)s->V, sizeof(double), "a state", e);
    l->erank = mem_alloc(H * t, sizeof(double), "ranks", e);
    l->erank_micro = mem_alloc(H * t * n_h, sizeof(double), "ranks", e);
    l->beta = mem_alloc(H * t * n_h, sizeof(double), "betas", e);
    l->decay = mem_alloc(t * (size_t)l->decay_width, sizeof(double), "decays", e);
    free(all);
    return l->tape && l->state && l->erank && l->erank_micro && l->beta && l->decay;
}

// early: also the states after PARITY_EARLY tokens, by a pass of their own.
static bool collect(collector *c, const model *m, const int32_t *ids, int64_t T, int64_t block,
                    bool early, progress_fn progress, void *progress_ctx, err *e) {
    *c = (collector){.m = m, .T = T};
    size_t L = (size_t)m->info.n_layers;
    c->loss = mem_alloc((size_t)T, sizeof *c->loss, "losses", e);
    c->logits = mem_alloc((size_t)m->head.rows, sizeof *c->logits, "logits", e);
    c->hidden = mem_alloc((L + 1) * (size_t)m->info.D, sizeof *c->hidden, "hidden states", e);
    c->layer = mem_zalloc(L, sizeof *c->layer, "layers", e);
    if (!c->loss || !c->logits || !c->hidden || !c->layer)
        return false;
    for (int i = 0; i < m->info.n_layers; i++) {
        const module *x = model_mixer(m, i);
        if (x && !layer_init(&c->layer[i], &x->heads, T, block, e))
            return false;
    }
    fwd *f = fwd_new(m, block, T, e);
    if (!f)
        return false;
    probe p = {.ctx = c,
               .on_steps = on_steps,
               .on_hidden = on_hidden,
               .on_loss = on_loss,
               .on_logits = on_logits,
               .on_final_state = on_final_state};
    probe first = {.ctx = c, .on_final_state = on_early_state};
    const probe *probes[] = {&p}, *firsts[] = {&first};
    bool ok = fwd_row(f, ids, T, NULL, probes, 1, progress, progress_ctx, e) &&
              (!early || T < PARITY_EARLY ||
               fwd_row(f, ids, PARITY_EARLY, NULL, firsts, 1, NULL, NULL, e));
    fwd_free(f);
    return ok;
}

// Comparing ---------------------------------------------------------------------------------------

static parity_row *add_row(parity *p, const char *what, int layer, err *e) {
    if (!mem_grow((void **)&p->row, &p->cap, p->n + 1, sizeof *p->row, "results", e))
        return NULL;
    parity_row *r = &p->row[p->n++];
    *r = (parity_row){.layer = layer};
    snprintf(r->what, sizeof r->what, "%s", what);
    return r;
}

typedef enum { ABSOLUTE, TO_LARGEST, EACH } measure;

// Largest difference of got[0..n) and want[0..n) in the given measure; a NaN on one side only is
// infinite.
static double difference(const double *got, const double *want, int64_t n, measure how) {
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(want[i]) > largest)
            largest = fabs(want[i]);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(got[i]) && isnan(want[i]))
            continue;
        if (got[i] == want[i])
            continue;
        double d = fabs(got[i] - want[i]);
        if (how == TO_LARGEST)
            d /= largest;
        if (how == EACH)
            d /= fabs(want[i]);
        if (!(d <= worst))
            worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

// Compares a file with n numbers; absent: nothing. At most n numbers of a longer file count
// (a reference may hold one loss more than there are targets).
static bool compare(parity *p, const char *folder, const char *name, int layer, const double *got,
                    int64_t n, measure how, double tolerance, double tolerance_f4, err *e) {
    static const char *const words[] = {"absolute", "relative to the largest", "relative"};
    char path[4096];
    if (!parity_has(folder, name, path, sizeof path))
        return true;
    npy a;
    if (!npy_read(path, &a, e))
        return false;
    bool ok = false;
    double *want = npy_as_f64(&a, e);
    parity_row *r = want ? add_row(p, name, layer, e) : NULL;
    if (!r)
        goto done;
    if (a.count != n) {
        err_set(e, ERR_INPUT, "%s: holds %lld numbers, this model gives %lld", path,
                (long long)a.count, (long long)n);
        goto done;
    }
    r->count = n;
    r->how = words[how];
    r->error = difference(got, want, n, how);
    r->tolerance = a.type == NPY_F4 && tolerance_f4 > tolerance ? tolerance_f4 : tolerance;
    r->pass = r->error <= r->tolerance;
    ok = true;
done:
    free(want);
    npy_free(&a);
    return ok;
}

// Smallest sum of distances is the job of a test; here a greedy pairing, nearest pair first, is
// enough: eigenvalues that lie closer together than their error may swap without harm.
static double pair_up(const double complex *got, const double complex *want, const double *bound,
                      int n) {
    bool used[1024] = {false};
    double worst = 0;
    for (int i = 0; i < n; i++) {
        int best = -1;
        double least = INFINITY;
        for (int j = 0; j < n; j++) {
            double d = cabs(got[j] - want[i]);
            if (!used[j] && d < least) {
                least = d;
                best = j;
            }
        }
        if (best < 0)
            return INFINITY;
        used[best] = true;
        if (least / bound[i] > worst)
            worst = least / bound[i];
    }
    return worst;
}

// Every number of a file that must be there, as double.
static double *numbers(const char *folder, const char *name, int64_t n, err *e) {
    char path[4096];
    if (!parity_has(folder, name, path, sizeof path)) {
        err_set(e, ERR_MISSING, "%s: no %s, which eigenvalues are compared with", text_show(folder),
                name);
        return NULL;
    }
    npy a;
    if (!npy_read(path, &a, e))
        return NULL;
    double *v = NULL;
    if (a.count != n)
        err_set(e, ERR_INPUT, "%s: holds %lld numbers, expected %lld", path, (long long)a.count,
                (long long)n);
    else
        v = npy_as_f64(&a, e);
    npy_free(&a);
    return v;
}

// The eigenvalues of all windows of one layer against the dump.
static bool compare_windows(parity *p, const char *folder, int layer, const head_shape *s,
                            const tape *tape, backend *be, const window_refs *w, double unit,
                            double tolerance, err *e) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "eig_l%d.npy", layer);
    if (w->n_ends == 0 || !parity_has(folder, name, path, sizeof path))
        return true;
    bool ok = false;
    int K = s->K;
    int64_t n = (int64_t)s->H * w->n_ends * w->n_lengths;
    npy a = {0};
    double complex *eig = mem_alloc((size_t)K, sizeof *eig, "eigenvalues", e);
    double *bound = mem_alloc((size_t)K, sizeof *bound, "bounds", e);
    double *cond = NULL, *norm2 = NULL, *ledger = NULL;
    snprintf(name, sizeof name, "eig_cond_l%d.npy", layer);
    cond = numbers(folder, name, n * K, e);
    snprintf(name, sizeof name, "norm2_l%d.npy", layer);
    norm2 = numbers(folder, name, n, e);
    snprintf(name, sizeof name, "logabsdet_l%d.npy", layer);
    ledger = numbers(folder, name, n, e);
    if (!eig || !bound || !cond || !norm2 || !ledger || !npy_read(path, &a, e))
        goto done;
    if (a.type != NPY_C16 || a.count != n * K || K > 1024) {
        err_set(e, ERR_INPUT, "%s: not [%lld, %d] complex numbers", path, (long long)n, K);
        goto done;
    }
    double worst = 0, worst_norm = 0, worst_det = 0;
    for (int64_t i = 0; i < n; i++) {
        int h = (int)(i / (w->n_ends * w->n_lengths));
        int32_t end = w->ends[i / w->n_lengths % w->n_ends], W = w->lengths[i % w->n_lengths];
        transitions x = tape_view(tape, h);
        window_facts facts;
        if (!be->op->window_spectrum(be, &x, end, W, eig, NULL, &facts, e))
            goto done;
        for (int j = 0; j < K; j++)
            bound[j] = unit * norm2[i] * cond[i * K + j];
        double q = pair_up(eig, (const double complex *)a.data + i * K, bound, K);
        worst = q > worst ? q : worst;
        double dn = fabs(facts.norm2 * exp(facts.log_scale) - norm2[i]) / norm2[i];
        worst_norm = dn > worst_norm ? dn : worst_norm;
        double dd = fabs(facts.logabsdet - ledger[i]) / fmax(1, fabs(ledger[i]));
        worst_det = dd > worst_det ? dd : worst_det;
    }
    parity_row *r = add_row(p, "eig", layer, e);
    if (!r)
        goto done;
    *r = (parity_row){.what = "eig",
                      .layer = layer,
                      .count = n * K,
                      .error = worst,
                      .tolerance = 1,
                      .how = "of its bound",
                      .pass = worst <= 1};
    if (!(r = add_row(p, "norm2", layer, e)))
        goto done;
    *r = (parity_row){.what = "norm2",
                      .layer = layer,
                      .count = n,
                      .error = worst_norm,
                      .tolerance = tolerance,
                      .how = "relative",
                      .pass = worst_norm <= tolerance};
    if (!(r = add_row(p, "logabsdet", layer, e)))
        goto done;
    *r = (parity_row){.what = "logabsdet",
                      .layer = layer,
                      .count = n,
                      .error = worst_det,
                      .tolerance = tolerance,
                      .how = "relative",
                      .pass = worst_det <= tolerance};
    ok = true;
done:
    npy_free(&a);
    free(eig);
    free(bound);
    free(cond);
    free(norm2);
    free(ledger);
    return ok;
}

// Log decays summed over the windows: of diagonal kinds, whose products they are the whole of.
static bool compare_sums(parity *p, const char *folder, int layer, const head_shape *s,
                         const layer_facts *l, const window_refs *w, double tolerance, err *e) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "logdecay_l%d.npy", layer);
    if (s->decay == DECAY_NONE || !parity_has(folder, name, path, sizeof path))
        return true;
    int64_t per_head = l->decay_width / s->H, n = s->H * w->n_ends * w->n_lengths * per_head;
    double *sum = mem_zalloc((size_t)n, sizeof *sum, "sums of log decays", e);
    if (!sum)
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % per_head, at = i / per_head, h = at / (w->n_ends * w->n_lengths);
        int64_t end = w->ends[at / w->n_lengths % w->n_ends], W = w->lengths[at % w->n_lengths];
        for (int64_t t = end - W + 1; t <= end; t++)
            sum[i] += l->decay[t * l->decay_width + h * per_head + c];
    }
    bool ok = compare(p, folder, name, layer, sum, n, EACH, tolerance, 0, e);
    free(sum);
    return ok;
}

// What float32 may lose: a correction along keys feeds its rounding back, the other kinds do not.
static double tolerance_of(const model *m) {
    if (m->be->prec == PRECISION_F64)
        return 1e-9;
    bool corrects = false;
    for (int L = 0; L < m->info.n_layers; L++) {
        const module *x = model_mixer(m, L);
        corrects |= x && x->heads.erase == ERASE_KEY;
    }
    return corrects ? 3e-4 : 1e-4;
}

static bool compare_layer(parity *p, const char *folder, int L, const collector *c,
                          const window_refs *w, err *e) {
    const module *x = model_mixer(c->m, L);
    if (!x)
        return true;
    const head_shape *s = &x->heads;
    const layer_facts *l = &c->layer[L];
    bool f64 = c->m->be->prec == PRECISION_F64;
    double tol = tolerance_of(c->m);
    int64_t H = s->H, T = c->T;
    char name[64];
    snprintf(name, sizeof name, "state_l%d.npy", L);
    if (!compare(p, folder, name, L, l->state, H * s->K * s->V, TO_LARGEST, tol, 0, e))
        return false;
    snprintf(name, sizeof name, "state%d_l%d.npy", PARITY_EARLY, L);
    if (l->early && !compare(p, folder, name, L, l->early, H * s->K * s->V, TO_LARGEST, tol, 0, e))
        return false;
    snprintf(name, sizeof name, "erank_l%d.npy", L);
    if (!compare(p, folder, name, L, l->erank, H * T, EACH, tol, 0, e))
        return false;
    snprintf(name, sizeof name, "erank_micro_l%d.npy", L);
    if (!compare(p, folder, name, L, l->erank_micro, H * T * s->n_h, EACH, tol, 0, e))
        return false;
    snprintf(name, sizeof name, "beta_l%d.npy", L);
    if (s->beta_max > 0 &&
        !compare(p, folder, name, L, l->beta, T * s->n_h * H, ABSOLUTE, tol, 0, e))
        return false;
    snprintf(name, sizeof name, "loggate_l%d.npy", L);
    // A dump in float32 (KDA) carries its own rounding: 6e-8 relative, taken as 1e-6.
    if (s->decay != DECAY_NONE &&
        !compare(p, folder, name, L, l->decay, T * l->decay_width, EACH, tol, 1e-6, e))
        return false;
    if (!compare_sums(p, folder, L, s, l, w, tol, e))
        return false;
    // The reference's own error is about 1e-15 norm2 cond; the keys of two float64 forward passes
    // differ by some 1e-13, in float32 by some 1e-5, and that moves an eigenvalue by cond times it.
    return compare_windows(p, folder, L, s, l->tape, c->m->be, w, f64 ? 2e-14 : 1e-4, tol, e);
}

bool parity_run(const model *m, const char *folder, int64_t block, progress_fn progress,
                void *progress_ctx, parity *out, err *e) {
    bool ok = false;
    int32_t *ids = NULL;
    int64_t T = 0;
    collector c = {.m = m};
    window_refs w = {0};
    *out = (parity){0};
    if (!parity_read(folder, &ids, &T, &w, e) || !parity_fits(folder, m, T, &w, e))
        goto done;
    bool early = false;
    for (int L = 0; L < m->info.n_layers; L++) {
        char name[64], path[4096];
        snprintf(name, sizeof name, "state%d_l%d.npy", PARITY_EARLY, L);
        early |= parity_has(folder, name, path, sizeof path);
    }
    if (!collect(&c, m, ids, T, block, early, progress, progress_ctx, e))
        goto done;
    out->tokens = T;
    double tol = tolerance_of(m);
    int64_t D = m->info.D;
    if (!compare(out, folder, "nll.npy", -1, c.loss, T - 1, ABSOLUTE, tol, 0, e))
        goto done;
    out->pass = true;
    if (!compare(out, folder, "logits_last.npy", -1, c.logits, m->head.rows, TO_LARGEST, tol, 0,
                 e) ||
        !compare(out, folder, "hidden_last.npy", -1, c.hidden, (m->info.n_layers + 1) * D,
                 TO_LARGEST, tol, 0, e))
        goto done;
    for (int L = 0; L < m->info.n_layers; L++)
        if (!compare_layer(out, folder, L, &c, &w, e))
            goto done;
    for (size_t i = 0; i < out->n; i++)
        out->pass &= out->row[i].pass;
    ok = true;
done:
    collector_free(&c);
    free(ids);
    window_refs_free(&w);
    if (!ok)
        parity_free(out);
    return ok;
}

void parity_free(parity *p) {
    free(p->row);
    *p = (parity){0};
}
