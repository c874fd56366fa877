// analyses/trend.h: facts over training steps as figures.
#include "analyses/trend.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void add(facts *f, const char *name, const char *model, const char *document, int64_t at,
                double value) {
    fact x = FACT_EMPTY;
    err e = {0};
    x.name = (char *)name;
    x.model = (char *)model;
    x.document = (char *)document;
    x.unit = (char *)"nats/token";
    x.position = at;
    x.value = value;
    assert_true(facts_add(f, &x, &e));
}

static const figure *named(const figures *f, const char *id) {
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i]->id, id) == 0)
            return f->v[i];
    return NULL;
}

static void curves_run_by_step_and_leave_gaps(void **state) {
    (void)state;
    facts f = {0};
    figures out;
    err e = {0};
    // Not in the order of their steps; "final" has none, and "b" no loss at the end.
    add(&f, TREND_STEP, "c", "", FACT_NONE, 3000);
    add(&f, TREND_STEP, "a", "", FACT_NONE, 100);
    add(&f, TREND_STEP, "b", "", FACT_NONE, 2000);
    add(&f, TREND_STEP, "final", "", FACT_NONE, NAN);
    for (const char *const *m = (const char *const[]){"a", "b", "c", "final", NULL}; *m; m++)
        add(&f, "train_length", *m, "", FACT_NONE, 512);
    add(&f, "loss", "c", "kjv", 4096, 3);
    add(&f, "loss", "a", "kjv", 4096, 5);
    add(&f, "loss", "b", "kjv", 4096, NAN);
    add(&f, "loss", "final", "kjv", 4096, 1);
    add(&f, "loss", "a", "kjv", 512, 4);
    add(&f, "loss", "b", "kjv", 512, 3.5);
    add(&f, "loss", "c", "kjv", 512, 2.5);
    add(&f, "loss", "a", "kjv", 1024, 99); // neither the training length nor the end
    assert_true(trend_figures(&f, &out, &e));
    assert_int_equal(out.n, 1); // nothing else was measured
    const figure *g = named(&out, "trend-loss");
    assert_non_null(g);
    assert_int_equal(g->n_series, 2);
    assert_string_equal(g->series[0].name, "kjv at 512");
    assert_string_equal(g->series[1].name, "kjv at 4096");
    static const double steps[] = {100, 2000, 3000}, trained[] = {4, 3.5, 2.5};
    assert_int_equal(g->series[1].n, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(g->series[0].x[i] == steps[i] && g->series[0].y[i] == trained[i]);
        assert_true(g->series[1].x[i] == steps[i]);
    }
    assert_true(g->series[1].y[0] == 5 && isnan(g->series[1].y[1]) && g->series[1].y[2] == 3);
    assert_string_equal(g->y.unit, "nats/token");
    figures_free(&out);
    facts_free(&f);
}

static void without_steps_there_is_no_figure(void **state) {
    (void)state;
    facts f = {0};
    figures out;
    err e = {0};
    assert_true(trend_figures(&f, &out, &e));
    assert_int_equal(out.n, 0);
    figures_free(&out);
    add(&f, TREND_STEP, "final", "", FACT_NONE, NAN);
    add(&f, "loss", "final", "kjv", 512, 1);
    assert_true(trend_figures(&f, &out, &e));
    assert_int_equal(out.n, 0);
    figures_free(&out);
    facts_free(&f);
}

static void numbers_of_heads_and_rows_are_no_curves(void **state) {
    (void)state;
    fact x = FACT_EMPTY;
    x.name = "erank";
    assert_true(trend_takes(&x));
    x.row = 1;
    assert_false(trend_takes(&x));
    x.row = FACT_NONE;
    x.head = x.layer = 0;
    assert_false(trend_takes(&x));
    x = (fact)FACT_EMPTY;
    x.name = "documents";
    assert_false(trend_takes(&x));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_run_by_step_and_leave_gaps),
        cmocka_unit_test(without_steps_there_is_no_figure),
        cmocka_unit_test(numbers_of_heads_and_rows_are_no_curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
