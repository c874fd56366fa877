// `deltop check` as users run it: exit codes, text, JUnit XML, JSON, and that nothing is ever green
// because nothing was looked at.
#include "tests/files.h"
#include "tests/run.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHECK(code, ...) run_command(code, 20, "check", (const char *const[]){__VA_ARGS__, NULL})

#define FACT(name, value, at)                                                                      \
    "{\"name\": \"" name "\", \"value\": " value ", \"model\": \"a <b>\\u0007\\u00e9\", "          \
    "\"document\": \"d\", \"position\": " at "}\n"

static void exit_codes_follow_the_rules(void **state) {
    (void)state;
    char good[600], bad[600], results[600], base[600];
    snprintf(good, sizeof good, "%s", files_path("good.ini"));
    snprintf(bad, sizeof bad, "%s", files_path("bad.ini"));
    files_mkdir(files_path("run"));
    snprintf(results, sizeof results, "%s", files_path("run/results.jsonl"));
    snprintf(base, sizeof base, "%s", files_path("base.jsonl"));
    files_text(good, "ok = loss(4k) < 3\n");
    files_text(bad,
               "ok = loss(4k) < 3\ntoo \"much\" & = loss(8k) - loss(4k) < 0.1\nb = loss(4k) <= "
               "baseline\n");
    files_text(results, FACT("loss", "2.5", "4096") FACT("loss", "2.75", "8192"));
    files_text(base, FACT("loss", "2.5", "4096"));

    run r = CHECK(0, good, results);
    run_holds(r.out, "1 of 1 hold (1 model, 1 reading)\n");
    assert_null(strchr(r.out, '\a'));
    run_free(&r);
    r = CHECK(0, good, files_path("run"), "--all"); // a folder of report
    run_holds(r.out, "loss(4k) = 2.5, must be < 3");
    run_free(&r);
    r = CHECK(2, bad, results);
    run_holds(r.err, "line 3: rule \"b\" needs a baseline: give --baseline FILE");
    run_free(&r);
    const char *xml = files_path("rules.xml");
    r = CHECK(4, bad, results, "--baseline", base, "--junit", xml);
    run_holds(r.out, "BROKEN       too \"much\" &: a <b>\\x07\xc3\xa9 on d\n"
                     "             loss(8k) - loss(4k) = 0.25, must be < 0.1\n");
    run_holds(r.out, "2 of 3 hold, 1 broken (1 model, 1 reading)\n");
    run_free(&r);
    size_t n = 0;
    char *text = files_read(xml, &n);
    run_holds(text, "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\"");
    run_holds(text, "name=\"too &quot;much&quot; &amp; (a &lt;b&gt;\\x07\xc3\xa9 on d)\"");
    run_holds(
        text,
        "<failure type=\"BROKEN\" message=\"loss(8k) - loss(4k) = 0.25, must be &lt; 0.1\"/>");
    free(text);
    r = CHECK(4, bad, results, "--baseline", base, "--json");
    json_t *v = json_loads(r.out, 0, NULL);
    json_t *one = json_array_get(json_object_get(v, "rules"), 1);
    assert_true(json_is_false(json_object_get(v, "pass")));
    assert_int_equal(json_array_size(json_object_get(v, "rules")), 3);
    assert_string_equal(json_string_value(json_object_get(one, "verdict")), "broken");
    assert_true(json_number_value(json_object_get(one, "value")) == 0.25);
    assert_true(json_number_value(json_object_get(one, "bound")) == 0.1);
    json_decref(v);
    run_free(&r);
    r = CHECK(0, "--list", bad);
    run_holds(r.out, "token counts: 4096, 8192\n");
    run_free(&r);
}

static void nothing_checked_is_never_green(void **state) {
    (void)state;
    char rules[600], empty[600], rows[600];
    snprintf(rules, sizeof rules, "%s", files_path("r.ini"));
    snprintf(empty, sizeof empty, "%s", files_path("empty.jsonl"));
    snprintf(rows, sizeof rows, "%s", files_path("rows.jsonl"));
    files_text(rules, "ok = loss(4k) < 3\n");
    files_text(empty, "\n");
    files_text(rows, "{\"name\": \"loss\", \"value\": 1, \"model\": \"m\", \"row\": 0}\n");
    run r = CHECK(2, rules);
    run_holds(r.err, "rules and results are needed");
    run_free(&r);
    r = CHECK(1, rules, empty);
    run_holds(r.err, "the results hold no fact that rules are about");
    run_free(&r);
    r = CHECK(1, rules, rows);
    run_free(&r);
    r = CHECK(1, rules, files_path("absent.jsonl"));
    run_free(&r);
    r = CHECK(1, files_path("absent.ini"), rows);
    run_free(&r);
    r = CHECK(1, rules, rules); // not results
    run_holds(r.err, "r.ini: line 1 is not JSON");
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_follow_the_rules),
        cmocka_unit_test(nothing_checked_is_never_green),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
