// deltop bench and deltop compare from outside: exit codes, files, and what they say about bad input.
#include "bench/record.h"
#include "core/jsonio.h"
#include "tests/bench_rows.h"
#include "tests/files.h"
#include "tests/run.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OLD       "tests/cases/bench/old.json"
#define NEW       "tests/cases/bench/new.json"

static run start_in(const char *const *argv, const char *const *env) {
    run r = {.argv = argv, .env = env, .timeout = 60};
    if (!run_program(&r))
        fail_msg("%s: cannot be started (make deltop, or set DELTOP)", run_program_path());
    return r;
}

static run start(const char *const *argv) {
    return start_in(argv, NULL);
}

static void expect(const char *const *argv, int code, const char *says) {
    run r = start(argv);
    if (r.code != code || (says && !strstr(r.err, says) && !strstr(r.out, says)))
        fail_msg("%s %s: exit code %d (expected %d), said: %s%s", argv[0], argv[1] ? argv[1] : "",
                 r.code, code, r.err, r.out);
    run_free(&r);
}

static json_t *json_of(const run *r) {
    err e = {0};
    json_t *v = jsonio_parse(r->out, r->n_out, "standard output", NULL, &e);
    if (!v)
        fail_msg("%s: %.300s", e.text, r->out);
    return v;
}

static void every_verdict_shows_once_in_the_pair_of_examples(void **state) {
    (void)state;
    run r = start(ARGS("compare", OLD, NEW, "--json"));
    assert_int_equal(r.code, 4);
    json_t *v = json_of(&r), *rows = json_object_get(v, "rows");
    static const struct {
        int T;
        const char *verdict;
    } expected[] = {{128, "SLOWER"}, {256, "FASTER"}, {512, "SAME"},          {1024, "UNCLEAR"},
                    {2048, "GONE"},  {4096, "WRONG"}, {8192, "INCOMPARABLE"}, {16384, "NEW"}};
    assert_int_equal(json_array_size(rows), 8);
    for (size_t i = 0; i < 8; i++) {
        const json_t *row = json_array_get(rows, i),
                     *T = json_object_get(json_object_get(row, "params"), "T");
        for (size_t k = 0; k < 8; k++)
            if (json_integer_value(T) == expected[k].T)
                assert_string_equal(json_string_value(json_object_get(row, "verdict")),
                                    expected[k].verdict);
        assert_int_equal(json_integer_value(
                             json_object_get(json_object_get(v, "verdicts"), expected[i].verdict)),
                         1);
    }
    json_decref(v);
    run_free(&r);
    expect(ARGS("compare", OLD, OLD), 0, "7 SAME" + 2);
    expect(ARGS("compare", NEW, NEW, "--strict"), 4, "WRONG");
}

static void B129_exit_codes_tell_slower_from_nothing_compared(void **state) {
    (void)state;
    const char *none = files_path("none.json"), *bad = files_path("bad.json");
    files_text(none, "{\"schema\": \"deltop-bench\", \"schema_version\": 1, \"rows\": []}");
    expect(ARGS("compare", none, none), 5, "nothing was compared");
    expect(ARGS("compare", OLD, none), 5, "GONE");
    expect(ARGS("compare", none, OLD), 5, "NEW");
    expect(ARGS("compare", OLD, files_path("gone.json")), 1, "no such file");
    files_text(bad, "{\"schema\": \"deltop-bench\", \"schema_version\": 2, \"rows\": []}");
    expect(ARGS("compare", OLD, bad), 1, "schema_version 2, this program reads 1");
    files_text(bad, "{\"rows\": []}");
    expect(ARGS("compare", OLD, bad), 1, "is no result of deltop bench");
    files_text(bad, "{\"schema\": \"deltop-bench\", \"schema_version\": 1, \"rows\": [{}]}");
    expect(ARGS("compare", OLD, bad), 1, "rows[0] has no params");
    files_text(bad, "{\"schema\": \"deltop-bench\", \"schema_version\": 1, \"rows\": [{\"params\": "
                    "{\"op\": \"x\"}, \"status\": \"great\"}]}");
    expect(ARGS("compare", OLD, bad), 1, "status is none of");
    files_text(bad, "{\"schema\": \"deltop-bench\", \"rows\": [NaN]}");
    expect(ARGS("compare", OLD, bad), 1, "line 1");
    expect(ARGS("compare", OLD), 2, "two results are needed");
}

