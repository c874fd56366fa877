// Cases in words: lists, names, suites, and what is refused; operations gate right and wrong kernels.
#include "bench/environment.h"
#include "bench/measure.h"
#include "bench/op.h"
#include "bench/plugin_load.h"
#include "bench/run.h"
#include "bench/verdict.h"
#include "core/nvml.h"
#include "core/rows.h"
#include "kernels/cpu/cpu.h"
#include "tests/files.h"
#include "tests/worst.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_line_with_lists_is_their_product(void **state) {
    (void)state;
    case_list l = {0};
    err e = {0};
    char name[CASE_NAME];
    assert_true(case_list_read(&l, "gdn T=1k,2k H=4 K=64,128 V=64", &e));
    assert_int_equal(l.n, 4);
    assert_string_equal(case_name(&l.v[0], name, sizeof name), "gdn.B1.T1024.H4.K64.V64.f32.cpu");
    assert_true(case_list_read(&l, "gdn T=1024 H=4 K=64 V=64", &e)); // the same again
    assert_int_equal(l.n, 4);
    assert_true(case_list_axis(&l, "Hv=8", &e));
    assert_string_equal(case_name(&l.v[0], name, sizeof name),
                        "gdn.B1.T1024.H4.Hv8.K64.V64.f32.cpu");
    assert_true(case_list_axis(&l, "T=512,4k", &e));
    assert_int_equal(l.n, 4); // 2 lengths x 2 sizes: equal ones once
    assert_true(case_list_axis(&l, "device=cuda", &e));
    assert_true(case_list_axis(&l, "dtype=bf16", &e));
    assert_string_equal(case_name(&l.v[0], name, sizeof name),
                        "gdn.B1.T512.H4.Hv8.K64.V64.bf16.cuda");
    assert_true(case_list_axis(&l, "op=gdn,kda", &e)); // kda begins with its own sizes
    assert_int_equal(l.n, 5);
    const char *pattern[] = {"gdn*T4096*K128*"};
    case_list_match(&l, pattern, 1);
    assert_int_equal(l.n, 1);
    case_list_free(&l);
}

// Axes that do not bear on one another give the same cases in either order.
static void the_order_of_axes_does_not_matter(void **state) {
    (void)state;
    static const char *const axes[] = {"threads=1,2", "device=cpu", "dtype=f64",
                                       "T=512,1k",    "Hv=4,8",     "H=2,4",
                                       "K=32",        "beta=2",     "form=step"};
    enum { N = sizeof axes / sizeof *axes };
    err e = {0};
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++) {
            case_list l[2] = {{0}, {0}};
            for (int order = 0; order < 2; order++) {
                assert_true(case_list_read(&l[order], "gdn", &e));
                assert_true(case_list_axis(&l[order], axes[order ? i : k], &e));
                assert_true(case_list_axis(&l[order], axes[order ? k : i], &e));
            }
            assert_int_equal(l[0].n, l[1].n);
            for (size_t a = 0; a < l[0].n; a++) { // not in the same order
                size_t b = 0;
                while (b < l[1].n && memcmp(l[0].v[a].at, l[1].v[b].at, sizeof l[0].v[a].at) != 0)
                    b++;
                if (b == l[1].n)
                    fail_msg("%s and %s: the order decides", axes[i], axes[k]);
            }
            case_list_free(&l[0]);
            case_list_free(&l[1]);
        }
}

static void zeros_and_stress_stand_in_the_name(void **state) { // B134
    (void)state;
    case_list l = {0};
    err e = {0};
    char name[CASE_NAME];
    assert_true(
        case_list_read(&l, "deltaproduct T=64 n=3 keys=correlated input=zeros form=step", &e));
    case_name(&l.v[0], name, sizeof name);
    assert_string_equal(name,
                        "deltaproduct.B1.T64.H4.K64.V64.n3.beta2.correlated.zeros.step.f32.cpu");
    case_list_free(&l);
}

static void what_is_no_case_is_refused_with_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } bad[] = {{"gnd T=1", "operation \"gnd\" is not known"},
               {"gdn T=0", "axis T: \"0\" is no whole number from 1 to"},
               {"gdn T=-5", "no whole number"},
               {"gdn T=1e3", "no whole number"},
               {"gdn T=99999999999999999999", "no whole number"},
               {"gdn T=nan", "no whole number"},
               {"gdn T", "is no axis with values"},
               {"gdn T=", "is no axis with values"},
               {"gdn D=4", "the operation has no axis D"},
               {"gdn X=4", "axis \"X\" is not known; there are op, B, T"},
               {"gdn dtype=f16", "axis dtype: \"f16\" is not known; it takes f32|tf32|bf16|f64"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        case_list l = {0};
        err e = {0};
        if (case_list_read(&l, bad[i].line, &e))
            fail_msg("\"%s\" was taken", bad[i].line);
        files_assert_error_holds(&e, ERR_USAGE, bad[i].says);
        case_list_free(&l);
    }
}

