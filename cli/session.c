#include "cli/session.h"

#include "cli/device.h"
#include "cli/output.h"
#include "cli/reading.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool session_open(session *s, const options *o, err *e) {
    *s = (session){.o = o, .bos = -1};
    s->be = device_open(o, e);
    return s->be != NULL;
}

static void close_model(session *s) {
    model_free(s->m);
    tokenizer_close(s->t);
    s->m = NULL;
    s->t = NULL;
    s->bos = -1;
}

void session_close(session *s) {
    close_model(s);
    if (s->input)
        fclose(s->input);
    backend_close(s->be);
    s->be = NULL;
}

static void tell_notes(const model *m, const char *path) {
    for (size_t i = 0; i < m->notes.n; i++)
        say_note("%s: %s", text_show(path), m->notes.v[i]);
    if (m->leftover.n)
        say_warning("%s: %zu tensor%s that nothing reads (%s%s); deltop inspect lists them",
                    text_show(path), m->leftover.n, m->leftover.n == 1 ? "" : "s", m->leftover.v[0],
                    m->leftover.n > 1 ? " ..." : "");
}

bool session_model(session *s, size_t i, err *e) {
    const char *path = s->o->model[i];
    close_model(s);
    s->m = model_open(path, s->be, e);
    if (!s->m)
        return false;
    if (!s->told)
        tell_notes(s->m, path);
    bool text = false;
    for (size_t d = 0; d < s->o->n_documents; d++)
        text |= !reading_is_ids(s->o->document[d]);
    if (text && !(s->t = reading_tokenizer(path, e)))
        return false;
    if ((s->o->add_bos || s->o->reset_at_bos) && !reading_bos(path, s->t, &s->bos, e))
        return false;
    return true;
}

bool session_each(session *s, session_work work, void *ctx, err *e) {
    for (size_t i = 0; i < s->o->n_models; i++) {
        if (!session_model(s, i, e))
            return false;
        for (size_t k = 0; k < s->o->n_documents; k++)
            if (!work(ctx, i, k, e))
                return e->code == ERR_NUMERIC || e->code == ERR_USAGE || e->code == ERR_UNSUPPORTED
                           ? err_prefix(e, "%s", text_show(s->o->model[i]))
                           : false;
    }
    return true;
}

int64_t session_train_length(const session *s) {
    return s->o->train_length ? s->o->train_length : s->m->info.train_length;
}

int64_t session_block(const session *s) {
    return s->o->block ? s->o->block : s->be->block;
}

const char *session_how(const session *s, char *buf, size_t size) {
    snprintf(buf, size, "%s, %s", s->be->device, precision_name(s->be->prec));
    return buf;
}

void rows_free(rows *r) {
    document_free(&r->d);
    free(r->opt);
    free(r->starts);
    *r = (rows){0};
}

// Standard input can be read once, but every model wants it.
static bool keep_input(session *s, err *e) {
    char piece[1 << 16];
    size_t n = 0, all = 0, most = document_max();
    if (!s->input) {
        if (file_is_endless(STDIN_FILENO)) // it would fill the disk
            return err_set(e, ERR_INPUT, "standard input: is a device, need a file or a pipe");
        s->input = tmpfile();
        if (!s->input)
            return err_set(e, ERR_IO, "standard input: no temporary file: %s", err_system(errno));
        while ((n = fread(piece, 1, sizeof piece, stdin)) > 0) {
            if ((all += n) > most) // a pipe without an end would fill the disk too
                return err_set(e, ERR_INPUT, "standard input: more than %zu bytes", most);
            if (fwrite(piece, 1, n, s->input) != n)
                return err_set(e, ERR_IO, "standard input: temporary file: %s", err_system(errno));
        }
        if (ferror(stdin))
            return err_set(e, ERR_IO, "standard input: %s", err_system(errno));
    }
    rewind(s->input);
    return true;
}

// Document starts inside each row, relative to the row.
static bool cut_starts(const session *s, rows *r, err *e) {
    r->opt = mem_zalloc((size_t)r->n + 1, sizeof *r->opt, "rows", e);
    r->starts = mem_alloc((size_t)r->d.n_starts + 1, sizeof *r->starts, "document starts", e);
    if (!r->opt || !r->starts)
        return false;
    int64_t k = 0, used = 0;
    for (int64_t row = 0; row < r->n; row++) {
        int64_t from = row * r->length, to = from + r->length;
        row_options *o = &r->opt[row];
        o->reset_id = s->o->reset_at_bos ? s->bos : -1;
        o->starts = r->starts + used;
        while (s->o->reset_at_bos && k < r->d.n_starts && r->d.starts[k] < to) {
            if (r->d.starts[k] > from) {
                r->starts[used++] = r->d.starts[k] - from;
                o->n_starts++;
            }
            k++;
        }
    }
    return true;
}

