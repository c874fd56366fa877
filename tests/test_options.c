// The option parser on a table of its own, and the split into models and documents.
#include "cli/commands.h"
#include "cli/operands.h"
#include "core/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>

typedef struct mine {
    bool strict;
    int64_t every;
    double threshold, share;
    int scale;
    text_list include;
    int_list ends;
} mine;

static const mine defaults = {.every = 64, .threshold = 0.1};
static const option_spec rows[] = {
    {"strict", OPT_FLAG, offsetof(mine, strict), .help = "strict"},
    {"every", OPT_INT, offsetof(mine, every), .lo = 1, .hi = 1048576, .help = "every"},
    {"threshold", OPT_REAL, offsetof(mine, threshold), .lo = 0, .hi = INFINITY, .help = "bound"},
    {"share", OPT_REAL, offsetof(mine, share), .lo = 0, .hi = 1, .above_lo = true, .help = "share"},
    {"scale", OPT_CHOICE, offsetof(mine, scale), .choices = "linear|log|signed-log",
     .help = "axis"},
    {"include", OPT_TEXTS, offsetof(mine, include), .value = "GLOB", .help = "globs"},
    {"ends", OPT_LIST, offsetof(mine, ends), .lo = 0, .hi = 1 << 30, .most = 100, .help = "ends"},
};
static const command trial = {.name = "trial",
                              .summary = "a command of the tests",
                              .usage = "MODEL... DOCUMENT...",
                              .example = "deltop trial m d",
                              .min_models = 1,
                              .max_models = 2,
                              .min_documents = 0,
                              .max_documents = ANY_NUMBER,
                              .takes = TAKES_ALL & ~(unsigned)TAKES_SEED,
                              .own = rows,
                              .n_own = sizeof rows / sizeof *rows,
                              .own_size = sizeof(mine),
                              .own_defaults = &defaults};

enum { MOST = 32 };

// Parses LINE, words separated by single spaces ("_" stands for an empty word).
static char line_copy[1024];
static bool parse(options *o, const char *line, err *e) {
    char *argv[MOST];
    int argc = 0;
    snprintf(line_copy, sizeof line_copy, "%s", line);
    for (char *w = strtok(line_copy, " "); w; w = strtok(NULL, " "))
        argv[argc++] = strcmp(w, "_") == 0 ? w + 1 : w;
    err_clear(e);
    return options_parse(o, &trial, argc, argv, e);
}

#define GOOD(line)                                                                                 \
    options o;                                                                                     \
    err e;                                                                                         \
    if (!parse(&o, line, &e))                                                                      \
        fail_msg("%s: %s", line, e.text);                                                          \
    const mine *m = o.own;                                                                         \
    (void)m

static void refused(const char *line, err_code code, const char *const *words) {
    options o;
    err e;
    if (parse(&o, line, &e))
        fail_msg("accepted: %s", line);
    assert_int_equal(e.code, code);
    for (; *words; words++)
        if (!strstr(e.text, *words))
            fail_msg("\"%s\" is not in: %s", *words, e.text);
    assert_null(strchr(e.text, '\n'));
    options_free(&o);
}
#define BAD(line, code, ...) refused(line, code, (const char *const[]){__VA_ARGS__, NULL})

static void options_stand_anywhere_and_take_both_forms(void **state) {
    (void)state;
    GOOD("a --length 4k b --rows=0 --json c --every 1M --threshold=0.5 --scale log");
    assert_int_equal(o.n_operands, 3);
    assert_string_equal(o.operand[2], "c");
    assert_int_equal(o.length, 4096);
    assert_int_equal(o.rows, 0);
    assert_true(o.json);
    assert_false(o.quiet);
    assert_int_equal(m->every, 1048576);
    assert_true(m->threshold == 0.5);
    assert_int_equal(m->scale, 1);
    assert_true(options_given(&o, "length"));
    assert_true(options_given(&o, "every"));
    assert_false(options_given(&o, "block"));
    options_free(&o);
}

static void defaults_hold_when_nothing_is_given(void **state) {
    (void)state;
    GOOD("a");
    assert_string_equal(o.device, "auto");
    assert_int_equal(o.precision, PRECISION_F32);
    assert_int_equal(o.rows, 1);
    assert_int_equal(o.length, 0);
    assert_int_equal(m->every, 64);
    assert_null(o.out);
    assert_true(int_list_has(&o.layers, 12345)); // no list means all
    options_free(&o);
}

static void two_dashes_end_the_options(void **state) {
    (void)state;
    GOOD("--json -- --rows -x");
    assert_int_equal(o.n_operands, 2);
    assert_string_equal(o.operand[0], "--rows");
    assert_string_equal(o.operand[1], "-x");
    options_free(&o);
}

