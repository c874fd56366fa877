// deltop watch as a trainer and a pipeline use it. Checkpoints are copies of those in examples/.
#include "tests/files.h"
#include "tests/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ONE   "examples/small-deltanet"
#define OTHER "examples/small-deltaproduct2"

static char root[500];

static void nap(double seconds) {
    nanosleep(
        &(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)},
        NULL);
}

static int shell(const char *fmt, ...) {
    char line[3000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A checkpoint that is whole and a minute old.
static void checkpoint(const char *run, const char *name, const char *from) {
    assert_int_equal(shell("mkdir -p '%s/%s' && cp '%s'/* '%s/%s' && touch -d '1 hour ago' "
                           "'%s/%s'/*",
                           run, name, from, run, name, run, name),
                     0);
}

// RUN and OUT of a test.
static void places(const char *name, char run[600], char out[600]) {
    snprintf(run, 600, "%s/%s-run", root, name);
    snprintf(out, 600, "%s/%s-out", root, name);
    assert_int_equal(mkdir(run, 0777), 0);
}

enum { MOST = 40 };
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void words(const char **argv, const char *run, const char *out, const char *const *more) {
    const char *first[] = {
        "watch", run,         "--doc", "examples/text_kjv.txt", "--length", "128",   "--rows",
        "2",     "--threads", "1",     "--resamples",           "10",       "--out", out};
    size_t n = sizeof first / sizeof *first;
    memcpy(argv, first, sizeof first);
    for (; *more; more++)
        argv[n++] = *more;
    argv[n] = NULL;
}

// What it says on both streams, to be freed.
static char *watch(int code, const char *run_folder, const char *out, const char *const *more) {
    const char *argv[MOST];
    words(argv, run_folder, out, more);
    run r = {.argv = argv, .timeout = 120};
    assert_true(run_program(&r));
    if (r.code != code)
        fail_msg("code %d, not %d: %s%s", r.code, code, r.out, r.err);
    char *said = NULL;
    assert_true(asprintf(&said, "%s%s", r.out, r.err) >= 0);
    run_free(&r);
    return said;
}

static void once_tells_by_its_code_and_command_which_checkpoint_broke_a_rule(void **state) {
    (void)state;
    char run[600], out[600], rules[600], told[600], command[1400];
    places("once", run, out);
    snprintf(rules, sizeof rules, "%s/rules.ini", root);
    snprintf(told, sizeof told, "%s/told.txt", root);
    checkpoint(run, "checkpoint-1000", ONE);
    checkpoint(run, "checkpoint-200", OTHER);
    files_text(rules, "rank = heads(erank > 0.001*K) == 16\n");
    free(watch(0, run, out, WORDS("--once", "--rules", rules)));
    // Only DeltaProduct has n_h = 2.
    files_text(rules, "plain = n_h == 1\n");
    snprintf(
        command, sizeof command,
        "printf '%%s|%%s|%%s|%%s\\n' \"$DELTOP_CHECKPOINT\" \"$DELTOP_STEP\" \"$DELTOP_REPORT\" "
        "\"$DELTOP_RULES\" >>'%s'; exit 7",
        told);
    files_text(rules, "plain = max(n_h) == 1\n");
    snprintf(out, sizeof out, "%s/once-out2", root);
    char *said = watch(4, run, out, WORDS("--once", "--rules", rules, "--on-fail", command));
    run_holds(said, "checkpoint-200 breaks rules");
    run_holds(said, "the command ended with 7");
    assert_null(strstr(said, "checkpoint-1000 breaks"));
    free(said);
    char *line = files_read(told, &(size_t){0}), want[1300];
    snprintf(want, sizeof want, "%s/checkpoint-200|200|%s|plain BROKEN on text_kjv: ", run, out);
    run_holds(line, want);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1); // once
    free(line);
}

// A pipeline must see that a checkpoint is broken: it is named, and --until's step has to be there.
static void once_names_what_it_could_not_read(void **state) {
    (void)state;
    char run[600], out[600];
    places("broken", run, out);
    checkpoint(run, "checkpoint-100", ONE);
    checkpoint(run, "checkpoint-300", ONE);
    assert_int_equal(
        shell("truncate -s 1000 '%s/checkpoint-300/model.safetensors' && touch -d '1 hour ago' "
              "'%s/checkpoint-300'/*",
              run, run),
        0);
    char *said = watch(0, run, out, WORDS("--once", "--settle", "0"));
    run_holds(said, "not yet: ");
    run_holds(said, "checkpoint-300");
    free(said);
    said = watch(1, run, out, WORDS("--once", "--settle", "0", "--until", "300"));
    run_holds(said, "checkpoint-300");
    run_holds(said, "no whole checkpoint of step 300 or later");
    free(said);
    free(watch(0, run, out, WORDS("--once", "--settle", "0", "--until", "100")));
}

static void the_report_is_the_one_that_report_makes(void **state) {
    (void)state;
    char run[600], out[600], plain[600];
    places("same", run, out);
    snprintf(plain, sizeof plain, "%s/same-plain", root);
    checkpoint(run, "step_20", OTHER);
    checkpoint(run, "step_3", ONE);
    free(watch(0, run, out, WORDS("--once")));
    assert_int_equal(
        shell("'%s' report '%s/step_3' '%s/step_20' --doc examples/text_kjv.txt --length "
              "128 --rows 2 --threads 1 --resamples 10 --out '%s' >/dev/null",
              run_program_path(), run, run, plain),
        0);
    assert_int_equal(shell("cmp '%s/results.jsonl' '%s/results.jsonl'", out, plain), 0);
    assert_int_equal(shell("diff -r '%s/tasks' '%s/tasks'", out, plain), 0);
    char path[700];
    snprintf(path, sizeof path, "%s/index.html", out);
    char *page = files_read(path, &(size_t){0});
    run_holds(page, "Over the training run");
    free(page);
    // With one checkpoint files lie where they will lie with two.
    snprintf(path, sizeof path, "%s/step_3/text_kjv/loss.npy", out);
    assert_int_equal(access(path, R_OK), 0);
}

static void checkpoints_that_are_gone_stay_on_the_curves(void **state) {
    (void)state;
    char run[600], out[600], path[700];
    places("gone", run, out);
    checkpoint(run, "step-1", ONE);
    free(watch(0, run, out, WORDS("--once")));
    assert_int_equal(shell("rm -r '%s/step-1'", run), 0);
    checkpoint(run, "step-2", OTHER);
    free(watch(0, run, out, WORDS("--once")));
    snprintf(path, sizeof path, "%s/trend.jsonl", out);
    char *facts = files_read(path, &(size_t){0});
    run_holds(facts, "\"model\": \"step-1\"");
    run_holds(facts, "\"model\": \"step-2\"");
    free(facts);
    snprintf(path, sizeof path, "%s/results.jsonl", out);
    facts = files_read(path, &(size_t){0});
    assert_null(strstr(facts, "step-1"));
    free(facts);
    // Other settings are another curve.
    free(watch(0, run, out, WORDS("--once", "--add-bos")));
    snprintf(path, sizeof path, "%s/trend.jsonl", out);
    facts = files_read(path, &(size_t){0});
    assert_null(strstr(facts, "step-1"));
    free(facts);
}

// ---- a run that goes on ---------------------------------------------------------------------------------

static pid_t start(const char *run, const char *out, const char *said, const char *const *more) {
    const char *argv[MOST + 1] = {run_program_path()};
    words(argv + 1, run, out, more);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        if (!freopen(said, "w", stdout) || dup2(1, 2) < 0)
            _exit(126);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid;
}

// Until the page names the checkpoint.
static bool names(const char *out, const char *name, double seconds) {
    char path[700];
    snprintf(path, sizeof path, "%s/results.jsonl", out);
    for (double began = files_seconds(); files_seconds() - began < seconds; nap(0.05))
        if (access(path, R_OK) == 0 && shell("grep -q '\"%s\"' '%s'", name, path) == 0)
            return true;
    return false;
}

static void interrupt(pid_t pid) {
    int status = 0;
    kill(pid, SIGINT);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT); // a shell says 130
}

