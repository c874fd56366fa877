// Names folded, globs, statistics of values: the parts of inspect that need no model.
#include "analyses/inspect.h"
#include "tests/files.h"
#include "tests/inspect_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

// Folding, order, globs ----------------------------------------------------------------------

TEST(layers_fold_and_differing_shapes_and_dtypes_stay_apart) {
    tensor_file f = {0};
    inspection x;
    const char *path = files_path("fold.safetensors");
    for (int L = 0; L < 12; L++) {
        char name[80];
        snprintf(name, sizeof name, "layers.%d.attn.A_log", L);
        tensor_file_add(&f, name, L == 10 ? "BF16" : "F32", L == 10 ? 2 : 4, L == 4 ? "[3]" : "[2]",
                        L == 4 ? 3 : 2, NULL);
        snprintf(name, sizeof name, "layers.%d.f.0.w", L);
        tensor_file_add(&f, name, "F32", 4, "[1]", 1, NULL);
        snprintf(name, sizeof name, "layers.%d.f.1.w", L);
        tensor_file_add(&f, name, "F32", 4, "[1]", 1, NULL);
        for (int k = 0; k < 5; k++) {
            snprintf(name, sizeof name, "layers.%d.experts.%d.w", L, k);
            tensor_file_add(&f, name, "F32", 4, "[1]", 1, NULL);
        }
    }
    tensor_file_add(&f, "scalar", "F32", 4, "[]", 1, NULL); // B13
    tensor_file_add(&f, "none", "F32", 4, "[0,64]", 0, NULL);
    tensor_file_write(&f, path);
    small_open(&x, path, NULL);
    const tensor_group *g = small_group(&x.groups, "layers.#.attn.A_log", 0);
    assert_int_equal(g->n, 10);
    assert_string_equal(g->numbers, "0-3,5-9,11");
    assert_int_equal(small_group(&x.groups, "layers.#.attn.A_log", 1)->of->dims[0], 3);
    assert_string_equal(small_group(&x.groups, "layers.#.attn.A_log", 2)->of->type_name, "BF16");
    assert_int_equal(small_group(&x.groups, "layers.#.f.0.w", 0)->n, 12); // a pair is no list
    assert_int_equal(small_group(&x.groups, "layers.#.f.1.w", 0)->n, 12);
    assert_int_equal(small_group(&x.groups, "layers.#.experts.#.w", 0)->n, 60);
    assert_int_equal(small_group(&x.groups, "scalar", 0)->of->rank, 0);
    assert_int_equal(small_group(&x.groups, "none", 0)->count, 0);
    assert_int_equal(x.groups.n, 8);
    inspect_close(&x);
    // unfolded: natural order
    small_open(&x, path, &(inspect_options){.full = true});
    assert_int_equal(x.groups.n, 12 * 8 + 2);
    size_t two = 0, ten = 0;
    for (size_t i = 0; i < x.groups.n; i++) {
        two = strcmp(x.groups.v[i].pattern, "layers.2.attn.A_log") == 0 ? i : two;
        ten = strcmp(x.groups.v[i].pattern, "layers.10.attn.A_log") == 0 ? i : ten;
    }
    assert_true(two < ten && two > 0);
    inspect_close(&x);
}

TEST(globs_match_whole_names) {
    assert_true(inspect_glob("*", ""));
    assert_true(inspect_glob("*A_log", "layers.0.attn.A_log"));
    assert_false(inspect_glob("A_log", "layers.0.attn.A_log"));
    assert_true(inspect_glob("*.?.*.A_log", "layers.0.attn.A_log"));
    assert_true(inspect_glob("layers.[0-2].*", "layers.1.x"));
    assert_false(inspect_glob("layers.[!0-2].*", "layers.1.x"));
    assert_true(inspect_glob("a[]]b", "a]b"));
    assert_true(inspect_glob("a[", "a["));
    assert_true(inspect_glob("a\\*b", "a*b"));
    assert_false(inspect_glob("a\\*b", "axb"));
    assert_true(inspect_glob("*a*b*c", "xxaxxbxxabc"));
    assert_false(inspect_glob("*a*b*c", "xxaxxbxxab"));
    assert_true(inspect_glob("\xff*", "\xff\xfe"));
    assert_false(inspect_glob("[!", "x"));
}

