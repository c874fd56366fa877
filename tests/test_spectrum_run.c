// How a spectrum run behaves: what is chosen, refused, left out, told on the way and written; blocks,
// threads and rows change nothing.
#include "core/mem.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/spectrum_golden.h"

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

TEST(attention_layers_of_a_hybrid_are_left_out) {
    golden g = golden_open("gdn-hybrid-swa", 0);
    spectrum_options o = golden_options();
    spectrum_result r = golden_spectrum(&g, 64, &o);
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
    files_assert_error(&e, ERR_USAGE, "option --layers: there is no layer 9 (0 to 1)");
    err_clear(&e);
    o.n_layers = 0;
    o.heads = nine;
    o.n_heads = 1;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, NULL, NULL, &r, &e));
    files_assert_error_holds(&e, ERR_USAGE, "option --heads: there is no head 9 in layer 0");
    golden_close(&g);
}

// RWKV-4 keeps a vector: not a mistake of the command line, and both commands say so alike.
TEST(a_model_without_a_matrix_as_state_is_refused_by_name_with_code_1) {
    const char *folder = files_shared("golden/hf-rwkv4");
    if (!folder)
        skip();
    char model[1024], ids[1100];
    snprintf(model, sizeof model, "%s", folder);
    snprintf(ids, sizeof ids, "%s/input_ids.npy", model);
    const char *commands[] = {"erank", "spectrum"};
    for (int i = 0; i < 2; i++) {
        run r = {.argv = (const char *const[]){commands[i], model, ids, NULL}};
        assert_true(run_program(&r));
        assert_int_equal(r.code, 1);
        assert_non_null(strstr(r.err, "hf-rwkv4: no layer of this model has a matrix as its"));
        run_free(&r);
    }
}

TEST(more_eigenvalues_than_memory_holds_are_refused_before_anything_is_allocated) {
    golden g = golden_open("deltaproduct2", 1);
    static int64_t many[65536];
    for (int i = 0; i < 65536; i++)
        many[i] = i + 1;
    spectrum_options o = {.windows = many, .n_windows = 1024, .ends = many, .n_ends = 65536};
    spectrum_result r;
    err e = {0};
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, NULL, NULL, &r, &e));
    files_assert_error_holds(
        &e, ERR_USAGE, "1024 windows (--windows) at 65536 places (--samples, --ends, --rows)");
    files_assert_error_holds(&e, ERR_USAGE, "at most 268435456 are kept");
    err_clear(&e);
    o.n_windows = 1;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, NULL, NULL, &r, &e));
    files_assert_error_holds(&e, ERR_USAGE, "option --ends: a window cannot end at token 200");
    golden_close(&g);
}

TEST(chosen_heads_equal_those_of_a_full_run) {
    golden g = golden_open("gdn-gva-neg", 0);
    spectrum_options o = golden_options();
    spectrum_result all = golden_spectrum(&g, 64, &o);
    const int64_t layer[] = {1}, heads[] = {1, 3};
    o.layers = layer;
    o.n_layers = 1;
    o.heads = heads;
    o.n_heads = 2;
    spectrum_result some = golden_spectrum(&g, 64, &o);
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
    golden_close(&g);
}

TEST(windows_do_not_begin_before_the_row_or_reach_over_an_emptied_state) {
    golden g = golden_open("deltaproduct2", 0);
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
    golden_close(&g);
}

TEST(a_second_row_is_read_as_if_it_were_alone) {
    golden g = golden_open("gated-deltaproduct3", 0);
    spectrum_options o = golden_options();
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
    golden_close(&g);
}

