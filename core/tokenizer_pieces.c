// Pre-tokenizer steps. A step takes spans of one text and gives spans of the same text (a split)
// or of a new one (what replaces or inserts characters).
#include "core/mem.h"
#include "core/tok.h"

#include <string.h>

typedef struct cutter {
    const tok_pre *p;
    tok_spans *out;
    size_t base;
    bool front;
    bool last_match;     // of the item before
    bool open;           // the last piece may grow
    size_t held, held_n; // SPLIT_NEXT: a match that waits for what follows
    err *e;
} cutter;

static bool emit(cutter *c, size_t at, size_t n) {
    return n == 0 || tok_spans_add(c->out, c->base + at, n, c->front && at == 0, c->e);
}

// A new piece, or more of the last one. An empty match makes an empty piece, which is not kept, but
// what joins it does not join the piece before.
static bool place(cutter *c, size_t at, size_t n, bool join) {
    if (join && c->open) {
        c->out->v[c->out->n - 1].n += n;
        return true;
    }
    c->open = n > 0;
    return emit(c, at, n);
}

// One stretch, match or gap, in order. The five behaviours are those of the library's Split.
static bool item(cutter *c, size_t at, size_t n, bool match) {
    match = match != c->p->invert;
    bool ok = true;
    switch (c->p->cut) {
    case SPLIT_REMOVED:
        ok = match || emit(c, at, n);
        break;
    case SPLIT_ISOLATED:
        ok = emit(c, at, n);
        break;
    case SPLIT_PREVIOUS:
        ok = place(c, at, n, match && !c->last_match);
        break;
    case SPLIT_CONTIGUOUS:
        ok = place(c, at, n, match == c->last_match);
        break;
    case SPLIT_NEXT:
        if (c->held_n && match)
            ok = emit(c, c->held, c->held_n);
        if (match) {
            c->held = at, c->held_n = n;
        } else {
            ok = ok && emit(c, c->held_n ? c->held : at, c->held_n + n);
            c->held_n = 0;
        }
        break;
    }
    c->last_match = match;
    return ok;
}

static bool split(const tok_pre *p, tok_work *w, const char *text, const tok_spans *in,
                  tok_spans *out, err *e) {
    for (size_t i = 0; i < in->n; i++) {
        const char *s = text + in->v[i].at;
        size_t n = in->v[i].n, done = 0, start = 0, end = 0;
        cutter c = {p, out, in->v[i].at, in->v[i].front, false, false, 0, 0, e};
        tok_find it = {0};
        bool found = true;
        while (true) {
            if (!tok_pattern_next(&p->pattern, &w->finder, &it, s, n, &start, &end, &found, e))
                return false;
            if (!found)
                break;
            if (!tok_go_on(w, e))
                return false;
            if (start > done && !item(&c, done, start - done, false))
                return false;
            if (!item(&c, start, end - start, true))
                return false;
            done = end;
        }
        if (done < n && !item(&c, done, n - done, false))
            return false;
        if (c.held_n && !emit(&c, c.held, c.held_n))
            return false;
    }
    return true;
}

// ' ' becomes the mark; a mark goes in front where the scheme says so.
static bool metaspace(const tok_pre *p, tok_work *w, const char *s, size_t n, bool front,
                      tok_buf *out, err *e) {
    bool marked = n >= p->mark_n && !memcmp(s, p->mark, p->mark_n);
    bool wanted = p->prepend == PREPEND_ALWAYS || (p->prepend == PREPEND_FIRST && front);
    if (wanted && !marked && s[0] != ' ' && !tok_buf_add(out, p->mark, p->mark_n, e))
        return false;
    for (size_t i = 0; i < n;) {
        const char *space = memchr(s + i, ' ', n - i);
        size_t k = space ? (size_t)(space - s) : n;
        if (!tok_go_on(w, e) || !tok_buf_add(out, s + i, k - i, e) ||
            (space && !tok_buf_add(out, p->mark, p->mark_n, e)))
            return false;
        i = k + (space != NULL);
    }
    return true;
}

static bool to_alphabet(const char *s, size_t n, tok_buf *out, err *e) {
    for (size_t i = 0; i < n; i++) {
        char one[4];
        int len = tok_char_put(tok_byte_char((unsigned char)s[i]), one);
        if (!tok_buf_add(out, one, (size_t)len, e))
            return false;
    }
    return true;
}

static bool rewrite(const tok_pre *p, tok_work *w, const char *text, const tok_spans *in,
                    tok_buf *buf, tok_spans *out, err *e) {
    for (size_t i = 0; i < in->n; i++) {
        const char *s = text + in->v[i].at;
        size_t n = in->v[i].n, at = buf->n;
        bool ok = true;
        if (p->kind == PRE_METASPACE)
            ok = metaspace(p, w, s, n, in->v[i].front, buf, e);
        else if (p->kind == PRE_BYTES)
            ok = to_alphabet(s, n, buf, e);
        else
            ok = (s[0] == ' ' || tok_buf_add(buf, " ", 1, e)) && tok_buf_add(buf, s, n, e);
        if (!ok || !tok_go_on(w, e) || !tok_spans_add(out, at, buf->n - at, in->v[i].front, e))
            return false;
    }
    return true;
}

bool tok_pieces(const tokenizer *t, tok_work *w, const char *s, size_t n, bool front,
                const char **text, const tok_spans **spans, err *e) {
    int k = 0, b = 0;
    const char *now = s;
    w->span[0].n = 0;
    if (n > 0 && !tok_spans_add(&w->span[0], 0, n, front, e))
        return false;
    for (size_t i = 0; i < t->n_pre; i++) {
        const tok_pre *p = &t->pre[i];
        tok_spans *out = &w->span[1 - k];
        out->n = 0;
        if (p->kind == PRE_SPLIT) {
            if (!split(p, w, now, &w->span[k], out, e))
                return false;
        } else {
            w->text[b].n = 0;
            if (!tok_buf_add(&w->text[b], "", 0, e) ||
                !rewrite(p, w, now, &w->span[k], &w->text[b], out, e))
                return false;
            now = w->text[b].p;
            b = 1 - b;
        }
        k = 1 - k;
    }
    *text = now;
    *spans = &w->span[k];
    return true;
}
