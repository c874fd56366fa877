// Longhorn and generic DPLR as constructors of core/steps.h, against golden/steps and closed forms.
#include "core/step_kinds.h"

#include "kernels/cpu/cpu.h"
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

typedef struct arrays {
    double *q, *k, *v, *beta, *w_log, *a, *b, *scale;
    double eps[T], o[T * V], end[K * V];
} arrays;

static bool absent(void) {
    return !files_shared("golden/steps/longhorn/q.npy");
}

static arrays open_arrays(const char *folder) {
    bool dplr = strcmp(folder, "dplr") == 0;
    return (arrays){
        .q = golden_steps_load(folder, "q", T * K),
        .k = golden_steps_load(folder, "k", T * K),
        .v = golden_steps_load(folder, "v", T * V),
        .beta = dplr ? NULL : golden_steps_load(folder, "beta", T),
        .w_log = dplr ? golden_steps_load(folder, "w_log", T * K) : NULL,
        .a = dplr ? golden_steps_load(folder, "a", T * K) : NULL,
        .b = dplr ? golden_steps_load(folder, "b", T * K) : NULL,
        .scale = golden_steps_load(folder, "scale", 1),
    };
}

static void close_arrays(arrays *x) {
    double *all[] = {x->q, x->k, x->v, x->beta, x->w_log, x->a, x->b, x->scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static step_inputs inputs(const arrays *x) {
    return (step_inputs){.T = T,
                         .K = K,
                         .V = V,
                         .scale = *x->scale,
                         .q = x->q,
                         .k = x->k,
                         .v = x->v,
                         .beta = x->beta,
                         .w_log = x->w_log,
                         .a = x->a,
                         .b = x->b};
}

// The float64 kernel reads the lent host arrays as they are.
static void walk(arrays *x, const steps *s) {
    err e = {0};
    backend *be = cpu_open(PRECISION_F64, 1, &e);
    assert_non_null(be);
    mat state = be->op->alloc(be, K, V), o = be->op->alloc(be, T, V);
    be->op->recurrence(be, s, state, o);
    be->op->read(be, state, x->end);
    be->op->read(be, o, x->o);
    assert_true(backend_check(be, &e));
    be->op->free(be, state);
    be->op->free(be, o);
    backend_close(be);
}

static void agrees(const arrays *x, const char *folder) {
    double *o = golden_steps_load(folder, "o", T * V),
           *end = golden_steps_load(folder, "state_final", K * V);
    double d = tiny_difference(o, x->o, T * V), f = tiny_difference(end, x->end, K * V);
    print_message("measured steps/%s from step_kinds: outputs %.1e, state %.1e\n", folder, d, f);
    assert_true(d <= 1e-12 && f <= 1e-12);
    free(o);
    free(end);
}

static void is_far_from(const arrays *x, const char *folder, const char *name) {
    double *wrong = golden_steps_load(folder, name, T * V), d = tiny_difference(wrong, x->o, T * V);
    print_message("measured steps/%s: %s is %.2g away\n", folder, name, d);
    assert_true(d > 1e-2);
    free(wrong);
}

static void longhorn_R11_is_the_delta_rule_with_eps(void **state) {
    (void)state;
    if (absent())
        skip();
    arrays x = open_arrays("longhorn");
    step_inputs in = inputs(&x);
    steps s = step_longhorn(&in, x.eps);
    assert_int_equal(s.s.erase, ERASE_KEY);
    assert_int_equal(s.s.decay, DECAY_NONE);
    walk(&x, &s);
    agrees(&x, "longhorn");
    is_far_from(&x, "longhorn", "o_wrong_beta_write"); // E17
    close_arrays(&x);
}

static void dplr_reads_the_undecayed_state_along_b_and_writes_along_a(void **state) {
    (void)state;
    if (absent())
        skip();
    arrays x = open_arrays("dplr");
    step_inputs in = inputs(&x);
    steps s = step_dplr(&in);
    assert_int_equal(s.s.erase, ERASE_PAIR);
    assert_int_equal(s.s.decay, DECAY_CHANNEL);
    walk(&x, &s);
    agrees(&x, "dplr");
    is_far_from(&x, "dplr", "o_wrong_decayed_read");
    is_far_from(&x, "dplr", "o_wrong_swapped");
    close_arrays(&x);
}

// a = -beta k, b = k and no decay: DPLR is the delta rule, up to its write, which has no beta.
static void dplr_with_tied_vectors_erases_like_the_delta_rule(void **state) {
    (void)state;
    if (absent())
        skip();
    arrays x = open_arrays("longhorn"), y = x;
    step_inputs in = inputs(&x);
    steps s = step_longhorn(&in, x.eps);
    double zero[T * K] = {0}, a[T * K], v[T * V];
    for (int i = 0; i < T * K; i++)
        a[i] = -x.eps[i / K] * x.k[i];
    for (int i = 0; i < T * V; i++)
        v[i] = x.eps[i / V] * x.v[i];
    step_inputs tied = inputs(&x);
    tied.w_log = zero;
    tied.a = a;
    tied.b = x.k;
    tied.v = v;
    steps d = step_dplr(&tied);
    walk(&x, &s);
    walk(&y, &d);
    double far = tiny_difference(x.o, y.o, T * V);
    print_message("measured Longhorn as DPLR: %.1e\n", far);
    assert_true(far <= 1e-13);
    close_arrays(&x);
}

// However long the key: what is taken out along k is beta k.k / (1 + beta k.k) of what was there.
static void longhorn_never_overshoots(void **state) {
    (void)state;
    const double length[] = {0, 1e-8, 1, 30, 1e8}, beta[] = {1e-3, 1, 2, 1e6};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 4; j++) {
            double k[2] = {0.6 * length[i], -0.8 * length[i]};
            double x = beta[j] * length[i] * length[i];
            double got = longhorn_strength(k, 2, beta[j]) * length[i] * length[i];
            assert_true(got >= 0 && got <= 1);
            assert_true(fabs(got - x / (1 + x)) <= 4e-16); // two roundings below 1
        }
    double k[1] = {0};
    assert_true(longhorn_strength(k, 1, 0.7) == 0.7); // a zero key: nothing to divide by
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longhorn_R11_is_the_delta_rule_with_eps),
        cmocka_unit_test(dplr_reads_the_undecayed_state_along_b_and_writes_along_a),
        cmocka_unit_test(dplr_with_tied_vectors_erases_like_the_delta_rule),
        cmocka_unit_test(longhorn_never_overshoots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
