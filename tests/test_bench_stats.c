// Statistics of benchmarks against tables and closed forms.
#include "bench/stats.h"
#include "core/random.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void student_t_is_that_of_tables(void **state) {
    (void)state;
    // Two-sided, from printed tables (four decimals).
    static const struct {
        double p, dof, t;
    } table[] = {{0.05, 1, 12.7062}, {0.05, 10, 2.2281},  {0.01, 5, 4.0321},   {0.001, 20, 3.8495},
                 {0.1, 30, 1.6973},  {0.05, 1e6, 1.9600}, {0.0001, 14, 5.3634}};
    double worst = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        worst = worse(worst, fabs(stats_t(table[i].p, table[i].dof) - table[i].t));
    printf("measured student t: off by %.1e at most\n", worst);
    assert_true(worst < 2e-4); // the tables' last digit
}

static void a_summary_of_few_many_and_equal_samples(void **state) {
    (void)state;
    const double x[] = {5, 1, 4, 2, 3};
    summary s = stats_summary(x, 5);
    assert_true(s.min == 1 && s.median == 3 && s.mad == 1 && s.lo == 1 && s.hi == 5);
    assert_true(s.p5 > 1 && s.p5 < 2 && s.p95 > 4 && s.p95 < 5);
    const double one[] = {7};
    s = stats_summary(one, 1);
    assert_true(s.median == 7 && s.lo == 7 && s.hi == 7 && s.mad == 0);
    const double equal[] = {2, 2, 2, 2};
    s = stats_summary(equal, 4);
    assert_true(s.median == 2 && s.mad == 0 && s.hi - s.lo == 0);
    s = stats_summary(NULL, 0);
    assert_true(s.n == 0 && isnan(s.median) && isnan(s.min));
    const double bad[] = {1, NAN, 3};
    assert_true(isnan(stats_summary(bad, 3).median));
}

// Of 1000 sets of 40 numbers the interval must hold the true median in 950 or a few more.
static void the_interval_of_a_median_holds_it_as_often_as_it_says(void **state) {
    (void)state;
    uint64_t r = 3;
    int held = 0;
    for (int i = 0; i < 1000; i++) {
        double x[40];
        for (int k = 0; k < 40; k++)
            x[k] = exp(random_normal(&r)); // skewed: true median 1
        summary s = stats_summary(x, 40);
        held += s.lo <= 1 && s.hi >= 1;
    }
    printf("measured interval of a median: held in %d of 1000 sets\n", held);
    assert_true(held >= 935 && held <= 995);
}

static void the_bootstrap_error_is_that_of_repeated_draws(void **state) {
    (void)state;
    enum { SETS = 400, N = 12 };
    uint64_t r = 11;
    double sum = 0, sum2 = 0, error = 0;
    for (int i = 0; i < SETS; i++) {
        double a[N], b[N];
        for (int k = 0; k < N; k++) {
            a[k] = random_normal(&r);
            b[k] = random_normal(&r) + 0.5;
        }
        difference d = stats_difference(a, N, b, N, 0.5, (uint64_t)i);
        sum += d.estimate / SETS;
        sum2 += d.estimate * d.estimate / SETS;
        error += d.error * d.error / SETS;
    }
    double true_error = sqrt(sum2 - sum * sum);
    printf("measured bootstrap: error %.3f, of repeated draws %.3f, mean %.3f (0.5)\n", sqrt(error),
           true_error, sum);
    // Medians of a dozen are resampled too widely rather than too narrowly.
    assert_true(sqrt(error) > 0.9 * true_error && sqrt(error) < 1.6 * true_error);
    assert_true(fabs(sum - 0.5) < 0.1);
    difference one = stats_difference((const double[]){1}, 1, (const double[]){2}, 1, 0.5, 0);
    assert_true(one.estimate == 1 && isnan(one.error));
}

static void entropy_settles_on_steady_times_and_not_on_drifting_ones(void **state) {
    (void)state;
    uint64_t r = 5;
    entropy steady = {0}, drift = {0};
    int at = 0;
    for (int i = 1; i <= 2000 && !at; i++) {
        entropy_add(&steady, 1 + 0.01 * random_normal(&r));
        at = entropy_settled(&steady) ? i : 0;
    }
    printf("measured entropy: settled after %d samples\n", at);
    assert_true(at >= 64);
    for (int i = 0; i < 300; i++) {
        entropy_add(&drift, exp(0.006 * i)); // a new time every sample
        assert_false(entropy_settled(&drift));
    }
    entropy zero = {0};
    for (int i = 0; i < 200; i++) // all times zero: settles, and does not wait for ever (B84)
        entropy_add(&zero, 0);
    assert_true(entropy_settled(&zero));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student_t_is_that_of_tables),
        cmocka_unit_test(a_summary_of_few_many_and_equal_samples),
        cmocka_unit_test(the_interval_of_a_median_holds_it_as_often_as_it_says),
        cmocka_unit_test(the_bootstrap_error_is_that_of_repeated_draws),
        cmocka_unit_test(entropy_settles_on_steady_times_and_not_on_drifting_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
