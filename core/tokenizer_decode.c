#include "core/mem.h"
#include "core/tok.h"

#include <stdlib.h>
#include <string.h>

// Texts of tokens on their way through the decoders: spans of a buffer.
typedef struct texts {
    tok_buf buf;
    tok_spans at;
} texts;

static bool texts_add(texts *x, const char *s, size_t n, err *e) {
    size_t at = x->buf.n;
    return tok_buf_add(&x->buf, s, n, e) && tok_spans_add(&x->at, at, n, false, e);
}

static void texts_free(texts *x) {
    free(x->buf.p);
    free(x->at.v);
}

static const char *token_text(const tokenizer *t, int32_t id, size_t *n) {
    if (id < 0 || (uint32_t)id >= t->size)
        return NULL;
    uint32_t k = t->added_of[id];
    if (k != TOK_NONE)
        return *n = t->added[k].match_n, t->added[k].match; // normalized, as the library shows it
    if ((uint32_t)id >= t->vocab.size || t->vocab.len[id] == TOK_NONE)
        return NULL;
    return *n = t->vocab.len[id], t->vocab.text + t->vocab.at[id];
}

// <0xNN>: the byte, else -1.
static int fallback_byte(const char *s, size_t n) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || !s[3] || !s[4])
        return -1;
    const char *high = strchr(digits, s[3]), *low = strchr(digits, s[4]);
    return high && low ? (int)((high - digits) % 16 * 16 + (low - digits) % 16) : -1;
}

// A token of alphabet characters alone becomes bytes; one with any other character stands as is.
static bool add_bytes(tok_buf *out, const char *s, size_t n, err *e) {
    size_t before = out->n;
    for (size_t i = 0; i < n;) {
        int len = 0, byte = tok_char_byte(tok_char(s + i, &len));
        if (byte < 0) {
            out->n = before;
            return tok_buf_add(out, s, n, e);
        }
        char one = (char)byte;
        if (!tok_buf_add(out, &one, 1, e))
            return false;
        i += (size_t)len;
    }
    return true;
}

static bool add_replaced(const tok_dec *d, tok_finder *f, const char *s, size_t n, tok_buf *out,
                         err *e) {
    tok_find it = {0};
    size_t done = 0, start = 0, end = 0;
    bool found = true;
    while (true) {
        if (!tok_pattern_next(&d->pattern, f, &it, s, n, &start, &end, &found, e))
            return false;
        if (!found)
            return tok_buf_add(out, s + done, n - done, e);
        if (!tok_buf_add(out, s + done, start - done, e) || !tok_buf_add(out, d->text, d->n, e))
            return false;
        done = end;
    }
}

static bool to_bytes(const texts *in, texts *out, err *e) {
    tok_buf raw = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < in->at.n; i++)
        ok = add_bytes(&raw, in->buf.p + in->at.v[i].at, in->at.v[i].n, e);
    // Bytes are joined over tokens before they are read as UTF-8.
    ok = ok && tok_utf8_lossy(&out->buf, raw.p, raw.n, e) &&
         tok_spans_add(&out->at, 0, out->buf.n, false, e);
    free(raw.p);
    return ok;
}

// A run of byte tokens is text only when the whole run is UTF-8; otherwise each of its bytes
// becomes U+FFFD.
static bool flush_run(tok_buf *run, texts *out, err *e) {
    bool ok = true;
    if (run->n && tok_utf8_valid(run->p, run->n))
        ok = texts_add(out, run->p, run->n, e);
    else
        for (size_t i = 0; ok && i < run->n; i++)
            ok = texts_add(out, "\xEF\xBF\xBD", 3, e);
    run->n = 0;
    return ok;
}

static bool fallback(const texts *in, texts *out, err *e) {
    tok_buf run = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < in->at.n; i++) {
        const char *s = in->buf.p + in->at.v[i].at;
        int byte = fallback_byte(s, in->at.v[i].n);
        char one = (char)byte;
        ok = byte >= 0 ? tok_buf_add(&run, &one, 1, e)
                       : flush_run(&run, out, e) && texts_add(out, s, in->at.v[i].n, e);
    }
    ok = ok && flush_run(&run, out, e);
    free(run.p);
    return ok;
}

// Takes up to `start` characters equal to the given one from the front of a token, `stop` from its
// end.
static bool strip(const tok_dec *d, const char *s, size_t n, texts *out, err *e) {
    for (size_t k = 0; k < d->start && n >= d->n && !memcmp(s, d->text, d->n); k++)
        s += d->n, n -= d->n;
    for (size_t k = 0; k < d->stop && n >= d->n && !memcmp(s + n - d->n, d->text, d->n); k++)
        n -= d->n;
    return texts_add(out, s, n, e);
}

static bool metaspace(const tok_dec *d, const char *s, size_t n, bool first, tok_buf *out, err *e) {
    for (size_t i = 0; i < n;) {
        if (n - i >= d->n && !memcmp(s + i, d->text, d->n)) {
            if (!(first && d->prepend != PREPEND_NEVER) && !tok_buf_add(out, " ", 1, e))
                return false;
            i += d->n;
            continue;
        }
        if (!tok_buf_add(out, s + i, 1, e))
            return false;
        i++;
    }
    return true;
}

