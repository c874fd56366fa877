// Effective ranks along a row (analyses/erank.h) against reference dumps, closed forms, and states
// made by hand.
#include "analyses/erank.h"
#include "analyses/erank_stats.h"
#include "analyses/rank.h"
#include "core/mem.h"
#include "core/npy.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// Largest |a - b| / |b|; NaN on one side only is infinite.
static double relative(const double *a, const double *b, int64_t n) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) && isnan(b[i]))
            continue;
        double d = fabs(a[i] - b[i]) / fabs(b[i]);
        worst = d <= worst ? worst : isnan(d) ? INFINITY : d;
    }
    return worst;
}

// ---- states made by hand ------------------------------------------------------------------------

// One head whose state never changes: keys, values and betas are 0.
typedef struct still {
    backend *be;
    steps s;
    mat state;
} still;

static still still_new(precision p, int K, int V, int n_h, int64_t T) {
    err e = {0};
    still x = {.be = cpu_open(p, 1, &e)};
    assert_non_null(x.be);
    const backend_ops *op = x.be->op;
    x.s = (steps){.s = {.H = 1,
                        .Hk = 1,
                        .K = K,
                        .V = V,
                        .n_h = n_h,
                        .erase = ERASE_KEY,
                        .scale = 1,
                        .beta_max = 2},
                  .T = T,
                  .q = op->alloc(x.be, T, K),
                  .k = op->alloc(x.be, T * n_h, K),
                  .v = op->alloc(x.be, T * n_h, V),
                  .beta = op->alloc(x.be, T * n_h, 1)};
    x.state = op->alloc(x.be, K, V);
    return x;
}

static void still_free(still *x) {
    const backend_ops *op = x->be->op;
    op->free(x->be, x->s.q);
    op->free(x->be, x->s.k);
    op->free(x->be, x->s.v);
    op->free(x->be, x->s.beta);
    op->free(x->be, x->state);
    backend_close(x->be);
}

// All numbers of the state at one token.
static void measure(still *x, const double *state, const erank_options *o, double *out) {
    err e = {0};
    erank_result r;
    const head_shape *shapes[] = {&x->s.s};
    x->be->op->write(x->be, state, x->state);
    OK(erank_open(&r, shapes, 1, x->be, 1, x->s.T, o, &e));
    probe p = erank_probe(&r);
    erank_begin_row(&r, 0, NULL, 0, NULL);
    OK(p.on_steps(p.ctx, 0, 0, &x->s, x->state, x->be, &e));
    for (int q = 0; q < ERANK_QUANTITIES; q++)
        out[q] = erank_line(&r, q, 0, 0, 0)[0];
    erank_free(&r);
}

static const erank_options plain = {.cut = -1};

static void companion_numbers_of_a_diagonal_state(void **unused) {
    (void)unused;
    // S04: diag(4, 2, 1). Float32 states go through the Gram matrix, error near 1e-8.
    double state[9] = {4, 0, 0, 0, 2, 0, 0, 0, 1}, got[ERANK_QUANTITIES];
    for (int i = 0; i < 2; i++) {
        double tolerance = i ? 1e-13 : 1e-7;
        still x = still_new(i ? PRECISION_F64 : PRECISION_F32, 3, 3, 1, 1);
        erank_options o = plain;
        measure(&x, state, &o, got);
        near(got[ERANK_RANK], 2.6004900060, 1e-9 + tolerance);
        near(got[ERANK_NORM], 4.5825756949558400, tolerance);
        near(got[ERANK_SPECTRAL], 4, tolerance);
        near(got[ERANK_STABLE], 21.0 / 16, tolerance);
        near(got[ERANK_NUCLEAR], 7, tolerance);
        near(got[ERANK_CONDITION], 4, tolerance);
        near(got[ERANK_ENERGY], 16.0 / 21, tolerance);
        o.top = 2;
        measure(&x, state, &o, got);
        near(got[ERANK_ENERGY], 20.0 / 21, tolerance);
        still_free(&x);
    }
}

