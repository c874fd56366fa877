// rules.ini: sections, `model` and `document` globs, and a rule a line.
#include "analyses/rules/rules.h"

#include "analyses/rules/names.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

// The file while it is read. Globs of a section hold for all of its rules, wherever they stand in it.
typedef struct reader {
    rules *r;
    int line;
    const char *start; // of the line
    char section[160]; // printable; "" before the first
    size_t first;      // rule of the section
    rule_globs model, document;
    err *e;
} reader;

// Characters from the start of the line to s, from 1 on.
static int column(const reader *x, const char *s) {
    int n = 1;
    for (const char *p = x->start; p < s; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return n;
}

static bool wrong(const reader *x, const char *at, const char *what) {
    return err_set(x->e, ERR_INPUT, "%s, line %d, character %d: %s", text_show(x->r->path), x->line,
                   column(x, at), what);
}

static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static char *skip(char *s) {
    while (blank(*s))
        s++;
    return s;
}

static void cut_end(char *s) {
    size_t n = strlen(s);
    while (n > 0 && blank(s[n - 1]))
        s[--n] = 0;
}

// A # or ; in front of the line or behind a blank begins a comment.
static void cut_comment(char *s) {
    for (char *p = s; *p; p++)
        if ((*p == '#' || *p == ';') && (p == s || blank(p[-1]))) {
            *p = 0;
            break;
        }
    cut_end(s);
}

static void globs_free(rule_globs *g) {
    for (size_t i = 0; i < g->n; i++)
        free(g->v[i]);
    free(g->v);
    *g = (rule_globs){0};
}

static bool globs_add(rule_globs *g, const char *s, err *e) {
    if (!mem_grow((void **)&g->v, &g->room, g->n + 1, sizeof *g->v, "globs", e) ||
        !(g->v[g->n] = mem_strdup(s, e)))
        return false;
    g->n++;
    return true;
}

static bool globs_copy(rule_globs *to, const rule_globs *from, err *e) {
    for (size_t i = 0; i < from->n; i++)
        if (!globs_add(to, from->v[i], e))
            return false;
    return true;
}

static bool end_section(reader *x) {
    rules *r = x->r;
    bool ok = true;
    if (x->first == r->n && (x->model.n || x->document.n))
        ok = err_set(x->e, ERR_INPUT, "%s: section [%s] has no rule", text_show(r->path),
                     x->section);
    for (size_t i = x->first; ok && i < r->n; i++)
        ok = globs_copy(&r->v[i].model, &x->model, x->e) &&
             globs_copy(&r->v[i].document, &x->document, x->e);
    globs_free(&x->model);
    globs_free(&x->document);
    x->first = r->n;
    return ok;
}

static bool begin_section(reader *x, char *s) {
    char *end = strchr(s, ']');
    if (!end)
        return wrong(x, s + strlen(s), "expected \"]\"");
    if (*skip(end + 1))
        return wrong(x, skip(end + 1), "expected the end of the line behind \"]\"");
    if (!end_section(x))
        return false;
    *end = 0;
    s = skip(s + 1);
    cut_end(s);
    if (!*s)
        return wrong(x, s, "expected a name between the brackets");
    text_escape(s, strlen(s), x->section, sizeof x->section);
    return true;
}

static bool name_rule(reader *x, rule *u, const char *name) {
    char shown[400], full[600];
    text_escape(name, strlen(name), shown, sizeof shown);
    snprintf(full, sizeof full, "%s%s%s", x->section, x->section[0] ? ": " : "", shown);
    for (size_t i = 0; i + 1 < x->r->n; i++)
        if (strcmp(x->r->v[i].name, full) == 0) {
            snprintf(full, sizeof full, "line %d has a rule of this name", x->r->v[i].line);
            return wrong(x, x->start, full);
        }
    return (u->name = mem_strdup(full, x->e)) != NULL;
}

// s: the expression in its line. name NULL: the rule is called by its text.
static bool add_rule(reader *x, const char *name, const char *s) {
    static const expr_language language = {0};
    rules *r = x->r;
    err why = {0};
    int at = 0;
    if (!mem_grow((void **)&r->v, &r->room, r->n + 1, sizeof *r->v, "rules", x->e))
        return false;
    rule *u = &r->v[r->n];
    memset(u, 0, sizeof *u);
    r->n++;
    u->line = x->line;
    u->column = column(x, s);
    u->text = mem_strdup(s, x->e);
    if (!u->text || !name_rule(x, u, name ? name : s))
        return false;
    for (int i = 0; i < EXPR_MOST; i++)
        u->of[i].left = EXPR_NONE;
    if (expr_parse(&u->x, u->text, &language, true, &at, &why) && rule_names(u, &at, &why))
        return true;
    return wrong(x, s + at, why.text);
}

// "name = expression", "model = glob", or an expression alone: a name holds none of <>!()*.
static bool read_line(reader *x, char *s) {
    char *equal = strchr(s, '=');
    char *odd = strpbrk(s, "<>!()*/");
    if (!equal || equal[1] == '=' || (odd && odd < equal))
        return add_rule(x, NULL, s);
    char *value = skip(equal + 1);
    if (equal == s)
        return wrong(x, s, "expected a name before \"=\"");
    if (!*value)
        return wrong(x, value, "expected something behind \"=\"");
    *equal = 0;
    cut_end(s);
    if (strcmp(s, "model") == 0)
        return globs_add(&x->model, value, x->e);
    if (strcmp(s, "document") == 0)
        return globs_add(&x->document, value, x->e);
    return add_rule(x, s, value);
}

static bool read_lines(reader *x, char *text) {
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next)
            *next++ = 0;
        x->line++;
        x->start = text;
        cut_comment(text);
        char *s = skip(text);
        if (*s && !(*s == '[' ? begin_section(x, s) : read_line(x, s)))
            return false;
    }
    return end_section(x);
}

bool rules_read(const char *path, rules *r, err *e) {
    size_t n = 0;
    *r = (rules){.path = mem_strdup(path, e)};
    char *text = r->path ? file_read(path, MOST_BYTES, &n, e) : NULL;
    bool ok = text != NULL;
    if (ok && memchr(text, 0, n))
        ok = err_set(e, ERR_INPUT, "%s: holds a NUL byte: is it text?", text_show(path));
    reader x = {.r = r, .e = e};
    size_t bom = n >= 3 && text && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    ok = ok && read_lines(&x, text + bom);
    globs_free(&x.model);
    globs_free(&x.document);
    if (ok && r->n == 0)
        ok = err_set(e, ERR_INPUT, "%s: holds no rule", text_show(path));
    free(text);
    if (!ok)
        rules_free(r);
    return ok;
}

void rules_free(rules *r) {
    for (size_t i = 0; i < r->n; i++) {
        rule *u = &r->v[i];
        free(u->name);
        free(u->text);
        globs_free(&u->model);
        globs_free(&u->document);
    }
    free(r->v);
    free(r->path);
    *r = (rules){0};
}
