// A report made by several processes: workers, ranks of mpirun, processes that only share a folder.
// What they give is held against one process, byte for byte. Uses examples/.
#include "cli/commands.h"
#include "cli/report/launch.h"
#include "tests/files.h"
#include "tests/run.h"

#include <dirent.h>
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

#define MODELS "examples/small-deltanet", "examples/small-deltaproduct2"
#define READ   "--doc", "examples/text_kjv.txt", "--threads", "1", "--resamples", "20"

static char root[500];

// NAME/out, an absolute path: results name the last part of such a path only, so that all reports name
// the same one.
static const char *out_of(const char *name) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    mkdir(folder, 0777);
    static char path[8][600];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, 600, "%s/%s/out", root, name);
    return p;
}

static const char *in_root(const char *name) {
    return files_path("%s", name);
}

// ---- programs -------------------------------------------------------------------------------------------

typedef struct child {
    pid_t pid;
    char out[512]; // file with both streams
    int code;      // after child_end; -1: by a signal
} child;

// argv: with the program's name; env: "NAME=value", NULL at the end, may be NULL.
static child child_start(const char *const *argv, const char *const *env, const char *name) {
    child c = {.code = -2};
    snprintf(c.out, sizeof c.out, "%s", in_root(name));
    fflush(NULL);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid > 0)
        return c;
    for (; env && *env; env++)
        putenv((char *)*env);
    if (!freopen(c.out, "w", stdout) || dup2(1, 2) < 0)
        _exit(126);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static char *child_end(child *c, double seconds) {
    int status = 0;
    double began = files_seconds();
    while (waitpid(c->pid, &status, WNOHANG) == 0) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        if (files_seconds() - began > seconds) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &status, 0);
            fail_msg("not done after %.0f s", seconds);
        }
    }
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return files_read(c->out, &(size_t){0});
}

enum { LIMIT = 300 }; // seconds: under sanitizers on a busy machine reports take long

