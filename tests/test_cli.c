// The built program from outside: exit codes, streams, help, closed descriptors, signals.
#include "cli/commands.h"
#include "cli/signals.h"
#include "core/npy.h"
#include "tests/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_IDS = 200000 }; // more than a pipe holds

// A byte-level tokenizer of five tokens: "ab" is 2.
static const char tokenizer_text[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
    "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
    "\"byte_fallback\":false,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\u010a\":3,\"\u0120\":4},"
    "\"merges\":[\"a b\"]}}\n";

static char root[64], model[128], speaker[128], ids_path[128], small_path[128], book[128],
    out_dir[128];

static int make_files(void **state) {
    (void)state;
    if (access(run_program_path(), X_OK) != 0) {
        fprintf(stderr, "%s is not there: make deltop, or set DELTOP\n", run_program_path());
        return -1;
    }
    snprintf(root, sizeof root, "/tmp/deltop-test-%ld", (long)getpid());
    if (mkdir(root, 0700) != 0)
        return -1;
    snprintf(model, sizeof model, "%s/model", root);
    snprintf(ids_path, sizeof ids_path, "%s/ids.npy", root);
    snprintf(small_path, sizeof small_path, "%s/small.npy", root);
    snprintf(book, sizeof book, "%s/book.txt", root);
    snprintf(out_dir, sizeof out_dir, "%s/out", root);
    char path[256];
    mkdir(model, 0777);
    snprintf(speaker, sizeof speaker, "%s/speaker", root); // a tokenizer and no config
    mkdir(speaker, 0777);
    snprintf(path, sizeof path, "%s/tokenizer.json", speaker);
    FILE *t = fopen(path, "w");
    if (!t)
        return -1;
    fputs(tokenizer_text, t);
    fclose(t);
    snprintf(path, sizeof path, "%s/config.json", model);
    FILE *f = fopen(path, "w"), *g = fopen(book, "w");
    int32_t *v = malloc(N_IDS * sizeof *v);
    if (!f || !g || !v)
        return -1;
    fputs("{}\n", f);
    fclose(f);
    fputs("In the beginning\n", g);
    fclose(g);
    for (int i = 0; i < N_IDS; i++)
        v[i] = i % 1000;
    err e;
    err_clear(&e);
    bool ok = npy_write(ids_path, NPY_I4, 1, (const int64_t[]){N_IDS}, v, &e) &&
              npy_write(small_path, NPY_I4, 1, (const int64_t[]){4}, v, &e);
    free(v);
    return ok ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char line[128];
    snprintf(line, sizeof line, "rm -rf '%s'", root);
    return system(line);
}

static void go(run *r) {
    if (!run_program(r))
        fail_msg("cannot start %s", run_program_path());
    if (r->timed_out)
        fail_msg("timed out; it said: %s%s", r->out, r->err);
}

static int lines_of(const char *s) {
    int n = 0;
    for (; (s = strchr(s, '\n')); s++)
        n++;
    return n;
}

// One sentence on standard error, nothing on standard output, this exit code.
static void one_sentence(const char *const *argv, int code, const char *const *words) {
    run r = {.argv = argv};
    go(&r);
    if (r.code != code || lines_of(r.err) != 1 || strncmp(r.err, "deltop: ", 8) != 0 || r.n_out)
        fail_msg("%s %s ...: code %d, signal %d, want %d\n%s%s", argv[0], argv[1] ? argv[1] : "",
                 r.code, r.ended_by, code, r.err, r.out);
    for (; *words; words++)
        if (!strstr(r.err, *words))
            fail_msg("\"%s\" is not in: %s", *words, r.err);
    run_free(&r);
}
#define ARGS(...)              ((const char *const[]){__VA_ARGS__, NULL})
#define SAYS(code, words, ...) one_sentence(ARGS(__VA_ARGS__), code, words)

static void every_usage_mistake_is_one_line_and_code_2(void **state) {
    (void)state;
    SAYS(2, ARGS("tokns", "did you mean deltop tokens?"), "tokns");
    SAYS(2, ARGS("zzzzzz", "deltop --help"), "zzzzzz");
    SAYS(2, ARGS("--lenght", "--length"), "tokens", model, small_path, "--lenght", "3");
    SAYS(2, ARGS("a command is missing"), "--json");
    SAYS(2, ARGS("--length", "nan"), "tokens", "--length", "nan", model, small_path);
    SAYS(2, ARGS("--length", "-1", "from 1"), "tokens", "--length=-1", model, small_path);
    SAYS(2, ARGS("--length", "inf"), "tokens", "--length", "inf", model, small_path);
    SAYS(2, ARGS("--length", "empty"), "tokens", "--length", "", model, small_path);
    SAYS(2, ARGS("--device", "does not take it"), "tokens", "--device", "cpu", model, small_path);
    SAYS(2, ARGS("--out", "missing"), "tokens", model, small_path, "--out");
    SAYS(2, ARGS("MODEL DOCUMENT..."), "tokens");
    SAYS(2, ARGS("a document is missing"), "tokens", model);
    SAYS(2, ARGS("a model is missing"), "tokens", small_path);
    SAYS(2, ARGS("1 model, got 2"), "tokens", model, model, small_path);
    SAYS(2, ARGS("tokns", "did you mean"), "help", "tokns");
    SAYS(2, ARGS("--version stands alone"), "--version", "x");
    static const char *const forms[] = {"--man", "--bash", "--zsh"};
    for (int i = 0; i < 3; i++) {
        SAYS(2, ARGS(forms[i], "--json does not go with it"), "help", forms[i], "--json");
        SAYS(2, ARGS(forms[i], "--json does not go with it"), "--json", "help", forms[i]);
        SAYS(2, ARGS(forms[i], "tokens does not go with it"), "help", "tokens", forms[i]);
    }
    SAYS(2, ARGS("--json does not go with it"), "help", "--json");
    SAYS(2, ARGS("--json and --list"), "bench", "--list", "--json");
    SAYS(2, ARGS("--json does not go with it"), "help", "tokens", "--json");
    SAYS(2, ARGS("--windows", "at most 1024"), "spectrum", model, small_path, "--windows",
         "1-16777216");
    SAYS(2, ARGS("--ends", "at most 65536"), "spectrum", model, small_path, "--ends",
         "0-1073741823");
    SAYS(2, ARGS("--decode", "--add-bos"), "tokens", model, small_path, "--decode", "--add-bos");
}

// What an option acts on is not asked for: it would be passed over in silence.
static void B89_an_option_without_effect_is_a_mistake(void **state) {
    (void)state;
    SAYS(2, ARGS("--cut", "--compat authors"), "erank", model, small_path, "--compat", "authors",
         "--cut", "0.1");
    SAYS(2, ARGS("--all and --count"), "words", model, "--length", "3", "--all", "--count", "5");
    SAYS(2, ARGS("--modulus: needs --language"), "words", model, "--modulus", "3");
    SAYS(2, ARGS("--modulus: needs --language"), "words", model, "--modulus", "3", "--language",
         "parity");
    SAYS(2, ARGS("--from: needs --language"), "words", model, "--from", "9");
    SAYS(2, ARGS("--to: needs --language"), "words", model, "--to", "90", "--group", "S3");
    SAYS(2, ARGS("--language: takes", "--prefix"), "words", model, "--language", "parity",
         "--prefix");
    SAYS(2, ARGS("--every-head: needs --mechanism"), "words", model, "--every-head");
    SAYS(2, ARGS("--max-bytes: needs --markdown"), "compare", book, book, "--max-bytes", "5000");
    SAYS(2, ARGS("--times: needs --calibrate"), "bench", "--times", "3");
    SAYS(2, ARGS("--build-command: needs --git-bisect"), "bench", "--build-command", "true");
    SAYS(2, ARGS("--threshold: needs --ab"), "bench", "--threshold", "3");
    SAYS(2, ARGS("--every: needs a DOCUMENT"), "diff", model, model, "--every", "4");
    SAYS(2, ARGS("--samples: needs a DOCUMENT"), "diff", model, model, "--samples", "4");
    SAYS(2, ARGS("--resamples: needs a DOCUMENT"), "diff", model, model, "--resamples", "4");
    SAYS(2, ARGS("--length: needs --dry-run"), "inspect", model, "--length", "4k");
    SAYS(2, ARGS("--block: needs --dry-run"), "inspect", model, "--block", "64");
    SAYS(2, ARGS("--precision: needs --dry-run"), "inspect", model, "--precision", "f64");
    SAYS(2, ARGS("--live", "--snapshot"), "view", model, small_path, "--live");
    SAYS(2, ARGS("--cos: needs --plot prop1"), "verify", "--cos", "0.3");
    // With their partners they are taken: what fails here comes later.
    SAYS(1, ARGS(".safetensors"), "words", model, "--language", "arithmetic", "--modulus", "3",
         "--from", "4", "--to", "5");
    SAYS(1, ARGS(".safetensors"), "words", model, "--language", "parity", "--count", "5");
    SAYS(1, ARGS(".safetensors"), "erank", model, small_path, "--compat", "none", "--cut", "0.1");
    SAYS(1, ARGS("book.txt"), "compare", book, book, "--markdown", "--max-bytes", "5000");
    SAYS(1, ARGS("book.txt"), "compare", book, book, "--out", out_dir, "--max-bytes", "5000");
    SAYS(1, ARGS(".safetensors"), "inspect", model, "--dry-run", "--length", "4k", "--block", "64",
         "--precision", "f64");
    SAYS(1, ARGS(".safetensors"), "diff", model, model, small_path, "--every", "4", "--samples",
         "4");
}

static void a_command_line_without_a_command_is_the_dashboard(void **state) {
    (void)state;
    SAYS(1, ARGS("no .safetensors file in this folder"), model, small_path); // it was opened
    SAYS(2, ARGS("no such command and no such file", "did you mean deltop loss"), "los");
}

static void what_is_not_there_is_named_with_code_1(void **state) {
    (void)state;
    SAYS(1, ARGS("/nowhere/x.txt: no such file"), "tokens", model, "/nowhere/x.txt");
    SAYS(1, ARGS("model hub"), "tokens", "fla-hub/delta_net-1.3B", small_path);
    SAYS(1, ARGS("tokenizer"), "tokens", model, book); // this folder has none
    SAYS(1, ARGS("cannot create folder", "is a file"), "tokens", model, small_path, "--out", book);
    SAYS(1, ARGS("--reference", "/nowhere: no such folder"), "parity", model, "--reference",
         "/nowhere");
}

// Read until its end it would take all memory.
static void a_device_without_an_end_is_no_list_of_ids(void **state) {
    (void)state;
    char line[512], said[512] = "";
    snprintf(line, sizeof line, "timeout 20 %s tokens %s --decode - 2>&1 </dev/zero",
             run_program_path(), speaker);
    FILE *p = popen(line, "r");
    assert_non_null(p);
    assert_true(fread(said, 1, sizeof said - 1, p) > 0);
    assert_int_equal(WEXITSTATUS(pclose(p)), 1);
    assert_string_equal(said, "deltop: standard input: is a device, need a file or a pipe\n");
}

static void help_exists_for_every_command_with_an_example(void **state) {
    (void)state;
    for (size_t i = 0; i < n_commands; i++) {
        run r = {.argv = ARGS(commands[i]->name, "--help")};
        run s = {.argv = ARGS("help", commands[i]->name)};
        go(&r);
        go(&s);
        assert_int_equal(r.code, 0);
        assert_int_equal(r.n_err, 0);
        assert_string_equal(r.out, s.out);
        char word[64];
        snprintf(word, sizeof word, "Example:\n  deltop %s ", commands[i]->name);
        if (!strstr(r.out, word) || !strstr(r.out, "Usage:") || !strstr(r.out, "--help"))
            fail_msg("help of %s lacks something:\n%s", commands[i]->name, r.out);
        // What --out writes differs from command to command.
        if (strstr(r.out, "--out DIR") && strstr(r.out, "write files to this folder"))
            fail_msg("help of %s does not name the files of --out:\n%s", commands[i]->name, r.out);
        run_free(&r);
        run_free(&s);
    }
}

static void the_overview_lists_every_command(void **state) {
    (void)state;
    run r = {.argv = ARGS("--help")}, s = {.argv = NULL};
    go(&r);
    go(&s);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, s.out);
    for (size_t i = 0; i < n_commands; i++)
        assert_non_null(strstr(r.out, commands[i]->summary));
    run_free(&r);
    run_free(&s);
}

