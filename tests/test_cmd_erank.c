// deltop erank as users run it: files, JSON, text, exit codes. Uses examples/.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/run.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2" // 4 layers x 4 heads, 32 x 32, n_h = 2, trained at 512
#define TEXT  "examples/text_kjv.txt"

enum { MAX_WORDS = 24 };

// Runs "erank" with the words, NULL at the end, and expects the exit code.
static run erank(int code, const char *const *words) {
    const char *argv[MAX_WORDS + 2] = {"erank"};
    run r = {.argv = argv, .timeout = 120};
    for (int i = 0; words[i] && i < MAX_WORDS; i++)
        argv[i + 1] = words[i];
    assert_true(run_program(&r));
    r.argv = NULL;
    if (r.code != code)
        fail_msg("exit code %d, not %d: %s", r.code, code, r.err);
    return r;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static npy array(const char *folder, const char *name) {
    err e = {0};
    npy a;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    assert_int_equal(a.type, NPY_F8);
    return a;
}

static void shape_is(const npy *a, int rank, const int64_t *dims) {
    assert_int_equal(a->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(a->dims[i], dims[i]);
}

static double number(const json_t *v, const char *key) {
    const json_t *x = json_object_get(v, key);
    if (!json_is_number(x))
        fail_msg("%s is not a number", key);
    return json_number_value(x);
}

static void every_quantity_becomes_an_array_and_json_agrees_with_it(void **unused) {
    (void)unused;
    const char *out = files_path("all");
    run r = erank(0, WORDS(MODEL, TEXT, "--length", "1k", "--every", "8", "--out", out, "--json",
                           "--threads", "2"));
    const char *const names[] = {"erank.npy",   "norm.npy",      "spectral.npy",  "stable_rank.npy",
                                 "nuclear.npy", "condition.npy", "top_energy.npy"};
    npy a[7];
    for (int i = 0; i < 7; i++) {
        a[i] = array(out, names[i]);
        shape_is(&a[i], 3, (int64_t[]){4, 4, 128});
    }
    // S02, S04: bounds that hold for every state.
    double sum = 0;
    for (int64_t i = 0; i < a[0].count; i++) {
        const double rank = ((double *)a[0].data)[i], fro = ((double *)a[1].data)[i],
                     spectral = ((double *)a[2].data)[i], stable = ((double *)a[3].data)[i],
                     nuclear = ((double *)a[4].data)[i], condition = ((double *)a[5].data)[i],
                     top = ((double *)a[6].data)[i];
        assert_true(rank >= 1 && rank <= 32);
        assert_true(spectral <= fro * (1 + 1e-7) && fro <= nuclear * (1 + 1e-7));
        assert_true(stable >= 1 && stable <= 32 && condition >= 1);
        assert_true(fabs(top - spectral * spectral / (fro * fro)) < 1e-6);
        assert_true(fabs(stable * top - 1) < 1e-6);
        if (i % 128 < 64)
            sum += rank;
    }
    json_t *j = json_loads(r.out, 0, NULL);
    assert_non_null(j);
    const json_t *one = json_array_get(json_object_get(j, "results"), 0);
    assert_true(number(one, "largest_rank") == 32);
    assert_true(number(one, "n_h") == 2);
    const json_t *cut = json_object_get(one, "cut");
    assert_true(number(cut, "value") == 1e-7);
    const json_t *all = json_object_get(json_object_get(one, "all"), "mean_in_stretches");
    double got = json_number_value(json_array_get(all, 0));
    assert_true(fabs(got - sum / (16 * 64)) < 1e-9);
    assert_int_equal(json_array_size(json_object_get(one, "by_head")), 16);
    json_decref(j);
    for (int i = 0; i < 7; i++)
        npy_free(&a[i]);
    char path[1024];
    const char *const top[] = {"erank.png", "erank.csv", "erank.json"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", out, top[i]);
        assert_int_equal(access(path, R_OK), 0);
    }
    run_free(&r);
}

static void rows_layers_heads_and_micro_steps_shape_the_arrays(void **unused) {
    (void)unused;
    const char *out = files_path("some");
    run r = erank(0, WORDS(MODEL, TEXT, "--length", "64", "--rows", "3", "--layers", "1,3",
                           "--heads", "2", "--micro", "--before", "--out", out));
    npy a = array(out, "erank.npy");
    shape_is(&a, 4, (int64_t[]){3, 2, 1, 128});
    // S03: each row's first micro-step starts from a zero state.
    for (int i = 0; i < 6; i++) {
        assert_true(isnan(((double *)a.data)[i * 128]));
        assert_false(isnan(((double *)a.data)[i * 128 + 1]));
    }
    npy_free(&a);
    run_free(&r);
    out = files_path("authors");
    r = erank(
        0, WORDS(MODEL, TEXT, "--length", "64", "--before", "--compat", "authors", "--out", out));
    a = array(out, "erank.npy");
    shape_is(&a, 3, (int64_t[]){4, 4, 64});
    assert_true(((double *)a.data)[0] == 0); // B81
    npy_free(&a);
    run_free(&r);
}

static void several_models_get_their_folders_and_one_picture(void **unused) {
    (void)unused;
    const char *out = files_path("several");
    run r = erank(0, WORDS(MODEL, "examples/small-deltanet", TEXT, "--length", "128", "--every",
                           "16", "--out", out));
    char path[1024];
    snprintf(path, sizeof path, "%s/small-deltanet/text_kjv", out);
    npy a = array(path, "erank.npy");
    shape_is(&a, 3, (int64_t[]){4, 4, 8});
    npy_free(&a);
    snprintf(path, sizeof path, "%s/erank.png", out);
    assert_int_equal(access(path, R_OK), 0);
    assert_non_null(strstr(r.out, "small-deltaproduct2 on text_kjv"));
    assert_non_null(strstr(r.out, "small-deltanet on text_kjv"));
    run_free(&r);
}

static void text_names_means_and_growth(void **unused) {
    (void)unused;
    run r = erank(0, WORDS(MODEL, TEXT, "--length", "1k", "--every", "64"));
    assert_non_null(strstr(r.out, "mean effective rank (of 32)"));
    assert_non_null(strstr(r.out, "at token 512"));
    assert_non_null(strstr(r.out, "past the training length of 512:"));
    assert_non_null(strstr(r.out, "Frobenius norm"));
    run_free(&r);
}

static void mistakes_have_their_exit_codes_and_sentences(void **unused) {
    (void)unused;
    const struct {
        int code;
        const char *option, *value, *says;
    } cases[] = {
        {2, "--layers", "9", "small-deltaproduct2: option --layers: there is no layer 9"},
        {2, "--heads", "4", "small-deltaproduct2: option --heads: there is no head 4"},
        {2, "--every", "0", "--every"},
        {2, "--cut", "2", "--cut"},
        {2, "--compat", "numpy", "authors"},
        {1, "--every", "65",
         "text_kjv: a row of 64 tokens has no position to look at with --every 65"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = erank(cases[i].code,
                      WORDS(MODEL, TEXT, "--length", "64", cases[i].option, cases[i].value));
        if (!strstr(r.err, cases[i].says))
            fail_msg("\"%s\" does not hold \"%s\"", r.err, cases[i].says);
        run_free(&r);
    }
    run r = erank(1, WORDS(MODEL, "-"));
    assert_non_null(strstr(r.err, "standard input: a row of 0 tokens"));
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_quantity_becomes_an_array_and_json_agrees_with_it),
        cmocka_unit_test(rows_layers_heads_and_micro_steps_shape_the_arrays),
        cmocka_unit_test(several_models_get_their_folders_and_one_picture),
        cmocka_unit_test(text_names_means_and_growth),
        cmocka_unit_test(mistakes_have_their_exit_codes_and_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
