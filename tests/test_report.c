// deltop report as users run it: stopping and going on, full disks, bad models and documents. Uses
// examples/.
#include "tests/files.h"
#include "tests/pty.h"
#include "tests/report_play.h"
#include "tests/tiny_model.h"

#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_WORDS = 40 };

// ---- the same bytes -----------------------------------------------------------------------------

static const char *compare_to;
static size_t compare_from;
static int compared;

static int same_file(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)at;
    if (type != FTW_F)
        return 0;
    if (strstr(path, ".tmp."))
        fail_msg("%s was left behind", path);
    char other[1024];
    snprintf(other, sizeof other, "%s%s", compare_to, path + compare_from);
    size_t n = 0, m = 0;
    char *a = files_read(path, &n), *b = files_read(other, &m);
    if (n != m || memcmp(a, b, n) != 0)
        fail_msg("%s (%zu bytes) and %s (%zu bytes) differ", path, n, other, m);
    free(a);
    free(b);
    compared++;
    return 0;
}

// Every file of a is in b and the same; and the other way round.
static void same_folders(const char *a, const char *b) {
    compared = 0;
    compare_to = b;
    compare_from = strlen(a);
    assert_int_equal(nftw(a, same_file, 16, FTW_PHYS), 0);
    compare_to = a;
    compare_from = strlen(b);
    assert_int_equal(nftw(b, same_file, 16, FTW_PHYS), 0);
}

static const char *const three[] = {DN,         DP,          GDP,      "--doc",   TEXT,
                                    "--length", "1k",        "--rows", "3",       "--every",
                                    "64",       "--samples", "2",      "--quiet", NULL};

static run three_into(const char *out, const char *threads, int kill_after_ms) {
    const char *words[MAX_WORDS];
    int n = 0;
    for (; three[n]; n++)
        words[n] = three[n];
    words[n++] = "--threads";
    words[n++] = threads;
    words[n++] = "--out";
    words[n++] = out;
    words[n] = NULL;
    return report_start(words, kill_after_ms);
}

// Killed at three moments and started again each time; then with another number of threads.
static void a_killed_report_goes_on_and_gives_the_same_bytes(void **unused) {
    (void)unused;
    const char *whole = report_folder("whole"), *killed = report_folder("killed"),
               *one = report_folder("one-thread");
    double from = files_seconds();
    run r = three_into(whole, "2", 0);
    double took = files_seconds() - from;
    assert_int_equal(r.code, 0);
    run_free(&r);
    uint64_t seed = (uint64_t)getpid();
    int at[3], ended = 0;
    for (int i = 0; i < 3; i++) {
        at[i] = (int)(1000 * took * (0.05 + 0.2 * (double)(tiny_next(&seed) % 1000) / 1000));
        r = three_into(killed, "2", at[i] > 0 ? at[i] : 1);
        ended += r.ended_by == SIGKILL;
        run_free(&r);
    }
    r = three_into(killed, "2", 0);
    if (r.code != 0)
        fail_msg("exit code %d: %s", r.code, r.err);
    run_free(&r);
    same_folders(whole, killed);
    printf("measured: killed %d times, after %d, %d and %d ms of %.0f; %d files the same\n", ended,
           at[0], at[1], at[2], 1000 * took, compared);
    assert_true(ended >= 1 && compared > 40);
    r = three_into(one, "1", 0);
    assert_int_equal(r.code, 0);
    run_free(&r);
    same_folders(whole, one);
}

