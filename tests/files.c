#include "tests/files.h"

#include <dirent.h>
#include <ftw.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[512];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type;
    return at->level == 0 ? 0 : remove(path);
}

void files_clear(void) {
    if (folder[0])
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int files_cleared(void **state) {
    (void)state;
    files_clear();
    return 0;
}

static pid_t owner;

static void at_end(void) {
    if (getpid() != owner)
        return;
    files_clear();
    rmdir(folder);
}

const char *files_folder(void) {
    if (!folder[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/deltop-test-XXXXXX", tmp && *tmp ? tmp : "build");
        if (!tmp || !*tmp)
            mkdir("build", 0777);
        if (!mkdtemp(folder)) {
            perror(folder);
            exit(1);
        }
        owner = getpid();
        atexit(at_end);
    }
    return folder;
}

const char *files_path(const char *fmt, ...) {
    static char ring[16][1024];
    static unsigned next;
    char *buf = ring[next++ % 16], name[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    snprintf(buf, sizeof ring[0], "%s/%s", files_folder(), name);
    return buf;
}

void files_mkdir(const char *path) {
    if (mkdir(path, 0777) != 0)
        fail_msg("cannot make %s", path);
}

void files_write(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        fail_msg("cannot write %s", path);
}

void files_text(const char *path, const char *text) {
    files_write(path, text, strlen(text));
}

void files_safetensors(const char *path, const char *header, const void *data, size_t n) {
    uint64_t length = strlen(header);
    FILE *f = fopen(path, "wb");
    bool ok = f != NULL;
    for (int i = 0; ok && i < 8; i++)
        ok = fputc((int)(length >> 8 * i & 0xff), f) != EOF;
    ok = ok && fwrite(header, 1, length, f) == length && fwrite(data, 1, n, f) == n;
    if (!ok || fclose(f) != 0)
        fail_msg("cannot write %s", path);
}

char *files_read(const char *path, size_t *n) {
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0)
        fail_msg("cannot read %s", path);
    char *p = malloc((size_t)st.st_size + 1);
    *n = fread(p, 1, (size_t)st.st_size, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

int files_count(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *x; d && (x = readdir(d));)
        n += strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

const char *files_shared(const char *name) {
    static char ring[8][1024];
    static unsigned next;
    char *buf = ring[next++ % 8];
    const char *root = getenv("DELTOP_SHARED");
    snprintf(buf, sizeof ring[0], "%s/%s", root && *root ? root : "../shared", name);
    if (access(buf, R_OK) == 0)
        return buf;
    printf("SKIP: no reference data at %s\n", buf);
    return NULL;
}

void files_assert_error(const err *e, err_code code, const char *fmt, ...) {
    char want[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(want, sizeof want, fmt, ap);
    va_end(ap);
    assert_string_equal(e->text, want);
    assert_int_equal(e->code, code);
}

void files_assert_error_holds(const err *e, err_code code, const char *part) {
    if (!strstr(e->text, part))
        fail_msg("\"%s\" does not hold \"%s\"", e->text, part);
    assert_int_equal(e->code, code);
}

static long json_countdown;

static void *json_alloc(size_t n) {
    if (json_countdown == 1)
        return NULL;
    if (json_countdown > 1)
        json_countdown--;
    return malloc(n);
}

void files_json_fail_after(long n) {
    json_set_alloc_funcs(json_alloc, free);
    json_countdown = n;
}

double files_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
