// Single recurrences of the reference data (golden/steps): rows R01 to R13 of science.md 1A through
// core/steps.h and the CPU kernel. What common misreadings give (o_wrong_*) must be far away.
#include "tests/files.h"
#include "tests/golden_steps.h"
#include "tests/tiny_steps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 24, K = 8, V = 6 };

static bool absent(void) {
    return !files_shared("golden/steps/table/q.npy");
}

// Zeroed inputs; the caller fills what the family has.
static tiny_steps blank(erase_kind erase, decay_kind decay, int n_h) {
    head_shape s = {.H = 1, .Hk = 1, .K = K, .V = V, .n_h = n_h, .decay = decay, .erase = erase};
    tiny_steps x = tiny_steps_new(s, T, 1);
    memset(x.start, 0, K * V * sizeof *x.start);
    return x;
}

static void take(double **field, double *fresh) {
    free(*field);
    *field = fresh;
}

static double *logs(double *x, int n) {
    for (int i = 0; i < n; i++)
        x[i] = log(x[i]);
    return x;
}

static double *spread(double *one) {
    double *x = malloc(T * sizeof *x);
    for (int t = 0; t < T; t++)
        x[t] = *one;
    free(one);
    return x;
}

// a = -c k, the erase vector that is tied to the key; c [T].
static double *erase_along(const double *k, const double *c) {
    double *a = malloc(T * K * sizeof *a);
    for (int i = 0; i < T * K; i++)
        a[i] = -c[i / K] * k[i];
    return a;
}

static void agrees(tiny_steps *x, const char *folder, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "o%s", suffix);
    double *o = golden_steps_load(folder, name, T * V);
    snprintf(name, sizeof name, "state_final%s", suffix);
    double *end = golden_steps_load(folder, name, K * V);
    double worst[2];
    for (int p = 0; p < 2; p++) {
        // 7 does not divide 24: the state is carried over a seam and a tail.
        tiny_steps_kernel(x, p ? PRECISION_F64 : PRECISION_F32, 7);
        worst[p] = fmax(tiny_difference(o, x->o, T * V), tiny_difference(end, x->end, K * V));
    }
    print_message("measured steps/%s%s: f64 %.1e, f32 %.1e\n", folder, suffix, worst[1], worst[0]);
    assert_true(worst[1] <= 1e-12);
    assert_true(worst[0] <= 1e-5);
    free(o);
    free(end);
}

// After agrees(): the outputs in x are the float64 ones.
static void is_far_from(const tiny_steps *x, const char *folder, const char *name) {
    double *wrong = golden_steps_load(folder, name, T * V);
    double d = tiny_difference(wrong, x->o, T * V);
    print_message("measured steps/%s: %s is %.2g away\n", folder, name, d);
    assert_true(d > 1e-2);
    free(wrong);
}

// q, k, v and scale from the table; the start of every row.
static tiny_steps table(erase_kind erase, decay_kind decay) {
    tiny_steps x = blank(erase, decay, 1);
    double *scale = golden_steps_load("table", "scale", 1);
    x.s.scale = *scale;
    free(scale);
    take(&x.q, golden_steps_load("table", "q", T * K));
    take(&x.k, golden_steps_load("table", "k", T * K));
    take(&x.v, golden_steps_load("table", "v", T * V));
    take(&x.beta, NULL);
    return x;
}

static void diagonal_rows_R01_to_R05(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = table(ERASE_NONE, DECAY_NONE);
    agrees(&x, "table", "_R01_linear_attention");
    tiny_steps_free(&x);

    x = table(ERASE_NONE, DECAY_HEAD);
    take(&x.decay, logs(spread(golden_steps_load("table", "gamma", 1)), T));
    agrees(&x, "table", "_R02_retnet");
    take(&x.decay, logs(golden_steps_load("table", "alpha_scalar", T), T));
    agrees(&x, "table", "_R03_mamba2");
    tiny_steps_free(&x);

    x = table(ERASE_NONE, DECAY_CHANNEL);
    take(&x.decay, logs(golden_steps_load("table", "alpha_vector", T * K), T * K));
    agrees(&x, "table", "_R04_gla");
    double *alpha = golden_steps_load("table", "alpha_vector", T * K);
    for (int i = 0; i < T * K; i++)
        x.k[i] = 1 - alpha[i];
    free(alpha);
    agrees(&x, "table", "_R05_hgrn2");
    tiny_steps_free(&x);
}

static void delta_rows_R06_R07_R08_R11(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = table(ERASE_KEY, DECAY_NONE);
    take(&x.beta, golden_steps_load("table", "beta", T));
    agrees(&x, "table", "_R06_deltanet");
    for (int t = 0; t < T; t++) { // R11: beta / (1 + beta k.k)
        double kk = 0;
        for (int i = 0; i < K; i++)
            kk += x.k[t * K + i] * x.k[t * K + i];
        x.beta[t] /= 1 + x.beta[t] * kk;
    }
    agrees(&x, "table", "_R11_longhorn");
    tiny_steps_free(&x);

    x = table(ERASE_KEY, DECAY_HEAD);
    take(&x.beta, golden_steps_load("table", "beta", T));
    take(&x.decay, logs(golden_steps_load("table", "alpha_scalar", T), T));
    agrees(&x, "table", "_R07_gated_deltanet");
    tiny_steps_free(&x);

    x = table(ERASE_KEY, DECAY_CHANNEL);
    take(&x.beta, golden_steps_load("table", "beta", T));
    take(&x.decay, logs(golden_steps_load("table", "alpha_vector", T * K), T * K));
    agrees(&x, "table", "_R08_kda");
    tiny_steps_free(&x);
}

