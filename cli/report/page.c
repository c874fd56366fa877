#include "cli/report/page.h"

#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static block *add(page *p, block_kind kind, err *e) {
    if (!mem_grow((void **)&p->v, &p->room, p->n + 1, sizeof *p->v, "a page", e))
        return NULL;
    p->v[p->n] = (block){.kind = kind};
    return &p->v[p->n++];
}

static bool add_text(page *p, block_kind kind, int level, err *e, const char *fmt, va_list ap) {
    block *b = add(p, kind, e);
    if (!b)
        return false;
    b->level = level;
    if (vasprintf(&b->text, fmt, ap) >= 0)
        return true;
    b->text = NULL;
    p->n--;
    return err_set(e, ERR_NOMEM, "out of memory: a page");
}

#define WITH_TEXT(kind, level)                                                                     \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    bool ok = add_text(p, kind, level, e, fmt, ap);                                                \
    va_end(ap);                                                                                    \
    return ok

bool page_heading(page *p, int level, err *e, const char *fmt, ...) {
    WITH_TEXT(BLOCK_HEADING, level);
}

bool page_text(page *p, err *e, const char *fmt, ...) {
    WITH_TEXT(BLOCK_TEXT, 0);
}

bool page_item(page *p, item_weight weight, err *e, const char *fmt, ...) {
    WITH_TEXT(BLOCK_ITEM, (int)weight);
}

bool page_fold(page *p, err *e, const char *fmt, ...) {
    WITH_TEXT(BLOCK_FOLD_BEGIN, 0);
}

bool page_unfold(page *p, err *e) {
    return add(p, BLOCK_FOLD_END, e) != NULL;
}

bool page_table(page *p, figure *table, err *e) {
    block *b = table ? add(p, BLOCK_TABLE, e) : NULL;
    if (b)
        b->table = table;
    else
        figure_free(table);
    return b != NULL;
}

bool page_picture(page *p, const char *path, const char *text, bool colours, err *e) {
    block *b = add(p, BLOCK_PICTURE, e);
    if (!b)
        return false;
    b->level = colours;
    b->path = mem_strdup(path, e);
    b->text = mem_strdup(text, e);
    return b->path && b->text;
}

bool page_weigh_items(page *p, size_t from, size_t most, err *e) {
    // Insertion keeps the order of equals; there are few.
    for (size_t i = from + 1; i < p->n; i++) {
        block b = p->v[i];
        size_t k = i;
        for (; k > from && p->v[k - 1].level < b.level; k--)
            p->v[k] = p->v[k - 1];
        p->v[k] = b;
    }
    size_t n = p->n - from;
    if (n <= most)
        return true;
    if (!page_fold(p, e, "%zu more", n - most))
        return false;
    block fold = p->v[p->n - 1];
    memmove(p->v + from + most + 1, p->v + from + most, (n - most) * sizeof *p->v);
    p->v[from + most] = fold;
    return page_unfold(p, e);
}

void page_free(page *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].text);
        free(p->v[i].path);
        figure_free(p->v[i].table);
    }
    free(p->v);
    free(p->title);
    *p = (page){0};
}

char *page_shown(const char *text) {
    size_t room = 8 * strlen(text) + 1, at = 0;
    char *out = malloc(room);
    if (!out)
        return NULL;
    out[0] = 0;
    for (const char *c = text; *c;) {
        size_t n = strcspn(c, "\\");
        text_escape(c, n, out + at, room - at);
        at += strlen(out + at);
        c += n;
        for (; *c == '\\'; c++)
            out[at++] = '\\';
        out[at] = 0;
    }
    return out;
}

const char *page_cell(const column *c, size_t i, char *buf, size_t size) {
    buf[0] = 0;
    if (c->text)
        text_escape(c->text[i], strlen(c->text[i]), buf, size);
    else if (!isnan(c->num[i])) {
        // Zeros at the end stand ("3.400" beside "3.398"), but not in whole numbers.
        text_real(c->num[i], c->decimals, buf, size);
        if (isfinite(c->num[i]) && c->num[i] != rint(c->num[i]))
            snprintf(buf, size, "%#.*g", c->decimals, c->num[i]);
        size_t n = strlen(buf);
        if (n && buf[n - 1] == '.')
            buf[n - 1] = 0;
        // Thousands of tokens are no powers of ten.
        if (fabs(c->num[i]) >= 100 && fabs(c->num[i]) < 1e7)
            snprintf(buf, size, "%.0f", c->num[i]);
    }
    return buf;
}
