// deltop theory, words and verify from outside: files, exit codes, JSON, mistakes.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const plain[] = {"LC_ALL=C", NULL};

static run start(const char *const *argv) {
    run r = {.argv = argv, .env = plain, .timeout = 60};
    if (!run_program(&r))
        fail_msg("%s: cannot be started (make deltop, or set DELTOP)", run_program_path());
    return r;
}

static void says(int code, const char *part, const char *const *argv) {
    run r = start(argv);
    if (r.code != code || !strstr(r.err, part))
        fail_msg("code %d, says \"%s\", should be %d with \"%s\"", r.code, r.err, code, part);
    run_free(&r);
}

static json_t *json_of(const char *const *argv, int code) {
    run r = start(argv);
    json_error_t why;
    json_t *v = json_loadb(r.out, r.n_out, 0, &why);
    if (!v || r.code != code)
        fail_msg("code %d, JSON: %s, %s", r.code, v ? "fine" : why.text, r.err);
    run_free(&r);
    return v;
}

static void make_theory(const char *name) {
    run r = start(ARGS("theory", name, "--out", files_path("%s", name), "--quiet"));
    if (r.code != 0)
        fail_msg("theory %s: %s", name, r.err);
    run_free(&r);
}

static void a_construction_is_written_read_and_right(void **state) {
    (void)state;
    make_theory("s3");
    assert_int_equal(files_count(files_path("s3")), 7);
    json_t *v = json_of(ARGS("words", files_path("s3"), "--length", "100", "--count", "20",
                             "--json", "--mechanism", "--device", "cpu"),
                        0);
    json_t *r = json_array_get(json_object_get(v, "results"), 0);
    assert_int_equal(json_integer_value(json_object_get(r, "without_mistake")), 20);
    assert_true(json_number_value(json_object_get(r, "mean")) == 1);
    assert_int_equal(json_array_size(json_object_get(r, "accuracy")),
                     4); // 3 blocks of 32 and 4 more
    json_t *head = json_array_get(json_object_get(r, "heads"), 0);
    assert_int_equal(json_integer_value(json_object_get(head, "dimensions")), 2);
    assert_int_equal(json_array_size(json_object_get(head, "elements")), 6);
    json_decref(v);
}

static void several_constructions_lie_in_folders_of_their_own(void **state) {
    (void)state;
    run r = start(ARGS("theory", "mod3", "parity", "--out", files_path("two"), "--quiet"));
    assert_int_equal(r.code, 0);
    run_free(&r);
    run w = start(ARGS("words", files_path("two/mod3"), files_path("two/parity"), "--length", "64",
                       "--count", "5", "--out", files_path("out"), "--device", "cpu"));
    if (w.code != 0)
        fail_msg("%s", w.err);
    run_free(&w);
    npy a;
    err e = {0};
    assert_true(npy_read(files_path("out/parity/words.npy"), &a, &e));
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.dims[0], 2);
    assert_int_equal(a.dims[1], 64);
    for (int i = 0; i < 128; i++)
        assert_true(((double *)a.data)[i] == 1);
    npy_free(&a);
}

static void other_commands_read_constructions(void **state) {
    (void)state;
    make_theory("s4");
    const char *const commands[] = {"inspect", "loss", "erank", "spectrum"};
    for (int i = 0; i < 4; i++) {
        run r = start(i == 0 ? ARGS("inspect", "--strict", files_path("s4"))
                             : ARGS(commands[i], files_path("s4"), files_path("s4/sample.npy"),
                                    "--length", "256", "--device", "cpu"));
        if (r.code != 0)
            fail_msg("%s: %s%s", commands[i], r.err, i == 0 ? r.out : "");
        run_free(&r);
    }
}

static void lists_explanations_and_costs_fit_a_terminal(void **state) {
    (void)state;
    const char *const *const calls[] = {
        ARGS("theory", "--list"),
        ARGS("theory", "--cost", "--degree", "4"),
        ARGS("theory", "--explain", "s4", "d5", "rwkv7-swap", "s<n>"),
        ARGS("verify", "--only", "G,S"),
        ARGS("verify", "--demo", "rotation"),
        ARGS("help", "words"),
        ARGS("help", "theory"),
        ARGS("help", "verify")};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        run r = start(calls[i]);
        int columns = 0;
        if (r.code != 0)
            fail_msg("%s: %s", calls[i][0], r.err);
        for (size_t k = 0; k < r.n_out; k++) {
            columns = r.out[k] == '\n' ? 0 : columns + 1;
            if (columns > 84)
                fail_msg("%s %s: a line is over 84 columns:\n%s", calls[i][0], calls[i][1], r.out);
        }
        run_free(&r);
    }
    json_t *v = json_of(ARGS("theory", "--list", "--json"), 0);
    json_t *rows = json_object_get(v, "theories");
    size_t not = 0, i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        bool can = json_is_true(json_object_get(row, "can_be_written"));
        not += !can;
        assert_true(can == json_is_null(json_object_get(row, "why_not")));
    }
    assert_int_equal(not, 4);
    json_decref(v);
}