static void b81_a_zero_state_is_nan_and_zero_only_for_the_authors(void **unused) {
    (void)unused;
    double state[9] = {0}, got[ERANK_QUANTITIES];
    still x = still_new(PRECISION_F32, 3, 3, 1, 1);
    erank_options o = plain;
    measure(&x, state, &o, got);
    assert_true(isnan(got[ERANK_RANK]));
    assert_true(isnan(got[ERANK_STABLE]));
    assert_true(got[ERANK_NORM] == 0);
    o.authors = true;
    measure(&x, state, &o, got);
    assert_true(got[ERANK_RANK] == 0);
    still_free(&x);
}

static void b81_rank_one_is_one_and_scale_changes_nothing(void **unused) {
    (void)unused;
    double got[ERANK_QUANTITIES], base[9], rank_one[9], scaled[9];
    const double scales[] = {1, -3, 1e-20, 1e20};
    for (int i = 0; i < 9; i++) {
        base[i] = sin(1 + 2.3 * i);
        rank_one[i] = (1 + i / 3) * cos(1 + i % 3);
    }
    for (int p = 0; p < 2; p++) {
        still x = still_new(p ? PRECISION_F64 : PRECISION_F32, 3, 3, 1, 1);
        double want = 0, worst = 0, worst_one = 0;
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 9; j++)
                scaled[j] = scales[i] * base[j];
            measure(&x, scaled, &plain, got);
            want = i ? want : got[ERANK_RANK];
            worst = fmax(worst, fabs(got[ERANK_RANK] - want));
            for (int j = 0; j < 9; j++)
                scaled[j] = scales[i] * rank_one[j];
            measure(&x, scaled, &plain, got);
            worst_one = fmax(worst_one, fabs(got[ERANK_RANK] - 1));
        }
        printf("measured rank at scales 1e-20 .. 1e20: differs by %.2g, rank-1 off by %.2g (%s)\n",
               worst, worst_one, precision_name(x.be->prec));
        // Rounding the scaled entries to float32 moves each by 6e-8 of itself; a rank-1 state with
        // such rounding has a second value near 1e-7, which counts 1e-7 ln 1e7.
        assert_true(worst <= (p ? 1e-14 : 1e-6));
        assert_true(worst_one <= (p ? 1e-14 : 5e-6));
        still_free(&x);
    }
}

