#include "core/config.h"
#include "core/mem.h"
#include "tests/files.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *file(void) {
    return files_path("config.json");
}

static config *given(const char *text) {
    err e = {0};
    files_text(file(), text);
    config *c = config_open(files_folder(), &e);
    if (!c)
        fail_msg("%s", e.text);
    return c;
}

static void refused(const char *text, err_code code, const char *want) {
    err e = {0};
    files_text(file(), text);
    assert_null(config_open(files_folder(), &e));
    files_assert_error(&e, code, "%s: %s", file(), want);
}

static void values_are_read_with_their_defaults(void **state) {
    (void)state;
    config *c = given("{\"hidden_size\":64,\"eps\":1e-6,\"tie\":true,\"model_type\":\"delta_net\","
                      "\"whole\":16.0,\"int_eps\":1}");
    int64_t i = 0;
    double r = 0;
    bool b = false;
    const char *s = NULL;
    err e = {0};
    assert_string_equal(config_path(c), file());
    assert_true(config_int(c, "hidden_size", 1, 1000, &i, &e) && i == 64);
    assert_true(config_int(c, "whole", 1, 1000, &i, &e) && i == 16);
    assert_true(config_int_or(c, "absent", 1, 1000, 7, &i, &e) && i == 7);
    assert_true(config_real_or(c, "eps", 5, &r, &e) && r == 1e-6);
    assert_true(config_real_or(c, "int_eps", 5, &r, &e) && r == 1);
    assert_true(config_real_or(c, "absent", 5, &r, &e) && r == 5);
    assert_true(config_bool_or(c, "tie", false, &b, &e) && b);
    assert_true(config_bool_or(c, "absent", true, &b, &e) && b);
    assert_true(config_text_or(c, "model_type", "?", &s, &e));
    assert_string_equal(s, "delta_net");
    assert_true(config_text_or(c, "absent", "?", &s, &e));
    assert_string_equal(s, "?");
    assert_int_equal(e.code, ERR_NONE);
    config_close(c);
    config_close(NULL);
}

static void b24_null_is_as_good_as_absent_and_never_zero(void **state) {
    (void)state;
    config *c = given("{\"hidden_size\":null,\"num_heads\":null}");
    int64_t i = -5;
    err e = {0};
    assert_false(config_has(c, "hidden_size"));
    assert_null(config_json(c, "hidden_size"));
    assert_false(config_int(c, "hidden_size", 1, 1000, &i, &e));
    files_assert_error(&e, ERR_MISSING, "%s: hidden_size is null, need a whole number", file());
    err_clear(&e);
    assert_false(config_int(c, "vocab_size", 1, 1000, &i, &e));
    files_assert_error(&e, ERR_MISSING, "%s: vocab_size is absent, need a whole number", file());
    assert_int_equal(i, -5);
    err_clear(&e);
    assert_true(config_int_or(c, "num_heads", 1, 1000, 4, &i, &e) && i == 4);
    config_close(c);
}

// B21: both spellings may be asked for, and one that only is there answers.
static void b21_old_and_new_names_can_both_be_asked_for(void **state) {
    (void)state;
    config *c = given("{\"use_gate\":false}");
    bool b = true;
    err e = {0};
    assert_false(config_has(c, "use_output_gate"));
    assert_true(config_has(c, "use_gate"));
    assert_true(config_bool_or(c, "use_gate", true, &b, &e) && !b);
    config_close(c);
}