static void B89_thresholds_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"nan", "-1", "inf", "", "5%", "1e9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char word[64];
        snprintf(word, sizeof word, "--threshold=%s", bad[i]);
        expect(ARGS("compare", OLD, NEW, word), 2, "--threshold");
    }
    expect(ARGS("compare", OLD, NEW, "--threshold", "3", "--threshold", "4"), 2, "given twice");
    expect(ARGS("compare", OLD, OLD, "--threshold", "0"), 0, NULL);
}

static void options_that_make_no_sense_are_usage_errors(void **state) {
    (void)state;
    expect(ARGS("bench", "--suite", "slow"), 2, "there are quick, ci");
    expect(ARGS("bench", "--axis", "T=0"), 2, "axis T");
    expect(ARGS("bench", "--axis", "nonsense"), 2, "is no axis with values");
    expect(ARGS("bench", "--axis", "op=gdn", "--axis", "form=step", "--axis", "form=chunk"), 2,
           "\"form=step\" and \"form=chunk\" name one axis twice");
    expect(ARGS("bench", "--case", "gdn", "--axis", "D=64"), 2,
           "no case that is left has the axis of \"D=64\"");
    // A single call of minutes is not begun for a budget of a tenth of a second.
    expect(ARGS("bench", "--axis", "op=erank", "--axis", "H=65536", "--axis", "T=16", "--budget",
                "0.1"),
           1, "and the budget is 0.1 s (--budget)");
    expect(ARGS("bench", "--case", "no-such-case"), 2, "no case is left");
    expect(ARGS("bench", "extra"), 2, "takes no extra");
    expect(ARGS("bench", "--ab", "step"), 2, "takes two words");
    expect(ARGS("bench", "--ab", "step", "stpe", "--case", "gdn"), 2, "\"stpe\" is no kernel");
    expect(ARGS("bench", "--ab", "step", "chunk", "--git-bisect", "a"), 2, "one at a time");
    expect(ARGS("bench", "--ab", "step", "chunk", "--slow", "gdn=5"), 2, "one at a time");
    expect(ARGS("bench", "--ab", "step", "chunk", "--junit", "x.xml"), 2, "one at a time");
    expect(ARGS("bench", "--slow", "gdn"), 2, "is not OPERATION=PERCENT");
    expect(ARGS("bench", "--slow", "gdn=nan"), 2, "is not OPERATION=PERCENT");
    expect(ARGS("bench", "--slow", "gnd=5"), 2, "operation \"gnd\" is not known");
    expect(ARGS("bench", "--suite", "model"), 2, "--model");
    expect(ARGS("bench", "--plugin", "no-such.so"), 1, "no-such.so");
    expect(ARGS("bench", "--external", files_path("gone.json"), "--case", "l2norm", "--budget",
                "0.01"),
           1, "no such file");
    expect(ARGS("bench", "--git-bisect", "no-such-commit", "HEAD"), 1,
           "no-such-commit is no commit here");
    expect(ARGS("bench", "--list"), 0, "flashkda");
}

#define SHORT "--case", "l2norm", "--budget", "0.05", "--rounds", "2"

