// Panel 9: the model's operations measured by the bench engine, never beside a forward pass, the gate
// first; what it shows, keeps and exports.
#include "tests/dash_play.h"
#include "tests/files.h"

#include "bench/model_cases.h"
#include "bench/op.h"
#include "bench/record.h"
#include "cli/dash/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define OTHER "examples/small-gated-deltaproduct2"
#define TEXT  "examples/text_kjv.txt"

static void never_beside_a_pass_and_numbers_with_the_clock_only(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s", files_path("kernels"));
    // Held in the middle of the document, the pass is still to go on: the cases wait until it is over.
    run r = play(0,
                 "hold 512\nwait forward\nexpect R measures\ncmd panel 9\nkey R\n"
                 "expect after the pass\n"
                 "go\nwait idle 300\n"
                 "expect 6 of 6 done\nexpect deltaproduct +1x512x4 +- +- +- +-\n"
                 "expect window +4x32x2x64\nexpect gate passed on 6 cases; cpu f32\n"
                 "expect every gate passed\n"
                 "resize 24x36\nexpect kernel +shape\nresize 5x20\nresize 1x1\nframe small\n",
                 folder,
                 LIST(MODEL, TEXT, "--length", "1k", "--panels", "1,9,0", "--threads", "1",
                      "--snapshot", "40x120"));
    run_free(&r);
    r = play(0,
             "cmd bench\nwait idle 300\nexpect deltaproduct +1x512x4 +[0-9.]+ +[0-9.]+ +[0-9.]+ "
             "+[0-9.]+\n",
             folder,
             LIST(MODEL, TEXT, "--length", "128", "--panels", "9", "--threads", "1", "--live",
                  "--snapshot", "24x80"));
    run_free(&r);
}

static void a_stop_keeps_what_is_measured_and_other_wishes_come_first(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s", files_path("stop"));
    run r = play(0,
                 "wait idle 300\nkey R\nkey ^C\nwait idle 300\nreject 6 of 6 done\nreject waiting\n"
                 "expect stopped\nkey R\ncmd goto 64\nkey x\nwait idle 300\nexpect 6 of 6 done\n"
                 "expect abl L0.H0\n",
                 folder,
                 LIST(MODEL, TEXT, "--length", "256", "--panels", "1,9,0", "--focus", "9",
                      "--threads", "1", "--snapshot", "40x120"));
    run_free(&r);
}

static void a_model_alone_has_kernels_and_their_export_names_bench(void **state) {
    (void)state;
    char folder[600], png[700], csv[700], *text;
    size_t n;
    snprintf(folder, sizeof folder, "%s", files_path("alone"));
    snprintf(png, sizeof png, "%s/kernels.png", folder);
    snprintf(csv, sizeof csv, "%s/kernels.csv", folder);
    run r = VIEW(OTHER, "--export", "9", "--out", folder, "--threads", "1");
    run_free(&r);
    text = files_read(csv, &n);
    holds(text, "# command: deltop bench --suite shapes --model " OTHER);
    holds(text, "kernels-table,gdeltaproduct.B1.T512.H4.K32.V32.n2.beta2.f32.cpu,ok,");
    free(text);
    text = files_read(png, &n);
    assert_memory_equal(text, "\x89PNG", 4);
    free(text);
    r = play(1, "wait idle 300\ncmd data k.csv\nwait idle\nexpect nothing is measured yet\n",
             folder, LIST(MODEL, "--panels", "9", "--snapshot", "24x80", "--threads", "1"));
    run_free(&r);
}

