// The loss analysis on numbers whose answers are known in closed form, and its flags on models and
// documents made to earn them. The example models are in examples/.
#include "analyses/loss.h"
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A result whose losses are given by a function of row and position.
static loss_result made(const char *model, const char *document, int64_t rows, int64_t n,
                        int64_t train, double (*value)(int64_t, int64_t)) {
    err e = {0};
    loss_result r;
    if (!loss_init(&r, model, document, rows, n, train, &e))
        fail_msg("%s", e.text);
    for (int64_t i = 0; i < rows * n; i++) {
        assert_true(isnan(r.loss[i])); // "not measured" until a row is read
        r.loss[i] = value(i / n, i % n);
    }
    return r;
}

static void summarise(loss_result *r, int resamples, uint64_t seed) {
    err e = {0};
    if (!loss_summarise(r, resamples, seed, &e))
        fail_msg("%s", e.text);
}

static double by_position(int64_t row, int64_t i) {
    (void)row;
    return (double)i;
}

static double by_row(int64_t row, int64_t i) {
    return (double)row + 1e-3 * (double)(i % 7);
}

static double one_third(int64_t row, int64_t i) {
    (void)row, (void)i;
    return 1.0 / 3;
}

// B78, B80: sums of 0, 1, 2 ... are known; the perplexities are exponentials of different means.
static void B80_stretches_end_at_512_2048_and_then_double(void **state) {
    (void)state;
    loss_result r = made("m", "d", 2, 9000, 0, by_position);
    for (int64_t i = 0; i < r.rows * r.n; i++)
        r.loss[i] /= 9000; // exp stays finite
    summarise(&r, 0, 0);
    const int64_t ends[] = {0, 512, 2048, 4096, 8192, 9000};
    assert_int_equal(r.n_stretches, 5);
    for (int i = 0; i < 5; i++) {
        double mean = (double)(ends[i] + ends[i + 1] - 1) / 2 / 9000;
        assert_int_equal(r.stretch[i].from, ends[i]);
        assert_int_equal(r.stretch[i].to, ends[i + 1]);
        assert_true(fabs(r.stretch[i].mean - mean) < 1e-12); // 9000 additions of values below 1
        assert_true(fabs(r.stretch[i].block_ppl - exp(mean)) < 1e-11);
    }
    assert_int_equal(r.scored, 18000);
    assert_true(fabs(r.mean - 8999.0 / 2 / 9000) < 1e-12);
    assert_true(fabs(r.total_ppl - exp(r.mean)) < 1e-12);
    loss_free(&r);
    loss_free(&r); // twice is fine
}

// B78: the same losses in one row or cut into two rows have the same total.
static void B78_two_splits_give_the_same_total(void **state) {
    (void)state;
    loss_result one = made("m", "d", 1, 6000, 0, by_position),
                two = made("m", "d", 2, 3000, 0, by_position);
    for (int64_t i = 0; i < 6000; i++)
        one.loss[i] = two.loss[i] = 3 + sin((double)i);
    summarise(&one, 0, 0);
    summarise(&two, 0, 0);
    assert_int_equal(one.scored, two.scored);
    assert_true(fabs(one.mean - two.mean) < 1e-12);
    assert_true(fabs(one.mean * (double)one.scored - two.mean * (double)two.scored) < 1e-8);
    loss_free(&one);
    loss_free(&two);
}

static void the_extrapolation_index_is_the_mean_beyond_less_the_half_before(void **state) {
    (void)state;
    loss_result r = made("m", "d", 3, 100, 40, by_position);
    summarise(&r, 0, 0);
    // mean of 40..99 less mean of 20..39
    assert_true(fabs(r.extrapolation - (69.5 - 29.5)) < 1e-12);
    loss_free(&r);
    const struct { int64_t n, train; } none[] = {{40, 40}, {40, 100}, {40, 0}, {40, 1}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        r = made("m", "d", 1, none[i].n, none[i].train, by_position);
        summarise(&r, 0, 0);
        assert_true(isnan(r.extrapolation));
        loss_free(&r);
    }
}