// Paths with quotes, a newline and bytes that are no UTF-8, and a comma locale (B87).
static void B87_json_parses_under_hostile_paths_and_locales(void **state) {
    (void)state;
    static const char *const german[] = {"LC_ALL=de_DE.UTF-8", "LANG=de_DE.UTF-8", NULL};
    const char *folder = files_path("a \"quoted\"\nfolder \xff\xfe ü");
    files_mkdir(folder);
    run r = start_in(ARGS("bench", SHORT, "--json", "--out", folder), german);
    if (r.code != 0)
        fail_msg("exit code %d: %s", r.code, r.err);
    json_t *v = json_of(&r);
    json_t *row = json_array_get(json_object_get(v, "rows"), 0);
    assert_true(json_is_number(json_object_get(json_object_get(row, "warm"), "median")));
    json_decref(v);
    run_free(&r);
    // The file it wrote reads again, and so does a comparison of it, in that locale.
    char file[512];
    snprintf(file, sizeof file, "%s/bench.json", folder);
    r = start_in(ARGS("compare", file, file, "--json", "--out", folder), german);
    assert_int_equal(r.code, 0);
    json_decref(json_of(&r));
    run_free(&r);
    static const char *const names[] = {"bench.csv",   "bench.md",   "bench.xml",  "bench.png",
                                        "compare.csv", "compare.md", "compare.xml"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = 0;
        snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        char *text = files_read(file, &n);
        assert_true(n > 50);
        for (size_t k = 1; k + 1 < n && strstr(names[i], ".md"); k++) // no decimal commas
            assert_false(text[k] == ',' && text[k - 1] >= '0' && text[k - 1] <= '9' &&
                         text[k + 1] >= '0' && text[k + 1] <= '9');
        int commas = 0, header = 0; // every line of a table has as many fields as its head
        for (size_t k = 0; k < n && strstr(names[i], ".csv"); k++) {
            commas += text[k] == ',';
            if (text[k] != '\n')
                continue;
            if (header && commas)
                assert_int_equal(commas, header);
            header = header ? header : commas;
            commas = 0;
        }
        free(text);
    }
}

// A result names kernel, shape, number format, device and clock or load, and keeps the first call (B88).
static void B88_a_result_says_what_was_timed(void **state) {
    (void)state;
    run r = start(ARGS("bench", SHORT, "--case", "gdn.B8", "--json"));
    json_t *v = json_of(&r);
    json_t *rows = json_object_get(v, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 2);
    json_array_foreach(rows, i, row) {
        const json_t *p = json_object_get(row, "params");
        assert_true(json_string_length(json_object_get(row, "kernel")) > 3);
        assert_string_equal(json_string_value(json_object_get(p, "dtype")), "f32");
        assert_string_equal(json_string_value(json_object_get(p, "device")), "cpu");
        assert_int_equal(json_integer_value(json_object_get(p, "threads")), 1);
        assert_true(json_real_value(json_object_get(row, "first_ms")) > 0);
        assert_true(json_is_number(json_object_get(row, "load")));
        const json_t *warm = json_object_get(row, "warm");
        assert_true(json_array_size(json_object_get(warm, "samples_ms")) ==
                    (size_t)json_integer_value(json_object_get(warm, "n")));
    }
    const json_t *where = json_object_get(v, "environment");
    assert_true(json_string_length(json_object_get(json_object_get(where, "build"), "sha256")) ==
                64);
    assert_true(json_string_length(json_object_get(json_object_get(where, "build"), "commit")) > 0);
    json_decref(v);
    run_free(&r);
    // An input of zeros is marked in the name (B134).
    expect(ARGS("bench", SHORT, "--axis", "input=zeros"), 0, ".zeros.");
}

