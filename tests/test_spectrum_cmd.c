// The spectrum analysis on whole models, against the reference dumps of the shared folder.
#include "analyses/spectrum.h"
#include "core/mem.h"
#include "core/npy.h"
#include "kernels/cpu/cpu.h"
#include "tests/eigen_match.h"
#include "tests/files.h"
#include "tests/run.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

// One reference case, opened in float64.
typedef struct golden {
    char folder[1024];
    backend *be;
    model *m;
    int32_t *ids;
    int64_t T;
} golden;

static npy load(const golden *g, const char *name) {
    char path[2048];
    err e = {0};
    npy a;
    snprintf(path, sizeof path, "%s/%s", g->folder, name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    return a;
}

static golden open_golden(const char *name, int threads) {
    golden g = {0};
    err e = {0};
    char in[256];
    snprintf(in, sizeof in, "golden/%s", name);
    const char *folder = files_shared(in);
    if (!folder)
        skip();
    snprintf(g.folder, sizeof g.folder, "%s", folder);
    g.be = cpu_open(PRECISION_F64, threads, &e);
    g.m = g.be ? model_open(g.folder, g.be, &e) : NULL;
    if (!g.m)
        fail_msg("%s", e.text);
    npy ids = load(&g, "input_ids.npy");
    g.ids = npy_as_i32(&ids, &e);
    g.T = ids.count;
    npy_free(&ids);
    assert_non_null(g.ids);
    return g;
}

static void close_golden(golden *g) {
    model_free(g->m);
    backend_close(g->be);
    free(g->ids);
}

static const int64_t some_windows[] = {1, 2, 4, 8, 16, 32, 64};

static spectrum_options plain(void) {
    return (spectrum_options){.windows = some_windows,
                              .n_windows = 7,
                              .samples = 8,
                              .lyapunov = 128,
                              .cond = true,
                              .keep_ledger = true};
}

static spectrum_result run_it(const golden *g, int64_t block, const spectrum_options *o) {
    spectrum_result r;
    err e = {0};
    if (!spectrum_run(g->m, g->ids, 1, g->T, block, NULL, o, NULL, NULL, &r, &e))
        fail_msg("%s: %s", g->folder, e.text);
    return r;
}

static int64_t *integers(const golden *g, const char *name, int64_t *n) {
    npy a = load(g, name);
    int32_t *v = npy_as_i32(&a, NULL);
    int64_t *out = malloc((size_t)a.count * sizeof *out);
    assert_non_null(out);
    for (int64_t i = 0; i < a.count; i++)
        out[i] = v[i];
    *n = a.count;
    free(v);
    npy_free(&a);
    return out;
}

static double *reals(const golden *g, const char *stem, int layer) {
    char name[64];
    snprintf(name, sizeof name, "%s_l%d.npy", stem, layer);
    npy a = load(g, name);
    double *v = npy_as_f64(&a, NULL);
    assert_non_null(v);
    npy_free(&a);
    return v;
}

// Worst eigenvalue of all windows of a case in units of 1e-15 norm2 cond, norm2 in relative terms.
static double against_dump(const golden *g, double *norm_error) {
    int64_t n_ends, n_windows;
    int64_t *ends = integers(g, "eig_ends.npy", &n_ends);
    int64_t *windows = integers(g, "eig_windows.npy", &n_windows);
    spectrum_options o = {
        .windows = windows, .n_windows = (int)n_windows, .ends = ends, .n_ends = n_ends};
    spectrum_result r = run_it(g, 64, &o);
    double worst = 0;
    for (int l = 0; l < r.n_layers; l++) {
        char name[64];
        const spectrum_layer *layer = &r.layer[l];
        int64_t K = layer->shape.K;
        snprintf(name, sizeof name, "eig_l%d.npy", layer->layer);
        npy want = load(g, name);
        double *cond = reals(g, "eig_cond", layer->layer), *norm2 = reals(g, "norm2", layer->layer);
        assert_int_equal(want.count, layer->n_heads * n_ends * n_windows * K);
        for (int h = 0; h < layer->n_heads; h++)
            for (int64_t k = 0; k < n_ends; k++)
                for (int64_t w = 0; w < n_windows; w++) {
                    int64_t theirs = (h * n_ends + k) * n_windows + w, ours = w * n_ends + k;
                    double unit[1024];
                    for (int64_t i = 0; i < K; i++)
                        unit[i] = 1e-15 * norm2[theirs] * cond[theirs * K + i];
                    double q =
                        eigen_match(layer->head[h].eig + ours * K,
                                    (const double complex *)want.data + theirs * K, unit, (int)K);
                    worst = fmax(worst, q);
                    *norm_error = fmax(*norm_error,
                                       fabs(layer->head[h].facts[ours].norm2 / norm2[theirs] - 1));
                }
        free(cond);
        free(norm2);
        npy_free(&want);
    }
    spectrum_result_free(&r);
    free(ends);
    free(windows);
    return worst;
}

TEST(windows_agree_with_the_reference_of_every_delta_case) {
    static const char *const cases[] = {"deltanet-beta01",
                                        "deltanet-neg",
                                        "deltanet-gate-noconv",
                                        "deltanet-sum-elu",
                                        "gdn-v2-gate",
                                        "gdn-gva-neg",
                                        "gdn-nogate-untied",
                                        "deltaproduct2",
                                        "kda",
                                        "kda-gva-bounded",
                                        "gated-deltaproduct3",
                                        "deltaproduct1-gated",
                                        "comba",
                                        "comba-flags-off",
                                        "deltaproduct2-odd-dims",
                                        "gdn-hybrid-swa",
                                        "gdn-odd-dims"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g = open_golden(cases[i], 0);
        double norm = 0, worst = against_dump(&g, &norm);
        printf("measured %s: eigenvalues %.2g x 1e-15 norm2 cond, norm2 %.1e\n", cases[i], worst,
               norm);
        // The reference's own error is about 1 unit; a second forward pass, whose gates and keys
        // differ in the last places, and 64 factors a product come on top.
        assert_true(worst <= 20);
        assert_true(norm <= 1e-9);
        close_golden(&g);
    }
}

static spectrum_summary summary(const spectrum_result *r) {
    spectrum_summary s;
    err e = {0};
    if (!spectrum_summarise(r, -1, -1, &s, &e))
        fail_msg("%s", e.text);
    return s;
}

static void spectrum_of(const char *name, spectrum_result *r, spectrum_summary *s) {
    golden g = open_golden(name, 0);
    spectrum_options o = plain();
    *r = run_it(&g, 64, &o);
    *s = summary(r);
    close_golden(&g);
}

TEST(g01_a_token_of_deltanet_has_one_real_eigenvalue) {
    spectrum_result r;
    spectrum_summary s;
    spectrum_of("deltanet-neg", &r, &s);
    assert_true(s.complex_share == 0);
    for (int l = 0; l < r.n_layers; l++)
        for (int h = 0; h < r.layer[l].n_heads; h++) {
            const spectrum_tokens *t = &r.layer[l].head[h].tokens;
            assert_int_equal(t->tokens, 200);
            assert_int_equal(t->values, 200);
            for (int64_t i = 0; i < t->n_kept; i++)
                assert_true(cimag(t->kept[i]) == 0);
        }
    spectrum_result_free(&r);
}

TEST(g03_tokens_of_deltaproduct_rotate) {
    spectrum_result r;
    spectrum_summary s;
    spectrum_of("deltaproduct2", &r, &s);
    printf("measured deltaproduct2: %.3g %% of tokens rotate\n", 100 * s.complex_share);
    assert_true(s.complex_share > 0 && s.complex_share < 1);
    int64_t pairs = 0, angles = 0;
    for (int l = 0; l < r.n_layers; l++)
        for (int h = 0; h < r.layer[l].n_heads; h++) {
            pairs += r.layer[l].head[h].tokens.complex_tokens;
            assert_int_equal(r.layer[l].head[h].tokens.values, 400);
            for (int b = 0; b < SPECTRUM_BINS; b++)
                angles += r.layer[l].head[h].tokens.angle[b];
        }
    assert_int_equal(pairs, angles); // n_h = 2: at most one pair a token
    spectrum_result_free(&r);
}

TEST(b22_allow_neg_eigval_shows_values_below_zero_and_without_it_there_are_none) {
    spectrum_result r;
    spectrum_summary s;
    spectrum_of("deltanet-neg", &r, &s);
    printf("measured deltanet-neg: %.3g %% of eigenvalues below 0\n", 100 * s.negative_share);
    assert_true(s.negative_share > 0.01);
    assert_true(r.layer[0].head[0].tokens.least_real < -0.1);
    spectrum_result_free(&r);
    spectrum_of("deltanet-beta01", &r, &s);
    assert_true(s.negative_share == 0);
    spectrum_result_free(&r);
}

TEST(g08_goldens_are_contractions_and_raise_no_flag) {
    static const char *const cases[] = {"deltanet-neg", "deltaproduct2", "gdn-gva-neg", "kda"};
    for (int i = 0; i < 4; i++) {
        spectrum_result r;
        spectrum_summary s;
        spectrum_of(cases[i], &r, &s);
        assert_int_equal(s.strong, 0);
        assert_int_equal(s.over_norm, 0);
        assert_true(s.largest_norm <= 1 + 1e-12 && s.strongest <= 2);
        spectrum_result_free(&r);
    }
}

TEST(g12_ledger_is_the_log_of_the_product_of_eigenvalues) {
    static const char *const cases[] = {"deltanet-neg", "deltaproduct2", "gated-deltaproduct3",
                                        "kda", "comba"};
    for (int c = 0; c < 5; c++) {
        spectrum_result r;
        spectrum_summary s;
        double worst = 0;
        spectrum_of(cases[c], &r, &s);
        for (int l = 0; l < r.n_layers; l++)
            for (int h = 0; h < r.layer[l].n_heads; h++) {
                const spectrum_head *x = &r.layer[l].head[h];
                int64_t K = r.layer[l].shape.K;
                for (int w = 0; w < r.n_windows; w++)
                    for (int64_t k = 0; k < r.samples; k++) {
                        int64_t at = w * r.samples + k;
                        if (isnan(x->facts[at].norm2))
                            continue;
                        double sum = 0, tolerance = 0, ledger = 0;
                        for (int64_t i = 0; i < K; i++) {
                            double m = cabs(x->eig[at * K + i]);
                            sum += log(m);
                            // What an error of 1e-14 norm2 cond does to ln m.
                            tolerance += 1e-14 * x->facts[at].norm2 * x->cond[at * K + i] / m;
                        }
                        if (tolerance > 0.01)
                            continue;
                        for (int64_t t = 0; t < r.windows[w]; t++)
                            ledger += x->ledger[r.ends[k] - t];
                        worst = fmax(worst, fabs(sum - ledger) / (tolerance + 1e-12));
                    }
            }
        printf("measured G12 %s: %.2g of the tolerance\n", cases[c], worst);
        assert_true(worst > 0 && worst <= 1);
        spectrum_result_free(&r);
    }
}

TEST(g17_exponents_sum_to_the_ledger) {
    static const char *const cases[] = {"deltanet-neg", "gated-deltaproduct3", "kda", "comba"};
    for (int c = 0; c < 4; c++) {
        spectrum_result r;
        spectrum_summary s;
        double worst = 0;
        spectrum_of(cases[c], &r, &s);
        for (int l = 0; l < r.n_layers; l++)
            for (int h = 0; h < r.layer[l].n_heads; h++) {
                const spectrum_head *x = &r.layer[l].head[h];
                double sum = 0, ledger = 0;
                for (int i = 0; i < r.layer[l].shape.K; i++)
                    sum += x->lyapunov[i];
                for (int64_t t = r.T - r.lyapunov_tokens; t < r.T; t++)
                    ledger += x->ledger[t];
                worst = fmax(worst, fabs(sum * (double)r.lyapunov_tokens / ledger - 1));
            }
        printf("measured G17 %s: relative %.1e\n", cases[c], worst);
        assert_true(worst < 1e-10); // 128 tokens, a QR at least every 64 factors
        spectrum_result_free(&r);
    }
}

TEST(results_do_not_depend_on_the_block) {
    static const char *const cases[] = {"gated-deltaproduct3", "deltanet-neg", "kda"};
    static const int64_t blocks[] = {7, 64, 200};
    for (int c = 0; c < 3; c++) {
        golden g = open_golden(cases[c], 0);
        spectrum_options o = plain();
        spectrum_result r[3];
        double eig = 0, ledger = 0, exponents = 0;
        for (int i = 0; i < 3; i++)
            r[i] = run_it(&g, blocks[i], &o);
        for (int i = 1; i < 3; i++)
            for (int l = 0; l < r[0].n_layers; l++)
                for (int h = 0; h < r[0].layer[l].n_heads; h++) {
                    const spectrum_head *a = &r[0].layer[l].head[h], *b = &r[i].layer[l].head[h];
                    int64_t K = r[0].layer[l].shape.K;
                    for (int64_t p = 0; p < r[0].n_windows * r[0].samples; p++) {
                        assert_int_equal(isnan(a->facts[p].norm2), isnan(b->facts[p].norm2));
                        if (isnan(a->facts[p].norm2))
                            continue;
                        double unit[1024];
                        for (int64_t k = 0; k < K; k++)
                            unit[k] = 1e-15 * a->facts[p].norm2 * a->cond[p * K + k];
                        eig = fmax(eig, eigen_match(b->eig + p * K, a->eig + p * K, unit, (int)K));
                    }
                    for (int64_t t = 0; t < r[0].T; t++)
                        ledger = fmax(ledger, fabs(a->ledger[t] - b->ledger[t]) /
                                                  fmax(1, fabs(a->ledger[t])));
                    for (int64_t k = 0; k < K; k++)
                        exponents = fmax(exponents, fabs(a->lyapunov[k] - b->lyapunov[k]));
                    assert_int_equal(a->tokens.tokens, b->tokens.tokens);
                    assert_int_equal(a->tokens.complex_tokens, b->tokens.complex_tokens);
                    assert_int_equal(a->tokens.n_kept, b->tokens.n_kept);
                }
        printf("measured %s, blocks 7, 64, 200: eigenvalues %.2g x 1e-15 norm2 cond, ledger %.1e, "
               "exponents %.1e\n",
               cases[c], eig, ledger, exponents);
        // The forward passes may sum in another order; the spectra follow within their errors.
        assert_true(eig <= 20 && ledger < 1e-11 && exponents < 1e-10);
        for (int i = 0; i < 3; i++)
            spectrum_result_free(&r[i]);
        close_golden(&g);
    }
}

static spectrum_span window(const spectrum_result *r, int w) {
    spectrum_span s;
    err e = {0};
    if (!spectrum_window_summary(r, -1, -1, w, &s, &e))
        fail_msg("%s", e.text);
    return s;
}

TEST(g11_half_lives_of_an_ungated_model_need_windows_that_reach_every_direction) {
    spectrum_result r;
    spectrum_summary s;
    spectrum_of("deltanet-neg", &r, &s); // K = 32, n_h = 1
    for (int w = 0; w < r.n_windows; w++) {
        spectrum_span x = window(&r, w);
        assert_int_equal(x.frozen, r.windows[w] < 32 ? 32 - r.windows[w] : 0);
        assert_int_equal(isnan(x.half_life[1]), r.windows[w] < 32);
        if (r.windows[w] < 32)
            assert_true(x.radius[0] == 1 && x.radius[2] == 1);
    }
    assert_true(s.half_life > 0 && s.half_life_window == 64);
    spectrum_result_free(&r);
    spectrum_of("gdn-v2-gate", &r, &s); // frozen modes decay with the gate
    for (int w = 0; w < r.n_windows; w++)
        assert_false(isnan(window(&r, w).half_life[1]));
    spectrum_result_free(&r);
}

TEST(single_steps_of_kda_are_real) {
    static const char *const cases[] = {"kda", "kda-gva-bounded"};
    for (int c = 0; c < 2; c++) {
        spectrum_result r;
        spectrum_summary s;
        double worst = 0;
        spectrum_of(cases[c], &r, &s);
        assert_true(s.complex_share == 0);
        // beta below 1: positive semidefinite up to similarity; the second case has beta up to 2.
        assert_int_equal(s.negative_share > 0, c == 1);
        for (int l = 0; l < r.n_layers; l++)
            for (int h = 0; h < r.layer[l].n_heads; h++) {
                const spectrum_head *x = &r.layer[l].head[h];
                int64_t K = r.layer[l].shape.K;
                assert_int_equal(x->tokens.values, x->tokens.tokens * K);
                for (int64_t k = 0; k < r.samples; k++)
                    for (int64_t i = 0; i < K; i++)
                        worst = fmax(worst, fabs(cimag(x->eig[k * K + i])) /
                                                (1e-15 * x->facts[k].norm2 * x->cond[k * K + i]));
            }
        printf("measured %s: largest imaginary part %.2g x 1e-15 norm2 cond\n", cases[c], worst);
        assert_true(worst <= 20);
        spectrum_result_free(&r);
    }
}

TEST(attention_layers_of_a_hybrid_are_left_out) {
    golden g = open_golden("gdn-hybrid-swa", 0);
    spectrum_options o = plain();
    spectrum_result r = run_it(&g, 64, &o);
    assert_int_equal(r.n_layers, 1);
    assert_int_equal(r.layer[0].layer, 0);
    spectrum_result_free(&r);
    err e = {0};
    const int64_t one[] = {1}, nine[] = {9};
    o.layers = one;
    o.n_layers = 1;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, NULL, NULL, &r, &e));
    files_assert_error(&e, ERR_USAGE,
                       "none of the chosen layers has a matrix as its recurrent state: spectra of "
                       "transitions do not apply");
    err_clear(&e);
    o.layers = nine;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, NULL, NULL, &r, &e));
    files_assert_error(&e, ERR_USAGE, "there is no layer 9 (0 to 1)");
    err_clear(&e);
    o.n_layers = 0;
    o.heads = nine;
    o.n_heads = 1;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, NULL, NULL, &r, &e));
    files_assert_error_holds(&e, ERR_USAGE, "there is no head 9 in layer 0");
    close_golden(&g);
}