static void new_checkpoints_are_read_when_they_are_whole(void **state) {
    (void)state;
    char run[600], out[600], said[600], part[700];
    places("live", run, out);
    snprintf(said, sizeof said, "%s/live.txt", root);
    checkpoint(run, "step-1", ONE);
    // Two workers in two rounds: the second round forks after the first one has computed.
    pid_t pid = start(run, out, said, WORDS("--poll", "0.1", "--settle", "0.5", "--workers", "2"));
    assert_true(names(out, "step-1", 60));
    // Half of the weights, and the rest later.
    assert_int_equal(shell("mkdir '%s/step-2' && cp %s/*.json '%s/step-2' && head -c 100000 "
                           "%s/model.safetensors >'%s/step-2/model.safetensors'",
                           run, OTHER, run, OTHER, run),
                     0);
    assert_int_equal(shell("for i in $(seq 600); do grep -q 'shorter than its header says' '%s' && "
                           "exit 0; sleep 0.1; done; exit 1",
                           said),
                     0);
    assert_false(names(out, "step-2", 0.6));
    assert_int_equal(shell("cat %s/model.safetensors >'%s/step-2/model.safetensors'", OTHER, run),
                     0);
    assert_true(names(out, "step-2", 60));
    nap(0.3);
    interrupt(pid);
    char *text = files_read(said, &(size_t){0});
    run_holds(text, "2 checkpoints, 1 of them new");
    run_holds(text, "waiting for the next checkpoint");
    free(text);
    snprintf(part, sizeof part, "%s/.run", out);
    assert_int_equal(access(part, F_OK), -1);
    // It goes on where it stopped.
    text = watch(0, run, out, WORDS("--once"));
    run_holds(text, "4 of 4 rows are there already");
    free(text);
}

