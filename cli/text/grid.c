#include "cli/text/grid.h"

#include "core/mem.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool grid_open(grid *g, int w, int h, bool utf8, bool colour, err *e) {
    *g = (grid){w, h, utf8, colour, NULL};
    size_t cells = 0;
    if (!mem_mul((size_t)w, (size_t)h, &cells))
        return err_set(e, ERR_NOMEM, "a text plot of %d x %d cells", w, h);
    g->cell = mem_zalloc(cells, sizeof *g->cell, "a text plot", e);
    if (!g->cell)
        return false;
    for (size_t i = 0; i < cells; i++)
        g->cell[i].colour = GRID_PLAIN;
    return true;
}

void grid_close(grid *g) {
    free(g->cell);
    g->cell = NULL;
}

grid_cell *grid_at(grid *g, int x, int y) {
    if (x < 0 || y < 0 || x >= g->w || y >= g->h)
        return NULL;
    return &g->cell[(size_t)y * (size_t)g->w + (size_t)x];
}

void grid_put(grid *g, int x, int y, uint32_t cp, int colour) {
    grid_cell *c = grid_at(g, x, y);
    if (c)
        *c = (grid_cell){cp, 0, (int16_t)colour};
}

// The character at s (valid UTF-8) and its width in cells.
static size_t next_char(const char *s, uint32_t *cp, int *width) {
    utf8proc_int32_t c = 0;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);
    if (n <= 0) {
        *cp = '?';
        *width = 1;
        return 1;
    }
    *cp = (uint32_t)c;
    *width = utf8proc_charwidth(c);
    return (size_t)n;
}

int grid_width(const char *s) {
    int w = 0;
    while (*s) {
        uint32_t cp;
        int one;
        s += next_char(s, &cp, &one);
        w += one;
    }
    return w;
}

int grid_text(grid *g, int x, int y, const char *s, int max, int colour) {
    int at = 0;
    while (*s) {
        uint32_t cp;
        int w;
        s += next_char(s, &cp, &w);
        if (w == 0) // a combining mark has no cell of its own here
            continue;
        if ((max >= 0 && at + w > max) || x + at + w > g->w)
            break;
        grid_put(g, x + at, y, cp, colour);
        if (w == 2)
            grid_put(g, x + at + 1, y, GRID_REST, colour);
        at += w;
    }
    return at;
}

// Bits of the Unicode braille block, by column and row of the dot.
static const unsigned char dot_bit[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};

void grid_dot(grid *g, long x, long y, int colour) {
    if (x < 0 || y < 0 || x >= 2L * g->w || y >= 4L * g->h)
        return;
    grid_cell *c = grid_at(g, (int)(x / 2), (int)(y / 4));
    c->dots |= dot_bit[x % 2][y % 4];
    c->colour = (int16_t)colour;
}

static uint32_t shown(const grid *g, const grid_cell *c) {
    if (c->cp)
        return c->cp;
    if (!c->dots)
        return ' ';
    if (g->utf8)
        return 0x2800u + c->dots;
    bool upper = c->dots & 0x1b, lower = c->dots & 0xe4;
    return upper && lower ? ':' : upper ? '\'' : '.';
}

static void put_utf8(FILE *out, uint32_t cp) {
    utf8proc_uint8_t b[4];
    utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)cp, b);
    fwrite(b, 1, (size_t)n, out);
}

bool grid_print(const grid *g, FILE *out) {
    for (int y = 0; y < g->h; y++) {
        const grid_cell *row = g->cell + (size_t)y * (size_t)g->w;
        int end = g->w, colour = GRID_PLAIN;
        while (end > 0 && shown(g, &row[end - 1]) == ' ')
            end--;
        for (int x = 0; x < end; x++) {
            if (row[x].cp == GRID_REST)
                continue;
            uint32_t cp = shown(g, &row[x]);
            int want = cp == ' ' ? colour : row[x].colour;
            if (g->colour && want != colour) {
                if (want == GRID_PLAIN)
                    fputs("\033[0m", out);
                else
                    fprintf(out, "\033[38;5;%dm", want);
                colour = want;
            }
            put_utf8(out, cp);
        }
        if (colour != GRID_PLAIN)
            fputs("\033[0m", out);
        fputc('\n', out);
    }
    return !ferror(out);
}

static const char *spelled(uint32_t cp) {
    static const struct {
        uint32_t cp;
        const char *as;
    } word[] = {{0x2212, "-"},     {0x03bb, "lambda"}, {0x03c0, "pi"},  {0x00d7, "x"},
                {0x2016, "||"},    {0x2026, "..."},    {0x00b7, "*"},   {0x03bc, "mu"},
                {0x03c3, "sigma"}, {0x2013, "-"},      {0x2014, "-"},   {0x00b2, "^2"},
                {0x03b2, "beta"},  {0x03b8, "theta"},  {0x221a, "sqrt"}};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (word[i].cp == cp)
            return word[i].as;
    return NULL;
}

char *grid_spell(const char *s, bool utf8, char *buf, size_t size) {
    size_t at = 0;
    buf[0] = 0;
    for (const char *p = s; *p;) {
        uint32_t cp;
        int w, n;
        size_t bytes = next_char(p, &cp, &w), room = size - at;
        const char *as = utf8 ? NULL : spelled(cp);
        if (as)
            n = snprintf(buf + at, room, "%s", as);
        else if (cp < 0x80 || utf8)
            n = snprintf(buf + at, room, "%.*s", (int)bytes, p);
        else
            n = snprintf(buf + at, room, "\\u{%04x}", (unsigned)cp);
        if (n < 0 || (size_t)n >= room) {
            buf[at] = 0;
            break;
        }
        at += (size_t)n;
        p += bytes;
    }
    return buf;
}

char *grid_escape(const char *s, bool utf8, char *buf, size_t size) {
    char whole[2048];
    text_escape(s, strlen(s), whole, sizeof whole);
    return grid_spell(whole, utf8, buf, size);
}

// Bytes of s that fit into `columns` cells.
static size_t fitting(const char *s, int columns) {
    size_t n = 0;
    int w = 0;
    while (s[n]) {
        uint32_t cp;
        int one;
        size_t bytes = next_char(s + n, &cp, &one);
        if (w + one > columns)
            break;
        w += one;
        n += bytes;
    }
    return n;
}

int grid_cut(FILE *out, const char *s, int columns) {
    int w = grid_width(s);
    if (w <= columns) {
        fputs(s, out);
        return w;
    }
    if (columns < 3)
        return 0;
    fprintf(out, "%.*s...", (int)fitting(s, columns - 3), s);
    return columns;
}

void grid_line(FILE *out, const char *s, int columns, bool utf8) {
    char line[2048];
    grid_cut(out, grid_escape(s, utf8, line, sizeof line), columns);
    fputc('\n', out);
}

void grid_wrap(FILE *out, const char *s, int columns, bool utf8) {
    char whole[2048];
    const char *p = grid_escape(s, utf8, whole, sizeof whole);
    while (*p) {
        size_t n = fitting(p, columns);
        if (n == 0)
            return;
        if (p[n] && p[n] != ' ') {
            size_t space = n;
            while (space > 0 && p[space] != ' ')
                space--;
            n = space > 0 ? space : n;
        }
        fprintf(out, "%.*s\n", (int)n, p);
        p += n;
        while (*p == ' ')
            p++;
    }
}
