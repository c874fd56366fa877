#include "core/document.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/sha256.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t document_max(void) {
    size_t most = (size_t)1 << 36;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0 && (size_t)pages / 4 < most / (size_t)page)
        most = (size_t)pages / 4 * (size_t)page;
    return most;
}

// What is being built: the document, and the growing lists behind it.
typedef struct build {
    const document_options *o;
    document *d;
    const char *shown; // the document's name, escaped
    ids ids;
    size_t cap_starts;
} build;

static bool check_ids(const build *b, size_t first, err *e) {
    for (size_t i = first; i < b->ids.n; i++) {
        int32_t id = b->ids.v[i];
        size_t place = i - (size_t)b->d->n_bos; // as without what was put in front
        if (id < 0)
            return err_set(e, ERR_INPUT, "%s: token %zu has id %d, ids are 0 or more", b->shown,
                           place, id);
        if (b->o->n_vocab > 0 && id >= b->o->n_vocab)
            return err_set(
                e, ERR_INPUT, "%s: token %zu has id %d, but the model knows only %lld (0 to %lld)",
                b->shown, place, id, (long long)b->o->n_vocab, (long long)b->o->n_vocab - 1);
    }
    return true;
}

// A BOS in front of what begins at `first`, unless it is there (fault B74). Nothing in front of
// nothing: an empty document stays empty (fault B45).
static bool put_bos(build *b, size_t first, err *e) {
    if (!b->o->add_bos || b->ids.n == first || b->ids.v[first] == b->o->bos)
        return true;
    if (!mem_grow((void **)&b->ids.v, &b->ids.cap, b->ids.n + 1, sizeof *b->ids.v, "token ids", e))
        return false;
    b->ids.n++;
    memmove(b->ids.v + first + 1, b->ids.v + first, (b->ids.n - first - 1) * sizeof *b->ids.v);
    b->ids.v[first] = b->o->bos;
    b->d->n_bos++;
    return true;
}

// Everything behind `first` is one document.
static bool close_document(build *b, size_t first, err *e) {
    document *d = b->d;
    if (b->ids.n == first) {
        d->n_empty++;
        return true;
    }
    if (!check_ids(b, first, e) || !put_bos(b, first, e) ||
        !mem_grow((void **)&d->starts, &b->cap_starts, (size_t)d->n_starts + 1, sizeof *d->starts,
                  "document starts", e))
        return false;
    d->starts[d->n_starts++] = (int64_t)first;
    return true;
}

static bool go_on(const build *b, size_t done, size_t total, err *e) {
    return !b->o->progress || b->o->progress(b->o->progress_ctx, (int64_t)done, (int64_t)total) ||
           err_set(e, ERR_CANCELLED, "%s: stopped at byte %zu of %zu", b->shown, done, total);
}

static bool add_text(build *b, const char *text, size_t n, err *e) {
    size_t first = b->ids.n;
    b->d->bad_utf8 += text_utf8_bad(text, n);
    if (n > 0 && !tokenizer_encode(b->o->tokenizer, text, n, b->o->add_special, b->o->progress,
                                   b->o->progress_ctx, &b->ids, e))
        return err_prefix(e, "%s", b->shown);
    return close_document(b, first, e);
}

static bool add_line(build *b, const char *line, size_t n, size_t number, err *e) {
    // Fields that nobody reads may hold what they like: whole numbers of any size, keys twice.
    const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY;
    json_error_t je;
    json_t *v = json_loadb(line, n, flags, &je);
    if (!v && (json_error_code(&je) == json_error_out_of_memory || je.text[0] == 0))
        return err_set(e, ERR_NOMEM, "%s: line %zu: out of memory", b->shown, number);
    if (!v)
        return err_set(e, ERR_INPUT, "%s: line %zu is not JSON at column %d: %s", b->shown, number,
                       je.column, text_show(je.text));
    const json_t *text = json_object_get(v, "text");
    bool ok = json_is_string(text);
    if (ok)
        ok = add_text(b, json_string_value(text), json_string_length(text), e);
    else
        err_set(e, ERR_INPUT, "%s: line %zu: %s", b->shown, number,
                !json_is_object(v) ? "is not an object with a field \"text\""
                : text             ? "the field \"text\" is not a string"
                                   : "no field \"text\"");
    json_decref(v);
    return ok;
}

static bool add_lines(build *b, const char *text, size_t n, err *e) {
    size_t number = 0;
    const char *p = text, *end = text + n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3; // a BOM is no part of the first line's JSON
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop)
            stop = end;
        number++;
        size_t length = (size_t)(stop - p), blank = 0;
        while (blank < length && (p[blank] == ' ' || p[blank] == '\t' || p[blank] == '\r'))
            blank++;
        if (!go_on(b, (size_t)(p - text), n, e) ||
            (blank < length && !add_line(b, p, length, number, e)))
            return false;
        p = stop + (stop < end);
    }
    return true;
}

