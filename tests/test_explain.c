// The table of recurrences (science.md R01-R14, E16-E18, G01-G16): its words stand beside functions,
// and the functions are held against central differences, closed forms and golden/steps.
#include "analyses/explain_math.h"

#include "core/families/family.h"
#include "tests/files.h"
#include "tests/npy_tiny.h"
#include "tests/tiny_steps.h"

#include <lapacke.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 24, K = EXPLAIN_K, V = EXPLAIN_V, DRAWS = 400 };

static explain_figures measured(const recurrence *r) {
    explain_figures f;
    err e = {0};
    if (!explain_measure(r, DRAWS, 7, NULL, NULL, &f, &e))
        fail_msg("%s: %s", r->name, e.text);
    return f;
}

static const recurrence *row(const char *word) {
    const recurrence *r = explain_find(word, NULL);
    if (!r)
        fail_msg("no row \"%s\"", word);
    return r;
}

static void rows_R01_to_R13_and_the_generic_one_are_there_once(void **state) {
    (void)state;
    assert_int_equal(n_recurrences, 14);
    for (int i = 1; i <= 13; i++) {
        char id[16];
        int seen = 0;
        snprintf(id, sizeof id, "R%02d", i);
        for (size_t k = 0; k < n_recurrences; k++)
            seen += strcmp(recurrences[k].id, id) == 0;
        assert_int_equal(seen, 1);
    }
    for (size_t k = 0; k < n_recurrences; k++) {
        const recurrence *r = &recurrences[k];
        const char *text[] = {r->idea,       r->loss,     r->gradient, r->update,
                              r->transition, r->spectrum, r->bound,    r->caution};
        for (size_t i = 0; i < sizeof text / sizeof *text; i++)
            assert_true(text[i] && strlen(text[i]) > 2);
        assert_non_null(r->own);
        assert_true((r->kind == GRADIENT_NONE) == !r->loss_at);
    }
}

// R14: 3e-10 in science.md; quadratic losses and a step of 2^-8 leave rounding alone, 1e-16 of a
// loss near 100 over 2^-7, against states near 3.
static void gradients_are_what_the_rows_say_R14_E18(void **state) {
    (void)state;
    for (size_t k = 0; k < n_recurrences; k++) {
        const recurrence *r = &recurrences[k];
        explain_figures f = measured(r);
        print_message("measured %s (%s): gradient %.1e, median %.1e, at the old state %.2g\n",
                      r->name, explain_gradient_word(r->kind), f.gradient, f.gradient_median,
                      f.at_old);
        switch (r->kind) {
        case GRADIENT_LITERAL:
        case GRADIENT_IMPLICIT:
        case GRADIENT_DECAYED:
        case GRADIENT_STEPS:
            assert_true(f.gradient <= 1e-11);
            break;
        case GRADIENT_FORMAL:
            assert_true(f.gradient_median > 0.1);
            break;
        case GRADIENT_NONE:
            assert_true(isnan(f.gradient));
        }
        if (r->kind == GRADIENT_DECAYED || r->kind == GRADIENT_IMPLICIT)
            assert_true(f.at_old > 0.1); // E18
    }
}

static void the_gradient_of_comba_is_literal_when_p_is_k(void **state) {
    (void)state;
    explain_figures f = measured(row("comba"));
    print_message("measured Comba with p = k: %.1e\n", f.tied);
    assert_true(f.tied <= 1e-11);
}

// Two computations: dense A and B of core/steps.h, and the source's own loop.
static void every_row_reduces_to_steps(void **state) {
    (void)state;
    double worst = 0;
    for (size_t k = 0; k < n_recurrences; k++)
        worst = fmax(worst, measured(&recurrences[k]).steps);
    print_message("measured A H + B against the rows' own updates: %.1e\n", worst);
    assert_true(worst <= 1e-13);
}

static void spectra_stay_where_the_rows_say(void **state) {
    (void)state;
    const double eps = 1e-12; // rounding of LAPACK on 8 x 8 matrices of norm 1
    const char *contracting[] = {"R01", "R02", "R03", "R04", "R05", "R06",
                                 "R07", "R08", "R11", "R12", "R13"}; // G08
    for (size_t i = 0; i < sizeof contracting / sizeof *contracting; i++) {
        explain_figures f = measured(row(contracting[i]));
        assert_true(f.norm <= 1 + eps && f.window_norm <= 1 + eps && f.radius <= 1 + eps);
    }
    const char *real[] = {"R01", "R06", "R07", "R08", "R09", "R10", "R11"};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        assert_true(measured(row(real[i])).imag < 1e-6); // sqrt of rounding: equal eigenvalues
    const char *complex_pairs[] = {"R12", "R13", "1A"};  // G03
    for (size_t i = 0; i < sizeof complex_pairs / sizeof *complex_pairs; i++)
        assert_true(measured(row(complex_pairs[i])).imag > 0.1);
    const char *symmetric[] = {"R01", "R05", "R06", "R07", "R11"}; // G06
    for (size_t i = 0; i < sizeof symmetric / sizeof *symmetric; i++)
        assert_true(measured(row(symmetric[i])).asymmetry <= 1e-15);

    explain_figures f = measured(row("longhorn"));
    assert_true(f.real_lo > 0);
    f = measured(row("rwkv7")); // G15, G16: single steps bounded, norms not
    assert_true(f.radius <= 1 + eps && f.real_lo >= -1 && f.norm > 1.01);
    f = measured(row("comba")); // a free p
    assert_true(f.radius > 1.01);
}

