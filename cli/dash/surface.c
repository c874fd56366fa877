#include "cli/dash/surface.h"

#include "core/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool surface_open(surface *s, int rows, int cols, err *e) {
    rows = rows < 1 ? 1 : rows > SURFACE_MOST ? SURFACE_MOST : rows;
    cols = cols < 1 ? 1 : cols > SURFACE_MOST ? SURFACE_MOST : cols;
    *s = (surface){rows, cols, NULL};
    s->cell = mem_zalloc((size_t)rows * (size_t)cols, sizeof *s->cell, "a screen", e);
    return s->cell != NULL;
}

void surface_close(surface *s) {
    free(s->cell);
    *s = (surface){0};
}

void surface_clear(surface *s) {
    memset(s->cell, 0, (size_t)s->rows * (size_t)s->cols * sizeof *s->cell);
}

cell *surface_at(surface *s, int y, int x) {
    if (y < 0 || x < 0 || y >= s->rows || x >= s->cols)
        return NULL;
    return &s->cell[(size_t)y * (size_t)s->cols + (size_t)x];
}

// Half of a wide character that is written over leaves a blank, not a broken pair.
static void break_pair(surface *s, int y, int x) {
    cell *c = surface_at(s, y, x), *next = surface_at(s, y, x + 1), *before;
    if (c->cp == CELL_REST && (before = surface_at(s, y, x - 1)))
        before->cp = 0;
    if (next && next->cp == CELL_REST)
        next->cp = 0;
}

void surface_put(surface *s, int y, int x, uint32_t cp, int attr, int ink) {
    cell *c = surface_at(s, y, x);
    if (!c)
        return;
    break_pair(s, y, x);
    *c = (cell){cp == ' ' ? 0 : cp, (uint8_t)attr, (uint8_t)ink};
}

static bool hidden(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

size_t surface_char(const char *text, size_t n, uint32_t *cp, int *width) {
    utf8proc_int32_t c = 0;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    *width = 1;
    if (len <= 0) {
        *cp = 0xb7;
        return 1;
    }
    *cp = (uint32_t)c;
    if (hidden(*cp) || utf8proc_category(c) == UTF8PROC_CATEGORY_CN ||
        utf8proc_category(c) == UTF8PROC_CATEGORY_CO)
        *cp = 0xb7;
    else
        *width = utf8proc_charwidth(c);
    return (size_t)len;
}

int surface_width(const char *text) {
    int w = 0, one;
    uint32_t cp;
    for (size_t n = strlen(text), k; n; text += k, n -= k) {
        k = surface_char(text, n, &cp, &one);
        w += one;
    }
    return w;
}

int surface_bytes(surface *s, int y, int x, int max, int attr, int ink, const char *text,
                  size_t n) {
    int at = 0;
    if (x + max > s->cols)
        max = s->cols - x;
    while (n) {
        uint32_t cp;
        int w;
        size_t k = surface_char(text, n, &cp, &w);
        text += k;
        n -= k;
        if (w == 0)
            continue;
        if (at + w > max)
            break;
        surface_put(s, y, x + at, cp, attr, ink);
        if (w == 2) {
            surface_put(s, y, x + at + 1, 0, attr, ink);
            cell *rest = surface_at(s, y, x + at + 1);
            if (rest)
                rest->cp = CELL_REST;
        }
        at += w;
    }
    return at;
}

int surface_text(surface *s, int y, int x, int max, int attr, int ink, const char *text) {
    return surface_bytes(s, y, x, max, attr, ink, text, strlen(text));
}

int surface_printf(surface *s, int y, int x, int max, int attr, int ink, const char *fmt, ...) {
    char buf[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    return surface_text(s, y, x, max, attr, ink, buf);
}

int surface_hints(surface *s, int y, int x, int max, int attr, int ink, const char *const *hint,
                  int n) {
    int used = 0;
    for (int i = 0; i < n; i++) {
        int gap = used ? 2 : 0;
        if (used + gap + surface_width(hint[i]) <= max)
            used += gap + surface_text(s, y, x + used + gap, max - used - gap, attr, ink, hint[i]);
    }
    return used;
}

int surface_right(surface *s, int y, int x, int max, int attr, int ink, const char *text) {
    int w = surface_width(text);
    if (w > max)
        return x + max;
    surface_text(s, y, x + max - w, w, attr, ink, text);
    return x + max - w;
}

void surface_dot(surface *s, int y, int x, int ink) {
    static const unsigned char bit[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    cell *c = y < 0 || x < 0 ? NULL : surface_at(s, y / 4, x / 2);
    if (!c)
        return;
    if (c->cp < 0x2800 || c->cp > 0x28ff)
        *c = (cell){0x2800, c->attr & ATTR_DIM, (uint8_t)ink};
    c->cp |= bit[x % 2][y % 4];
}

void surface_fill(surface *s, rect r, uint32_t cp, int attr, int ink) {
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            surface_put(s, y, x, cp, attr, ink);
}

void surface_attr(surface *s, rect r, int attr) {
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++) {
            cell *c = surface_at(s, y, x);
            if (c)
                c->attr |= (uint8_t)attr;
        }
}

// Glyph sets --------------------------------------------------------------------------------------

// Two dots on two to a quadrant.
static uint32_t quadrants(uint32_t dots) {
    static const uint16_t quad[16] = {0,      0x2598, 0x259d, 0x2580, 0x2596, 0x258c,
                                      0x259e, 0x259b, 0x2597, 0x259a, 0x2590, 0x259c,
                                      0x2584, 0x2599, 0x259f, 0x2588};
    int q = (dots & 0x03 ? 1 : 0) | (dots & 0x18 ? 2 : 0) | (dots & 0x44 ? 4 : 0) |
            (dots & 0xa0 ? 8 : 0);
    return quad[q];
}

static uint32_t ascii(uint32_t cp) {
    static const struct {
        uint32_t cp;
        char as;
    } map[] = {{0x2500, '-'}, {0x2550, '='}, {0x2502, '|'}, {0x252c, '+'}, {0x253c, '+'},
               {0x2534, '+'}, {0x2524, '|'}, {0x250a, ';'}, {0x2577, ','}, {0xb7, '.'},
               {0xab, '['},   {0xbb, ']'},   {0x2039, '<'}, {0x203a, '>'}, {0x21b5, '$'},
               {0x21e5, '>'}, {0x2514, '+'}, {0x2026, '~'}, {0x2212, '-'}};
    if (cp < 0x80)
        return cp;
    if (cp >= 0x2800 && cp <= 0x28ff) {
        uint32_t upper = cp & 0x1b, lower = cp & 0xe4;
        return upper && lower ? ':' : upper ? '\'' : lower ? '.' : 0;
    }
    if (cp >= 0x2581 && cp <= 0x2588)
        return (uint32_t) ".:-=+%&#"[cp - 0x2581];
    if (cp >= 0x2589 && cp <= 0x258f) // bars from the left: seven eighths down to one
        return (uint32_t) "#&%+=-:"[cp - 0x2589];
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].cp == cp)
            return (uint32_t)map[i].as;
    return '?';
}

