// Effective ranks and norms of the trained models, as the erank analysis gives them, against a plain
// float64 program. test_trained holds all models against it in float64, position by position; here
// are the analysis itself in both precisions and float32 on the larger kinds.
#include "analyses/erank.h"
#include "core/document.h"
#include "core/npy.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (!(call))                                                                               \
            fail_msg("%s", e.text);                                                                \
    } while (0)

enum { EVERY = 64 };

// Numbers of peer/<model>/<file>, with its shape in *a.
static double *peer(const char *name, const char *stem, const char *document, npy *a) {
    err e = {0};
    char path[256];
    snprintf(path, sizeof path, "peer/%s/%s_%s.npy", name, stem, document);
    OK(npy_read(files_shared(path), a, &e));
    double *v = npy_as_f64(a, &e);
    assert_non_null(v);
    assert_int_equal(a->rank, 3);
    return v;
}

// Largest relative difference of the positions that both have.
static double compare(const erank_result *r, erank_quantity q, const char *name, const char *stem,
                      const char *document) {
    npy a;
    double *want = peer(name, stem, document, &a), worst = 0;
    assert_int_equal(a.dims[0], r->n_layers);
    assert_int_equal(a.dims[1], r->n_heads);
    assert_true(r->positions <= a.dims[2]);
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->n_heads; h++) {
            const double *got = erank_line(r, q, 0, l, h);
            const double *line = want + (l * r->n_heads + h) * a.dims[2];
            for (int64_t i = 0; i < r->positions; i++) {
                double d = fabs(got[i] - line[i]) / fabs(line[i]);
                worst = d <= worst ? worst : isnan(d) ? INFINITY : d;
            }
        }
    free(want);
    npy_free(&a);
    return worst;
}

// The ids of a document; models share a tokenizer more often than not, so the last one is kept.
static const document *ids_of(const char *model, const char *name) {
    static document kept;
    static char *kept_tokenizer, kept_name[64];
    err e = {0};
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof path, "checkpoints/%s/tokenizer.json", model);
    char *text = files_read(files_shared(path), &n);
    assert_non_null(text);
    if (kept_tokenizer && strcmp(text, kept_tokenizer) == 0 && strcmp(name, kept_name) == 0) {
        free(text);
        return &kept;
    }
    document_free(&kept);
    free(kept_tokenizer);
    kept_tokenizer = text;
    snprintf(kept_name, sizeof kept_name, "%s", name);
    tokenizer *t = tokenizer_open(files_shared(path), &e);
    if (!t)
        fail_msg("%s", e.text);
    snprintf(path, sizeof path, "documents/%s.txt", name);
    document_options o = {.tokenizer = t};
    OK(document_read(files_shared(path), &o, &kept, &e));
    tokenizer_close(t);
    return &kept;
}

static void check(const char *name, const char *document, int64_t tokens, precision p) {
    err e = {0};
    char path[256];
    erank_result r;
    backend *be = cpu_open(p, 2, &e);
    assert_non_null(be);
    snprintf(path, sizeof path, "checkpoints/%s", name);
    model *m = model_open(files_shared(path), be, &e);
    if (!m)
        fail_msg("%s", e.text);
    erank_options o = {.every = EVERY, .cut = -1, .block = 512};
    double start = files_seconds();
    OK(erank_run(m, ids_of(name, document)->ids, 1, tokens, NULL, &o, NULL, NULL, &r, &e));
    double seconds = files_seconds() - start;
    double rank = compare(&r, ERANK_RANK, name, "erank64", document);
    double norm = compare(&r, ERANK_NORM, name, "norm64", document);
    printf(
        "measured %s, %s, %s, %lld tokens: relative error of ranks %.2g, of norms %.2g (%.1f s)\n",
        name, document, precision_name(p), (long long)tokens, rank, norm, seconds);
    // The tolerances of the reference dumps: trained models carry rounding on from token to token,
    // but do not amplify it much.
    if (p == PRECISION_F64)
        assert_true(rank <= 1e-9 && norm <= 1e-9);
    else
        assert_true(rank <= 3e-4 && norm <= 3e-4);
    erank_free(&r);
    model_free(m);
    backend_close(be);
}

static bool absent(void) {
    if (files_shared("peer") && files_shared("checkpoints") && files_shared("documents"))
        return false;
    skip();
    return true;
}

static void small_models_agree_over_2048_tokens(void **unused) {
    (void)unused;
    if (absent())
        return;
    static const char *const names[] = {"small-deltanet", "small-deltaproduct2",
                                        "small-gated-deltaproduct2"};
    for (int i = 0; i < 3; i++) {
        check(names[i], "text_kjv", 2048, PRECISION_F64);
        check(names[i], "text_kjv", 2048, PRECISION_F32);
    }
}

static void large_models_agree_in_float32(void **unused) {
    (void)unused;
    if (absent())
        return;
    static const char *const names[] = {"deltaproduct3", "gated-deltanet", "kda"};
    for (int i = 0; i < 3; i++)
        check(names[i], "code_ext4", 1024, PRECISION_F32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_models_agree_over_2048_tokens),
        cmocka_unit_test(large_models_agree_in_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