static void known_cases_have_their_closed_forms_G02_G15(void **state) {
    (void)state;
    double growth = row("rwkv7")->known();
    print_message("measured rwkv7 pair: radius %.12f\n", growth);
    assert_true(fabs(growth - (27 + 3 * sqrt(17)) / 32) <= 1e-14);
    assert_true(fabs(row("deltaproduct")->known() - 120) <= 1e-12);
    for (size_t k = 0; k < n_recurrences; k++)
        if (recurrences[k].known)
            assert_true(fabs(recurrences[k].known() - recurrences[k].known_want) <= 1e-9);
}

// ---- golden/steps -------------------------------------------------------------------------------

static double *load(const char *name, size_t want) {
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof path, "golden/steps/%s.npy", name);
    const char *file = files_shared(path);
    double *x = file ? npy_tiny_read(file, &n) : NULL;
    if (!x || n != want)
        fail_msg("%s: %zu numbers, want %zu", path, n, want);
    return x;
}

// Token t of the golden inputs in place of a random one.
static void golden_token(const recurrence *r, int t, explain_draw *d) {
    bool rwkv = strcmp(r->id, "R09") == 0, dplr = strcmp(r->id, "1A") == 0;
    const char *folder = rwkv ? "rwkv7/" : dplr ? "dplr/" : "table/";
    char name[64];
    int n = r->n_h;
    memset(d, 0, sizeof *d);
    d->n_h = n;
#define COPY(field, file, count)                                                                   \
    do {                                                                                           \
        snprintf(name, sizeof name, "%s%s", folder, file);                                         \
        double *x = load(name, (size_t)(T * (count)));                                             \
        memcpy(d->field, x + t * (count), (size_t)(count) * sizeof *x);                            \
        free(x);                                                                                   \
    } while (0)
    if (n == 2) {
        COPY(k, "k_micro", 2 * K);
        COPY(v, "v_micro", 2 * V);
        COPY(beta, "beta_micro", 2);
    } else {
        COPY(k, "k", K);
        COPY(v, "v", V);
        d->beta[0] = 1; // the rows without erasure write k v^T there
        if (r->erase != ERASE_NONE && !rwkv && !dplr)
            COPY(beta, "beta", 1);
    }
    for (int i = 0; i < K; i++)
        d->w[i] = 1;
    if (rwkv || dplr) {
        COPY(w, "w_log", K);
        for (int i = 0; i < K; i++)
            d->w[i] = exp(d->w[i]);
    } else if (strcmp(r->id, "R02") == 0) {
        double *gamma = load("table/gamma", 1);
        for (int i = 0; i < K; i++)
            d->w[i] = *gamma;
        free(gamma);
    } else if (r->decay == DECAY_HEAD) {
        COPY(w, "alpha_scalar", 1);
        for (int i = 1; i < K; i++)
            d->w[i] = d->w[0];
    } else if (r->decay == DECAY_CHANNEL) {
        COPY(w, "alpha_vector", K);
    }
    if (strcmp(r->id, "R05") == 0)
        for (int i = 0; i < K; i++)
            d->k[i] = 1 - d->w[i];
    if (rwkv) {
        COPY(rate, "a", K);
        COPY(read, "kappa", K);
        for (int i = 0; i < K; i++)
            d->a[i] = -d->rate[i] * d->read[i];
    } else if (dplr) {
        COPY(a, "a", K);
        COPY(read, "b", K);
    } else if (r->erase == ERASE_PAIR) {
        COPY(read, "khat", K);
        for (int i = 0; i < K; i++)
            d->a[i] = -d->beta[0] * d->k[i];
    }
#undef COPY
}

// P <- A P: newest on the left.
static void apply(const double *A, double *P) {
    double out[K * K];
    for (int i = 0; i < K * K; i++) {
        out[i] = 0;
        for (int j = 0; j < K; j++)
            out[i] += A[i / K * K + j] * P[j * K + i % K];
    }
    memcpy(P, out, sizeof out);
}

static const struct {
    const char *id, *folder, *suffix;
} golden[] = {
    {"R01", "table/", "_R01_linear_attention"},
    {"R02", "table/", "_R02_retnet"},
    {"R03", "table/", "_R03_mamba2"},
    {"R04", "table/", "_R04_gla"},
    {"R05", "table/", "_R05_hgrn2"},
    {"R06", "table/", "_R06_deltanet"},
    {"R07", "table/", "_R07_gated_deltanet"},
    {"R08", "table/", "_R08_kda"},
    {"R09", "rwkv7/", ""},
    {"R10", "table/", "_R10_comba"},
    {"R11", "table/", "_R11_longhorn"},
    {"R12", "table/", "_R12_deltaproduct2"},
    {"R13", "table/", "_R13_gated_deltaproduct2"},
    {"1A", "dplr/", ""},
};

