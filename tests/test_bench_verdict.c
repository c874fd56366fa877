// Verdicts on made-up samples: false alarms, what must be found, and every baseline that is no number.
#include "bench/match.h"
#include "tests/bench_rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const made quiet = {
    .ms = 1, .between = 0.004, .within = 0.01, .rounds = 8, .per_round = 20, .clock = 20};

static comparison compare(const record *old, size_t n, const record *new) {
    comparison c;
    err e = {0};
    match_rules rules = {.verdict = verdict_default()};
    if (!match(old, n, new, &rules, &c, &e))
        fail_msg("%s", e.text);
    return c;
}

static size_t changes(const comparison *c) {
    return c->count[VERDICT_SLOWER] + c->count[VERDICT_FASTER];
}

// 200 rows, A against A, 20 times: at most one verdict of change in all of them (B83, B132). The spread
// between runs is what 14 runs of the quick suite had on two busy cores: half a percent.
static void B83_B132_two_hundred_rows_of_one_program_raise_no_alarm(void **state) {
    (void)state;
    size_t false_runs = 0, most = 0;
    for (uint64_t run = 0; run < 20; run++) {
        record a, b;
        record_init(&a);
        record_init(&b);
        for (int i = 0; i < 200; i++) {
            made how = quiet;
            how.ms = 0.05 * (i + 1);
            made_row(&a, i, how, 1000 * run + 2 * (uint64_t)i);
            how.ms *= exp(0.005 * sin((double)(37 * i) + (double)run)); // what this run was like
            made_row(&b, i, how, 1000 * run + 2 * (uint64_t)i + 1);
        }
        comparison c = compare(&a, 1, &b);
        false_runs += changes(&c) > 0;
        most = changes(&c) > most ? changes(&c) : most;
        comparison_free(&c);
        record_free(&a);
        record_free(&b);
    }
    printf("measured A/A, 200 rows: %zu of 20 comparisons with a false verdict, %zu rows at most\n",
           false_runs, most);
    assert_true(false_runs <= 1);
}

static void fifteen_percent_is_found_in_nineteen_of_twenty(void **state) {
    (void)state;
    size_t found = 0, faster = 0;
    for (uint64_t run = 0; run < 20; run++) {
        record a, b;
        record_init(&a);
        record_init(&b);
        for (int i = 0; i < 17; i++) {
            made how = quiet;
            how.between = 0.01;
            made_row(&a, i, how, 900 + 100 * run + (uint64_t)i);
            how.ms = i == 5 ? 1.15 : i == 6 ? 1 / 1.15 : 1;
            made_row(&b, i, how, 950 + 100 * run + (uint64_t)i);
        }
        comparison c = compare(&a, 1, &b);
        found += c.v[5].c.verdict == VERDICT_SLOWER;
        faster += c.v[6].c.verdict == VERDICT_FASTER;
        assert_true(changes(&c) <= 2);
        comparison_free(&c);
        record_free(&a);
        record_free(&b);
    }
    printf("measured 15%%: slower found in %zu of 20, faster in %zu\n", found, faster);
    assert_true(found >= 19 && faster >= 19);
}

static verdict_kind verdict_of(const double *old, size_t n, const double *new, size_t m,
                               change *out) {
    record a, b;
    record_init(&a);
    record_init(&b);
    made_samples(&a, 1, old, n);
    made_samples(&b, 1, new, m);
    verdict_rules rules = verdict_default();
    change c = verdict_rows(&a.rows[0], &b.rows[0], &rules);
    record_free(&a);
    record_free(&b);
    if (out)
        *out = c;
    return c.verdict;
}

