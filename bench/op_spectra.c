// Spectra: effective ranks' singular values of every state of a stretch, eigenvalues of windows.
#include "bench/op.h"
#include "bench/recurrence_inputs.h"
#include "core/mem.h"
#include "core/random.h"
#include "kernels/cpu/cpu.h"
#include "kernels/spectrum.h"
#include "kernels/svals.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ERANK, WINDOW } kind;

// ERANK: singular values of all H states after each of T tokens of a gated delta rule, which is
// replayed on the way. WINDOW: T products of W tokens' transitions of one head.
typedef struct work {
    bench_case c;
    backend *be;
    recurrence_set r; // ERANK
    mat start;        // ERANK: states the stretch begins with
    int *heads;
    int64_t *at;
    double *sv, *fro;
    transitions x; // WINDOW: arrays owned
    complex_f64 *eig;
    window_job *jobs; // WINDOW: all T of them
    window_facts *facts;
} work;

static void release(void *p) {
    work *w = p;
    if (!w)
        return;
    if (w->r.be)
        w->r.be->op->free(w->r.be, w->start);
    recurrence_free(&w->r);
    free(w->heads);
    free(w->at);
    free(w->sv);
    free(w->fro);
    free((double *)w->x.k);
    free((double *)w->x.beta);
    free((double *)w->x.g);
    free(w->eig);
    free(w->jobs);
    free(w->facts);
    free(w);
}

static int values(const bench_case *c) {
    return (int)(c->at[AXIS_K] < c->at[AXIS_V] ? c->at[AXIS_K] : c->at[AXIS_V]);
}

static bool prepare_erank(work *w, const bench_setup *set, err *e) {
    const bench_case *c = set->c;
    int64_t T = c->at[AXIS_T], H = c->at[AXIS_HV];
    head_shape s = recurrence_shape(c, 1, DECAY_HEAD, ERASE_KEY);
    s.beta_max = 1;
    if (!recurrence_make(&w->r, set, s, 1, T, BENCH_KEYS_RANDOM, 1, e))
        return false;
    w->heads = mem_alloc((size_t)H, sizeof *w->heads, "heads", e);
    w->at = mem_alloc((size_t)T, sizeof *w->at, "positions", e);
    w->sv = mem_alloc((size_t)(H * T * values(c)), sizeof *w->sv, "singular values", e);
    w->fro = mem_alloc((size_t)(H * T), sizeof *w->fro, "norms", e);
    w->start = set->be->op->alloc_exact(set->be, w->r.state.rows, w->r.state.cols);
    if (!w->heads || !w->at || !w->sv || !w->fro || !backend_check(set->be, e))
        return false;
    for (int64_t h = 0; h < H; h++)
        w->heads[h] = (int)h;
    for (int64_t t = 0; t < T; t++)
        w->at[t] = t + 1;
    // Full states, as deep in a document: the stretch is read once beforehand.
    recurrence_call(&w->r, T, w->r.s.s.Hk);
    set->be->op->copy(set->be, w->r.state, w->start);
    return backend_check(set->be, e);
}

static bool prepare_window(work *w, const bench_setup *set, err *e) {
    const bench_case *c = set->c;
    int64_t K = c->at[AXIS_K], n = c->at[AXIS_N], T = c->at[AXIS_T] + c->at[AXIS_W];
    uint64_t r = set->seed ^ UINT64_C(0x77696e646f77);
    double *k = mem_alloc((size_t)(T * n * K), sizeof *k, "keys", e);
    double *beta = mem_alloc((size_t)(T * n), sizeof *beta, "betas", e);
    double *g = mem_alloc((size_t)T, sizeof *g, "gates", e);
    w->x = (transitions){.kind = TRANSITION_KEYS,
                         .decay = TDECAY_HEAD,
                         .T = T,
                         .K = (int)K,
                         .n_h = (int)n,
                         .k = k,
                         .beta = beta,
                         .g = g};
    w->eig = mem_alloc((size_t)(c->at[AXIS_T] * K), sizeof *w->eig, "eigenvalues", e);
    w->jobs = mem_zalloc((size_t)c->at[AXIS_T], sizeof *w->jobs, "windows", e);
    w->facts = mem_zalloc((size_t)c->at[AXIS_T], sizeof *w->facts, "windows", e);
    if (!k || !beta || !g || !w->eig || !w->jobs || !w->facts)
        return false;
    for (int64_t i = 0; i < T * n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < K; j++) {
            k[i * K + j] = random_normal(&r);
            sum += k[i * K + j] * k[i * K + j];
        }
        for (int64_t j = 0; j < K; j++)
            k[i * K + j] /= sqrt(sum);
        beta[i] = 2 * random_uniform(&r);
    }
    for (int64_t t = 0; t < T; t++)
        g[t] = -0.05 * random_uniform(&r);
    return true;
}