// 2000 rows in 60000 bytes: every SLOWER row stays, and what was left out is said (B136).
static void B136_markdown_has_a_limit_that_keeps_what_matters(void **state) {
    (void)state;
    enum { ROWS = 2000, SLOW = 30 };
    record a, b;
    record_init(&a);
    record_init(&b);
    made how = {
        .ms = 1, .between = 0.002, .within = 0.005, .rounds = 4, .per_round = 2, .clock = 20};
    for (int i = 0; i < ROWS; i++) {
        how.ms = 1;
        made_row(&a, i, how, 2 * (uint64_t)i);
        how.ms = i % (ROWS / SLOW) == 0 ? 1.5 : 1;
        made_row(&b, i, how, 2 * (uint64_t)i + 1);
    }
    const char *path[2] = {files_path("a.json"), files_path("b.json")};
    record *const both[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        json_t *v = record_json(both[i]);
        char *text = json_dumps(v, 0);
        files_text(path[i], text);
        free(text);
        json_decref(v);
        record_free(both[i]);
    }
    run r = start(ARGS("compare", path[0], path[1], "--markdown", "--max-bytes", "60000"));
    assert_int_equal(r.code, 4);
    int slow = 0;
    for (const char *s = r.out; (s = strstr(s, "**SLOWER**")); s++)
        slow++;
    printf("measured markdown of %d rows: %zu bytes, %d SLOWER rows\n", ROWS, r.n_out, slow);
    assert_true(r.n_out <= 60000);
    assert_int_equal(slow, 31);
    assert_non_null(strstr(r.out, "further rows were left out"));
    run_free(&r);
}

static void B133_accept_moves_the_baseline(void **state) {
    (void)state;
    const char *base = files_path("base.json");
    size_t n = 0, m = 0;
    char *old = files_read(OLD, &n), *new = files_read(NEW, &m);
    files_write(base, old, n);
    expect(ARGS("compare", base, NEW, "--accept"), 4, "is the new baseline");
    char *now = files_read(base, &n);
    assert_int_equal(n, m);
    assert_memory_equal(now, new, n);
    expect(ARGS("compare", base, OLD, NEW, "--accept"), 2, "needs one baseline");
    free(old);
    free(new);
    free(now);
}

static void a_wrong_kernel_gets_no_time_and_exit_code_4(void **state) {
    (void)state;
    const char *source = files_path("wrong.c"), *so = files_path("wrong.so");
    files_text(
        source,
        "#include \"bench/plugin.h\"\n"
        "static int yes(const deltop_recurrence *r) { return r->tokens == 512; }\n"
        "static int run(const deltop_recurrence *r) { ((float *)r->o.data)[0] = 1; return 0; }\n"
        "static const deltop_kernel k[] = {{\"zero\", DELTOP_CPU, DELTOP_F32, yes, run}};\n"
        "static const deltop_plugin p = {DELTOP_PLUGIN_ABI, \"bad\", \"0\", 1, k};\n"
        "const deltop_plugin *deltop_plugin_get(void) { return &p; }\n");
    char command[1200];
    snprintf(command, sizeof command, "cc -shared -fPIC -I. -o '%s' '%s' 2>/dev/null", so, source);
    if (system(command) != 0) {
        printf("SKIP: no compiler for a plugin\n");
        skip();
    }
    run r = start(ARGS("bench", "--case", "deltanet", "--case", "kda", "--budget", "0.05",
                       "--rounds", "2", "--plugin", so, "--json"));
    assert_int_equal(r.code, 4);
    json_t *v = json_of(&r), *rows = json_object_get(v, "rows"), *row;
    size_t i, wrong = 0;
    assert_int_equal(json_array_size(rows), 3); // kda has T=256: the plugin is not asked
    json_array_foreach(rows, i, row) {
        if (strcmp(json_string_value(json_object_get(row, "status")), "wrong") != 0)
            continue;
        wrong++;
        assert_null(json_object_get(row, "warm")); // no time
        assert_non_null(strstr(json_string_value(json_object_get(row, "why")), "output off by"));
    }
    assert_int_equal(wrong, 1);
    json_decref(v);
    run_free(&r);
    files_text(source, "#include <stddef.h>\n#include \"bench/plugin.h\"\n"
                       "static const deltop_plugin p = {99, \"old\", \"0\", 0, NULL};\n"
                       "const deltop_plugin *deltop_plugin_get(void) { return &p; }\n");
    assert_int_equal(system(command), 0);
    expect(ARGS("bench", "--plugin", so), 1, "was built for interface 99");
    files_text(source, "int nothing;\n");
    assert_int_equal(system(command), 0);
    expect(ARGS("bench", "--plugin", so), 1, "exports no deltop_plugin_get");
}