static bool add_npy(build *b, const char *path, err *e) {
    npy a;
    int32_t *v = NULL;
    bool ok = false;
    struct stat st;
    if (!npy_read(path, &a, e))
        return false;
    if (stat(path, &st) == 0)
        b->d->bytes = (size_t)st.st_size;
    if (a.rank != 1 && a.rank != 2) {
        err_set(e, ERR_INPUT, "%s: token ids must have 1 or 2 dimensions, these have %d", b->shown,
                a.rank);
        goto done;
    }
    size_t rows = a.rank == 2 ? (size_t)a.dims[0] : 1, T = (size_t)a.dims[a.rank - 1];
    if (T == 0) { // counted at once: a file of a hundred bytes may claim 2^60 empty rows
        b->d->n_empty += (int64_t)rows;
        rows = 0;
    }
    if (!(v = npy_as_i32(&a, e)))
        goto done;
    for (size_t r = 0; r < rows; r++) {
        size_t first = b->ids.n;
        if (!mem_grow((void **)&b->ids.v, &b->ids.cap, first + T + 1, sizeof *b->ids.v, "token ids",
                      e))
            goto done;
        memcpy(b->ids.v + first, v + r * T, T * sizeof *v);
        b->ids.n += T;
        if (!close_document(b, first, e))
            goto done;
    }
    ok = true;
done:
    free(v);
    npy_free(&a);
    return ok;
}

// Whole content; a pipe (a shell's <(...), say) is read to its end.
static char *read_bytes(const char *path, size_t *n, err *e) {
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return file_read(path, document_max(), n, e);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(errno));
        return NULL;
    }
    char *text = NULL;
    if (file_is_endless(fd)) {
        err_set(e, ERR_INPUT, "%s: is a device, need a file or a pipe", text_show(path));
        close(fd);
        return NULL;
    }
    text = file_read_fd(fd, path, document_max(), n, e);
    close(fd);
    return text;
}

// Through the stream, not its descriptor: the caller may have read from it already.
static char *read_stream(FILE *f, const char *name, size_t *n, err *e) {
    char *text = NULL;
    size_t cap = 0, used = 0, most = document_max();
    if (file_is_endless(fileno(f))) {
        err_set(e, ERR_INPUT, "%s: is a device, need a file or a pipe", name);
        return NULL;
    }
    for (;;) {
        if (!mem_grow((void **)&text, &cap, used + 65536, 1, name, e))
            break;
        size_t got = fread(text + used, 1, cap - used - 1, f);
        used += got;
        if (used > most) {
            err_set(e, ERR_INPUT, "%s: more than %zu bytes", name, most);
            break;
        }
        if (got > 0)
            continue;
        if (ferror(f)) {
            err_set(e, ERR_IO, "%s: %s", name, err_system(errno));
            break;
        }
        text[used] = 0;
        *n = used;
        return text;
    }
    free(text);
    return NULL;
}

static bool digest(const build *b, const char *text, size_t n, err *e) {
    const size_t piece = (size_t)1 << 20;
    sha256 s;
    sha256_init(&s);
    for (size_t at = 0; at < n; at += piece) {
        if (!go_on(b, at, n, e))
            return false;
        sha256_add(&s, text + at, n - at < piece ? n - at : piece);
    }
    sha256_hex(&s, b->d->sha256);
    return true;
}

static void say_added(build *b) {
    document *d = b->d;
    size_t at = 0;
    if (b->o->add_special && b->o->tokenizer)
        if (tokenizer_adds_special(b->o->tokenizer, d->added, sizeof d->added))
            at = strlen(d->added);
    if (d->n_bos > 0)
        snprintf(d->added + at, sizeof d->added - at, "%sid %d in front of %lld document%s",
                 at ? "; " : "", b->o->bos, (long long)d->n_bos, d->n_bos == 1 ? "" : "s");
}

bool document_read(const char *path, const document_options *o, document *out, err *e) {
    bool ok = false, standard = strcmp(path, "-") == 0, array = file_ends_with(path, ".npy");
    char *text = NULL, base[512];
    memset(out, 0, sizeof *out);
    const char *name = standard ? "standard input" : file_base(path, base, sizeof base);
    build b = {.o = o, .d = out, .shown = standard ? name : text_show(path)};
    // text_show lends from a ring that later messages reuse.
    char *shown = mem_strdup(b.shown, e);
    out->name = mem_strdup(name, e);
    if (!shown || !out->name)
        goto done;
    b.shown = shown;
    if (!array && !o->tokenizer) {
        err_set(e, ERR_MISSING, "%s: is text, and there is no tokenizer to make token ids of it",
                b.shown);
        goto done;
    }
    if (o->add_bos && (o->bos < 0 || (o->n_vocab > 0 && o->bos >= o->n_vocab))) {
        err_set(e, ERR_INPUT, "%s: the BOS id %d is not one of the model's (0 to %lld)", b.shown,
                o->bos, o->n_vocab > 0 ? (long long)o->n_vocab - 1 : INT32_MAX);
        goto done;
    }
    if (!array || o->digest) {
        text = standard ? read_stream(o->input ? o->input : stdin, name, &out->bytes, e)
                        : read_bytes(path, &out->bytes, e);
        if (!text)
            goto done;
    }
    if (array)
        ok = add_npy(&b, path, e);
    else if (file_ends_with(path, ".jsonl"))
        ok = add_lines(&b, text, out->bytes, e);
    else
        ok = add_text(&b, text, out->bytes, e);
    if (!ok)
        goto done;
    if (o->digest && !(ok = digest(&b, text, out->bytes, e)))
        goto done;
    out->ids = b.ids.v;
    out->n = (int64_t)b.ids.n;
    b.ids.v = NULL;
    say_added(&b);
done:
    free(b.ids.v);
    free(shown);
    free(text);
    if (!ok)
        document_free(out);
    return ok;
}

void document_free(document *d) {
    free(d->name);
    free(d->ids);
    free(d->starts);
    memset(d, 0, sizeof *d);
}