static void authors_cut_depends_on_size_as_theirs_does(void **unused) {
    (void)unused;
    double state[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, got[ERANK_QUANTITIES];
    still x = still_new(PRECISION_F64, 3, 3, 1, 1);
    erank_options o = plain;
    o.authors = true;
    measure(&x, state, &o, got);
    near(got[ERANK_RANK], 3, 1e-14);
    for (int i = 0; i < 9; i++)
        state[i] *= 1e-16;
    measure(&x, state, &o, got);
    assert_true(got[ERANK_RANK] == 0);
    still_free(&x);
}

static void a_relative_cut_of_ones_own_is_used_and_told(void **unused) {
    (void)unused;
    double state[9] = {1, 0, 0, 0, 1, 0, 0, 0, 0.01}, got[ERANK_QUANTITIES];
    still x = still_new(PRECISION_F64, 3, 3, 1, 1);
    erank_options o = plain;
    o.cut = 0.1;
    measure(&x, state, &o, got);
    near(got[ERANK_RANK], 2, 1e-14);
    err e = {0};
    erank_result r;
    const head_shape *shapes[] = {&x.s.s};
    OK(erank_open(&r, shapes, 1, x.be, 1, 1, &o, &e));
    assert_true(r.cut == 0.1);
    erank_free(&r);
    OK(erank_open(&r, shapes, 1, x.be, 1, 1, &plain, &e));
    assert_true(r.cut == 0);
    erank_free(&r);
    still_free(&x);
    x = still_new(PRECISION_F32, 3, 3, 1, 1);
    OK(erank_open(&r, shapes, 1, x.be, 1, 1, &plain, &e));
    assert_true(r.cut == RANK_CUT);
    erank_free(&r);
    still_free(&x);
}

static void a_state_with_nan_is_nan_and_counted(void **unused) {
    (void)unused;
    double state[9] = {1, 0, 0, 0, NAN, 0, 0, 0, 1};
    err e = {0};
    erank_result r;
    still x = still_new(PRECISION_F32, 3, 3, 1, 1);
    const head_shape *shapes[] = {&x.s.s};
    x.be->op->write(x.be, state, x.state);
    OK(erank_open(&r, shapes, 1, x.be, 1, 1, &plain, &e));
    probe p = erank_probe(&r);
    erank_begin_row(&r, 0, NULL, 0, NULL);
    OK(p.on_steps(p.ctx, 0, 0, &x.s, x.state, x.be, &e));
    for (int q = 0; q < ERANK_QUANTITIES; q++)
        assert_true(isnan(r.v[q][0]));
    assert_int_equal(r.broken, 1);
    erank_free(&r);
    still_free(&x);
}

static void what_leaves_nothing_to_look_at_is_an_error(void **unused) {
    (void)unused;
    err e = {0};
    erank_result r;
    still x = still_new(PRECISION_F32, 3, 3, 1, 1);
    head_shape three = x.s.s;
    three.n_h = 3;
    const head_shape *shapes[] = {NULL, &x.s.s, &three};
    erank_options o = plain;
    o.every = 64;
    assert_false(erank_open(&r, shapes, 3, x.be, 1, 63, &o, &e));
    files_assert_error_holds(&e, ERR_INPUT, "63 tokens");
    err_clear(&e);
    o = plain;
    o.layers = (const int[]){0};
    o.n_layers = 1;
    assert_false(erank_open(&r, shapes, 3, x.be, 1, 63, &o, &e));
    files_assert_error_holds(&e, ERR_USAGE,
                             "none of the chosen layers has a matrix as its recurrent state");
    err_clear(&e);
    o.layers = NULL;
    o.n_layers = 0;
    assert_false(erank_open(&r, (const head_shape *[]){NULL}, 1, x.be, 1, 63, &o, &e));
    files_assert_error_holds(&e, ERR_UNSUPPORTED, "no layer of this model has a matrix as its");
    err_clear(&e);
    o = plain;
    o.micro = true;
    assert_false(erank_open(&r, shapes, 3, x.be, 1, 63, &o, &e));
    files_assert_error_holds(&e, ERR_INPUT, "layer 1 takes 1 micro-steps a token and layer 2");
    err_clear(&e);
    o = plain;
    o.heads = (const int[]){1};
    o.n_heads = 1;
    assert_false(erank_open(&r, shapes, 3, x.be, 1, 63, &o, &e));
    files_assert_error_holds(&e, ERR_INPUT, "there is no head 1");
    err_clear(&e);
    OK(erank_open(&r, shapes, 3, x.be, 1, 63, &plain, &e));
    assert_int_equal(r.n_layers, 2);
    assert_int_equal(r.layer[0], 1);
    assert_int_equal(r.n_left_out, 1);
    assert_int_equal(r.left_out[0], 0);
    erank_free(&r);
    still_free(&x);
}

// ---- reference dumps ----------------------------------------------------------------------------

typedef struct golden {
    char path[1024];
    backend *be;
    model *m;
    int32_t *ids;
    int64_t T;
} golden;

static void golden_close(golden *g) {
    model_free(g->m);
    backend_close(g->be);
    free(g->ids);
}

// False when the program does not open the model: whether it should is the business of other tests.
static bool golden_open(golden *g, const char *name, precision p) {
    err e = {0};
    npy a;
    char path[1200];
    *g = (golden){0};
    snprintf(g->path, sizeof g->path, "%s/%s", files_shared("golden"), name);
    g->be = cpu_open(p, 2, &e);
    assert_non_null(g->be);
    g->m = model_open(g->path, g->be, &e);
    if (!g->m) {
        printf("SKIP: %s: %s\n", name, e.text);
        golden_close(g);
        return false;
    }
    snprintf(path, sizeof path, "%s/input_ids.npy", g->path);
    OK(npy_read(path, &a, &e));
    g->ids = npy_as_i32(&a, &e);
    g->T = a.count;
    npy_free(&a);
    assert_non_null(g->ids);
    return true;
}

static erank_result run_golden(const golden *g, erank_options o, const row_options *how) {
    err e = {0};
    erank_result r;
    o.cut = -1;
    OK(erank_run(g->m, g->ids, 1, g->T, how, &o, NULL, NULL, &r, &e));
    return r;
}

static double *reference(const golden *g, const char *stem, int layer, int64_t n) {
    err e = {0};
    npy a;
    char path[1200];
    snprintf(path, sizeof path, "%s/%s_l%d.npy", g->path, stem, layer);
    if (access(path, R_OK) != 0)
        return NULL;
    OK(npy_read(path, &a, &e));
    assert_int_equal(a.count, n);
    double *v = npy_as_f64(&a, &e);
    npy_free(&a);
    assert_non_null(v);
    return v;
}

// Largest relative error over all layers; *files counts those compared.
static double against(const golden *g, const erank_result *r, const char *stem, int *files) {
    double worst = 0;
    for (int l = 0; l < r->n_layers; l++) {
        int64_t n = r->n_heads * r->positions;
        double *want = reference(g, stem, r->layer[l], n);
        if (!want)
            continue;
        worst = fmax(worst, relative(erank_line(r, ERANK_RANK, 0, l, 0), want, n));
        (*files)++;
        free(want);
    }
    return worst;
}

static bool absent(void) {
    if (files_shared("golden"))
        return false;
    skip();
    return true;
}

static void ranks_equal_the_reference_dumps(void **unused) {
    (void)unused;
    if (absent())
        return;
    char pattern[1100];
    glob_t found;
    int files = 0, micro_files = 0;
    double worst[2] = {0}, worst_micro = 0;
    snprintf(pattern, sizeof pattern, "%s/*/erank_l0.npy", files_shared("golden"));
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *name = found.gl_pathv[i] + strlen(files_shared("golden")) + 1;
        name[strcspn(name, "/")] = 0;
        for (int p = 0; p < 2; p++) {
            golden g;
            if (!golden_open(&g, name, p ? PRECISION_F64 : PRECISION_F32))
                break;
            // A block that does not divide T, with positions on both of its sides.
            erank_result r = run_golden(&g, (erank_options){.block = 64}, NULL);
            worst[p] = fmax(worst[p], against(&g, &r, "erank", &files));
            erank_free(&r);
            if (p) {
                r = run_golden(&g, (erank_options){.micro = true, .block = 64}, NULL);
                worst_micro = fmax(worst_micro, against(&g, &r, "erank_micro", &micro_files));
                erank_free(&r);
            }
            golden_close(&g);
        }
    }
    globfree(&found);
    printf("measured effective rank against %d reference files: relative error f32 %.2g, f64 %.2g; "
           "micro-steps f64 (%d files) %.2g\n",
           files, worst[0], worst[1], micro_files, worst_micro);
    assert_true(files >= 2 * 30 && micro_files >= 6);
    // The suggestion that comes with the dumps; float32 as for losses.
    assert_true(worst[1] <= 1e-9 && worst_micro <= 1e-9);
    assert_true(worst[0] <= 3e-4);
}

