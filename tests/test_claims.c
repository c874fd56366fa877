// core/claims.h and core/alive.h: tasks shared out among processes that may die at any point.
#include "core/claims.h"
#include "tests/files.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void nap(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

typedef struct worker {
    alive *a;
    claims *c;
} worker;

static char folder[600];

// machine NULL: this one. Of another one, a process is dead after a third of a second of silence.
static worker start(const char *run, int rank, const char *machine) {
    err e = {0};
    char who[64];
    snprintf(who, sizeof who, "worker %d", rank);
    alive_about about = {.folder = folder,
                         .run = run,
                         .rank = rank,
                         .who = who,
                         .beat = 0.05,
                         .patience = 0.33,
                         .machine = machine};
    worker w = {.a = alive_open(&about, &e)};
    w.c = w.a ? claims_open(folder, w.a, &e) : NULL;
    if (!w.c)
        fail_msg("%s", e.text);
    return w;
}

static void end(worker *w) {
    claims_close(w->c);
    alive_close(w->a);
}

static claim_state take(worker *w, const char *task) {
    err e = {0};
    claim_state s;
    if (!claims_take(w->c, task, &s, &e))
        fail_msg("%s", e.text);
    return s;
}

static claim_state look(worker *w, const char *task) {
    err e = {0};
    claim_state s;
    if (!claims_look(w->c, task, &s, &e))
        fail_msg("%s", e.text);
    return s;
}

// A process that takes the task and is killed; its rank 7.
static void take_and_die(const char *run, const char *task, const char *machine) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        worker w = start(run, 7, machine);
        take(&w, task);
        raise(SIGKILL);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static int fresh(void **state) {
    (void)state;
    static int number;
    snprintf(folder, sizeof folder, "%s", files_path("claims-%d", number++));
    return 0;
}

static void a_task_is_one_process_s_and_is_given_back(void **state) {
    (void)state;
    // Two in one process have one id unless their machines differ.
    worker a = start("r", 0, NULL), b = start("r", 1, "elsewhere");
    assert_int_equal(take(&a, "t"), CLAIM_OURS);
    assert_int_equal(take(&b, "t"), CLAIM_WORKING);
    assert_int_equal(take(&a, "t"), CLAIM_OURS);
    end(&a);
    assert_int_equal(take(&b, "t"), CLAIM_OURS);
    err e = {0};
    assert_true(claims_done(b.c, "t", &e));
    assert_int_equal(look(&b, "t"), CLAIM_FREE);
    end(&b);
    assert_int_equal(access(folder, F_OK), -1); // nothing is left
}

static void a_failure_counts_in_its_run_and_no_longer(void **state) {
    (void)state;
    err e = {0};
    char why[1300];
    worker a = start("one", 0, NULL);
    assert_int_equal(take(&a, "t"), CLAIM_OURS);
    assert_true(claims_failed(a.c, "t", "model: no such file", &e));
    assert_int_equal(take(&a, "t"), CLAIM_FAILED);
    assert_string_equal(claims_why(a.c, "t", why, sizeof why), "model: no such file");
    end(&a);
    worker b = start("two", 0, NULL);
    assert_int_equal(look(&b, "t"), CLAIM_FREE);
    assert_int_equal(take(&b, "t"), CLAIM_OURS);
    assert_true(claims_done(b.c, "t", &e));
    end(&b);
    worker c = start("one", 0, NULL);
    assert_int_equal(look(&c, "t"), CLAIM_FREE); // the success has wiped it out
    end(&c);
}

static void the_task_of_a_killed_process_is_lost_for_this_run_only(void **state) {
    (void)state;
    char why[1300];
    worker a = start("one", 0, NULL);
    take_and_die("one", "t", NULL);
    assert_int_equal(take(&a, "t"), CLAIM_LOST);
    assert_non_null(strstr(claims_why(a.c, "t", why, sizeof why), "worker 7 ended"));
    worker b = start("two", 0, NULL);
    assert_int_equal(take(&b, "t"), CLAIM_OURS);
    end(&b);
    alive_sweep(a.a);
    end(&a);
    assert_int_equal(access(folder, F_OK), -1);
}

// No process table reaches another machine: only silence tells.
static void a_process_of_another_machine_is_dead_when_it_is_silent(void **state) {
    (void)state;
    worker a = start("one", 0, NULL), far = start("one", 1, "elsewhere");
    assert_int_equal(take(&far, "held"), CLAIM_OURS);
    take_and_die("one", "t", "faraway");
    double began = files_seconds();
    while (look(&a, "t") == CLAIM_WORKING && files_seconds() - began < 10)
        nap(0.02);
    assert_int_equal(look(&a, "t"), CLAIM_LOST);
    printf("    measured: told dead after %.2f s of silence (0.33 allowed)\n",
           files_seconds() - began);
    assert_true(files_seconds() - began >= 0.33);
    assert_int_equal(look(&a, "held"), CLAIM_WORKING); // it beats
    nap(0.5);
    assert_int_equal(look(&a, "held"), CLAIM_WORKING);
    end(&far);
    assert_int_equal(look(&a, "held"), CLAIM_FREE);
    end(&a);
}

