// The dashboard without a terminal: sizes of frames, finding, heads that are off, summaries (dashboard
// checks 3, 5, 13, 14, 17, 23 to 25).
#include "core/npy.h"
#include "tests/dash_play.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define OTHER "examples/small-deltanet"
#define TEXT  "examples/text_kjv.txt"

// Sizes -------------------------------------------------------------------------------------------

static int width(const char *s, size_t n) {
    int w = 0;
    for (utf8proc_int32_t c; n > 0;) {
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
        assert_true(k > 0);
        w += utf8proc_charwidth(c);
        s += k;
        n -= (size_t)k;
    }
    return w;
}

// B91, B92: every size has a frame of exactly that many rows and never too wide.
static void frames_have_their_size(void **state) {
    (void)state;
    static const int sizes[][2] = {{24, 80}, {40, 120}, {60, 200}, {10, 40},  {5, 20},
                                   {1, 1},   {1, 2},    {2, 3},    {39, 184}, {8, 36},
                                   {7, 300}, {300, 5},  {16, 36},  {30, 37}};
    char script[4000] = "wait idle\n", folder[600];
    size_t count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count; i++)
        snprintf(script + strlen(script), sizeof script - strlen(script),
                 "resize %dx%d\nwait idle\nframe s\n", sizes[i][0], sizes[i][1]);
    snprintf(folder, sizeof folder, "%s", files_path("sizes"));
    run r = play(0, script, folder,
                 LIST(MODEL, TEXT, "--length", "1k", "--panels", "0,1,2,3,4,5,6,7,8"));
    run_free(&r);
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%03zu-s", i + 1);
        char *text = frame(folder, name);
        int lines = 0;
        for (const char *p = text; *p; p += strcspn(p, "\n") + 1, lines++)
            if (width(p, strcspn(p, "\n")) > sizes[i][1])
                fail_msg("%dx%d: a line is wider: %.*s", sizes[i][0], sizes[i][1],
                         (int)strcspn(p, "\n"), p);
        assert_int_equal(lines, sizes[i][0]);
        free(text);
    }
    char *one = frame(folder, "006-s");
    assert_string_equal(one, "=\n");
    free(one);
}

// B95: the ASCII frame is the same frame.
static void ascii_frames_have_their_blanks_in_the_same_places(void **state) {
    (void)state;
    run a = VIEW(MODEL, TEXT, "--length", "1k", "--snapshot", "40x120");
    run b = VIEW(MODEL, TEXT, "--length", "1k", "--snapshot", "40x120", "-U");
    const char *p = a.out, *q = b.out;
    long cells = 0, differ = 0;
    while (*p && *q) {
        utf8proc_int32_t c;
        p += utf8proc_iterate((const utf8proc_uint8_t *)p, -1, &c);
        assert_true((unsigned char)*q < 0x80);
        if ((c == '\n') != (*q == '\n'))
            fail_msg("lines end in other places");
        differ += (c == ' ') != (*q == ' ');
        cells++;
        q++;
    }
    assert_true(*p == *q && cells > 3000);
    assert_int_equal(differ, 0);
    run_free(&a);
    run_free(&b);
    // Without a UTF-8 locale it is what one gets by itself.
    run c = view_in(0, LIST("LC_ALL=C", "DELTOP_CONFIG=/dev/null"),
                    LIST(MODEL, TEXT, "--length", "1k", "--snapshot", "40x120"));
    for (const char *s = c.out; *s; s++)
        assert_true((unsigned char)*s < 0x80);
    run_free(&c);
}

// Finding, moving -----------------------------------------------------------------------------------

static void searches_wrap_and_say_so(void **state) {
    (void)state;
    char dir[600];
    snprintf(dir, sizeof dir, "%s", files_path("search"));
    run r = play(
        0,
        "wait idle\ncmd goto 0\nkey /\ntype And God said\nkey Enter\nexpect find \"And God said\": "
        "1 of\n"
        "key N\nexpect from the end again\nkey n\nexpect : 1 of .*from the beginning again\n"
        "key Esc\nexpect search cleared\nkey n\nexpect nothing to find again\n"
        "key /\ntype re:(a+)+$\nkey Enter\nreject 0x\nkey /\ntype re:(\nkey Enter\nexpect pattern, "
        "character\n"
        "key Esc\ncmd 50%\nexpect text @ 512 \ncmd +20\nexpect text @ 532 \ncmd -2\nexpect text @ "
        "530 \n"
        "cmd surprise max\nexpect the highest loss\nkey :\ntype nonsense\nkey Enter\n"
        "expect no command \"nonsense\"; . lists them; Esc leaves\nkey Esc\n"
        "key :\ntype foo\nkey Enter\nreject did you mean\nkey Esc\n"
        "key :\ntype gotp 3\nkey Enter\nexpect did you mean goto.; Esc leaves\nkey Esc\nkey "
        ":\ntype goto 99999999\nkey Enter\nexpect text @ 1,023 \n",
        dir, LIST(MODEL, TEXT, "--length", "1k", "--snapshot", "34x110"));
    run_free(&r);
}