// Zero, missing, NaN, negative, infinite, all equal, a single sample: each has a name (B84, B85).
static void B84_B85_a_baseline_that_is_no_time_has_a_named_outcome(void **state) {
    (void)state;
    static const double fine[] = {1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.0, 0.98, 1.0, 1.01};
    static const double slow[] = {1.3, 1.31, 1.29, 1.3, 1.32, 1.3, 1.3, 1.28, 1.3, 1.31};
    static const double equal[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const double zero[] = {0, 0, 0}, negative[] = {-1, 1, 1}, nan[] = {1, NAN}, inf[] = {INFINITY};
    const struct {
        const double *x;
        size_t n;
        const char *says;
    } bad[] = {{zero, 3, "the baseline has a time of zero"},
               {negative, 3, "the baseline has a negative time"},
               {nan, 2, "the baseline has a sample that is no number"},
               {inf, 1, "the baseline has a sample that is no number"},
               {NULL, 0, "the baseline has no samples"}};
    change c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(verdict_of(bad[i].x, bad[i].n, fine, 10, &c), VERDICT_INCOMPARABLE);
        assert_string_equal(c.reason, bad[i].says);
        assert_true(isnan(c.ratio));
        assert_int_equal(verdict_of(fine, 10, bad[i].x, bad[i].n, &c), VERDICT_INCOMPARABLE);
        assert_non_null(strstr(c.reason, "the new result"));
    }
    assert_int_equal(verdict_of(equal, 10, equal, 10, NULL), VERDICT_SAME);
    assert_int_equal(verdict_of(equal, 10, slow, 10, NULL), VERDICT_SLOWER);
    assert_int_equal(verdict_of(fine, 1, slow, 1, &c), VERDICT_UNCLEAR);
    assert_string_equal(c.reason, "a single sample decides nothing");
    assert_true(fabs(c.ratio - 1.3) < 1e-9); // numbers are shown all the same
    assert_int_equal(verdict_of(fine, 10, slow, 10, NULL), VERDICT_SLOWER);
    assert_int_equal(verdict_of(slow, 10, fine, 10, NULL), VERDICT_FASTER);
}

static void a_change_of_the_clock_alone_is_no_regression(void **state) {
    (void)state;
    record a, b;
    record_init(&a);
    record_init(&b);
    made how = quiet;
    made_row(&a, 1, how, 1);
    made_row(&a, 2, how, 2);
    how.ms = 1.2; // 20 % more time at a clock that is 20 % lower: the same cycles
    how.clock = 20 / 1.2;
    made_row(&b, 1, how, 3);
    how.ms = 1; // cycles are up, time is not: the clock hid a regression, or the yardstick is off
    how.clock = 24;
    made_row(&b, 2, how, 4);
    comparison c = compare(&a, 1, &b);
    assert_int_equal(c.v[0].c.verdict, VERDICT_UNCLEAR);
    assert_non_null(strstr(c.v[0].c.reason, "the machine, not the program"));
    assert_int_equal(c.v[1].c.verdict, VERDICT_UNCLEAR);
    assert_int_equal(comparison_exit(&c, false), 0);
    assert_int_equal(comparison_exit(&c, true), 5);
    comparison_free(&c);
    record_free(&a);
    record_free(&b);
}

// Rows in another order, with other numbers of samples, and one parameter more (B86, B135).
static void B86_B135_rows_are_matched_by_all_their_parameters(void **state) {
    (void)state;
    record a, b;
    record_init(&a);
    record_init(&b);
    for (int i = 0; i < 5; i++) {
        made how = quiet;
        how.ms = i + 1;
        made_row(&a, i, how, (uint64_t)i);
        how.per_round = 7 + i;
        how.rounds = 3 + i;
        how.ms = 5 - i;
        made_row(&b, 4 - i, how, 10 + (uint64_t)i);
    }
    // A field this program does not know makes another case of it.
    json_object_set_new(b.rows[0].params, "future", json_string("x"));
    comparison c = compare(&a, 1, &b);
    assert_int_equal(c.v[0].c.verdict, VERDICT_NEW);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(c.v[i].c.verdict, VERDICT_SAME);
        assert_true(json_equal(c.v[i].old->params, c.v[i].new->params));
    }
    assert_int_equal(c.count[VERDICT_GONE], 1);
    comparison_free(&c);
    record_free(&a);
    record_free(&b);
}

