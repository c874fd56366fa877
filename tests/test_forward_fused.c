// What core/forward_ops.c makes of a backend's fused operations, and of the memory that it says is
// free, on a CPU that offers both: results are those of the plain composition to the last bit, and a
// block is as long as the memory allows.
#include "analyses/parity.h"
#include "core/forward.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int added, convolved, gated, projected;
static int64_t free_now;

static void linear_add(backend *be, mat x, mat w, mat bias, double scale, mat y) {
    mat z = be->op->alloc(be, y.rows, y.cols);
    be->op->linear(be, x, w, bias, z);
    be->op->add(be, z, scale, y);
    be->op->free(be, z);
    added++;
}

// Every third call is declined.
static bool conv_heads(backend *be, mat x, const conv_part *part, int n) {
    int64_t at = 0;
    if (++convolved % 3 == 0)
        return false;
    for (int i = 0; i < n; i++) {
        const conv_part *p = &part[i];
        be->op->short_conv(be, mat_cols(x, at, p->y.cols), p->w, p->bias, p->tail, p->act, p->y);
        be->op->normalize_heads(be, p->y, p->head_dim, p->norm, p->eps);
        at += p->y.cols;
    }
    return true;
}

static bool linear_conv(backend *be, mat x, mat w, const conv_part *part, int n) {
    if (++projected % 3 == 0)
        return false;
    mat z = be->op->alloc(be, x.rows, w.rows);
    be->op->linear(be, x, w, MAT_NONE, z);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const conv_part *p = &part[i];
        be->op->short_conv(be, mat_cols(z, at, p->y.cols), p->w, p->bias, p->tail, p->act, p->y);
        be->op->normalize_heads(be, p->y, p->head_dim, p->norm, p->eps);
        at += p->y.cols;
    }
    be->op->free(be, z);
    return true;
}

static bool linear_gated(backend *be, mat x, mat w, activation act, mat y) {
    if (++gated % 3 == 0)
        return false;
    mat z = be->op->alloc(be, x.rows, w.rows);
    be->op->linear(be, x, w, MAT_NONE, z);
    mat up = mat_cols(z, y.cols, y.cols);
    be->op->multiply(be, mat_cols(z, 0, y.cols), act, up);
    be->op->copy(be, up, y);
    be->op->free(be, z);
    return true;
}

static int64_t free_bytes(backend *be) {
    (void)be;
    return free_now;
}

// A CPU backend; fused: with a table that has everything a device has. table outlives it.
static backend *open_cpu(bool fused, backend_ops *table) {
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 0, &e);
    assert_non_null(be);
    if (fused) {
        *table = *be->op;
        table->linear_add = linear_add;
        table->conv_heads = conv_heads;
        table->linear_conv = linear_conv;
        table->linear_gated = linear_gated;
        table->free_bytes = free_bytes;
        be->op = table;
        be->most_block = 4096;
    }
    return be;
}

static parity compare(const char *folder, bool fused) {
    err e = {0};
    parity p = {0};
    backend_ops table;
    backend *be = open_cpu(fused, &table);
    model *m = model_open(folder, be, &e);
    if (!m || !parity_run(m, folder, 64, NULL, NULL, &p, &e))
        fail_msg("%s: %s", folder, e.text);
    model_free(m);
    backend_close(be);
    return p;
}

static void one_dump(const char *folder) {
    parity plain = compare(folder, false), fused = compare(folder, true);
    assert_int_equal(plain.n, fused.n);
    for (size_t i = 0; i < plain.n; i++)
        if (plain.row[i].error != fused.row[i].error)
            fail_msg("%s: %s of layer %d: %g with fused operations, %g without", folder,
                     plain.row[i].what, plain.row[i].layer, fused.row[i].error, plain.row[i].error);
    parity_free(&plain);
    parity_free(&fused);
}

static void fused_operations_change_no_bit(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob("tests/cases/golden/*/config.json", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        *strrchr(found.gl_pathv[i], '/') = 0;
        one_dump(found.gl_pathv[i]);
    }
    assert_true(found.gl_pathc >= 6);
    globfree(&found);
    assert_true(added > 0 && convolved > 0 && gated > 0 && projected > 0);
}

