#include "cli/output.h"

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/signals.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

// Why a write to standard output failed, when it was noticed before the final flush.
static int stdout_reason;

struct output {
    const options *o;
    const backend *be;        // NULL: nothing said
    bool nested;              // also when there is one model and one document
    char **model, **document; // names
    char **file;              // written so far
    size_t n_files, cap_files;
};

void output_always_nested(output *x) {
    x->nested = true;
}

bool output_is_flat(const output *x) {
    return !x->nested && x->o->n_models <= 1 && x->o->n_documents <= 1;
}

void output_ran_on(output *x, const backend *be) {
    x->be = be;
}

bool output_make_folder(const char *path, err *e) {
    char *p = mem_strdup(path, e);
    if (!p)
        return false;
    bool ok = true;
    for (char *c = p + 1; ok; c++) {
        if (*c != '/' && *c)
            continue;
        char kept = *c;
        *c = 0;
        struct stat st;
        // An existing part may lie in a folder that we cannot write: ask before making it.
        if (stat(p, &st) != 0) {
            if (mkdir(p, 0777) != 0 && errno != EEXIST)
                ok = err_set(e, ERR_IO, "cannot create folder %s: %s", text_show(p),
                             err_system(errno));
        } else if (!S_ISDIR(st.st_mode)) {
            ok = err_set(e, ERR_IO, "cannot create folder %s: %s is a file", text_show(path),
                         text_show(p));
        }
        *c = kept;
        if (!kept)
            break;
    }
    free(p);
    return ok;
}

output *output_open(const options *o, err *e) {
    output *x = mem_zalloc(1, sizeof *x, "the output", e);
    if (!x)
        return NULL;
    x->o = o;
    x->model = names_of_paths(o->model, o->n_models, e);
    x->document = names_of_paths(o->document, o->n_documents, e);
    bool ok = x->model && x->document && (!o->out || output_make_folder(o->out, e));
    // Before hours of work, not after them.
    if (ok && o->out && access(o->out, W_OK | X_OK) != 0)
        ok = err_set(e, ERR_IO, "cannot write into folder %s: %s", text_show(o->out),
                     err_system(errno));
    if (!ok) {
        output_free(x);
        return NULL;
    }
    return x;
}

void output_free(output *x) {
    if (!x)
        return;
    names_free(x->model, x->o->n_models);
    names_free(x->document, x->o->n_documents);
    for (size_t i = 0; i < x->n_files; i++)
        free(x->file[i]);
    free(x->file);
    free(x);
}

const char *output_model(const output *x, size_t i) {
    return x->model[i];
}

const char *output_document(const output *x, size_t i) {
    return x->document[i];
}

bool output_wants_files(const output *x) {
    return x->o->out != NULL;
}

static char *join(err *e, const char *a, const char *b, const char *c, const char *d) {
    const char *part[] = {a, b, c, d};
    size_t n = 1, at = 0;
    for (int i = 0; i < 4; i++)
        n += part[i] ? strlen(part[i]) + 1 : 0;
    char *p = mem_alloc(n, 1, "a path", e);
    if (!p)
        return NULL;
    p[0] = 0;
    for (int i = 0; i < 4; i++)
        if (part[i])
            at += (size_t)snprintf(p + at, n - at, "%s%s", at && p[at - 1] != '/' ? "/" : "",
                                   part[i]);
    return p;
}

char *output_path(const output *x, const char *name, err *e) {
    return x->o->out ? join(e, x->o->out, name, NULL, NULL) : NULL;
}

char *output_array_path(const output *x, size_t model, size_t document, const char *name, err *e) {
    const options *o = x->o;
    if (!o->out)
        return NULL;
    if (output_is_flat(x))
        return output_path(x, name, e);
    const char *m = model == OUTPUT_NONE ? NULL : x->model[model];
    const char *d = document == OUTPUT_NONE ? NULL : x->document[document];
    char *folder = join(e, o->out, m ? m : d, m ? d : NULL, NULL);
    char *p = folder && output_make_folder(folder, e) ? join(e, folder, name, NULL, NULL) : NULL;
    free(folder);
    return p;
}

bool output_wrote(output *x, const char *path, err *e) {
    if (!mem_grow((void **)&x->file, &x->cap_files, x->n_files + 1, sizeof *x->file,
                  "the list of files", e))
        return false;
    char *p = mem_strdup(path, e);
    if (!p)
        return false;
    x->file[x->n_files++] = p;
    return true;
}

void output_print(const output *x, const char *fmt, ...) {
    if (x->o->json)
        return;
    va_list ap;
    va_start(ap, fmt);
    if (vprintf(fmt, ap) < 0 && !stdout_reason)
        stdout_reason = errno;
    va_end(ap);
}

static int to_stream(const char *text, size_t n, void *f) {
    return !signals_caught() && fwrite(text, 1, n, f) == n ? 0 : -1;
}

// A line for every member at the top, what lies below on that line: readable, and a curve of a
// million numbers is no million lines.
static bool dump_lines(const json_t *v, FILE *f) {
    if (!json_is_object(v))
        return json_dump_callback(v, to_stream, f, JSON_ENCODE_ANY) == 0 && fputc('\n', f) != EOF;
    const char *key, *before = "{\n ";
    json_t *member;
    json_object_foreach((json_t *)v, key, member) {
        json_t *name = json_string(key);
        bool ok = name && fputs(before, f) != EOF &&
                  json_dump_callback(name, to_stream, f, JSON_ENCODE_ANY) == 0 &&
                  fputs(": ", f) != EOF &&
                  json_dump_callback(member, to_stream, f, JSON_ENCODE_ANY) == 0;
        json_decref(name);
        if (!ok)
            return false;
        before = ",\n ";
    }
    return fputs(json_object_size(v) ? "\n}\n" : "{}\n", f) != EOF;
}

