#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool err_set(err *e, err_code code, const char *fmt, ...) {
    if (!e || e->code != ERR_NONE)
        return false;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return false;
}

bool err_prefix(err *e, const char *fmt, ...) {
    if (!e || e->code == ERR_NONE)
        return false;
    char where[sizeof e->text], whole[2 * sizeof e->text + 4];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(where, sizeof where, fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof whole, "%s: %s", where, e->text);
    snprintf(e->text, sizeof e->text, "%.*s", (int)sizeof e->text - 1, whole);
    return false;
}

void err_clear(err *e) {
    e->code = ERR_NONE;
    e->text[0] = 0;
}

const char *err_system(int number) {
    return number == ENOENT ? "no such file or folder" : strerror(number);
}
