#include "cli/plot/palette.h"
#include "cli/plot/ticks.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Reference: an independent exhaustive search, six digits of the score.
static const struct {
    double lo, hi;
    int m;
    double first, step;
    int k;
    double score;
    double loose_first, loose_step;
    int loose_k;
    double loose_score;
} table[] = {
    {0, 1, 5, 0, 0.25, 5, 0.850000, 0, 0.25, 5, 0.850000},
    {1, 64, 6, 0, 10, 7, 0.817168, 0, 10, 8, 0.706778},
    {0, 16383, 6, 0, 4000, 5, 0.684146, 0, 2500, 8, 0.603514},
    {2.31, 4.87, 5, 2.5, 0.5, 6, 0.446628, 2, 1, 4, 0.410909},
    {-1.05, 1.05, 5, -1, 0.5, 5, 0.913662, -1.2, 0.4, 7, 0.447959},
    {0.9963, 1.0004, 5, 0.996, 0.001, 5, 0.551279, 0.996, 0.001, 6, 0.357302},
    {1e-7, 3.2e-6, 5, 0, 1e-6, 4, 0.822971, 0, 8e-7, 5, 0.539594},
};

static void labelling_is(const ticks *t, double first, double step, int k, double score) {
    assert_true(fabs(ticks_at(t, 0) - first) <= 1e-12 * fabs(step));
    assert_true(fabs(ticks_step(t) - step) <= 1e-12 * step);
    assert_int_equal(t->n, k);
    assert_true(fabs(t->score - score) < 6e-7); // the table has six decimals
}

static void labels_agree_with_the_reference_table(void **state) {
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ticks t;
        assert_true(ticks_find(table[i].lo, table[i].hi, table[i].m, false, &t));
        labelling_is(&t, table[i].first, table[i].step, table[i].k, table[i].score);
        worst = fmax(worst, fabs(t.score - table[i].score));
        assert_true(ticks_find(table[i].lo, table[i].hi, table[i].m, true, &t));
        labelling_is(&t, table[i].loose_first, table[i].loose_step, table[i].loose_k,
                     table[i].loose_score);
        worst = fmax(worst, fabs(t.score - table[i].loose_score));
    }
    printf("measured largest difference of a tick score from the table: %.2g\n", worst);
}

static void loose_labels_enclose_the_data(void **state) {
    (void)state;
    for (int i = 0; i < 400; i++) {
        double lo = sin(i) * pow(10, i % 13 - 6), hi = lo + (1 + cos(3 * i)) * pow(10, i % 9 - 5);
        ticks t;
        if (!ticks_find(lo, hi, 2 + i % 9, true, &t))
            continue;
        assert_true(ticks_at(&t, 0) <= lo && ticks_at(&t, t.n - 1) >= hi * (1 - 1e-15));
    }
}

// Counts of things: no 97.5 steps, no 1.25th exponent.
static void labels_of_counts_are_whole_and_inside_when_few(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        double lo = floor(100 * sin(i)), hi = lo + pow(10, i % 70 / 10.0) * (1 + cos(3 * i)) / 2;
        int m = 2 + i % 12;
        ticks t;
        if (!ticks_find_whole(lo, hi, m, &t))
            continue;
        for (int k = 0; k < t.n; k++)
            assert_true(ticks_at(&t, k) == rint(ticks_at(&t, k)));
        assert_int_equal(ticks_decimals(&t, 1), 0);
        if (hi - lo < m)
            assert_int_equal(t.n, (int)(hi - lo) + 1);
        else
            assert_true(t.n >= 2);
    }
    ticks t;
    assert_true(ticks_find_whole(13.3, 14.7, 5, &t));
    assert_true(t.n == 1 && ticks_at(&t, 0) == 14);
    assert_true(ticks_find_whole(14.1, 14.9, 5, &t));
    assert_int_equal(t.n, 0);
    assert_true(ticks_find_whole(0, 1e307, 5, &t));
    assert_false(ticks_find_whole(1, 1, 5, &t));
}

static void labels_are_whole_multiples_and_zero_is_zero(void **state) {
    (void)state;
    ticks t;
    assert_true(ticks_find(-0.3, 0.3, 7, false, &t));
    bool zero = false;
    for (int i = 0; i < t.n; i++)
        zero |= ticks_at(&t, i) == 0;
    assert_true(zero);
    assert_int_equal(ticks_decimals(&t, 1), 1);
}

static void ranges_that_are_none_are_refused_and_can_be_widened(void **state) {
    (void)state;
    ticks t;
    const double bad[][2] = {{1, 1},
                             {2, 1},
                             {NAN, 1},
                             {0, INFINITY},
                             {0, 0},
                             {1e9, 1e9 + 1e-7},
                             {-1e308, 1e308 * 1.7},
                             {0, 5e-324}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ticks_find(bad[i][0], bad[i][1], 5, false, &t));
    const double same[] = {0, 1, -3, 64, 1e300, 1e-300, 1e9};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        double lo = same[i], hi = same[i];
        ticks_widen(&lo, &hi);
        assert_true(lo < same[i] && same[i] < hi);
        assert_true(ticks_find(lo, hi, 5, false, &t));
    }
}

static void extreme_ranges_end(void **state) {
    (void)state;
    ticks t;
    assert_true(ticks_find(0, 1e307, 6, false, &t));
    assert_true(ticks_find(1e-280, 3e-280, 6, false, &t));
    assert_true(ticks_find(1e12, 1e12 + 10, 6, true, &t));
    assert_true(ticks_find(0, 1, 500, false, &t));
    assert_true(ticks_find(0, 1, -3, false, &t));
}

