// Names, folders, JSON and the list of files.
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/output.h"
#include "core/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/deltop-test-%ld", (long)getpid());
    return mkdir(root, 0700);
}

static int remove_root(void **state) {
    (void)state;
    char line[128];
    snprintf(line, sizeof line, "rm -rf '%s'", root);
    return system(line);
}

static void names_are(const char *const *path, const char *const *want, size_t n) {
    err e;
    err_clear(&e);
    char **name = names_of_paths(path, n, &e);
    assert_non_null(name);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(name[i], want[i]);
    names_free(name, n);
}

static void a_name_is_the_last_part_of_the_path(void **state) {
    (void)state;
    names_are((const char *[]){"runs/dp3/", "/a/b/c", "book.txt", "-", "x.jsonl",
                               "run7/model.safetensors", "run8/step100.safetensors", "ids.npy"},
              (const char *[]){"dp3", "c", "book", "stdin", "x", "run7", "step100", "ids"}, 8);
}

static void equal_names_get_their_parent_then_a_number(void **state) {
    (void)state;
    names_are((const char *[]){"a/final", "b/final", "c"},
              (const char *[]){"a-final", "b-final", "c"}, 3);
    names_are((const char *[]){"x/a/final", "y/a/final", "a/final"},
              (const char *[]){"a-final", "a-final-2", "a-final-3"}, 3);
    names_are((const char *[]){"m", "m"}, (const char *[]){"m", "m-2"}, 2);
    names_are((const char *[]){"a.txt", "a.jsonl"}, (const char *[]){"a", "a-2"}, 2);
}

static void a_name_is_safe_as_a_file_name(void **state) {
    (void)state;
    names_are(
        (const char *[]){"a b'c\n\"d", "x\xff\x80y", ".hidden", "caf\xc3\xa9", "z\xe2\x80\xaez"},
        (const char *[]){"a_b_c__d", "x__y", "_hidden", "caf\xc3\xa9", "z___z"}, 5);
    err e;
    err_clear(&e);
    char **name = names_of_paths((const char *[]){".", "/"}, 2, &e);
    assert_non_null(name);
    assert_true(name[0][0] && name[0][0] != '.'); // the name of the current folder
    assert_string_equal(name[1], "root");
    names_free(name, 2);
}

static void folders_are_created_with_their_parents(void **state) {
    (void)state;
    char path[256], file[256];
    err e;
    err_clear(&e);
    snprintf(path, sizeof path, "%s/a/b//c/", root);
    assert_true(output_make_folder(path, &e));
    assert_true(output_make_folder(path, &e)); // again is fine
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    snprintf(file, sizeof file, "%s/plain", root);
    close(open(file, O_CREAT | O_WRONLY, 0666));
    snprintf(path, sizeof path, "%s/plain/deeper", root);
    assert_false(output_make_folder(path, &e)); // B100
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "plain is a file"));
    err_clear(&e);
    assert_false(output_make_folder("/proc/nothing/here", &e));
    assert_non_null(strstr(e.text, "/proc/nothing"));
}

static const command trial = {.name = "trial", .usage = "", .example = "", .takes = TAKES_ALL};

static void arrays_of_several_models_lie_in_folders(void **state) {
    (void)state;
    const char *models[] = {"a/m1", "a/m2"}, *documents[] = {"book.txt"};
    options o = {.command = &trial,
                 .device = "auto",
                 .out = root,
                 .model = models,
                 .document = documents,
                 .n_models = 2,
                 .n_documents = 1};
    err e;
    err_clear(&e);
    output *x = output_open(&o, &e);
    char want[256], *p = output_array_path(x, 1, 0, "loss.npy", &e);
    snprintf(want, sizeof want, "%s/m2/book/loss.npy", root);
    assert_string_equal(p, want);
    free(p);
    snprintf(want, sizeof want, "%s/m2/book", root);
    assert_int_equal(access(want, F_OK), 0);
    p = output_path(x, "loss.png", &e);
    snprintf(want, sizeof want, "%s/loss.png", root);
    assert_string_equal(p, want);
    free(p);
    output_free(x);
    o.n_models = 1;
    x = output_open(&o, &e);
    p = output_array_path(x, 0, 0, "loss.npy", &e);
    snprintf(want, sizeof want, "%s/loss.npy", root);
    assert_string_equal(p, want);
    free(p);
    output_free(x);
    o.out = NULL;
    x = output_open(&o, &e);
    assert_null(output_path(x, "loss.npy", &e));
    assert_int_equal(e.code, ERR_NONE);
    output_free(x);
}

static void B87_any_bytes_become_a_json_string(void **state) {
    (void)state;
    static const char *const in[] = {"plain", "q\"uo\nte\\", "caf\xc3\xa9", "x\xff\\y", "\xc3", ""};
    static const char *const want[] = {"plain",       "q\"uo\nte\\", "caf\xc3\xa9",
                                       "x\\xff\\\\y", "\\xc3",       ""};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        json_t *v = output_json_text(in[i]);
        assert_string_equal(json_string_value(v), want[i]);
        json_decref(v);
    }
    json_t *v = output_json_bytes("a\0\xff", 3);
    assert_int_equal(json_string_length(v), 6);
    json_decref(v);
}

