// Wishes that change while the worker computes (dashboard check 12): old numbers stand, marked as stale,
// until the new ones take their place whole; a hundred changes end where a fresh start would be.
//
// `make run-tsan` runs this against a program built with the thread sanitizer, whose reports end it with
// another exit code.
#include "tests/dash_play.h"
#include "tests/files.h"
#include "tests/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define OTHER "examples/small-deltanet"
#define TEXT  "examples/text_kjv.txt"

// Equal but for what says that heads are off: the mark of the head and the word stale.
static void same_numbers(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        if (*b == 'x' && *a == ' ') // behind the value of a head that is off
            continue;
        if (*a != *b)
            fail_msg("the numbers differ at:\n%.60s\n%.60s", a, b);
    }
}

// The grid's rows of numbers.
static char *grid(const char *folder, const char *name) {
    char *text = frame(folder, name), *out = calloc(1, strlen(text) + 1);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, " L", 2) == 0)
            strcat(strcat(out, line), "\n");
    free(text);
    if (!strstr(out, "L3"))
        fail_msg("no grid in frame %s", name);
    return out;
}

static void old_numbers_stand_whole_until_new_ones_do(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s", files_path("mixed"));
    // The pass without the head is held before the cursor: everything on screen is still the old run's.
    run r = play(0,
                 "wait idle\nframe before\nhold 512\nkey x\nexpect stale\nframe at-once\n"
                 "wait msg off: reading\nexpect stale\nframe held\n"
                 "go\nwait idle\nreject stale\nframe off\n",
                 folder,
                 LIST(MODEL, TEXT, "--length", "2k", "--at", "1500", "--panels", "1", "--threads",
                      "1", "--snapshot", "24x80"));
    run_free(&r);
    r = play(0, "wait idle\nframe fresh\n", folder,
             LIST(MODEL, TEXT, "--length", "2k", "--at", "1500", "--panels", "1", "--threads", "1",
                  "--snapshot", "24x80", "--ablate", "L0.H0"));
    run_free(&r);
    char *before = grid(folder, "001-before"), *at_once = grid(folder, "002-at-once"),
         *held = grid(folder, "003-held"), *off = grid(folder, "004-off"),
         *fresh = grid(folder, "001-fresh");
    same_numbers(before, at_once);
    same_numbers(before, held);
    assert_string_equal(off, fresh);
    assert_string_not_equal(off, before);
    free(before);
    free(at_once);
    free(held);
    free(off);
    free(fresh);
}

enum { CHANGES = 100 };

static void a_hundred_changes_end_where_a_fresh_start_is(void **state) {
    (void)state;
    static const char *const change[] = {"key x",
                                         "key X",
                                         "cmd head L1.H2",
                                         "cmd head L3.H0",
                                         "cmd goto 300",
                                         "cmd goto 900",
                                         "key w",
                                         "key W",
                                         "key m",
                                         "key Space",
                                         "key U",
                                         "key +",
                                         "key _",
                                         "key Z Z",
                                         "cmd metric rho",
                                         "cmd metric beta",
                                         "key 4",
                                         "key 7",
                                         "cmd reload\nkey ^C R",
                                         "resize 40x120",
                                         "resize 20x60",
                                         "key R",
                                         "key 9",
                                         "cmd bench",
                                         "cmd ablate L2.H1,L0.H3",
                                         "cmd reload",
                                         "frame changing",
                                         "key c",
                                         "key F",
                                         "cmd window 16"};
    char folder[600], script[16 << 10] = "";
    uint64_t seed = 5;
    snprintf(folder, sizeof folder, "%s", files_path("changes"));
    for (int i = 0; i < CHANGES; i++) {
        const char *c = change[tiny_next(&seed) % (sizeof change / sizeof *change)];
        snprintf(script + strlen(script), sizeof script - strlen(script), "%s\n%s", c,
                 i % 9 == 4     ? "wait 20%\n"
                 : i % 25 == 24 ? "wait forward\n"
                                : "");
    }
    strcat(script, "key X U _\ncmd metric erank\ncmd window 32\ncmd compare both\ncmd head L1.H1\n"
                   "cmd goto 1000\nresize 24x80\nwait idle\nreject stale\nframe last\n");
    const char *words[] = {MODEL,       OTHER, TEXT,         "--length", "1k",
                           "--threads", "1",   "--snapshot", "24x80",    NULL};
    run r = play(0, script, folder, words);
    run_free(&r);
    r = play(0, "cmd head L1.H1\ncmd goto 1000\nwait idle\nframe fresh\n", folder, words);
    run_free(&r);
    char name[40];
    char *fresh = grid(folder, "001-fresh"), *last = NULL;
    for (int i = 1; !last && i < 60; i++) {
        char path[700];
        snprintf(name, sizeof name, "%03d-last", i);
        snprintf(path, sizeof path, "%s/%s.txt", folder, name);
        FILE *f = fopen(path, "r");
        if (f) {
            fclose(f);
            last = grid(folder, name);
        }
    }
    assert_non_null(last);
    assert_string_equal(last, fresh);
    free(last);
    free(fresh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_numbers_stand_whole_until_new_ones_do),
        cmocka_unit_test(a_hundred_changes_end_where_a_fresh_start_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
