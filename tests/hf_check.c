#include "tests/hf_check.h"

#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const int32_t hf_ids[HF_T] = {1, 5, 2, 7, 7, 3, 9, 22, 0, 4, 4, 4, 11, 12, 1, 5, 2, 7, 8, 6,
                              1, 5, 2, 7, 7, 3, 9, 21, 0, 4, 4, 4, 11, 12, 1, 5, 2, 7, 8, 6};

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy((double *)ctx + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

void hf_read(const char *folder, const int32_t *ids, int64_t T, precision p, int64_t block,
             double *loss) {
    err e = {0};
    backend *be = cpu_open(p, 1, &e);
    model *m = model_open(folder, be, &e);
    if (!m)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < m->leftover.n; i++)
        fail_msg("%s was not read", m->leftover.v[i]);
    probe watch = {.ctx = loss, .on_loss = on_loss};
    const probe *probes[] = {&watch};
    fwd *f = fwd_new(m, block, T, &e);
    if (!f || !fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e))
        fail_msg("%s", e.text);
    fwd_free(f);
    model_free(m);
    backend_close(be);
}

void hf_losses(const tiny_model *t, double *loss) {
    hf_read(tiny_save(t, "model"), hf_ids, HF_T, PRECISION_F64, 16, loss);
}

double hf_away(const double *a, const double *b, int64_t n) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        if (isnan(d))
            return NAN;
        worst = fmax(worst, d);
    }
    return worst;
}

void hf_wanted(const tiny_model *t, double *loss) {
    naive r = naive_run(t, hf_ids, HF_T);
    memcpy(loss, r.loss, (HF_T - 1) * sizeof *loss);
    naive_free(&r);
}

void hf_same(const tiny_model *t, const double *want) {
    double got[HF_T];
    const char *folder = tiny_save(t, "model");
    hf_read(folder, hf_ids, HF_T, PRECISION_F64, 16, got);
    assert_true(hf_away(want, got, HF_T - 1) <= 1e-11); // 40 tokens, sums of a few hundred
    hf_read(folder, hf_ids, HF_T, PRECISION_F32, 16, got);
    assert_true(hf_away(want, got, HF_T - 1) <= 1e-4); // golden/README.md
}

void hf_refused(const tiny_model *t, err_code code, const char *const *words) {
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open(tiny_save(t, "model"), be, &e);
    assert_null(m);
    for (; *words; words++)
        files_assert_error_holds(&e, code, *words);
    backend_close(be);
}

model *hf_inspected(const tiny_model *t) {
    err e = {0};
    model *m = model_open(tiny_save(t, "model"), NULL, &e);
    if (!m)
        fail_msg("%s", e.text);
    return m;
}

void hf_every_allocation(const tiny_model *t) {
    const char *folder = tiny_save(t, "model");
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    model *m = NULL;
    long n = 1;
    for (; !m && n < 20000; n++) {
        err_clear(&e);
        err_clear(&be->fail);
        mem_fail_after(n);
        m = model_open(folder, be, &e);
        mem_fail_after(0);
        assert_true(m || e.code != ERR_NONE);
    }
    print_message("measured %ld allocations that may fail\n", n - 2);
    assert_non_null(m);
    model_free(m);
    backend_close(be);
}

bool hf_noted(const model *m, const char *words) {
    for (size_t i = 0; i < m->notes.n; i++)
        if (strstr(m->notes.v[i], words))
            return true;
    return false;
}

const char *hf_name(const char *fmt, ...) {
    static char ring[8][160];
    static unsigned next;
    char *buf = ring[next++ % 8];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof ring[0], fmt, ap);
    va_end(ap);
    return buf;
}