static void every_suite_reads_and_has_no_case_twice_under_one_name(void **state) {
    (void)state;
    for (size_t s = 0; s < n_bench_suites; s++) {
        case_list l = {0};
        err e = {0};
        if (!bench_suites[s].lines) // a model's: tests/test_cmd_bench.c
            continue;
        for (int i = 0; bench_suites[s].lines[i]; i++)
            if (!case_list_read(&l, bench_suites[s].lines[i], &e))
                fail_msg("%s: %s: %s", bench_suites[s].name, bench_suites[s].lines[i], e.text);
        assert_true(l.n > 0);
        for (size_t i = 0; i < l.n; i++)
            for (size_t k = 0; k < i; k++) {
                char a[CASE_NAME], b[CASE_NAME];
                if (strcmp(case_name(&l.v[i], a, sizeof a), case_name(&l.v[k], b, sizeof b)) == 0)
                    fail_msg("%s: two cases are called %s", bench_suites[s].name, a);
            }
        case_list_free(&l);
    }
    // The goals of the GPU kernels, each with its own name.
    err e = {0};
    const bench_suite *goals = bench_suite_find("kernels", &e);
    case_list l = {0};
    for (int i = 0; goals->lines[i]; i++)
        assert_true(case_list_read(&l, goals->lines[i], &e));
    assert_int_equal(l.n, 15);
    case_list_free(&l);
}

static void parameters_become_the_same_case_again(void **state) {
    (void)state;
    case_list l = {0}, again = {0};
    err e = {0};
    assert_true(case_list_read(&l, "gdn T=512 H=2 Hv=4 K=64 V=32 dtype=f64", &e));
    assert_true(case_list_read(&l, "kda T=512 dtype=bf16 device=cuda", &e));
    assert_true(case_list_read(&l, "conv T=5 D=7 W=2", &e));
    assert_true(case_list_read(&l, "gdn T=512 docs=7 every=64", &e));
    for (size_t i = 0; i < l.n; i++) {
        json_t *p = case_params(&l.v[i]);
        assert_true(case_list_params(&again, p, &e));
        json_t *q = case_params(&again.v[i]);
        assert_true(json_equal(p, q));
        json_decref(p);
        json_decref(q);
    }
    json_t *other = json_pack("{s:s, s:s}", "op", "gdn", "impl", "fla:triton");
    assert_true(case_list_params(&again, other, &e)); // another program's: not ours to time
    assert_int_equal(again.n, l.n);
    json_decref(other);
    case_list_free(&l);
    case_list_free(&again);
}

// Baselines without these axes are still matched.
static void a_case_without_documents_is_called_what_it_was(void **state) {
    (void)state;
    case_list l = {0};
    err e = {0};
    char name[CASE_NAME];
    assert_true(case_list_read(&l, "gdn T=512 docs=1,7 every=0,64", &e));
    assert_string_equal(case_name(&l.v[0], name, sizeof name), "gdn.B1.T512.H4.K64.V64.f32.cpu");
    assert_string_equal(case_name(&l.v[3], name, sizeof name),
                        "gdn.B1.T512.H4.K64.V64.docs7.every64.f32.cpu");
    for (size_t i = 0; i < 4; i++) {
        json_t *p = case_params(&l.v[i]);
        assert_int_equal(json_object_get(p, "docs") != NULL, i % 2);
        assert_int_equal(json_object_get(p, "every") != NULL, i / 2);
        json_decref(p);
    }
    case_list_free(&l);
}