// Checks 13 and 14, on the trained model and the long document of the reference.
static void the_reference_document_has_its_words_and_losses(void **state) {
    (void)state;
    char model[600], dir[600];
    const char *text = files_shared("documents/code_ext4.txt");
    if (!text)
        skip();
    char doc[600];
    snprintf(doc, sizeof doc, "%s", text);
    snprintf(model, sizeof model, "%s", files_shared("checkpoints/deltaproduct3"));
    snprintf(dir, sizeof dir, "%s", files_path("reference"));
    run r = play(0,
                 "hold 12192\nwait forward 110\ncmd goto 12182\nkey /\ntype group\nkey Enter\n"
                 "expect find \"group\": 291 of 318\nresize 60x200\nexpect "
                 "\u00abgroup\u00bb\nexpect loss 15\\.6\nframe found\n"
                 "cmd goto 0\nkey /\ntype EXT4_FLEX\nkey Enter\nexpect 1 of 2\nkey n\nkey "
                 "n\nexpect beginning again\n",
                 dir, LIST(model, doc, "--length", "16384", "--snapshot", "40x120"));
    run_free(&r);
    char *f = frame(dir, "001-found");
    holds(f, "loss 15.65");
    free(f);
}

// Switching heads off -------------------------------------------------------------------------------

static void heads_go_off_and_on_again(void **state) {
    (void)state;
    char dir[600];
    snprintf(dir, sizeof dir, "%s", files_path("off"));
    run r =
        play(0,
             "wait idle\nframe before\ncmd head L1.H1\nkey x\nexpect stale\nexpect abl L1.H1\n"
             "wait msg L1.H1 off: loss \\+\nwait idle\nreject stale\nexpect \\]x\nframe off\n"
             "key X\nwait idle\nreject abl L1\ncmd head L0.H0\nwait idle\ncmd redraw\nframe after\n"
             "cmd ablate L0.H0,L3.H2\nwait idle\nexpect abl L0.H0\\+L3.H2\n",
             dir, LIST(MODEL, TEXT, "--length", "2k", "--snapshot", "24x80", "--at", "1500"));
    run_free(&r);
    char *a = frame(dir, "001-before"), *b = frame(dir, "003-after");
    // Everything but the last row, where answers and keys stand.
    a[strlen(a) - 1] = b[strlen(b) - 1] = 0;
    *strrchr(a, '\n') = *strrchr(b, '\n') = 0;
    assert_string_equal(a, b);
    char *off = frame(dir, "002-off");
    assert_string_not_equal(a, off);
    free(a);
    free(b);
    free(off);
}

// B90, check 17: the same bytes twice and under a locale with a decimal comma.
static void frames_and_data_are_the_same_every_time(void **state) {
    (void)state;
    static const char *const locales[] = {"LC_ALL=C.UTF-8", "LC_ALL=C.UTF-8", "LC_ALL=de_DE.UTF-8"};
    char *text[3], *csv[3];
    for (int i = 0; i < 3; i++) {
        char out[600], path[700];
        size_t n;
        const char *env[] = {locales[i], "DELTOP_CONFIG=/dev/null", NULL};
        snprintf(out, sizeof out, "%s", files_path("same%d", i));
        run r = view_in(0, env,
                        LIST(MODEL, OTHER, TEXT, "--length", "1k", "--snapshot", "40x120",
                             "--glyphs", "braille", "--attrs"));
        text[i] = strdup(r.out);
        run_free(&r);
        r = view_in(0, env, LIST(MODEL, TEXT, "--length", "1k", "--export", "2", "--out", out));
        run_free(&r);
        snprintf(path, sizeof path, "%s/rank.csv", out);
        csv[i] = files_read(path, &n);
        *strchr(csv[i], '\n') = '#'; // the command names the folder
        assert_string_equal(text[i], text[0]);
        assert_string_equal(strstr(csv[i], "figure,"), strstr(csv[0], "figure,"));
    }
    for (int i = 0; i < 3; i++) {
        free(text[i]);
        free(csv[i]);
    }
}