static void the_version_names_the_libraries(void **state) {
    (void)state;
    run r = {.argv = ARGS("--version")};
    go(&r);
    assert_int_equal(r.code, 0);
    static const char *const word[] = {"deltop ", "OpenBLAS", "cairo",   "libpng",
                                       "jansson", "PCRE2",    "utf8proc"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        assert_non_null(strstr(r.out, word[i]));
    run_free(&r);
}

static void options_may_stand_before_the_command(void **state) {
    (void)state;
    run r = {.argv = ARGS("--length", "2", "--quiet", "tokens", model, small_path)};
    go(&r);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "0 1\n");
    assert_int_equal(r.n_err, 0);
    run_free(&r);
}

static void B87_json_is_one_value_and_nothing_else(void **state) {
    (void)state;
    char odd[256], path[300];
    snprintf(odd, sizeof odd, "%s/we\"ird\n\xff\xc3name", root);
    mkdir(odd, 0777);
    snprintf(path, sizeof path, "%s/config.json", odd);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{}", f);
    fclose(f);
    run r = {.argv = ARGS("tokens", odd, small_path, "--json")};
    go(&r);
    assert_int_equal(r.code, 0);
    json_error_t je;
    json_t *v = json_loadb(r.out, r.n_out, 0, &je); // refuses anything behind the value
    if (!v)
        fail_msg("%s: %s", je.text, r.out);
    const char *shown =
        json_string_value(json_object_get(json_array_get(json_object_get(v, "models"), 0), "path"));
    assert_non_null(strstr(shown, "we\"ird\n\\xff\\xc3name"));
    json_decref(v);
    run_free(&r);
    // The same path in a message: one line, escaped.
    strcat(odd, "x");
    SAYS(1, ARGS("\\x0a", "\\xff", "no such file"), "tokens", odd, small_path);
}