static bool on_over_the_ends(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    (void)r;
    be->op->recurrence(be, s, mat_rows(state, 0, (int64_t)s->s.H * s->s.K), o);
    return true;
}
// Right, by the composition.
static bool row_by_row(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    backend_ops own = *be->op, *const all = (backend_ops *)be->op;
    all->recurrence_rows = NULL;
    rows_recurrence(be, s, r, state, o);
    *all = own;
    return true;
}
static bool boundaries_too_late(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    row_by_row(be, s, r, state, o);
    be->op->copy(be, state, mat_rows(r->states, 0, (int64_t)s->s.H * s->s.K));
    return true;
}
static void documents_and_boundaries_of_a_wrong_kernel_do_not_pass(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool (*kernel)(backend *be, const steps *s, const step_rows *r, mat state, mat o);
    } wrong[] = {{"gdn T=200 H=2 K=16 V=16 docs=5", on_over_the_ends},
                 {"gdn T=200 H=2 K=16 V=16 every=100", boundaries_too_late}};
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    const backend_ops *own = be->op;
    for (int i = 0; i < 4; i++) {
        case_list l = {0};
        bench_gate g = {.tolerance = 1e-4};
        backend_ops with = *own;
        with.recurrence_rows = i % 2 ? wrong[i / 2].kernel : NULL;
        be->op = &with;
        assert_true(case_list_read(&l, wrong[i / 2].line, &e));
        bench_setup set = {.c = &l.v[0], .be = be, .seed = 1};
        void *work = l.v[0].op->prepare(&set, &e);
        assert_non_null(work);
        assert_true(l.v[0].op->gate(work, &g, &e));
        assert_int_equal(g.passed, i % 2 == 0);
        assert_true(i % 2 == 0 || g.state_error > 0.1);
        l.v[0].op->free(work);
        case_list_free(&l);
    }
    be->op = own;
    backend_close(be);
}

static bool declines(backend *be, const steps *s, const step_rows *r, mat state, mat o) {
    (void)be, (void)s, (void)r, (void)state, (void)o;
    return false;
}

// Sequences of a batch are rows where there is a kernel for rows, heads where it declines or where they are single tokens;
// what they cost is the same. A kernel that runs on over their ends is caught.
static void sequences_are_rows_where_there_is_a_kernel_for_them(void **state) {
    (void)state;
    static bool (*const kernels[])(backend *, const steps *, const step_rows *, mat,
                                   mat) = {NULL, row_by_row, declines, on_over_the_ends};
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    const backend_ops *own = be->op;
    for (int line = 0; line < 2; line++) {
        bench_cost folded = {0};
        for (int i = 0; i < 4; i++) {
            case_list l = {0};
            bench_gate g = {.tolerance = 1e-4};
            bench_cost cost = {0};
            backend_ops with = *own;
            with.recurrence_rows = kernels[i];
            be->op = &with;
            assert_true(case_list_read(&l,
                                       line ? "gdn B=3 T=1 H=2 K=16 V=16"
                                            : "gdn B=3 T=100 H=2 Hv=4 K=16 V=24 every=16",
                                       &e));
            bench_setup set = {.c = &l.v[0], .be = be, .seed = 1};
            void *work = l.v[0].op->prepare(&set, &e);
            assert_non_null(work);
            assert_true(l.v[0].op->gate(work, &g, &e));
            l.v[0].op->cost(&l.v[0], work, &cost);
            bool wrong = i == 3 && line == 0;
            assert_int_equal(g.passed, !wrong);
            if (i == 0)
                folded = cost;
            assert_true(cost.bytes == folded.bytes && cost.flop == folded.flop &&
                        cost.items == folded.items && cost.chain == folded.chain);
            l.v[0].op->free(work);
            case_list_free(&l);
        }
    }
    be->op = own;
    backend_close(be);
}

