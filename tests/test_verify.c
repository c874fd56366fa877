// The self-test: every check passes for several seeds, every id of science.md has one, and broken
// backends are caught by the checks that should catch them.
#include "analyses/verify/small.h"
#include "analyses/verify/verify.h"
#include "core/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static verify_result run(backend *device, const char *only, uint64_t seed) {
    err e = {0};
    verify_result r;
    backend *exact = cpu_open(PRECISION_F64, 0, &e);
    backend *mine = device ? device : cpu_open(PRECISION_F32, 0, &e);
    verify_env env = {.exact = exact, .device = mine, .folder = files_folder(), .seed = seed};
    if (!verify_run(&env, only, NULL, NULL, &r, &e))
        fail_msg("%s", e.text);
    backend_close(exact);
    if (!device)
        backend_close(mine);
    return r;
}

// K08 is a statement about kernels, T09 one about classes.
static void check_ids(const verify_result *r) {
    const struct {
        char kind;
        int last;
    } ids[] = {{'R', 16}, {'G', 17}, {'K', 10}, {'S', 7}, {'T', 8}};
    for (size_t k = 0; k < 5; k++)
        for (int i = 1; i <= ids[k].last; i++) {
            char id[16];
            bool there = false;
            snprintf(id, sizeof id, "%c%02d", ids[k].kind, i);
            for (size_t n = 0; n < r->n; n++)
                there |= strcmp(r->row[n].c->id, id) == 0;
            if (!there && strcmp(id, "K08") != 0)
                fail_msg("%s has no check", id);
        }
    for (size_t n = 0; n < r->n; n++)
        assert_true(strlen(r->row[n].c->what) <= 52);
}

static void every_formula_has_a_check_and_every_check_passes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        verify_result r = run(NULL, seed == 1 ? NULL : "R,G,K0,S,T01,T07", seed);
        double worst = 0;
        const char *which = "";
        if (seed == 1)
            check_ids(&r);
        for (size_t i = 0; i < r.n; i++) {
            if (!r.row[i].pass)
                fail_msg("%s %s: %.2e, allowed %.2e %s", r.row[i].c->id, r.row[i].c->what,
                         r.row[i].error, r.row[i].allowed, r.row[i].why);
            if (r.row[i].allowed > 0 && r.row[i].error / r.row[i].allowed > worst) {
                worst = r.row[i].error / r.row[i].allowed;
                which = r.row[i].c->id;
            }
        }
        printf("measured seed %d: %zu errors, the largest %.2f of what is allowed (%s)\n",
               (int)seed, r.n, worst, which);
        verify_free(&r);
    }
    assert_int_equal(files_count(files_folder()), 0); // checkpoints are gone
}

// ---- broken backends ------------------------------------------------------------------------------------

static backend_ops broken;
static const backend_ops *sound;

// Writes scaled by 1.001: a recurrence that is slightly wrong.
static void scaled_recurrence(backend *be, const steps *s, mat state, mat o) {
    sound->recurrence(be, s, state, o);
    sound->activate(be, o, ACT_NONE, 1.001);
    sound->activate(be, state, ACT_NONE, 1.001);
}

static void nan_norm(backend *be, mat x, mat w, double eps, mat y) {
    (void)x, (void)w, (void)eps;
    sound->activate(be, y, ACT_NONE, NAN);
}

static bool failing_svals(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                          const int64_t *at, int64_t n, double *sv, double *fro, err *e) {
    (void)be, (void)s, (void)state, (void)heads, (void)n_heads, (void)at, (void)n, (void)sv,
        (void)fro;
    return err_set(e, ERR_NUMERIC, "no singular values today");
}

static size_t failures_with(const backend_ops *ops, const char *only, const char *why) {
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 0, &e);
    be->op = ops;
    verify_result r = run(be, only, 1);
    size_t failed = 0;
    for (size_t i = 0; i < r.n; i++) {
        if (r.row[i].pass)
            continue;
        failed++;
        assert_true(r.row[i].on_device);
        assert_true(!why || strstr(r.row[i].why, why));
    }
    assert_int_equal(failed, r.failed);
    verify_free(&r);
    be->op = sound;
    backend_close(be);
    return failed;
}

static void broken_backends_are_caught(void **state) {
    (void)state;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 0, &e);
    sound = be->op;
    backend_close(be);
    broken = *sound;
    broken.recurrence = scaled_recurrence;
    assert_int_equal(failures_with(&broken, "R01,R06,R07,R08,R12,K05,S05", NULL), 7);
    broken = *sound;
    broken.rms_norm = nan_norm;
    assert_true(failures_with(&broken, "R15,T02", NULL) >= 2);
    broken = *sound;
    broken.state_svals = failing_svals;
    assert_int_equal(failures_with(&broken, "S01,S02,S03,S04", "no singular values today"), 4);
}

static void a_failed_computation_is_no_small_error(void **state) {
    (void)state;
    assert_true(isnan(small_max(NAN, 0)) && isnan(small_max(0, NAN)));
    double a[2] = {1, NAN}, b[2] = {1, 2};
    assert_true(isinf(small_difference(a, b, 2)));
}

static void unknown_ids_are_a_usage_error(void **state) {
    (void)state;
    err e = {0};
    verify_result r;
    verify_env env = {0};
    assert_false(verify_run(&env, "Z99", NULL, NULL, &r, &e));
    assert_int_equal(e.code, ERR_USAGE);
    // One that is mistyped among others that are not: what it names would stay unchecked.
    e = (err){0};
    assert_false(verify_run(&env, "R,Z99", NULL, NULL, &r, &e));
    assert_non_null(strstr(e.text, "\"Z99\""));
}

// The boundary of the region map against the discriminant: at the curves it is 0.
static void the_boundary_is_where_the_discriminant_vanishes(void **state) {
    (void)state;
    err e = {0};
    double worst = 0;
    for (double c = -0.95; c < 1; c += 0.1) {
        figures f;
        assert_true(verify_region(c, &f, &e));
        const figure *b = f.v[1];
        for (size_t s = 0; s < b->n_series; s++) {
            double cosine = strtod(b->series[s].name + strlen("cosine "), NULL);
            for (size_t i = 0; i < b->series[s].n; i++) {
                double b1 = b->series[s].x[i], b2 = b->series[s].y[i];
                double tau = 2 - b1 - b2 + b1 * b2 * cosine * cosine;
                worst = worse(worst, fabs(tau * tau - 4 * (1 - b1) * (1 - b2)));
            }
        }
        figures_free(&f);
    }
    printf("measured discriminant on the boundary: %.1e (allowed 1e-5: names carry six digits)\n",
           worst);
    assert_true(worst < 1e-5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_formula_has_a_check_and_every_check_passes),
        cmocka_unit_test(broken_backends_are_caught),
        cmocka_unit_test(a_failed_computation_is_no_small_error),
        cmocka_unit_test(unknown_ids_are_a_usage_error),
        cmocka_unit_test(the_boundary_is_where_the_discriminant_vanishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