TEST(the_number_of_threads_changes_nothing) {
    spectrum_result r[2];
    for (int i = 0; i < 2; i++) {
        golden g = golden_open("deltaproduct2", i + 1);
        spectrum_options o = golden_options();
        r[i] = golden_spectrum(&g, 64, &o);
        golden_close(&g);
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
    golden g = golden_open("deltaproduct2", 1);
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
    golden_close(&g);
}

static bool stop(void *ctx, int64_t done, int64_t total) {
    (void)done, (void)total;
    return ++*(int *)ctx < 3;
}

typedef struct watched {
    int phases;
    char unit[2][16];
    int64_t done[2], total[2], calls[2];
    bool fell;
} watched;

static void note_phase(void *ctx, const char *unit) {
    watched *w = ctx;
    assert_true(w->phases < 2);
    snprintf(w->unit[w->phases++], sizeof w->unit[0], "%s", unit);
}

static bool note_progress(void *ctx, int64_t done, int64_t total) {
    watched *w = ctx;
    int i = w->phases - 1;
    w->fell |= done < w->done[i] || (w->total[i] && total != w->total[i]);
    w->done[i] = done;
    w->total[i] = total;
    w->calls[i]++;
    return true;
}

// A bar that counts tokens alone stands still while the last block's windows are worked on.
TEST(windows_and_exponents_of_the_last_block_are_a_phase_of_progress) {
    golden g = golden_open("deltaproduct2", 2);
    spectrum_options o = golden_options();
    spectrum_result r;
    err e = {0};
    watched w = {0};
    o.phase = note_phase;
    assert_true(spectrum_run(g.m, g.ids, 1, g.T, 64, NULL, &o, note_progress, &w, &r, &e));
    assert_int_equal(w.phases, 2);
    assert_string_equal(w.unit[0], "tokens");
    assert_string_equal(w.unit[1], "pieces");
    assert_false(w.fell);
    // Blocks of 64, 64, 64 and 8 tokens of a row of 200.
    assert_int_equal(w.total[0], 200);
    assert_true(w.done[0] >= 192 && w.done[0] <= 200);
    // Of the windows only those of the last sample, which is long enough behind for all seven.
    int64_t heads = r.n_layers * r.layer[0].n_heads;
    assert_int_equal(w.total[1], heads * (1 + 7 + 1));
    assert_int_equal(w.done[1], w.total[1]);
    assert_int_equal(w.calls[1], w.total[1]);
    spectrum_result_free(&r);
    golden_close(&g);
}

TEST(a_stopped_run_is_cancelled) {
    golden g = golden_open("deltaproduct2", 0);
    spectrum_options o = golden_options();
    spectrum_result r;
    err e = {0};
    int calls = 0;
    assert_false(spectrum_run(g.m, g.ids, 1, g.T, 20, NULL, &o, stop, &calls, &r, &e));
    assert_int_equal(e.code, ERR_CANCELLED);
    assert_null(r.layer);
    golden_close(&g);
}

TEST(the_command_writes_eigenvalues_that_match_its_json) {
    golden g = golden_open("deltaproduct2", 0);
    if (access(run_program_path(), X_OK) != 0) {
        printf("SKIP: %s is not built\n", run_program_path());
        golden_close(&g);
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
    spectrum_result want = golden_spectrum(&g, 512, &o);
    assert_memory_equal(a.data, want.layer[0].head[1].eig,
                        (size_t)(8 * a.dims[4]) * sizeof(double complex));
    spectrum_result_free(&want);
    npy_free(&a);
    json_decref(v);
    run_free(&r);
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_layers_of_a_hybrid_are_left_out),
        cmocka_unit_test(a_model_without_a_matrix_as_state_is_refused_by_name_with_code_1),
        cmocka_unit_test(
            more_eigenvalues_than_memory_holds_are_refused_before_anything_is_allocated),
        cmocka_unit_test(chosen_heads_equal_those_of_a_full_run),
        cmocka_unit_test(windows_do_not_begin_before_the_row_or_reach_over_an_emptied_state),
        cmocka_unit_test(a_second_row_is_read_as_if_it_were_alone),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(every_failing_allocation_is_an_error_that_leaves_nothing),
        cmocka_unit_test(windows_and_exponents_of_the_last_block_are_a_phase_of_progress),
        cmocka_unit_test(a_stopped_run_is_cancelled),
        cmocka_unit_test(the_command_writes_eigenvalues_that_match_its_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