static void wrong_types_and_ranges_are_named(void **state) {
    (void)state;
    config *c =
        given("{\"hidden_size\":\"big\",\"heads\":2.5,\"eps\":\"1e-6\",\"tie\":1,\"type\":[],"
              "\"layers\":-3,\"sub\":4,\"huge\":1e30}");
    int64_t i = -5;
    double r;
    bool b;
    const char *s, *f = file();
    err e = {0};
    assert_false(config_int(c, "hidden_size", 1, 1000, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: hidden_size is \"big\", need a whole number", f);
    err_clear(&e);
    assert_false(config_int(c, "heads", 1, 1000, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: heads is 2.5, need a whole number", f);
    err_clear(&e);
    assert_false(config_int(c, "huge", 1, INT64_MAX, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: huge is 1e+30, need a whole number", f);
    err_clear(&e);
    assert_false(config_int_or(c, "layers", 1, 1000, 3, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: layers is -3, need a number from 1 to 1000", f);
    err_clear(&e);
    assert_false(config_int_or(c, "layers", 0, INT64_MAX, 3, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: layers is -3, need 0 or more", f);
    err_clear(&e);
    assert_false(config_real_or(c, "eps", 1, &r, &e));
    files_assert_error(&e, ERR_INPUT, "%s: eps is \"1e-6\", need a number", f);
    err_clear(&e);
    assert_false(config_bool_or(c, "tie", true, &b, &e));
    files_assert_error(&e, ERR_INPUT, "%s: tie is 1, need true or false", f);
    err_clear(&e);
    assert_false(config_text_or(c, "type", "", &s, &e));
    files_assert_error(&e, ERR_INPUT, "%s: type is an array, need a string", f);
    err_clear(&e);
    assert_null(config_child(c, "sub", &e));
    files_assert_error(&e, ERR_INPUT, "%s: sub is 4, need an object", f);
    assert_int_equal(i, -5);
    config_close(c);
}

static void a_child_answers_with_its_own_name(void **state) {
    (void)state;
    config *c =
        given("{\"text_config\":{\"hidden_size\":\"x\",\"attn\":{\"n\":\"y\"}},\"other\":null}");
    int64_t i;
    err e = {0};
    config *t = config_child(c, "text_config", &e), *a = config_child(t, "attn", &e);
    assert_null(config_child(c, "other", &e));
    assert_null(config_child(c, "absent", &e));
    assert_int_equal(e.code, ERR_NONE);
    config_close(c); // children live on
    assert_false(config_int(t, "hidden_size", 1, 9, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: text_config.hidden_size is \"x\", need a whole number",
                       file());
    err_clear(&e);
    assert_false(config_int(a, "n", 1, 9, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: text_config.attn.n is \"y\", need a whole number",
                       file());
    config_close(a);
    config_close(t);
}

static void keys_that_nobody_asked_for_are_listed_sorted(void **state) {
    (void)state;
    config *c = given("{\"z\":1,\"b\":null,\"a\":2,\"used\":3}");
    int64_t i;
    err e = {0};
    const char *keys[8];
    assert_true(config_int(c, "used", 0, 9, &i, &e));
    assert_int_equal(config_unread(c, keys, 8), 3);
    assert_string_equal(keys[0], "a");
    assert_string_equal(keys[1], "b");
    assert_string_equal(keys[2], "z");
    config_has(c, "b");
    assert_int_equal(config_unread(c, keys, 8), 2);
    assert_int_equal(config_unread(c, keys, 0), 0);
    config_close(c);
}

static void what_is_not_an_object_of_json_is_refused_with_its_place(void **state) {
    (void)state;
    refused("", ERR_INPUT, "is empty, need JSON");
    refused("  \n ", ERR_INPUT, "is empty, need JSON");
    refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", ERR_INPUT,
            "is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder");
    refused("[1,2]", ERR_INPUT,
            "line 1, column 1: an array at the top, need an object of keys and values");
    refused("{\"a\":1} x", ERR_INPUT,
            "is not JSON at line 1, column 9 (byte 9): end of file expected near 'x'");
    refused("{\"a\":\n  oops}", ERR_INPUT,
            "is not JSON at line 2, column 6 (byte 12): invalid token near 'oops'");
    refused("{\"a\":1,\"a\":2}", ERR_INPUT, "holds the key \"a\" twice (line 1, column 10)");
    refused("{'a':1}", ERR_INPUT,
            "is not JSON at line 1, column 2 (byte 2): string or '}' expected near '''");
}

static void b36_infinity_is_read_in_three_spellings_where_a_limit_is_asked_for(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"time_step_limit\": [0.0, Infinity]}",
        "{\"time_step_limit\":[0.0,Infinity], \"other\": \"Infinity and \\\" Infinity\"}",
        "{\"time_step_limit\": [0, {\"__float__\": \"Infinity\"}]}",
        "{\"time_step_limit\": [0.0, \"Infinity\"]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double lo = 1, hi = 0;
        err e = {0};
        config *c = given(texts[i]);
        assert_true(config_limits_or(c, "time_step_limit", 0.5, 2, &lo, &hi, &e));
        assert_true(lo == 0 && hi == HUGE_VAL);
        assert_true(config_limits_or(c, "absent", 0.5, 2, &lo, &hi, &e));
        assert_true(lo == 0.5 && hi == 2);
        const char *other = NULL;
        assert_true(config_text_or(c, "other", "Infinity and \" Infinity", &other, &e));
        assert_string_equal(other, "Infinity and \" Infinity"); // words inside strings stay
        config_close(c);
    }
}

static void b36_infinity_is_refused_elsewhere_and_numbers_without_room_everywhere(void **state) {
    (void)state;
    int64_t n;
    double r, lo, hi;
    err e = {0};
    config *c = given("{\"eps\": Infinity, \"n\": Infinity, \"pair\": [Infinity, 1], \"three\": "
                      "[0, 1, 2], \"down\": [2, 1], \"below\": [-1, 1]}");
    assert_false(config_real_or(c, "eps", 1, &r, &e));
    files_assert_error(&e, ERR_INPUT, "%s: eps is Infinity, need a number", file());
    err_clear(&e);
    assert_false(config_int(c, "n", 1, 9, &n, &e));
    files_assert_error(&e, ERR_INPUT, "%s: n is Infinity, need a whole number", file());
    static const char *const bad[] = {"pair", "three", "down", "below", "eps"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&e);
        assert_false(config_limits_or(c, bad[i], 0, 1, &lo, &hi, &e));
        files_assert_error_holds(&e, ERR_INPUT, "need two numbers [low, high]");
    }
    config_close(c);
    refused("{\"a\": -Infinity}", ERR_INPUT,
            "is not JSON at line 1, column 7 (byte 7): invalid token near '-'");
    refused("{\"a\": Infinity5}", ERR_INPUT,
            "is not JSON at line 1, column 14 (byte 14): invalid token near 'Infinity'");
    refused("{\"a\": Infinity, b}", ERR_INPUT, // what stands behind the word keeps its column
            "is not JSON at line 1, column 17 (byte 17): string or '}' expected near 'b'");
    refused("{\"a\": NaN}", ERR_INPUT,
            "is not JSON at line 1, column 9 (byte 9): invalid token near 'NaN'");
    refused("{\"a\": 1e400}", ERR_INPUT,
            "is not JSON at line 1, column 11 (byte 11): real number overflow near '1e400'");
}

static void the_file_is_found_beside_weights_and_by_its_own_name(void **state) {
    (void)state;
    config_close(given("{\"a\":1}"));
    err e = {0};
    const char *paths[] = {files_path("x.safetensors"), files_path("config.json"),
                           files_path("%s", "")};
    for (int k = 0; k < 3; k++) {
        config *c = config_open(paths[k], &e);
        assert_non_null(c);
        assert_true(config_has(c, "a"));
        config_close(c);
    }
    assert_null(config_open(files_path("absent/x.safetensors"), &e));
    files_assert_error(&e, ERR_MISSING, "%s: no such file or folder",
                       files_path("absent/config.json"));
}

static void a_file_without_end_is_refused(void **state) {
    (void)state;
    size_t n = (16 << 20) + 1;
    char *big = malloc(n + 1);
    memset(big, ' ', n);
    big[n] = 0;
    refused(big, ERR_INPUT, "more than 16777216 bytes");
    free(big);
    err e = {0};
    assert_null(config_open("/dev/zero", &e));
    files_assert_error(&e, ERR_INPUT, "/dev/zero: is a device or socket, need a regular file");
}

static void b90_numbers_do_not_follow_the_locale(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        print_message("SKIP: no locale de_DE.UTF-8\n");
        skip();
    }
    config *c = given("{\"eps\":0.5,\"n\":2.5}");
    double r = 0;
    int64_t i;
    err e = {0};
    assert_true(config_real_or(c, "eps", 0, &r, &e) && r == 0.5);
    assert_false(config_int(c, "n", 0, 9, &i, &e));
    files_assert_error(&e, ERR_INPUT, "%s: n is 2.5, need a whole number", file());
    config_close(c);
    setlocale(LC_ALL, "C");
}

static void running_out_of_memory_is_an_error_at_every_point(void **state) {
    (void)state;
    config_close(given("{\"sub\":{\"a\":1}}"));
    bool done = false;
    for (long n = 1; !done; n++) {
        err e = {0};
        mem_fail_after(n);
        config *c = config_open(files_folder(), &e);
        config *s = c ? config_child(c, "sub", &e) : NULL;
        mem_fail_after(0);
        done = s != NULL;
        if (!done)
            assert_int_equal(e.code, ERR_NOMEM);
        config_close(s);
        config_close(c);
    }
    done = false;
    for (long n = 1; !done; n++) {
        err e = {0};
        files_json_fail_after(n);
        config *c = config_open(files_folder(), &e);
        files_json_fail_after(0);
        done = c != NULL;
        if (!done)
            assert_int_not_equal(e.code, ERR_NONE);
        config_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_with_their_defaults),
        cmocka_unit_test(b24_null_is_as_good_as_absent_and_never_zero),
        cmocka_unit_test(b21_old_and_new_names_can_both_be_asked_for),
        cmocka_unit_test(wrong_types_and_ranges_are_named),
        cmocka_unit_test(a_child_answers_with_its_own_name),
        cmocka_unit_test(keys_that_nobody_asked_for_are_listed_sorted),
        cmocka_unit_test(what_is_not_an_object_of_json_is_refused_with_its_place),
        cmocka_unit_test(b36_infinity_is_read_in_three_spellings_where_a_limit_is_asked_for),
        cmocka_unit_test(b36_infinity_is_refused_elsewhere_and_numbers_without_room_everywhere),
        cmocka_unit_test(the_file_is_found_beside_weights_and_by_its_own_name),
        cmocka_unit_test(a_file_without_end_is_refused),
        cmocka_unit_test(b90_numbers_do_not_follow_the_locale),
        cmocka_unit_test(running_out_of_memory_is_an_error_at_every_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
