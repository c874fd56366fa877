// docs/json.md explains every key that a command's JSON holds.
#include "tests/files.h"
#include "tests/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#define MODEL "examples/small-deltaproduct2"
#define TEXT  "examples/text_kjv.txt"

static char *page;
static int keys;

// A key stands in the section of its command, or in the two that are about all of them.
static void explained(const json_t *v, const char *command) {
    const char *key;
    json_t *x;
    size_t i;
    json_object_foreach((json_t *)v, key, x) {
        char mark[80];
        snprintf(mark, sizeof mark, "`%s`", key);
        const char *own = strstr(page, command), *next = own ? strstr(own + 1, "\n## ") : NULL;
        const char *common = strstr(page, "\n## `loss`"), *at = strstr(page, mark);
        assert_non_null(own);
        const char *here = strstr(own, mark);
        if (!(at && at < common) && !(here && (!next || here < next)))
            fail_msg("docs/json.md does not explain %s in \"%s\"", mark, command + 1);
        keys++;
        explained(x, command);
    }
    json_array_foreach(v, i, x) explained(x, command);
}

static void check(const char *command, const char *const *argv) {
    run r = {.argv = argv, .timeout = 60};
    assert_true(run_program(&r));
    if (r.code != 0)
        fail_msg("%s: exit code %d: %s", argv[0], r.code, r.err);
    json_t *v = json_loadb(r.out, r.n_out, 0, NULL);
    assert_non_null(v);
    char section[64];
    snprintf(section, sizeof section, "\n## `%s`", command);
    explained(v, section);
    json_decref(v);
    run_free(&r);
}

#define SAYS(command, ...) check(command, (const char *const[]){command, __VA_ARGS__, NULL})

static void every_key_is_explained(void **state) {
    (void)state;
    size_t n;
    const char *out = files_path("out");
    page = files_read("docs/json.md", &n);
    assert_non_null(page);
    SAYS("loss", MODEL, TEXT, "--json", "--length", "600", "--rows", "2", "--jump", "0.1");
    SAYS("erank", MODEL, TEXT, "--json", "--length", "600", "--every", "50", "--out", out);
    SAYS("spectrum", MODEL, TEXT, "--json", "--length", "64", "--windows", "1,4", "--samples", "2",
         "--cond");
    SAYS("tokens", MODEL, TEXT, "--json", "--length", "9");
    SAYS("tokens", MODEL, TEXT, "--json", "--length", "9", "--out", out);
    SAYS("parity", "tests/cases/golden/gdn-hybrid-swa", "--json");
    SAYS("inspect", MODEL, "--json", "--stats", "--dry-run");
    SAYS("inspect", "tests/cases/golden/gdn-hybrid-swa", "--json");
    SAYS("explain", "--table", "--json");
    SAYS("diff", MODEL, "examples/small-deltanet", TEXT, "--json", "--length", "64");
    SAYS("diff", MODEL, "examples/small-gated-deltaproduct2", "--json");
    const char *rules = files_path("rules.ini"), *facts = files_path("results.jsonl");
    files_text(rules, "loss(4k) < 3\n");
    files_text(facts, "{\"name\": \"loss\", \"value\": 2, \"model\": \"m\", \"position\": 4096}\n");
    SAYS("check", rules, facts, "--json");
    SAYS("check", rules, "--list", "--json");
    printf("measured %d keys in documents of JSON\n", keys);
    assert_true(keys > 2000);
    free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_key_is_explained)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