static bool dump(const json_t *v, FILE *f, const char *where, err *e) {
    errno = 0;
    if (dump_lines(v, f))
        return true;
    if (signals_caught())
        return err_set(e, ERR_CANCELLED, "%s: stopped", where);
    if (f == stdout)
        stdout_reason = errno;
    return err_set(e, ERR_IO, "%s: cannot write: %s", where,
                   errno ? err_system(errno) : "a value that has no JSON form");
}

static bool write_json(output *x, const char *name, const json_t *v, err *e) {
    bool ok = false;
    char *path = output_path(x, name, e);
    outfile *f = path ? outfile_open(path, e) : NULL;
    if (f) {
        ok = dump(v, outfile_stream(f), text_show(path), e) && outfile_commit(f, e);
        outfile_close(f);
    }
    ok = ok && output_wrote(x, path, e);
    free(path);
    return ok;
}

// A line for every folder: its name, then its files.
static void print_files(const output *x) {
    size_t folder = SIZE_MAX;
    for (size_t i = 0; i < x->n_files; i++) {
        const char *path = x->file[i], *slash = strrchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) + 1 : 0;
        bool same = i && n == folder && memcmp(path, x->file[i - 1], n) == 0;
        folder = n;
        if (same)
            printf(", %s", text_show(path + n));
        else
            printf("%s%s", i ? "\n      " : "wrote ", text_show(path));
    }
    if (x->n_files)
        putchar('\n');
}

bool output_finish(output *x, const char *name, json_t *value, err *e) {
    bool ok = false;
    if (!value) {
        err_set(e, ERR_NOMEM, "out of memory: the JSON result");
        goto done;
    }
    if (x->o->out && name && !write_json(x, name, value, e))
        goto done;
    if (x->o->json) {
        json_t *files = x->o->out ? json_array() : NULL;
        for (size_t i = 0; files && i < x->n_files; i++)
            json_array_append_new(files, output_json_text(x->file[i]));
        if (files)
            json_object_set_new(value, "files", files);
        ok = dump(value, stdout, "standard output", e);
        goto done;
    }
    if (!x->o->quiet)
        print_files(x);
    ok = true;
done:
    json_decref(value);
    return ok;
}

bool output_flush(bool *gone, err *e) {
    errno = 0;
    bool bad = ferror(stdout), ok = fflush(stdout) == 0;
    int why = ok ? stdout_reason : errno;
    *gone = why == EPIPE;
    if (ok && !bad)
        return true;
    return err_set(e, ERR_IO, "standard output: cannot write: %s",
                   why ? err_system(why) : "an earlier write failed");
}

json_t *output_json_text(const char *s) {
    return output_json_bytes(s, strlen(s));
}

json_t *output_json_bytes(const char *s, size_t n) {
    json_t *plain = json_stringn(s, n);
    if (plain)
        return plain;
    size_t at = 0;
    char *buf = malloc(4 * n + 1);
    if (!buf)
        return NULL;
    const utf8proc_uint8_t *u = (const utf8proc_uint8_t *)s;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t len = utf8proc_iterate(u + i, (utf8proc_ssize_t)(n - i), &c);
        if (len <= 0) {
            at += (size_t)sprintf(buf + at, "\\x%02x", u[i]);
            len = 1;
        } else if (c == '\\') {
            buf[at++] = '\\';
            buf[at++] = '\\';
        } else {
            memcpy(buf + at, s + i, (size_t)len);
            at += (size_t)len;
        }
        i += (size_t)len;
    }
    json_t *v = json_stringn(buf, at);
    free(buf);
    return v;
}

json_t *output_json_real(double v) {
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *named_paths(const char *const *path, char *const *name, size_t n) {
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++) {
        json_t *o = json_object();
        if (json_object_set_new(o, "name", output_json_text(name[i])) != 0 ||
            json_object_set_new(o, "path", output_json_text(path[i])) != 0 ||
            json_array_append_new(a, o) != 0) {
            json_decref(a);
            a = NULL;
        }
    }
    return a;
}

json_t *output_head(const output *x) {
    const options *o = x->o;
    json_t *v = json_object();
    bool ok = v && json_object_set_new(v, "program", json_string("deltop")) == 0 &&
              json_object_set_new(v, "version", json_string(DELTOP_VERSION)) == 0 &&
              json_object_set_new(v, "command", json_string(o->command->name)) == 0;
    if (ok && (o->command->takes & TAKES_DEVICE))
        ok = json_object_set_new(v, "device_asked", json_string(o->device)) == 0 &&
             json_object_set_new(v, "device", json_string(x->be ? x->be->device : "cpu")) == 0;
    if (ok && (o->command->takes & TAKES_PRECISION))
        ok = json_object_set_new(
                 v, "precision",
                 json_string(precision_name(x->be ? x->be->prec : (precision)o->precision))) == 0;
    if (ok && o->n_models)
        ok = json_object_set_new(v, "models", named_paths(o->model, x->model, o->n_models)) == 0;
    if (ok && o->n_documents)
        ok = json_object_set_new(v, "documents",
                                 named_paths(o->document, x->document, o->n_documents)) == 0;
    if (!ok) {
        json_decref(v);
        return NULL;
    }
    return v;
}