static void B90_a_comma_locale_changes_nothing(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        printf("SKIP: no locale de_DE.UTF-8 on this machine\n");
        skip();
    }
    setlocale(LC_ALL, "C");
    run r = {.argv = ARGS("--version")}, s = {.argv = ARGS("--version")};
    s.env = ARGS("LC_ALL=de_DE.UTF-8");
    go(&r);
    go(&s);
    assert_int_equal(s.code, 0);
    assert_string_equal(r.out, s.out);
    run_free(&r);
    run_free(&s);
}

static void B94_odd_terminals_and_closed_input_are_fine(void **state) {
    (void)state;
    static const char *const terms[] = {"TERM=dumb", "TERM=", "TERM=foo", "TERM"};
    for (int i = 0; i < 4; i++) {
        run r = {.argv = ARGS("tokens", model, small_path),
                 .env = ARGS(terms[i], "HOME"),
                 .close_stdin = i % 2};
        go(&r);
        assert_int_equal(r.code, 0);
        assert_string_equal(r.out, "0 1 2 3\n");
        run_free(&r);
    }
}

static void B100_a_full_disk_behind_standard_output_is_an_error(void **state) {
    (void)state;
    static const char *const form[] = {"--json", "--quiet"};
    for (int i = 0; i < 2; i++) {
        run r = {.argv = ARGS("tokens", model, ids_path, "--quiet", form[i]),
                 .stdout_to = "/dev/full"};
        go(&r);
        assert_int_equal(r.code, 1);
        assert_non_null(strstr(r.err, "standard output"));
        assert_non_null(strstr(r.err, "No space left"));
        assert_int_equal(lines_of(r.err), 1);
        run_free(&r);
    }
}

