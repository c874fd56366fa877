// cli/watch/scan.h: steps from names; which checkpoints are there, and whether they are whole.
#include "cli/watch/scan.h"
#include "tests/files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void the_step_is_read_from_the_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t step;
    } want[] = {
        {"checkpoint-1000", 1000},
        {"step_2000", 2000},
        {"global_step150", 150},
        {"epoch_3_step_1200", 1200},
        {"step-2000-dp3", 2000},
        {"checkpoint-500-merged", 500},
        {"iter_0000042", 42},
        {"step-10k", 10000},
        {"steps=7", 7},
        {"tokens-2B", 2000000000},
        {"1.3b-ckpt-64", 64},
        {"final", -1},
        {"run7", 7},
        {"Step12", 12},
        {"0", 0},
        {"step-99999999999999999999", -1},
        {"checkpoint-5kitten", 5},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (watch_step(want[i].name) != want[i].step)
            fail_msg("%s: step %lld, not %lld", want[i].name, (long long)watch_step(want[i].name),
                     (long long)want[i].step);
}

static const char header[] =
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}    ";

static void ckpt_at(const char *folder, size_t bytes) {
    char path[600];
    float w[4] = {1, 2, 3, 4};
    mkdir(folder, 0777); // it may be there
    snprintf(path, sizeof path, "%s/config.json", folder);
    files_text(path, "{}");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    files_safetensors(path, header, w, bytes);
}

static void grow_old(const char *path) {
    struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static void ckpt_grows_old(const char *folder) {
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", folder);
    grow_old(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    grow_old(path);
}

static void scan(watch_list *l, const char *dir, double now) {
    err e = {0};
    if (!watch_scan(l, dir, 10, now, &e))
        fail_msg("%s", e.text);
}

static void checkpoints_come_in_the_order_of_their_steps(void **state) {
    (void)state;
    char run[512];
    snprintf(run, sizeof run, "%s", files_path("run"));
    files_mkdir(run);
    static const char *const names[] = {"step-10k",       "checkpoint-9000", "final",
                                        "checkpoint-800", ".hidden-step",    "tmp-checkpoint-1",
                                        "step-5.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ckpt_at(files_path("run/%s", names[i]), 16);
    files_mkdir(files_path("run/logs")); // no checkpoint, and one level more
    files_mkdir(files_path("run/logs/deep"));
    ckpt_at(files_path("run/logs/deep/step-1"), 16);
    files_mkdir(files_path("run/more"));
    ckpt_at(files_path("run/more/step-70"), 16);
    assert_int_equal(symlink("checkpoint-800", files_path("run/latest")), 0);
    watch_list l = {0};
    scan(&l, run, 1);
    static const char *const want[] = {"step-70", "checkpoint-800", "checkpoint-9000", "step-10k",
                                       "final"};
    assert_int_equal(l.n, 5);
    for (size_t i = 0; i < 5; i++) {
        if (strcmp(strrchr(l.v[i].path, '/') + 1, want[i]) != 0)
            fail_msg("place %zu: %s, not %s", i, l.v[i].path, want[i]);
        assert_false(l.v[i].whole); // their files are a moment old
        assert_non_null(strstr(l.v[i].why, "still being written to"));
    }
    scan(&l, run, 12);
    for (size_t i = 0; i < l.n; i++)
        assert_true(l.v[i].whole);
    watch_list_free(&l);
}

// Each way in which a checkpoint can be half there.
static void a_half_written_checkpoint_is_not_whole(void **state) {
    (void)state;
    char run[512];
    snprintf(run, sizeof run, "%s", files_path("half"));
    files_mkdir(run);
    ckpt_at(files_path("half/step-1"), 12); // 4 bytes short
    ckpt_at(files_path("half/step-2"), 16);
    unlink(files_path("half/step-2/config.json"));
    ckpt_at(files_path("half/step-3"), 16);
    files_text(files_path("half/step-3/config.json"), "{\"hidden_size\": ");
    ckpt_at(files_path("half/step-4"), 16);
    files_write(files_path("half/step-4/model.safetensors"), "\x40\0\0\0\0\0\0\0{\"w\"", 12);
    ckpt_at(files_path("half/step-5"), 16);
    files_text(files_path("half/step-5/model.safetensors.index.json"),
               "{\"metadata\":{},\"weight_map\":{\"w\":\"model-00001-of-00002.safetensors\"}}");
    files_mkdir(files_path("half/step-6"));
    files_text(files_path("half/step-6/config.json"), "{}"); // weights come later
    watch_list l = {0};
    scan(&l, run, 1);
    scan(&l, run, 1000);
    assert_int_equal(l.n, 6);
    for (size_t i = 0; i < l.n; i++) {
        if (l.v[i].whole)
            fail_msg("%s counts as whole", l.v[i].path);
        printf("    %s\n", l.v[i].why);
        assert_true(l.v[i].why[0]);
    }
    // The first one is finished: it is looked at anew, and only after it has settled.
    ckpt_at(files_path("half/step-1"), 16);
    scan(&l, run, 1001);
    assert_false(l.v[0].whole);
    scan(&l, run, 1009);
    assert_false(l.v[0].whole);
    scan(&l, run, 1012);
    assert_true(l.v[0].whole);
    watch_list_free(&l);
}

static void old_files_need_no_second_look_and_changed_ones_are_treated_again(void **state) {
    (void)state;
    char run[512];
    snprintf(run, sizeof run, "%s", files_path("old"));
    files_mkdir(run);
    ckpt_at(files_path("old/step-1"), 16);
    ckpt_grows_old(files_path("old/step-1"));
    watch_list l = {0};
    scan(&l, run, 5);
    assert_int_equal(l.n, 1);
    assert_true(l.v[0].whole);
    l.v[0].treated = true;
    scan(&l, run, 6);
    assert_true(l.v[0].treated);
    ckpt_at(files_path("old/step-1"), 16);
    scan(&l, run, 7);
    assert_false(l.v[0].treated);
    assert_false(l.v[0].whole);
    // A trainer that keeps the last few takes others away.
    unlink(files_path("old/step-1/config.json"));
    unlink(files_path("old/step-1/model.safetensors"));
    assert_int_equal(rmdir(files_path("old/step-1")), 0);
    scan(&l, run, 8);
    assert_int_equal(l.n, 0);
    watch_list_free(&l);
}

static void a_model_by_itself_is_one_checkpoint(void **state) {
    (void)state;
    ckpt_at(files_path("alone"), 16);
    ckpt_grows_old(files_path("alone"));
    watch_list l = {0};
    char path[512];
    snprintf(path, sizeof path, "%s", files_path("alone"));
    scan(&l, path, 5);
    assert_int_equal(l.n, 1);
    assert_true(l.v[0].whole);
    watch_list_free(&l);
}

static void a_run_that_is_not_there_is_an_error(void **state) {
    (void)state;
    watch_list l = {0};
    err e = {0};
    assert_false(watch_scan(&l, "no/such", 1, 1, &e));
    files_assert_error(&e, ERR_MISSING, "no/such: no such folder");
    err_clear(&e);
    assert_false(watch_scan(&l, "README.md", 1, 1, &e));
    files_assert_error_holds(&e, ERR_INPUT, "need the folder of a training run");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_is_read_from_the_name),
        cmocka_unit_test(checkpoints_come_in_the_order_of_their_steps),
        cmocka_unit_test(a_half_written_checkpoint_is_not_whole),
        cmocka_unit_test(old_files_need_no_second_look_and_changed_ones_are_treated_again),
        cmocka_unit_test(a_model_by_itself_is_one_checkpoint),
        cmocka_unit_test(a_run_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
