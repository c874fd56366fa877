// What stands around a recurrence: short convolution, norms, and the head with its loss.
#include "bench/op.h"
#include "core/mem.h"
#include "core/random.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { CONV, RMS, L2, LAYER, LOSS } kind;

// The same fields on the device and, for the gate, in float64 on the CPU.
typedef struct side {
    backend *be;
    mat x, w, bias, tail, y;
    double *loss;
} side;

typedef struct work {
    side d;
    bench_case c;
    int64_t T;
    int32_t *ids;  // LOSS: targets; owned
    int32_t *best; // owned
} work;

static void side_free(side *s) {
    if (!s->be)
        return;
    mat all[] = {s->x, s->w, s->bias, s->tail, s->y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        s->be->op->free(s->be, all[i]);
    free(s->loss);
}

static int64_t width(const bench_case *c) {
    return c->op->kind == L2 ? c->at[AXIS_H] * c->at[AXIS_K] : c->at[AXIS_D];
}

static bool side_make(side *s, const bench_case *c, int64_t T, err *e) {
    const backend_ops *op = s->be->op;
    int64_t D = width(c), W = c->at[AXIS_W], vocab = c->at[AXIS_VOCAB];
    s->x = op->alloc(s->be, T, D);
    switch (c->op->kind) {
    case CONV:
        s->w = op->alloc(s->be, D, W);
        s->bias = op->alloc_exact(s->be, 1, D);
        s->tail = W > 1 ? op->alloc(s->be, W - 1, D) : MAT_NONE;
        break;
    case LAYER:
        s->bias = op->alloc_exact(s->be, 1, D);
        s->w = op->alloc_exact(s->be, 1, D);
        break;
    case RMS:
        s->w = op->alloc_exact(s->be, 1, D);
        break;
    case LOSS:
        s->w = op->alloc(s->be, vocab, D);
        s->loss = mem_alloc((size_t)T, sizeof *s->loss, "losses", e);
        break;
    }
    if (c->op->kind != LOSS)
        s->y = op->alloc(s->be, T, D);
    return backend_check(s->be, e) && (c->op->kind != LOSS || s->loss);
}

static void call(side *s, const bench_case *c, int64_t T, const int32_t *ids, int32_t *best) {
    const backend_ops *op = s->be->op;
    mat x = mat_rows_or_none(s->x, 0, T), y = mat_rows_or_none(s->y, 0, T);
    switch (c->op->kind) {
    case CONV:
        op->short_conv(s->be, x, s->w, s->bias, s->tail, ACT_SILU, y);
        break;
    case RMS:
        op->rms_norm(s->be, x, s->w, 1e-6, y);
        break;
    case LAYER:
        op->layer_norm(s->be, x, s->w, s->bias, c->at[AXIS_D], 1e-6, y);
        break;
    case L2: // in place, so on a copy whose rows are made anew by the gate
        op->normalize_heads(s->be, y, c->at[AXIS_K], HEAD_NORM_L2, 1e-6);
        break;
    case LOSS:
        op->losses(s->be, x, s->w, ids, s->loss, best);
        break;
    }
}

static void fill(backend *be, mat m, uint64_t *r, double size, err *e) {
    enum { PIECE = 1 << 18 };
    if (mat_none(m))
        return;
    int64_t most = PIECE / m.cols > 0 ? PIECE / m.cols : 1;
    double *v = mem_alloc((size_t)(most * m.cols), sizeof *v, "inputs", e);
    for (int64_t t = 0; v && t < m.rows; t += most) {
        int64_t n = m.rows - t < most ? m.rows - t : most;
        for (int64_t i = 0; i < n * m.cols; i++)
            v[i] = size * random_normal(r);
        be->op->write(be, v, mat_rows(m, t, n));
    }
    free(v);
}

static void release(void *p) {
    work *w = p;
    if (!w)
        return;
    side_free(&w->d);
    free(w->ids);
    free(w->best);
    free(w);
}

static void *prepare(const bench_setup *set, err *e) {
    const bench_case *c = set->c;
    work *w = mem_zalloc(1, sizeof *w, "a case", e);
    if (!w)
        return NULL;
    w->c = *c;
    w->T = c->at[AXIS_B] * c->at[AXIS_T];
    w->d.be = set->be;
    uint64_t r = set->seed ^ UINT64_C(0x6c6179657273);
    bool random = c->at[AXIS_INPUT] == INPUT_RANDOM;
    err own = {0};
    if (!side_make(&w->d, c, w->T, e))
        goto failed;
    if (random) {
        fill(set->be, w->d.x, &r, 1, &own);
        fill(set->be, w->d.w, &r, c->op->kind == LOSS ? 3 / sqrt((double)width(c)) : 0.5, &own);
        fill(set->be, w->d.bias, &r, 0.5, &own);
    }
    if (c->op->kind == L2)
        set->be->op->copy(set->be, w->d.x, w->d.y);
    if (c->op->kind == LOSS) {
        w->ids = mem_alloc((size_t)w->T, sizeof *w->ids, "targets", e);
        w->best = mem_alloc((size_t)w->T, sizeof *w->best, "likeliest tokens", e);
        if (!w->ids || !w->best)
            goto failed;
        for (int64_t t = 0; t < w->T; t++)
            w->ids[t] = (int32_t)(random_next(&r) % (uint64_t)c->at[AXIS_VOCAB]);
    }
    set->be->op->wait(set->be);
    if (own.code != ERR_NONE)
        err_set(e, own.code, "%s", own.text);
    else if (backend_check(set->be, e))
        return w;
failed:
    release(w);
    return NULL;
}

static void run(void *p, double share) {
    work *w = p;
    int64_t T = (int64_t)((double)w->T * share + 0.5);
    call(&w->d, &w->c, T < 1 ? 1 : T, w->ids, w->best);
}

// Rows t0 .. t0+n of the device's result against float64. false: *e.
static bool stretch(work *w, int64_t t0, int64_t n, double *v, double *off, double *all, err *e) {
    const bench_case *c = &w->c;
    side f = {.be = cpu_open(PRECISION_F64, 0, e)};
    bool ok = f.be && side_make(&f, c, n, e);
    if (!ok)
        goto done;
    bench_bring(w->d.be, mat_rows(w->d.x, t0, n), f.be, f.x, v);
    bench_bring(w->d.be, w->d.w, f.be, f.w, v);
    bench_bring(w->d.be, w->d.bias, f.be, f.bias, v);
    if (c->op->kind == CONV && t0 > 0) {
        int64_t past = f.tail.rows;
        for (int64_t i = 0; i < past; i++) // rows before the first are zeros
            if (t0 - past + i >= 0)
                bench_bring(w->d.be, mat_rows(w->d.x, t0 - past + i, 1), f.be,
                            mat_rows(f.tail, i, 1), v);
    }
    if (c->op->kind == L2)
        f.be->op->copy(f.be, f.x, f.y);
    int32_t best[64];
    call(&f, c, n, w->ids ? w->ids + t0 : NULL, best);
    ok = backend_check(f.be, e) && backend_check(w->d.be, e);
    if (c->op->kind == LOSS) {
        bench_add_squares(w->d.loss + t0, f.loss, n, off, all);
        goto done;
    }
    w->d.be->op->read(w->d.be, mat_rows(w->d.y, t0, n), v);
    bench_add_squares(v, f.y.p, n * f.y.cols, off, all);
done:
    side_free(&f);
    backend_close(f.be);
    return ok;
}

static bool gate(void *p, bench_gate *g, err *e) {
    work *w = p;
    backend *be = w->d.be;
    int64_t n = w->c.op->kind == LOSS ? 8 : 64, D = width(&w->c);
    n = n < w->T ? n : w->T;
    int64_t weights = mat_none(w->d.w) ? 0 : w->d.w.rows * w->d.w.cols;
    double off = 0, all = 0,
           *v = mem_alloc((size_t)(n * D > weights ? n * D : weights), sizeof *v, "a gate", e);
    if (!v)
        return false;
    int threads = omp_get_max_threads();
    if (!mat_none(w->d.tail))
        be->op->zero(be, w->d.tail);
    if (w->c.op->kind == L2)
        be->op->copy(be, w->d.x, w->d.y);
    run(w, 1);
    be->op->wait(be);
    bool ok = stretch(w, 0, n, v, &off, &all, e) && stretch(w, w->T - n, n, v, &off, &all, e);
    omp_set_num_threads(threads);
    g->error = bench_relative(off, all);
    g->state_error = g->stress = NAN;
    snprintf(g->how, sizeof g->how, "the first and last %lld rows, against float64 on the CPU",
             (long long)n);
    free(v);
    if (ok)
        bench_judge(g);
    return ok;
}

static void cost(const bench_case *c, const void *p, bench_cost *out) {
    (void)p;
    double T = (double)(c->at[AXIS_B] * c->at[AXIS_T]), D = (double)width(c), size = case_esize(c);
    double W = (double)c->at[AXIS_W], vocab = (double)c->at[AXIS_VOCAB];
    out->items = T;
    out->item = "tokens";
    out->bytes = 2 * T * D * size;
    switch (c->op->kind) {
    case CONV:
        out->flop = T * D * (2 * W + 8);
        break;
    case RMS:
    case L2:
        out->flop = 4 * T * D;
        break;
    case LAYER:
        out->flop = 8 * T * D;
        break;
    case LOSS: // logits need not touch memory
        out->flop = T * vocab * (2 * D + 4);
        out->bytes = (T * D + vocab * D) * size;
        break;
    }
}

static const char *kernel(const void *p) {
    const work *w = p;
    static const char *const names[][2] = {{"cpu conv", "cuda conv"},
                                           {"cpu rms norm", "cuda rms norm"},
                                           {"cpu head norm", "cuda head norm"},
                                           {"cpu layer norm", "cuda layer norm"},
                                           {"cpu head + loss, tiled", "cuda head + loss, tiled"}};
    return names[w->c.op->kind][w->c.at[AXIS_DEVICE] == ON_CUDA];
}

static double bytes(const bench_case *c) {
    bench_cost x = {0};
    cost(c, NULL, &x);
    return x.bytes;
}

#define ROWS (BIT(AXIS_B) | BIT(AXIS_T) | BIT(AXIS_INPUT))

BENCH_OP(conv, CONV, ROWS | BIT(AXIS_D) | BIT(AXIS_W), "T=4096 D=1024 W=4",
         "short convolution with SiLU, W taps a channel", .bytes = bytes)
BENCH_OP(rmsnorm, RMS, ROWS | BIT(AXIS_D), "T=4096 D=1024", "RMS norm of every row", .bytes = bytes)
BENCH_OP(l2norm, L2, ROWS | BIT(AXIS_H) | BIT(AXIS_K), "T=4096 H=8 K=128",
         "L2 norm of every head, in place", .bytes = bytes)
BENCH_OP(layernorm, LAYER, ROWS | BIT(AXIS_D), "T=4096 D=1024", "LayerNorm of every row",
         .bytes = bytes)
BENCH_OP(loss, LOSS, ROWS | BIT(AXIS_D) | BIT(AXIS_VOCAB), "T=1024 D=256 vocab=8192",
         "head and loss of every token, logits in tiles", .bytes = bytes)
