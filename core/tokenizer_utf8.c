#include "core/mem.h"
#include "core/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tok_buf_add(tok_buf *b, const char *s, size_t n, err *e) {
    if (n > SIZE_MAX / 2 - b->n)
        return err_set(e, ERR_NOMEM, "out of memory: a text of %zu bytes", n);
    if (!mem_grow((void **)&b->p, &b->cap, b->n + n + 1, 1, "a text", e))
        return false;
    if (n)
        memcpy(b->p + b->n, s, n);
    b->n += n;
    b->p[b->n] = 0;
    return true;
}

bool tok_spans_add(tok_spans *s, size_t at, size_t n, bool front, err *e) {
    if (s->n == s->cap &&
        !mem_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v, "the pieces of a text", e))
        return false;
    s->v[s->n++] = (tok_span){at, n, front};
    return true;
}

bool ids_add(ids *x, const int32_t *v, size_t n, err *e) {
    if (n > x->cap - x->n &&
        !mem_grow((void **)&x->v, &x->cap, x->n + n, sizeof *x->v, "token ids", e))
        return false;
    for (size_t i = 0; i < n; i++)
        x->v[x->n + i] = v[i];
    x->n += n;
    return true;
}

void ids_free(ids *x) {
    free(x->v);
    *x = (ids){0};
}

// Table 3-7 of the Unicode standard: the second byte's range depends on the first; later bytes are
// 80..BF. What was good before the first byte that does not fit is the maximal bad part.
int tok_char_check(const char *s, size_t n, int *bad) {
    const unsigned char *u = (const unsigned char *)s;
    *bad = 1;
    if (u[0] < 0x80)
        return 1;
    int len = 0;
    unsigned low = 0x80, high = 0xBF;
    if (u[0] >= 0xC2 && u[0] <= 0xDF) {
        len = 2;
    } else if (u[0] >= 0xE0 && u[0] <= 0xEF) {
        len = 3;
        low = u[0] == 0xE0 ? 0xA0 : low;
        high = u[0] == 0xED ? 0x9F : high;
    } else if (u[0] >= 0xF0 && u[0] <= 0xF4) {
        len = 4;
        low = u[0] == 0xF0 ? 0x90 : low;
        high = u[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n || u[i] < low || u[i] > high)
            return 0;
        *bad = i + 1;
        low = 0x80, high = 0xBF;
    }
    return len;
}

// Bytes of s that are plain ASCII from the start, eight at a time.
static size_t ascii_run(const char *s, size_t n) {
    size_t i = 0;
    uint64_t w = 0;
    while (i + 8 <= n) {
        memcpy(&w, s + i, 8);
        if (w & 0x8080808080808080u)
            break;
        i += 8;
    }
    while (i < n && !((unsigned char)s[i] & 0x80))
        i++;
    return i;
}

// Length of the valid stretch at the start of s.
static size_t valid_run(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        i += ascii_run(s + i, n - i);
        int bad = 0, len = 0;
        while (i < n && ((unsigned char)s[i] & 0x80)) {
            len = tok_char_check(s + i, n - i, &bad);
            if (!len)
                return i;
            i += (size_t)len;
        }
    }
    return i;
}

bool tok_utf8_valid(const char *s, size_t n) {
    return valid_run(s, n) == n;
}

bool tok_utf8_lossy(tok_buf *b, const char *s, size_t n, err *e) {
    for (size_t i = 0; i < n;) {
        size_t good = valid_run(s + i, n - i);
        if (!tok_buf_add(b, s + i, good, e))
            return false;
        i += good;
        if (i == n)
            break;
        int bad = 0;
        tok_char_check(s + i, n - i, &bad);
        if (!tok_buf_add(b, "\xEF\xBF\xBD", 3, e))
            return false;
        i += (size_t)bad;
    }
    return true;
}

uint32_t tok_char(const char *s, int *len) {
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80)
        return *len = 1, u[0];
    if (u[0] < 0xE0)
        return *len = 2, (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
    if (u[0] < 0xF0)
        return *len = 3, (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
    *len = 4;
    return (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
}

int tok_char_put(uint32_t c, char out[4]) {
    if (c < 0x80)
        return out[0] = (char)c, 1;
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

// GPT-2's alphabet: bytes that print in Latin-1 stand for themselves, the other 68 take the code
// points from U+0100 on, in order.
static bool prints(unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

uint32_t tok_byte_char(unsigned char byte) {
    unsigned b = byte;
    if (prints(b))
        return b;
    if (b <= 0x20)
        return 0x100 + b;
    return b == 0xAD ? 0x100 + 67 : 0x100 + 33 + (b - 0x7F);
}

int tok_char_byte(uint32_t c) {
    if (c < 0x100)
        return prints(c) ? (int)c : -1;
    if (c <= 0x120)
        return (int)(c - 0x100);
    if (c <= 0x142)
        return (int)(c - 0x121 + 0x7F);
    return c == 0x143 ? 0xAD : -1;
}

bool tok_blank(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

const char *tok_show(const char *s, size_t n) {
    enum { COUNT = 4, SIZE = 400 };
    static _Thread_local char ring[COUNT][SIZE];
    static _Thread_local unsigned turn;
    char *out = ring[turn++ % COUNT];
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        if (used + 16 > SIZE - 4) {
            memcpy(out + used, "...", 4);
            return out;
        }
        int bad = 0, len = tok_char_check(s + i, n - i, &bad), chars = 1;
        if (len == 1 && s[i] >= 0x20 && s[i] != 0x7F && s[i] != '\\') {
            out[used++] = s[i];
        } else if (len == 1 && s[i] == '\\') {
            out[used++] = '\\', out[used++] = '\\';
        } else if (len > 1) {
            uint32_t c = tok_char(s + i, &chars);
            // C1 controls, and what turns the direction of a terminal line
            if (c < 0xA0 || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
                (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF) {
                used += (size_t)snprintf(out + used, SIZE - used, "\\u{%04X}", (unsigned)c);
            } else {
                memcpy(out + used, s + i, (size_t)len);
                used += (size_t)len;
            }
        } else {
            used += (size_t)snprintf(out + used, SIZE - used, "\\x%02X", (unsigned char)s[i]);
            len = 1;
        }
        i += (size_t)len;
    }
    out[used] = 0;
    return out;
}