TEST(chosen_heads_equal_those_of_a_full_run) {
    golden g = open_golden("gdn-gva-neg", 0);
    spectrum_options o = plain();
    spectrum_result all = run_it(&g, 64, &o);
    const int64_t layer[] = {1}, heads[] = {1, 3};
    o.layers = layer;
    o.n_layers = 1;
    o.heads = heads;
    o.n_heads = 2;
    spectrum_result some = run_it(&g, 64, &o);
    assert_int_equal(some.n_layers, 1);
    assert_int_equal(some.layer[0].n_heads, 2);
    for (int h = 0; h < 2; h++) {
        const spectrum_head *a = &all.layer[1].head[heads[h]], *b = &some.layer[0].head[h];
        assert_int_equal(b->head, heads[h]);
        assert_memory_equal(a->ledger, b->ledger, (size_t)g.T * sizeof *a->ledger);
        int64_t K = all.layer[1].shape.K, products = all.n_windows * all.samples;
        assert_memory_equal(a->eig, b->eig, (size_t)(products * K) * sizeof *a->eig);
    }
    spectrum_result_free(&all);
    spectrum_result_free(&some);
    close_golden(&g);
}

TEST(windows_do_not_begin_before_the_row_or_reach_over_an_emptied_state) {
    golden g = open_golden("deltaproduct2", 0);
    const int64_t ends[] = {3, 4, 99, 100, 103, 104}, starts[] = {100}, W[] = {5, 300};
    spectrum_options o = {.windows = W, .n_windows = 2, .ends = ends, .n_ends = 6, .lyapunov = 500};
    row_options row = {.reset_id = -1, .starts = starts, .n_starts = 1};
    spectrum_result r;
    err e = {0};
    assert_true(spectrum_run(g.m, g.ids, 1, g.T, 7, &row, &o, NULL, NULL, &r, &e));
    static const bool there[] = {false, true, true, false, false, true};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(!isnan(r.layer[0].head[0].facts[i].norm2), there[i]);
        assert_int_equal(!isnan(creal(r.layer[0].head[0].eig[i * r.K])), there[i]);
        assert_true(isnan(r.layer[0].head[0].facts[6 + i].norm2)); // longer than the row
    }
    for (int i = 0; i < r.K; i++)
        assert_false(isnan(r.layer[0].head[0].lyapunov[i])); // over what lies behind the reset
    spectrum_result_free(&r);
    close_golden(&g);
}

