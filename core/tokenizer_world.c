// RWKV World vocabularies (rwkv_vocab_v20230424.txt): lines `id literal length`, the literal a
// Python string or bytes literal, the length that of its bytes. Encoding takes the longest token at
// every place, over bytes; there are no merges and no special tokens. Id 0 ends a text and has no
// line and no text of its own.
#include "core/mem.h"
#include "core/tok.h"

#include <stdlib.h>
#include <string.h>

static bool encode(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out, err *e) {
    for (size_t at = 0; at < n;) {
        size_t len = 0;
        uint32_t id = tok_trie_longest(&t->raw, s + at, n - at, &len);
        // B73: cut vocabularies may lack single bytes
        if (id == TOK_NONE)
            return err_set(e, ERR_INPUT,
                           "%s: no token begins with byte 0x%02X, which stands at byte %zu of the "
                           "text",
                           t->path, (unsigned char)s[at], at);
        int32_t v = (int32_t)id;
        if (!ids_add(out, &v, 1, e) || !tok_go_on(w, e))
            return false;
        w->done = at += len;
    }
    return true;
}

static bool piece(const tokenizer *t, int32_t id, tok_buf *out, err *e) {
    if (id == 0)
        return tok_buf_add(out, "", 0, e);
    if (t->vocab.len[id] == TOK_NONE)
        return err_set(e, ERR_INPUT, "%s: no token has the id %ld (ids go up to %ld)", t->path,
                       (long)id, (long)t->size - 1);
    return tok_buf_add(out, t->vocab.text + t->vocab.at[id], t->vocab.len[id], e);
}

// Characters may be cut between tokens: bytes are joined before they are read as UTF-8.
static bool decode(const tokenizer *t, const int32_t *v, size_t n, tok_buf *out, err *e) {
    tok_buf raw = {0};
    bool ok = tok_buf_add(&raw, "", 0, e);
    for (size_t i = 0; ok && i < n; i++)
        ok = piece(t, v[i], &raw, e);
    ok = ok && tok_utf8_lossy(out, raw.p, raw.n, e);
    free(raw.p);
    return ok;
}

static int hex(const char *s, const char *end, int digits, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < digits; i++, s++) {
        if (s >= end)
            return 0;
        int c = *s | 0x20, d = *s >= '0' && *s <= '9' ? *s - '0'
                               : c >= 'a' && c <= 'f' ? c - 87
                                                      : -1;
        if (d < 0)
            return 0;
        *out = *out * 16 + (uint32_t)d;
    }
    return digits;
}

// One escape behind its backslash: *used characters give a code point (a byte in bytes literals).
static bool escape(const char *s, const char *end, bool bytes, uint32_t *c, int *used) {
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    if (s >= end)
        return false;
    const char *known = *s ? strchr(letters, *s) : NULL;
    *used = 1;
    if (known) {
        *c = (unsigned char)values[known - letters];
        return true;
    }
    if (*s >= '0' && *s <= '7') { // octal, up to three digits
        *c = 0;
        for (*used = 0; *used < 3 && s + *used < end && s[*used] >= '0' && s[*used] <= '7'; ++*used)
            *c = *c * 8 + (uint32_t)(s[*used] - '0');
        return !bytes || *c < 256;
    }
    int digits = *s == 'x' ? 2 : bytes ? 0 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    *used = 1 + digits;
    return digits && hex(s + 1, end, digits, c) &&
           (*s == 'x' || (*c <= 0x10FFFF && (*c < 0xD800 || *c > 0xDFFF)));
}

// The bytes that a literal stands for. NULL or what is wrong with it.
static const char *literal(const char *s, const char *end, tok_buf *out, err *e) {
    bool bytes = s < end && *s == 'b';
    s += bytes;
    if (end - s < 2 || (*s != '\'' && *s != '"') || end[-1] != *s)
        return "the middle is no Python string or bytes literal";
    const char quote = *s++;
    for (end--; s < end;) {
        char put[4];
        const char *from = s;
        size_t n = 0;
        while (s < end && *s != quote && *s != '\\' && !(bytes && (unsigned char)*s >= 0x80))
            s++;
        n = (size_t)(s - from);
        if (n == 0 && *s == '\\') {
            uint32_t c = 0;
            int used = 0;
            if (!escape(s + 1, end, bytes, &c, &used))
                return "the literal has an escape that is not known";
            put[0] = (char)c;
            n = bytes ? 1 : (size_t)tok_char_put(c, put);
            from = put;
            s += 1 + used;
        } else if (n == 0) {
            return *s == quote ? "a quote stands inside the literal"
                               : "a bytes literal may hold only ASCII";
        }
        if (!tok_buf_add(out, from, n, e))
            return "out of memory";
    }
    return NULL;
}