// Nothing in common is neither "fine" nor "slower" (B129).
static void B129_nothing_to_compare_has_an_exit_code_of_its_own(void **state) {
    (void)state;
    record a, b, none;
    record_init(&a);
    record_init(&b);
    record_init(&none);
    made_row(&a, 1, quiet, 1);
    made_row(&b, 2, quiet, 2);
    const record *pair[][2] = {{&a, &b}, {&none, &none}, {&a, &none}, {&none, &a}};
    for (int i = 0; i < 4; i++) {
        comparison c = compare(pair[i][0], 1, pair[i][1]);
        assert_int_equal(comparison_exit(&c, false), 5);
        comparison_free(&c);
    }
    record_free(&a);
    record_free(&b);
    record_free(&none);
}

// A case that failed its gate, or fails at all, is never silent (B130); one binary on both sides is said.
static void B130_wrong_and_failed_cases_fail_the_comparison(void **state) {
    (void)state;
    for (int status = ROW_WRONG; status <= ROW_FAILED; status++) {
        record a, b;
        record_init(&a);
        record_init(&b);
        made_place(&a, "x", "same");
        made_place(&b, "x", "same");
        made_row(&a, 1, quiet, 1);
        made_samples(&b, 1, NULL, 0)->status = (row_status)status;
        comparison c = compare(&a, 1, &b);
        assert_int_equal(c.v[0].c.verdict, VERDICT_WRONG);
        assert_int_equal(comparison_exit(&c, false), 4);
        assert_true(c.same_binary);
        comparison_free(&c);
        record_free(&a);
        record_free(&b);
    }
}

// A side that has no warm samples is not slower by what caches are worth; and a reason that is cut stays
// UTF-8, which JSON asks for.
static void warm_is_compared_with_warm_and_cold_with_cold(void **state) {
    (void)state;
    for (int both = 0; both < 2; both++) {
        record a, b;
        record_init(&a);
        record_init(&b);
        bench_row *x = made_row(&a, 1, quiet, 1), *y = made_row(&b, 1, quiet, 2);
        made slow = quiet;
        slow.ms *= 1.4;
        y->cold = y->warm;
        y->warm = (timings){0};
        if (both) { // B's cold level is that of A's cold samples, not of A's warm ones
            record other;
            record_init(&other);
            bench_row *z = made_row(&other, 1, slow, 3);
            x->cold = z->warm;
            z->warm = (timings){0};
            record_free(&other);
        }
        comparison c = compare(&a, 1, &b);
        assert_int_equal(c.v[0].c.verdict, both ? VERDICT_FASTER : VERDICT_INCOMPARABLE);
        comparison_free(&c);
        record_free(&a);
        record_free(&b);
    }
}

static void reasons_are_cut_behind_whole_characters(void **state) {
    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        record a, b;
        record_init(&a);
        record_init(&b);
        made_row(&a, 1, quiet, 1);
        bench_row *y = made_samples(&b, 1, NULL, 0);
        y->status = ROW_WRONG;
        size_t at = (size_t)snprintf(y->why, sizeof y->why, "%.*s", shift, "xxx");
        for (; at + 3 < sizeof y->why; at += 2)
            memcpy(y->why + at, "\xc3\xa9", 3);
        comparison c = compare(&a, 1, &b);
        json_t *rows = comparison_rows_json(&c);
        assert_non_null(rows);
        json_decref(rows);
        comparison_free(&c);
        record_free(&a);
        record_free(&b);
    }
}