// B90: the locale must not turn 0.5 into 0,5.
static void numbers_do_not_depend_on_the_locale(void **state) {
    (void)state;
    const char *locale[] = {"C", "de_DE.UTF-8", "ar_EG.UTF-8"};
    char b[64];
    for (size_t i = 0; i < 3; i++) {
        if (!setlocale(LC_ALL, locale[i])) {
            printf("SKIP: locale %s is not installed\n", locale[i]);
            continue;
        }
        assert_string_equal(ticks_print(0.5, 1, "-", b, sizeof b), "0.5");
        assert_string_equal(ticks_print(-1234567.25, 2, "\u2212", b, sizeof b), "\u22121234567.25");
        assert_string_equal(ticks_print(-0.004, 2, "-", b, sizeof b), "0.00");
        assert_string_equal(ticks_print(1e22, 0, "-", b, sizeof b), "10000000000000000000000");
    }
    setlocale(LC_ALL, "C");
}

static void powers_of_thousand_leave_the_labels(void **state) {
    (void)state;
    assert_int_equal(ticks_factor(0, 1), 0);
    assert_int_equal(ticks_factor(0, 1e5), 0);
    assert_int_equal(ticks_factor(0, 2.5e6), 6);
    assert_int_equal(ticks_factor(-3e9, 1), 9);
    assert_int_equal(ticks_factor(0, 3.2e-6), -6);
    assert_int_equal(ticks_factor(0, 0), 0);
    ticks t;
    assert_true(ticks_find(0, 2.5e6, 5, false, &t));
    assert_true(ticks_decimals(&t, 1e6) <= 2);
    assert_true(ticks_find(0.9963, 1.0004, 5, false, &t));
    assert_int_equal(ticks_decimals(&t, 1), 3);
}

static void sequential_maps_rise_strictly_in_lightness(void **state) {
    (void)state;
    const palette_map_id map[] = {PALETTE_VIRIDIS, PALETTE_CIVIDIS};
    const double first[] = {14.9, 13.9}, last[] = {90.9, 91.2}; // of the full tables, +- 0.15
    for (int m = 0; m < 2; m++) {
        double before = -1;
        for (int i = 0; i <= 4096; i++) {
            double l = palette_lightness(palette_map(map[m], i / 4096.0));
            assert_true(l > before);
            before = l;
        }
        assert_true(fabs(palette_lightness(palette_map(map[m], 0)) - first[m]) < 0.15);
        assert_true(fabs(before - last[m]) < 0.15);
    }
}

static void diverging_arms_are_monotone_and_alike(void **state) {
    (void)state;
    static const double want[] = {20.1, 42.5, 58.0, 76.9, 89.8, 97.2, 89.7, 74.7, 55.3, 38.4, 20.0};
    for (int i = 0; i <= 10; i++)
        assert_true(fabs(palette_lightness(palette_map(PALETTE_DIVERGING, i / 10.0)) - want[i]) <
                    0.06);
    for (int i = 0; i < 2048; i++) {
        double here = palette_lightness(palette_map(PALETTE_DIVERGING, i / 4096.0));
        double next = palette_lightness(palette_map(PALETTE_DIVERGING, (i + 1) / 4096.0));
        double mirror = palette_lightness(palette_map(PALETTE_DIVERGING, 1 - i / 4096.0));
        assert_true(next > here);
        assert_true(fabs(here - mirror) < 4.5); // 4.1 at the anchors
    }
}

static void cyclic_map_closes_and_has_two_monotone_arms(void **state) {
    (void)state;
    rgb a = palette_map(PALETTE_CYCLIC, 0), b = palette_map(PALETTE_CYCLIC, 1);
    assert_true(a.r == b.r && a.g == b.g && a.b == b.b);
    for (int i = 0; i < 1024; i++) {
        double t = i / 2048.0, u = (i + 1) / 2048.0;
        assert_true(palette_lightness(palette_map(PALETTE_CYCLIC, t)) >
                    palette_lightness(palette_map(PALETTE_CYCLIC, u)));
        assert_true(palette_lightness(palette_map(PALETTE_CYCLIC, 1 - t)) >
                    palette_lightness(palette_map(PALETTE_CYCLIC, 1 - u)));
    }
}

static void line_colours_have_the_published_contrast(void **state) {
    (void)state;
    static const double want[] = {5.2, 3.9, 3.4, 3.1, 2.3, 2.2, 21.0, 1.3};
    const rgb white = {1, 1, 1};
    for (int i = 0; i < PALETTE_SERIES; i++)
        assert_true(fabs(palette_contrast(palette_series(i), white) - want[i]) < 0.06);
    rgb first = palette_series(0), again = palette_series(PALETTE_SERIES);
    assert_true(first.r == again.r && first.g == again.g && first.b == again.b);
    rgb nan = palette_map(PALETTE_VIRIDIS, NAN), grey = palette_missing();
    assert_true(nan.r == grey.r && nan.r == nan.g && nan.g == nan.b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_agree_with_the_reference_table),
        cmocka_unit_test(loose_labels_enclose_the_data),
        cmocka_unit_test(labels_of_counts_are_whole_and_inside_when_few),
        cmocka_unit_test(labels_are_whole_multiples_and_zero_is_zero),
        cmocka_unit_test(ranges_that_are_none_are_refused_and_can_be_widened),
        cmocka_unit_test(extreme_ranges_end),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(powers_of_thousand_leave_the_labels),
        cmocka_unit_test(sequential_maps_rise_strictly_in_lightness),
        cmocka_unit_test(diverging_arms_are_monotone_and_alike),
        cmocka_unit_test(cyclic_map_closes_and_has_two_monotone_arms),
        cmocka_unit_test(line_colours_have_the_published_contrast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
