// B100: files appear whole or not at all, whatever goes wrong.

#include "core/mem.h"
#include "core/outfile.h"
#include "tests/files.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void holds(const char *path, const char *want) {
    size_t n;
    char *got = files_read(path, &n);
    assert_string_equal(got, want);
    assert_int_equal(n, strlen(want));
    free(got);
}

static void nothing_is_seen_before_the_commit(void **state) {
    (void)state;
    const char *path = files_path("a.txt");
    err e = {0};
    files_text(path, "old");
    outfile *o = outfile_open(path, &e);
    assert_non_null(o);
    assert_string_equal(outfile_path(o), path);
    assert_true(outfile_write(o, "new ", 4, &e));
    fprintf(outfile_stream(o), "%d", 42);
    holds(path, "old");
    assert_int_equal(files_count(files_folder()), 2); // the temporary, in the same folder
    assert_true(outfile_commit(o, &e));
    holds(path, "new 42");
    outfile_close(o);
    holds(path, "new 42");
    assert_int_equal(files_count(files_folder()), 1);
}

static void a_file_that_is_given_up_leaves_nothing(void **state) {
    (void)state;
    const char *path = files_path("a.txt");
    err e = {0};
    outfile *o = outfile_open(path, &e);
    assert_true(outfile_write(o, "x", 1, &e));
    outfile_close(o);
    outfile_close(NULL);
    assert_int_equal(files_count(files_folder()), 0);
}

static void a_second_commit_is_an_error(void **state) {
    (void)state;
    const char *path = files_path("a.txt");
    err e = {0};
    outfile *o = outfile_open(path, &e);
    assert_true(outfile_commit(o, &e));
    assert_false(outfile_commit(o, &e));
    files_assert_error(&e, ERR_IO, "%s: is finished already", path);
    outfile_close(o);
    holds(path, "");
}

static void refused(const char *path, const char *want) {
    err e = {0};
    assert_null(outfile_open(path, &e));
    files_assert_error(&e, ERR_IO, "%s: %s", path, want);
}

static void places_where_no_file_can_be_are_named(void **state) {
    (void)state;
    files_mkdir(files_path("dir"));
    files_text(files_path("plain"), "");
    refused(files_path("dir"), "is a folder, cannot write a file there");
    refused(files_path("plain/x"), "cannot write: Not a directory");
    refused(files_path("absent/x"), "cannot write: no such file or folder");
    refused("/dev/full", "is a device or pipe, only regular files are written");
    refused("/proc/deltop-test", "cannot write: no such file or folder");
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    refused(files_path("%s", name), "cannot write: File name too long");
    err e = {0};
    assert_null(outfile_open("", &e));
    files_assert_error(&e, ERR_IO, "cannot write a file without a name");
}

static void a_folder_that_may_not_be_written_is_named(void **state) {
    (void)state;
    const char *dir = files_path("locked"), *path = files_path("locked/x");
    files_mkdir(dir);
    assert_int_equal(chmod(dir, 0500), 0);
    if (geteuid() == 0) {
        print_message("SKIP: root may write everywhere\n");
        skip();
    }
    refused(path, "cannot write: Permission denied");
}

// A disk that is full: the limit on file sizes answers as ENOSPC would, with its own reason.
static void a_disk_that_is_full_is_an_error_and_the_old_file_stays(void **state) {
    (void)state;
    const char *path = files_path("a.txt");
    char *big = calloc(1, 200000);
    struct rlimit old, small;
    files_text(path, "old");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 65536;
    setrlimit(RLIMIT_FSIZE, &small);
    err e = {0}, e2 = {0};
    bool ok = outfile_save(path, big, 200000, &e);
    // Through the stream the failure is only seen at the end.
    outfile *o = outfile_open(path, &e2);
    for (int i = 0; i < 20; i++)
        fwrite(big, 1, 10000, outfile_stream(o));
    bool ok2 = outfile_commit(o, &e2);
    outfile_close(o);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    free(big);
    assert_false(ok);
    assert_false(ok2);
    files_assert_error(&e, ERR_IO, "%s: cannot write: %s", path, strerror(EFBIG));
    files_assert_error_holds(&e2, ERR_IO, "cannot write: ");
    holds(path, "old");
    assert_int_equal(files_count(files_folder()), 1);
}