static void *prepare(const bench_setup *set, err *e) {
    work *w = mem_zalloc(1, sizeof *w, "a case", e);
    if (!w)
        return NULL;
    w->c = *set->c;
    w->be = set->be;
    if (set->c->op->kind == ERANK ? prepare_erank(w, set, e) : prepare_window(w, set, e))
        return w;
    release(w);
    return NULL;
}

// Many at a time where the device does so, the others one by one.
static bool run_windows(work *w, int64_t T, err *e) {
    const backend_ops *op = w->be->op;
    int64_t W = w->c.at[AXIS_W];
    for (int64_t t = 0; t < T; t++)
        w->jobs[t] = (window_job){.x = &w->x,
                                  .last = t + W - 1,
                                  .W = W,
                                  .eig = w->eig + t * w->x.K,
                                  .facts = &w->facts[t]};
    if (op->window_spectra && !op->window_spectra(w->be, w->jobs, T, e))
        return false;
    for (int64_t t = 0; t < T; t++)
        if (!w->jobs[t].done && !op->window_spectrum(w->be, &w->x, w->jobs[t].last, W,
                                                     w->jobs[t].eig, NULL, &w->facts[t], e))
            return false;
    return true;
}

static void run(void *p, double share) {
    work *w = p;
    int64_t T = (int64_t)((double)w->c.at[AXIS_T] * share + 0.5);
    err e = {0};
    bool ok = true;
    T = T < 1 ? 1 : T;
    if (w->c.op->kind == ERANK) {
        w->be->op->copy(w->be, w->start, w->r.state);
        ok = w->be->op->state_svals(w->be, &w->r.s, w->r.state, w->heads, (int)w->c.at[AXIS_HV],
                                    w->at, T, w->sv, w->fro, &e);
    } else {
        ok = run_windows(w, T, &e);
    }
    if (!ok)
        err_set(&w->be->fail, e.code, "%s", e.text);
}

// The same states in float64 from the same inputs, and LAPACK's singular values of them.
static bool gate_erank(work *w, bench_gate *g, err *e) {
    const bench_case *c = &w->c;
    enum { STATES = 4 };
    int64_t K = c->at[AXIS_K], V = c->at[AXIS_V], H = c->at[AXIS_HV], T = c->at[AXIS_T];
    int n = values(c), heads = H < 2 ? 1 : 2;
    int64_t group = H / c->at[AXIS_H], at[STATES], count = 0;
    for (int i = 1; i <= STATES; i++) // ends of quarters, each once
        if (count == 0 || T * i / STATES > at[count - 1])
            at[count++] = T * i / STATES > 0 ? T * i / STATES : 1;
    backend *f = cpu_open(PRECISION_F64, 0, e);
    double *v = mem_alloc((size_t)((T > K ? T : K) * (K > V ? K : V)), sizeof *v, "a gate", e);
    double *sv = mem_alloc((size_t)(count * n), sizeof *sv, "a gate", e), off = 0, all = 0;
    bool ok = f && v && sv;
    run(w, 1);
    ok = ok && backend_check(w->be, e);
    for (int i = 0; ok && i < heads; i++) {
        int64_t h = i == 0 ? 0 : H - 1;
        steps s = {.s = w->r.s.s, .T = T};
        s.s.H = s.s.Hk = 1;
        const struct {
            mat *to;
            mat from;
            int64_t first, width;
        } part[] = {{&s.q, w->r.s.q, h / group * K, K},
                    {&s.k, w->r.s.k, h / group * K, K},
                    {&s.v, w->r.s.v, h * V, V},
                    {&s.beta, w->r.s.beta, h, 1},
                    {&s.decay, w->r.s.decay, h, 1}};
        mat state = f->op->alloc(f, K, V);
        for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
            if (mat_none(part[k].from))
                continue;
            *part[k].to = f->op->alloc(f, T, part[k].width);
            if (!backend_check(f, e)) {
                ok = false;
                break;
            }
            w->be->op->read(w->be, mat_cols(part[k].from, part[k].first, part[k].width), v);
            f->op->write(f, v, *part[k].to);
        }
        int zero = 0;
        if (ok) {
            w->be->op->read(w->be, mat_rows(w->start, h * K, K), v);
            f->op->write(f, v, state);
            ok = f->op->state_svals(f, &s, state, &zero, 1, at, count, sv, v, e);
        }
        for (int64_t a = 0; ok && a < count; a++)
            for (int j = 0; j < n; j++) {
                double mine = w->sv[(h * T + at[a] - 1) * n + j], ref = sv[a * n + j];
                off += (mine - ref) * (mine - ref);
                all += ref * ref;
            }
        for (size_t k = 0; k < sizeof part / sizeof *part; k++)
            f->op->free(f, *part[k].to);
        f->op->free(f, state);
    }
    g->error = all > 0 ? sqrt(off / all) : (double)NAN;
    snprintf(g->how, sizeof g->how,
             "%lld states of %d of %lld heads, against LAPACK on float64 states", (long long)count,
             heads, (long long)H);
    backend_close(f);
    free(v);
    free(sv);
    return ok;
}

