#include "core/tok.h"

#include <stdlib.h>

bool tok_ask(tok_work *w, err *e) {
    if (!w->progress || w->progress(w->progress_ctx, (int64_t)w->done, (int64_t)w->total))
        return true;
    return err_set(e, ERR_CANCELLED, "stopped at byte %zu of %zu", w->done, w->total);
}

// Pre-tokenizes and merges what lies between two added tokens.
static bool encode_plain(const tokenizer *t, tok_work *w, const char *s, size_t n, bool front,
                         ids *out, err *e) {
    const char *text = NULL;
    const tok_spans *spans = NULL;
    if (!tok_pieces(t, w, s, n, front, &text, &spans, e))
        return false;
    for (size_t i = 0; i < spans->n; i++) {
        if (!tok_go_on(w, e) || !tok_bpe(t, w, text + spans->v[i].at, spans->v[i].n, out, e))
            return false;
        w->done += spans->v[i].n; // normalizers may have made it more, or fewer
    }
    return true;
}

typedef bool (*stretch_fn)(const tokenizer *t, tok_work *w, const char *s, size_t n, bool front,
                           ids *out, err *e);

// Cuts s at the added tokens of a trie and hands what lies between them to `between`.
static bool cut(const tokenizer *t, tok_work *w, const tok_trie *trie, const char *s, size_t n,
                bool front, stretch_fn between, ids *out, err *e) {
    size_t at = 0, done = 0, start = 0, stop = 0;
    uint32_t token = TOK_NONE;
    while (trie->n) {
        if (!tok_added_next(t, w, trie, s, n, &at, done, &start, &stop, &token, e))
            return false;
        if (token == TOK_NONE)
            break;
        if (start > done && !between(t, w, s + done, start - done, front && done == 0, out, e))
            return false;
        if (!ids_add(out, &t->added[token].id, 1, e))
            return false;
        done = stop;
    }
    return done >= n || between(t, w, s + done, n - done, front && done == 0, out, e);
}

static bool encode_stretch(const tokenizer *t, tok_work *w, const char *s, size_t n, bool front,
                           ids *out, err *e) {
    tok_buf text = {0};
    if (t->n_norm == 0)
        return cut(t, w, &t->normalized, s, n, front, encode_plain, out, e);
    bool ok = tok_normalize(t, w, s, n, &text, e) &&
              cut(t, w, &t->normalized, text.p, text.n, front, encode_plain, out, e);
    free(text.p);
    return ok;
}

bool tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool add_special,
                      progress_fn progress, void *progress_ctx, ids *out, err *e) {
    tok_work w = {.progress = progress, .progress_ctx = progress_ctx, .total = n};
    tok_buf fixed = {0};
    size_t before = out->n;
    bool ok = true;
    if (n > 0 && !tok_utf8_valid(text, n)) { // B69
        ok = tok_utf8_lossy(&fixed, text, n, e);
        text = fixed.p, n = fixed.n;
    }
    ok = ok && (!add_special || ids_add(out, t->front.v, t->front.n, e)) &&
         (n == 0 || (t->other ? t->other->encode(t, &w, text, n, out, e)
                              : cut(t, &w, &t->raw, text, n, true, encode_stretch, out, e))) &&
         (!add_special || ids_add(out, t->back.v, t->back.n, e));
    if (!ok)
        out->n = before; // a failed call leaves the list as it was
    tok_work_free(&w);
    free(fixed.p);
    return ok;
}