// Without a terminal ----------------------------------------------------------------------------------

// Check 24, B94
static void pipes_get_text(void **state) {
    (void)state;
    for (int close_stdin = 0; close_stdin < 2; close_stdin++) {
        const char *argv[] = {MODEL, TEXT, "--length", "600", NULL};
        run r = {.argv = argv, .timeout = 60, .close_stdin = close_stdin};
        assert_true(run_program(&r));
        assert_int_equal(r.code, 0);
        holds(r.out, "mean loss");
        holds(r.out, "effective rank at the end");
        assert_null(strchr(r.out, '\033'));
        run_free(&r);
    }
    run r = VIEW(MODEL, TEXT, "--length", "600", "--json");
    assert_true(r.out[0] == '{');
    holds(r.out, "\"mean_loss\"");
    run_free(&r);
    size_t n;
    char *text = files_read(TEXT, &n);
    const char *argv[] = {MODEL, "-", NULL};
    r = (run){.argv = argv, .timeout = 60, .input = text, .n_input = 2000};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    holds(r.out, "standard input");
    run_free(&r);
    free(text);
}

// Check 25, B87
static void documents_and_names_with_controls_stay_harmless(void **state) {
    (void)state;
    static const char raw[] =
        "plain \033[31mred\033[0m \033]0;title\007 \x9b"
        "31m \xc2\x9b"
        "1m nul:\0: "
        "rtl \xe2\x80\xae"
        "abc\xe2\x80\xac half \xe6\xbd tail \xff \xf0\x9f\x98\x80 "
        "\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 \xe2\x81\xa6x tab\t newline\n and more text to read. ";
    char doc[600], *body = malloc(40 * sizeof raw);
    size_t n = 0;
    for (int i = 0; i < 30; i++, n += sizeof raw - 1)
        memcpy(body + n, raw, sizeof raw - 1);
    snprintf(doc, sizeof doc, "%s", files_path("ctl\033[2J.txt"));
    files_write(doc, body, n);
    free(body);
    static const char *const sizes[] = {"24x80", "40x121", "12x36", "60x200", "5x20"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        run r = VIEW(MODEL, doc, "--at", "60", "--snapshot", sizes[i]);
        int cols = atoi(strchr(sizes[i], 'x') + 1);
        for (const char *p = r.out; *p; p += strcspn(p, "\n") + 1)
            assert_true(width(p, strcspn(p, "\n")) <= cols);
        for (size_t k = 0; k < r.n_out; k++)
            if (((unsigned char)r.out[k] < 0x20 && r.out[k] != '\n') || r.out[k] == 0x7f)
                fail_msg("%s: control byte %02x", sizes[i], (unsigned char)r.out[k]);
        assert_null(strstr(r.out, "\xe2\x80\xae"));
        assert_null(strstr(r.out, "\xc2\x9b"));
        run_free(&r);
    }
}

// B91: attention only, one head, many layers, many heads.
static void odd_models_have_frames(void **state) {
    (void)state;
    const struct {
        const char *name;
        tiny_spec s;
    } specs[] = {
        {"one", {.family = "delta_net", .L = 1, .H = 1, .K = 8, .V = 8, .conv = 4}},
        {"deep",
         {.family = "gated_deltanet", .L = 256, .H = 1, .K = 4, .V = 4, .D = 8, .inter = 8}},
        {"wide", {.family = "delta_net", .L = 1, .H = 64, .K = 2, .V = 2, .D = 128, .inter = 8}},
        {"hybrid", {.family = "gated_deltanet", .L = 3, .conv = 4, .heads = 2, .kv = 2}},
        {"channels", {.family = "kda", .L = 2, .conv = 4}},
    };
    int32_t id[200];
    char ids[600];
    err e = {0};
    for (int i = 0; i < 200; i++)
        id[i] = i * 5 % 16;
    snprintf(ids, sizeof ids, "%s", files_path("few.npy"));
    assert_true(npy_write(ids, NPY_I4, 1, (int64_t[]){200}, id, &e));
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        tiny_model *t = tiny_new(specs[i].s);
        char model[600], dir[600];
        snprintf(model, sizeof model, "%s", tiny_save(t, specs[i].name));
        tiny_free(t);
        snprintf(dir, sizeof dir, "%s", files_path("odd-%s", specs[i].name));
        run r = play(0,
                     "wait idle 100\nexpect heads: erank\nkey J J m m m m m K\nkey t\nframe t\nkey "
                     "t\nresize 24x80\nwait idle\n"
                     "expect eigenvalues\nresize 39x184\nwait idle\nresize 60x40\nwait idle\nframe "
                     "a\nresize 5x20\nframe b\n"
                     "resize 14x36\nkey 1\nframe c\n",
                     dir, LIST(model, ids, "--snapshot", "40x120"));
        run_free(&r);
    }
    // RWKV-4 keeps no matrices: losses and text are all there is.
    const char *rwkv = files_shared("golden/hf-rwkv4");
    if (rwkv) {
        char path[700], model[600];
        snprintf(model, sizeof model, "%s", rwkv);
        snprintf(path, sizeof path, "%s/input_ids.npy", model);
        run r = VIEW(model, path, "--snapshot", "40x120");
        holds(r.out, "no matrix states");
        run_free(&r);
    }
}

