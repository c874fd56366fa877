#include "analyses/figure.h"
#include "core/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void constructors_copy_what_they_are_given(void **state) {
    (void)state;
    char name[] = "loss", text[] = "hello";
    double x[] = {1, 2}, y[] = {3, NAN}, lo[] = {2, 2}, hi[] = {4, 4};
    const char *cells[] = {text, text};
    figure *f = figure_new(FIG_CURVES, name, name, name, NULL);
    assert_non_null(f);
    assert_true(figure_axis(&f->x, name, "tokens", SCALE_LOG2, NULL));
    assert_true(figure_series(f, name, STYLE_FAINT, 2, x, y, lo, hi, "95%", NULL));
    assert_true(figure_mark(f, MARK_X, 5, name, NULL));
    assert_true(figure_note(f, NULL, "%s %d", name, 7));
    assert_true(figure_category(f, name, NULL));
    assert_true(figure_column(f, name, "", 2, NULL, cells, 0, NULL));
    memset(name, 'X', 4);
    memset(text, 'X', 5);
    x[0] = y[0] = lo[0] = hi[0] = -1;
    assert_string_equal(f->id, "loss");
    assert_string_equal(f->x.name, "loss");
    assert_int_equal(f->x.scale, SCALE_LOG2);
    assert_true(isnan(f->x.lo) && isnan(f->x.hi));
    assert_string_equal(f->series[0].name, "loss");
    assert_string_equal(f->series[0].band, "95%");
    assert_true(f->series[0].x[0] == 1 && f->series[0].y[0] == 3 && f->series[0].lo[0] == 2);
    assert_true(isnan(f->series[0].y[1]));
    assert_int_equal(f->series[0].colour, -1);
    assert_string_equal(f->marks[0].label, "loss");
    assert_string_equal(f->notes[0], "loss 7");
    assert_string_equal(f->category[0], "loss");
    assert_string_equal(f->columns[0].text[1], "hello");
    figure_free(f);
}

static void a_histogram_has_one_edge_more_than_bins(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3}, y[] = {5, 6, 7};
    figure *f = figure_new(FIG_HIST, "h", "h", "", NULL);
    assert_true(figure_series(f, "", STYLE_LINE, 3, x, y, NULL, NULL, NULL, NULL));
    assert_true(f->series[0].n == 3 && f->series[0].x[3] == 3);
    figure_free(f);
}

static void units_are_never_null(void **state) {
    (void)state;
    figure *f = figure_new(FIG_SCATTER, "s", "s", NULL, NULL);
    assert_string_equal(f->x.unit, "");
    assert_string_equal(f->subtitle, "");
    assert_true(figure_axis(&f->y, "y", NULL, SCALE_LINEAR, NULL));
    assert_string_equal(f->y.unit, "");
    figure_free(f);
}

static void many_series_and_notes_fit(void **state) {
    (void)state;
    figure *f = figure_new(FIG_CURVES, "many", "many", "", NULL);
    for (int i = 0; i < 1000; i++) {
        double x = i;
        assert_true(figure_series(f, "s", STYLE_LINE, 1, &x, &x, NULL, NULL, NULL, NULL));
        assert_true(figure_note(f, NULL, "note %d", i));
    }
    assert_int_equal(f->n_series, 1000);
    assert_true(f->series[999].y[0] == 999);
    assert_string_equal(f->notes[17], "note 17");
    figure_free(f);
}

static void a_heat_map_larger_than_memory_is_an_error(void **state) {
    (void)state;
    figure *f = figure_new(FIG_HEATMAP, "h", "h", "", NULL);
    err e = {0};
    double x = 0;
    assert_false(
        figure_heat(f, SIZE_MAX / 2, 3, &x, &x, NULL, "v", "1", NAN, NAN, MAP_SEQUENTIAL, &e));
    assert_int_equal(e.code, ERR_NOMEM);
    assert_null(f->heat);
    figure_free(f);
}

static bool build(figures *s, err *e) {
    const double x[] = {0, 1, 2}, y[] = {1, 2};
    const char *text[] = {"a", "b"};
    figures_init(s, 2);
    for (int i = 0; i < 2; i++) {
        figure *f = figure_new(FIG_HEATMAP, "id", "title", "subtitle", e);
        bool ok = f && figure_axis(&f->x, "x", "tokens", SCALE_LINEAR, e) &&
                  figure_heat(f, 2, 1, y, x, text, "v", "1", NAN, NAN, MAP_CYCLIC, e) &&
                  figure_series(f, "s", STYLE_LINE, 2, x, y, y, y, "band", e) &&
                  figure_mark(f, MARK_Y, 1, "m", e) && figure_note(f, e, "n") &&
                  figure_category(f, "c", e) && figure_column(f, "t", "u", 2, NULL, text, 0, e) &&
                  figure_column(f, "n", "u", 2, y, NULL, 3, e);
        if (!ok) {
            figure_free(f);
            return false;
        }
        if (!figures_add(s, f, e))
            return false;
    }
    return true;
}

static void every_failing_allocation_is_reported_and_nothing_leaks(void **state) {
    (void)state;
    long n = 1;
    for (;; n++) {
        figures s;
        err e = {0};
        mem_fail_after(n);
        bool ok = build(&s, &e);
        mem_fail_after(0);
        figures_free(&s);
        if (ok)
            break;
        assert_int_equal(e.code, ERR_NOMEM);
        assert_true(n < 500);
    }
    printf("measured allocations that were made to fail: %ld\n", n - 1);
    assert_true(n > 40);
}

static void adding_no_figure_is_a_failure(void **state) {
    (void)state;
    figures s;
    figures_init(&s, 0);
    assert_int_equal(s.columns, 1);
    assert_false(figures_add(&s, NULL, NULL));
    figures_free(&s);
    figure_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructors_copy_what_they_are_given),
        cmocka_unit_test(a_histogram_has_one_edge_more_than_bins),
        cmocka_unit_test(units_are_never_null),
        cmocka_unit_test(many_series_and_notes_fit),
        cmocka_unit_test(a_heat_map_larger_than_memory_is_an_error),
        cmocka_unit_test(every_failing_allocation_is_reported_and_nothing_leaks),
        cmocka_unit_test(adding_no_figure_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
