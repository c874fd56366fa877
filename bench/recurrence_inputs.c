#include "bench/recurrence_inputs.h"

#include "bench/plugin_load.h"
#include "core/mem.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

head_shape recurrence_shape(const bench_case *c, decay_kind decay, erase_kind erase) {
    int64_t B = c->at[AXIS_B] == AXIS_UNSET ? 1 : c->at[AXIS_B];
    return (head_shape){.H = (int)(B * c->at[AXIS_HV]),
                        .Hk = (int)(B * c->at[AXIS_H]),
                        .K = (int)c->at[AXIS_K],
                        .V = (int)c->at[AXIS_V],
                        .n_h = c->at[AXIS_N] == AXIS_UNSET ? 1 : (int)c->at[AXIS_N],
                        .decay = decay,
                        .erase = erase,
                        .scale = 1 / sqrt((double)c->at[AXIS_K]),
                        .beta_max = c->at[AXIS_BETA] == AXIS_UNSET ? 0 : (double)c->at[AXIS_BETA]};
}

// Writes values that `make` gives for (row, head, channel), all of them: for narrow inputs.
typedef double (*maker)(uint64_t *r, int head, int heads);

static void fill_exact(backend *be, uint64_t *r, mat m, int heads, maker make, double factor,
                       err *e) {
    enum { PIECE = 1 << 18 };
    int64_t most = PIECE / m.cols > 0 ? PIECE / m.cols : 1;
    double *v = mem_alloc((size_t)(most * m.cols), sizeof *v, "inputs", e);
    for (int64_t t = 0; v && t < m.rows; t += most) {
        int64_t n = m.rows - t < most ? m.rows - t : most;
        for (int64_t i = 0; i < n * m.cols; i++)
            v[i] = factor * make(r, (int)(i % m.cols * heads / m.cols), heads);
        be->op->write(be, v, mat_rows(m, t, n));
    }
    free(v);
}

// Wide inputs would cost the host minutes: a pool of a few million numbers is made once and copied on
// the device in stretches from random rows, turned by a random number of heads: a multiple of four, so
// that the heads that hardly forget stay where they are when there are 4 n of them. Rows of a pool come
// back, after (pool rows x heads / 4) tokens on average for one head.
static void fill(backend *be, uint64_t *r, mat m, int heads, maker make, double factor, err *e) {
    enum { POOL = 1 << 21 };
    int64_t rows = POOL / m.cols > 8 ? POOL / m.cols : 8, width = m.cols / heads;
    if (rows >= m.rows) {
        fill_exact(be, r, m, heads, make, factor, e);
        return;
    }
    mat pool = m.esize == be->esize ? be->op->alloc(be, rows, m.cols)
                                    : be->op->alloc_exact(be, rows, m.cols);
    if (mat_none(pool))
        return;
    fill_exact(be, r, pool, heads, make, factor, e);
    for (int64_t t = 0; t < m.rows;) {
        int64_t n = 1 + (int64_t)(random_next(r) % (uint64_t)rows);
        n = n < m.rows - t ? n : m.rows - t;
        int64_t from = (int64_t)(random_next(r) % (uint64_t)(rows - n + 1));
        int64_t turn = heads > 4 ? 4 * (int64_t)(random_next(r) % (uint64_t)(heads / 4)) : 0;
        mat a = mat_rows(pool, from, n), b = mat_rows(m, t, n);
        int64_t left = (heads - turn) * width;
        be->op->copy(be, mat_cols(a, turn * width, left), mat_cols(b, 0, left));
        if (turn)
            be->op->copy(be, mat_cols(a, 0, turn * width), mat_cols(b, left, turn * width));
        t += n;
    }
    be->op->free(be, pool);
}

static double normal(uint64_t *r, int head, int heads) {
    (void)head, (void)heads;
    return random_normal(r);
}

static double strength(uint64_t *r, int head, int heads) {
    (void)head, (void)heads;
    return 1 / (1 + exp(-random_normal(r)));
}

// -rate softplus(x + bias) with the constants of trained gates; every fourth head hardly forgets.
static double gate(uint64_t *r, int head, int heads) {
    double rate = heads > 1 ? 1 + 15.0 * head / (heads - 1) : 4;
    double dt = exp(log(1e-3) + (head * 0.6180339887 - floor(head * 0.6180339887)) * log(100.0));
    double bias = dt + log(-expm1(-dt)), x = 0.5 * random_normal(r) + bias;
    double g = -rate * log1p(exp(x)) * (head % 4 == 3 ? 1e-4 : 1);
    return g < -1e-6 ? g : -1e-6;
}