static void wrong_calls_are_refused_in_one_sentence(void **state) {
    (void)state;
    const struct {
        int code;
        const char *words[8], *part;
    } cases[] = {
        {2, {MODEL, TEXT, "--snapshot", "80", NULL}, "ROWSxCOLS"},
        {2, {MODEL, TEXT, "--snapshot", "0x80", NULL}, "ROWSxCOLS"},
        {2, {MODEL, TEXT, "--snapshot", "24x80", "--wait", "soon", NULL}, "expected forward"},
        {2, {MODEL, TEXT, "--snapshot", "24x80", "--head", "L9.H9", NULL}, "no layer 9"},
        {2, {MODEL, TEXT, "--snapshot", "24x80", "--panels", "1,x", NULL}, "numbers of panels"},
        {2, {MODEL, TEXT, "--snapshot", "24x80", "--view", "9:3", NULL}, "T0:T1"},
        {2, {MODEL, TEXT, "--frames", "x", NULL}, "--play"},
        {2, {MODEL, TEXT, "--export", "3", NULL}, "--out"},
        {2, {MODEL, TEXT, "--export", "10", "--out", "x", NULL}, "export"},
        {2, {NULL}, "a model is missing"},
        {1, {MODEL, "no-such-file", "--snapshot", "24x80", NULL}, "no such file"},
        {1, {MODEL, TEXT, "--play", "no-such-script", NULL}, "no-such-script"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = view_in(cases[i].code, dash_utf8, cases[i].words);
        holds(r.err, cases[i].part);
        const char *line = strstr(r.err, "deltop: ");
        assert_non_null(line);
        assert_true(line[strcspn(line, "\n") + 1] == 0); // one line
        run_free(&r);
    }
    char script[600], dir[600];
    snprintf(dir, sizeof dir, "%s", files_path("wrong"));
    snprintf(script, sizeof script, "wait idle\nexpect surely not there\n");
    run r = play(1, script, dir, LIST(MODEL, TEXT, "--length", "100", "--snapshot", "24x80"));
    holds(r.err, "line 2");
    holds(r.err, "heads: erank"); // the frame
    run_free(&r);
}

// A model alone: what it is, and its weights.
static void a_model_alone_shows_config_and_weights(void **state) {
    (void)state;
    char dir[600], script[900];
    snprintf(dir, sizeof dir, "%s", files_path("alone"));
    snprintf(
        script, sizeof script,
        "wait idle\nexpect family +gated_deltaproduct\nexpect model.embeddings.weight\nexpect "
        "-0\\.5039\nframe info\n"
        "cmd open %s\nwait idle\nexpect heads: erank\nkey D\nexpect open b\ntype %s\nkey Enter\n"
        "wait msg forward b done\nexpect b small-deltanet\nkey c c c\nexpect a - b\n",
        TEXT, OTHER);
    run r = play(0, script, dir, LIST(MODEL, "--length", "700", "--snapshot", "50x150"));
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_have_their_size),
        cmocka_unit_test(ascii_frames_have_their_blanks_in_the_same_places),
        cmocka_unit_test(searches_wrap_and_say_so),
        cmocka_unit_test(the_reference_document_has_its_words_and_losses),
        cmocka_unit_test(heads_go_off_and_on_again),
        cmocka_unit_test(frames_and_data_are_the_same_every_time),
        cmocka_unit_test(pipes_get_text),
        cmocka_unit_test(documents_and_names_with_controls_stay_harmless),
        cmocka_unit_test(odd_models_have_frames),
        cmocka_unit_test(wrong_calls_are_refused_in_one_sentence),
        cmocka_unit_test(a_model_alone_shows_config_and_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
