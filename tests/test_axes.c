#include "cli/plot/axes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void token_axes_end_on_powers_of_two_with_1k_as_1024(void **state) {
    (void)state;
    axis spec = {.name = "position", .unit = "tokens", .lo = NAN, .hi = NAN, .tokens = true};
    axes_span s;
    axes_span_init(&s, SCALE_LINEAR);
    const double ends[] = {0, 32767}; // positions of 32768 tokens
    axes_span_add(&s, ends, 2);
    axes a;
    axes_limits(&a, &spec, &s, 0);
    axes_ticks(&a, &spec, 8, false);
    assert_true(a.hi == 32768);
    assert_string_equal(a.title, "position (tokens, 1k = 1024)");
    assert_int_equal(a.n, 9);
    assert_string_equal(a.tick[0].label, "0");
    assert_string_equal(a.tick[1].label, "4k");
    assert_string_equal(a.tick[8].label, "32k");
    const double plain[] = {0, 10000};
    axes_span_init(&s, SCALE_LINEAR);
    axes_span_add(&s, plain, 2);
    axes_limits(&a, &spec, &s, 0);
    axes_ticks(&a, &spec, 6, false);
    assert_string_equal(a.title, "position (tokens)");
    assert_string_equal(a.tick[a.n - 1].label, "10000");
    spec.scale = SCALE_LOG2;
    axes_span_init(&s, SCALE_LOG2);
    const double log[] = {0, 1, 65536};
    axes_span_add(&s, log, 3);
    assert_int_equal(s.not_shown, 1);
    axes_limits(&a, &spec, &s, 0);
    axes_ticks(&a, &spec, 20, false);
    assert_string_equal(a.tick[0].label, "1");
    assert_string_equal(a.tick[a.n - 1].label, "64k");
}

static void log_axes_label_decades_and_large_numbers_lose_a_factor(void **state) {
    (void)state;
    axis spec = {.name = "loss", .unit = "nats", .lo = NAN, .hi = NAN, .scale = SCALE_LOG10};
    axes_span s;
    axes a;
    const double wide[] = {1e-12, 1e3};
    axes_span_init(&s, SCALE_LOG10);
    axes_span_add(&s, wide, 2);
    axes_limits(&a, &spec, &s, 0);
    axes_ticks(&a, &spec, 10, true);
    int labels = 0;
    for (int i = 0; i < a.n; i++)
        labels += *a.tick[i].label != 0;
    assert_true(labels >= 4 && labels <= 9);
    assert_non_null(strstr(a.tick[0].label, "10^-"));
    const double narrow[] = {2, 30};
    axes_span_init(&s, SCALE_LOG10);
    axes_span_add(&s, narrow, 2);
    axes_limits(&a, &spec, &s, 0);
    axes_ticks(&a, &spec, 10, true);
    char seen[64] = "";
    for (int i = 0; i < a.n; i++)
        if (*a.tick[i].label)
            strcat(strcat(seen, a.tick[i].label), " ");
    assert_string_equal(seen, "2 5 10 20 ");
    axis rate = {.name = "rate", .unit = "tokens/s", .lo = NAN, .hi = NAN};
    const double million[] = {0, 5.8e6};
    axes_span_init(&s, SCALE_LINEAR);
    axes_span_add(&s, million, 2);
    axes_limits(&a, &rate, &s, 0);
    axes_ticks(&a, &rate, 6, false);
    assert_string_equal(a.title, "rate (10\u2076 tokens/s)");
    assert_int_equal(a.power, 6);
}

static void axes_of_counts_have_whole_labels(void **state) {
    (void)state;
    const double end[] = {1, 3, 16, 97, 195, 97500, 195000, 1.5e6};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        for (int want = 2; want < 12; want++) {
            const double span[] = {0, end[i]};
            axis steps = {.name = "training", .unit = "steps", .whole = true, .lo = NAN, .hi = NAN};
            axes_span s;
            axes a;
            axes_span_init(&s, SCALE_LINEAR);
            axes_span_add(&s, span, 2);
            axes_limits(&a, &steps, &s, 0.04);
            axes_ticks(&a, &steps, want, true);
            assert_true(a.n > 0);
            for (int k = 0; k < a.n; k++) {
                assert_true(a.tick[k].at == rint(a.tick[k].at));
                assert_null(strchr(a.tick[k].label, '.'));
            }
        }
}

