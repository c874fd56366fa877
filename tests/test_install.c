// make install into a folder, the installed program, its manual page and its completions, in the
// shells themselves.
#include "bench/case.h"
#include "cli/commands.h"
#include "cli/complete.h"
#include "tests/files.h"
#include "tests/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// Exit code of a shell command; what it says in *out (both streams), to be freed.
static int shell(char **out, const char *fmt, ...) {
    char line[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    const char *told = files_path("shell.txt");
    char whole[4400];
    snprintf(whole, sizeof whole, "{ %s\n} >'%s' 2>&1", line, told);
    int status = system(whole);
    size_t n = 0;
    *out = files_read(told, &n);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool have(const char *program) {
    char *out;
    bool there = shell(&out, "command -v %s", program) == 0;
    free(out);
    if (!there)
        printf("    SKIP: no %s here\n", program);
    return there;
}

// What the program prints for `help FORM`, in a file, whose path is to be freed.
static char *form(const char *option, const char *name) {
    run r = {.argv = (const char *const[]){"help", option, NULL}};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    assert_int_equal(r.n_err, 0);
    char *path = strdup(files_path("%s", name));
    assert_non_null(path);
    files_write(path, r.out, r.n_out);
    run_free(&r);
    return path;
}

static void the_installed_program_runs_and_uninstall_leaves_no_file(void **state) {
    (void)state;
    char root[512], *out;
    char *whole = realpath(files_folder(), NULL);
    assert_non_null(whole);
    snprintf(root, sizeof root, "%s/dest dir", whole);
    free(whole);
    // Of a make around this test nothing is to be inherited.
    if (shell(&out, "unset MAKEFLAGS MAKELEVEL; make install DESTDIR='%s' PREFIX=/opt/it", root))
        fail_msg("%s", out);
    free(out);
    static const char *const files[] = {"bin/deltop",
                                        "share/man/man1/deltop.1",
                                        "share/bash-completion/completions/deltop",
                                        "share/zsh/site-functions/_deltop",
                                        "include/deltop/plugin.h",
                                        "share/doc/deltop/README.md",
                                        "share/doc/deltop/LICENSE",
                                        "share/doc/deltop/docs/json.md",
                                        "share/doc/deltop/examples/text_kjv.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = files_path("dest dir/opt/it/%s", files[i]);
        if (access(path, R_OK) != 0)
            fail_msg("%s was not installed", path);
    }
    assert_int_equal(shell(&out, "cd / && '%s/opt/it/bin/deltop' --version", root), 0);
    run_holds(out, "deltop " DELTOP_VERSION "\n");
    run_holds(out, "OpenBLAS");
    free(out);
    assert_int_equal(shell(&out,
                           "cd '%s/opt/it/share/doc/deltop/examples' && "
                           "'%s/opt/it/bin/deltop' tokens small-deltanet text_kjv.txt --length 4",
                           root, root),
                     0);
    free(out);
    if (shell(&out, "unset MAKEFLAGS MAKELEVEL; make uninstall DESTDIR='%s' PREFIX=/opt/it", root))
        fail_msg("%s", out);
    free(out);
    assert_int_equal(shell(&out, "find '%s' -type f", root), 0);
    assert_string_equal(out, "");
    free(out);
}

static void the_manual_page_names_every_command_and_option(void **state) {
    (void)state;
    char *path = form("--man", "deltop.1"), *page = files_read(path, &(size_t){0});
    for (size_t i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        char part[128];
        snprintf(part, sizeof part, "\n.SS %s\n", c->name);
        char *at = strstr(page, part);
        if (!at)
            fail_msg("no section for %s", c->name);
        for (size_t k = 0; k < c->n_own; k++) {
            size_t n = (size_t)snprintf(part, sizeof part, ".B \\-\\-");
            for (const char *s = c->own[k].name; *s; s++)
                n += (size_t)snprintf(part + n, sizeof part - n, *s == '-' ? "\\-" : "%c", *s);
            run_holds(at, part);
        }
    }
    free(page);
    free(path);
}

// What groff or mandoc would warn of, a reader sees as a gap.
static void the_manual_page_is_clean_roff(void **state) {
    (void)state;
    char *page = form("--man", "deltop.1"), *out;
    int looked = 0;
    if (have("groff")) {
        assert_int_equal(shell(&out, "groff -ww -man -Tutf8 '%s' >/dev/null", page), 0);
        assert_string_equal(out, "");
        free(out);
        looked++;
    }
    if (have("mandoc")) {
        shell(&out, "mandoc -T lint '%s'", page);
        assert_string_equal(out, "");
        free(out);
        looked++;
    }
    free(page);
    if (!looked)
        skip();
}

static const char *offered_by_bash(const char *script, const char *line) {
    static char kept[8192];
    char *out;
    assert_int_equal(shell(&out, "bash tests/cases/completion/ask.bash '%s' '%s'", script, line),
                     0);
    snprintf(kept, sizeof kept, " %.*s ", (int)strcspn(out, "\n"), out);
    free(out);
    return kept;
}

// WORD as one of the blank-separated words.
static void offers(const char *offered, const char *word) {
    char part[256];
    snprintf(part, sizeof part, " %s ", word);
    if (!strstr(offered, part))
        fail_msg("%s is not offered, only:%s", word, offered);
}

static void bash_offers_every_command_option_and_value(void **state) {
    (void)state;
    if (!have("bash"))
        skip();
    char *script = form("--bash", "deltop.bash");
    char line[256], word[256], words[512];
    const char *all = offered_by_bash(script, "deltop ");
    for (size_t i = 0; i < n_commands; i++)
        offers(all, commands[i]->name);
    for (size_t i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        snprintf(line, sizeof line, "deltop %s --", c->name);
        const char *options = offered_by_bash(script, line);
        for (size_t k = 0; k < c->n_own; k++) {
            snprintf(word, sizeof word, "--%s", c->own[k].name);
            offers(options, word);
        }
        for (size_t k = 0; k < N_SHARED; k++) {
            snprintf(word, sizeof word, " --%s ", options_shared()[k].name);
            assert_int_equal(strstr(options, word) != NULL, c->takes >> k & 1);
        }
        for (size_t k = 0; k < c->n_own; k++) {
            if (c->own[k].kind != OPT_CHOICE)
                continue;
            complete_offer(&c->own[k], words, sizeof words);
            snprintf(line, sizeof line, "deltop %s --%s ", c->name, c->own[k].name);
            snprintf(word, sizeof word, " %.200s ", words);
            assert_string_equal(offered_by_bash(script, line), word);
        }
    }
    // An option's value, also behind = and with a colon; a flag is followed by operands; a number
    // has nothing to choose from; files and folders.
    assert_string_equal(offered_by_bash(script, "deltop loss --device c"), " cpu cuda cuda:all ");
    assert_string_equal(offered_by_bash(script, "deltop loss --device=c"), " cpu cuda cuda:all ");
    assert_string_equal(offered_by_bash(script, "deltop loss --device cuda:"), " all ");
    assert_string_equal(offered_by_bash(script, "deltop loss --length "), "  ");
    assert_string_equal(offered_by_bash(script, "deltop loss --json example"), " examples ");
    assert_string_equal(offered_by_bash(script, "deltop loss --out exam"), " examples ");
    assert_string_equal(offered_by_bash(script, "deltop loss --out README"), "  ");
    assert_string_equal(offered_by_bash(script, "deltop inspect READM"), " README.md ");
    assert_string_equal(offered_by_bash(script, "deltop --json loss --precision t"), " tf32 ");
    offers(offered_by_bash(script, "deltop theory s"), "s3-rotations");
    offers(offered_by_bash(script, "deltop explain "), "gated_deltanet");
    offers(offered_by_bash(script, "deltop help "), "spectrum");
    free(script);
}

static const char *offered_by_zsh(const char *folder, const char *line) {
    static char kept[16384];
    char *out;
    assert_int_equal(shell(&out, "zsh -f tests/cases/completion/ask.zsh '%s' '%s'", folder, line),
                     0);
    snprintf(kept, sizeof kept, "%s", out);
    free(out);
    return kept;
}

static void zsh_offers_commands_options_and_values(void **state) {
    (void)state;
    if (!have("zsh"))
        skip();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", files_path("zsh"));
    files_mkdir(folder);
    free(form("--zsh", "zsh/_deltop"));
    const char *all = offered_by_zsh(folder, "deltop ");
    for (size_t i = 0; i < n_commands; i++) {
        run_holds(all, commands[i]->name);
        run_holds(all, commands[i]->summary);
    }
    const char *options = offered_by_zsh(folder, "deltop loss --");
    run_holds(options, "--ablate");
    run_holds(options, "--train-length");
    run_holds(offered_by_zsh(folder, "deltop loss --device "), "cuda:all");
    const char *names = offered_by_zsh(folder, "deltop theory s3");
    run_holds(names, "s3-rotations");
    assert_null(strstr(names, "bad option"));
}

// Options of kind text have no list of their own that the parser would hold them to.
static void every_suite_of_bench_is_offered(void **state) {
    (void)state;
    const command *c = command_find("bench");
    for (size_t i = 0; i < c->n_own; i++) {
        if (strcmp(c->own[i].name, "suite") != 0)
            continue;
        char words[512], padded[600];
        assert_int_equal(complete_offer(&c->own[i], words, sizeof words), OFFER_WORDS);
        snprintf(padded, sizeof padded, " %s ", words);
        for (size_t k = 0; k < n_bench_suites; k++)
            if (strcmp(bench_suites[k].name, "ci-gpu") != 0) // what ci is on a GPU
                offers(padded, bench_suites[k].name);
        return;
    }
    fail_msg("no --suite");
}

static void the_version_tells_what_runs_and_what_it_was_built_with(void **state) {
    (void)state;
    run r = {.argv = (const char *const[]){"--version", NULL}};
    assert_true(run_program(&r));
    static const char *const words[] = {
        "BLAS", "LAPACKE", "cairo",    "libpng",   "ncurses",      "PCRE2",       "jansson",
        "MPI",  "OpenMP",  "utf8proc", "Sentence", "CUDA backend", "(built with "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        run_holds(r.out, words[i]);
    run_free(&r);
    // The backend is named where it is found, without being opened.
    char so[512], env[600];
    snprintf(so, sizeof so, "%s", files_path("empty.so"));
    files_text(so, "");
    snprintf(env, sizeof env, "DELTOP_CUDA_SO=%s", so);
    r = (run){.argv = (const char *const[]){"--version", NULL},
              .env = (const char *const[]){env, NULL}};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 0);
    run_holds(r.out, so);
    run_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_installed_program_runs_and_uninstall_leaves_no_file),
        cmocka_unit_test(the_manual_page_names_every_command_and_option),
        cmocka_unit_test(the_manual_page_is_clean_roff),
        cmocka_unit_test(bash_offers_every_command_option_and_value),
        cmocka_unit_test(zsh_offers_commands_options_and_values),
        cmocka_unit_test(every_suite_of_bench_is_offered),
        cmocka_unit_test(the_version_tells_what_runs_and_what_it_was_built_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