// Experts behind a shared MLP, mixers side by side, latent attention: bodies inside bodies.
static void nor_in_models_of_several_parts(void **state) {
    (void)state;
    static const char *const names[] = {"hf-qwen3-next", "hf-falcon-h1",        "hf-kimi-linear",
                                        "hf-nemotron-h", "hf-granitemoehybrid", "hf-bamba",
                                        "hf-rwkv4",      "hf-olmo-hybrid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char part[128];
        snprintf(part, sizeof part, "golden/%s", names[i]);
        const char *folder = files_shared(part);
        if (!folder)
            skip();
        char kept[1024];
        snprintf(kept, sizeof kept, "%s", folder);
        one_dump(kept);
    }
}

// The larger the free memory the longer the block, up to what repays it, and never more than fits.
static void a_block_is_what_the_free_memory_allows(void **state) {
    (void)state;
    static const int64_t free_of[] = {
        0, 1 << 20, INT64_C(1) << 30, INT64_C(3) << 29, INT64_C(1) << 31, INT64_C(1) << 40};
    enum { LONGEST = 100000 };
    err e = {0};
    backend_ops table;
    backend *be = open_cpu(true, &table);
    model *m = model_open("examples/small-deltaproduct2", be, &e);
    assert_non_null(m);
    int64_t before = 0;
    for (size_t i = 0; i < sizeof free_of / sizeof *free_of; i++) {
        free_now = free_of[i];
        fwd *f = fwd_new(m, 0, LONGEST, &e);
        if (!f)
            fail_msg("%s", e.text);
        printf("measured: %lld bytes free: blocks of %lld tokens\n", (long long)free_now,
               (long long)f->block);
        assert_true(f->block >= 64 && f->block % 64 == 0 && f->block >= before);
        assert_true(f->block <= be->most_block);
        // At least q, k, v, their copies behind the convolution, and the residual stream.
        if (free_now > 0 && f->block > 64)
            assert_true(f->block * 12 * m->info.D * be->esize <= free_now);
        before = f->block;
        fwd_free(f);
    }
    assert_int_equal(before, be->most_block);
    fwd *f = fwd_new(m, 7, LONGEST, &e); // as asked
    assert_int_equal(f->block, 7);
    fwd_free(f);
    f = fwd_new(m, 0, 1, &e); // rows of one token
    assert_true(f && f->block >= 1);
    fwd_free(f);
    table.free_bytes = NULL; // a device that does not say
    f = fwd_new(m, 0, LONGEST, &e);
    assert_int_equal(f->block, be->block);
    fwd_free(f);
    model_free(m);
    backend_close(be);
}

// The tokens that were read to find the block leave nothing behind.
static bool keep(void *ctx, int64_t t0, int64_t n, const double *loss, const int32_t *best,
                 err *e) {
    (void)best, (void)e;
    memcpy((double *)ctx + t0, loss, (size_t)n * sizeof *loss);
    return true;
}

static void finding_the_block_leaves_nothing_behind(void **state) {
    (void)state;
    enum { T = 200 };
    int32_t ids[T];
    double loss[2][T];
    for (int i = 0; i < T; i++)
        ids[i] = i * 7 % 200;
    free_now = INT64_C(1) << 31;
    for (int i = 0; i < 2; i++) {
        err e = {0};
        backend_ops table;
        backend *be = open_cpu(true, &table);
        model *m = model_open("examples/small-gated-deltaproduct2", be, &e);
        fwd *f = m ? fwd_new(m, i ? 0 : 4096, T, &e) : NULL;
        probe p = {.ctx = loss[i], .on_loss = keep};
        const probe *probes[] = {&p};
        if (!f || !fwd_row(f, ids, T, NULL, probes, 1, NULL, NULL, &e))
            fail_msg("%s", e.text);
        fwd_free(f);
        model_free(m);
        backend_close(be);
    }
    assert_memory_equal(loss[0], loss[1], (T - 1) * sizeof(double));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_operations_change_no_bit),
        cmocka_unit_test(nor_in_models_of_several_parts),
        cmocka_unit_test(a_block_is_what_the_free_memory_allows),
        cmocka_unit_test(finding_the_block_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
