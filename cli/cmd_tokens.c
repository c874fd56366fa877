// deltop tokens - the ids that a model would read, and the text that ids stand for.
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/reading.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/npy.h"
#include "core/outfile.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct tokens_options {
    bool decode, special;
} tokens_options;

static const option_spec own[] = {
    {"decode", OPT_FLAG, offsetof(tokens_options, decode),
     .help = "the other way: documents hold ids (.npy, or numbers between blanks), print the text"},
    {"special", OPT_FLAG, offsetof(tokens_options, special),
     .help = "also the ids that the tokenizer's own settings put around a text; other commands do "
             "not add them"},
};

typedef struct job {
    const options *o;
    const tokens_options *own;
    output *out;
    tokenizer *t; // NULL when nothing needs one
    int32_t bos;
    json_t *results;
} job;

static int64_t end_of(const document *d, int64_t i) {
    return i + 1 < d->n_starts ? d->starts[i + 1] : d->n;
}

// For loops over ids: those of a long text take seconds.
static bool go_on(err *e) {
    return !signals_caught() || err_set(e, ERR_CANCELLED, "stopped");
}

// --length keeps the first N tokens of every document: moves the rest away.
static void shorten(document *d, int64_t length) {
    int64_t to = 0;
    for (int64_t i = 0; length > 0 && i < d->n_starts; i++) {
        int64_t from = d->starts[i], n = end_of(d, i) - from;
        n = n < length ? n : length;
        memmove(d->ids + to, d->ids + from, (size_t)n * sizeof *d->ids);
        d->starts[i] = to;
        to += n;
    }
    if (length > 0)
        d->n = to;
}