// A sum over all eigenvalues needs no matching: the trace of the product.
static bool gate_window(work *w, bench_gate *g, err *e) {
    const bench_case *c = &w->c;
    int64_t K = c->at[AXIS_K], W = c->at[AXIS_W], T = c->at[AXIS_T];
    double *P = mem_alloc((size_t)(K * K), sizeof *P, "a gate", e);
    run(w, 1);
    bool ok = P && backend_check(w->be, e);
    g->error = 0;
    for (int64_t t = 0; ok && t<T; t += T> 1 ? T - 1 : 1) {
        double log_scale = 0, trace = 0, size = 0, re = 0;
        ok = spectrum_product(&w->x, t + W - 1, W, P, &log_scale, e);
        for (int64_t i = 0; i < K; i++) {
            const double *z = (const double *)&w->eig[t * K + i];
            re += z[0];
            trace += P[i * K + i] * exp(log_scale);
            size += hypot(z[0], z[1]);
        }
        double off = fabs(re - trace) / fmax(size, 1e-300);
        if (isnan(off) || off > g->error) // once NaN, always NaN
            g->error = off;
    }
    snprintf(g->how, sizeof g->how, "the trace of the first and last product formed in float64");
    free(P);
    return ok;
}

static bool gate(void *p, bench_gate *g, err *e) {
    work *w = p;
    int threads = omp_get_max_threads();
    g->state_error = g->stress = NAN;
    bool ok = w->c.op->kind == ERANK ? gate_erank(w, g, e) : gate_window(w, g, e);
    omp_set_num_threads(threads);
    // Singular values of float32 states that went through bf16 inputs keep float32's digits.
    if (ok)
        bench_judge(g);
    return ok;
}

static void cost(const bench_case *c, const void *p, bench_cost *out) {
    (void)p;
    double K = (double)c->at[AXIS_K], T = (double)c->at[AXIS_T], n = values(c);
    if (c->op->kind == ERANK) {
        double N = T * (double)c->at[AXIS_HV], V = (double)c->at[AXIS_V];
        // A rank-1 update of the Gram, a tridiagonalisation, QL (performance notes, section 6.2).
        out->flop = N * (4.0 / 3 * n * n * n + 8 * n * n + 6 * K * V);
        out->bytes = N * (K + V) * case_esize(c) + N * n * 8;
        out->items = N;
        out->item = "states";
        return;
    }
    double r = fmin(K, (double)(c->at[AXIS_W] * c->at[AXIS_N]));
    out->flop = T * 12 * r * r * r; // Hessenberg and shifted QR of the core
    out->bytes = T * (double)(c->at[AXIS_W] * c->at[AXIS_N]) * K * 8;
    out->items = T;
    out->item = "windows";
}

static const char *kernel(const void *p) {
    const work *w = p;
    if (w->c.op->kind == WINDOW)
        return w->be->op->window_spectra ? "cuda windows, many at a time"
                                         : "window product's core, LAPACK dgeev";
    return w->c.at[AXIS_DEVICE] == ON_CUDA ? "cuda Gram, tridiagonal, QL"
           : w->be->prec == PRECISION_F64  ? "LAPACK dgesdd"
                                           : "cpu Gram, tridiagonal, QL";
}

static double bytes(const bench_case *c) {
    bench_cost x = {0};
    cost(c, NULL, &x);
    return 2 * x.bytes;
}

BENCH_OP(erank, ERANK,
         BIT(AXIS_T) | BIT(AXIS_H) | BIT(AXIS_HV) | BIT(AXIS_K) | BIT(AXIS_V) | BIT(AXIS_INPUT) |
             BIT(AXIS_FORM),
         "T=64 H=4 K=64 V=64", "singular values of the states after every token", .bytes = bytes)
BENCH_OP(window, WINDOW, BIT(AXIS_T) | BIT(AXIS_K) | BIT(AXIS_N) | BIT(AXIS_W),
         "T=16 K=64 n=1 W=64", "eigenvalues of T products of W tokens' transitions", .bytes = bytes)