// A process that died between creating and writing its claim.
static void an_empty_claim_is_watched_and_then_free(void **state) {
    (void)state;
    worker a = start("one", 0, NULL);
    char path[620];
    snprintf(path, sizeof path, "%s/t.claim", folder);
    files_write(path, "", 0);
    assert_int_equal(take(&a, "t"), CLAIM_WORKING);
    nap(0.5);
    assert_int_equal(take(&a, "t"), CLAIM_OURS);
    end(&a);
}

static void the_lowest_living_rank_is_first(void **state) {
    (void)state;
    err e = {0};
    bool first = false;
    worker two = start("one", 2, "elsewhere"), other_run = start("two", 0, "third");
    assert_true(alive_first(two.a, &first, &e));
    assert_true(first);
    worker one = start("one", 1, "fourth");
    assert_true(alive_first(two.a, &first, &e));
    assert_false(first);
    assert_true(alive_first(one.a, &first, &e));
    assert_true(first);
    end(&one);
    assert_true(alive_first(two.a, &first, &e));
    assert_true(first);
    end(&other_run);
    end(&two);
}

// Many processes, each killed now and then: every task is done at least once, and none is done twice
// by two that live.
static void a_crowd_does_every_task_once(void **state) {
    (void)state;
    enum { CROWD = 8, TASKS = 60 };
    files_mkdir(folder); // the results' folder; claims lie in one below
    char results[512];
    snprintf(results, sizeof results, "%.500s", folder);
    snprintf(folder, sizeof folder, "%s/claims", results);
    for (int i = 0; i < CROWD; i++) {
        if (fork() != 0)
            continue;
        worker w = start("one", i, NULL);
        for (int t = 0; t < TASKS; t++) {
            char task[32], path[600];
            snprintf(task, sizeof task, "task-%d", t);
            snprintf(path, sizeof path, "%s/%s", results, task);
            if (access(path, F_OK) == 0 || take(&w, task) != CLAIM_OURS)
                continue;
            if (access(path, F_OK) != 0) {
                if (i == 3 && t > 20)
                    raise(SIGKILL);
                nap(0.002);
                FILE *f = fopen(path, "a");
                fprintf(f, "%d\n", i);
                fclose(f);
            }
            err e = {0};
            claims_done(w.c, task, &e);
        }
        end(&w);
        _exit(0);
    }
    int status, killed = 0;
    for (int i = 0; i < CROWD; i++) {
        wait(&status);
        killed += WIFSIGNALED(status);
    }
    worker w = start("one", 0, NULL);
    int missing = 0, lost = 0;
    for (int t = 0; t < TASKS; t++) {
        char task[32], path[600];
        snprintf(task, sizeof task, "task-%d", t);
        snprintf(path, sizeof path, "%s/%s", results, task);
        if (access(path, F_OK) != 0) {
            missing++;
            lost += look(&w, task) == CLAIM_LOST;
            continue;
        }
        size_t n;
        char *text = files_read(path, &n);
        assert_int_equal(n, 2); // one line of one process
        free(text);
    }
    end(&w);
    printf("    measured: %d tasks, %d processes killed, %d missing, %d of them known as lost\n",
           TASKS, killed, missing, lost);
    assert_int_equal(missing, killed);
    assert_int_equal(lost, missing);
}

// What a signal handler does when there is no time for more; a forked child leaves its parent's alone.
static void a_process_takes_its_own_file_away_at_once(void **state) {
    (void)state;
    worker a = start("one", 0, "elsewhere");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alive_remove_all();
        _exit(access(folder, F_OK) != 0);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    alive_remove_all();
    assert_int_equal(access(folder, F_OK), -1);
    end(&a);
}

static void a_folder_that_cannot_be_made_is_an_error(void **state) {
    (void)state;
    err e = {0};
    alive_about about = {.folder = "/dev/null/x", .run = "r", .who = "w"};
    assert_null(alive_open(&about, &e));
    files_assert_error(&e, ERR_IO, "cannot create folder /dev/null/x: Not a directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_task_is_one_process_s_and_is_given_back, fresh),
        cmocka_unit_test_setup(a_failure_counts_in_its_run_and_no_longer, fresh),
        cmocka_unit_test_setup(the_task_of_a_killed_process_is_lost_for_this_run_only, fresh),
        cmocka_unit_test_setup(a_process_of_another_machine_is_dead_when_it_is_silent, fresh),
        cmocka_unit_test_setup(an_empty_claim_is_watched_and_then_free, fresh),
        cmocka_unit_test_setup(the_lowest_living_rank_is_first, fresh),
        cmocka_unit_test_setup(a_crowd_does_every_task_once, fresh),
        cmocka_unit_test_setup(a_process_takes_its_own_file_away_at_once, fresh),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