// deltop report of both models into OUT, with the words behind; expects the exit code.
static void report(int code, const char *out, const char *length, const char *const *more) {
    const char *argv[40] = {run_program_path(), "report", MODELS,  READ, "--rows", "2",
                            "--length",         length,   "--out", out};
    size_t n = 0;
    while (argv[n])
        n++;
    for (; more && *more; more++)
        argv[n++] = *more;
    child c = child_start(argv, NULL, "said.txt");
    char *said = child_end(&c, LIMIT);
    if (c.code != code)
        fail_msg("code %d, not %d: %s", c.code, code, said);
    free(said);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static int shell(const char *fmt, ...) {
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// All files of two folders: names and bytes.
static void same_folders(const char *a, const char *b) {
    if (shell("diff -qr '%s' '%s' >&2", a, b))
        fail_msg("%s and %s differ", a, b);
}

static bool have_mpirun(void) {
    if (shell("mpirun --version >/dev/null 2>&1") == 0)
        return true;
    printf("    SKIP: no mpirun here\n");
    return false;
}

#define MPIRUN(n) "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", n

static const char *alone(void) { // one process's report, made once
    static char path[600];
    if (!path[0]) {
        snprintf(path, sizeof path, "%s", out_of("alone"));
        report(0, path, "256", NULL);
    }
    return path;
}

// ---- the same bytes -------------------------------------------------------------------------------------

static void two_workers_give_the_bytes_of_one_process(void **state) {
    (void)state;
    char out[600];
    snprintf(out, sizeof out, "%s", out_of("workers"));
    report(0, out, "256", WORDS("--workers", "2"));
    same_folders(alone(), out);
    printf("    measured: 2 workers on the CPU and one process: the same bytes\n");
}

// A training length is no size of anything in a stored row: models of the field have some past 2^31.
static void a_training_length_past_2_to_the_31_is_kept(void **state) {
    (void)state;
    report(0, out_of("long-trained"), "128", WORDS("--train-length", "10000000000"));
}

static void mpirun_gives_the_bytes_of_one_process(void **state) {
    (void)state;
    if (!have_mpirun())
        skip();
    static const char *const ranks[] = {"2", "4"};
    for (int i = 0; i < 2; i++) {
        char out[600];
        snprintf(out, sizeof out, "%s", out_of(ranks[i]));
        child c = child_start(WORDS(MPIRUN(ranks[i]), run_program_path(), "report", MODELS, READ,
                                    "--rows", "2", "--length", "256", "--out", out),
                              NULL, "said.txt");
        char *said = child_end(&c, LIMIT);
        if (c.code != 0)
            fail_msg("code %d: %s", c.code, said);
        // One rank prints, not all.
        char *first = strstr(said, "index.html");
        assert_non_null(first);
        assert_null(strstr(first + 1, "index.html"));
        free(said);
        same_folders(alone(), out);
        printf("    measured: mpirun -n %s and one process: the same bytes\n", ranks[i]);
    }
}

// By hand on several machines, or from a queue: the same --run and --out is all it takes.
static void processes_that_share_a_run_share_its_rows(void **state) {
    (void)state;
    char out[600];
    child c[3];
    snprintf(out, sizeof out, "%s", out_of("run"));
    static const char *const names[] = {"said0.txt", "said1.txt", "said2.txt"};
    for (int i = 0; i < 3; i++)
        c[i] = child_start(WORDS(run_program_path(), "report", MODELS, READ, "--rows", "2",
                                 "--length", "256", "--out", out, "--run", "tonight"),
                           NULL, names[i]);
    int pages = 0;
    for (int i = 0; i < 3; i++) {
        char *said = child_end(&c[i], LIMIT);
        if (c[i].code != 0)
            fail_msg("code %d: %s", c[i].code, said);
        pages += strstr(said, "index.html") != NULL;
        free(said);
    }
    assert_true(pages >= 1);
    same_folders(alone(), out);
}

// Rank 1 of 2 whose rank 0 never came: it does the work and, as the first that lives, the page.
static void a_rank_that_is_left_alone_does_it_all(void **state) {
    (void)state;
    char out[600];
    snprintf(out, sizeof out, "%s", out_of("rank1"));
    child c = child_start(WORDS(run_program_path(), "report", MODELS, READ, "--rows", "2",
                                "--length", "256", "--out", out),
                          WORDS("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                                "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_NAMESPACE=77"),
                          "said.txt");
    char *said = child_end(&c, LIMIT);
    if (c.code != 0)
        fail_msg("code %d: %s", c.code, said);
    free(said);
    same_folders(alone(), out);
}

// ---- deaths ---------------------------------------------------------------------------------------------

// The process that is at work for WHO ("rank 2 of 4"), as its claim in OUT/.run says; 0 after LIMIT.
static pid_t at_work(const char *out, const char *who) {
    double began = files_seconds();
    while (files_seconds() - began < LIMIT) {
        char path[700], text[1024];
        snprintf(path, sizeof path, "%s/.run", out);
        DIR *d = opendir(path);
        for (struct dirent *f; d && (f = readdir(d));) {
            if (!strstr(f->d_name, ".claim"))
                continue;
            snprintf(path, sizeof path, "%s/.run/%.200s", out, f->d_name);
            FILE *g = fopen(path, "r");
            size_t n = g ? fread(text, 1, sizeof text - 1, g) : 0;
            text[n] = 0;
            if (g)
                fclose(g);
            if (!strstr(text, who) || !strchr(text, '-'))
                continue;
            closedir(d);
            return (pid_t)atoi(strchr(text, '-') + 1);
        }
        if (d)
            closedir(d);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return 0;
}

static pid_t parent_of(pid_t pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    const char *at = strrchr(text, ')');
    return at ? (pid_t)atoi(at + 4) : 0;
}

static int stored(const char *out) {
    return shell("exit $(find '%s/tasks' -name '*.safetensors' | wc -l)", out);
}

#define LONG "--rows", "2", "--length", "3k"

// A rank's work is done in a process of its own: when that is killed, mpirun does not notice.
static void a_killed_worker_of_four_ranks_is_reported_and_the_rest_goes_on(void **state) {
    (void)state;
    if (!have_mpirun())
        skip();
    char out[600], one[600];
    snprintf(out, sizeof out, "%s", out_of("killed"));
    snprintf(one, sizeof one, "%s", out_of("long"));
    child c = child_start(
        WORDS(MPIRUN("4"), run_program_path(), "report", MODELS, READ, LONG, "--out", out), NULL,
        "said.txt");
    pid_t worker = at_work(out, "rank 2 of 4");
    assert_true(worker > 0 && kill(worker, SIGKILL) == 0);
    char *said = child_end(&c, LIMIT);
    if (c.code != 1)
        fail_msg("code %d, not 1: %s", c.code, said);
    run_holds(said, "rank 2 of 4");
    run_holds(said, "ended by signal 9");
    free(said);
    assert_int_equal(stored(out), 3);
    said = files_read(files_path("killed/out/report.md"), &(size_t){0});
    run_holds(said, "ended while it was at work on it");
    free(said);
    printf("    measured: 4 ranks, the worker of one killed: 3 of 4 rows kept, code 1\n");
    // The same command again, by one process, completes it.
    report(0, out, "3k", NULL);
    report(0, one, "3k", NULL);
    same_folders(one, out);
}

static void a_killed_rank_is_outlived_with_recovery(void **state) {
    (void)state;
    if (!have_mpirun())
        skip();
    char out[600], one[600];
    snprintf(out, sizeof out, "%s", out_of("recovered"));
    snprintf(one, sizeof one, "%s", out_of("long"));
    child c = child_start(WORDS(MPIRUN("4"), "--enable-recovery", run_program_path(), "report",
                                MODELS, READ, LONG, "--out", out),
                          NULL, "said.txt");
    pid_t worker = at_work(out, "rank 2 of 4"), rank = parent_of(worker);
    assert_true(worker > 0 && rank > 1 && kill(rank, SIGKILL) == 0);
    free(child_end(&c, LIMIT)); // mpirun's own code says nothing then
    assert_int_equal(stored(out), 3);
    report(1, out, "3k", WORDS("--assemble"));
    char *said = files_read(files_path("recovered/out/report.md"), &(size_t){0});
    run_holds(said, "rank 2 of 4");
    free(said);
    printf("    measured: 4 ranks, one killed with --enable-recovery: 3 of 4 rows kept, code 1\n");
    report(0, out, "3k", WORDS("--workers", "2"));
    report(0, one, "3k", NULL);
    same_folders(one, out);
}

// A row that cannot be computed: a model that loses its weights after the list of rows was made.
static void a_row_that_fails_is_named_and_the_rest_goes_on(void **state) {
    (void)state;
    char out[600], third[600], weights[700], kept[700];
    snprintf(out, sizeof out, "%s", out_of("failed"));
    snprintf(third, sizeof third, "%s/failed/third", root);
    snprintf(weights, sizeof weights, "%s/model.safetensors", third);
    snprintf(kept, sizeof kept, "%s/failed/kept", root);
    assert_int_equal(
        shell("cp -rp examples/small-deltanet '%s' && cp -p '%s' '%s'", third, weights, kept), 0);
    const char *const argv[] = {
        run_program_path(), "report", MODELS, third, READ, LONG, "--out", out,
        "--workers",        "2",      NULL};
    child c = child_start(argv, NULL, "said.txt");
    assert_true(at_work(out, "process") > 0);
    assert_int_equal(truncate(weights, 5000), 0);
    char *said = child_end(&c, LIMIT);
    if (c.code != 1)
        fail_msg("code %d, not 1: %s", c.code, said);
    run_holds(said, "third on text_kjv, row 0: ");
    run_holds(said, "third on text_kjv, row 1: ");
    free(said);
    assert_int_equal(stored(out), 4);
    assert_int_equal(shell("cp -p '%s' '%s'", kept, weights), 0);
    c = child_start(argv, NULL, "said.txt");
    said = child_end(&c, LIMIT);
    if (c.code != 0)
        fail_msg("code %d, not 0: %s", c.code, said);
    run_holds(said, "4 of 6 rows are there already");
    free(said);
}

static void an_interrupt_ends_all_workers_and_leaves_no_claims(void **state) {
    (void)state;
    char out[600];
    snprintf(out, sizeof out, "%s", out_of("stopped"));
    child c = child_start(
        WORDS(run_program_path(), "report", MODELS, READ, LONG, "--out", out, "--workers", "2"),
        NULL, "said.txt");
    pid_t worker = at_work(out, "process");
    kill(c.pid, SIGTERM);
    free(child_end(&c, LIMIT));
    assert_int_equal(c.code, -1);
    assert_int_equal(kill(worker, 0), -1);
    char path[700];
    snprintf(path, sizeof path, "%s/.run", out);
    assert_int_equal(access(path, F_OK), -1);
}

// ---- who is who -----------------------------------------------------------------------------------------

static const char *const known[] = {"OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "PMIX_NAMESPACE",
                                    "OMPI_MCA_orte_precondition_transports",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_STEP_ID",
                                    "SLURM_JOB_ID",
                                    "SLURM_ARRAY_TASK_ID",
                                    "SLURM_ARRAY_TASK_COUNT",
                                    "SLURM_ARRAY_JOB_ID",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALRANKID"};

static launch with(const char *const *env, const char *name) {
    launch l;
    err e = {0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    for (; *env; env++)
        putenv((char *)*env);
    if (!launch_read(&l, name, &e))
        fail_msg("%s", e.text);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    return l;
}

static void launchers_are_known_by_their_environment(void **state) {
    (void)state;
    launch l = with(WORDS(NULL), NULL), m = with(WORDS(NULL), NULL);
    assert_null(l.by);
    assert_int_equal(l.ranks, 1);
    assert_string_not_equal(l.run, m.run); // every run alone is one of its own
    l = with(WORDS("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8",
                   "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_NAMESPACE=123",
                   "OMPI_MCA_orte_precondition_transports=ab-cd"),
             NULL);
    assert_string_equal(l.by, "mpirun");
    assert_string_equal(l.run, "123.ab-cd");
    assert_true(l.rank == 3 && l.ranks == 8 && l.local_rank == 1 && !l.comes_goes);
    run_holds(l.who, "rank 3 of 8 on ");
    // A batch script has SLURM_PROCID, but is no step of srun.
    l = with(WORDS("SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=9"), NULL);
    assert_null(l.by);
    l = with(WORDS("SLURM_PROCID=2", "SLURM_NTASKS=4", "SLURM_LOCALID=0", "SLURM_JOB_ID=9",
                   "SLURM_STEP_ID=1"),
             NULL);
    assert_string_equal(l.by, "srun");
    assert_string_equal(l.run, "1.9");
    l = with(WORDS("SLURM_ARRAY_JOB_ID=50", "SLURM_ARRAY_TASK_ID=7", "SLURM_ARRAY_TASK_COUNT=10",
                   "SLURM_JOB_ID=57"),
             NULL);
    assert_true(l.comes_goes && l.rank == 7 && l.ranks == 10);
    assert_string_equal(l.run, "50");
    l = with(WORDS("PMI_RANK=1", "PMI_SIZE=2"), "monday");
    assert_string_equal(l.run, "monday");
    assert_int_equal(l.rank, 1);
    err e = {0};
    putenv("PMI_RANK=1");
    assert_false(launch_read(&l, NULL, &e));
    unsetenv("PMI_RANK");
    files_assert_error_holds(&e, ERR_USAGE, "--run NAME");
    err_clear(&e);
    assert_false(launch_read(&l, "a/b", &e));
    files_assert_error_holds(&e, ERR_USAGE, "\"a/b\" is not a name");
}

// ---- refusals -------------------------------------------------------------------------------------------

static void all_gpus_are_for_reports(void **state) {
    (void)state;
    for (size_t i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        bool shares = strcmp(c->name, "report") == 0 || strcmp(c->name, "watch") == 0;
        if (!(c->takes & TAKES_DEVICE) || shares || strcmp(c->name, "view") == 0)
            continue;
        const char *argv[] = {c->name, "--device", "cuda:all", NULL, NULL, NULL, NULL};
        size_t n = 3;
        for (int k = 0; k < (c->min_models > 1 ? c->min_models : c->max_models != 0); k++)
            argv[n++] = "examples/small-deltanet";
        if (c->max_documents)
            argv[n++] = "examples/text_kjv.txt";
        run r = {.argv = argv, .timeout = 60};
        assert_true(run_program(&r));
        if (r.code != 2)
            fail_msg("%s: code %d: %s", c->name, r.code, r.err);
        run_holds(r.err, "one GPU");
        run_free(&r);
    }
}

static void what_workers_cannot_do_is_refused(void **state) {
    (void)state;
    char out[600];
    snprintf(out, sizeof out, "%s", out_of("refused"));
    const char *argv[] = {
        "report", "examples/small-deltanet", "-", "--workers", "2", "--threads", "1", "--out", out,
        NULL};
    run r = {.argv = argv, .input = "text", .n_input = 4};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 2);
    run_holds(r.err, "standard input cannot be read by several processes");
    run_free(&r);
    argv[2] = "examples/text_kjv.txt";
    argv[3] = "--run";
    argv[4] = "a b";
    r = (run){.argv = argv};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 2);
    run_free(&r);
    // What no worker can do is said once.
    argv[3] = "--workers";
    argv[4] = "3";
    argv[5] = "--device";
    argv[6] = "cuda:999";
    r = (run){.argv = argv};
    assert_true(run_program(&r));
    assert_int_equal(r.code, 3);
    const char *first = strstr(r.err, "device cuda:999");
    assert_non_null(first);
    assert_null(strstr(first + 1, "device cuda:999"));
    run_free(&r);
}

static int begin(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    char *whole = realpath(files_folder(), NULL);
    assert_non_null(whole);
    snprintf(root, sizeof root, "%s", whole);
    free(whole);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_workers_give_the_bytes_of_one_process),
        cmocka_unit_test(a_training_length_past_2_to_the_31_is_kept),
        cmocka_unit_test(mpirun_gives_the_bytes_of_one_process),
        cmocka_unit_test(processes_that_share_a_run_share_its_rows),
        cmocka_unit_test(a_rank_that_is_left_alone_does_it_all),
        cmocka_unit_test(a_killed_worker_of_four_ranks_is_reported_and_the_rest_goes_on),
        cmocka_unit_test(a_killed_rank_is_outlived_with_recovery),
        cmocka_unit_test(a_row_that_fails_is_named_and_the_rest_goes_on),
        cmocka_unit_test(an_interrupt_ends_all_workers_and_leaves_no_claims),
        cmocka_unit_test(launchers_are_known_by_their_environment),
        cmocka_unit_test(all_gpus_are_for_reports),
        cmocka_unit_test(what_workers_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