TEST(a_second_row_is_read_as_if_it_were_alone) {
    golden g = open_golden("gated-deltaproduct3", 0);
    spectrum_options o = plain();
    spectrum_result both, alone;
    err e = {0};
    assert_true(spectrum_run(g.m, g.ids, 2, 100, 64, NULL, &o, NULL, NULL, &both, &e));
    assert_true(spectrum_run(g.m, g.ids + 100, 1, 100, 64, NULL, &o, NULL, NULL, &alone, &e));
    assert_int_equal(both.samples, 2 * alone.samples);
    const spectrum_head *a = &both.layer[1].head[1], *b = &alone.layer[1].head[1];
    for (int64_t k = 0; k < alone.samples; k++) {
        assert_int_equal(both.end_row[alone.samples + k], 1);
        assert_int_equal(both.ends[alone.samples + k], alone.ends[k]);
        for (int w = 0; w < both.n_windows; w++) {
            double x = a->facts[w * both.samples + alone.samples + k].norm2,
                   y = b->facts[w * alone.samples + k].norm2;
            assert_true((isnan(x) && isnan(y)) || x == y);
        }
    }
    assert_memory_equal(a->ledger + 100, b->ledger, 100 * sizeof *b->ledger);
    assert_memory_equal(a->lyapunov, b->lyapunov, (size_t)alone.K * sizeof *b->lyapunov);
    spectrum_result_free(&both);
    spectrum_result_free(&alone);
    close_golden(&g);
}