// A single label gives no scale. Where three have room, three stand there.
static void an_axis_with_room_has_three_labels(void **state) {
    (void)state;
    for (int i = 0; i < 3000; i++) {
        double lo = 10 * sin(i), span[] = {lo, lo + pow(10, i % 50 / 10.0 - 3)};
        axis loss = {.name = "loss", .unit = "nats/token", .lo = NAN, .hi = NAN};
        axes_span s;
        axes a;
        axes_span_init(&s, SCALE_LINEAR);
        axes_span_add(&s, span, 2);
        axes_limits(&a, &loss, &s, 0.04);
        axes_ticks_room(&a, &loss, 3, 6, true);
        assert_in_range(axes_labels(&a), 3, 7);
    }
}

// The same count everywhere stands between its neighbours, which say that this is an axis.
static void a_constant_count_has_its_neighbours(void **state) {
    (void)state;
    static const struct {
        double count;
        const char *labels;
    } tries[] = {{12, "11 12 13 "}, {1, "0 1 2 "}, {0, "0 1 "}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        axis heads = {.name = "heads", .unit = "", .whole = true, .lo = NAN, .hi = NAN};
        axes_span s;
        axes a;
        char seen[64] = "";
        axes_span_init(&s, SCALE_LINEAR);
        axes_span_add(&s, &tries[i].count, 1);
        axes_limits(&a, &heads, &s, 0.04);
        axes_ticks_room(&a, &heads, 5, 9, true);
        for (int k = 0; k < a.n; k++)
            strcat(strcat(seen, a.tick[k].label), " ");
        assert_string_equal(seen, tries[i].labels);
    }
}

static void names_of_columns_stand_at_their_middles(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4, 5}, cell[5] = {0};
    const char *name[] = {"H0", "H1", "H2", "H3", "H4"};
    figure *f = figure_new(FIG_HEATMAP, "heads", "", "", NULL);
    assert_true(figure_axis(&f->x, "head", "", SCALE_LINEAR, NULL));
    assert_true(figure_heat(f, 1, 5, cell, x, NULL, "v", "", NAN, NAN, MAP_SEQUENTIAL, NULL));
    assert_true(figure_heat_columns(f, name, NULL));
    axes ax, ay;
    axes_span sx, sy;
    axes_of_figure(f, &ax, &ay, &sx, &sy);
    axes_x_ticks(&ax, f, 5, true);
    assert_int_equal(ax.n, 5);
    assert_true(ax.tick[0].at == 0.5 && ax.tick[4].at == 4.5);
    assert_string_equal(ax.tick[4].label, "H4");
    axes_x_ticks(&ax, f, 2, true); // too narrow for all: every third
    assert_int_equal(ax.n, 2);
    assert_string_equal(ax.tick[1].label, "H3");
    figure_free(f);
}

static void bars_start_at_zero(void **state) {
    (void)state;
    const double y[] = {100, 101};
    figure *f = figure_new(FIG_BARS, "b", "b", "", NULL);
    assert_true(figure_category(f, "one", NULL) && figure_category(f, "two", NULL));
    assert_true(figure_series(f, "", STYLE_LINE, 2, NULL, y, NULL, NULL, NULL, NULL));
    axes x, v;
    axes_span xs, vs;
    axes_of_figure(f, &x, &v, &xs, &vs);
    assert_true(v.lo == 0 && v.hi > 101);
    figure_free(f);
}

static void limits_are_usable_whatever_the_data(void **state) {
    (void)state;
    const double v[] = {NAN, INFINITY, -1e308, 1e308, 0, 5e-324, 7, 7};
    for (int scale = 0; scale < 3; scale++)
        for (size_t i = 0; i < 8; i++)
            for (size_t k = i; k < 8; k++) {
                axis spec = {.name = "x", .unit = "1", .lo = NAN, .hi = NAN};
                spec.scale = (axis_scale)scale;
                axes_span s;
                axes_span_init(&s, spec.scale);
                axes_span_add(&s, v + i, k - i + 1);
                axes a;
                axes_limits(&a, &spec, &s, 0.04);
                axes_ticks(&a, &spec, 6, false);
                assert_true(isfinite(a.lo) && isfinite(a.hi) && a.lo < a.hi);
                assert_true(scale == SCALE_LINEAR || a.lo > 0);
                assert_true(a.n >= 0 && a.n <= AXES_MAX_TICKS);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_axes_end_on_powers_of_two_with_1k_as_1024),
        cmocka_unit_test(log_axes_label_decades_and_large_numbers_lose_a_factor),
        cmocka_unit_test(axes_of_counts_have_whole_labels),
        cmocka_unit_test(an_axis_with_room_has_three_labels),
        cmocka_unit_test(a_constant_count_has_its_neighbours),
        cmocka_unit_test(names_of_columns_stand_at_their_middles),
        cmocka_unit_test(bars_start_at_zero),
        cmocka_unit_test(limits_are_usable_whatever_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