static void results_of_other_settings_are_not_taken(void **unused) {
    (void)unused;
    const char *mixed = report_folder("mixed"), *fresh = report_folder("fresh");
    static const char *const first[] = {"--length", "512"}, *const second[] = {"--length", "640"};
    for (int i = 0; i < 2; i++) {
        const char *const *o = i ? second : first;
        run r = report_ends(0, WORDS(DN, "--doc", TEXT, o[0], o[1], "--out", mixed));
        run_free(&r);
    }
    run r = report_ends(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", fresh));
    run_free(&r);
    same_folders(mixed, fresh);
    // A result that is damaged is made again.
    size_t n = 0;
    const char *row = "mixed/tasks/small-deltanet/text_kjv/row-0.safetensors";
    char *bytes = files_read(files_path("%s", row), &n);
    files_write(files_path("%s", row), bytes, n / 2);
    free(bytes);
    r = report_ends(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    run_free(&r);
    same_folders(mixed, fresh);
    // One whose numbers were changed is found out, named and removed.
    bytes = files_read(files_path("%s", row), &n);
    bytes[n - 9] ^= 4;
    files_write(files_path("%s", row), bytes, n);
    free(bytes);
    r = report_ends(1, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    if (!strstr(r.err, "is damaged") || !strstr(r.err, "it was removed"))
        fail_msg("said: %s", r.err);
    run_free(&r);
    r = report_ends(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    run_free(&r);
    same_folders(mixed, fresh);
    r = report_ends(0, WORDS(DN, "--doc", TEXT, "--length", "640", "--out", mixed));
    if (!strstr(r.err, "1 of 1 rows are there already"))
        fail_msg("said: %s", r.err);
    run_free(&r);
}

// Rows that were read before the document was cut do not blame the settings, which are the same.
static void a_document_that_was_cut_is_told_and_not_other_settings(void **unused) {
    (void)unused;
    const char *text = report_keep(files_path("%s", "book.txt")), *out = report_folder("cut");
    size_t n = 0;
    char *bytes = files_read(TEXT, &n);
    files_write(text, bytes, 20000);
    run r = report_ends(0, WORDS(DN, "--doc", text, "--length", "512", "--out", out));
    run_free(&r);
    files_write(text, bytes, 9000);
    r = report_ends(1, WORDS(DN, "--doc", text, "--length", "512", "--out", out, "--assemble"));
    run_holds(r.err,
              "row-0.safetensors: was made when the document had 8492 tokens; it has 3731 now");
    assert_null(strstr(r.err, "settings"));
    run_free(&r);
    bytes[0] ^= 1; // as long as before
    files_write(text, bytes, 20000);
    free(bytes);
    r = report_ends(1, WORDS(DN, "--doc", text, "--length", "512", "--out", out, "--assemble"));
    run_holds(r.err, "was made before the document changed");
    run_free(&r);
    r = report_ends(1, WORDS(DN, "--doc", text, "--length", "256", "--out", out, "--assemble"));
    run_holds(r.err, "was made before the document changed");
    run_free(&r);
    r = report_ends(0, WORDS(DN, "--doc", text, "--length", "512", "--out", out));
    run_free(&r);
    r = report_ends(1, WORDS(DN, "--doc", text, "--length", "256", "--out", out, "--assemble"));
    run_holds(r.err, "was made with other settings");
    run_free(&r);
}

// ---- what goes wrong ----------------------------------------------------------------------------

static int left_over(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)at;
    if (type == FTW_F && strstr(path, ".tmp"))
        fail_msg("%s was left behind", path);
    return 0;
}

// A small file system that fills up: root mounts one, others have a limit on the size of a file.
static void a_full_disk_is_told_and_leaves_no_half_files(void **unused) {
    (void)unused;
    const char *out = report_folder("small");
    files_mkdir(out);
    bool mounted = mount("none", out, "tmpfs", 0, "size=700k") == 0;
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 60000;
    if (!mounted) {
        signal(SIGXFSZ, SIG_IGN); // inherited
        setrlimit(RLIMIT_FSIZE, &small);
    }
    run r = report_start(WORDS(DN, "--doc", TEXT, "--length", "512", "--out", out), 0);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    bool told = strstr(r.err, "cannot write: ") != NULL && strstr(r.err, out) != NULL;
    int code = r.code;
    char text[400];
    snprintf(text, sizeof text, "%s", r.err);
    run_free(&r);
    int bad = nftw(out, left_over, 16, FTW_PHYS);
    if (mounted)
        umount(out);
    assert_int_equal(bad, 0);
    if (code != 1 || !told)
        fail_msg("exit code %d: %s", code, text);
    printf("measured: %s\n", mounted ? "a file system of 700 kB" : "a limit on the size of files");
}

static void a_folder_that_may_not_be_written_is_told_before_the_work(void **unused) {
    (void)unused;
    const char *locked = report_folder("locked");
    files_mkdir(locked);
    assert_int_equal(chmod(locked, 0500), 0);
    bool root = geteuid() == 0;
    if (root && access("/sys/kernel", X_OK) != 0) {
        printf("SKIP: no folder that root may not write\n");
        skip();
    }
    const char *out = root ? "/sys/kernel" : locked;
    double from = files_seconds();
    run r = report_ends(1, WORDS(DN, "--doc", TEXT, "--out", out));
    if (!strstr(r.err, out))
        fail_msg("said: %s", r.err);
    // All of the document would take seconds.
    printf("measured: told after %.2f s\n", files_seconds() - from);
    assert_string_equal(r.out, "");
    run_free(&r);
    chmod(locked, 0700);
}

// One of three models is damaged: the others are read, the page names it, exit code 1.
static void a_damaged_model_is_named_and_the_others_are_read(void **unused) {
    (void)unused;
    tiny_model *m = tiny_load(DN);
    tiny_drop(m, "model.layers.1.attn.q_proj.weight");
    const char *damaged = report_keep(tiny_save(m, "damaged")), *out = report_folder("partly");
    tiny_free(m);
    files_write(report_keep(files_path("damaged/tokenizer.json")), "", 0);
    size_t n = 0;
    char *tokenizer = files_read(DN "/tokenizer.json", &n);
    files_write(files_path("damaged/tokenizer.json"), tokenizer, n);
    free(tokenizer);
    run r = report_ends(1, WORDS(damaged, DN, "--doc", TEXT, "--length", "256", "--out", out));
    if (!strstr(r.out, "Missing") || !strstr(r.out, "q_proj"))
        fail_msg("said: %s%s", r.out, r.err);
    run_free(&r);
    char *page = files_read(files_path("partly/index.html"), &n);
    if (!strstr(page, "q_proj"))
        fail_msg("the page does not name the tensor");
    free(page);
    report_lines l = report_read("partly");
    assert_true(report_value(&l, "loss", "small-deltanet", -1, -1, 256, -1) > 0);
    report_free_lines(&l);
    // Nothing but damaged models is an error, and no page.
    r = report_ends(1, WORDS(damaged, "--doc", TEXT, "--out", report_folder("none")));
    assert_true(strstr(r.err, "q_proj") != NULL);
    run_free(&r);
    assert_true(access(files_path("none/index.html"), F_OK) != 0);
}

// Rows open their document again, so that a pipe would hang or be empty.
static void a_pipe_is_refused_before_the_work(void **unused) {
    (void)unused;
    const char *pipe = report_keep(files_path("pipe.txt")), *out = report_folder("pipe-out");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    run r = report_ends(1, WORDS(DN, "--doc", pipe, "--length", "64", "--out", out));
    if (!strstr(r.err, "is a pipe, which can be read only once"))
        fail_msg("said: %s", r.err);
    assert_ptr_equal(strchr(r.err, '\n'), r.err + r.n_err - 1);
    run_free(&r);
    assert_int_not_equal(access(out, F_OK), 0);
}

static void the_command_line_says_what_is_missing(void **unused) {
    (void)unused;
    static const struct {
        const char *words[8]; // NULL at the end
        const char *says;
    } cases[] = {
        {{DN, "--doc", TEXT}, "add --out DIR"},
        {{DN, "--out", "x"}, "document"},
        {{"--doc", TEXT, "--out", "x"}, "model"},
        {{DN, "--doc", DP, "--out", "x"}, "is a model, not a document"},
        {{DN, TEXT, "--out", "x", "--baseline", "y"}, "--rules"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = report_ends(2, cases[i].words);
        if (!strstr(r.err, cases[i].says))
            fail_msg("case %zu said: %s", i, r.err);
        run_free(&r);
    }
    run r = report_start(WORDS(DN, "--doc", "nowhere.txt", "--out", "x"), 0);
    assert_int_equal(r.code, 1);
    run_free(&r);
}

static void a_document_may_come_from_standard_input(void **unused) {
    (void)unused;
    const char *out = report_folder("piped");
    const char *argv[] = {"report", DN, DP, "--doc", "-", "--out", out, NULL};
    char text[4000] = "";
    for (int i = 0; i < 40; i++)
        strcat(text, "And God saw the light, that it was good. ");
    run r = {.argv = argv, .input = text, .n_input = strlen(text), .timeout = 60};
    assert_true(run_program(&r));
    if (r.code != 0)
        fail_msg("exit code %d: %s", r.code, r.err);
    run_free(&r);
    report_lines l = report_read("piped");
    assert_true(report_value(&l, "loss_mean", "small-deltaproduct2", -1, -1, -1, -1) > 0);
    report_free_lines(&l);
}

// A pass that overflows from the first token on: no signal of any head is a number, so there is no picture
// of them, and the page does not ask for one.
static void a_model_without_one_number_has_a_page(void **unused) {
    (void)unused;
    tiny_model *m = tiny_load(DN);
    tiny_tensor *t = tiny_get(m, "model.embeddings.weight");
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = 1e38f;
    const char *model = report_model(m, "huge"), *out = report_folder("huge-out");
    size_t n = 0;
    run r = report_ends(
        0, WORDS(model, "--doc", TEXT, "--length", "64", "--device", "cpu", "--out", out));
    run_free(&r);
    char *page = files_read(files_path("huge-out/report.md"), &n);
    run_holds(page, "63 losses are NaN or infinite.");
    assert_null(strstr(page, "writes.png"));
    free(page);
}

// Longest line of TEXT; every line of a finding begins below its first word.
static size_t widest(const char *text, const char *what) {
    size_t most = 0, indent = 0;
    bool inside = false;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "\r\n"), blanks = strspn(at, " ");
        most = n > most ? n : most;
        bool mark = blanks == 2 && at[2] == '!';
        if (mark)
            indent = at[3] == '!' ? 5 : 4;
        else if (inside && blanks != indent && blanks != 2)
            fail_msg("%s: indented by %zu, not %zu: %.*s", what, blanks, indent, (int)n, at);
        inside = mark || (inside && blanks > 2);
        at += n;
        at += *at == '\r';
        at += *at == '\n';
    }
    return most;
}

// Findings are as wide as the terminal, into a pipe 80 columns. What programs read has no line breaks, and
// neither have the files.
static void findings_are_wrapped(void **unused) {
    (void)unused;
    const char *say = "heads grow in effective rank beyond the training length by more than 1, ";
    const char *argv[] = {
        "report",  DN,   DP,  "--doc", TEXT, "--length", "2k", "--out", report_folder("wrapped"),
        "--quiet", NULL, NULL};
    run r = {.argv = argv, .timeout = 120};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, say)); // it is wrapped
    size_t piped = widest(r.out, "piped");
    assert_true(piped > 60 && piped <= 80);
    report_unwrap(r.out);
    run_holds(r.out, say);
    size_t n;
    char *page = files_read(files_path("wrapped/report.md"), &n);
    run_holds(page, say);
    free(page);
    static const int columns[] = {40, 132};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        pty p = pty_start(argv, NULL, 24, columns[i]);
        pty_end(&p, 120);
        assert_int_equal(p.code, 0);
        size_t most = widest(p.out, "terminal");
        if (most > (size_t)columns[i] || most < (size_t)columns[i] - 20)
            fail_msg("%d columns: %zu wide\n%s", columns[i], most, p.out);
        pty_free(&p);
    }
    run_free(&r);
    argv[10] = "--json";
    r = (run){.argv = argv, .timeout = 120};
    assert_true(run_program(&r));
    run_holds(r.out, say);
    run_free(&r);
}

#define CASE(name) cmocka_unit_test_setup(name, files_cleared)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_killed_report_goes_on_and_gives_the_same_bytes),
        CASE(results_of_other_settings_are_not_taken),
        CASE(a_document_that_was_cut_is_told_and_not_other_settings),
        CASE(a_full_disk_is_told_and_leaves_no_half_files),
        CASE(a_folder_that_may_not_be_written_is_told_before_the_work),
        CASE(a_damaged_model_is_named_and_the_others_are_read),
        CASE(a_model_without_one_number_has_a_page),
        CASE(a_pipe_is_refused_before_the_work),
        CASE(the_command_line_says_what_is_missing),
        CASE(a_document_may_come_from_standard_input),
        CASE(findings_are_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