// Right outputs do not excuse a wrong final state: one that is no number, and one that is wrong only with
// correlated keys (the gate's second call).
static void a_wrong_final_state_gets_no_time(void **state) {
    (void)state;
    static const struct {
        const char *body, *why;
    } ways[] = {
        {"((float *)r->state.data)[0] = NAN;", "final state off by inf, allowed 1e-04"},
        {"if (++calls == 2) ((float *)r->state.data)[0] += 1;",
         "output or final state with correlated keys off by"},
    };
    const char *source = files_path("state.c"), *so = files_path("state.so");
    char command[1200], text[1200];
    snprintf(command, sizeof command, "cc -shared -fPIC -I. -o '%s' '%s' -lm 2>/dev/null", so,
             source);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        snprintf(
            text, sizeof text,
            "#define deltop_plugin_get plain_get\n#include \"examples/plugin/plugin.c\"\n"
            "#undef deltop_plugin_get\nstatic int calls = 0;\n"
            "static int spoil(const deltop_recurrence *r) { (void)calls; run(r); %s return 0; }\n"
            "static const deltop_kernel k[] = {{\"s\", DELTOP_CPU, DELTOP_F32, supports, spoil}};\n"
            "static const deltop_plugin p = {DELTOP_PLUGIN_ABI, \"state\", \"0\", 1, k};\n"
            "const deltop_plugin *deltop_plugin_get(void) { return &p; }\n",
            ways[w].body);
        files_text(source, text);
        if (system(command) != 0) {
            printf("SKIP: no compiler for a plugin\n");
            skip();
        }
        expect(ARGS("bench", "--case", "gdn.B1.T512.H4.*", "--budget", "0.02", "--rounds", "1",
                    "--plugin", so),
               4, ways[w].why);
    }
}

