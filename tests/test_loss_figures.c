// Pictures of `deltop loss`: numbers in closed form.
#include "analyses/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Losses of 1 nat up to position 512, of 2 nats behind it.
static void make(loss_result *r, int64_t n) {
    assert_true(loss_init(r, "model", "text", 1, n, 0, NULL));
    for (int64_t i = 0; i < n; i++)
        r->loss[i] = i < 512 ? 1 : 2;
    assert_true(loss_summarise(r, 0, 0, NULL));
}

static const figure *find(const figures *f, const char *id) {
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i]->id, id) == 0)
            return f->v[i];
    fail_msg("there is no figure %s", id);
    return NULL;
}

static void the_moving_mean_leaves_short_rows_their_shape(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        const char *want;
    } row[] = {{1, "moving mean of 1,"},
               {63, "moving mean of 7,"},
               {4095, "moving mean of 501,"}, // an eighth would be 511
               {16383, "moving mean of 511,"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        loss_result r;
        figures f;
        make(&r, row[i].n);
        const loss_result *one = &r;
        assert_true(loss_figures(&one, 1, 0, 0, 0, "cpu", &f, NULL));
        if (!strstr(find(&f, "loss")->subtitle, row[i].want))
            fail_msg("%s is not in \"%s\"", row[i].want, find(&f, "loss")->subtitle);
        figures_free(&f);
        loss_free(&r);
    }
}

static void a_block_is_a_level_piece_over_its_own_tokens(void **state) {
    (void)state;
    loss_result r;
    figures f;
    make(&r, 1023);
    const loss_result *one = &r;
    assert_true(loss_figures(&one, 1, 0, 0, 0, "cpu", &f, NULL));
    const figure *p = find(&f, "perplexity");
    assert_int_equal(p->n_series, 2);
    assert_false(p->series[0].silent);
    const series *b = &p->series[1];
    assert_true(b->silent && b->colour == p->series[0].colour);
    assert_string_equal(b->name, "model, block");
    static const double x[] = {1, 512, 512, 512, 1023, 1023};
    const double y[] = {exp(1), exp(1), NAN, exp(2), exp(2), NAN};
    assert_int_equal(b->n, 6);
    for (int i = 0; i < 6; i++) {
        assert_true(b->x[i] == x[i]);
        assert_true(isnan(y[i]) ? isnan(b->y[i])
                                : fabs(b->y[i] - y[i]) < 1e-12); // a mean's rounding
    }
    figures_free(&f);
    loss_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_moving_mean_leaves_short_rows_their_shape),
        cmocka_unit_test(a_block_is_a_level_piece_over_its_own_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