static void before_a_step_is_after_the_one_before_it(void **unused) {
    (void)unused;
    golden g;
    if (absent() || !golden_open(&g, "gated-deltaproduct3", PRECISION_F64))
        return;
    for (int micro = 0; micro < 2; micro++) {
        erank_result after = run_golden(&g, (erank_options){.micro = micro}, NULL);
        erank_result before =
            run_golden(&g, (erank_options){.micro = micro, .before = true, .block = 37}, NULL);
        assert_int_equal(after.positions, g.T * (micro ? 3 : 1));
        assert_int_equal(before.positions, after.positions);
        double worst = 0;
        for (int l = 0; l < after.n_layers; l++)
            for (int h = 0; h < after.n_heads; h++)
                for (int q = 0; q < ERANK_QUANTITIES; q++) {
                    const double *a = erank_line(&after, q, 0, l, h);
                    const double *b = erank_line(&before, q, 0, l, h);
                    // S03: the first token starts from a zero state.
                    assert_true(q == ERANK_NORM || q == ERANK_NUCLEAR || q == ERANK_SPECTRAL
                                    ? b[0] == 0
                                    : isnan(b[0]));
                    // Condition numbers pass the rounding of other block sizes on, many times over.
                    if (q != ERANK_CONDITION)
                        worst = fmax(worst, relative(b + 1, a, after.positions - 1));
                }
        printf("measured before(p) against after(p - 1): %.2g\n", worst);
        assert_true(worst <= 1e-11);
        near(erank_tokens(&after, 0), micro ? 1.0 / 3 : 1, 1e-15);
        near(erank_tokens(&before, 0), 0, 0);
        erank_free(&after);
        erank_free(&before);
    }
    golden_close(&g);
}