static void a_single_dash_is_an_operand(void **state) {
    (void)state;
    GOOD("m -");
    assert_string_equal(o.operand[1], "-");
    options_free(&o);
}

static void lists_are_sorted_and_without_doubles(void **state) {
    (void)state;
    GOOD("a --layers 7,0-3,2-4 --heads 5");
    const int64_t want[] = {0, 1, 2, 3, 4, 7};
    assert_int_equal(o.layers.n, 6);
    assert_memory_equal(o.layers.v, want, sizeof want);
    assert_true(int_list_has(&o.layers, 7));
    assert_false(int_list_has(&o.layers, 5));
    err g;
    err_clear(&g);
    assert_true(int_list_check(&o.layers, 8, "layers", "layer", &g));
    assert_false(int_list_check(&o.layers, 7, "layers", "layer", &g));
    assert_int_equal(g.code, ERR_USAGE);
    assert_non_null(strstr(g.text, "no layer 7 (0 to 6)"));
    options_free(&o);
}

static void a_repeatable_option_collects(void **state) {
    (void)state;
    GOOD("a --include x* --include=*.y --include=--z");
    assert_int_equal(m->include.n, 3);
    assert_string_equal(m->include.v[1], "*.y");
    assert_string_equal(m->include.v[2], "--z");
    options_free(&o);
}

static void B89_numbers_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const words[] = {"nan", "NaN", "inf", "-inf", "-1", "1e999",
                                        "0,5", "_",   "x",   "0.5x", "1e", "0..5"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char line[64];
        snprintf(line, sizeof line, "a --threshold %s", words[i]);
        BAD(line, ERR_USAGE, "--threshold", "at least 0");
    }
    BAD("a --threshold=", ERR_USAGE, "--threshold", "empty");
    BAD("a --share 0", ERR_USAGE, "--share", "above 0");
    BAD("a --share 1.5", ERR_USAGE, "--share", "1.5");
    BAD("a --rows -1", ERR_USAGE, "--rows", "\"-1\"", "from 0");
    BAD("a --rows nan", ERR_USAGE, "--rows", "not a whole number");
    BAD("a --length 0", ERR_USAGE, "--length", "from 1");
    BAD("a --length 1.5", ERR_USAGE, "--length", "whole number");
    BAD("a --length 4kk", ERR_USAGE, "--length", "4kk");
    BAD("a --length 99999999999999999999", ERR_USAGE, "--length", "out of range");
    BAD("a --length 9007199254740993M", ERR_USAGE, "--length");
    BAD("a --layers 3-1", ERR_USAGE, "--layers", "backwards");
    BAD("a --layers 1,", ERR_USAGE, "--layers", "not a list");
    BAD("a --layers -1", ERR_USAGE, "--layers");
    BAD("a --layers 0-99999999", ERR_USAGE, "--layers", "out of range");
}

static void B89_conflicting_repetitions_are_refused(void **state) {
    (void)state;
    BAD("a --length 4k --length 8k", ERR_USAGE, "--length", "4k", "8k", "twice");
    GOOD("a --length 4k --length 4k --json --json");
    options_free(&o);
}

static void B90_a_decimal_comma_locale_changes_nothing(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("SKIP: no locale de_DE.UTF-8 on this machine\n");
        skip();
    }
    GOOD("a --threshold 0.25");
    assert_true(m->threshold == 0.25);
    options_free(&o);
    BAD("a --threshold 0,25", ERR_USAGE, "0,25");
    BAD("a --share 7", ERR_USAGE, "0 and at most 1");
    setlocale(LC_ALL, "C");
}

static void unknown_options_name_the_nearest(void **state) {
    (void)state;
    BAD("a --lenght 3", ERR_USAGE, "--lenght", "--length");
    BAD("a --thresh 3", ERR_USAGE, "--threshold");
    BAD("a --jsno", ERR_USAGE, "--json");
    BAD("a --zzzzzz", ERR_USAGE, "--zzzzzz", "deltop trial --help");
    BAD("a -x", ERR_USAGE, "-x", "two dashes");
    BAD("a --l\x01", ERR_USAGE, "\\x01");
    BAD("a --=3", ERR_USAGE, "not known");
}

