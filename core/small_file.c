#include "core/small_file.h"

#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool small_file_path(const char *folder, const char *name, const char *end, char *buf, size_t size,
                     err *e) {
    int n = snprintf(buf, size, "%s/%s%s", folder, name, end);
    return (n > 0 && (size_t)n < size) || err_set(e, ERR_INPUT, "%s: the path of %s%s is too long",
                                                  text_show(folder), text_show(name), end);
}

bool small_file_read(const char *path, char *buf, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC); // opening asks a network file system for news
    buf[0] = 0;
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, size - 1);
    close(fd);
    buf[n > 0 ? n : 0] = 0;
    return n >= 0;
}

bool small_file_line(const char *text, int i, char *buf, size_t size) {
    for (; i > 0 && text; i--) {
        text = strchr(text, '\n');
        text += text != NULL;
    }
    const char *end = text ? strchr(text, '\n') : NULL;
    if (!end)
        return false;
    snprintf(buf, size, "%.*s", (int)(end - text), text);
    return true;
}

bool small_file_write(const char *path, int flags, const char *text, err *e) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    if (fd < 0)
        return flags & O_EXCL && errno == EEXIST
                   ? false
                   : err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(errno));
    size_t n = strlen(text);
    bool ok = write(fd, text, n) == (ssize_t)n;
    int why = ok ? 0 : errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (!ok)
        unlink(path);
    return ok || err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(why));
}