// Every operation, tiny and odd sizes: prepared, right, timed; the first call is not warm-up (B88).
static void every_operation_passes_its_gate_at_odd_sizes(void **state) {
    (void)state;
    static const char *const lines[] = {"linear T=37 H=3 K=17 V=9",
                                        "gla T=37 H=2 K=16 V=24",
                                        "mamba2 T=65 H=1 Hv=3 K=16 V=8",
                                        "deltanet B=2 T=130 H=2 K=32 V=16 dtype=f32,f64",
                                        "gdn B=3 T=37 H=2 Hv=4 K=24 V=20",
                                        "gdn T=200 H=2 K=32 V=32 form=step,chunk",
                                        "gdn T=64 keys=correlated,same",
                                        "gdn B=2 T=100 H=2 K=16 V=24 docs=9 every=1,16,70",
                                        "rwkv7 T=100 H=2 K=16 V=16 docs=100",
                                        "gdn T=33 input=zeros",
                                        "deltaproduct T=31 H=2 n=3",
                                        "gdeltaproduct T=65 H=2 n=2",
                                        "kda T=70 H=5 K=16 V=16",
                                        "comba T=40 H=2 Hv=4 K=16 V=16",
                                        "rwkv7 T=70 H=5 K=16 V=16",
                                        "gdn B=3 T=1 H=2 K=32 V=32",
                                        "conv T=9 D=5 W=1,4",
                                        "rmsnorm T=3 D=7",
                                        "l2norm T=3 H=2 K=5",
                                        "layernorm T=3 D=7",
                                        "loss T=5 D=8 vocab=11",
                                        "erank T=9 H=2 K=16 V=12",
                                        "window T=2 K=16 n=2 W=5"};
    case_list l = {0};
    record r;
    err e = {0};
    record_init(&r);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_true(case_list_read(&l, lines[i], &e));
    bench_plan p = {
        .cases = &l, .seconds = 0.02 * (double)l.n, .precision = 0.01, .rounds = 2, .cold = true};
    if (!bench_run(&p, &r, &e))
        fail_msg("%s", e.text);
    double worst = 0;
    for (size_t i = 0; i < r.n; i++) {
        const bench_row *row = &r.rows[i];
        if (row->status != ROW_OK)
            fail_msg("%s: %s: %s", row->name, row_status_name(row->status), row->why);
        summary s = timings_summary(&row->warm);
        assert_true(s.n > 0 && s.median > 0 && row->cold.n > 0);
        assert_true(row->flop > 0 && row->bytes > 0 && row->floor_ms > 0 && row->kernel[0]);
        assert_true(row->error <= row->tolerance);
        worst = worse(worst, row->error / row->tolerance);
        // What warm-up keeps out is known, and the first sample is not it.
        assert_true(row->first_ms > 0);
        double first[64];
        size_t n = 0;
        for (size_t k = 0; k < row->warm.n && n < 64; k++)
            if (row->warm.round[k] == 0)
                first[n++] = row->warm.ms[k];
        double early = stats_quantile(first, n, 0.25);
        if (early > 3 * s.median)
            fail_msg("%s: its first samples took %g ms, the median is %g", row->name, early,
                     s.median);
    }
    printf("measured gates of %zu cases: worst error %.3f of what is allowed\n", r.n, worst);
    record_free(&r);
    case_list_free(&l);
}

static void cases_that_cannot_run_are_rows_and_not_the_end(void **state) {
    (void)state;
    case_list l = {0};
    record r;
    err e = {0};
    record_init(&r);
    assert_true(case_list_read(&l, "gdn H=3 Hv=4 T=8", &e));
    assert_true(case_list_read(&l, "gdn T=8 dtype=bf16", &e)); // not on the CPU
    assert_true(case_list_read(&l, "gdn T=8", &e));
    assert_true(case_list_read(&l, "gdn T=8 docs=9", &e));
    bench_plan p = {.cases = &l, .seconds = 0.03, .precision = 0.01, .rounds = 1};
    assert_true(bench_run(&p, &r, &e));
    assert_int_equal(r.rows[0].status, ROW_SKIPPED);
    assert_non_null(strstr(r.rows[0].why, "4 value heads are no multiple of 3"));
    assert_int_equal(r.rows[1].status, ROW_SKIPPED);
    assert_non_null(strstr(r.rows[1].why, "the CPU computes in f32 or f64"));
    assert_int_equal(r.rows[2].status, ROW_OK);
    assert_int_equal(r.rows[2].cold.n, 0);
    assert_int_equal(r.rows[3].status, ROW_SKIPPED);
    assert_non_null(strstr(r.rows[3].why, "9 documents of 8 tokens"));
    record_free(&r);
    case_list_free(&l);
}

static bool stop(void *ctx, int64_t done, int64_t total) {
    (void)ctx, (void)total;
    return done < 3;
}

static void a_run_can_be_stopped(void **state) {
    (void)state;
    case_list l = {0};
    record r;
    err e = {0};
    record_init(&r);
    assert_true(case_list_read(&l, "gdn T=8,16,32", &e));
    bench_plan p = {.cases = &l, .seconds = 1, .precision = 0.01, .rounds = 4, .progress = stop};
    assert_false(bench_run(&p, &r, &e));
    assert_int_equal(e.code, ERR_CANCELLED);
    record_free(&r);
    case_list_free(&l);
}

// A device with a queue: calls are queued many at a time between marks and timed one by one; kernels of
// one operation are told apart. Here the CPU plays the device.
static void two_phases(void *work, double share) {
    backend *be = work;
    double until = files_seconds() + 2e-4 * share;
    while (files_seconds() < until)
        ;
    if (be->on_phase)
        be->on_phase(be, "first");
    until = files_seconds() + 6e-4 * share;
    while (files_seconds() < until)
        ;
    if (be->on_phase)
        be->on_phase(be, "second");
}

