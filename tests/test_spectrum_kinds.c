// Spectra of whole models whose transitions are no delta rule: what is exact for diagonal kinds, and
// what is no fault for pairs (science G15). References are dumps (golden/README.md).
#include "analyses/spectrum.h"
#include "kernels/cpu/cpu.h"
#include "tests/dumps.h"
#include "tests/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t windows[] = {1, 8, 64}, ends[] = {63, 64, 127, 128, 199};
enum { WINDOWS = 3, ENDS = 5 };

static spectrum_result spectra(const dump *d, precision p) {
    err e = {0};
    spectrum_result r;
    spectrum_options o = {.windows = windows,
                          .n_windows = WINDOWS,
                          .samples = ENDS,
                          .ends = ends,
                          .n_ends = ENDS,
                          .lyapunov = DUMP_T,
                          .keep_ledger = true};
    backend *be = cpu_open(p, 1, &e);
    model *m = model_open(d->folder, be, &e);
    if (!m || !spectrum_run(m, d->ids, 1, DUMP_T, 64, NULL, &o, NULL, NULL, &r, &e))
        fail_msg("%s", e.text);
    model_free(m);
    backend_close(be);
    return r;
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Logs of the eigenvalues of every window are the reference's summed log decays.
static double off_the_logs(const spectrum_result *r, int layer, const double *want, int width) {
    const spectrum_layer *l = &r->layer[layer];
    int K = l->shape.K;
    double worst = 0, sums[64];
    for (int h = 0; h < l->n_heads; h++)
        for (int end = 0; end < ENDS; end++)
            for (int w = 0; w < WINDOWS; w++) {
                int64_t at = w * r->samples + end;
                const double *ref = want + ((h * ENDS + end) * WINDOWS + w) * width;
                for (int i = 0; i < K; i++)
                    sums[i] = ref[width == 1 ? 0 : i];
                qsort(sums, (size_t)K, sizeof *sums, descending);
                for (int i = 0; i < K; i++) {
                    double complex z = l->head[h].eig[at * K + i];
                    double got = log(creal(z)) + l->head[h].facts[at].log_scale;
                    assert_true(cimag(z) == 0);
                    worst = fmax(worst, fabs(got - sums[i]) / fmax(1, fabs(sums[i])));
                }
            }
    return worst;
}

static void eigenvalues_of_diagonal_kinds_are_the_exponentials_of_summed_decays(void **state) {
    (void)state;
    static const char *const names[] = {"gla-ek05", "gla", "hgrn2", "hgrn2-conv", "retnet", NULL};
    dump d;
    for (int i = 0; dump_next(names, &i, &d);) {
        spectrum_result r = spectra(&d, PRECISION_F64);
        for (int L = 0; L < r.n_layers; L++) {
            char name[64];
            snprintf(name, sizeof name, "logdecay_l%d.npy", L);
            double *want = dump_numbers(d.folder, name);
            const head_shape *s = &r.layer[L].shape;
            double off = off_the_logs(&r, L, want, s->decay == DECAY_HEAD ? 1 : s->K);
            print_message("measured %s layer %d: logs of eigenvalues off by %.1e\n", d.folder, L,
                          off);
            assert_true(off <= 1e-12); // sums of 64 logs, in another order
            assert_non_null(strstr(spectrum_kind_note(s), "exact"));
            free(want);
        }
        // Small modes are as exact as large ones: none is lost in rounding.
        for (int w = 0; w < WINDOWS; w++) {
            spectrum_span span;
            err e = {0};
            assert_true(spectrum_window_summary(&r, -1, -1, w, &span, &e));
            assert_true(span.lost == 0 && span.complex_share == 0);
        }
        spectrum_result_free(&r);
        dump_free(&d);
    }
}

static void plain_linear_attention_never_forgets(void **state) {
    (void)state;
    dump d = dump_shared("linear_attn");
    spectrum_result r = spectra(&d, PRECISION_F32);
    spectrum_summary s;
    err e = {0};
    assert_true(spectrum_summarise(&r, -1, -1, &s, &e));
    assert_true(s.largest_norm == 1 && s.rate == 0 && isinf(s.half_life));
    assert_true(s.largest_exponent == 0 && s.smallest_exponent == 0);
    assert_non_null(strstr(spectrum_kind_note(&r.layer[0].shape), "identity"));
    spectrum_result_free(&r);
    dump_free(&d);
}

// G15, G16: single tokens are real, products turn and may be longer than 1; none of it is flagged.
static void norms_above_one_of_rwkv7_are_no_fault(void **state) {
    (void)state;
    dump d = dump_open(KEPT "rwkv7-smallkey");
    for (int p = 0; p < 2; p++) {
        spectrum_result r = spectra(&d, p ? PRECISION_F64 : PRECISION_F32);
        spectrum_summary s;
        err e = {0};
        figures all = {0};
        assert_true(spectrum_summarise(&r, -1, -1, &s, &e));
        print_message("measured rwkv7-smallkey: largest norm of a product %.6f, real values of "
                      "tokens in [%.4f, %.4f]\n",
                      s.largest_norm, r.layer[0].head[0].tokens.least_real,
                      r.layer[0].head[0].tokens.largest);
        assert_true(s.largest_norm > 1);
        assert_int_equal(s.over_norm, 0);
        assert_int_equal(s.strong, 0);
        assert_true(s.complex_share == 0);
        for (int L = 0; L < r.n_layers; L++)
            for (int h = 0; h < r.layer[L].n_heads; h++) {
                assert_true(r.layer[L].head[h].tokens.least_real >= -1);
                assert_true(r.layer[L].head[h].tokens.largest <= 1);
            }
        assert_non_null(strstr(spectrum_kind_note(&r.layer[0].shape), "no contraction (G15)"));
        spectrum_item item = {"rwkv7", "", &r};
        assert_true(spectrum_figures(&item, 1, &all, &e));
        figures_free(&all);
        spectrum_result_free(&r);
    }
    dump_free(&d);
}

static void notes_tell_the_kinds_apart(void **state) {
    (void)state;
    head_shape delta = {.erase = ERASE_KEY, .decay = DECAY_HEAD, .n_h = 1};
    head_shape kda = {.erase = ERASE_KEY, .decay = DECAY_CHANNEL, .n_h = 1};
    head_shape comba = {.erase = ERASE_PAIR, .decay = DECAY_HEAD, .n_h = 1};
    assert_null(spectrum_kind_note(&delta));
    assert_non_null(strstr(spectrum_kind_note(&kda), "symmetric"));
    assert_non_null(strstr(spectrum_kind_note(&comba), "no contraction"));
    assert_null(strstr(spectrum_kind_note(&comba), "real eigenvalues"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvalues_of_diagonal_kinds_are_the_exponentials_of_summed_decays),
        cmocka_unit_test(plain_linear_attention_never_forgets),
        cmocka_unit_test(norms_above_one_of_rwkv7_are_no_fault),
        cmocka_unit_test(notes_tell_the_kinds_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