TEST(the_number_of_threads_changes_nothing) {
    spectrum_result r[2];
    for (int i = 0; i < 2; i++) {
        golden g = open_golden("deltaproduct2", i + 1);
        spectrum_options o = plain();
        r[i] = run_it(&g, 64, &o);
        close_golden(&g);
    }
    for (int l = 0; l < r[0].n_layers; l++)
        for (int h = 0; h < r[0].layer[l].n_heads; h++) {
            const spectrum_head *a = &r[0].layer[l].head[h], *b = &r[1].layer[l].head[h];
            size_t n = (size_t)(r[0].n_windows * r[0].samples * r[0].K);
            assert_memory_equal(a->eig, b->eig, n * sizeof *a->eig);
            assert_memory_equal(a->tokens.modulus, b->tokens.modulus,
                                3 * SPECTRUM_BINS * sizeof *a->tokens.modulus);
        }
    spectrum_result_free(&r[0]);
    spectrum_result_free(&r[1]);
}

TEST(every_failing_allocation_is_an_error_that_leaves_nothing) {
    golden g = open_golden("deltaproduct2", 1);
    const int64_t W[] = {1, 8};
    spectrum_options o = {.windows = W,
                          .n_windows = 2,
                          .samples = 2,
                          .lyapunov = 8,
                          .cond = true,
                          .keep_ledger = true};
    long n = 1;
    for (;; n += n < 80 ? 1 : 7) {
        spectrum_result r;
        figures f = {0};
        err e = {0};
        mem_fail_after(n);
        bool ok = spectrum_run(g.m, g.ids, 1, 12, 5, NULL, &o, NULL, NULL, &r, &e);
        if (ok) {
            spectrum_item item = {"m", "d", &r};
            ok = spectrum_figures(&item, 1, &f, &e);
        }
        mem_fail_after(0);
        spectrum_result_free(&r);
        figures_free(&f);
        if (ok)
            break;
        assert_int_equal(e.code, ERR_NOMEM);
    }
    assert_true(n > 100);
    close_golden(&g);
}

