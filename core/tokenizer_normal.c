// Normalizers. utf8proc decomposes and composes; the canonical order in between is ours, because
// utf8proc_decompose sorts by exchanging neighbours, which is quadratic in a run of marks.
#include "core/mem.h"
#include "core/tok.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int class_of(int32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
}

// Stable counting sort by combining class of the run c[0..n), all of class > 0.
static void sort_run(int32_t *c, int32_t *room, size_t n) {
    size_t at[257] = {0};
    for (size_t i = 0; i < n; i++)
        at[class_of(c[i]) + 1]++;
    for (int k = 1; k < 257; k++)
        at[k] += at[k - 1];
    for (size_t i = 0; i < n; i++)
        room[at[class_of(c[i])]++] = c[i];
    memcpy(c, room, n * sizeof *c);
}

static bool order_marks(int32_t *c, size_t n, err *e) {
    int32_t *room = NULL;
    size_t cap = 0;
    for (size_t i = 0; i < n;) {
        size_t k = i;
        bool sorted = true;
        while (k < n && class_of(c[k]) > 0) {
            sorted = sorted && (k == i || class_of(c[k - 1]) <= class_of(c[k]));
            k++;
        }
        if (!sorted) {
            if (!mem_grow((void **)&room, &cap, k - i, sizeof *room, "ordering marks", e)) {
                free(room);
                return false;
            }
            sort_run(c + i, room, k - i);
        }
        i = k + 1;
    }
    free(room);
    return true;
}

// NFC leaves every character below U+0300 as it is, the other forms only ASCII.
static bool settled(const tok_norm *f, const char *s, size_t n) {
    bool latin = f->compose && !f->compat;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= (latin ? 0xCC : 0x80))
            return false;
    return true;
}

static bool form(const tok_norm *f, tok_work *w, const char *s, size_t n, tok_buf *out, err *e) {
    if (settled(f, s, n))
        return tok_buf_add(out, s, n, e);
    int32_t *c = NULL;
    size_t used = 0, cap = 0;
    bool ok = false;
    int options = UTF8PROC_DECOMPOSE | (f->compat ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < n;) {
        int len = 0, last = 0;
        uint32_t x = tok_char(s + i, &len);
        if (!tok_go_on(w, e))
            goto done;
        if (used + 32 > cap && !mem_grow((void **)&c, &cap, used + 32, sizeof *c, "a text", e))
            goto done;
        // the longest decomposition of one character has 18 code points
        utf8proc_ssize_t k = utf8proc_decompose_char(
            (int32_t)x, c + used, (utf8proc_ssize_t)(cap - used), options, &last);
        if (k < 0 || (size_t)k > cap - used) {
            err_set(e, ERR_INPUT, "normalizing U+%04X failed", (unsigned)x);
            goto done;
        }
        used += (size_t)k;
        i += (size_t)len;
    }
    if (!order_marks(c, used, e))
        goto done;
    if (f->compose) {
        utf8proc_ssize_t k =
            utf8proc_normalize_utf32(c, (utf8proc_ssize_t)used, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
        used = k < 0 ? 0 : (size_t)k;
    }
    for (size_t i = 0; i < used; i++) {
        char one[4];
        if (!tok_go_on(w, e) ||
            !tok_buf_add(out, one, (size_t)tok_char_put((uint32_t)c[i], one), e))
            goto done;
    }
    ok = true;
done:
    free(c);
    return ok;
}

static bool replace(const tok_norm *f, tok_work *w, const char *s, size_t n, tok_buf *out, err *e) {
    tok_find it = {0};
    size_t start = 0, end = 0, done = 0;
    bool found = false;
    while (true) {
        if (!tok_pattern_next(&f->pattern, &w->finder, &it, s, n, &start, &end, &found, e))
            return false;
        if (!found)
            return tok_buf_add(out, s + done, n - done, e);
        if (!tok_go_on(w, e) || !tok_buf_add(out, s + done, start - done, e) ||
            !tok_buf_add(out, f->text, f->n, e))
            return false;
        done = end;
    }
}

static bool step(const tok_norm *f, tok_work *w, const char *s, size_t n, tok_buf *out, err *e) {
    switch (f->kind) {
    case NORM_FORM:
        return form(f, w, s, n, out, e);
    case NORM_PREPEND: // nothing in front of nothing
        return (n == 0 || tok_buf_add(out, f->text, f->n, e)) && tok_buf_add(out, s, n, e);
    case NORM_REPLACE:
        return replace(f, w, s, n, out, e);
    }
    return false;
}

bool tok_normalize(const tokenizer *t, tok_work *w, const char *s, size_t n, tok_buf *out, err *e) {
    tok_buf other = {0};
    bool ok = true;
    out->n = 0;
    if (t->n_norm == 0)
        return tok_buf_add(out, s, n, e);
    for (size_t k = 0; ok && k < t->n_norm; k++) {
        if (k > 0) { // what came out goes in
            tok_buf swap = other;
            other = *out;
            *out = swap;
            out->n = 0;
            s = other.p, n = other.n;
        }
        ok = step(&t->norm[k], w, s, n, out, e);
    }
    free(other.p);
    return ok;
}