static void every_row_walks_the_golden_tokens(void **state) {
    (void)state;
    if (!files_shared("golden/steps/table/q.npy"))
        skip();
    double worst = 0, worst_eig = 0;
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        const recurrence *r = row(golden[g].id);
        double H[K * V] = {0}, P[K * K], A[K * K], B[K * V];
        for (int t = 0; t < T; t++) {
            explain_draw d;
            golden_token(r, t, &d);
            memcpy(d.H, H, sizeof H);
            r->own(&d, H);
            steps s = explain_steps(r, &d);
            explain_dense(&s, A, B);
            if (t == T - 8)
                memset(P, 0, sizeof P);
            for (int i = 0; t == T - 8 && i < K; i++)
                P[i * K + i] = 1;
            if (t >= T - 8)
                apply(A, P);
        }
        char name[64];
        snprintf(name, sizeof name, "%sstate_final%s", golden[g].folder, golden[g].suffix);
        double *want = load(name, K * V);
        double d = tiny_difference(want, H, K * V);
        free(want);
        snprintf(name, sizeof name, "%seig_w8_last%s", golden[g].folder, golden[g].suffix);
        double *eig = load(name, 2 * K), re[K], im[K];
        assert_int_equal(
            LAPACKE_dgeev(LAPACK_ROW_MAJOR, 'N', 'N', K, P, K, re, im, NULL, 1, NULL, 1), 0);
        // As sets: power sums 1 to K decide the characteristic polynomial (Newton).
        for (int p = 1; p <= K; p++) {
            double a = 0, b = 0;
            for (int i = 0; i < K; i++) {
                a += pow(hypot(re[i], im[i]), p) * cos(p * atan2(im[i], re[i]));
                b += pow(hypot(eig[2 * i], eig[2 * i + 1]), p) *
                     cos(p * atan2(eig[2 * i + 1], eig[2 * i]));
            }
            worst_eig = fmax(worst_eig, fabs(a - b));
        }
        free(eig);
        worst = fmax(worst, d);
        if (!(d <= 1e-12))
            fail_msg("%s: the final state is %.1e away", r->name, d);
    }
    print_message("measured rows on golden/steps: states %.1e, power sums of window spectra %.1e\n",
                  worst, worst_eig);
    assert_true(worst_eig <= 1e-12);
}

// ---- names --------------------------------------------------------------------------------------

static void names_of_all_kinds_find_their_row(void **state) {
    (void)state;
    static const char *const pair[][2] = {
        {"delta_net", "R06"},
        {"gated_deltaproduct", "R13"},
        {"gated_delta_product", "R13"},
        {"GDN", "R07"},
        {"qwen3_next", "R07"},
        {"kimi_linear", "R08"},
        {"RWKV-7", "R09"},
        {"rwkv7", "R09"},
        {"linear_attn", "R01"},
        {"linear attention", "R01"},
        {"Mamba-2", "R03"},
        {"simple_gla", "R03"},
        {"nemotron_h", "R03"},
        {"longhorn", "R11"},
        {"DPLR", "1A"},
        {"DeltaProduct", "R12"},
        {"r05", "R05"},
    };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        assert_string_equal(row(pair[i][0])->id, pair[i][1]);
    const char *near = NULL;
    assert_null(explain_find("gated_deltanett", &near));
    assert_string_equal(near, "gated_deltanet");
    assert_null(explain_find("nonsense", &near));
    assert_null(near);
    assert_null(explain_find("", &near));
    assert_null(near);
    assert_null(explain_find("rwkv", &near));
    assert_non_null(strstr(explain_why_not("rwkv"), "RWKV-4"));
    assert_null(explain_why_not("nothing"));
}

static void every_family_that_loads_is_explained_or_says_why_not(void **state) {
    (void)state;
    for (const family *const *f = families; *f; f++)
        for (int i = 0; i < 4 && (*f)->names[i]; i++)
            if (!explain_find((*f)->names[i], NULL) && !explain_why_not((*f)->names[i]))
                fail_msg("model_type %s has no row in analyses/explain.c", (*f)->names[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_R01_to_R13_and_the_generic_one_are_there_once),
        cmocka_unit_test(gradients_are_what_the_rows_say_R14_E18),
        cmocka_unit_test(the_gradient_of_comba_is_literal_when_p_is_k),
        cmocka_unit_test(every_row_reduces_to_steps),
        cmocka_unit_test(spectra_stay_where_the_rows_say),
        cmocka_unit_test(known_cases_have_their_closed_forms_G02_G15),
        cmocka_unit_test(every_row_walks_the_golden_tokens),
        cmocka_unit_test(names_of_all_kinds_find_their_row),
        cmocka_unit_test(every_family_that_loads_is_explained_or_says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
