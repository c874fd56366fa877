#include "tests/dumps.h"

#include "core/npy.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

double *dump_numbers(const char *folder, const char *name) {
    char path[600];
    npy a;
    err e = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    double *v = npy_as_f64(&a, &e);
    npy_free(&a);
    assert_non_null(v);
    return v;
}

dump dump_open(const char *folder) {
    dump d;
    char path[600];
    npy a;
    err e = {0};
    snprintf(d.folder, sizeof d.folder, "%s", folder);
    snprintf(path, sizeof path, "%s/input_ids.npy", folder);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    assert_int_equal(a.count, DUMP_T);
    d.ids = npy_as_i32(&a, &e);
    npy_free(&a);
    d.nll = dump_numbers(folder, "nll.npy");
    return d;
}

void dump_free(dump *d) {
    free(d->ids);
    free(d->nll);
}

// A dump that is not kept in this repository, or skips.
dump dump_shared(const char *name) {
    char part[128];
    snprintf(part, sizeof part, "golden/%s", name);
    const char *folder = files_shared(part);
    if (!folder)
        skip();
    return dump_open(folder);
}

// The next dump of a list: kept here, or in the reference data when that is there.
bool dump_next(const char *const *names, int *i, dump *d) {
    while (names[*i]) {
        char part[160], file[200];
        const char *folder = part;
        snprintf(part, sizeof part, KEPT "%s", names[*i]);
        snprintf(file, sizeof file, "%s/nll.npy", part);
        if (access(file, R_OK) != 0) {
            snprintf(part, sizeof part, "golden/%s", names[*i]);
            folder = files_shared(part);
        }
        (*i)++;
        if (folder) {
            *d = dump_open(folder);
            return true;
        }
    }
    return false;
}

static bool on_loss(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                    err *e) {
    (void)best, (void)e;
    memcpy((double *)ctx + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

void dump_read(const model *m, const int32_t *ids, int64_t n, int64_t block, const row_options *opt,
               double *loss) {
    err e = {0};
    probe p = {.ctx = loss, .on_loss = on_loss};
    const probe *probes[] = {&p};
    fwd *f = fwd_new(m, block, n, &e);
    if (!f || !fwd_row(f, ids, n, opt, probes, 1, NULL, NULL, &e))
        fail_msg("%s", e.text);
    fwd_free(f);
}

double dump_away(const double *a, const double *b, int64_t n) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);
        if (!(d <= worst))
            worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

// Losses of the model in a folder; all its tensors must be read. note: a part of one of its remarks,
// NULL: it makes none.
void dump_losses(const char *folder, precision p, const int32_t *ids, const char *note,
                 double *loss) {
    err e = {0};
    backend *be = cpu_open(p, 1, &e);
    model *m = model_open(folder, be, &e);
    if (!m)
        fail_msg("%s", e.text);
    for (size_t i = 0; i < m->leftover.n; i++)
        fail_msg("%s was not read", m->leftover.v[i]);
    bool said = false;
    for (size_t i = 0; i < m->notes.n; i++) {
        said |= note && strstr(m->notes.v[i], note) != NULL;
        if (!note)
            fail_msg("a remark: %s", m->notes.v[i]);
    }
    if (note && !said)
        fail_msg("no remark holds \"%s\", %zu others", note, m->notes.n);
    dump_read(m, ids, DUMP_T, 64, NULL, loss);
    model_free(m);
    backend_close(be);
}

void dump_same(const tiny_model *t, const dump *d, const char *note) {
    double got[DUMP_T];
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d->ids, note, got);
    double worst = dump_away(got, d->nll, DUMP_T - 1);
    if (!(worst <= 1e-9))
        fail_msg("losses are %g away", worst);
}

void dump_differs(const tiny_model *t, const dump *d, double at_least) {
    double got[DUMP_T];
    dump_losses(tiny_save(t, "model"), PRECISION_F64, d->ids, NULL, got);
    double worst = dump_away(got, d->nll, DUMP_T - 1);
    assert_true(isfinite(worst));
    if (worst < at_least)
        fail_msg("losses are only %g away", worst);
}

void dump_refused(const tiny_model *t, err_code code, const char *const *words) {
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    model *m = model_open(tiny_save(t, "model"), be, &e);
    if (m)
        fail_msg("opened, but \"%s\" was expected", *words);
    for (; *words; words++)
        files_assert_error_holds(&e, code, *words);
    backend_close(be);
}

tiny_tensor *dump_add(tiny_model *t, const char *name, int rank, const int64_t *dims, double v) {
    tiny_tensor *x = tiny_add(t, name, rank, dims);
    for (int64_t i = 0; i < x->n; i++)
        x->v[i] = v;
    return x;
}