// A wrong kernel has no time. Ours are right, so the row is made by hand.
static void a_wrong_kernel_shows_its_error_and_no_time(void **state) {
    (void)state;
    err e = {0};
    case_list l = {0};
    assert_true(case_list_read(&l, "gdn T=64 H=2 K=16 V=16", &e));
    kernels *k = kernels_new(&l, &e);
    record rec;
    record_init(&rec);
    bench_row *row = record_add(&rec, &e);
    assert_non_null(k);
    assert_non_null(row);
    assert_int_equal(k->row[0].state, KERNEL_WAITING);
    assert_string_equal(k->row[0].shape, "1x64x2");
    row->status = ROW_WRONG;
    row->error = 3e-2;
    snprintf(row->why, sizeof row->why, "output off by 0.03, allowed 1e-04");
    kernels_take(&k->row[0], row);
    assert_int_equal(k->row[0].state, KERNEL_WRONG);
    assert_true(k->row[0].error == 3e-2);
    assert_true(isnan(k->row[0].ms));
    shared_drop(k);
    record_free(&rec);
    case_list_free(&l);
}

// Every recurrence of bench is found by the shape of its steps, and only by that.
static void shapes_have_one_operation(void **state) {
    (void)state;
    static const struct {
        head_shape s;
        const char *op;
    } all[] = {
        {{.decay = DECAY_NONE, .erase = ERASE_NONE, .n_h = 1}, "linear"},
        {{.decay = DECAY_CHANNEL, .erase = ERASE_NONE, .n_h = 1}, "gla"},
        {{.decay = DECAY_HEAD, .erase = ERASE_NONE, .n_h = 1}, "mamba2"},
        {{.decay = DECAY_NONE, .erase = ERASE_KEY, .n_h = 1}, "deltanet"},
        {{.decay = DECAY_HEAD, .erase = ERASE_KEY, .n_h = 1}, "gdn"},
        {{.decay = DECAY_NONE, .erase = ERASE_KEY, .n_h = 3}, "deltaproduct"},
        {{.decay = DECAY_HEAD, .erase = ERASE_KEY, .n_h = 2}, "gdeltaproduct"},
        {{.decay = DECAY_CHANNEL, .erase = ERASE_KEY, .n_h = 1}, "kda"},
        {{.decay = DECAY_HEAD, .erase = ERASE_PAIR, .n_h = 1}, "comba"},
        {{.decay = DECAY_CHANNEL, .erase = ERASE_PAIR, .n_h = 1}, "rwkv7"},
        {{.decay = DECAY_NONE, .erase = ERASE_PAIR, .n_h = 1}, NULL},
        {{.decay = DECAY_CHANNEL, .erase = ERASE_KEY, .n_h = 2}, NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const bench_op *op = bench_op_of_shape(&all[i].s);
        if (!all[i].op)
            assert_null(op);
        else
            assert_string_equal(op ? op->name : "none", all[i].op);
    }
}

static void the_suite_of_a_model_is_the_panel(void **state) {
    (void)state;
    const char *argv[] = {"bench", "--suite", "shapes", "--model", MODEL, "--list", NULL};
    run r = {.argv = argv, .env = dash_utf8, .timeout = 60};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    holds(r.out, "deltaproduct.B1.T512.H4.K32.V32.n2.beta2.f32.cpu\n");
    holds(r.out, "deltaproduct.B1.T1.H4.K32.V32.n2.beta2.f32.cpu\n");
    holds(r.out, "loss.B1.T128.D128.vocab2048.f32.cpu\n");
    run_free(&r);
    const char *none[] = {"bench", "--suite", "shapes", NULL};
    r = (run){.argv = none, .env = dash_utf8, .timeout = 60};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 2);
    holds(r.err, "suite shapes: --model is missing");
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_beside_a_pass_and_numbers_with_the_clock_only),
        cmocka_unit_test(a_stop_keeps_what_is_measured_and_other_wishes_come_first),
        cmocka_unit_test(a_model_alone_has_kernels_and_their_export_names_bench),
        cmocka_unit_test(a_wrong_kernel_shows_its_error_and_no_time),
        cmocka_unit_test(shapes_have_one_operation),
        cmocka_unit_test(the_suite_of_a_model_is_the_panel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