static void comba_row_R10(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = table(ERASE_PAIR, DECAY_HEAD);
    take(&x.beta, golden_steps_load("table", "beta", T));
    take(&x.decay, logs(golden_steps_load("table", "alpha_scalar", T), T));
    take(&x.a, erase_along(x.k, x.beta));
    take(&x.b, golden_steps_load("table", "khat", T * K));
    agrees(&x, "table", "_R10_comba");
    tiny_steps_free(&x);
}

static void product_rows_R12_R13(void **state) {
    (void)state;
    if (absent())
        skip();
    for (int gated = 0; gated < 2; gated++) {
        tiny_steps x = blank(ERASE_KEY, gated ? DECAY_HEAD : DECAY_NONE, 2);
        double *scale = golden_steps_load("table", "scale", 1);
        x.s.scale = *scale;
        free(scale);
        take(&x.q, golden_steps_load("table", "q", T * K));
        take(&x.k, golden_steps_load("table", "k_micro", T * 2 * K));
        take(&x.v, golden_steps_load("table", "v_micro", T * 2 * V));
        take(&x.beta, golden_steps_load("table", "beta_micro", T * 2));
        if (gated)
            take(&x.decay, logs(golden_steps_load("table", "alpha_scalar", T), T));
        agrees(&x, "table", gated ? "_R13_gated_deltaproduct2" : "_R12_deltaproduct2");
        tiny_steps_free(&x);
    }
}

static tiny_steps named(const char *folder, const char *query, erase_kind erase, decay_kind decay) {
    tiny_steps x = blank(erase, decay, 1);
    x.s.scale = 1;
    if (strcmp(folder, "rwkv7") != 0) {
        double *scale = golden_steps_load(folder, "scale", 1);
        x.s.scale = *scale;
        free(scale);
    }
    take(&x.q, golden_steps_load(folder, query, T * K));
    take(&x.k, golden_steps_load(folder, "k", T * K));
    take(&x.v, golden_steps_load(folder, "v", T * V));
    return x;
}

static void kda_decays_before_it_corrects(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = named("kda", "q", ERASE_KEY, DECAY_CHANNEL);
    take(&x.beta, golden_steps_load("kda", "beta", T));
    take(&x.decay, golden_steps_load("kda", "g", T * K));
    agrees(&x, "kda", "");
    is_far_from(&x, "kda", "o_wrong_order");
    is_far_from(&x, "kda", "o_wrong_undecayed_read");
    tiny_steps_free(&x);
}

static void dplr_reads_the_undecayed_state_along_b(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = named("dplr", "q", ERASE_PAIR, DECAY_CHANNEL);
    take(&x.beta, NULL);
    take(&x.decay, golden_steps_load("dplr", "w_log", T * K));
    take(&x.a, golden_steps_load("dplr", "a", T * K));
    take(&x.b, golden_steps_load("dplr", "b", T * K));
    agrees(&x, "dplr", "");
    is_far_from(&x, "dplr", "o_wrong_decayed_read");
    is_far_from(&x, "dplr", "o_wrong_swapped");
    tiny_steps_free(&x);
}

static void rwkv7_writes_along_a_kappa(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = named("rwkv7", "r", ERASE_PAIR, DECAY_CHANNEL);
    take(&x.beta, NULL);
    take(&x.decay, golden_steps_load("rwkv7", "w_log", T * K));
    take(&x.b, golden_steps_load("rwkv7", "kappa", T * K));
    take(&x.a, golden_steps_load("rwkv7", "a", T * K));
    for (int i = 0; i < T * K; i++)
        x.a[i] *= -x.b[i];
    agrees(&x, "rwkv7", "");
    is_far_from(&x, "rwkv7", "o_wrong_decayed_read");
    is_far_from(&x, "rwkv7", "o_wrong_swapped");
    tiny_steps_free(&x);
}

static void unit(double *x) {
    for (int t = 0; t < T; t++) {
        double sum = 1e-6;
        for (int i = 0; i < K; i++)
            sum += x[t * K + i] * x[t * K + i];
        for (int i = 0; i < K; i++)
            x[t * K + i] /= sqrt(sum);
    }
}

static void comba_corrects_the_query_and_reads_before_the_decay(void **state) {
    (void)state;
    if (absent())
        skip();
    tiny_steps x = named("comba", "q", ERASE_PAIR, DECAY_HEAD);
    double *D = golden_steps_load("comba", "D", 1), *decay = golden_steps_load("comba", "decay", 1);
    take(&x.beta, golden_steps_load("comba", "beta", T));
    take(&x.decay, golden_steps_load("comba", "g", T));
    for (int i = 0; i < T * K; i++) {
        x.b[i] = x.k[i] / (1 + exp(-*decay));
        x.q[i] -= *D * x.b[i];
    }
    unit(x.q), unit(x.k), unit(x.b);
    take(&x.a, erase_along(x.k, x.beta));
    agrees(&x, "comba", "");
    is_far_from(&x, "comba", "o_wrong_decayed_read");
    is_far_from(&x, "comba", "o_wrong_no_query_correction");
    free(D);
    free(decay);
    tiny_steps_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diagonal_rows_R01_to_R05),
        cmocka_unit_test(delta_rows_R06_R07_R08_R11),
        cmocka_unit_test(comba_row_R10),
        cmocka_unit_test(product_rows_R12_R13),
        cmocka_unit_test(kda_decays_before_it_corrects),
        cmocka_unit_test(dplr_reads_the_undecayed_state_along_b),
        cmocka_unit_test(rwkv7_writes_along_a_kappa),
        cmocka_unit_test(comba_corrects_the_query_and_reads_before_the_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