static bool stop(void *ctx, int64_t done, int64_t total) {
    (void)done, (void)total;
    return ++*(int *)ctx < 3;
}

TEST(a_stopped_run_is_cancelled) {
    golden g = open_golden("deltaproduct2", 0);
    spectrum_options o = plain();
    spectrum_result r;
    err e = {0};
    int calls = 0;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 20, NULL, &o, stop, &calls, &r, &e));
    assert_int_equal(e.code, ERR_CANCELLED);
    assert_null(r.layer);
    close_golden(&g);
}

TEST(the_command_writes_eigenvalues_that_match_its_json) {
    golden g = open_golden("deltaproduct2", 0);
    if (access(run_program_path(), X_OK) != 0) {
        printf("SKIP: %s is not built\n", run_program_path());
        close_golden(&g);
        skip();
    }
    char ids[2048], out[512];
    snprintf(ids, sizeof ids, "%s/input_ids.npy", g.folder);
    snprintf(out, sizeof out, "%s", files_path("spectrum-out"));
    const char *argv[] = {"spectrum",  g.folder, ids,           "--windows", "1,16",
                          "--samples", "4",      "--heads",     "1",         "--out",
                          out,         "--json", "--precision", "f64",       NULL};
    run r = {.argv = argv, .timeout = 60};
    assert_true(run_program(&r));
    if (r.code != 0)
        fail_msg("exit %d: %s", r.code, r.err);
    json_t *v = json_loads(r.out, 0, NULL), *one = json_array_get(json_object_get(v, "results"), 0);
    assert_non_null(one);
    assert_int_equal(json_array_size(json_object_get(one, "ends")), 4);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(one, "ends"), 3)), g.T - 1);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(one, "windows"), 1)), 16);
    assert_int_equal(json_array_size(json_object_get(one, "by_head")), 2);
    char path[1024];
    npy a;
    err e = {0};
    snprintf(path, sizeof path, "%s/eig.npy", out);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    assert_int_equal(a.type, NPY_C16);
    assert_int_equal(a.rank, 5);
    const int64_t dims[] = {2, 1, 2, 4, a.dims[4]};
    assert_memory_equal(a.dims, dims, sizeof dims);
    spectrum_options o = {.windows = (int64_t[]){1, 16}, .n_windows = 2, .samples = 4};
    spectrum_result want = run_it(&g, 512, &o);
    assert_memory_equal(a.data, want.layer[0].head[1].eig,
                        (size_t)(8 * a.dims[4]) * sizeof(double complex));
    spectrum_result_free(&want);
    npy_free(&a);
    json_decref(v);
    run_free(&r);
    close_golden(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_agree_with_the_reference_of_every_delta_case),
        cmocka_unit_test(g01_a_token_of_deltanet_has_one_real_eigenvalue),
        cmocka_unit_test(g03_tokens_of_deltaproduct_rotate),
        cmocka_unit_test(
            b22_allow_neg_eigval_shows_values_below_zero_and_without_it_there_are_none),
        cmocka_unit_test(g08_goldens_are_contractions_and_raise_no_flag),
        cmocka_unit_test(g12_ledger_is_the_log_of_the_product_of_eigenvalues),
        cmocka_unit_test(g17_exponents_sum_to_the_ledger),
        cmocka_unit_test(results_do_not_depend_on_the_block),
        cmocka_unit_test(
            g11_half_lives_of_an_ungated_model_need_windows_that_reach_every_direction),
        cmocka_unit_test(single_steps_of_kda_are_real),
        cmocka_unit_test(attention_layers_of_a_hybrid_are_left_out),
        cmocka_unit_test(chosen_heads_equal_those_of_a_full_run),
        cmocka_unit_test(windows_do_not_begin_before_the_row_or_reach_over_an_emptied_state),
        cmocka_unit_test(a_second_row_is_read_as_if_it_were_alone),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(every_failing_allocation_is_an_error_that_leaves_nothing),
        cmocka_unit_test(a_stopped_run_is_cancelled),
        cmocka_unit_test(the_command_writes_eigenvalues_that_match_its_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