// Refused before the range is spread out: 2^30 numbers would be 8 GB.
static void a_list_has_a_limit_that_its_message_names(void **state) {
    (void)state;
    BAD("a --ends 0-1073741823", ERR_USAGE, "--ends", "0-1073741823", "too long",
        "at most 100 in all");
    BAD("a --ends 0-99,200", ERR_USAGE, "too long");
    BAD("a --layers 0-65535,3", ERR_USAGE, "--layers", "at most 65536");
    GOOD("a --ends 0-99 --layers 0-65535");
    assert_int_equal(m->ends.n, 100);
    assert_int_equal(o.layers.n, 65536);
    options_free(&o);
}

static void an_option_of_other_commands_is_named_as_such(void **state) {
    (void)state;
    BAD("a --seed 3", ERR_USAGE, "--seed", "`deltop trial` does not take it");
}

static void values_are_asked_for_and_flags_take_none(void **state) {
    (void)state;
    BAD("a --length", ERR_USAGE, "--length", "missing", "1048576");
    BAD("a --length --json", ERR_USAGE, "--length", "missing");
    BAD("a --json=yes", ERR_USAGE, "--json", "no value", "yes");
    BAD("a --out=", ERR_USAGE, "--out", "empty");
    BAD("a --scale lin", ERR_USAGE, "--scale", "lin", "linear, log or signed-log");
}

// Whether a device is there is seen when it is opened (test_cli.c).
static void B99_a_gpu_may_be_asked_for(void **state) {
    (void)state;
    GOOD("a --device cuda:3 --precision bf16");
    assert_string_equal(o.device, "cuda:3");
    options_free(&o);
}

static void B99_devices_and_precisions_must_fit(void **state) {
    (void)state;
    BAD("a --device cuda --precision f64", ERR_USAGE, "f64", "CPU");
    BAD("a --device gpu", ERR_USAGE, "gpu", "auto, cpu, cuda");
    BAD("a --device cuda:x", ERR_USAGE, "cuda:x");
    BAD("a --device cuda:-1", ERR_USAGE, "cuda:-1");
    BAD("a --precision bf16", ERR_USAGE, "bf16", "GPU");
    BAD("a --device cpu --precision tf32", ERR_USAGE, "tf32", "f32 or f64");
    GOOD("a --device cpu --precision f64");
    assert_int_equal(o.precision, PRECISION_F64);
    options_free(&o);
}

static void help_asks_nothing_of_the_rest(void **state) {
    (void)state;
    GOOD("--device cpu --help --nonsense");
    assert_true(o.help);
    options_free(&o);
}

static void sizes_are_read_with_binary_suffixes(void **state) {
    (void)state;
    int64_t v = 0;
    assert_true(options_read_int("1k", &v) && v == 1024);
    assert_true(options_read_int("-2M", &v) && v == -2097152);
    assert_true(options_read_int("9223372036854775807", &v) && v == INT64_MAX);
    static const char *const bad[] = {
        "", "k", "1G", "1 k", "0x10", "9223372036854775808", "9223372036854775807k", "--1", "1m"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(options_read_int(bad[i], &v));
}

static void every_failing_allocation_is_an_error(void **state) {
    (void)state;
    for (long n = 1; n < 50; n++) {
        options o;
        err e;
        mem_fail_after(n);
        bool ok = parse(&o, "a b --layers 0-3,7 --include x --out d", &e);
        mem_fail_after(0);
        options_free(&o);
        if (ok)
            return;
        assert_int_equal(e.code, ERR_NOMEM);
    }
    fail_msg("never succeeded");
}

// Operands ----------------------------------------------------------------------------------------

static char root[64];

static void touch(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static int make_files(void **state) {
    (void)state;
    char path[256];
    snprintf(root, sizeof root, "/tmp/deltop-test-%ld", (long)getpid());
    if (mkdir(root, 0700) != 0)
        return -1;
    static const char *const folder[] = {"model", "bare"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folder[i]);
        mkdir(path, 0777);
    }
    touch("model/config.json");
    touch("bare/model.safetensors");
    touch("one.safetensors");
    touch("book.txt");
    touch("old.gguf");
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    static const char *const name[] = {"model/config.json",
                                       "bare/model.safetensors",
                                       "model",
                                       "bare",
                                       "one.safetensors",
                                       "book.txt",
                                       "old.gguf",
                                       ""};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", root, name[i]);
        remove(path);
    }
    return 0;
}

// Every word that starts with "@" lies in root.
static bool split(options *o, const char *line, err *e) {
    char whole[1024] = "";
    size_t n = 0;
    for (const char *c = line; *c; c++)
        n += (size_t)snprintf(whole + n, sizeof whole - n, *c == '@' ? "%s/" : "%.1s",
                              *c == '@' ? root : c);
    return parse(o, whole, e) && operands_split(o, e);
}

