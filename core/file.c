#include "core/file.h"

#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int file_open(const char *path, size_t *size, err *e) {
    // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        err_set(e, errno == ENOENT || errno == ENOTDIR ? ERR_MISSING : ERR_IO, "%s: %s",
                text_show(path), err_system(errno));
        return -1;
    }
    struct stat st;
    const char *kind = NULL;
    if (fstat(fd, &st) != 0)
        err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(errno));
    else if (S_ISDIR(st.st_mode))
        kind = "is a folder, need a file";
    else if (S_ISFIFO(st.st_mode))
        kind = "is a pipe, need a regular file";
    else if (!S_ISREG(st.st_mode))
        kind = "is a device or socket, need a regular file";
    else {
        *size = (size_t)st.st_size;
        return fd;
    }
    if (kind)
        err_set(e, ERR_INPUT, "%s: %s", text_show(path), kind);
    close(fd);
    return -1;
}

char *file_read_fd(int fd, const char *name, size_t max, size_t *n, err *e) {
    char *text = NULL;
    size_t cap = 0, used = 0;
    struct stat st;
    // A regular file is read in one piece; the spare byte finds its end without growing.
    size_t guess = 65536;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        guess = (size_t)st.st_size + 2;
    if (guess > max && max < SIZE_MAX - 2)
        guess = max + 2;
    if (!mem_grow((void **)&text, &cap, guess, 1, name, e))
        return NULL;
    for (;;) {
        if (cap - used < 2 && !mem_grow((void **)&text, &cap, used + 65536, 1, name, e))
            goto fail;
        ssize_t got = read(fd, text + used, cap - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            err_set(e, ERR_IO, "%s: %s", text_show(name), err_system(errno));
            goto fail;
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > max) {
            err_set(e, ERR_INPUT, "%s: more than %zu bytes", text_show(name), max);
            goto fail;
        }
    }
    text[used] = 0;
    *n = used;
    return text;
fail:
    free(text);
    return NULL;
}

char *file_read(const char *path, size_t max, size_t *n, err *e) {
    size_t size = 0;
    int fd = file_open(path, &size, e);
    if (fd < 0)
        return NULL;
    char *text = file_read_fd(fd, path, max, n, e);
    close(fd);
    return text;
}

bool file_read_at(int fd, const char *name, size_t offset, void *dst, size_t n, err *e) {
    char *p = dst;
    while (n > 0) {
        ssize_t got = pread(fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(e, ERR_IO, "%s: %s", text_show(name), err_system(errno));
        if (got == 0)
            return err_set(e, ERR_IO, "%s: file ends %zu bytes too early", text_show(name), n);
        p += got, n -= (size_t)got, offset += (size_t)got;
    }
    return true;
}

bool file_is_endless(int fd) {
    struct stat st, null;
    if (fstat(fd, &st) != 0 || !(S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) || isatty(fd))
        return false;
    return stat("/dev/null", &null) != 0 || null.st_rdev != st.st_rdev;
}

bool file_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

char *file_join(const char *folder, const char *name, err *e) {
    size_t a = strlen(folder), b = strlen(name);
    char *p = mem_alloc(a + b + 2, 1, "a path", e);
    if (!p)
        return NULL;
    memcpy(p, folder, a);
    if (a > 0 && p[a - 1] != '/')
        p[a++] = '/';
    memcpy(p + a, name, b + 1);
    return p;
}

// Where the last part of PATH begins and ends, trailing slashes left out.
static void last_part(const char *path, size_t *begin, size_t *end) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t b = n;
    while (b > 0 && path[b - 1] != '/')
        b--;
    *begin = b, *end = n;
}

char *file_base(const char *path, char *buf, size_t size) {
    size_t b, n;
    last_part(path, &b, &n);
    n -= b;
    if (size == 0)
        return buf;
    if (n >= size)
        n = size - 1;
    memcpy(buf, path + b, n);
    buf[n] = 0;
    return buf;
}

char *file_folder(const char *path, err *e) {
    size_t b, n;
    last_part(path, &b, &n);
    while (b > 1 && path[b - 1] == '/')
        b--;
    if (b == 0)
        return mem_strdup(".", e);
    char *p = mem_alloc(b + 1, 1, "a path", e);
    if (p) {
        memcpy(p, path, b);
        p[b] = 0;
    }
    return p;
}

bool file_ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && memcmp(s + n - m, end, m) == 0;
}

bool file_temporary_folder(const char *prefix, char *path, size_t size, err *e) {
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(path, size, "%s/%sXXXXXX", tmp && *tmp ? tmp : "/tmp", prefix);
    bool fits = n >= 0 && (size_t)n < size;
    if (fits && mkdtemp(path))
        return true;
    err_set(e, ERR_IO, "%s: no temporary folder: %s", path,
            err_system(fits ? errno : ENAMETOOLONG));
    path[0] = 0;
    return false;
}