static void verify_tells_what_it_measured(void **state) {
    (void)state;
    json_t *v = json_of(ARGS("verify", "--only", "R07,G02,T08", "--json", "--device", "cpu"), 0);
    assert_true(json_is_true(json_object_get(v, "pass")));
    json_t *checks = json_object_get(v, "checks"), *c;
    assert_int_equal(json_array_size(checks), 5);
    size_t i;
    json_array_foreach(checks, i, c) {
        assert_true(json_number_value(json_object_get(c, "error")) <=
                    json_number_value(json_object_get(c, "allowed")));
    }
    json_decref(v);
    v = json_of(
        ARGS("verify", "--plot", "prop1", "--cos", "0.5", "--out", files_path("p"), "--json"), 0);
    assert_int_equal(files_count(files_path("p")), 3);
    json_decref(v);
}

static void mistakes_name_what_would_be_right(void **state) {
    (void)state;
    make_theory("parity");
    const char *p = files_path("parity");
    says(2, "name a construction", ARGS("theory"));
    says(2, "exclude each other", ARGS("theory", "s3", "--list"));
    says(2, "nearest is parity", ARGS("theory", "pariti"));
    says(2, "no such construction (deltop", ARGS("theory", "nonsense"));
    says(2, "from 2 to 6", ARGS("theory", "s7"));
    says(1, "eigenvalues of one token", ARGS("theory", "rwkv7-swap"));
    says(2, "two of the names", ARGS("theory", "s3", "s3", "--out", files_path("x")));
    says(2, "takes no operand", ARGS("verify", "s3"));
    says(2, "at most 16777216 tokens", ARGS("words", p, "--length", "1000000000"));
    says(1, "no such file", ARGS("theory", "missing.json"));
    says(2, "exclude each other", ARGS("words", p, "--group", "S3", "--automaton", "parity"));
    says(2, "no such group", ARGS("words", p, "--group", "S9"));
    says(1, "ids up to 24, but the embedding has 5 rows", ARGS("words", p, "--group", "S4"));
    says(2, "have one order", ARGS("words", p, "--order", "right"));
    says(2, "needs --length", ARGS("words", p, "--all"));
    says(2, "1.1e+12 words", ARGS("words", p, "--all", "--length", "40"));
    says(2, "not --length", ARGS("words", p, "--language", "parity", "--length", "4"));
    says(2, "above --to", ARGS("words", p, "--language", "parity", "--from", "9", "--to", "8"));
    says(2, "needs --mechanism", ARGS("words", p, "--every-head"));
    says(2, "and no such file", ARGS("words", p, "--automaton", files_path("none.json")));
    says(2, "no check", ARGS("verify", "--only", "Q"));
    says(2, "needs --plot", ARGS("verify", "--cos", "0.3"));
    says(2, "takes", ARGS("verify", "--plot", "prop1", "--cos", "1.5"));
    files_mkdir(files_path("bare"));
    files_text(files_path("bare/config.json"), "{\"model_type\": \"delta_net\"}");
    says(1, "", ARGS("words", files_path("bare")));
}