static void first_state_of_a_delta_rule_has_rank_one(void **unused) {
    (void)unused;
    golden g;
    if (absent() || !golden_open(&g, "deltanet-neg", PRECISION_F64))
        return;
    erank_result r = run_golden(&g, (erank_options){0}, NULL);
    for (int l = 0; l < r.n_layers; l++)
        for (int h = 0; h < r.n_heads; h++) {
            near(erank_line(&r, ERANK_RANK, 0, l, h)[0], 1, 1e-13);
            near(erank_line(&r, ERANK_STABLE, 0, l, h)[0], 1, 1e-13);
            near(erank_line(&r, ERANK_ENERGY, 0, l, h)[0], 1, 1e-13);
        }
    erank_free(&r);
    golden_close(&g);
}

static void sampling_layers_and_heads_pick_from_the_full_result(void **unused) {
    (void)unused;
    golden g;
    if (absent() || !golden_open(&g, "deltaproduct2", PRECISION_F64))
        return;
    erank_result all = run_golden(&g, (erank_options){.block = 33}, NULL);
    erank_options o = {.every = 7,
                       .layers = (const int[]){1},
                       .n_layers = 1,
                       .heads = (const int[]){1},
                       .n_heads = 1,
                       .block = 33};
    erank_result some = run_golden(&g, o, NULL);
    assert_int_equal(some.positions, g.T / 7);
    assert_int_equal(some.n_layers, 1);
    assert_int_equal(some.layer[0], 1);
    assert_int_equal(some.n_heads, 1);
    double worst = 0;
    for (int64_t i = 0; i < some.positions; i++) {
        double want = erank_line(&all, ERANK_RANK, 0, 1, 1)[7 * i + 6];
        worst = fmax(worst, fabs(some.v[ERANK_RANK][i] - want));
        near(erank_tokens(&some, i), 7 * (double)i + 7, 0);
    }
    printf("measured every 7th token against every token: %.2g\n", worst);
    assert_true(worst <= 1e-12);
    erank_free(&some);
    erank_free(&all);
    golden_close(&g);
}

static void rows_start_from_a_zero_state_and_a_reset_starts_anew(void **unused) {
    (void)unused;
    err e = {0};
    golden g;
    if (absent() || !golden_open(&g, "gdn-v2-gate", PRECISION_F64))
        return;
    erank_result rows;
    erank_options o = {.cut = -1};
    OK(erank_run(g.m, g.ids, 2, 100, NULL, &o, NULL, NULL, &rows, &e));
    int64_t start = 100;
    row_options how = {.reset_id = -1, .starts = &start, .n_starts = 1};
    erank_result reset = run_golden(&g, (erank_options){.before = true}, &how);
    assert_int_equal(rows.positions, 100);
    assert_int_equal(reset.n_starts, 1);
    assert_int_equal(reset.starts[0], 100);
    assert_int_equal(reset.zero, 2 * reset.n_layers * reset.n_heads);
    for (int l = 0; l < rows.n_layers; l++)
        for (int h = 0; h < rows.n_heads; h++) {
            const double *b = erank_line(&reset, ERANK_RANK, 0, l, h);
            const double *second = erank_line(&rows, ERANK_RANK, 1, l, h);
            assert_true(isnan(b[100]));
            assert_false(isnan(b[99]));
            assert_true(relative(b + 101, second, 99) <= 1e-9);
        }
    erank_free(&rows);
    erank_free(&reset);
    golden_close(&g);
}