static void closed_descriptors_do_not_receive_what_is_not_theirs(void **state) {
    (void)state;
    char path[256];
    run r = {.argv = ARGS("tokens", model, small_path), .close_stdout = true};
    go(&r);
    assert_int_equal(r.code, 1); // the ids went nowhere: that is a failure
    assert_non_null(strstr(r.err, "standard output"));
    run_free(&r);
    // With everything closed, the first file opened would be number 0, 1 or 2.
    for (int i = 0; i < 8; i++) {
        run s = {.argv = ARGS("tokens", model, small_path, "--out", out_dir),
                 .close_stdin = i & 1,
                 .close_stdout = i & 2,
                 .close_stderr = i & 4};
        go(&s);
        assert_int_equal(s.code, i & 2 ? 1 : 0);
        run_free(&s);
        snprintf(path, sizeof path, "%s/ids.npy", out_dir);
        npy a;
        err e;
        err_clear(&e);
        if (!npy_read(path, &a, &e))
            fail_msg("%s", e.text);
        assert_int_equal(a.count, 4);
        npy_free(&a);
        snprintf(path, sizeof path, "%s/tokens.json", out_dir);
        json_error_t je;
        json_t *v = json_load_file(path, 0, &je);
        assert_non_null(v);
        json_decref(v);
    }
    run t = {.argv = ARGS("tokens", speaker, "-", "--decode"), .close_stdin = true};
    go(&t);
    assert_int_equal(t.code, 1);
    run_free(&t);
    run u = {.argv = ARGS("tokens"), .close_stderr = true};
    go(&u);
    assert_int_equal(u.code, 2);
    run_free(&u);
}

