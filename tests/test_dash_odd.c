// The dashboard and what nobody should ask of it: scripts, commands, sessions and disks that are
// wrong, and the two warnings of the eigenvalue panel (dashboard checks 8, 15, 16).
#include "tests/dash_play.h"
#include "tests/files.h"
#include "tests/tiny_model.h"

#include "core/npy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define OTHER "examples/small-deltanet"
#define TEXT  "examples/text_kjv.txt"

// A script that says nothing sensible ends at that line, and nothing waits for what never comes.
static void scripts_that_are_wrong_end_at_their_line(void **state) {
    (void)state;
    const struct {
        int code;
        const char *script, *part;
    } cases[] = {
        {2, "wait idle\nkey Entr\n", "line 2: key: there is no key \"Entr\""},
        {2, "wait 101%\n", "0% to 100%"},
        {2, "wait 50foo%\n", "0% to 100%"},
        {2, "wait %\n", "0% to 100%"},
        {2, "wait -1%\n", "0% to 100%"},
        {2, "\n\nhold x\n", "line 3"},
        {2, "resize 0x0\n", "ROWSxCOLS"},
        {2, "frame a/b\n", "no file name"},
        {2, "expect (\n", "is no pattern"},
        {2, "jump\n", "is no step"},
    };
    char folder[600], path[700];
    snprintf(folder, sizeof folder, "%s", files_path("wrong"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = play(cases[i].code, cases[i].script, folder,
                     LIST(MODEL, TEXT, "--length", "64", "--snapshot", "8x40"));
        holds(r.err, cases[i].part);
        run_free(&r);
    }
    char *line = malloc(6001);
    memset(line, 'j', 6000);
    line[6000] = 0;
    run r = play(2, line, folder, LIST(MODEL, TEXT, "--length", "64"));
    holds(r.err, "line 1: longer than");
    run_free(&r);
    free(line);
    r = view_in(1, dash_utf8, LIST(MODEL, TEXT, "--length", "64", "--play", files_folder()));
    holds(r.err, "cannot be read: Is a directory");
    run_free(&r);
    // Every key that the prompt knows is a key.
    snprintf(path, sizeof path,
             "wait idle\nkey : a Left Right Home End Backspace Delete ^A ^E ^U ^W Up Down Esc F1 "
             "Esc é\n");
    r = play(0, path, folder, LIST(MODEL, TEXT, "--length", "64"));
    run_free(&r);
}

static void options_without_their_partner_are_refused(void **state) {
    (void)state;
    const struct {
        const char *words[10], *part;
    } cases[] = {
        {{MODEL, TEXT, "--wait", "idle", NULL}, "--snapshot ROWSxCOLS is missing"},
        {{MODEL, TEXT, "--attrs", NULL}, "--snapshot ROWSxCOLS is missing"},
        {{MODEL, TEXT, "--live", NULL}, "--snapshot ROWSxCOLS is missing"},
        {{MODEL, TEXT, "--live", "--json", NULL}, "--snapshot ROWSxCOLS is missing"},
        {{MODEL, TEXT, "--snapshot", "8x40", "--wait", "101%", NULL}, "0% to 100%"},
        {{MODEL, TEXT, "--snapshot", "8x40", "--wait", "idle", "--play", TEXT, NULL}, "--play"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = view_in(2, dash_utf8, cases[i].words);
        holds(r.err, cases[i].part);
        run_free(&r);
    }
}

// --json promises one JSON value on standard output: what prints something else does not go with it.
static void what_prints_no_json_is_refused_with_it(void **state) {
    (void)state;
    const struct {
        const char *words[10], *part;
    } cases[] = {
        {{MODEL, TEXT, "--json", "--snapshot", "8x40", NULL}, "--json and --snapshot"},
        {{MODEL, TEXT, "--json", "--export", "1", "--out", "/nowhere/x", NULL},
         "--json and --export"},
        {{MODEL, TEXT, "--json", "--play", TEXT, NULL}, "--json and --play"},
        {{"--json", "--default-config", NULL}, "--json and --default-config"},
        {{"--default-config", "--json", NULL}, "--json and --default-config"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = view_in(2, dash_utf8, cases[i].words);
        holds(r.err, cases[i].part);
        assert_int_equal(r.n_out, 0);
        run_free(&r);
    }
}

// An argument that means nothing is refused in the prompt and changes nothing.
static void commands_with_nonsense_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "pan foo",   "page foo",     "page 2",    "view 1 2 3",        "view 9 3",   "goto help",
        "goto",      "goto 1 2",     "doc 0",     "doc 99999999999",   "metric foo", "sort foo",
        "window 0",  "window 513",   "smooth -1", "set smooth",        "set foo 1",  "panel 77",
        "head L9.9", "ablate L9.H9", "find re:(", "filter erank>",     "compare c",  "band maybe",
        "zoom now",  "prompt x",     "move 5",    "surprise loudest",  "quit now",   "open /gone",
        "filter ((", "filter foo=1", "export",    "save /proc/x.json", "50x%",       "101%"};
    char folder[600], script[4000] = "wait idle\ncmd goto 50\n";
    snprintf(folder, sizeof folder, "%s", files_path("nonsense"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        snprintf(script + strlen(script), sizeof script - strlen(script),
                 "key :\ntype %s\nkey Enter\nexpect ^:%.*s\nkey Esc\nexpect heads: erank @ 50\n",
                 wrong[i], (int)strcspn(wrong[i], " "), wrong[i]);
    run r = play(0, script, folder, LIST(MODEL, TEXT, "--length", "128", "--snapshot", "30x120"));
    run_free(&r);
}

// A name beyond what fits on a line of the screen is completed like any other.
static void long_names_are_completed(void **state) {
    (void)state;
    char folder[600], deep[1200], name[101], script[3000];
    memset(name, 'd', 100);
    name[100] = 0;
    snprintf(folder, sizeof folder, "%s", files_path("complete"));
    snprintf(deep, sizeof deep, "%s", files_path("%s", name));
    files_mkdir(deep);
    for (int i = 0; i < 2; i++) {
        snprintf(deep + strlen(deep), sizeof deep - strlen(deep), "/%s", name);
        files_mkdir(deep);
    }
    snprintf(script, sizeof script, "%s/text.txt", deep);
    files_text(script, "In the beginning God created the heaven and the earth.");
    assert_true(strlen(script) > 300 && strlen(script) < 390);
    snprintf(script, sizeof script,
             "wait idle\nkey :\ntype open %s/te\nkey Tab\nkey Enter\nwait idle\nexpect text.txt  "
             "22 tok\n",
             deep);
    run r = play(0, script, folder, LIST(MODEL, TEXT, "--length", "64", "--snapshot", "30x120"));
    run_free(&r);
}

// Blanks and commas belong to a file's name.
static void names_with_blanks_are_completed(void **state) {
    (void)state;
    char folder[600], path[700], script[3000];
    snprintf(folder, sizeof folder, "%s", files_path("blanks"));
    snprintf(path, sizeof path, "%s", files_path("my own, long notes"));
    files_mkdir(path);
    files_text(files_path("my own, long notes/of today.txt"), "In the beginning God created it.");
    snprintf(script, sizeof script,
             "wait idle\nkey :\ntype open %s/my o\nkey Tab\nexpect long notes/\nkey Tab Enter\n"
             "wait idle\nexpect of today.txt  [0-9]+ tok\n"
             "key :\ntype   open b exam\nkey Tab\ntype small-deltan\nkey Tab Enter\n"
             "wait msg forward b\nexpect b small-deltanet\n"
             "key :\ntype ablate L0.H0,L3.H3\nkey Tab Enter\nwait idle\nexpect abl L0.H0.L3.H3\n",
             files_folder());
    run r = play(0, script, folder, LIST(MODEL, TEXT, "--length", "64", "--snapshot", "30x120"));
    run_free(&r);
}

// Check 15: a disk that is full is a message, no part of a file is left, and the keys go on. The
// limit on file sizes stands for the disk: write() fails in the same place.
static void a_full_disk_is_a_message_and_leaves_nothing(void **state) {
    (void)state;
    // Nothing fits; the data do and the picture does not.
    static const rlim_t room[] = {64, 8192};
    for (int i = 0; i < 2; i++) {
        char dir[600], script[2000], folder[600];
        struct rlimit was, small;
        snprintf(dir, sizeof dir, "%s", files_path("full%d", i));
        snprintf(folder, sizeof folder, "%s", files_path("full-frames%d", i));
        files_mkdir(dir);
        snprintf(script, sizeof script,
                 "wait idle\ncmd export %s\nkey 3 p\nexpect cannot write.*: File too large\nkey "
                 "P\nexpect cannot write.*: File too large\nkey 1 l\nexpect \\[.*\\]\n",
                 dir);
        snprintf(script + strlen(script), sizeof script - strlen(script), "%s",
                 i ? "" : "key 2 E\nexpect cannot write.*: File too large\n");
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
        char path[700];
        snprintf(path, sizeof path, "%s.play", folder);
        files_text(path, script);
        small = was;
        small.rlim_cur = room[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        run r = {.argv = LIST("view", MODEL, TEXT, "--length", "200", "--play", path, "--snapshot",
                              "30x160"),
                 .env = dash_utf8,
                 .timeout = 60};
        bool started = run_program(&r);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0); // before anything is printed here
        assert_true(started);
        if (r.code != 0)
            fail_msg("exit code %d (signal %d): %s", r.code, r.ended_by, r.err);
        run_free(&r);
        printf("    measured: %d files left with room for %lld bytes a file\n", files_count(dir),
               (long long)room[i]);
        assert_int_equal(files_count(dir), 0);
    }
}

// Check 8: a window of W tokens with n_h factors each leaves K - W n_h directions alone (science.md
// G11).
static void directions_that_a_window_leaves_alone_are_counted(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s", files_path("frozen"));
    // K = 32 in both models; n_h = 1 and 2.
    run r =
        play(0,
             "wait idle\ncmd window 4\nwait idle\nexpect frozen +28\ncmd window 31\nwait "
             "idle\nexpect frozen +1$\ncmd window 32\nwait idle\nexpect frozen +0\n",
             folder, LIST(OTHER, TEXT, "--length", "100", "--panels", "4", "--snapshot", "40x60"));
    run_free(&r);
    r = play(0,
             "wait idle\ncmd window 4\nwait idle\nexpect frozen +24\ncmd window 16\nwait "
             "idle\nexpect frozen +0\n",
             folder, LIST(MODEL, TEXT, "--length", "100", "--panels", "4", "--snapshot", "40x60"));
    run_free(&r);
}

// G08: keys of length 1 and beta up to 2 cannot stretch; keys that only sum to 1 can.
static void products_that_stretch_are_marked(void **state) {
    (void)state;
    int32_t id[40];
    char ids[600], model[600], folder[600];
    err e = {0};
    for (int i = 0; i < 40; i++)
        id[i] = i * 5 % 16;
    snprintf(ids, sizeof ids, "%s", files_path("few.npy"));
    snprintf(folder, sizeof folder, "%s", files_path("stretch"));
    assert_true(npy_write(ids, NPY_I4, 1, (int64_t[]){40}, id, &e));
    for (int sum = 0; sum < 2; sum++) {
        tiny_model *t =
            tiny_new((tiny_spec){.family = "delta_net", .L = 1, .H = 1, .K = 8, .V = 8});
        if (sum) {
            tiny_set(t, "qk_norm", json_string("sum"));
            tiny_set(t, "qk_activation", json_string("identity"));
        }
        snprintf(model, sizeof model, "%s", tiny_save(t, sum ? "sum" : "l2"));
        tiny_free(t);
        run r = play(0,
                     sum ? "wait idle\ncmd goto 6\ncmd window 4\nwait idle\nexpect norm +> 1\n"
                         : "wait idle\ncmd goto 6\ncmd window 4\nwait idle\nreject norm +> "
                           "1\nexpect norm2\n",
                     folder, LIST(model, ids, "--panels", "4", "--snapshot", "40x60"));
        run_free(&r);
    }
}

// Check 16: sessions that were cut, changed by hand or made elsewhere.
static void damaged_sessions_are_told_or_clamped(void **state) {
    (void)state;
    static const char models[] =
        "\"format\":1,\"models\":[{\"path\":\"" MODEL "\"}],\"document\":{\"path\":\"" TEXT "\"},";
    const struct {
        int code;
        const char *text, *part;
    } cases[] = {
        {1, "", "empty"},
        {1, "{", "not JSON"},
        {1, "[]", "no session"},
        {1, "{\"format\":2}", "no session"},
        {1, "{\"format\":1}", "names no model"},
        {1, "{\"format\":1,\"models\":[{\"path\":\"/gone\"}]}", "/gone"},
        {1, "{\"format\":1,\"models\":[{\"path\":3},{}],\"document\":5}", "names no model"},
        {0,
         "\"cursor\":9223372036854775807,\"view\":[9223372036854775800,9223372036854775807],"
         "\"head\":[-9,99999999999],\"open\":0,\"focus\":9,\"window\":-4,\"marks\":[[0,0],[0,0],"
         "[99,1],\"x\"],\"off\":[[0,0],[0,0]]}",
         ""},
        {0,
         "\"cursor\":-5,\"view\":[0,9223372036854775807],\"filter\":\"((((\",\"find\":\"re:(\","
         "\"smooth\":1000000,\"focus\":4,\"open\":1023,\"zoom\":true,\"compare\":3}",
         ""},
    };
    char path[600], text[2000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s", files_path("damaged.json"));
        snprintf(text, sizeof text, "%s%s%s", cases[i].code ? "" : "{", cases[i].code ? "" : models,
                 cases[i].text);
        files_text(path, text);
        run r = view_in(cases[i].code, dash_utf8,
                        LIST("-r", path, "--length", "200", "--snapshot", "24x80"));
        holds(cases[i].code ? r.err : r.out, cases[i].part);
        run_free(&r);
    }
}

// The rank of a permutation's state is 3 at every token, but for the last bits: a flat line, and no
// two labels of its axis read the same.
static void what_is_constant_is_drawn_flat(void **state) {
    (void)state;
    char model[600], words[700];
    snprintf(model, sizeof model, "%s", files_path("s4"));
    snprintf(words, sizeof words, "%s/sample.npy", model);
    run r = {.argv = LIST("theory", "s4", "--out", model), .timeout = 60};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    run_free(&r);
    static const char *const sizes[] = {"24x80", "60x120", "16x36"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        r = VIEW(model, words, "--length", "256", "--panels", "2", "--snapshot", sizes[i]);
        char label[64][8];
        int n = 0;
        for (const char *line = r.out; *line; line += strcspn(line, "\n") + 1) {
            const char *mark = strstr(line, "\u2524");
            if (!mark || mark > line + 7 || n == 64)
                continue;
            snprintf(label[n], sizeof label[n], "%.*s", (int)(mark - line), line);
            for (int k = 0; k < n; k++)
                if (strcmp(label[k], label[n]) == 0)
                    fail_msg("%s: two labels are %s:\n%s", sizes[i], label[n], r.out);
            n++;
        }
        printf("    measured: %s: %d labels, all different\n", sizes[i], n);
        assert_true(n >= 2);
        run_free(&r);
    }
}

// At the end of a document, where the cursor stands after reading, the panel is full of what led
// there.
static void the_text_before_the_end_fills_the_panel(void **state) {
    (void)state;
    static const char *const sizes[] = {"24x80", "40x120", "30x41"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run r = VIEW(MODEL, TEXT, "--length", "300", "--snapshot", sizes[i]);
        const char *text = strstr(r.out, "5 text @ 299");
        assert_non_null(text);
        int rows = 0, full = 0;
        size_t cols = (size_t)atoi(strchr(sizes[i], 'x') + 1);
        text += strcspn(text, "\n") + 1;
        for (; *text && *text != '?' && strncmp(text, "forward", 7) != 0;
             text += strcspn(text, "\n") + 1) {
            rows++;
            full += strcspn(text, "\n") >= cols / 2; // bytes: at least as many as cells
        }
        printf("    measured: %s: %d of %d rows filled\n", sizes[i], full, rows);
        assert_true(rows >= 3 && full == rows && strstr(r.out, "\u00bb"));
        run_free(&r);
    }
}

// However small the screen: the prompt and what is wrong with a command can be seen, and nothing is
// open that cannot.
static void tiny_screens_show_prompt_and_errors(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s", files_path("tiny"));
    run r =
        play(0,
             "wait idle\nresize 1x20\nexpect ^done loss\nkey :\ntype 40\nexpect ^:40\nkey "
             "Enter\nexpect ^done\nresize 2x30\nexpect @40 loss\nkey : x y z Enter\nexpect no "
             "command\nkey Esc ?\nexpect no room\nkey l\nresize 3x30\nexpect L0.H1\n"
             "resize 10x40\nreject help ═\nkey :\ntype filter layer=1 & head=2 & erank>foo\nkey "
             "Enter\nexpect no \"foo\"\nkey Backspace\nexpect erank>fo *$\n",
             folder, LIST(MODEL, TEXT, "--length", "64", "--snapshot", "24x80"));
    run_free(&r);
    static const char *const sizes[] = {"5x30", "12x60"};
    for (int i = 0; i < 2; i++) {
        r = VIEW(MODEL, "--snapshot", sizes[i]);
        holds(r.out, "no document");
        run_free(&r);
    }
}

// Check 25: names in a checkpoint are bytes that anybody may have written.
static void tensor_names_with_controls_stay_harmless(void **state) {
    (void)state;
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .L = 1});
    tiny_add(t,
             "odd\033[2J\u202e\xc2\x9b"
             "31m name",
             1, (int64_t[]){3});
    char model[600];
    snprintf(model, sizeof model, "%s", tiny_save(t, "named"));
    tiny_free(t);
    run r = view_in(0, dash_utf8, LIST(model, "--snapshot", "60x160"));
    holds(r.out, "odd");
    for (size_t k = 0; k < r.n_out; k++)
        if (((unsigned char)r.out[k] < 0x20 && r.out[k] != '\n') || r.out[k] == 0x7f)
            fail_msg("control byte %02x", (unsigned char)r.out[k]);
    assert_null(strstr(r.out, "\u202e"));
    assert_null(strstr(r.out, "\xc2\x9b"));
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_that_are_wrong_end_at_their_line),
        cmocka_unit_test(options_without_their_partner_are_refused),
        cmocka_unit_test(what_prints_no_json_is_refused_with_it),
        cmocka_unit_test(commands_with_nonsense_are_refused),
        cmocka_unit_test(long_names_are_completed),
        cmocka_unit_test(names_with_blanks_are_completed),
        cmocka_unit_test(a_full_disk_is_a_message_and_leaves_nothing),
        cmocka_unit_test(directions_that_a_window_leaves_alone_are_counted),
        cmocka_unit_test(products_that_stretch_are_marked),
        cmocka_unit_test(damaged_sessions_are_told_or_clamped),
        cmocka_unit_test(what_is_constant_is_drawn_flat),
        cmocka_unit_test(the_text_before_the_end_fills_the_panel),
        cmocka_unit_test(tiny_screens_show_prompt_and_errors),
        cmocka_unit_test(tensor_names_with_controls_stay_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