static void models_and_documents_are_told_apart(void **state) {
    (void)state;
    options o;
    err e;
    if (!split(&o, "@book.txt @model - @one.safetensors", &e))
        fail_msg("%s", e.text);
    assert_int_equal(o.n_models, 2);
    assert_int_equal(o.n_documents, 2);
    assert_non_null(strstr(o.model[0], "/model"));
    assert_non_null(strstr(o.document[0], "book.txt"));
    assert_string_equal(o.document[1], "-");
    options_free(&o);
}

static void wrong_operands_are_named(void **state) {
    (void)state;
    static const struct {
        const char *line;
        err_code code;
        const char *word;
    } cases[] = {
        {"@nothing.txt", ERR_MISSING, "nothing.txt: no such file"},
        {"fla-hub/delta_net-1.3B @book.txt", ERR_MISSING, "model hub"},
        {"@bare @book.txt", ERR_INPUT, "config.json beside its weights"},
        {"@old.gguf", ERR_INPUT, ".gguf files are not read"},
        {"@book.txt", ERR_USAGE, "a model is missing"},
        {"@model @model @model", ERR_USAGE, "takes 2 models, got 3"},
        {"@model - -", ERR_USAGE, "only once"},
        {"", ERR_USAGE, "MODEL... DOCUMENT..."},
        {"_ @model", ERR_USAGE, "empty word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options o;
        err e;
        if (split(&o, cases[i].line, &e))
            fail_msg("accepted: %s", cases[i].line);
        if (e.code != cases[i].code || !strstr(e.text, cases[i].word))
            fail_msg("%s: code %d, %s", cases[i].line, e.code, e.text);
        options_free(&o);
    }
}

// The system's reason, not "no config.json": nobody could look.
static void what_cannot_be_looked_into_is_said_so(void **state) {
    (void)state;
    char shut[256], path[300];
    snprintf(shut, sizeof shut, "%s/shut", root);
    assert_int_equal(mkdir(shut, 0777), 0);
    snprintf(path, sizeof path, "%s/config.json", shut);
    assert_int_equal(symlink("config.json", path), 0); // a link to itself
    options o;
    err e;
    assert_false(split(&o, "@shut @book.txt", &e));
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "/shut/config.json: Too many levels of symbolic links"));
    options_free(&o);
    remove(path);
    // Root may enter everything, so somebody else looks.
    bool root_user = geteuid() == 0;
    assert_int_equal(chmod(root, 0755) | chmod(shut, 0), 0);
    bool other = !root_user || seteuid(65534) == 0;
    bool accepted = split(&o, "@shut @book.txt", &e);
    if (root_user && other)
        assert_int_equal(seteuid(0), 0);
    rmdir(shut);
    options_free(&o);
    if (!other)
        skip();
    assert_false(accepted);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "Permission denied"));
}

static void options_may_stand_before_the_command(void **state) {
    (void)state;
    char *a[] = {"--length", "4k", "--json", "loss", "m"};
    assert_int_equal(options_find_command(5, a), 3);
    char *b[] = {"--length=4k", "loss"};
    assert_int_equal(options_find_command(2, b), 1);
    char *c[] = {"--json"};
    assert_int_equal(options_find_command(1, c), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_anywhere_and_take_both_forms),
        cmocka_unit_test(defaults_hold_when_nothing_is_given),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(a_single_dash_is_an_operand),
        cmocka_unit_test(lists_are_sorted_and_without_doubles),
        cmocka_unit_test(a_repeatable_option_collects),
        cmocka_unit_test(B89_numbers_that_are_none_are_refused),
        cmocka_unit_test(B89_conflicting_repetitions_are_refused),
        cmocka_unit_test(B90_a_decimal_comma_locale_changes_nothing),
        cmocka_unit_test(unknown_options_name_the_nearest),
        cmocka_unit_test(a_list_has_a_limit_that_its_message_names),
        cmocka_unit_test(an_option_of_other_commands_is_named_as_such),
        cmocka_unit_test(values_are_asked_for_and_flags_take_none),
        cmocka_unit_test(B99_a_gpu_may_be_asked_for),
        cmocka_unit_test(B99_devices_and_precisions_must_fit),
        cmocka_unit_test(help_asks_nothing_of_the_rest),
        cmocka_unit_test(sizes_are_read_with_binary_suffixes),
        cmocka_unit_test(every_failing_allocation_is_an_error),
        cmocka_unit_test(models_and_documents_are_told_apart),
        cmocka_unit_test(wrong_operands_are_named),
        cmocka_unit_test(what_cannot_be_looked_into_is_said_so),
        cmocka_unit_test(options_may_stand_before_the_command),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