// Whatever a plugin does, a sentence says which one it was and in which case, and our own kernels are
// measured all the same.
static void a_plugin_that_crashes_is_a_failed_row(void **state) {
    (void)state;
    const char *source = files_path("crash.c"), *so = files_path("crash.so");
    static const struct {
        const char *body, *why;
    } ways[] = {
        {"*(volatile float *)8 = 1; return 0;", "crash:it: crashed: Segmentation fault"},
        {"abort();", "crash:it: crashed: Aborted"},
        {"return deep(r, 1) != 0;", "crash:it: crashed: Segmentation fault"},
        {"return 7;", "crash:it: its run returned 7"},
    };
    char command[1200], text[2000];
    snprintf(command, sizeof command, "cc -shared -fPIC -I. -pthread -o '%s' '%s' 2>/dev/null", so,
             source);
    static const char frame[] =
        "#include <pthread.h>\n#include <stdlib.h>\n#include \"bench/plugin.h\"\n"
        "static int yes(const deltop_recurrence *r) { return r->tokens > 1; }\n"
        "__attribute__((unused)) static int deep(const deltop_recurrence *r, int n) {\n"
        "    volatile char room[4096]; room[n %% 4096] = 1;\n"
        "    return n < 0 ? 0 : deep(r, n + 1) + room[n %% 4096]; }\n"
        "__attribute__((unused)) static void *dies(void *x) { *(volatile int *)8 = 1; return x; }\n"
        "static int run(const deltop_recurrence *r) { (void)r; %s }\n"
        "static const deltop_kernel k[] = {{\"it\", DELTOP_CPU, DELTOP_F32, yes, run}};\n"
        "static const deltop_plugin p = {DELTOP_PLUGIN_ABI, \"crash\", \"0\", 1, k};\n"
        "const deltop_plugin *deltop_plugin_get(void) { %s return &p; }\n";
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        snprintf(text, sizeof text, frame, ways[w].body, "");
        files_text(source, text);
        if (system(command) != 0) {
            printf("SKIP: no compiler for a plugin\n");
            skip();
        }
        run r = start(ARGS("bench", "--case", "gdn.B1", "--case", "kda", "--budget", "0.02",
                           "--rounds", "1", "--plugin", so, "--json"));
        if (r.code != 4)
            fail_msg("%s: code %d, signal %d: %s", ways[w].body, r.code, r.ended_by, r.err);
        json_t *v = json_of(&r), *row;
        size_t i, failed = 0, timed = 0;
        json_array_foreach(json_object_get(v, "rows"), i, row) {
            const char *why = json_string_value(json_object_get(row, "why"));
            bool ours =
                strcmp(json_string_value(json_object_get(json_object_get(row, "params"), "impl")),
                       "deltop") == 0;
            timed += ours && json_object_get(row, "warm");
            if (ours)
                continue;
            failed++;
            if (!why || !strstr(why, ways[w].why))
                fail_msg("%s: %s", ways[w].body, why ? why : "no reason");
        }
        assert_int_equal(failed, 3);
        assert_int_equal(timed, 3);
        json_decref(v);
        run_free(&r);
    }
    // In a thread of its own nothing can go on: the sentence, then the signal.
    snprintf(text, sizeof text, frame,
             "pthread_t t; pthread_create(&t, 0, dies, 0); return pthread_join(t, 0);", "");
    files_text(source, text);
    assert_int_equal(system(command), 0);
    run r =
        start(ARGS("bench", "--case", "kda", "--budget", "0.02", "--rounds", "1", "--plugin", so));
    if (r.ended_by != SIGSEGV)
        fail_msg("code %d, signal %d: %s", r.code, r.ended_by, r.err);
    assert_non_null(strstr(r.err, "deltop: kda.B1.T256.H4.K64.V64.f32.cpu.crash:it: crashed in a "
                                  "thread of its own"));
    run_free(&r);
    snprintf(text, sizeof text, frame, "return 0;", "*(volatile int *)8 = 1;");
    files_text(source, text);
    assert_int_equal(system(command), 0);
    expect(ARGS("bench", "--plugin", so), 1, "deltop_plugin_get crashed: Segmentation fault");
}

// A file of the peers' kit: rows beside ours, slower and wrong ones.
static void rows_of_other_programs_stand_beside_ours(void **state) {
    (void)state;
    const char *peer = files_path("peer.json");
    files_text(
        peer,
        "{\"peer\": \"fla\", \"rows\": [{\"id\": \"a\", \"variant\": \"triton\", \"status\": "
        "\"ok\","
        "\"shape\": {\"op\": \"gdn\", \"B\": 1, \"T\": 32768, \"H\": 16, \"K\": 128, \"V\": 128},"
        "\"error_vs_fp64\": {\"rel_l2\": 0.0046}, \"floor_ms\": 0.126,"
        "\"ms\": {\"eager_warm\": {\"median\": 1.3}, \"graph_warm\": {\"median\": 1.25}},"
        "\"samples_ms\": {\"eager_warm\": [1.3, 1.3], \"graph_warm\": [1.25, 1.26, null]}},"
        "{\"id\": \"b\", \"variant\": \"cp\", \"status\": \"wrong\", \"shape\": {\"op\": \"kda\","
        "\"B\": 1, \"T\": 8192, \"H\": 64, \"K\": 128, \"V\": 128}},"
        "{\"id\": \"c\", \"variant\": \"-\", \"status\": \"skipped\", \"why\": \"time limit\"}]}");
    run r = start(ARGS("bench", SHORT, "--external", peer, "--json"));
    assert_int_equal(r.code, 0); // another program's wrong row is not our failure
    json_t *v = json_of(&r), *rows = json_object_get(v, "rows");
    assert_int_equal(json_array_size(rows), 3);
    const json_t *row = json_array_get(rows, 1);
    assert_string_equal(json_string_value(json_object_get(row, "source")), "fla");
    assert_string_equal(json_string_value(json_object_get(json_object_get(row, "params"), "impl")),
                        "fla:triton");
    assert_int_equal(json_array_size(json_object_get(json_object_get(row, "warm"), "samples_ms")),
                     3);
    json_decref(v);
    run_free(&r);
    expect(ARGS("bench", SHORT, "--external", OLD), 0, "gdn.B1.T128"); // a file of our own will do
    files_text(peer, "{\"rows\": []}");
    expect(ARGS("bench", SHORT, "--external", peer), 1, "is neither a result of deltop bench nor");
}