// B44, B45: one loss, and none at all.
static void B45_no_losses_give_no_numbers_and_B44_one_gives_itself(void **state) {
    (void)state;
    loss_result r = made("m", "d", 1, 0, 512, by_position);
    summarise(&r, 200, 0);
    assert_int_equal(r.scored, 0);
    assert_int_equal(r.n_stretches, 0);
    assert_true(isnan(r.mean) && isnan(r.total_ppl) && isnan(r.accuracy) && isnan(r.mean_lo));
    loss_free(&r);
    r = made("m", "d", 1, 1, 512, one_third);
    r.right = 1;
    summarise(&r, 200, 0);
    assert_true(r.mean == 1.0 / 3 && r.accuracy == 1 && r.n_stretches == 1);
    assert_int_equal(r.stretch[0].to, 1);
    loss_free(&r);
}

// The plain form: the mean over what lies within h of i.
static double window_mean(const double *x, int64_t n, int64_t i, int64_t window) {
    int64_t h = window / 2, from = i > h ? i - h : 0, to = i + h < n ? i + h + 1 : n;
    double sum = 0;
    for (int64_t j = from; j < to; j++)
        sum += x[j];
    return sum / (double)(to - from);
}

static void smoothing_is_cut_at_the_ends(void **state) {
    (void)state;
    enum { N = 300 };
    double x[N], out[N];
    uint64_t seed = 1;
    for (int i = 0; i < N; i++)
        x[i] = 3 + tiny_normal(&seed);
    const int64_t windows[] = {1, 3, 101, 299, 301, 599, 601, 10001};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (int64_t n = 1; n <= N; n = n == 1 ? 2 : n == 2 ? 57 : n + 243) {
            loss_smooth(x, n, windows[w], out);
            for (int64_t i = 0; i < n; i++)
                assert_true(fabs(out[i] - window_mean(x, n, i, windows[w])) < 1e-12);
        }
    loss_smooth(x, 0, 501, out);
}

// One loss that is none, or absurdly large, spoils the windows that hold it and no others.
static void a_value_that_is_not_finite_stays_where_it_is(void **state) {
    (void)state;
    enum { N = 400, W = 21, AT = 100 };
    double x[N], out[N];
    for (int i = 0; i < N; i++)
        x[i] = 2 + 0.01 * (i % 5);
    const double wild[] = {NAN, INFINITY, -INFINITY, 1e30};
    for (int k = 0; k < 4; k++) {
        x[AT] = wild[k];
        loss_smooth(x, N, W, out);
        for (int i = 0; i < N; i++) {
            if (k < 3)
                assert_true(isnan(out[i]) == (abs(i - AT) <= W / 2));
            // After a huge value a running sum has lost its digits until it starts afresh.
            if (abs(i - AT) > W / 2 && (k < 3 || i < AT || i > AT + 2 * W))
                assert_true(fabs(out[i] - window_mean(x, N, i, W)) < 1e-12);
        }
    }
}

static void the_bootstrap_is_the_same_for_the_same_seed(void **state) {
    (void)state;
    double lo[3], hi[3];
    const uint64_t seeds[] = {7, 7, 8};
    for (int i = 0; i < 3; i++) {
        loss_result r = made("m", "d", 25, 40, 0, by_row);
        for (int64_t j = 0; j < r.rows * r.n; j++)
            r.loss[j] = sin((double)(j / r.n) * 12.9898) * 3;
        summarise(&r, 500, seeds[i]);
        lo[i] = r.mean_lo;
        hi[i] = r.mean_hi;
        assert_true(lo[i] < r.mean && r.mean < hi[i]);
        loss_free(&r);
    }
    assert_true(lo[0] == lo[1] && hi[0] == hi[1]);
    assert_true(lo[0] != lo[2] || hi[0] != hi[2]);
}

static void without_two_rows_or_resamples_there_is_no_interval(void **state) {
    (void)state;
    const struct {
        int64_t rows;
        int resamples;
    } cases[] = {{1, 500}, {5, 0}, {5, 1}};
    for (int i = 0; i < 3; i++) {
        loss_result r = made("m", "d", cases[i].rows, 30, 0, by_row);
        summarise(&r, cases[i].resamples, 0);
        assert_true(isfinite(r.mean) && isnan(r.mean_lo) && isnan(r.mean_hi));
        loss_free(&r);
    }
    loss_result r = made("m", "d", 5, 30, 0, by_row);
    r.loss[70] = NAN;
    summarise(&r, 500, 0);
    assert_true(isnan(r.mean) && isnan(r.mean_lo) && isnan(r.mean_hi));
    loss_free(&r);
}

