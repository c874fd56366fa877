// Summaries and pictures of effective ranks (analyses/erank_stats.h, erank_figures) on a made-up
// result whose means and growth are known.
#include "analyses/erank.h"
#include "analyses/erank_stats.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if (!(call))                                                                               \
            fail_msg("%s", e.text);                                                                \
    } while (0)

static void near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.17g is not %.17g within %g", a, b, tolerance);
}

// A result whose rank is 1 + log2(tokens) plus 3 for head 1 beyond token 1024, norm 2^head.
static erank_result made_up(const backend *be, const char *name, int64_t length, bool linear) {
    err e = {0};
    erank_result r;
    head_shape shape = {
        .H = 2, .Hk = 2, .K = 8, .V = 8, .n_h = 1, .erase = ERASE_KEY, .scale = 1, .beta_max = 2};
    const head_shape *shapes[] = {&shape};
    erank_options o = {
        .cut = -1, .train_length = 1024, .model = name, .document = "words", .linear = linear};
    OK(erank_open(&r, shapes, 1, be, 1, length, &o, &e));
    for (int h = 0; h < 2; h++)
        for (int64_t i = 0; i < length; i++) {
            size_t at = (size_t)(h * length + i);
            r.v[ERANK_RANK][at] = i == 0 ? NAN : 2 + (h == 1 && i >= 1024 ? 3 : 0);
            r.v[ERANK_NORM][at] = h == 0 ? 0.01 : 100;
            r.v[ERANK_STABLE][at] = 1.5;
        }
    return r;
}

static void stretches_growth_and_geometric_norms(void **unused) {
    (void)unused;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    assert_non_null(be);
    erank_result r = made_up(be, "m", 5000, false);
    erank_stats s;
    OK(erank_stats_make(&r, &s, &e));
    const int64_t edges[] = {0, 512, 2048, 4096, 5000};
    assert_int_equal(s.n_stretches, 4);
    for (int i = 0; i < 5; i++)
        assert_int_equal(s.edge[i], edges[i]);
    near(s.head[1].stretch[0], 2, 1e-14);
    near(s.head[1].stretch[1], (2 * 512 + 5 * 1024) / 1536.0, 1e-12);
    near(s.head[1].stretch[3], 5, 1e-12);
    near(s.head[1].growth, 3, 1e-12);
    near(s.head[0].growth, 0, 1e-12);
    near(s.all.growth, 1.5, 1e-12);
    near(s.all.norm, 1, 1e-12); // geometric mean of 0.01 and 100
    near(s.head[0].norm_growth, 1, 1e-12);
    near(s.all.stable, 1.5, 1e-12);
    assert_int_equal(s.growing, 1);
    assert_int_equal(s.most, 1);
    erank_stats_free(&s);
    double found;
    near(erank_mean_at(&r, ERANK_RANK, 2048, &found), 3.5, 1e-12);
    near(found, 2048, 0);
    assert_true(isnan(erank_mean_at(&r, ERANK_RANK, 0.5, &found)));
    erank_free(&r);
    backend_close(be);
}

static void bins_cover_every_position_once(void **unused) {
    (void)unused;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    assert_non_null(be);
    for (int linear = 0; linear < 2; linear++) {
        erank_result r = made_up(be, "m", 5000, linear);
        erank_bins b;
        OK(erank_bins_make(&r, 8, &b, &e));
        assert_int_equal(b.first[0], 0);
        assert_int_equal(b.first[b.n], 5000);
        for (size_t i = 0; i < b.n; i++) {
            assert_true(b.first[i] < b.first[i + 1]);
            assert_true(b.edge[i] < b.edge[i + 1]);
            assert_true(b.edge[i] <= b.centre[i] && b.centre[i] < b.edge[i + 1]);
            if (!linear && b.first[i + 1] - b.first[i] > 1)
                assert_true(erank_tokens(&r, b.first[i + 1] - 1) < b.edge[i] * 1.0905077327);
        }
        // Linear: 8 bins; log2: ceil(8 log2 5000) octave parts at most, single tokens at first.
        assert_true(linear ? b.n == 8 : b.n <= 99 && b.centre[0] == 1 && b.centre[9] == 10);
        erank_bins_free(&b);
        erank_free(&r);
    }
    backend_close(be);
}

static void figures_show_curves_maps_and_a_table(void **unused) {
    (void)unused;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    assert_non_null(be);
    erank_result one = made_up(be, "one", 5000, false), two = made_up(be, "two", 3000, false);
    const erank_result *list[] = {&one, &two};
    figures f;
    OK(erank_figures(list, 1, &f, &e));
    assert_int_equal(f.n, 5);
    const char *ids[] = {"erank", "norm", "erank-heads", "norm-heads", "erank-table"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(f.v[i]->id, ids[i]);
    assert_int_equal(f.v[0]->kind, FIG_CURVES);
    assert_int_equal(f.v[0]->x.scale, SCALE_LOG2);
    assert_string_equal(f.v[0]->y.unit, "of 8");
    assert_int_equal(f.v[0]->n_marks, 2);
    const series *s = &f.v[0]->series[f.v[0]->n_series - 1];
    assert_true(isnan(s->y[0])); // a gap, not a zero
    near(s->y[1], 2, 1e-14);
    near(s->y[s->n - 1], 3.5, 1e-12);
    assert_int_equal(f.v[1]->y.scale, SCALE_LOG10);
    near(f.v[1]->series[0].y[5], 1, 1e-12); // geometric mean of 0.01 and 100
    const heat *h = f.v[2]->heat;
    assert_int_equal(h->rows, 2);
    assert_string_equal(h->row_label[1], "L0.H1");
    assert_true(isnan(h->cell[0]));
    near(h->cell[2 * h->cols - 1], 5, 1e-12);
    near(f.v[3]->heat->cell[0], -2, 1e-12); // log10 0.01
    near(f.v[3]->heat->cell[h->cols], 2, 1e-12);
    assert_int_equal(f.v[4]->columns[0].n, 2);
    figures_free(&f);

    OK(erank_figures(list, 2, &f, &e));
    assert_int_equal(f.n, 7);
    assert_int_equal(f.v[0]->n_series, 2);
    assert_non_null(strstr(f.v[0]->series[1].name, "two"));
    assert_string_equal(f.v[4]->id, "erank-heads-2");
    assert_int_equal(f.v[6]->columns[0].n, 4);
    assert_string_equal(f.v[6]->columns[0].text[3], "two");
    figures_free(&f);
    erank_free(&one);
    erank_free(&two);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stretches_growth_and_geometric_norms),
        cmocka_unit_test(bins_cover_every_position_once),
        cmocka_unit_test(figures_show_curves_maps_and_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