static void a_name_is_written_by_one_at_a_time(void **state) {
    (void)state;
    const char *path = files_path("a.txt");
    err e = {0};
    outfile *o = outfile_open(path, &e);
    refused(path, "is being written already");
    assert_true(outfile_write(o, "x", 1, &e)); // the first one is not disturbed
    assert_true(outfile_commit(o, &e));
    outfile_close(o);
    holds(path, "x");
    assert_true(outfile_save(path, "y", 1, &e));
    holds(path, "y");
}

static void what_a_killed_process_left_is_in_nobodys_way(void **state) {
    (void)state;
    char stale[1024];
    const char *path = files_path("a.txt");
    snprintf(stale, sizeof stale, "%s.tmp.%ld", path, (long)getpid());
    files_text(stale, "rest of something");
    err e = {0};
    assert_true(outfile_save(path, "x", 1, &e));
    holds(path, "x");
    assert_int_equal(files_count(files_folder()), 1);
}

static void there_is_a_limit_and_it_is_said(void **state) {
    (void)state;
    outfile *o[OUTFILE_MAX];
    err e = {0};
    for (int i = 0; i < OUTFILE_MAX; i++)
        assert_non_null(o[i] = outfile_open(files_path("f%d", i), &e));
    refused(files_path("one-more"), "32 files are being written already");
    outfile_close(o[3]);
    assert_true(outfile_save(files_path("one-more"), "x", 1, &e));
    for (int i = 0; i < OUTFILE_MAX; i++)
        if (i != 3)
            outfile_close(o[i]);
    assert_int_equal(files_count(files_folder()), 1);
}

static void all_that_is_unfinished_can_be_removed_at_once(void **state) {
    (void)state;
    err e = {0};
    outfile *a = outfile_open(files_path("a"), &e), *b = outfile_open(files_path("b"), &e);
    assert_true(outfile_commit(b, &e));
    pid_t child = fork(); // a child leaves its parent's files alone
    if (child == 0) {
        outfile_remove_all();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(files_count(files_folder()), 2);
    outfile_remove_all();
    assert_int_equal(files_count(files_folder()), 1); // b is finished and stays
    assert_false(outfile_commit(a, &e));
    files_assert_error(&e, ERR_IO, "%s: cannot write: no such file or folder", files_path("a"));
    outfile_close(a);
    outfile_close(b);
    outfile_remove_all();
    assert_int_equal(files_count(files_folder()), 1);
}

static void on_term(int sig) {
    (void)sig;
    outfile_remove_all();
    _exit(128 + SIGTERM);
}

static void a_signal_handler_can_clean_up(void **state) {
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        err e = {0};
        signal(SIGTERM, on_term);
        outfile *o = outfile_open(files_path("a"), &e);
        fprintf(outfile_stream(o), "half of it");
        fflush(outfile_stream(o));
        if (write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    char c;
    int status;
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(files_count(files_folder()), 1);
    kill(child, SIGTERM);
    waitpid(child, &status, 0);
    close(ready[0]), close(ready[1]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
    assert_int_equal(files_count(files_folder()), 0);
}

static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    bool done = false;
    for (long n = 1; !done; n++) {
        err e = {0};
        mem_fail_after(n);
        done = outfile_save(files_path("a"), "x", 1, &e);
        mem_fail_after(0);
        if (!done) {
            assert_int_equal(e.code, ERR_NOMEM);
            assert_int_equal(files_count(files_folder()), 0);
        }
    }
}

static int clean(void **state) {
    (void)state;
    files_clear();
    return 0;
}

#define CASE(f) cmocka_unit_test_teardown(f, clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(nothing_is_seen_before_the_commit),
        CASE(a_file_that_is_given_up_leaves_nothing),
        CASE(a_second_commit_is_an_error),
        CASE(places_where_no_file_can_be_are_named),
        CASE(a_folder_that_may_not_be_written_is_named),
        CASE(a_disk_that_is_full_is_an_error_and_the_old_file_stays),
        CASE(a_name_is_written_by_one_at_a_time),
        CASE(what_a_killed_process_left_is_in_nobodys_way),
        CASE(there_is_a_limit_and_it_is_said),
        CASE(all_that_is_unfinished_can_be_removed_at_once),
        CASE(a_signal_handler_can_clean_up),
        CASE(running_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