// Statistics ---------------------------------------------------------------------------------

TEST(statistics_are_exact_and_nan_and_inf_are_counted_B15) {
    tensor_file f = {0};
    inspection x;
    const char *path = files_path("stats.safetensors");
    // 1..1000 in an order that is no order, then three NaN, +Inf, -Inf.
    float v[1005];
    for (int i = 0; i < 1000; i++)
        v[i] = (float)(i * 617 % 1000 + 1);
    v[1000] = v[1001] = v[1002] = NAN;
    v[1003] = INFINITY;
    v[1004] = -INFINITY;
    uint16_t bf16[4] = {0x3f80, 0xc000, 0x7fc0, 0x0000}; // 1, -2, NaN, 0
    tensor_file_add(&f, "a", "F32", 4, "[1005]", 1005, v);
    tensor_file_add(&f, "b", "BF16", 2, "[4]", 4, bf16);
    tensor_file_add(&f, "c", "I64", 8, "[1]", 1, NULL);
    tensor_file_add(&f, "d", "F64", 8, "[0]", 0, NULL);
    tensor_file_write(&f, path);
    small_open(&x, path, &(inspect_options){.stats = true});
    const tensor_stats *s = &x.stats[0];
    assert_int_equal(s->finite, 1000);
    assert_int_equal(s->nan, 3);
    assert_int_equal(s->inf, 2);
    assert_true(s->min == 1 && s->max == 1000);
    assert_true(s->q01 == 10 && s->q50 == 500 && s->q99 == 990); // rank ceil(p n)
    assert_true(s->mean == 500.5);
    // variance of 1..n: (n^2 - 1) / 12; 1000 sums in double leave less than 1e-12 of it
    double error = fabs(s->std - sqrt((1e6 - 1) / 12)) / s->std;
    printf("measured relative error of the deviation: %.1e (allowed 1e-12)\n", error);
    assert_true(error < 1e-12);
    s = &x.stats[1];
    assert_true(s->min == -2 && s->q01 == -2 && s->q50 == 0 && s->q99 == 1 && s->max == 1);
    assert_int_equal(s->nan, 1);
    assert_false(x.stats[2].read);
    assert_true(x.stats[3].read && x.stats[3].finite == 0 && isnan(x.stats[3].mean));
    assert_true(small_finding(&x, true, "a holds 3 NaN and 2 Inf among 1005 values"));
    assert_true(small_finding(&x, true, "b holds 1 NaN and 0 Inf among 4 values"));
    assert_true(inspect_is_wrong(&x));
    inspect_close(&x);
}

TEST(quantiles_of_many_normal_values_agree_with_sorting) {
    enum { N = 200003 }; // more than one piece, no multiple of it
    float *v = malloc(N * sizeof *v);
    uint32_t u = 1;
    for (int i = 0; i < N; i++) {
        u = u * 1664525 + 1013904223;
        v[i] = ldexpf((float)((int32_t)u >> 8), -(int)(u >> 27));
    }
    tensor_file f = {0};
    inspection x;
    const char *path = files_path("many.safetensors");
    tensor_file_add(&f, "a", "F32", 4, "[200003]", N, v);
    tensor_file_write(&f, path);
    small_open(&x, path, &(inspect_options){.stats = true});
    int64_t below[3] = {0}, not_above[3] = {0}, rank[3] = {2001, 100002, 198003};
    double q[3] = {x.stats[0].q01, x.stats[0].q50, x.stats[0].q99};
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++) {
            below[k] += v[i] < q[k];
            not_above[k] += v[i] <= q[k];
        }
    for (int k = 0; k < 3; k++)
        assert_true(below[k] < rank[k] && rank[k] <= not_above[k]);
    inspect_close(&x);
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_fold_and_differing_shapes_and_dtypes_stay_apart),
        cmocka_unit_test(globs_match_whole_names),
        cmocka_unit_test(statistics_are_exact_and_nan_and_inf_are_counted_B15),
        cmocka_unit_test(quantiles_of_many_normal_values_agree_with_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, files_cleared);
}