#ifndef __SANITIZE_ADDRESS__
// Fault B100: where OpenBLAS cannot map its buffers it tries for ever, at the first product and in
// threads of its own, which the end of the process then waits for.
static int code_within(int mib, const char *blas) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit small = {(rlim_t)mib << 20, (rlim_t)mib << 20};
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        setenv("OPENBLAS_NUM_THREADS", blas, 1);
        alarm(10); // outlives exec
        if (setrlimit(RLIMIT_AS, &small) == 0)
            execl(run_program_path(), "deltop", "loss", "tests/cases/golden/kda-gva-bounded",
                  "tests/cases/golden/kda-gva-bounded/input_ids.npy", "--threads", "2", NULL);
        _exit(99);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void little_address_space_is_an_error_and_no_hang(void **state) {
    (void)state;
    int refused = 0, done = 0;
    // From too little for the buffers to enough for everything.
    for (int mib = 150; mib <= 1350; mib += 150)
        for (int threads = 1; threads <= 4; threads += 3) {
            int code = code_within(mib, threads == 1 ? "1" : "4");
            // 127: the loader found no room for the libraries.
            assert_true(code == 0 || code == 1 || code == 127);
            refused += code == 1;
            done += code == 0;
        }
    printf("measured %d runs refused, %d done\n", refused, done);
    assert_true(refused > 0);
    assert_true(done > 0);
}
#endif

static void the_grace_period_ends_what_does_not_listen(void **state) {
    (void)state;
    char fifo[160];
    snprintf(fifo, sizeof fifo, "%s/fifo", root);
    assert_int_equal(mkfifo(fifo, 0666), 0);
    int fd = open(fifo, O_RDWR); // a writer that never writes
    assert_true(fd >= 0);
    run r = {.argv = ARGS("tokens", speaker, fifo),
             .signal = SIGTERM,
             .signal_after = 0.2,
             .timeout = SIGNALS_GRACE + 10};
    go(&r);
    assert_int_equal(r.ended_by, SIGTERM);
    run_free(&r);
    close(fd);
}