// 500 experiments of 40 rows with a known mean. The percentile bootstrap of 40 values covers a
// little less than it says (about 0.94, its spread is sqrt(39/40) of the true one and it knows no
// t quantile); 0.90 and 0.98 are four binomial standard errors from that.
static void the_interval_covers_the_true_mean_about_95_times_in_100(void **state) {
    (void)state;
    enum { TRIALS = 500, ROWS = 40 };
    uint64_t seed = 5;
    int covered = 0;
    double width = 0;
    for (int k = 0; k < TRIALS; k++) {
        loss_result r = made("m", "d", ROWS, 1, 0, by_row);
        for (int i = 0; i < ROWS; i++)
            r.loss[i] = 3 + 0.5 * tiny_normal(&seed);
        summarise(&r, 400, (uint64_t)k);
        covered += r.mean_lo <= 3 && 3 <= r.mean_hi;
        width += r.mean_hi - r.mean_lo;
        loss_free(&r);
    }
    printf("measured coverage of the 95%% interval over 40 rows: %.3f, width %.4f (normal theory "
           "%.4f)\n",
           (double)covered / TRIALS, width / TRIALS, 2 * 1.96 * 0.5 / sqrt(ROWS));
    assert_in_range(covered, TRIALS * 90 / 100, TRIALS * 98 / 100);
    assert_true(fabs(width / TRIALS / (2 * 1.96 * 0.5 / sqrt(ROWS)) - 1) < 0.1);
}

// Figures -----------------------------------------------------------------------------------------

static double first_model(int64_t row, int64_t i) {
    return 3 + 0.25 * (double)row + sin((double)i);
}

static double second_model(int64_t row, int64_t i) {
    return first_model(row, i) - 0.5; // half a nat better everywhere
}

static figures draw(loss_result **r, size_t n, int64_t smooth) {
    err e = {0};
    figures f;
    for (size_t i = 0; i < n; i++)
        summarise(r[i], 50, 0);
    if (!loss_figures((const loss_result *const *)r, n, smooth, 50, 0, "cpu, f32", &f, &e))
        fail_msg("%s", e.text);
    return f;
}

// B80: the running and the block perplexity are series with names of their own, and neither is the
// per-position loss.
static void B80_figures_keep_loss_running_and_block_perplexity_apart(void **state) {
    (void)state;
    loss_result a = made("a", "d", 3, 3000, 512, first_model),
                b = made("b", "d", 3, 3000, 512, second_model), *both[] = {&a, &b};
    figures f = draw(both, 2, 11);
    assert_int_equal(f.n, 3);
    const figure *loss = f.v[0], *diff = f.v[1], *ppl = f.v[2];
    assert_string_equal(loss->id, "loss");
    assert_string_equal(diff->id, "difference");
    assert_string_equal(ppl->id, "perplexity");
    assert_string_equal(loss->y.unit, "nats/token");
    assert_int_equal(loss->n_series, 2);
    assert_non_null(strstr(loss->subtitle, "3 rows of 3001 tokens, moving mean of 11"));
    for (size_t k = 0; k < 2; k++) {
        const series *s = &loss->series[k];
        const loss_result *r = both[k];
        assert_string_equal(s->name, r->model);
        assert_string_equal(s->band, "95% bootstrap over 3 rows, 50 resamples");
        assert_true(s->x[0] == 1 && s->x[s->n - 1] == 3000);
        for (size_t i = 0; i < s->n; i++) {
            double sum = 0;
            for (int row = 0; row < 3; row++)
                sum += window_mean(r->loss + row * 3000, 3000, (int64_t)s->x[i] - 1, 11);
            assert_true(fabs(s->y[i] - sum / 3) < 1e-12);
            assert_true(s->lo[i] <= s->y[i] && s->y[i] <= s->hi[i]);
        }
    }
    // Paired: what the text adds cancels, so the band has no width.
    for (size_t i = 0; i < diff->series[1].n; i++) {
        assert_true(diff->series[0].y[i] == 0);
        assert_true(fabs(diff->series[1].y[i] + 0.5) < 1e-12);
        assert_true(diff->series[1].hi[i] - diff->series[1].lo[i] < 1e-12);
    }
    const char *const names[] = {"a, running", "a, block", "b, running", "b, block"};
    assert_int_equal(ppl->n_series, 4);
    for (int k = 0; k < 4; k++)
        assert_string_equal(ppl->series[k].name, names[k]);
    assert_string_equal(ppl->y.name, "running and block perplexity");
    assert_non_null(strstr(ppl->subtitle, "curves: running"));
    const series *run = &ppl->series[0], *block = &ppl->series[1];
    assert_true(fabs(run->y[run->n - 1] / a.total_ppl - 1) < 1e-12);
    assert_true(fabs(run->y[0] - exp((a.loss[0] + a.loss[3000] + a.loss[6000]) / 3)) < 1e-12);
    assert_int_equal(block->n, 9); // a level piece and a gap for each
    for (int i = 0; i < 3; i++) {
        assert_true(block->y[3 * i] == a.stretch[i].block_ppl);
        assert_true(block->y[3 * i + 1] == a.stretch[i].block_ppl);
        assert_true(isnan(block->y[3 * i + 2]));
        assert_true(block->x[3 * i + 1] == (double)a.stretch[i].to);
    }
    // One training length is marked once.
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(f.v[k]->n_marks, 1);
        assert_true(f.v[k]->marks[0].value == 512);
    }
    figures_free(&f);
    loss_free(&a);
    loss_free(&b);
}