static void until_ends_at_its_step(void **state) {
    (void)state;
    char run[600], out[600];
    places("until", run, out);
    checkpoint(run, "step-5", ONE);
    char *said = watch(0, run, out, WORDS("--until", "5", "--poll", "0.1"));
    free(said);
}

// ---- what can be wrong ----------------------------------------------------------------------------------

static void every_mistake_is_one_sentence(void **state) {
    (void)state;
    char run[600], out[600];
    places("wrong", run, out);
    char bad[600], asks[600];
    snprintf(bad, sizeof bad, "%s/bad.ini", root);
    snprintf(asks, sizeof asks, "%s/asks.ini", root);
    files_text(bad, "a = loss < 1\nloss <\n");
    files_text(asks, "a = loss < baseline\n");
    const struct {
        int code;
        const char *argv[11], *says;
    } tries[] = {
        {2, {"watch", "--once"}, "takes the folder of one training run"},
        {2, {"watch", "x", "--once"}, "add --out OUT"},
        {2, {"watch", "x", "--once", "--out", "y"}, "add --doc DOCUMENT"},
        {2, {"watch", "x", "--out", "y", "--doc", "-"}, "standard input can be read only once"},
        {1, {"watch", "x", "--out", "y", "--doc", "none.txt"}, "none.txt: no such file"},
        // Rules are read before the first checkpoint is there.
        {1,
         {"watch", run, "--out", out, "--doc", "README.md", "--rules", "none.ini"},
         "none.ini: no such file"},
        {1,
         {"watch", run, "--out", out, "--doc", "README.md", "--rules", bad},
         "bad.ini, line 2, character 7: expected a number"},
        {2,
         {"watch", run, "--out", out, "--doc", "README.md", "--rules", asks},
         "asks.ini, line 1: rule \"a\" needs a baseline"},
        {2,
         {"watch", run, "--out", out, "--doc", "README.md", "--baseline", out},
         "means nothing without --rules"},
        {1, {"watch", "no-such", "--out", "y", "--doc", "README.md"}, "no-such: no such folder"},
        {1, {"watch", "README.md", "--out", "y", "--doc", "README.md"}, "is a file"},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct run r = {.argv = tries[i].argv};
        assert_true(run_program(&r));
        if (r.code != tries[i].code)
            fail_msg("try %zu: code %d: %s", i, r.code, r.err);
        run_holds(r.err, tries[i].says);
        assert_ptr_equal(strchr(r.err, '\n'), r.err + r.n_err - 1);
        run_free(&r);
    }
    char *said = watch(1, run, out, WORDS("--once", "--settle", "0"));
    run_holds(said, "no whole checkpoint in it");
    free(said);
}

// One that no family reads, beside one that can be read: named, and the rest goes on.
static void a_checkpoint_that_cannot_be_read_is_named(void **state) {
    (void)state;
    char run[600], out[600], path[700];
    places("odd", run, out);
    checkpoint(run, "step-1", ONE);
    checkpoint(run, "step-2", OTHER);
    snprintf(path, sizeof path, "%s/step-2/config.json", run);
    files_text(path, "{\"model_type\": \"no_such_family\"}");
    char *said = watch(1, run, out, WORDS("--once", "--settle", "0"));
    run_holds(said, "no_such_family");
    free(said);
    assert_true(names(out, "step-1", 1));
}

static int begin(void **state) {
    (void)state;
    char *whole = realpath(files_folder(), NULL);
    assert_non_null(whole);
    snprintf(root, sizeof root, "%s", whole);
    free(whole);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_tells_by_its_code_and_command_which_checkpoint_broke_a_rule),
        cmocka_unit_test(once_names_what_it_could_not_read),
        cmocka_unit_test(the_report_is_the_one_that_report_makes),
        cmocka_unit_test(checkpoints_that_are_gone_stay_on_the_curves),
        cmocka_unit_test(new_checkpoints_are_read_when_they_are_whole),
        cmocka_unit_test(until_ends_at_its_step),
        cmocka_unit_test(every_mistake_is_one_sentence),
        cmocka_unit_test(a_checkpoint_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