static void B131_another_device_is_incomparable_unless_asked_for(void **state) {
    (void)state;
    record a, b;
    err e = {0};
    record_init(&a);
    record_init(&b);
    made_place(&a, "one CPU", "a");
    made_place(&b, "another CPU", "b");
    made how = quiet;
    made_row(&a, 1, how, 1);
    how.ms = 1.4;
    made_row(&b, 1, how, 2);
    comparison c = compare(&a, 1, &b);
    assert_int_equal(c.v[0].c.verdict, VERDICT_INCOMPARABLE);
    assert_true(fabs(c.v[0].c.ratio - 1.4) < 0.02); // numbers still shown
    assert_non_null(strstr(c.places, "one CPU against another CPU"));
    assert_int_equal(comparison_exit(&c, false), 5);
    comparison_free(&c);
    match_rules rules = {.verdict = verdict_default(), .across_devices = true};
    assert_true(match(&a, 1, &b, &rules, &c, &e));
    assert_int_equal(c.v[0].c.verdict, VERDICT_SLOWER);
    comparison_free(&c);
    record_free(&a);
    record_free(&b);
}

// Ten runs with one real step: against the baseline it alarms, and against the accepted one no more; size
// and certainty are both needed (B133).
static void B133_one_step_alarms_once(void **state) {
    (void)state;
    record run[10];
    size_t alarms = 0, baseline = 0;
    for (int i = 0; i < 10; i++) {
        record_init(&run[i]);
        made how = quiet;
        how.ms = i < 5 ? 1 : 1.2;
        made_row(&run[i], 1, how, (uint64_t)i + 77);
    }
    for (size_t i = 1; i < 10; i++) {
        comparison c = compare(&run[baseline], 1, &run[i]);
        if (c.count[VERDICT_SLOWER]) {
            alarms++;
            baseline = i; // --accept
        }
        comparison_free(&c);
    }
    assert_int_equal(alarms, 1);
    // Certain and small: below the threshold nothing is said.
    record small;
    record_init(&small);
    made how = quiet;
    how.ms = 1.2 * 1.03;
    how.between = 0.001;
    made_row(&small, 1, how, 5);
    comparison c = compare(&run[9], 1, &small);
    assert_int_equal(c.v[0].c.verdict, VERDICT_SAME);
    comparison_free(&c);
    record_free(&small);
    // Several baselines: their samples are put together, and their own spread becomes the floor.
    c = compare(run, 5, &run[5]);
    assert_int_equal(c.v[0].c.verdict, VERDICT_SLOWER);
    assert_true(c.v[0].old->warm.n == 5 * run[0].rows[0].warm.n);
    assert_true(isfinite(c.v[0].old->noise));
    comparison_free(&c);
    for (int i = 0; i < 10; i++)
        record_free(&run[i]);
}

static void a_noisy_baseline_asks_for_a_larger_change(void **state) {
    (void)state;
    record a, b;
    record_init(&a);
    record_init(&b);
    made how = quiet;
    made_row(&a, 1, how, 1);
    how.ms = 1.12;
    made_row(&b, 1, how, 2);
    comparison c = compare(&a, 1, &b);
    assert_int_equal(c.v[0].c.verdict, VERDICT_SLOWER);
    comparison_free(&c);
    a.rows[0].noise = 0.05; // as a calibration found it
    c = compare(&a, 1, &b);
    assert_int_equal(c.v[0].c.verdict, VERDICT_UNCLEAR);
    comparison_free(&c);
    record_free(&a);
    record_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B83_B132_two_hundred_rows_of_one_program_raise_no_alarm),
        cmocka_unit_test(fifteen_percent_is_found_in_nineteen_of_twenty),
        cmocka_unit_test(B84_B85_a_baseline_that_is_no_time_has_a_named_outcome),
        cmocka_unit_test(a_change_of_the_clock_alone_is_no_regression),
        cmocka_unit_test(B86_B135_rows_are_matched_by_all_their_parameters),
        cmocka_unit_test(B129_nothing_to_compare_has_an_exit_code_of_its_own),
        cmocka_unit_test(B130_wrong_and_failed_cases_fail_the_comparison),
        cmocka_unit_test(warm_is_compared_with_warm_and_cold_with_cold),
        cmocka_unit_test(reasons_are_cut_behind_whole_characters),
        cmocka_unit_test(B131_another_device_is_incomparable_unless_asked_for),
        cmocka_unit_test(B133_one_step_alarms_once),
        cmocka_unit_test(a_noisy_baseline_asks_for_a_larger_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
