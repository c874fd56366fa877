// A whole model reading T tokens, with the loss of every one: a checkpoint, or a config with random
// weights.
#include "bench/op.h"
#include "bench/random_model.h"
#include "core/file.h"
#include "core/forward.h"
#include "core/mem.h"
#include "core/model.h"
#include "core/random.h"
#include "core/sha256.h"
#include "core/text.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct work {
    bench_case c;
    backend *be;
    model *m;
    fwd *f;
    char folder[512]; // of random weights; "" for a checkpoint
    uint64_t seed;
    int64_t T, numbers; // numbers: weights that a token is multiplied with
    int32_t *ids;
    double *loss; // [T]
} work;

static bool keep_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                      err *e) {
    (void)best, (void)e;
    memcpy((double *)ctx + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static void release(void *p) {
    work *w = p;
    if (!w)
        return;
    fwd_free(w->f);
    model_free(w->m);
    if (w->folder[0]) {
        char file[560];
        snprintf(file, sizeof file, "%s/model.safetensors", w->folder);
        unlink(file);
        rmdir(w->folder);
    }
    free(w->ids);
    free(w->loss);
    free(w);
}

static bool has_weights(const char *path) {
    err none = {0};
    ckpt *c = file_is_folder(path) ? ckpt_open(path, &none) : NULL;
    bool there = c != NULL || file_ends_with(path, ".safetensors");
    ckpt_close(c);
    return there;
}

// The checkpoint's weights, or random ones made once.
static model *open_model(work *w, backend *be, err *e) {
    const char *path = w->c.model;
    if (has_weights(path))
        return model_open(path, be, e);
    if (!w->folder[0]) {
        int64_t all = 0;
        if (!file_temporary_folder("deltop-bench-", w->folder, sizeof w->folder, e) ||
            !random_model_write(path, w->folder, w->seed, &all, e))
            return NULL;
    }
    ckpt *c = ckpt_open(w->folder, e);
    config *cfg = c ? config_open(path, e) : NULL;
    model *m = cfg ? model_load(c, cfg, be, e) : NULL;
    config_close(cfg);
    ckpt_close(c);
    return m;
}

// Every weight of a matrix multiplies each token once; the embedding is looked up.
static void count(void *ctx, const char *name, int64_t n, int64_t rows, int64_t cols) {
    if (rows > 1 && !strstr(name, "embed") && !strstr(name, "wte"))
        *(int64_t *)ctx += n * rows * cols;
}

static void *prepare(const bench_setup *set, err *e) {
    work *w = mem_zalloc(1, sizeof *w, "a case", e);
    if (!w)
        return NULL;
    w->c = *set->c;
    w->be = set->be;
    w->seed = set->seed;
    w->T = set->c->at[AXIS_T];
    w->m = open_model(w, set->be, e);
    config *cfg = w->m ? config_open(w->c.model, e) : NULL;
    bool ok = cfg && model_wants(cfg, count, &w->numbers, e);
    config_close(cfg);
    if (ok && w->m->info.tied)
        w->numbers += w->m->info.n_vocab * w->m->info.D;
    ok = ok && (w->f = fwd_new(w->m, set->be->block, w->T, e));
    w->ids = ok ? mem_alloc((size_t)w->T, sizeof *w->ids, "tokens", e) : NULL;
    w->loss = w->ids ? mem_zalloc((size_t)w->T, sizeof *w->loss, "losses", e) : NULL;
    if (!w->loss) {
        release(w);
        return NULL;
    }
    uint64_t r = set->seed ^ UINT64_C(0x746f6b656e73);
    for (int64_t t = 0; t < w->T; t++)
        w->ids[t] = (int32_t)(random_next(&r) % (uint64_t)w->m->info.n_vocab);
    return w;
}

static bool read_row(fwd *f, const int32_t *ids, int64_t T, double *loss, err *e) {
    probe p = {.ctx = loss, .on_loss = keep_loss};
    const probe *probes[] = {&p};
    return fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, e);
}

static void run(void *p, double share) {
    work *w = p;
    int64_t T = (int64_t)((double)w->T * share + 0.5);
    err e = {0};
    if (!read_row(w->f, w->ids, T < 2 ? w->T < 2 ? 1 : 2 : T, w->loss, &e))
        err_set(&w->be->fail, e.code, "%s", e.text);
}

// The first tokens' losses against the same model in float64 on the CPU.
static bool gate(void *p, bench_gate *g, err *e) {
    work *w = p;
    int64_t T = w->numbers > 100000000 ? 48 : 256;
    T = T < w->T ? T : w->T;
    int threads = omp_get_max_threads();
    double *ref = mem_zalloc((size_t)T, sizeof *ref, "a gate", e), off = 0, all = 0;
    backend *be = ref ? cpu_open(PRECISION_F64, 0, e) : NULL;
    model *m = be ? open_model(w, be, e) : NULL;
    fwd *f = m ? fwd_new(m, be->block, T, e) : NULL;
    run(w, 1);
    bool ok = f && read_row(f, w->ids, T, ref, e) && backend_check(w->be, e);
    for (int64_t t = 0; ok && t + 1 < T; t++) {
        off += (w->loss[t] - ref[t]) * (w->loss[t] - ref[t]);
        all += ref[t] * ref[t];
    }
    g->error = all > 0 ? sqrt(off / all) : (double)NAN;
    g->state_error = g->stress = NAN;
    snprintf(g->how, sizeof g->how, "losses of the first %lld tokens, against float64 on the CPU",
             (long long)T);
    fwd_free(f);
    model_free(m);
    backend_close(be);
    omp_set_num_threads(threads);
    free(ref);
    if (ok)
        bench_judge(g);
    return ok;
}

static void cost(const bench_case *c, const void *p, bench_cost *out) {
    const work *w = p;
    double T = (double)c->at[AXIS_T], mixers = 0;
    for (int L = 0; L < w->m->info.n_layers; L++) {
        const module *x = model_mixer(w->m, L);
        if (x)
            mixers += x->heads.H * (2.0 + 4.0 * x->heads.n_h) * x->heads.K * x->heads.V;
    }
    out->flop = T * (2 * (double)w->numbers + mixers);
    out->bytes = (double)w->numbers * case_esize(c) + T * 2 * (double)w->m->info.D * case_esize(c);
    out->items = T;
    out->item = "tokens";
}

static const char *kernel(const void *p) {
    const work *w = p;
    return w->m->info.family;
}

const bench_op bench_op_model = {.name = "model",
                                 .summary = "a whole model and its losses (--model)",
                                 .axes = BIT(AXIS_T),
                                 .usual = "T=512",
                                 .needs_model = true,
                                 .prepare = prepare,
                                 .run = run,
                                 .gate = gate,
                                 .cost = cost,
                                 .kernel = kernel,
                                 .free = release};