// Names in a file are anybody's: a terminal does not obey them.
static void hostile_names_are_shown_not_obeyed(void **state) {
    (void)state;
    files_mkdir(files_path("evil"));
    files_text(files_path("evil.json"),
               "{\"automaton\": \"\\u001b[31m\", \"tokens\": [\"\\u001b[5m\", \"\\n\"],"
               " \"states\": [\"x\", \"y\"], \"start\": \"x\", \"next\": "
               "{\"x\": {\"\\u001b[5m\": \"y\", \"\\n\": \"x\"},"
               " \"y\": {\"\\u001b[5m\": \"x\", \"\\n\": \"y\"}}}");
    make_theory("s3");
    files_text(files_path("s3/group.json"),
               "{\"group\": \"\\u001b[31m\", \"elements\": [[0,1,2],[0,2,1],[1,0,2],[1,2,0],"
               "[2,0,1],[2,1,0]], \"names\": [\"\\u001b[1m\",\"\\u001b[2m\",\"\\r\",\"\\t\","
               "\"\\u009b3m\",\"e\"], \"convention\": \"y_t = x_t . y_{t-1}\", \"prefix\": [6]}");
    const char *const *const runs[] = {
        ARGS("theory", files_path("evil.json"), "--out", files_path("evil")),
        ARGS("words", files_path("evil"), "--length", "8", "--count", "2", "--device", "cpu"),
        ARGS("words", files_path("s3"), "--length", "8", "--count", "2", "--device", "cpu",
             "--mechanism"),
        ARGS("words", files_path("s3"), "--automaton", files_path("evil.json"), "--length", "8",
             "--count", "2", "--device", "cpu")};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        run r = start(runs[i]);
        if (r.code != 0)
            fail_msg("run %zu: %s", i, r.err);
        assert_null(strpbrk(r.out, "\033\r\t"));
        assert_null(strstr(r.out, "\xc2\x9b"));
        run_free(&r);
    }
}

// Lengths and beginnings that group.json gets wrong are said, not passed over.
static void what_the_problems_file_contradicts_is_said(void **state) {
    (void)state;
    static const char frame[] =
        "{\"group\": \"S3\", \"elements\": [[0,1,2],[0,2,1],[1,0,2],[1,2,0],[2,0,1],[2,1,0]],"
        " \"convention\": \"y_t = x_t . y_{t-1}\", %s}";
    static const struct {
        const char *part;
        int code;
        const char *said;
    } cases[] = {
        {"\"bos\": 6, \"train_length\": -5", 1, "\"train_length\" is no whole number above 0"},
        {"\"bos\": 6, \"train_length\": \"128\"", 1, "\"train_length\" is no whole number"},
        {"\"bos\": 6, \"train_length\": 0", 1, "\"train_length\" is no whole number"},
        {"\"bos\": \"x\"", 1, "\"bos\" is"},
        {"\"bos\": 99", 1, "99"},
        {"\"bos\": 6, \"train_length\": 7", 0,
         "trained at 7 tokens, says the file of its words; 4096, says its config"},
        {"\"bos\": 2", 0,
         "words begin with token 2, says their file; its config begins texts with 6"},
        {"\"bos\": 6, \"train_length\": 4096", 0, ""},
    };
    make_theory("s3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, frame, cases[i].part);
        files_text(files_path("s3/group.json"), text);
        run r = start(ARGS("words", files_path("s3"), "--length", "8", "--count", "2", "--device",
                           "cpu", "--quiet"));
        if (r.code != cases[i].code || !strstr(r.err, cases[i].said) ||
            (!cases[i].said[0] && r.err[0]))
            fail_msg("%s: code %d: %s", cases[i].part, r.code, r.err);
        run_free(&r);
    }
    // Words that no file describes have nothing that a file could say: these begin with another
    // token than the config's texts.
    const char *const *const asked[] = {ARGS("--group", "C2"), ARGS("--group", "C3"),
                                        ARGS("--automaton", "parity"),
                                        ARGS("--automaton", "flip-flop")};
    for (int bare = 0; bare < 2; bare++) {
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            run s = start(ARGS("words", files_path("s3"), asked[i][0], asked[i][1], "--length", "8",
                               "--count", "2", "--device", "cpu", "--quiet"));
            if (s.code != 0 || s.n_err)
                fail_msg("%s: code %d: %s", asked[i][1], s.code, s.err);
            run_free(&s);
        }
        remove(files_path("s3/group.json"));
    }
    run r = start(ARGS("verify", "--plot", "prop1", "--cos", "0.5"));
    assert_non_null(strstr(r.out, "/ real eigenvalues")); // they were measured: the key says so
    assert_null(strstr(r.out, "not measured"));
    run_free(&r);
    r = start(ARGS("verify", "--plot", "prop1", "--cos", "1"));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "real everywhere: no product of two factors turns anything"));
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_construction_is_written_read_and_right),
        cmocka_unit_test(several_constructions_lie_in_folders_of_their_own),
        cmocka_unit_test(other_commands_read_constructions),
        cmocka_unit_test(lists_explanations_and_costs_fit_a_terminal),
        cmocka_unit_test(verify_tells_what_it_measured),
        cmocka_unit_test(hostile_names_are_shown_not_obeyed),
        cmocka_unit_test(mistakes_name_what_would_be_right),
        cmocka_unit_test(what_the_problems_file_contradicts_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