static void text_becomes_ids_and_ids_become_text(void **state) {
    (void)state;
    run r = {.argv = ARGS("tokens", speaker, "-", "--quiet"), .input = "abba ab\n", .n_input = 8};
    go(&r);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "2 1 0 4 2 3\n");
    run s = {.argv = ARGS("tokens", speaker, "-", "--decode"), .input = r.out, .n_input = r.n_out};
    go(&s);
    assert_int_equal(s.code, 0);
    assert_string_equal(s.out, "abba ab\n");
    run_free(&s);
    run_free(&r);
    run u = {.argv = ARGS("tokens", speaker, "-", "--decode"), .input = "[2, 1x]", .n_input = 7};
    go(&u);
    assert_int_equal(u.code, 1);
    assert_non_null(strstr(u.err, "\"1x\" at byte 4"));
    run_free(&u);
}

static void the_files_that_were_written_are_listed(void **state) {
    (void)state;
    run r = {.argv = ARGS("tokens", model, small_path, ids_path, "--out", out_dir)};
    go(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "out/model/small/ids.npy\n"));
    assert_non_null(strstr(r.out, "out/model/ids/ids.npy\n"));
    assert_non_null(strstr(r.out, "out/tokens.json\n"));
    run_free(&r);
}

static void a_reader_that_leaves_ends_the_program_quietly(void **state) {
    (void)state;
    run r = {.argv = ARGS("tokens", model, ids_path, "--quiet"), .drop_stdout = true};
    go(&r);
    assert_int_equal(r.ended_by, SIGPIPE); // 141 in a shell
    assert_int_equal(r.n_err, 0);
    run_free(&r);
    for (int i = 0; i < 2; i++) {
        run s = {.argv = ARGS("tokens", model, ids_path, "--quiet", i ? "--json" : "--quiet"),
                 .drop_stdout = true,
                 .ignore_sigpipe = true};
        go(&s);
        assert_int_equal(s.code, 141);
        assert_int_equal(s.n_err, 0);
        run_free(&s);
    }
}

static void B96_signals_end_it_as_a_shell_expects(void **state) {
    (void)state;
    static const int which[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        // It waits for standard input that never ends.
        run r = {.argv = ARGS("tokens", speaker, "-", "--decode"),
                 .hold_stdin = true,
                 .signal = which[i],
                 .signal_after = 0.3,
                 .timeout = SIGNALS_GRACE + 10}; // the signal may come just before the read
        go(&r);
        assert_int_equal(r.ended_by, which[i]); // 128 + n in a shell
        assert_int_equal(r.n_out, 0);
        run_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_usage_mistake_is_one_line_and_code_2),
        cmocka_unit_test(B89_an_option_without_effect_is_a_mistake),
        cmocka_unit_test(a_command_line_without_a_command_is_the_dashboard),
        cmocka_unit_test(what_is_not_there_is_named_with_code_1),
        cmocka_unit_test(a_device_without_an_end_is_no_list_of_ids),
        cmocka_unit_test(help_exists_for_every_command_with_an_example),
        cmocka_unit_test(the_overview_lists_every_command),
        cmocka_unit_test(the_version_names_the_libraries),
        cmocka_unit_test(options_may_stand_before_the_command),
        cmocka_unit_test(B87_json_is_one_value_and_nothing_else),
        cmocka_unit_test(B90_a_comma_locale_changes_nothing),
        cmocka_unit_test(B94_odd_terminals_and_closed_input_are_fine),
        cmocka_unit_test(B100_a_full_disk_behind_standard_output_is_an_error),
        cmocka_unit_test(closed_descriptors_do_not_receive_what_is_not_theirs),
        cmocka_unit_test(text_becomes_ids_and_ids_become_text),
        cmocka_unit_test(the_files_that_were_written_are_listed),
        cmocka_unit_test(a_reader_that_leaves_ends_the_program_quietly),
        cmocka_unit_test(B96_signals_end_it_as_a_shell_expects),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(little_address_space_is_an_error_and_no_hang),
#endif
        cmocka_unit_test(the_grace_period_ends_what_does_not_listen),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
