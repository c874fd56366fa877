// B100 for every command: folders that take no files, and disks that are full after so many bytes.
#include "core/npy.h"
#include "tests/files.h"
#include "tests/run.h"

#include <ftw.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "examples/small-deltaproduct2"
#define TEXT  "examples/text_kjv.txt"

enum { MAX_WORDS = 12 };

static const char *const commands[][MAX_WORDS] = {
    {"inspect", MODEL},
    {"tokens", MODEL, TEXT, "--length", "64"},
    {"loss", MODEL, TEXT, "--length", "64"},
    {"erank", MODEL, TEXT, "--length", "64"},
    {"spectrum", MODEL, TEXT, "--length", "64"},
    {"parity", "tests/cases/golden/deltaproduct2-odd-dims", "--precision", "f64"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static run with_out(int command, const char *out) {
    const char *argv[MAX_WORDS + 3] = {NULL};
    int n = 0;
    for (; n < MAX_WORDS && commands[command][n]; n++)
        argv[n] = commands[command][n];
    argv[n++] = "--out";
    argv[n] = out;
    run r = {.argv = argv, .timeout = 60};
    assert_true(run_program(&r));
    r.argv = NULL;
    return r;
}

static void fails_with(int command, const char *out, const char *part) {
    run r = with_out(command, out);
    if (r.code != 1 || !strstr(r.err, part))
        fail_msg("%s: exit code %d, \"%s\" should hold \"%s\"", commands[command][0], r.code, r.err,
                 part);
    run_free(&r);
}

static void B100_a_folder_that_cannot_be_made_is_named_by_every_command(void **state) {
    (void)state;
    const char *file = files_path("file"), *inside = files_path("file/out");
    const char *locked = files_path("locked"), *deeper = files_path("locked/out");
    files_text(file, "x");
    files_mkdir(locked);
    // Root writes everywhere, but not into the kernel's own files.
    bool root = geteuid() == 0, kernel = access("/sys/kernel", X_OK) == 0;
    assert_int_equal(chmod(locked, 0500), 0);
    if (root && !kernel)
        printf("SKIP: no folder that root may not write\n");
    for (int i = 0; i < COMMANDS; i++) {
        fails_with(i, file, "is a file");
        fails_with(i, inside, "is a file");
        if (root && !kernel)
            continue;
        fails_with(i, root ? "/sys/kernel/deltop-out" : deeper, "cannot create folder");
        // A folder that is there is found wanting as well, in whatever words the system has.
        fails_with(i, root ? "/sys/kernel" : locked, root ? "/sys/kernel" : "cannot write into");
    }
    assert_int_equal(chmod(locked, 0700), 0);
}

static int seen, temporary;

// A file that is there is whole.
static int whole(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)at;
    if (type != FTW_F)
        return 0;
    seen++;
    temporary += strstr(path, ".tmp") != NULL;
    const char *end = strrchr(path, '.');
    size_t n = 0;
    char *text = files_read(path, &n);
    assert_int_equal(n, st->st_size);
    assert_true(n > 0 && end);
    if (strcmp(end, ".json") == 0) {
        json_t *v = json_loads(text, 0, NULL);
        if (!v)
            fail_msg("%s is half a file", path);
        json_decref(v);
    } else if (strcmp(end, ".npy") == 0) {
        npy a;
        err e = {0};
        if (!npy_read(path, &a, &e))
            fail_msg("%s", e.text);
        npy_free(&a);
    } else if (strcmp(end, ".png") == 0) {
        assert_true(n > 20 && memcmp(text, "\x89PNG", 4) == 0);
        assert_memory_equal(text + n - 8, "IEND", 4);
    } else if (strcmp(end, ".csv") == 0) {
        assert_int_equal(text[n - 1], '\n');
    }
    free(text);
    return 0;
}

// The limit on file sizes stands for a disk with so many bytes left.
static void B100_a_full_disk_leaves_whole_files_or_none(void **state) {
    (void)state;
    static const rlim_t room[] = {16, 700, 9000, 40000};
    enum { ROOMS = sizeof room / sizeof *room };
    int failed = 0;
    for (int i = 0; i < COMMANDS; i++)
        for (int k = 0; k < ROOMS; k++) {
            const char *out = files_path("full-%d-%d", i, k);
            struct rlimit old, small;
            getrlimit(RLIMIT_FSIZE, &old);
            small = old;
            small.rlim_cur = room[k];
            setrlimit(RLIMIT_FSIZE, &small);
            run r = with_out(i, out);
            setrlimit(RLIMIT_FSIZE, &old);
            if (r.code != 0 && (r.code != 1 || !strstr(r.err, ": cannot write: File too large")))
                fail_msg("%s with %d bytes: exit code %d, signal %d, \"%s\"", commands[i][0],
                         (int)room[k], r.code, r.ended_by, r.err);
            failed += r.code == 1;
            seen = temporary = 0;
            nftw(out, whole, 16, FTW_PHYS);
            assert_int_equal(temporary, 0);
            if (k == 0) {
                assert_int_equal(r.code, 1);
                assert_int_equal(seen, 0);
            }
            run_free(&r);
        }
    assert_true(failed > COMMANDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(B100_a_folder_that_cannot_be_made_is_named_by_every_command),
        cmocka_unit_test(B100_a_full_disk_leaves_whole_files_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