static void B87_a_hostile_path_makes_json_that_parses(void **state) {
    (void)state;
    const char *models[] = {"we\"ird\n\xff\xc3name"};
    options o = {.command = &trial, .device = "auto", .out = root, .model = models, .n_models = 1};
    err e;
    err_clear(&e);
    output *x = output_open(&o, &e);
    json_t *v = output_head(x);
    json_object_set_new(v, "nan", output_json_real(NAN));
    json_object_set_new(v, "half", output_json_real(0.5));
    assert_true(output_finish(x, "trial.json", v, &e));
    output_free(x);
    char path[128];
    snprintf(path, sizeof path, "%s/trial.json", root);
    json_error_t je;
    json_t *back = json_load_file(path, 0, &je);
    assert_non_null(back);
    json_t *m = json_array_get(json_object_get(back, "models"), 0);
    assert_string_equal(json_string_value(json_object_get(m, "path")), "we\"ird\n\\xff\\xc3name");
    assert_true(json_is_null(json_object_get(back, "nan")));
    assert_string_equal(json_string_value(json_object_get(back, "device_asked")), "auto"); // B99
    assert_string_equal(json_string_value(json_object_get(back, "device")), "cpu");
    json_decref(back);
}

static void B90_json_numbers_have_a_point_in_every_locale(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("SKIP: no locale de_DE.UTF-8 on this machine\n");
        skip();
    }
    options o = {.command = &trial, .device = "auto", .out = root};
    err e;
    err_clear(&e);
    output *x = output_open(&o, &e);
    json_t *v = json_object();
    json_object_set_new(v, "half", output_json_real(0.5));
    assert_true(output_finish(x, "comma.json", v, &e));
    output_free(x);
    setlocale(LC_ALL, "C");
    char path[128], text[128] = "";
    snprintf(path, sizeof path, "%s/comma.json", root);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "{\n \"half\": 0.5\n}\n");
}

static void B100_a_file_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    options o = {.command = &trial, .device = "auto", .out = root};
    err e;
    err_clear(&e);
    output *x = output_open(&o, &e);
    char path[128];
    snprintf(path, sizeof path, "%s/taken.json", root);
    mkdir(path, 0777);
    assert_false(output_finish(x, "taken.json", json_object(), &e));
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "taken.json"));
    output_free(x);
}

// "wrote" and what follows it of `n` files, as standard output gets it.
static void wrote(const char *const *file, size_t n, const char *want) {
    options o = {.command = &trial, .device = "auto", .out = root};
    char path[128], text[512] = "";
    snprintf(path, sizeof path, "%s/wrote.txt", root);
    output *x = output_open(&o, NULL);
    for (size_t i = 0; i < n; i++)
        assert_true(output_wrote(x, file[i], NULL));
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    assert_non_null(freopen(path, "w", stdout));
    assert_true(output_finish(x, NULL, json_object(), NULL));
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t got = fread(text, 1, sizeof text - 1, f);
    text[got] = 0;
    fclose(f);
    assert_string_equal(text, want);
    output_free(x);
}

static void files_are_listed_one_line_a_folder(void **state) {
    (void)state;
    const char *files[] = {"o/a/x.npy", "o/a/y.npy", "o/b/x.npy", "o/all.csv", "o/all.png"};
    wrote(files, 5, "wrote o/a/x.npy, y.npy\n      o/b/x.npy\n      o/all.csv, all.png\n");
    wrote(files, 0, "");
    const char *bare[] = {"x", "y"};
    wrote(bare, 2, "wrote x, y\n");
}

static void every_failing_allocation_is_an_error(void **state) {
    (void)state;
    const char *models[] = {"a/m", "b/m"}, *documents[] = {"d", "-"};
    options o = {.command = &trial,
                 .device = "auto",
                 .out = root,
                 .model = models,
                 .document = documents,
                 .n_models = 2,
                 .n_documents = 2};
    for (long n = 1; n < 100; n++) {
        err e;
        err_clear(&e);
        mem_fail_after(n);
        output *x = output_open(&o, &e);
        char *p = x ? output_array_path(x, 0, 0, "x.npy", &e) : NULL;
        bool ok = p && output_wrote(x, p, &e);
        mem_fail_after(0);
        free(p);
        output_free(x);
        if (ok)
            return;
        assert_int_equal(e.code, ERR_NOMEM);
    }
    fail_msg("never succeeded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_the_last_part_of_the_path),
        cmocka_unit_test(equal_names_get_their_parent_then_a_number),
        cmocka_unit_test(a_name_is_safe_as_a_file_name),
        cmocka_unit_test(folders_are_created_with_their_parents),
        cmocka_unit_test(arrays_of_several_models_lie_in_folders),
        cmocka_unit_test(B87_any_bytes_become_a_json_string),
        cmocka_unit_test(B87_a_hostile_path_makes_json_that_parses),
        cmocka_unit_test(B90_json_numbers_have_a_point_in_every_locale),
        cmocka_unit_test(B100_a_file_that_cannot_be_written_is_an_error),
        cmocka_unit_test(files_are_listed_one_line_a_folder),
        cmocka_unit_test(every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