static void a_queue_of_calls_is_timed_call_by_call(void **state) {
    (void)state;
    err e = {0};
    backend *be = cpu_open(PRECISION_F32, 1, &e);
    assert_non_null(be);
    be->device = "a device";
    const bench_op op = {.name = "two", .run = two_phases};
    meter m = {.be = be, .op = &op, .work = be};
    assert_true(measure_warm_up(&m, 0.05, &e));
    assert_int_equal(m.calls, 1);
    timings warm = {0}, cold = {0};
    measure_limits l = {.seconds = 0.2, .precision = 1e-9, .least = 10, .most = 100};
    assert_true(measure_block(&m, false, &l, 0, &warm, &e));
    assert_true(measure_block(&m, true, &l, 1, &cold, &e));
    summary s = timings_summary(&warm);
    assert_true(s.n >= 10 && s.n <= 100 && cold.n >= 5);
    assert_true(s.min >= 0.79);                  // each call, not a share of a batch
    assert_true(timings_summary(&cold).min < 5); // the eviction stays outside
    bench_row row;
    row_clear(&row);
    assert_true(measure_phases(&m, &row, &e));
    assert_int_equal(row.n_phases, 2);
    assert_string_equal(row.phase[1].name, "second");
    assert_true(row.phase[0].ms >= 0.19 && row.phase[1].ms > row.phase[0].ms);
    m.extra = 0.5; // work done once more, really
    timings slow = {0};
    assert_true(measure_block(&m, false, &l, 0, &slow, &e));
    assert_true(timings_summary(&slow).min >= 1.19);
    timings_free(&warm);
    timings_free(&cold);
    timings_free(&slow);
    be->device = "cpu";
    backend_close(be);
}

// Without a driver nothing is known, and nothing falls over.
static void readings_of_a_card_that_is_not_there_are_not_numbers(void **state) {
    (void)state;
    nvml_reading x = nvml_read(NULL);
    nvml_facts f = nvml_about(NULL);
    char text[64];
    assert_true(isnan(x.sm_mhz) && isnan(x.watt) && x.throttle == 0);
    assert_true(isnan(f.max_sm_mhz) && f.ecc == -1 && !f.driver[0]);
    assert_string_equal(nvml_throttle_text(NVML_IDLE, text, sizeof text), "");
    assert_string_equal(nvml_throttle_text(NVML_POWER_CAP | NVML_HW_THERMAL, text, sizeof text),
                        "power cap, thermal");
    nvml_close(nvml_open(0, NULL));
}

static void a_calibration_leaves_a_noise_floor(void **state) {
    (void)state;
    case_list l = {0};
    record r;
    err e = {0};
    record_init(&r);
    assert_true(case_list_read(&l, "l2norm T=64,128 H=2 K=16", &e));
    bench_plan p = {.cases = &l, .seconds = 0.04, .precision = 0.01, .rounds = 2};
    assert_true(bench_calibrate(&p, 3, &r, &e));
    assert_int_equal(r.n, 2);
    for (size_t i = 0; i < 2; i++) {
        double level[16];
        assert_true(r.rows[i].noise >= 0.003 && r.rows[i].noise < 1);
        assert_int_equal(verdict_levels(&r.rows[i].warm, false, level, 16),
                         6); // 3 runs of 2 rounds
    }
    record_free(&r);
    case_list_free(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_with_lists_is_their_product),
        cmocka_unit_test(the_order_of_axes_does_not_matter),
        cmocka_unit_test(zeros_and_stress_stand_in_the_name),
        cmocka_unit_test(what_is_no_case_is_refused_with_a_sentence),
        cmocka_unit_test(every_suite_reads_and_has_no_case_twice_under_one_name),
        cmocka_unit_test(parameters_become_the_same_case_again),
        cmocka_unit_test(a_case_without_documents_is_called_what_it_was),
        cmocka_unit_test(documents_and_boundaries_of_a_wrong_kernel_do_not_pass),
        cmocka_unit_test(sequences_are_rows_where_there_is_a_kernel_for_them),
        cmocka_unit_test(every_operation_passes_its_gate_at_odd_sizes),
        cmocka_unit_test(cases_that_cannot_run_are_rows_and_not_the_end),
        cmocka_unit_test(a_run_can_be_stopped),
        cmocka_unit_test(a_queue_of_calls_is_timed_call_by_call),
        cmocka_unit_test(readings_of_a_card_that_is_not_there_are_not_numbers),
        cmocka_unit_test(a_calibration_leaves_a_noise_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