// A config alone is enough to time a model; in a folder without weights.
static void a_config_gets_random_weights(void **state) {
    (void)state;
    size_t n = 0;
    char *text = files_read("examples/small-deltaproduct2/config.json", &n);
    const char *folder = files_path("model");
    files_mkdir(folder);
    files_write(files_path("model/config.json"), text, n);
    free(text);
    expect(ARGS("bench", "--suite", "model", "--model", folder, "--axis", "T=48", "--budget", "0.1",
                "--rounds", "2"),
           0, "model.T48.f32.cpu.model");
    expect(ARGS("bench", "--suite", "model", "--model", files_path("nowhere")), 1, "nowhere");
    // Known by what it holds, wherever it lies (B135).
    const char *path[3] = {folder, "tests/../examples/small-deltanet", "examples/small-deltanet"};
    char id[3][64];
    for (int i = 0; i < 3; i++) {
        run r = start(ARGS("bench", "--suite", "model", "--model", path[i], "--axis", "T=8",
                           "--budget", "0.02", "--rounds", "1", "--no-cold", "--json"));
        json_t *v = json_of(&r);
        const json_t *row = json_array_get(json_object_get(v, "rows"), 0);
        const char *model =
            json_string_value(json_object_get(json_object_get(row, "params"), "model"));
        snprintf(id[i], sizeof id[i], "%s", model ? model : "");
        json_decref(v);
        run_free(&r);
    }
    assert_string_equal(id[1], id[2]);
    assert_string_not_equal(id[0], id[1]);
}

static void a_device_that_is_not_there_is_exit_code_3(void **state) {
    (void)state;
    if (access("/dev/nvidia0", F_OK) == 0) {
        printf("SKIP: there is a device\n");
        skip();
    }
    expect(ARGS("bench", "--device", "cuda", "--case", "l2norm"), 3, "CUDA");
    expect(ARGS("bench", "--suite", "kernels"), 3, "CUDA");
    expect(ARGS("bench", "--suite", "spectra", "--case", "window.T4.K64.W16", "--budget", "0.02"),
           0, NULL);
}

static void two_forms_are_measured_in_turns(void **state) {
    (void)state;
    run r = start(ARGS("bench", "--ab", "step", "chunk", "--axis", "op=gla", "--axis", "T=256",
                       "--budget", "0.1", "--rounds", "4", "--json"));
    assert_true(r.code == 0 || r.code == 4);
    json_t *v = json_of(&r);
    assert_string_equal(json_string_value(json_object_get(v, "a")), "step");
    assert_int_equal(json_array_size(json_object_get(v, "rows")), 1);
    json_decref(v);
    run_free(&r);
    // Two programs: the same one twice is noticed (B130).
    char program[600];
    snprintf(program, sizeof program, "%s%s", strchr(run_program_path(), '/') ? "" : "./",
             run_program_path());
    expect(ARGS("bench", "--ab", program, program, "--case", "l2norm", "--budget", "0.2",
                "--rounds", "3"),
           0, "are the same program");
    // They measure what this program would: an operation by its name alone, not the suite's cases of it.
    r = start(ARGS("bench", "--ab", program, program, "--axis", "op=gdn", "--axis", "T=16",
                   "--budget", "0.02", "--rounds", "1", "--json"));
    v = json_of(&r);
    assert_int_equal(json_array_size(json_object_get(v, "rows")), 1);
    json_decref(v);
    run_free(&r);
}