static void attention_layers_are_left_out_and_named(void **unused) {
    (void)unused;
    err e = {0};
    golden g;
    if (absent() || !golden_open(&g, "gdn-hybrid-swa", PRECISION_F32))
        return;
    erank_result r = run_golden(&g, (erank_options){.model = "hybrid", .document = "ids"}, NULL);
    assert_int_equal(r.n_layers, 1);
    assert_int_equal(r.layer[0], 0);
    assert_int_equal(r.n_left_out, 1);
    assert_int_equal(r.left_out[0], 1);
    const erank_result *list[] = {&r};
    figures f;
    OK(erank_figures(list, 1, &f, &e));
    bool named = false;
    for (size_t i = 0; i < f.v[0]->n_notes; i++)
        named |= strstr(f.v[0]->notes[i], "left out: layer 1.") != NULL;
    assert_true(named);
    figures_free(&f);
    erank_free(&r);
    golden_close(&g);
}

typedef struct watch {
    int64_t calls, last, total, stop_at;
} watch;

static bool on_progress(void *ctx, int64_t done, int64_t total) {
    watch *w = ctx;
    assert_true(done >= w->last && done <= total);
    w->last = done;
    w->total = total;
    return ++w->calls != w->stop_at;
}

static void progress_rises_to_the_total_and_a_stop_is_obeyed(void **unused) {
    (void)unused;
    err e = {0};
    golden g;
    if (absent() || !golden_open(&g, "deltanet-neg", PRECISION_F32))
        return;
    erank_result r;
    erank_options o = {.cut = -1, .block = 16};
    watch w = {0};
    OK(erank_run(g.m, g.ids, 2, 100, NULL, &o, on_progress, &w, &r, &e));
    assert_int_equal(w.last, 200);
    assert_int_equal(w.total, 200);
    erank_free(&r);
    w = (watch){.stop_at = 5};
    assert_false(erank_run(g.m, g.ids, 2, 100, NULL, &o, on_progress, &w, &r, &e));
    assert_int_equal(e.code, ERR_CANCELLED);
    assert_null(r.v[0]);
    golden_close(&g);
}

static void every_failed_allocation_is_an_error_and_leaves_nothing(void **unused) {
    (void)unused;
    golden g;
    if (absent() || !golden_open(&g, "deltanet-beta01", PRECISION_F32))
        return;
    erank_options o = {.cut = -1, .every = 5};
    bool done = false;
    long n = 1;
    for (; !done && n < 4000; n++) {
        err e = {0};
        erank_result r = {0};
        figures f = {0};
        mem_fail_after(n);
        done = erank_run(g.m, g.ids, 1, 20, NULL, &o, NULL, NULL, &r, &e);
        const erank_result *list[] = {&r};
        done = done && erank_figures(list, 1, &f, &e);
        mem_fail_after(0);
        assert_true(done || e.code == ERR_NOMEM);
        figures_free(&f);
        erank_free(&r);
        backend_check(g.be, &e);
    }
    printf("measured allocations of a small run with figures: %ld\n", n - 1);
    assert_true(done);
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(companion_numbers_of_a_diagonal_state),
        cmocka_unit_test(b81_a_zero_state_is_nan_and_zero_only_for_the_authors),
        cmocka_unit_test(b81_rank_one_is_one_and_scale_changes_nothing),
        cmocka_unit_test(authors_cut_depends_on_size_as_theirs_does),
        cmocka_unit_test(a_relative_cut_of_ones_own_is_used_and_told),
        cmocka_unit_test(a_state_with_nan_is_nan_and_counted),
        cmocka_unit_test(what_leaves_nothing_to_look_at_is_an_error),
        cmocka_unit_test(ranks_equal_the_reference_dumps),
        cmocka_unit_test(before_a_step_is_after_the_one_before_it),
        cmocka_unit_test(first_state_of_a_delta_rule_has_rank_one),
        cmocka_unit_test(sampling_layers_and_heads_pick_from_the_full_result),
        cmocka_unit_test(rows_start_from_a_zero_state_and_a_reset_starts_anew),
        cmocka_unit_test(attention_layers_are_left_out_and_named),
        cmocka_unit_test(progress_rises_to_the_total_and_a_stop_is_obeyed),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