// Digits from s on; -1: none, or the number is over TOK_ID_LIMIT.
static long number(const char *s, const char *end) {
    long v = 0;
    if (s == end)
        return -1;
    for (; s < end; s++) {
        if (*s < '0' || *s > '9' || v > TOK_ID_LIMIT)
            return -1;
        v = 10 * v + (*s - '0');
    }
    return v > TOK_ID_LIMIT ? -1 : v;
}

typedef struct line {
    const char *s, *end; // without the line end
    const char *from;    // of the literal
    const char *to;
    long id, length;
} line;

// Cuts at the first and at the last blank.
static bool cut(line *x) {
    const char *first = memchr(x->s, ' ', (size_t)(x->end - x->s)), *last = x->end;
    while (last > x->s && last[-1] != ' ')
        last--;
    if (!first || last <= first + 1)
        return false;
    x->from = first + 1;
    x->to = last - 1;
    x->id = number(x->s, first);
    x->length = number(last, x->end);
    return x->id > 0 && x->length > 0;
}

static bool next(const char **s, const char *end, line *x) {
    if (*s >= end)
        return false;
    const char *stop = memchr(*s, '\n', (size_t)(end - *s));
    x->s = *s;
    x->end = stop ? stop : end;
    *s = stop ? stop + 1 : end;
    if (x->end > x->s && x->end[-1] == '\r')
        x->end--;
    return true;
}

static bool add(tokenizer *t, const line *x, size_t row, tok_buf *text, err *e) {
    uint32_t other = 0;
    text->n = 0;
    const char *wrong = literal(x->from, x->to, text, e);
    bool ok = !wrong;
    if (wrong)
        err_set(e, ERR_INPUT, "line %zu: %s", row, wrong);
    else if ((size_t)x->length != text->n)
        ok = err_set(e, ERR_INPUT, "line %zu: the literal has %zu bytes, the line says %ld", row,
                     text->n, x->length);
    else if (!tok_vocab_add(&t->vocab, (uint32_t)x->id, text->p, text->n, &other))
        ok = other == TOK_NONE
                 ? err_set(e, ERR_INPUT, "line %zu: id %ld stands there twice", row, x->id)
                 : err_set(e, ERR_INPUT, "line %zu: the token is id %lu already", row,
                           (unsigned long)other);
    return ok && tok_trie_add(&t->raw, text->p, text->n, (uint32_t)x->id, e);
}

bool tok_load_world(tokenizer *t, const char *text, size_t n, err *e) {
    static const tok_other kind = {"RWKV World vocabulary", encode, decode, piece, NULL};
    const char *s = text, *end = text + n;
    size_t row = 0, entries = 0;
    long most = 0;
    line x;
    while (next(&s, end, &x)) {
        row++;
        if (x.s == x.end)
            continue;
        if (!cut(&x))
            return err_set(e, ERR_INPUT,
                           "line %zu: not \"id literal length\", which lines of an RWKV World "
                           "vocabulary are",
                           row);
        entries++;
        most = x.id > most ? x.id : most;
    }
    if (entries == 0)
        return err_set(e, ERR_INPUT, "no tokens in this file");
    t->other = &kind;
    t->size = (uint32_t)most + 1;
    t->eos = 0;
    // A literal is never shorter than its bytes.
    if (!tok_vocab_init(&t->vocab, t->size, entries, n, e))
        return false;
    tok_buf bytes = {0};
    bool ok = true;
    for (s = text, row = 0; ok && next(&s, end, &x);) {
        row++;
        ok = x.s == x.end || (cut(&x) && add(t, &x, row, &bytes, e));
    }
    free(bytes.p);
    return ok;
}