static void one_row_has_no_band_and_one_model_no_difference(void **state) {
    (void)state;
    loss_result a = made("a", "d", 1, 600, 0, first_model), *one[] = {&a};
    figures f = draw(one, 1, 0);
    assert_int_equal(f.n, 2);
    assert_null(f.v[0]->series[0].lo);
    assert_null(f.v[0]->series[0].band);
    assert_int_equal(f.v[0]->n_marks, 0);
    figures_free(&f);
    loss_free(&a);
}

// Models with other tokenizers read other tokens at a position: their difference means nothing.
static void differences_are_drawn_between_models_that_read_the_same_tokens(void **state) {
    (void)state;
    loss_result a = made("a", "d", 1, 600, 0, first_model),
                b = made("b", "d", 1, 600, 0, one_third),
                c = made("c", "d", 1, 600, 0, second_model), *all[] = {&a, &b, &c};
    a.ids_mark = c.ids_mark = 1;
    b.ids_mark = 2;
    figures f = draw(all, 3, 0);
    assert_int_equal(f.n, 3);
    assert_int_equal(f.v[1]->n_series, 2);
    assert_string_equal(f.v[1]->series[1].name, "c");
    figures_free(&f);
    f = draw(all, 2, 0);
    assert_int_equal(f.n, 2);
    assert_string_equal(f.v[1]->id, "perplexity");
    figures_free(&f);
    for (int i = 0; i < 3; i++)
        loss_free(all[i]);
}

