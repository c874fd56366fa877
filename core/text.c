#include "core/text.h"

#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of the UTF-8 character at s (n bytes left), 0 when it is not valid (overlong forms,
// surrogates and values above U+10FFFF included).
static size_t utf8_char(const unsigned char *s, size_t n, uint32_t *cp) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = s[0];
    size_t len = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t v = len == 1 ? c : c & (0x7f >> len);
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        v = v << 6 | (s[i] & 0x3f);
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    *cp = v;
    return len;
}

// Characters that are valid but change how the text around them is shown: C1 controls, marks and
// overrides of writing direction, line and paragraph separators, the byte-order mark.
static bool hidden(uint32_t c) {
    return (c >= 0x80 && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

char *text_escape(const char *s, size_t n, char *buf, size_t size) {
    const unsigned char *u = (const unsigned char *)s;
    size_t at = 0, cut = 0; // cut: the last border between characters with room for "..."
    if (size == 0)
        return buf;
    for (size_t i = 0; i < n;) {
        char piece[16];
        uint32_t cp = 0;
        size_t len = utf8_char(u + i, n - i, &cp), w;
        if (len == 0 || cp < 0x20 || cp == 0x7f)
            w = (size_t)snprintf(piece, sizeof piece, "\\x%02x", u[i]), len = 1;
        else if (hidden(cp))
            w = (size_t)snprintf(piece, sizeof piece, "\\u{%04x}", (unsigned)cp);
        else if (cp == '\\')
            w = 2, memcpy(piece, "\\\\", 2);
        else
            w = len, memcpy(piece, u + i, len);
        if (at + w >= size) {
            at = cut;
            for (int k = 0; k < 3 && at + 1 < size; k++)
                buf[at++] = '.';
            break;
        }
        memcpy(buf + at, piece, w);
        at += w;
        i += len;
        if (at + 3 < size)
            cut = at;
    }
    buf[at] = 0;
    return buf;
}

const char *text_show(const char *s) {
    enum { BUFFERS = 8, ROOM = 512 };
    static _Thread_local char ring[BUFFERS][ROOM];
    static _Thread_local unsigned next;
    char *buf = ring[next++ % BUFFERS];
    return text_escape(s ? s : "(none)", s ? strlen(s) : 6, buf, ROOM);
}

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

int text_natural_cmp(const char *a, const char *b) {
    const char *a0 = a, *b0 = b;
    while (*a && *b) {
        if (digit(*a) && digit(*b)) {
            while (*a == '0' && digit(a[1]))
                a++;
            while (*b == '0' && digit(b[1]))
                b++;
            size_t na = 0, nb = 0;
            while (digit(a[na]))
                na++;
            while (digit(b[nb]))
                nb++;
            if (na != nb)
                return na < nb ? -1 : 1;
            int c = memcmp(a, b, na);
            if (c != 0)
                return c < 0 ? -1 : 1;
            a += na, b += nb;
        } else {
            if (*a != *b)
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++, b++;
        }
    }
    if (*a || *b)
        return *a ? 1 : -1;
    // "07" and "7" read the same, but a sort and a search need an order without ties.
    int c = strcmp(a0, b0);
    return (c > 0) - (c < 0);
}

int text_near(const char *word) {
    return (int)(strlen(word) / 3);
}

int text_distance(const char *a, const char *b, int limit) {
    enum { LONGEST = 256 };
    size_t na = strlen(a), nb = strlen(b), gap = na > nb ? na - nb : nb - na;
    if (limit < 0 || gap > (size_t)limit)
        return limit + 1;
    // The common ends cost nothing; what is left decides.
    while (na && nb && a[na - 1] == b[nb - 1])
        na--, nb--;
    while (na && nb && *a == *b)
        a++, b++, na--, nb--;
    if (nb >= LONGEST || na >= LONGEST)
        return limit + 1;
    int row[LONGEST];
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0], least = row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            int remove = row[j] + 1, insert = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < remove ? change : remove;
            if (insert < row[j])
                row[j] = insert;
            if (row[j] < least)
                least = row[j];
        }
        if (least > limit)
            return limit + 1;
    }
    return row[nb] <= limit ? row[nb] : limit + 1;
}

// The C locale as an object, so that neither setlocale nor another thread matters (fault B90).
static locale_t c_locale(void) {
    static locale_t made;
    locale_t have = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
    if (!have) {
        have = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        __atomic_store_n(&made, have, __ATOMIC_RELEASE);
    }
    return have;
}

void text_real(double x, int significant_digits, char *buf, size_t size) {
    if (x != x) { // never "-nan"
        snprintf(buf, size, "nan");
        return;
    }
    locale_t c = c_locale(), old = c ? uselocale(c) : (locale_t)0;
    snprintf(buf, size, "%.*g", significant_digits, x);
    if (c)
        uselocale(old);
}

bool text_number(const char *s, double *out) {
    char *end = NULL;
    // strtod would also take blanks in front and hexadecimal.
    if (!*s || !strchr("+-.0123456789iInN", *s) || strpbrk(s, "xXpP"))
        return false;
    locale_t c = c_locale();
    double x = c ? strtod_l(s, &end, c) : strtod(s, &end);
    if (end == s || *end)
        return false;
    *out = x;
    return true;
}

size_t text_utf8_bad(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    size_t bad = 0, i = 0;
    while (i < n) {
        // Eight plain bytes at a time: most text is that.
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, u + i, 8), (eight & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        unsigned char c = u[i++];
        if (c < 0x80)
            continue;
        // What the second byte may be (Unicode, table 3-7: no overlong form, no surrogate, nothing
        // above U+10FFFF), and how many more follow.
        unsigned char lo = 0x80, hi = 0xbf;
        int more = c >= 0xc2 && c <= 0xdf   ? 1
                   : c >= 0xe0 && c <= 0xef ? 2
                   : c >= 0xf0 && c <= 0xf4 ? 3
                                            : 0;
        if (c == 0xe0)
            lo = 0xa0;
        else if (c == 0xed)
            hi = 0x9f;
        else if (c == 0xf0)
            lo = 0x90;
        else if (c == 0xf4)
            hi = 0x8f;
        int left = more;
        while (left > 0 && i < n && u[i] >= lo && u[i] <= hi) {
            i++, left--;
            lo = 0x80, hi = 0xbf;
        }
        bad += more == 0 || left > 0;
    }
    return bad;
}