static bool step(const tok_dec *d, tok_finder *f, const texts *in, texts *out, err *e) {
    if (d->kind == DEC_BYTES)
        return to_bytes(in, out, e);
    if (d->kind == DEC_FALLBACK)
        return fallback(in, out, e);
    if (d->kind == DEC_FUSE)
        return texts_add(out, in->buf.n ? in->buf.p : "", in->buf.n, e);
    for (size_t i = 0; i < in->at.n; i++) {
        const char *s = in->buf.p + in->at.v[i].at;
        size_t n = in->at.v[i].n, at = out->buf.n;
        bool ok = d->kind == DEC_STRIP       ? strip(d, s, n, out, e)
                  : d->kind == DEC_METASPACE ? metaspace(d, s, n, i == 0, &out->buf, e)
                                             : add_replaced(d, f, s, n, &out->buf, e);
        if (!ok)
            return false;
        if (d->kind != DEC_STRIP && !tok_spans_add(&out->at, at, out->buf.n - at, false, e))
            return false;
    }
    return true;
}

static bool no_token(const tokenizer *t, int32_t id, err *e) {
    return err_set(e, ERR_INPUT, "%s: no token has the id %ld (ids go up to %ld)", t->path,
                   (long)id, (long)t->size - 1);
}

// The texts of the tokens, before any decoder.
static bool gather(const tokenizer *t, const int32_t *v, size_t n, bool skip_special, texts *out,
                   err *e) {
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *s = token_text(t, v[i], &len);
        if (!s)
            return no_token(t, v[i], e);
        uint32_t k = t->added_of[v[i]];
        if (skip_special && k != TOK_NONE && t->added[k].special)
            continue;
        if (t->no_decoder && out->at.n && !tok_buf_add(&out->buf, " ", 1, e))
            return false;
        if (!texts_add(out, s, len, e))
            return false;
    }
    return tok_buf_add(&out->buf, "", 0, e);
}

static char *finish(tok_buf *out, bool ok, size_t *bytes) {
    *bytes = out->n;
    if (!ok)
        free(out->p);
    return ok ? out->p : NULL;
}

static char *other_decode(const tokenizer *t, const int32_t *v, size_t n, size_t *bytes, err *e) {
    tok_buf out = {0};
    bool ok = tok_buf_add(&out, "", 0, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = (v[i] >= 0 && (uint32_t)v[i] < t->size) || no_token(t, v[i], e);
    ok = ok && t->other->decode(t, v, n, &out, e);
    return finish(&out, ok, bytes);
}

char *tokenizer_decode(const tokenizer *t, const int32_t *v, size_t n, bool skip_special,
                       size_t *bytes, err *e) {
    if (t->other)
        return other_decode(t, v, n, bytes, e);
    texts now = {0};
    tok_finder f = {0};
    bool ok = gather(t, v, n, skip_special, &now, e);
    for (size_t k = 0; ok && k < t->n_dec; k++) {
        texts next = {0};
        ok = tok_buf_add(&next.buf, "", 0, e) && step(&t->dec[k], &f, &now, &next, e);
        texts_free(&now);
        now = next;
    }
    tok_finder_free(&f);
    free(now.at.v);
    if (!ok) {
        free(now.buf.p);
        return NULL;
    }
    *bytes = now.buf.n;
    return now.buf.p;
}

static char *other_piece(const tokenizer *t, int32_t id, size_t *bytes, err *e) {
    tok_buf out = {0};
    bool ok = ((id >= 0 && (uint32_t)id < t->size) || no_token(t, id, e)) &&
              tok_buf_add(&out, "", 0, e) && t->other->piece(t, id, &out, e);
    return finish(&out, ok, bytes);
}

char *tokenizer_piece(const tokenizer *t, int32_t id, size_t *bytes, err *e) {
    if (t->other)
        return other_piece(t, id, bytes, e);
    size_t n = 0;
    const char *s = token_text(t, id, &n);
    tok_buf now = {0};
    tok_finder f = {0};
    if (!s)
        return no_token(t, id, e), NULL;
    bool ok = tok_buf_add(&now, s, n, e), raw = false;
    for (size_t k = 0; ok && !raw && k < t->n_dec; k++) {
        const tok_dec *d = &t->dec[k];
        tok_buf next = {0};
        int byte = d->kind == DEC_FALLBACK ? fallback_byte(now.p, now.n) : -1;
        char one = (char)byte;
        ok = tok_buf_add(&next, "", 0, e);
        if (!ok)
            break;
        raw = byte >= 0 || d->kind == DEC_BYTES; // bytes from here on, perhaps half a character
        if (byte >= 0)
            ok = tok_buf_add(&next, &one, 1, e);
        else if (d->kind == DEC_BYTES)
            ok = add_bytes(&next, now.p, now.n, e);
        else if (d->kind == DEC_METASPACE)
            ok = metaspace(d, now.p, now.n, false, &next, e);
        else if (d->kind == DEC_REPLACE)
            ok = add_replaced(d, &f, now.p, now.n, &next, e);
        else
            ok = tok_buf_add(&next, now.p, now.n, e);
        free(now.p);
        now = next;
    }
    tok_finder_free(&f);
    if (!ok) {
        free(now.p);
        return NULL;
    }
    *bytes = now.n;
    return now.p;
}
