#include "analyses/facts_read.h"

#include "core/file.h"
#include "core/jsonio.h"
#include "core/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_LINE = 1 << 20 };

// One line that is being read; the first complaint counts.
typedef struct line {
    const char *path;
    long number;
    json_t *v;
    err *e;
    bool ok;
} line;

static void wrong(line *l, const char *key, const char *need) {
    char shown[80];
    json_t *v = json_object_get(l->v, key);
    if (l->ok)
        err_set(l->e, ERR_INPUT, "%s, line %ld: \"%s\" is %s, need %s", text_show(l->path),
                l->number, key, v ? jsonio_show(v, shown, sizeof shown) : "absent", need);
    l->ok = false;
}

static char *text(line *l, const char *key, bool needed) {
    json_t *v = json_object_get(l->v, key);
    if (v ? !json_is_string(v) : needed)
        wrong(l, key, "a string");
    else if (needed && !json_string_value(v)[0])
        wrong(l, key, "a string that is not empty");
    return v && json_is_string(v) ? (char *)json_string_value(v) : "";
}

static double real(line *l, const char *key, bool needed) {
    json_t *v = json_object_get(l->v, key);
    if (v ? !json_is_number(v) && !json_is_null(v) : needed)
        wrong(l, key, "a number or null");
    return v && json_is_number(v) ? json_number_value(v) : NAN;
}

static int64_t count(line *l, const char *key, int64_t most) {
    json_t *v = json_object_get(l->v, key);
    if (!v)
        return FACT_NONE;
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    if (n < 0 || n > most)
        wrong(l, key, "a whole number from 0 on");
    return n;
}

static bool add_line(const char *path, long number, const char *s, size_t n, facts *f, err *e) {
    char what[48];
    snprintf(what, sizeof what, "line %ld", number);
    line l = {.path = path, .number = number, .e = e, .ok = true};
    if (memchr(s, 0, n))
        return err_set(e, ERR_INPUT, "%s, line %ld: holds a NUL byte", text_show(path), number);
    l.v = jsonio_parse(s, n, path, what, e);
    if (!l.v)
        return false;
    if (json_is_object(l.v)) {
        fact one = {.name = text(&l, "name", true),
                    .value = real(&l, "value", true),
                    .lo = real(&l, "lo", false),
                    .hi = real(&l, "hi", false),
                    .unit = text(&l, "unit", false),
                    .model = text(&l, "model", true),
                    .document = text(&l, "document", false),
                    .layer = (int)count(&l, "layer", INT_MAX),
                    .head = (int)count(&l, "head", INT_MAX),
                    .position = count(&l, "position", INT64_MAX),
                    .row = count(&l, "row", INT64_MAX),
                    .how = text(&l, "how", false)};
        if (one.head >= 0 && one.layer < 0)
            wrong(&l, "layer", "a number beside \"head\"");
        l.ok = l.ok && facts_add(f, &one, e);
    } else {
        l.ok =
            err_set(e, ERR_INPUT, "%s, line %ld: is %s, need an object: is this a results.jsonl?",
                    text_show(path), number, jsonio_kind(l.v));
    }
    json_decref(l.v);
    return l.ok;
}

bool facts_read(const char *path, facts *f, err *e) {
    size_t bytes = 0, room = 0;
    char *s = NULL;
    bool ok = true;
    int fd = file_open(path, &bytes, e);
    if (fd < 0)
        return false;
    FILE *in = fdopen(fd, "r");
    if (!in) {
        close(fd);
        return err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(errno));
    }
    for (long number = 1; ok; number++) {
        errno = 0;
        ssize_t n = getline(&s, &room, in);
        if (n < 0)
            break;
        size_t skip = number == 1 && n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r'))
            s[--n] = 0;
        if (n > LONGEST_LINE)
            ok = err_set(e, ERR_INPUT, "%s, line %ld: has %zd bytes, at most %d are read",
                         text_show(path), number, n, LONGEST_LINE);
        else if (strspn(s + skip, " \t") + skip < (size_t)n)
            ok = add_line(path, number, s + skip, (size_t)n - skip, f, e);
    }
    if (ok && !feof(in))
        ok = err_set(e, errno == ENOMEM ? ERR_NOMEM : ERR_IO, "%s: %s", text_show(path),
                     err_system(errno));
    free(s);
    fclose(in);
    return ok;
}

bool facts_read_at(const char *path, facts *f, err *e) {
    char *inner = file_is_folder(path) ? file_join(path, "results.jsonl", e) : NULL;
    bool ok = (inner || !file_is_folder(path)) && facts_read(inner ? inner : path, f, e);
    free(inner);
    return ok;
}