uint32_t surface_glyph(glyph_set set, uint32_t cp) {
    if (cp <= CELL_REST || set == GLYPHS_BRAILLE)
        return cp;
    if (set == GLYPHS_ASCII)
        return ascii(cp);
    return cp > 0x2800 && cp <= 0x28ff ? quadrants(cp & 0xff) : cp;
}

void surface_glyphs(surface *s, glyph_set set) {
    if (set == GLYPHS_BRAILLE)
        return;
    for (size_t i = 0; i < (size_t)s->rows * (size_t)s->cols; i++) {
        cell *c = &s->cell[i];
        // In ASCII a wide character keeps its two cells: "?" and a blank.
        c->cp = c->cp == CELL_REST && set == GLYPHS_ASCII ? 0 : surface_glyph(set, c->cp);
    }
}

void surface_line(const surface *s, int y, char *buf, size_t size) {
    const cell *row = s->cell + (size_t)y * (size_t)s->cols;
    int end = s->cols;
    size_t at = 0;
    while (end > 0 && row[end - 1].cp == 0)
        end--;
    for (int x = 0; x < end && at + 5 < size; x++) {
        if (row[x].cp == CELL_REST)
            continue;
        utf8proc_int32_t cp = row[x].cp ? (utf8proc_int32_t)row[x].cp : ' ';
        at += (size_t)utf8proc_encode_char(cp, (utf8proc_uint8_t *)buf + at);
    }
    buf[at] = 0;
}

void surface_attr_line(const surface *s, int y, char *buf, size_t size) {
    const cell *row = s->cell + (size_t)y * (size_t)s->cols;
    int end = 0;
    for (int x = 0; x < s->cols && (size_t)x + 1 < size; x++) {
        const cell *c = &row[x];
        char l = '.';
        if (c->ink >= INK_RAMP)
            l = (char)('0' + c->ink - INK_RAMP);
        else if (c->ink >= INK_A && c->ink <= INK_D)
            l = (char)('a' + c->ink - INK_A);
        else if (c->attr & ATTR_REVERSE)
            l = 'r';
        else if (c->attr & ATTR_UNDERLINE)
            l = 'u';
        else if (c->attr & ATTR_DIM)
            l = 'd';
        buf[x] = l;
        if (l != '.' || c->cp)
            end = x + 1;
    }
    buf[end < (int)size ? end : (int)size - 1] = 0;
}