static json_t *json_ids(const int32_t *v, int64_t n, err *e) {
    json_t *a = json_array();
    for (int64_t i = 0; a && i < n; i++)
        if (!go_on(e) || json_array_append_new(a, json_integer(v[i])) != 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

// What JSON says of one document; the ids themselves only when no file holds them and JSON is what will be
// printed: they are fifty bytes each here.
static bool add_result(job *j, size_t i, const document *d, err *e) {
    json_t *r = json_object();
    int bad = json_object_set_new(r, "document", output_json_text(output_document(j->out, i)));
    bad |= json_object_set_new(r, "bytes", json_integer((json_int_t)d->bytes));
    bad |= json_object_set_new(r, "tokens", json_integer(d->n));
    bad |= json_object_set_new(r, "texts", json_integer(d->n_starts));
    bad |= json_object_set_new(r, "empty_texts", json_integer(d->n_empty));
    bad |= json_object_set_new(r, "invalid_utf8", json_integer((json_int_t)d->bad_utf8));
    bad |= json_object_set_new(r, "added", output_json_text(d->added));
    json_t *list = json_array();
    for (int64_t k = 0; !bad && (j->o->out || j->o->json) && k < d->n_starts; k++)
        bad |= json_array_append_new(
            list, j->o->out ? json_integer(d->starts[k])
                            : json_ids(d->ids + d->starts[k], end_of(d, k) - d->starts[k], e));
    bad |= json_object_set_new(r, j->o->out ? "starts" : "ids", list);
    bad |= json_array_append_new(j->results, r);
    return bad ? err_set(e, ERR_NOMEM, "out of memory: the JSON result") : true;
}

static void tell(const job *j, const document *d) {
    char line[512];
    int n = snprintf(line, sizeof line, "%" PRId64 " tokens", d->n);
    if (d->n_starts > 1)
        n += snprintf(line + n, sizeof line - (size_t)n, " in %" PRId64 " texts", d->n_starts);
    if (d->bytes && d->n && !j->o->length)
        n += snprintf(line + n, sizeof line - (size_t)n, " from %zu bytes (%.2f bytes a token)",
                      d->bytes, (double)d->bytes / (double)d->n);
    if (d->n_empty)
        n += snprintf(line + n, sizeof line - (size_t)n, ", %" PRId64 " empty", d->n_empty);
    if (d->bad_utf8)
        n += snprintf(line + n, sizeof line - (size_t)n,
                      ", %zu parts that are no UTF-8 read as U+FFFD", d->bad_utf8);
    if (d->added[0])
        snprintf(line + n, sizeof line - (size_t)n, ", with %s", d->added);
    if (j->o->out)
        output_print(j->out, "%s: %s\n", text_show(d->name), line);
    else
        say_note("%s: %s", text_show(d->name), line);
}

static bool encode_one(job *j, size_t i, err *e) {
    const options *o = j->o;
    document d;
    document_options how = {.tokenizer = j->t,
                            .add_special = j->own->special,
                            .add_bos = o->add_bos,
                            .bos = j->bos,
                            .progress = signals_go_on};
    if (!document_read(o->document[i], &how, &d, e))
        return false;
    shorten(&d, o->length);
    tell(j, &d);
    bool ok = add_result(j, i, &d, e);
    if (ok && o->out) {
        char *path = output_array_path(j->out, 0, i, "ids.npy", e);
        ok = path && npy_write(path, NPY_I4, 1, &d.n, d.ids, e) && output_wrote(j->out, path, e);
        free(path);
    }
    for (int64_t k = 0; ok && !o->out && k < d.n_starts; k++)
        for (int64_t t = d.starts[k], end = end_of(&d, k); ok && t < end; t++) {
            output_print(j->out, "%d%c", d.ids[t], t + 1 < end ? ' ' : '\n');
            ok = go_on(e);
        }
    document_free(&d);
    return ok;
}

// Numbers between blanks and commas; brackets are allowed so that a JSON list will do.
static bool parse_ids(const char *text, size_t n, const char *name, ids *out, err *e) {
    for (size_t i = 0; i < n;) {
        if (text[i] && strchr(" \t\r\n,[]", text[i])) {
            i++;
            continue;
        }
        size_t from = i;
        int64_t v = 0;
        while (i < n && text[i] >= '0' && text[i] <= '9' && v <= INT32_MAX)
            v = 10 * v + (text[i++] - '0');
        if (i == from || v > INT32_MAX || (i < n && (!text[i] || !strchr(" \t\r\n,[]", text[i])))) {
            char word[40];
            size_t len = 0;
            while (from + len < n && len < 30 && text[from + len] &&
                   !strchr(" \t\r\n,[]", text[from + len]))
                len++;
            text_escape(text + from, len ? len : 1, word, sizeof word);
            return err_set(e, ERR_INPUT, "%s: \"%s\" at byte %zu is no token id", text_show(name),
                           word, from);
        }
        if (!mem_grow((void **)&out->v, &out->cap, out->n + 1, sizeof *out->v, "token ids", e))
            return false;
        out->v[out->n++] = (int32_t)v;
    }
    return true;
}

// Ends at a signal, unlike file_read_fd: a person may be at the other end.
static char *read_input(size_t *n, err *e) {
    char *text = NULL;
    size_t cap = 0, got = 1, most = document_max();
    if (file_is_endless(STDIN_FILENO)) {
        err_set(e, ERR_INPUT, "standard input: is a device, need a file or a pipe");
        return NULL;
    }
    for (*n = 0; got > 0; *n += got) {
        if (*n > most) {
            err_set(e, ERR_INPUT, "standard input: more than %zu bytes", most);
            goto failed;
        }
        if (!mem_grow((void **)&text, &cap, *n + 65536, 1, "standard input", e))
            goto failed;
        got = fread(text + *n, 1, cap - *n, stdin);
    }
    if (!ferror(stdin))
        return text;
    err_set(e, ERR_IO, "standard input: %s", err_system(errno));
failed:
    free(text);
    return NULL;
}

static bool read_ids(const char *path, document *d, err *e) {
    if (reading_is_ids(path))
        return document_read(path, &(document_options){0}, d, e);
    memset(d, 0, sizeof *d);
    bool standard = strcmp(path, "-") == 0;
    char *text =
        standard ? read_input(&d->bytes, e) : file_read(path, document_max(), &d->bytes, e);
    ids x = {0};
    bool ok = text && parse_ids(text, d->bytes, standard ? "standard input" : path, &x, e);
    free(text);
    d->ids = x.v;
    d->n = (int64_t)x.n;
    d->starts = ok ? mem_zalloc(1, sizeof *d->starts, "document starts", e) : NULL;
    d->n_starts = x.n > 0;
    ok = ok && d->starts;
    if (!ok)
        document_free(d);
    return ok;
}

static bool decode_one(job *j, size_t i, err *e) {
    const options *o = j->o;
    document d;
    if (!read_ids(o->document[i], &d, e))
        return false;
    shorten(&d, o->length);
    bool ok = true;
    json_t *texts = json_array();
    outfile *f = NULL;
    char *path = NULL;
    if (o->out) {
        path = output_array_path(j->out, 0, i, "text.txt", e);
        f = path ? outfile_open(path, e) : NULL;
        ok = f != NULL;
    }
    for (int64_t k = 0; ok && k < d.n_starts; k++) {
        size_t n = 0;
        char *text = tokenizer_decode(j->t, d.ids + d.starts[k],
                                      (size_t)(end_of(&d, k) - d.starts[k]), false, &n, e);
        if (!text) {
            ok = err_prefix(e, "%s", text_show(o->document[i]));
        } else if (f) {
            ok = outfile_write(f, text, n, e) && (d.n_starts == 1 || outfile_write(f, "\n", 1, e));
        } else if (o->json) {
            ok = json_array_append_new(texts, output_json_bytes(text, n)) == 0 ||
                 err_set(e, ERR_NOMEM, "out of memory: the JSON result");
        } else {
            fwrite(text, 1, n, stdout); // byte for byte; a line end only between several texts
            if (d.n_starts > 1)
                putchar('\n');
        }
        free(text);
    }
    if (f)
        ok = ok && outfile_commit(f, e) && output_wrote(j->out, path, e);
    outfile_close(f);
    free(path);
    if (ok) {
        json_t *r = json_object();
        int bad = json_object_set_new(r, "document", output_json_text(output_document(j->out, i)));
        bad |= json_object_set_new(r, "tokens", json_integer(d.n));
        if (!o->out)
            bad |= json_object_set(r, "text", texts);
        bad |= json_array_append_new(j->results, r);
        if (bad)
            ok = err_set(e, ERR_NOMEM, "out of memory: the JSON result");
    }
    json_decref(texts);
    document_free(&d);
    return ok;
}

static int run(const options *o, err *e) {
    job j = {.o = o, .own = o->own};
    if (j.own->decode && (j.own->special || o->add_bos))
        return err_set(e, ERR_USAGE, "option --decode: cannot be used with --%s",
                       o->add_bos ? "add-bos" : "special"),
               EXIT_USAGE;
    bool ok = true, needed = j.own->decode || j.own->special;
    for (size_t i = 0; i < o->n_documents; i++)
        needed = needed || !reading_is_ids(o->document[i]);
    if (needed)
        ok = (j.t = reading_tokenizer(o->model[0], e)) != NULL;
    ok = ok && (!o->add_bos || reading_bos(o->model[0], j.t, &j.bos, e)) &&
         (j.out = output_open(o, e)) != NULL;
    j.results = json_array();
    for (size_t i = 0; ok && i < o->n_documents; i++)
        ok = j.own->decode ? decode_one(&j, i, e) : encode_one(&j, i, e);
    if (ok) {
        json_t *v = output_head(j.out);
        if (v &&
            ((j.t && json_object_set_new(v, "vocabulary", json_integer(tokenizer_size(j.t)))) ||
             json_object_set(v, "results", j.results))) {
            json_decref(v);
            v = NULL;
        }
        ok = output_finish(j.out, "tokens.json", v, e);
    }
    json_decref(j.results);
    output_free(j.out);
    tokenizer_close(j.t);
    return ok ? EXIT_DONE : EXIT_FAILED;
}

const command command_tokens = {
    .name = "tokens",
    .summary = "token ids of a document, or the text of ids",
    .usage = "MODEL DOCUMENT...",
    .details =
        "Prints one line of ids a document, as the model's own tokenizer makes them "
        "(tokenizer.json, rwkv_vocab_*.txt or tokenizer.model); a folder with such a file alone "
        "will do as MODEL, and so will the file. With --out, the ids go to ids.npy (int32, "
        "all texts of a document one behind the other) and their starts to tokens.json.",
    .example = "deltop tokens runs/deltanet book.txt --out ids\n"
               "deltop tokens runs/deltanet book.txt | deltop tokens runs/deltanet --decode -",
    .files = "tokens.json, and ids.npy (text.txt with --decode)",
    .min_models = 1,
    .max_models = 1,
    .min_documents = 1,
    .max_documents = ANY_NUMBER,
    .tokenizer_is_model = true,
    .takes = TAKES_LENGTH | TAKES_ADD_BOS | TAKES_OUTPUT,
    .own = own,
    .n_own = sizeof own / sizeof *own,
    .own_size = sizeof(tokens_options),
    .run = run,
};