// What emptied states had read. A reset_id and a document start at one place are one reset.
static void count_resets(rows *r) {
    r->resets = r->dropped = 0;
    for (int64_t row = 0; row < r->n; row++) {
        const row_options *o = &r->opt[row];
        const int32_t *ids = rows_ids(r, row);
        int64_t k = 0;
        if (row > 0) {
            r->resets++;
            r->dropped = row * r->length;
        }
        for (int64_t t = 1; t < r->length && (o->reset_id >= 0 || k < o->n_starts); t++) {
            bool start = k < o->n_starts && o->starts[k] == t;
            k += start;
            if (start || (o->reset_id >= 0 && ids[t] == o->reset_id)) {
                r->resets++;
                r->dropped = row * r->length + t;
            }
        }
    }
}

bool session_rows(session *s, size_t i, int64_t least, rows *r, err *e) {
    const char *path = s->o->document[i];
    document_options how = {.tokenizer = s->t,
                            .n_vocab = s->m->info.n_vocab,
                            .add_bos = s->o->add_bos,
                            .bos = s->bos,
                            .digest = true,
                            .progress = signals_go_on};
    *r = (rows){0};
    bool standard = strcmp(path, "-") == 0;
    const char *shown = standard ? "standard input" : path;
    if (standard) {
        if (!keep_input(s, e))
            return false;
        how.input = s->input;
    }
    if (!document_read(path, &how, &r->d, e))
        return false;
    if (r->d.bad_utf8 && !s->told)
        say_warning("%s: %zu parts that are no UTF-8, read as U+FFFD", text_show(shown),
                    r->d.bad_utf8);
    r->length = s->o->length ? s->o->length : r->d.n;
    if (r->length > r->d.n) {
        if (!s->told)
            say_note("%s has %lld token%s, fewer than --length %lld: one row of %lld",
                     text_show(shown), (long long)r->d.n, r->d.n == 1 ? "" : "s",
                     (long long)s->o->length, (long long)r->d.n);
        r->length = r->d.n;
    }
    if (r->length < least) {
        err_set(e, ERR_INPUT, "%s: a row of %lld token%s, at least %lld are needed",
                text_show(shown), (long long)r->length, r->length == 1 ? "" : "s",
                (long long)least);
        rows_free(r);
        return false;
    }
    int64_t whole = r->length ? r->d.n / r->length : 0;
    r->n = s->o->rows == 0 ? whole : s->o->rows;
    if (r->n > whole) {
        if (!s->told)
            say_note("%s: %lld whole row%s of %lld tokens, fewer than --rows %lld",
                     text_show(shown), (long long)whole, whole == 1 ? "" : "s",
                     (long long)r->length, (long long)r->n);
        r->n = whole;
    }
    r->unread = r->d.n - r->n * r->length;
    if (!cut_starts(s, r, e)) {
        rows_free(r);
        return false;
    }
    count_resets(r);
    return true;
}

json_t *session_rows_json(const session *s, const rows *r) {
    json_t *j = json_object();
    int bad = json_object_set_new(j, "tokens", json_integer(r->d.n));
    bad |= json_object_set_new(j, "rows", json_integer(r->n));
    bad |= json_object_set_new(j, "row_tokens", json_integer(r->length));
    bad |= json_object_set_new(j, "tokens_unread", json_integer(r->unread));
    bad |= json_object_set_new(
        j, "state",
        json_string(s->o->reset_at_bos ? "each row from a zero state, emptied at document starts"
                                       : "each row from a zero state, carried through it"));
    bad |= json_object_set_new(j, "state_resets", json_integer(r->resets));
    bad |= json_object_set_new(j, "context_dropped", json_integer(r->dropped));
    bad |= json_object_set_new(j, "added", output_json_text(r->d.added));
    bad |= json_object_set_new(j, "invalid_utf8", json_integer((json_int_t)r->d.bad_utf8));
    bad |= json_object_set_new(j, "sha256", json_string(r->d.sha256));
    int64_t L = session_train_length(s);
    bad |= json_object_set_new(j, "train_length", L ? json_integer(L) : json_null());
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}