// Six commits of a program that says what it took; the fourth is slower, the third does not build.
static void the_commit_that_slowed_a_case_is_found(void **state) {
    (void)state;
    const char *folder = files_path("repo"), *script = files_path("make-repo.sh");
    files_mkdir(folder);
    files_text(
        script,
        "set -e\n"
        "cd \"$1\"\n"
        "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
        "GIT_COMMITTER_NAME=a "
        "GIT_COMMITTER_EMAIL=a@b\n"
        "git init -q .\n"
        "say() {\n"
        "    printf '#!/bin/sh\\n# %s\\necho '\"'\"'{\"schema\": \"deltop-bench\", "
        "\"schema_version\": 1, "
        "\"rows\": [{\"params\": {\"op\": \"x\"}, \"status\": \"ok\", \"warm\": {\"samples_ms\": "
        "[%s, %s, %s]}}]}'\"'\"'\\n' \"$2\" $1 $1 $1 >deltop\n"
        "    echo \"$3\" >ok; git add -A; git commit -q -m \"$2\"\n"
        "}\n"
        "say 1.00 first 1; git tag good\n"
        "say 1.00 second 1; say 1.00 broken 0; say 1.30 'the slow one' 1; say 1.30 fifth 1; say "
        "1.30 last 1\n");
    char command[4096], cwd[1024], program[2048];
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(program, sizeof program, "%s%s%s", run_program_path()[0] == '/' ? "" : cwd,
             run_program_path()[0] == '/' ? "" : "/", run_program_path());
    snprintf(command, sizeof command, "sh '%s' '%s' >/dev/null 2>&1", script, folder);
    if (system(command) != 0) {
        printf("SKIP: no git\n");
        skip();
    }
    const char *out = files_path("bisect.txt");
    snprintf(command, sizeof command,
             "cd '%s' && '%s' bench --git-bisect good HEAD --rounds 4 --build-command "
             "'grep -q 1 ok && chmod +x deltop' >'%s%s%s' 2>/dev/null",
             folder, program, out[0] == '/' ? "" : cwd, out[0] == '/' ? "" : "/", out);
    assert_int_equal(system(command), 0);
    size_t n = 0;
    char *text = files_read(out, &n);
    if (!strstr(text, "is the first slow commit: the slow one"))
        fail_msg("%s", text);
    free(text);
    snprintf(command, sizeof command, "cd '%s' && test -z \"$(git worktree list | tail -n +2)\"",
             folder);
    assert_int_equal(system(command), 0); // the worktrees are gone
    snprintf(command, sizeof command,
             "cd '%s' && '%s' bench --git-bisect HEAD good >/dev/null 2>&1", folder, program);
    assert_int_equal(system(command) >> 8, 1); // the wrong way round
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verdict_shows_once_in_the_pair_of_examples),
        cmocka_unit_test(B129_exit_codes_tell_slower_from_nothing_compared),
        cmocka_unit_test(B89_thresholds_that_are_none_are_refused),
        cmocka_unit_test(options_that_make_no_sense_are_usage_errors),
        cmocka_unit_test(B87_json_parses_under_hostile_paths_and_locales),
        cmocka_unit_test(B88_a_result_says_what_was_timed),
        cmocka_unit_test(B136_markdown_has_a_limit_that_keeps_what_matters),
        cmocka_unit_test(B133_accept_moves_the_baseline),
        cmocka_unit_test(a_wrong_kernel_gets_no_time_and_exit_code_4),
        cmocka_unit_test(a_wrong_final_state_gets_no_time),
        cmocka_unit_test(a_plugin_that_crashes_is_a_failed_row),
        cmocka_unit_test(rows_of_other_programs_stand_beside_ours),
        cmocka_unit_test(a_config_gets_random_weights),
        cmocka_unit_test(a_device_that_is_not_there_is_exit_code_3),
        cmocka_unit_test(two_forms_are_measured_in_turns),
        cmocka_unit_test(the_commit_that_slowed_a_case_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