// KDA's bounded gate: never below -4.9.
static double bounded_gate(uint64_t *r, int head, int heads) {
    double g = gate(r, head, heads);
    return g > -4.9 ? g : -4.9;
}

// RWKV-7: -e^-0.5 sigmoid(x - 2).
static double rwkv_gate(uint64_t *r, int head, int heads) {
    (void)heads;
    double g = -0.6065306597126334 / (1 + exp(2 - random_normal(r)));
    return g * (head % 4 == 3 ? 1e-3 : 1);
}

// Unit keys. Correlated: every key leans on one direction of its head and each eighth repeats the one
// before it. Same: that direction and 2 % of something else.
static void make_keys(backend *be, uint64_t *r, mat k, int heads, bench_keys kind, err *e) {
    fill(be, r, k, heads, normal, 1, e);
    if (kind != BENCH_KEYS_RANDOM) {
        mat base = be->op->alloc(be, 1, k.cols), all = be->op->alloc(be, k.rows, k.cols);
        if (!mat_none(base) && !mat_none(all)) {
            fill_exact(be, r, base, heads, normal, 1, e);
            be->op->broadcast(be, base, all);
            be->op->add(be, k, kind == BENCH_KEYS_SAME ? 0.02 : 0.5, all);
            be->op->copy(be, all, k);
            for (int64_t t = 7; t < k.rows && kind == BENCH_KEYS_CORRELATED; t += 8)
                be->op->copy(be, mat_rows(k, t - 1, 1), mat_rows(k, t, 1));
        }
        be->op->free(be, base);
        be->op->free(be, all);
    }
    be->op->normalize_heads(be, k, k.cols / heads, HEAD_NORM_L2, 1e-12);
}

