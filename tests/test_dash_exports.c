// What leaves the dashboard and comes back: pictures and data with the command that makes them again,
// sessions, key logs (dashboard checks 15 and 16).
#include "tests/dash_play.h"
#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define OTHER "examples/small-deltanet"
#define TEXT  "examples/text_kjv.txt"

// Runs a command line (no quotes in it) from this folder.
static run run_line(const char *line) {
    static char copy[4000];
    static const char *argv[64];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", line);
    strtok(copy, " "); // deltop
    for (char *w; n < 63 && (w = strtok(NULL, " "));)
        argv[n++] = w;
    argv[n] = NULL;
    run r = {.argv = argv, .timeout = 120, .env = dash_utf8};
    assert_true(run_program(&r));
    r.argv = NULL;
    if (r.code != 0)
        fail_msg("%s: exit code %d: %s", line, r.code, r.err);
    return r;
}

// Check 15: two pairs, and the command of each makes the same bytes again.
static void exports_are_numbered_and_can_be_made_again(void **state) {
    (void)state;
    // A relative folder: absolute paths are cut in command lines.
    char dir[200], script[2000], frames[600];
    snprintf(dir, sizeof dir, "build/dash-export-%d", (int)getpid());
    snprintf(frames, sizeof frames, "%s", files_path("exports"));
    snprintf(script, sizeof script,
             "wait idle\ncmd export %s\nkey 3 p\nexpect wrote\nkey p\nkey 2 p\nkey 4 p\nkey 6 "
             "p\nkey 7 p\nkey 8 p\n"
             "key 1 p\nkey 5 p\nexpect no picture\nkey 3 E P Y\nexpect deltop loss\n",
             dir);
    run r = play(0, script, frames,
                 LIST(MODEL, OTHER, TEXT, "--length", "1k", "--snapshot", "60x200", "--at", "900",
                      "--state-mem", "1024"));
    run_free(&r);
    static const char *const made[] = {"deltop-0001-loss",  "deltop-0002-loss",  "deltop-0001-rank",
                                       "deltop-0001-eigen", "deltop-0001-gates", "deltop-0001-half",
                                       "deltop-0001-state", "deltop-0001-heads"};
    static const char *const named[] = {"loss",  "loss", "rank",  "eigen",
                                        "gates", "half", "state", "heads"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char path[400], line[4000];
        size_t n, m, k;
        snprintf(path, sizeof path, "%s/%s.csv", dir, made[i]);
        char *csv = files_read(path, &n);
        if (strncmp(csv, "# command: deltop ", 18) != 0)
            fail_msg("%s: %.60s", path, csv);
        snprintf(line, sizeof line, "%.*s", (int)strcspn(csv + 11, "\n"), csv + 11);
        r = run_line(line);
        run_free(&r);
        snprintf(path, sizeof path, "%s/%s/%s.csv", dir, made[i], named[i]);
        char *again = files_read(path, &m);
        if (n != m || memcmp(csv, again, n) != 0)
            fail_msg("%s: other bytes than %s\n%.300s\n%.300s", path, made[i], csv, again);
        free(again);
        free(csv);
        snprintf(path, sizeof path, "%s/%s.png", dir, made[i]);
        char *png = files_read(path, &n);
        snprintf(path, sizeof path, "%s/%s/%s.png", dir, made[i], named[i]);
        again = files_read(path, &k);
        if (n != k || memcmp(png, again, n) != 0)
            fail_msg("%s: other bytes than %s.png (%zu, %zu)", path, made[i], k, n);
        free(png);
        free(again);
    }
    // P: one page of all panels.
    char path[400];
    size_t n;
    snprintf(path, sizeof path, "%s/deltop-0001-screen.csv", dir);
    char *all = files_read(path, &n);
    static const char *const parts[] = {"\nheads,", "\nrank,",       "\nloss,",   "\neigenvalues,",
                                        "\ngates,", "\nhalf-lives,", "\nstate-1,"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        holds(all, parts[i]);
    free(all);
    char remove[300];
    snprintf(remove, sizeof remove, "rm -rf %s", dir);
    assert_int_equal(system(remove), 0);
}

// Width and height of a PNG, from its header.
static void png_size(const char *path, long *w, long *h) {
    size_t n;
    char *png = files_read(path, &n);
    const unsigned char *u = (const unsigned char *)png;
    assert_true(n > 24);
    *w = u[16] << 24 | u[17] << 16 | u[18] << 8 | u[19];
    *h = u[20] << 24 | u[21] << 16 | u[22] << 8 | u[23];
    free(png);
}

// The page has what the screen has, in as many columns as keep it about square. Gates of many tokens are
// drawn faint behind their mean, and their array holds the tokens' own values alone.
static void a_page_of_panels_is_no_strip(void **state) {
    (void)state;
    static const struct {
        const char *size;
        long columns, rows;
    } pages[] = {{"24x80", 2, 2}, {"40x120", 3, 4}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char dir[600], script[1000], frames[600], path[700];
        long w, h;
        snprintf(dir, sizeof dir, "%s", files_path("page%zu", i));
        snprintf(frames, sizeof frames, "%s", files_path("pages"));
        snprintf(script, sizeof script,
                 "wait idle\ncmd export %s\nkey P\nexpect wrote\nkey 6 E\nexpect wrote\n", dir);
        run r = play(0, script, frames,
                     LIST(MODEL, OTHER, TEXT, "--length", "2k", "--snapshot", pages[i].size));
        run_free(&r);
        snprintf(path, sizeof path, "%s/deltop-0001-screen.png", dir);
        png_size(path, &w, &h);
        if (w != pages[i].columns * 720 || h != pages[i].rows * 495)
            fail_msg("%s: %ld x %ld pixels", pages[i].size, w, h);
        size_t n;
        snprintf(path, sizeof path, "%s/deltop-0001-screen.csv", dir);
        char *csv = files_read(path, &n);
        holds(csv, "\nloss,");
        assert_null(strstr(csv, "\nperplexity,"));
        assert_null(strstr(csv, "\ndifference,"));
        holds(csv, "of small-deltanet"); // the second model by its name, not by a letter
        free(csv);
        snprintf(path, sizeof path, "%s/deltop-0001-gates.csv", dir);
        csv = files_read(path, &n);
        holds(csv, "\ngates,beta1,");
        holds(csv, "\ngates,beta1 mean,");
        free(csv);
        snprintf(path, sizeof path, "%s/deltop-0001-gates.npy", dir);
        char *npy = files_read(path, &n);
        holds(npy + 10, "(2, 2048)"); // beta1 and beta2
        free(npy);
    }
}

// B100: a folder that cannot be written to is a message, and nothing is left behind.
static void exports_that_fail_are_messages(void **state) {
    (void)state;
    char dir[600], script[1000], frames[600];
    snprintf(dir, sizeof dir, "%s", files_path("file"));
    files_text(dir, "no folder");
    snprintf(frames, sizeof frames, "%s", files_path("failing"));
    snprintf(script, sizeof script,
             "wait idle\ncmd export %s/sub\nkey 3 p\nexpect is a file\nkey 1 l\nexpect heads\n"
             "key 2 E\nexpect is a file\n",
             dir);
    run r = play(0, script, frames, LIST(MODEL, TEXT, "--length", "300", "--snapshot", "30x100"));
    run_free(&r);
}

// Check 16
static void sessions_come_back(void **state) {
    (void)state;
    char dir[600], doc[600], session[600], script[2000];
    size_t n;
    char *text = files_read(TEXT, &n);
    snprintf(doc, sizeof doc, "%s", files_path("doc.txt"));
    files_write(doc, text, 6000);
    snprintf(session, sizeof session, "%s", files_path("s.json"));
    snprintf(dir, sizeof dir, "%s", files_path("session"));
    snprintf(script, sizeof script,
             "wait idle\ncmd head L2.H1\nkey Space j Space\ncmd goto 700\ncmd view 300 1500\ncmd "
             "metric norm\ncmd window 16\n"
             "key 0 7 4\ncmd redraw\nwait idle\nframe then\ncmd save %s\n",
             session);
    run r = play(0, script, dir, LIST(MODEL, doc, "--snapshot", "40x120"));
    run_free(&r);
    snprintf(dir, sizeof dir, "%s", files_path("session2"));
    // The message row differs: it is the last line but one.
    r = play(0, "wait idle\nframe now\n", dir, LIST("-r", session, "--snapshot", "40x120"));
    run_free(&r);
    char *then = frame(files_path("session"), "001-then"), *now = frame(dir, "001-now");
    char *messages = strstr(then, "0 messages");
    assert_non_null(messages);
    int same = 0, lines = 0;
    const char *a = then, *b = now;
    while (*a && *b) {
        size_t k = strcspn(a, "\n"), m = strcspn(b, "\n");
        same += k == m && memcmp(a, b, k) == 0;
        lines++;
        a += k + 1;
        b += m + 1;
    }
    printf("    measured: %d of %d rows the same\n", same, lines);
    assert_true(lines == 40 && same >= 36); // but messages
    free(then);
    free(now);
    // Another text under the same name.
    files_write(doc, text + 3000, 900);
    free(text);
    r = play(0, "wait idle\nexpect has changed since the session\nexpect heads\n", dir,
             LIST("-r", session, "--snapshot", "40x120"));
    run_free(&r);
    // The last one by its name, without a command.
    char home[700];
    snprintf(home, sizeof home, "XDG_STATE_HOME=%s", files_folder());
    files_mkdir(files_path("deltop"));
    char *saved = files_read(session, &n);
    files_text(files_path("deltop/last.json"), saved);
    free(saved);
    const char *env[] = {"LC_ALL=C.UTF-8", "DELTOP_CONFIG=/dev/null", home, NULL};
    r = (run){.argv = LIST("-r", "last", "--snapshot", "24x80"), .env = env, .timeout = 60};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    holds(r.out, "eigenvalues");
    run_free(&r);
    // Garbled ones are errors in one sentence.
    files_text(session, "{\"format\": 1, \"models\": 3, \"cursor\": \"x\"}");
    r = view_in(1, dash_utf8, LIST("-r", session, "--snapshot", "10x40"));
    holds(r.err, "names no model");
    run_free(&r);
    files_text(session, "not json");
    r = view_in(1, dash_utf8, LIST("-r", session, "--snapshot", "10x40"));
    run_free(&r);
}

// A key log replays to the same frame.
static void key_logs_replay(void **state) {
    (void)state;
    char dir[600], log[600], script[1200], path[700];
    snprintf(log, sizeof log, "%s", files_path("log.play"));
    snprintf(dir, sizeof dir, "%s", files_path("logged"));
    snprintf(script, sizeof script,
             "wait idle\nkey l j Space m Tab +\nkey :\ntype goto 400\nkey Enter\ncmd keylog %s\n"
             "key 1\nwait idle\nframe end\n",
             log);
    run r = play(0, script, dir, LIST(MODEL, TEXT, "--length", "1k", "--snapshot", "40x120"));
    run_free(&r);
    size_t n;
    char *keys = files_read(log, &n);
    snprintf(script, sizeof script, "%s\nkey 1\nwait idle\nframe end\n", keys);
    free(keys);
    snprintf(path, sizeof path, "%s", files_path("logged2"));
    r = play(0, script, path, LIST(MODEL, TEXT, "--length", "1k", "--snapshot", "40x120"));
    run_free(&r);
    char *a = frame(dir, "001-end"), *b = frame(path, "001-end");
    int differ = 0;
    for (const char *p = a, *q = b; *p && *q;) {
        size_t k = strcspn(p, "\n"), m = strcspn(q, "\n");
        differ += k != m || memcmp(p, q, k) != 0;
        p += k + 1;
        q += m + 1;
    }
    assert_true(differ <= 1); // the message row
    free(a);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_are_numbered_and_can_be_made_again),
        cmocka_unit_test(a_page_of_panels_is_no_strip),
        cmocka_unit_test(exports_that_fail_are_messages),
        cmocka_unit_test(sessions_come_back),
        cmocka_unit_test(key_logs_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