static void every_document_has_panels_of_its_own(void **state) {
    (void)state;
    loss_result a = made("a", "d", 1, 600, 0, first_model),
                b = made("a", "e", 2, 50, 40, one_third), *both[] = {&a, &b};
    figures f = draw(both, 2, 0);
    const char *const ids[] = {"loss", "perplexity", "loss-2", "perplexity-2"};
    assert_int_equal(f.n, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(f.v[i]->id, ids[i]);
    assert_non_null(strstr(f.v[2]->title, "along e"));
    figures_free(&f);
    loss_free(&a);
    loss_free(&b);
}

static void running_out_of_memory_is_an_error_at_every_point(void **state) {
    (void)state;
    bool ok = false;
    for (long n = 1; n < 2000 && !ok; n++) {
        err e = {0};
        loss_result r = {0}, s = {0};
        const loss_result *both[] = {&r, &s};
        figures f;
        mem_fail_after(n);
        ok = loss_init(&r, "a", "d", 2, 300, 64, &e) && loss_init(&s, "b", "d", 2, 300, 64, &e);
        for (int64_t i = 0; ok && i < 600; i++)
            r.loss[i] = s.loss[i] = (double)i;
        ok = ok && loss_summarise(&r, 20, 0, &e) && loss_summarise(&s, 20, 0, &e) &&
             loss_figures(both, 2, 0, 20, 0, "cpu", &f, &e);
        mem_fail_after(0);
        if (ok)
            figures_free(&f);
        else
            assert_int_equal(e.code, ERR_NOMEM);
        loss_free(&r);
        loss_free(&s);
    }
    assert_true(ok);
}

// Flags -------------------------------------------------------------------------------------------

typedef struct bench {
    backend *be;
    model *m;
    fwd *f;
} bench;

static bench bench_open(const char *path, precision p, int64_t block, int64_t longest) {
    err e = {0};
    bench b = {.be = cpu_open(p, 1, &e)};
    b.m = b.be ? model_open(path, b.be, &e) : NULL;
    b.f = b.m ? fwd_new(b.m, block, longest, &e) : NULL;
    if (!b.f)
        fail_msg("%s", e.text);
    return b;
}

static void bench_close(bench *b) {
    fwd_free(b->f);
    model_free(b->m);
    backend_close(b->be);
}

static loss_result read_rows(bench *b, const int32_t *ids, int64_t rows, int64_t T, double jump) {
    err e = {0};
    loss_result r;
    if (!loss_init(&r, "m", "d", rows, T - 1, 0, &e))
        fail_msg("%s", e.text);
    for (int64_t row = 0; row < rows; row++)
        if (!loss_read_row(&r, row, b->f, ids + row * T, NULL, jump, NULL, NULL, &e))
            fail_msg("%s", e.text);
    return r;
}

static const loss_flag *flag_with(const loss_result *r, const char *part) {
    for (int64_t i = 0; i < r->n_flags; i++)
        if (strstr(r->flag[i].what, part))
            return &r->flag[i];
    return NULL;
}

// Pseudo-random ids of the small models, no special ones.
static int32_t any_id(uint64_t *seed) {
    return (int32_t)(3 + tiny_next(seed) % 2000);
}

// B124: one token over and over, then noise: the likeliest token is the same for long, then the loss
// jumps. Row 0 is noise throughout and earns no flag.
static void B124_a_loop_and_a_jump_are_flagged_where_they_are(void **state) {
    (void)state;
    enum { T = 1200, TURN = 700 };
    int32_t ids[2 * T];
    uint64_t seed = 3;
    for (int i = 0; i < 2 * T; i++)
        ids[i] = any_id(&seed);
    for (int i = 0; i < TURN; i++)
        ids[T + i] = 300;
    bench b = bench_open("examples/small-deltanet", PRECISION_F32, 512, T);
    loss_result r = read_rows(&b, ids, 2, T, 3);
    const loss_flag *loop = flag_with(&r, "the likeliest token is 300 for 256 tokens on end"),
                    *jump = flag_with(&r, "the mean of 64 losses jumps by ");
    for (int64_t i = 0; i < r.n_flags; i++)
        assert_int_equal(r.flag[i].row, 1);
    assert_non_null(loop);
    assert_true(loop->position < 100);
    assert_non_null(jump);
    printf("measured jump at token %d: flagged at position %lld, \"%s\"\n", TURN,
           (long long)jump->position, jump->what);
    // Loss i is of token i + 1: the first dear one is TURN - 1.
    assert_true(llabs(jump->position - (TURN - 1)) <= 8);
    loss_free(&r);
    r = read_rows(&b, ids, 2, T, 900);
    assert_null(flag_with(&r, "jumps"));
    loss_free(&r);
    bench_close(&b);
}

// B124: the first head whose state is not finite, or beyond the bound, has its layer and number.
// Values of head 1 of layer 1 alone are blown up; what follows in the pass is normalised.
static void B124_a_state_that_runs_away_is_named_with_its_layer_and_head(void **state) {
    (void)state;
    enum { T = 40 };
    const struct {
        double factor;
        const char *says;
    } cases[] = {{1, NULL},
                 {1e9, "the state of L1.H1 has norm "},
                 {2e38, "the state of L1.H1 is not finite"}};
    for (int k = 0; k < 3; k++)
        for (int block = 8; block <= 64; block += 56) { // 64: only the state after the row shows it
            tiny_model *t = tiny_new((tiny_spec){
                .family = "delta_net", .L = 2, .H = 2, .K = 8, .V = 8, .D = 16, .seed = 9});
            tiny_tensor *v = tiny_get(t, "model.layers.1.attn.v_proj.weight");
            for (int64_t i = v->n / 2; i < v->n; i++)
                v->v[i] = (float)(cases[k].factor * (cases[k].factor > 1 ? 1 : v->v[i]));
            const char *path = tiny_save(t, "m");
            int32_t ids[T];
            uint64_t seed = 4;
            for (int i = 0; i < T; i++)
                ids[i] = (int32_t)(tiny_next(&seed) % (uint64_t)t->s.n_vocab);
            bench b = bench_open(path, PRECISION_F32, block, T);
            loss_result r = read_rows(&b, ids, 1, T, 900);
            const loss_flag *f = cases[k].says ? flag_with(&r, cases[k].says) : NULL;
            if (cases[k].says && !f)
                fail_msg("%g, block %d: no flag \"%s\" among %lld (%s)", cases[k].factor, block,
                         cases[k].says, (long long)r.n_flags, r.n_flags ? r.flag[0].what : "");
            if (!cases[k].says)
                assert_int_equal(r.n_flags, 0);
            if (f)
                assert_int_equal(f->position, block < T ? block : T);
            // A loss that is not finite is flagged once, at its first position.
            const loss_flag *bad = flag_with(&r, "the loss is not finite");
            int64_t first = 0;
            while (first < r.n && isfinite(r.loss[first]))
                first++;
            if (first < r.n)
                assert_true(bad && bad->position == first);
            else
                assert_null(bad);
            if (k == 2)
                assert_non_null(bad);
            loss_free(&r);
            bench_close(&b);
            tiny_free(t);
            files_clear();
        }
}

static void flags_end_at_their_limit(void **state) {
    (void)state;
    enum { T = 300, ROWS = LOSS_MAX_FLAGS + 3 };
    int32_t *ids = malloc(sizeof *ids * T * ROWS);
    for (int i = 0; i < T * ROWS; i++)
        ids[i] = 300;
    bench b = bench_open("examples/small-deltanet", PRECISION_F32, 512, T);
    loss_result r = read_rows(&b, ids, ROWS, T, 3);
    assert_int_equal(r.n_flags, LOSS_MAX_FLAGS);
    assert_int_equal(r.flag[LOSS_MAX_FLAGS - 1].row, LOSS_MAX_FLAGS - 1);
    loss_free(&r);
    bench_close(&b);
    free(ids);
}

// Accuracy counts the tokens that were the likeliest; the mark of the ids follows them.
static void equal_ids_have_equal_marks_and_a_loop_is_nearly_always_right(void **state) {
    (void)state;
    enum { T = 300 };
    int32_t ids[T];
    for (int i = 0; i < T; i++)
        ids[i] = 300;
    bench b = bench_open("examples/small-deltanet", PRECISION_F32, 512, T);
    loss_result r = read_rows(&b, ids, 1, T, 3), again = read_rows(&b, ids, 1, T, 3);
    summarise(&r, 0, 0);
    assert_true(r.accuracy > 0.9 && r.accuracy <= 1);
    assert_true(r.ids_mark != 0 && r.ids_mark == again.ids_mark);
    assert_memory_equal(r.loss, again.loss, (T - 1) * sizeof *r.loss); // nothing is left over
    loss_free(&again);
    ids[T - 1] = 301;
    again = read_rows(&b, ids, 1, T, 3);
    assert_true(r.ids_mark != again.ids_mark);
    loss_free(&again);
    loss_free(&r);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B80_stretches_end_at_512_2048_and_then_double),
        cmocka_unit_test(B78_two_splits_give_the_same_total),
        cmocka_unit_test(the_extrapolation_index_is_the_mean_beyond_less_the_half_before),
        cmocka_unit_test(B45_no_losses_give_no_numbers_and_B44_one_gives_itself),
        cmocka_unit_test(smoothing_is_cut_at_the_ends),
        cmocka_unit_test(a_value_that_is_not_finite_stays_where_it_is),
        cmocka_unit_test(the_bootstrap_is_the_same_for_the_same_seed),
        cmocka_unit_test(without_two_rows_or_resamples_there_is_no_interval),
        cmocka_unit_test(the_interval_covers_the_true_mean_about_95_times_in_100),
        cmocka_unit_test(B80_figures_keep_loss_running_and_block_perplexity_apart),
        cmocka_unit_test(one_row_has_no_band_and_one_model_no_difference),
        cmocka_unit_test(differences_are_drawn_between_models_that_read_the_same_tokens),
        cmocka_unit_test(every_document_has_panels_of_its_own),
        cmocka_unit_test(running_out_of_memory_is_an_error_at_every_point),
        cmocka_unit_test(B124_a_loop_and_a_jump_are_flagged_where_they_are),
        cmocka_unit_test(B124_a_state_that_runs_away_is_named_with_its_layer_and_head),
        cmocka_unit_test(flags_end_at_their_limit),
        cmocka_unit_test(equal_ids_have_equal_marks_and_a_loop_is_nearly_always_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
