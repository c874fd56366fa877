#include "core/text.h"

#include <limits.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *escaped(const char *s, size_t n, size_t size) {
    static char buf[256];
    return text_escape(s, n, buf, size);
}

// B87
static void what_could_harm_a_terminal_is_escaped(void **state) {
    (void)state;
    assert_string_equal(escaped("a\x1b[31m\n\t\0\x7f", 9, 256), "a\\x1b[31m\\x0a\\x09\\x00");
    assert_string_equal(escaped("\x7f", 1, 256), "\\x7f");
    assert_string_equal(escaped("\xc2\x9b", 2, 256), "\\u{009b}");
    assert_string_equal(escaped("\xe2\x80\xae", 3, 256), "\\u{202e}");
    assert_string_equal(escaped("a\\b", 3, 256), "a\\\\b");
}

static void printable_utf8_stays(void **state) {
    (void)state;
    const char *s = "Gr\xc3\xb6\xc3\x9f"
                    "e \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x8c\x8d";
    assert_string_equal(escaped(s, strlen(s), 256), s);
}

static void bytes_that_are_not_utf8_are_shown_one_by_one(void **state) {
    (void)state;
    assert_string_equal(escaped("\xff\xc3", 2, 256), "\\xff\\xc3");
    assert_string_equal(escaped("\xc0\xaf", 2, 256), "\\xc0\\xaf");          // overlong
    assert_string_equal(escaped("\xed\xa0\x80", 3, 256), "\\xed\\xa0\\x80"); // surrogate
    assert_string_equal(escaped("\xf4\x90\x80\x80", 4, 256), "\\xf4\\x90\\x80\\x80");
    assert_string_equal(escaped("\xe6\x97", 2, 256), "\\xe6\\x97");
}

static void long_text_is_cut_between_characters(void **state) {
    (void)state;
    assert_string_equal(escaped("abcdefghij", 10, 8), "abcd...");
    assert_string_equal(escaped("abcdefg", 7, 8), "abcdefg");
    assert_string_equal(escaped("abc\xc3\xb6xyz", 8, 8), "abc...");
    assert_string_equal(escaped("\x1b\x1b\x1b", 3, 8), "\\x1b...");
    assert_string_equal(escaped("abcdef", 6, 3), "..");
    assert_string_equal(escaped("abcdef", 6, 1), "");
    for (size_t size = 1; size < 40; size++) // never beyond the room it has
        assert_true(strlen(escaped("a\x1b\xc3\xb6\xff\\bcdefghijklm", 18, size)) < size);
}

static void eight_names_fit_in_one_message(void **state) {
    (void)state;
    const char *p[8];
    char s[2] = "a";
    for (int i = 0; i < 8; i++, s[0]++)
        p[i] = text_show(s);
    for (int i = 0; i < 8; i++)
        assert_int_equal(p[i][0], 'a' + i);
}

static void runs_of_digits_compare_as_numbers(void **state) {
    (void)state;
    static const char *const sorted[] = {"",
                                         "a",
                                         "layers.2.a",
                                         "layers.2.b",
                                         "layers.10",
                                         "layers.10.",
                                         "layers.100000000000000000000",
                                         "layers.x",
                                         "layerz"};
    enum { N = sizeof sorted / sizeof *sorted };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            assert_int_equal(text_natural_cmp(sorted[i], sorted[j]), (i > j) - (i < j));
    assert_int_not_equal(text_natural_cmp("a07", "a7"), 0); // different names are never equal
    assert_int_equal(text_natural_cmp("a07", "a7"), -text_natural_cmp("a7", "a07"));
    assert_true(text_natural_cmp("a07b", "a7c") < 0);
}

static void distance_counts_edits_up_to_its_limit(void **state) {
    (void)state;
    assert_int_equal(text_distance("kitten", "sitting", 10), 3);
    assert_int_equal(text_distance("kitten", "sitting", 2), 3);
    assert_int_equal(text_distance("", "abc", 5), 3);
    assert_int_equal(text_distance("abc", "abc", 0), 0);
    assert_int_equal(text_distance("flaw", "lawn", 5), 2);
    assert_int_equal(text_distance("a", "bcdefgh", 3), 4);
}

// B90
static void numbers_do_not_follow_the_locale(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        print_message("SKIP: no locale de_DE.UTF-8\n");
        skip();
    }
    char buf[64];
    snprintf(buf, sizeof buf, "%g", 0.5);
    assert_string_equal(buf, "0,5"); // the locale is really on
    text_real(0.5, 6, buf, sizeof buf);
    assert_string_equal(buf, "0.5");
    double x = 0;
    assert_true(text_number("0.5", &x));
    assert_true(x == 0.5);
    assert_false(text_number("0,5", &x));
    snprintf(buf, sizeof buf, "%g", 0.5);
    assert_string_equal(buf, "0,5"); // and still on
    setlocale(LC_ALL, "C");
}

static void a_number_is_the_whole_text(void **state) {
    (void)state;
    double x = 7;
    assert_false(text_number("", &x));
    assert_false(text_number("1.5x", &x));
    assert_false(text_number("1 ", &x));
    assert_false(text_number(" 1", &x));
    assert_false(text_number("\t1", &x));
    assert_false(text_number("0x10", &x));
    assert_false(text_number("-0X1p3", &x));
    assert_true(x == 7);
    assert_true(text_number("-1.5e3", &x) && x == -1500);
    assert_true(text_number("inf", &x) && x > 1e308);
    char buf[64];
    text_real(-(0.0 / 0.0), 6, buf, sizeof buf);
    assert_string_equal(buf, "nan");
    text_real(1.0 / 3, 17, buf, sizeof buf);
    assert_true(text_number(buf, &x) && x == 1.0 / 3); // 17 digits hold every double
}

// B69; cases of the Unicode standard, chapter 3.9, tables 3-8 to 3-11
static void bad_utf8_is_counted_by_maximal_parts(void **state) {
    (void)state;
    static const struct {
        const char *s;
        size_t bad;
    } cases[] = {
        {"plain text of more than eight bytes", 0},
        {"\xe6\x97\xa5\xf0\x9f\x8c\x8d\xc3\xb6", 0},
        {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 8},
        {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 8},
        {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 7},
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 4},
        {"ab\xe6\x97", 1},
        {"12345678\xff"
         "12345678\x80",
         2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(text_utf8_bad(cases[i].s, strlen(cases[i].s)), cases[i].bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_could_harm_a_terminal_is_escaped),
        cmocka_unit_test(printable_utf8_stays),
        cmocka_unit_test(bytes_that_are_not_utf8_are_shown_one_by_one),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(eight_names_fit_in_one_message),
        cmocka_unit_test(runs_of_digits_compare_as_numbers),
        cmocka_unit_test(distance_counts_edits_up_to_its_limit),
        cmocka_unit_test(numbers_do_not_follow_the_locale),
        cmocka_unit_test(a_number_is_the_whole_text),
        cmocka_unit_test(bad_utf8_is_counted_by_maximal_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