// Erase along a vector of its own: a = -(rate * b) with unit b, so that (D + a b^T) does not grow.
static void make_pair(recurrence_set *r, uint64_t *rng, bench_keys keys, err *e) {
    backend *be = r->be;
    mat rate = be->op->alloc(be, r->s.T, r->s.a.cols);
    if (mat_none(rate))
        return;
    make_keys(be, rng, r->s.b, r->s.s.Hk, keys, e);
    be->op->scale_heads(be, r->s.b, MAT_NONE, -1, r->s.s.K, r->s.a);
    fill(be, rng, rate, r->s.s.H, normal, 1, e);
    be->op->multiply(be, rate, ACT_SIGMOID, r->s.a);
    be->op->free(be, rate);
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Rows of the case: its documents, and room for their boundary states.
static void make_rows(recurrence_set *r, const bench_setup *set, err *e) {
    int64_t n = set->c->at[AXIS_DOCS], every = set->c->at[AXIS_EVERY], heads = r->s.s.H;
    uint64_t rng = set->seed ^ UINT64_C(0x646f6373);
    if (n > 1) {
        r->starts = mem_zalloc((size_t)n + 1, sizeof *r->starts, "documents", e);
        if (!r->starts)
            return;
        for (int64_t i = 1; i < n; i++)
            r->starts[i] = random_below(&rng, r->s.T + 1);
        r->starts[n] = r->s.T;
        qsort(r->starts, (size_t)n + 1, sizeof *r->starts, by_number);
        r->rows.starts = r->starts;
        r->rows.n = n;
    }
    if (every > 0) {
        r->rows.every = every;
        r->rows.states = r->be->op->alloc_exact(
            r->be, rows_states(&r->rows, r->s.T) * heads * r->s.s.K, r->s.s.V);
    }
}

int64_t recurrence_docs(const recurrence_set *r) {
    return r->rows.starts ? r->rows.n : 1;
}

bool recurrence_make(recurrence_set *r, const bench_setup *set, head_shape s, int64_t T,
                     bench_keys keys, double beta_max, err *e) {
    static const recurrence_form forms[] = {RECURRENCE_AUTO, RECURRENCE_STEP, RECURRENCE_CHUNK,
                                            RECURRENCE_PORTABLE};
    backend *be = set->be;
    const backend_ops *op = be->op;
    uint64_t rng = set->seed ^ UINT64_C(0x6465616c746f70);
    int64_t M = T * s.n_h;
    bool zeros = set->c->at[AXIS_INPUT] == INPUT_ZEROS;
    err own = {0};
    *r = (recurrence_set){.be = be,
                          .s = {.s = s, .T = T},
                          .form = forms[set->c->at[AXIS_FORM]],
                          .kernel = set->kernel};
    r->s.q = op->alloc(be, T, (int64_t)s.Hk * s.K);
    r->s.k = op->alloc(be, M, (int64_t)s.Hk * s.K);
    r->s.v = op->alloc(be, M, (int64_t)s.H * s.V);
    if (s.erase != ERASE_NONE && s.beta_max > 0)
        r->s.beta = op->alloc_exact(be, M, s.H);
    if (s.decay == DECAY_HEAD)
        r->s.decay = op->alloc_exact(be, T, s.H);
    if (s.decay == DECAY_CHANNEL)
        r->s.decay = op->alloc(be, T, (int64_t)s.H * s.K);
    if (s.erase == ERASE_PAIR) {
        r->s.a = op->alloc(be, T, (int64_t)s.H * s.K);
        r->s.b = op->alloc(be, T, (int64_t)s.Hk * s.K);
    }
    make_rows(r, set, &own);
    r->state = op->alloc_exact(be, recurrence_docs(r) * s.H * s.K, s.V);
    r->o = op->alloc(be, T, (int64_t)s.H * s.V);
    if (be->fail.code == ERR_NONE && own.code == ERR_NONE && !zeros) {
        bool unit = s.erase == ERASE_KEY;
        fill(be, &rng, r->s.q, s.Hk, normal, 1, &own);
        op->normalize_heads(be, r->s.q, s.K, HEAD_NORM_L2, 1e-12);
        if (unit)
            make_keys(be, &rng, r->s.k, s.Hk, keys, &own);
        else
            fill(be, &rng, r->s.k, s.Hk, normal, 1 / sqrt(s.K), &own);
        fill(be, &rng, r->s.v, s.H, normal, 1, &own);
        if (!mat_none(r->s.beta))
            fill(be, &rng, r->s.beta, s.H, strength, beta_max, &own);
        if (!mat_none(r->s.decay))
            fill(be, &rng, r->s.decay, s.H,
                 s.decay == DECAY_HEAD   ? gate
                 : s.erase == ERASE_PAIR ? rwkv_gate
                                         : bounded_gate,
                 1, &own);
        if (s.erase == ERASE_PAIR)
            make_pair(r, &rng, keys, &own);
        op->wait(be);
    }
    if (own.code != ERR_NONE)
        err_set(&be->fail, own.code, "%s", own.text);
    if (backend_check(be, e))
        return true;
    recurrence_free(r);
    return false;
}

void recurrence_free(recurrence_set *r) {
    if (!r->be)
        return;
    mat all[] = {r->s.q, r->s.k, r->s.v,   r->s.beta, r->s.decay,
                 r->s.a, r->s.b, r->state, r->o,      r->rows.states};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        r->be->op->free(r->be, all[i]);
    free(r->starts);
    *r = (recurrence_set){0};
}

static mat part(mat m, int64_t rows, int64_t cols) {
    return mat_none(m) ? m : mat_cols(mat_rows(m, 0, rows), 0, cols);
}

// Documents end at T at the latest.
static void call_rows(recurrence_set *r, const steps *s, mat o) {
    step_rows rows = r->rows;
    int64_t n = recurrence_docs(r), *cut = NULL;
    if (rows.starts && s->T < r->s.T) {
        cut = mem_alloc((size_t)n + 1, sizeof *cut, "documents", &r->be->fail);
        for (int64_t i = 0; cut && i <= n; i++)
            cut[i] = rows.starts[i] < s->T ? rows.starts[i] : s->T;
        rows.starts = cut;
        if (!cut)
            return;
    }
    rows_recurrence(r->be, s, &rows, r->state, o);
    free(cut);
}

void recurrence_call(recurrence_set *r, int64_t T, int key_heads) {
    steps s = r->s;
    int64_t n = s.s.n_h, Hk = key_heads, H = Hk * (s.s.H / s.s.Hk), K = s.s.K, V = s.s.V;
    s.T = T;
    s.s.Hk = key_heads;
    s.s.H = (int)H;
    s.q = part(s.q, T, Hk * K);
    s.k = part(s.k, T * n, Hk * K);
    s.v = part(s.v, T * n, H * V);
    s.beta = part(s.beta, T * n, H);
    s.decay = part(s.decay, T, s.s.decay == DECAY_CHANNEL ? H * K : H);
    s.a = part(s.a, T, H * K);
    s.b = part(s.b, T, Hk * K);
    mat o = part(r->o, T, H * V), state = mat_rows(r->state, 0, H * K);
    if (!r->kernel) {
        r->be->recurrence = r->form;
        if (r->rows.starts || r->rows.every)
            call_rows(r, &s, o);
        else
            r->be->op->recurrence(r->be, &s, state, o);
        return;
    }
    deltop_recurrence call = plugin_call(r->be, &s, state, o);
    r->be->kernel = r->kernel->k->name;
    if (r->be->fail.code == ERR_NONE) // the first word of a failure counts
        plugin_run(r->kernel, &call, &r->be->fail);
}
