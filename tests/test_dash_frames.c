// The dashboard without a terminal: frames, scripts, exports, sessions, summaries (dashboard checks 3,
// 5 to 10, 12 to 17, 23 to 25).
#include "cli/dash/numbers.h"
#include "core/npy.h"
#include "tests/dash_play.h"
#include "tests/files.h"
#include "tests/run.h"
#include "tests/tiny_model.h"
#include "tests/worst.h"

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
#define CASE  "tests/cases/golden/deltaproduct2-odd-dims"

// The line of a frame that begins with (or holds) a text.
static void line_with(const char *text, const char *part, char *out, size_t size) {
    const char *at = strstr(text, part);
    if (!at)
        fail_msg("no \"%s\" in:\n%s", part, text);
    while (at > text && at[-1] != '\n')
        at--;
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

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

// Numbers -----------------------------------------------------------------------------------------

static double *numbers(const char *folder, const char *name, int64_t *count) {
    char path[900];
    npy a;
    err e = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!npy_read(path, &a, &e))
        fail_msg("%s", e.text);
    double *v = npy_as_f64(&a, &e);
    if (!v)
        fail_msg("%s", e.text);
    *count = a.count;
    npy_free(&a);
    return v;
}

// Check 6: ranks and norms of the reference's last token, to the printed digit.
static void the_grid_shows_the_reference(void **state) {
    (void)state;
    char *out[2];
    for (int k = 0; k < 2; k++) {
        run r = VIEW(CASE, CASE "/input_ids.npy", "--at", "199", "--snapshot", "24x80",
                     "--precision", "f64", "--metric", k ? "norm" : "erank");
        out[k] = strdup(r.out);
        run_free(&r);
    }
    int compared = 0;
    for (int L = 0; L < 2; L++) {
        char name[64], row[400], text[32], key[16];
        int64_t n, m;
        snprintf(name, sizeof name, "erank_l%d.npy", L);
        double *rank = numbers(CASE, name, &n);
        snprintf(name, sizeof name, "state_l%d.npy", L);
        double *H = numbers(CASE, name, &m);
        int64_t heads = n / 200, size = m / heads;
        snprintf(key, sizeof key, "\n L%d ", L);
        for (int64_t h = 0; h < heads; h++) {
            double norm = 0;
            for (int64_t i = 0; i < size; i++)
                norm += H[h * size + i] * H[h * size + i];
            for (int k = 0; k < 2; k++) {
                const char *at = strstr(out[k], key);
                assert_non_null(at);
                snprintf(row, sizeof row, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
                scene_number(k ? sqrt(norm) : rank[h * 200 + 199], 4, text, sizeof text);
                if (!strstr(row, text))
                    fail_msg("L%d.H%d: %s is not in \"%s\"", L, (int)h, text, row);
                compared++;
            }
        }
        free(rank);
        free(H);
    }
    free(out[0]);
    free(out[1]);
    printf("    measured: %d numbers agree to the printed digit\n", compared);
}

// Columns x and y of the first block of a CSV file that follows its header.
static int64_t csv_xy(const char *path, int at_x, int at_y, double *x, double *y, int64_t most) {
    size_t n;
    char *text = files_read(path, &n), *save = NULL;
    int64_t count = 0;
    bool header = false;
    for (char *line = text; line && *line; line = save) {
        save = strchr(line, '\n');
        if (save)
            *save++ = 0;
        if (*line == '#')
            continue;
        if (strncmp(line, "figure,", 7) == 0) {
            if (header)
                break;
            header = true;
            continue;
        }
        if (!*line || count == most)
            break;
        char *field = line;
        for (int c = 0; field; c++) {
            char *end = strchr(field, ',');
            if (c == at_x)
                x[count] = field[0] == ',' || !field[0] ? NAN : strtod(field, NULL);
            if (c == at_y)
                y[count] = field[0] == ',' || !field[0] ? NAN : strtod(field, NULL);
            field = end ? end + 1 : NULL;
        }
        count++;
    }
    free(text);
    return count;
}

// Check 7
static void losses_are_the_reference(void **state) {
    (void)state;
    int64_t n;
    double *nll = numbers(CASE, "nll.npy", &n), x[300], y[300], worst[2] = {0, 0};
    assert_int_equal(n, 199);
    for (int f64 = 0; f64 < 2; f64++) {
        char script[2400], path[600], folder[600];
        snprintf(path, sizeof path, "%s", files_path("loss%d.csv", f64));
        snprintf(folder, sizeof folder, "%s", files_path("losses%d", f64));
        snprintf(script, sizeof script,
                 "wait idle\nkey 3\ncmd smooth 1\ncmd data %s\ncmd data %s.npy\n"
                 "cmd data %s.jsonl\ncmd smooth 501\nkey Enter\nframe wide\n",
                 path, path, path);
        run r = play(0, script, folder,
                     LIST(CASE, CASE "/input_ids.npy", "--precision", f64 ? "f64" : "f32"));
        run_free(&r);
        assert_int_equal(csv_xy(path, 2, 3, x, y, 300), 199); // token 0 has no row
        for (int i = 0; i < 199; i++) {
            assert_true(x[i] == i + 1);
            worst[f64] = worse(worst[f64], fabs(y[i] - nll[i]));
        }
        char name[640];
        snprintf(name, sizeof name, "loss%d.csv.npy", f64);
        int64_t k;
        double *array = numbers(files_folder(), name, &k);
        assert_int_equal(k, 199);
        assert_true(fabs(array[7] - y[7]) < 1e-12);
        free(array);
        char *wide = frame(folder, "001-wide");
        holds(wide, "the mean of 501 is longer than the 199 losses"); // says so
        free(wide);
    }
    free(nll);
    printf("    measured: %.1e in float32, %.1e in float64\n", worst[0], worst[1]);
    assert_true(worst[0] < 3e-4 && worst[1] < 1e-9);
}

static int by_place(const void *a, const void *b) {
    const double *x = a, *y = b;
    if (fabs(x[0] - y[0]) > 1e-9)
        return (x[0] > y[0]) - (x[0] < y[0]);
    return (x[1] > y[1]) - (x[1] < y[1]);
}

// Check 8: the plane's numbers as sets, and its digits count them.
static void eigenvalues_are_the_reference(void **state) {
    (void)state;
    int64_t n, n_ends, n_windows;
    double *ends = numbers(CASE, "eig_ends.npy", &n_ends),
           *windows = numbers(CASE, "eig_windows.npy", &n_windows);
    char path[1000];
    snprintf(path, sizeof path, "%s/eig_l1.npy", CASE);
    npy a;
    err e = {0};
    assert_true(npy_read(path, &a, &e));
    const double *eig = a.data;
    int64_t K = a.dims[3];
    double worst = 0, worst_fact = 0, *norm2 = numbers(CASE, "norm2_l1.npy", &n),
           *logabsdet = numbers(CASE, "logabsdet_l1.npy", &n);
    int sets = 0;
    for (int64_t i = 0; i < n_ends; i++)
        for (int64_t w = 0; w < n_windows; w++) {
            char at[32], W[32], out[600];
            snprintf(at, sizeof at, "%.0f", ends[i]);
            snprintf(W, sizeof W, "%.0f", windows[w]);
            snprintf(out, sizeof out, "%s", files_path("eig%d-%d", (int)i, (int)w));
            if (windows[w] > 512)
                continue;
            run r = VIEW(CASE, CASE "/input_ids.npy", "--precision", "f64", "--at", at, "--window",
                         W, "--head", "L1.H1", "--export", "4", "--out", out);
            run_free(&r);
            snprintf(path, sizeof path, "%s/eigen.csv", out);
            double x[300], y[300], got[600], want[600];
            n = csv_xy(path, 2, 3, x, y, 300);
            assert_int_equal(n, K);
            for (int64_t k = 0; k < K; k++) {
                got[2 * k] = x[k], got[2 * k + 1] = y[k];
                const double *ref = eig + ((((1 * a.dims[1]) + i) * a.dims[2] + w) * K + k) * 2;
                want[2 * k] = ref[0], want[2 * k + 1] = ref[1];
            }
            qsort(got, (size_t)K, 2 * sizeof *got, by_place);
            qsort(want, (size_t)K, 2 * sizeof *want, by_place);
            for (int64_t k = 0; k < 2 * K; k++)
                worst = worse(worst, fabs(got[k] - want[k]));
            // The table of the product's numbers, behind the points: radius, norm2, ln|det|.
            size_t bytes;
            char *csv = files_read(path, &bytes);
            const char *row = strstr(csv, "\nwindow,");
            assert_non_null(row);
            double radius, norm, det;
            assert_int_equal(sscanf(row, "\nwindow,%lf,%lf,%lf", &radius, &norm, &det), 3);
            free(csv);
            int64_t at_head = (1 * n_ends + i) * n_windows + w;
            worst_fact = worse(worst_fact, fabs(norm / norm2[at_head] - 1));
            worst_fact = worse(worst_fact, fabs(det - logabsdet[at_head]));
            sets++;
        }
    npy_free(&a);
    free(ends);
    free(windows);
    free(norm2);
    free(logabsdet);
    printf("    measured: %d sets, largest difference %.1e; norm2 and ln|det| %.1e\n", sets, worst,
           worst_fact);
    assert_true(sets >= 4);
    assert_true(worst_fact < 1e-9);
    assert_true(worst < 1e-6); // ill-conditioned ones move far more than 1e-9 (eig_cond)
    // Digits: as many as values with Im >= 0.
    run r =
        VIEW(MODEL, TEXT, "--length", "400", "--precision", "f64", "--at", "150", "--window", "32",
             "--head", "L1.H1", "--panels", "4", "--zoom", "--focus", "4", "--snapshot", "70x200");
    K = 32;
    long sum = 0;
    int row = 0;
    for (const char *p = r.out; *p; p += strcspn(p, "\n") + 1, row++) {
        int col = 0;
        if (row < 3 || row > 66) // title and tick labels
            continue;
        for (const char *c = p; *c && *c != '\n' && col < 180; c++) {
            col += ((unsigned char)*c & 0xc0) != 0x80;
            assert_true(*c != '*');
            sum += *c >= '1' && *c <= '9' ? *c - '0' : 0;
        }
    }
    assert_int_equal(sum, K); // zoomed: the whole plane
    run_free(&r);
}

// Check 9, B93: a state of nothing is nan, a gap and an empty field; never 0.
static void a_state_of_nothing_is_nan(void **state) {
    (void)state;
    tiny_model *t = tiny_new((tiny_spec){.family = "delta_net", .conv = 4, .L = 2, .n_vocab = 64});
    tiny_tensor *v = tiny_get(t, "model.layers.1.attn.v_proj.weight");
    for (int64_t i = 0; i < v->n; i++)
        v->v[i] = 0;
    char model[600], ids[600], script[1400], csv[600], folder[600];
    snprintf(model, sizeof model, "%s", tiny_save(t, "zero"));
    tiny_free(t);
    int32_t id[300];
    for (int i = 0; i < 300; i++)
        id[i] = i * 7 % 64;
    err e = {0};
    snprintf(ids, sizeof ids, "%s", files_path("ids.npy"));
    assert_true(npy_write(ids, NPY_I4, 1, (int64_t[]){300}, id, &e));
    snprintf(csv, sizeof csv, "%s", files_path("zero.csv"));
    snprintf(folder, sizeof folder, "%s", files_path("zeros"));
    snprintf(script, sizeof script,
             "wait idle\ncmd head L1.H0\nwait idle\nframe z\nkey 2\ncmd data %s\n"
             "key t > > >\nframe t\n",
             csv);
    run r = play(0, script, folder, LIST(model, ids, "--snapshot", "30x100"));
    run_free(&r);
    char *text = frame(folder, "001-z"), row[400];
    line_with(text, "\n L1 ", row, sizeof row);
    line_with(text, "heads: erank", row, sizeof row);
    holds(row, "nan"); // the title counts them
    holds(text, "nan");
    holds(text, "states of nothing have no rank");
    free(text);
    size_t n;
    char *data = files_read(csv, &n);
    holds(data, "rank,L1.H0,63,\n");
    free(data);
}

// Check 10
static void a_held_pass_shows_exactly_what_is_read(void **state) {
    (void)state;
    const char *folder = files_path("held");
    char dir[600];
    snprintf(dir, sizeof dir, "%s", folder);
    run r = play(0,
                 "hold 704\nwait forward\nwait idle\nframe half\nexpect forward 704 of 1,638 "
                 "42%\ngo\nwait idle\n"
                 "frame whole\nexpect forward done\nreject \u00b7\u00b7\u00b7\n",
                 dir,
                 LIST(MODEL, OTHER, TEXT, "--length", "1638", "--at", "100", "--snapshot", "24x80",
                      "--panels", "1,2,3,4"));
    run_free(&r);
    char *text = frame(dir, "001-half");
    // The last plot row of both curves: a dot in every column behind token 704, none before.
    int rows = 0;
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
        char line[600];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        const char *first = strstr(line, "\u00b7\u00b7\u00b7");
        if (first && !strstr(line, "forward"))
            rows++;
    }
    assert_true(rows >= 2);
    free(text);
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
        "expect no command\nkey Esc\nkey :\ntype goto 99999999\nkey Enter\nexpect text @ 1,023 \n",
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

// Exports -------------------------------------------------------------------------------------------

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

// Sessions ------------------------------------------------------------------------------------------

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
        cmocka_unit_test(the_grid_shows_the_reference),
        cmocka_unit_test(losses_are_the_reference),
        cmocka_unit_test(eigenvalues_are_the_reference),
        cmocka_unit_test(a_state_of_nothing_is_nan),
        cmocka_unit_test(a_held_pass_shows_exactly_what_is_read),
        cmocka_unit_test(searches_wrap_and_say_so),
        cmocka_unit_test(the_reference_document_has_its_words_and_losses),
        cmocka_unit_test(heads_go_off_and_on_again),
        cmocka_unit_test(frames_and_data_are_the_same_every_time),
        cmocka_unit_test(exports_are_numbered_and_can_be_made_again),
        cmocka_unit_test(exports_that_fail_are_messages),
        cmocka_unit_test(sessions_come_back),
        cmocka_unit_test(key_logs_replay),
        cmocka_unit_test(pipes_get_text),
        cmocka_unit_test(documents_and_names_with_controls_stay_harmless),
        cmocka_unit_test(odd_models_have_frames),
        cmocka_unit_test(wrong_calls_are_refused_in_one_sentence),
        cmocka_unit_test(a_model_alone_shows_config_and_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
