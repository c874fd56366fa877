#include "cli/dash/reading.h"

#include "analyses/loss.h"
#include "cli/dash/find.h"
#include "cli/reading.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reading_free(void *p) {
    reading *r = p;
    document_free(&r->d);
    free(r->text);
    free(r->offset);
    free(r->start);
    free(r);
}

// Pieces of all tokens, one behind the other; each id is decoded once.
static bool spell(reading *r, const tokenizer *t, err *e) {
    size_t n_ids = (size_t)tokenizer_size(t), cap = 0, n = 0;
    char **piece = mem_zalloc(n_ids + 1, sizeof *piece, "the text of tokens", e);
    size_t *bytes = mem_zalloc(n_ids + 1, sizeof *bytes, "the text of tokens", e);
    r->offset = mem_zalloc((size_t)r->T + 1, sizeof *r->offset, "the text of tokens", e);
    bool ok = piece && bytes && r->offset;
    for (int64_t i = 0; ok && i < r->T; i++) {
        size_t id = (size_t)r->d.ids[i];
        r->offset[i] = (int64_t)n;
        if (id < n_ids && !piece[id]) {
            err gap = {0}; // an id without a token says nothing
            piece[id] = tokenizer_piece(t, (int32_t)id, &bytes[id], &gap);
            if (!piece[id])
                piece[id] = mem_strdup("", e);
        }
        size_t k = id < n_ids ? bytes[id] : 0;
        ok = mem_grow((void **)&r->text, &cap, n + k + 1, 1, "the text of tokens", e);
        if (ok && k)
            memcpy(r->text + n, piece[id], k);
        n += k;
    }
    if (ok) {
        r->offset[r->T] = (int64_t)n;
        ok = mem_grow((void **)&r->text, &cap, n + 1, 1, "the text of tokens", e);
    }
    if (ok)
        r->text[n] = 0;
    for (size_t i = 0; piece && i < n_ids; i++)
        free(piece[i]);
    free(piece);
    free(bytes);
    return ok;
}

int64_t reading_token(const reading *r, int64_t at) {
    int64_t lo = 0, hi = r->T;
    while (lo < hi) { // the last token that begins at or before `at`
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (r->offset[mid] <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool add_start(reading *r, size_t *cap, int64_t t, err *e) {
    if (t <= 0 || t >= r->T)
        return true;
    if (!mem_grow((void **)&r->start, cap, (size_t)r->n_start + 1, sizeof *r->start, "marks", e))
        return false;
    r->start[r->n_start++] = t;
    return true;
}

// Document starts, tokens with the begin-of-text id, and matches of the pattern.
static bool mark_starts(reading *r, int32_t bos, const char *pattern, err *e) {
    size_t cap = 0;
    bool ok = true;
    for (int64_t i = 0; ok && i < r->d.n_starts; i++)
        ok = add_start(r, &cap, r->d.starts[i], e);
    for (int64_t t = 1; ok && bos >= 0 && t < r->T; t++)
        if (r->d.ids[t] == bos)
            ok = add_start(r, &cap, t, e);
    if (ok && pattern && r->text) {
        found f = {0};
        ok = find_all(r->text, (size_t)r->offset[r->T], pattern, true, &f, e);
        for (size_t i = 0; ok && i < f.n; i++)
            ok = add_start(r, &cap, reading_token(r, f.at[i]), e);
        found_free(&f);
    }
    if (r->n_start > 1) {
        qsort(r->start, (size_t)r->n_start, sizeof *r->start, ascending);
        int64_t n = 1;
        for (int64_t i = 1; i < r->n_start; i++)
            if (r->start[i] != r->start[n - 1])
                r->start[n++] = r->start[i];
        r->n_start = n;
    }
    return ok;
}

reading *reading_open(const options *o, const char *model, const char *document, int64_t n_vocab,
                      const char *marks, int32_t *bos, char *remark, size_t remark_size, err *e) {
    reading *r = mem_zalloc(1, sizeof *r, "a document", e);
    tokenizer *t = NULL;
    bool ok = false, ids = reading_is_ids(document);
    err without = {0};
    remark[0] = 0;
    *bos = -1;
    if (!r)
        return NULL;
    shared_init(&r->ref, reading_free);
    t = reading_tokenizer(model, ids ? &without : e);
    if (!t && !ids)
        goto done;
    if ((o->add_bos || o->reset_at_bos) && !reading_bos(model, t, bos, e))
        goto done;
    document_options how = {
        .tokenizer = t, .n_vocab = n_vocab, .add_bos = o->add_bos, .bos = *bos, .digest = true};
    if (!document_read(document, &how, &r->d, e))
        goto done;
    r->T = o->length && o->length < r->d.n ? o->length : r->d.n;
    if (r->T < 1) {
        err_set(e, ERR_INPUT, "%s: holds no token", text_show(document));
        goto done;
    }
    r->mark = loss_ids_mark(0, r->d.ids, r->T);
    if (r->d.bad_utf8)
        snprintf(remark, remark_size, "%zu parts that are no UTF-8, read as U+FFFD", r->d.bad_utf8);
    else if (o->length > r->d.n)
        snprintf(remark, remark_size, "%lld tokens, fewer than --length %lld", (long long)r->d.n,
                 (long long)o->length);
    ok =
        (!t || spell(r, t, e)) && mark_starts(r, t && *bos < 0 ? tokenizer_bos(t) : *bos, marks, e);
done:
    tokenizer_close(t);
    if (ok)
        return r;
    shared_drop(r);
    return NULL;
}
