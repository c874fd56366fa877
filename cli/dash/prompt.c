// The line at the bottom: editing, history, completion.
#include "cli/dash/cmd.h"
#include "cli/dash/heads.h"
#include "cli/dash/panel.h"
#include "cli/dash/settings.h"
#include "core/mem.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void prompt_open(prompt *p, char kind, const char *text) {
    p->kind = kind;
    snprintf(p->text, sizeof p->text, "%s", text);
    p->n = p->at = (int)strlen(p->text);
    p->error[0] = p->offers[0] = p->kept[0] = 0;
    p->error_at = -1;
    p->recall = p->n_history;
}

void prompt_close(prompt *p) {
    p->kind = 0;
    p->text[0] = p->error[0] = p->offers[0] = 0;
    p->n = p->at = 0;
}

static void remember(prompt *p) {
    char line[PROMPT_MOST + 2];
    snprintf(line, sizeof line, "%c%s", p->kind, p->text);
    if (!p->text[0] || (p->n_history && strcmp(p->history[p->n_history - 1], line) == 0))
        return;
    if (p->n_history == HISTORY_MOST) {
        free(p->history[0]);
        memmove(p->history, p->history + 1, (HISTORY_MOST - 1) * sizeof *p->history);
        p->n_history--;
    }
    err e = {0};
    char *copy = mem_strdup(line, &e);
    if (copy)
        p->history[p->n_history++] = copy;
}

// The line before or after with the same kind.
static void recall(prompt *p, int by) {
    int i = p->recall + by;
    while (i >= 0 && i < p->n_history && p->history[i][0] != p->kind)
        i += by;
    if (i < 0 || i > p->n_history)
        return;
    if (p->recall == p->n_history)
        snprintf(p->kept, sizeof p->kept, "%s", p->text);
    p->recall = i;
    snprintf(p->text, sizeof p->text, "%s", i == p->n_history ? p->kept : p->history[i] + 1);
    p->n = p->at = (int)strlen(p->text);
}

static void insert(prompt *p, const char *s) {
    int k = (int)strlen(s);
    if (p->n + k >= PROMPT_MOST)
        return;
    memmove(p->text + p->at + k, p->text + p->at, (size_t)(p->n - p->at) + 1);
    memcpy(p->text + p->at, s, (size_t)k);
    p->at += k;
    p->n += k;
}

// Bytes of the character before or at a place.
static int before(const prompt *p) {
    int k = 1;
    while (p->at - k > 0 && ((unsigned char)p->text[p->at - k] & 0xc0) == 0x80)
        k++;
    return p->at > 0 ? k : 0;
}

static int after(const prompt *p) {
    int k = 1;
    while (p->at + k < p->n && ((unsigned char)p->text[p->at + k] & 0xc0) == 0x80)
        k++;
    return p->at < p->n ? k : 0;
}

static void erase(prompt *p, int at, int k) {
    memmove(p->text + at, p->text + at + k, (size_t)(p->n - at - k) + 1);
    p->n -= k;
    p->at = at;
}

// Completion --------------------------------------------------------------------------------------

typedef struct offer {
    const char *word;             // that is being completed
    char common[2 * PROMPT_MOST]; // beginning that all share
    char list[400];
    int n;
} offer;

static void add(offer *o, const char *name) {
    if (strncmp(name, o->word, strlen(o->word)) != 0)
        return;
    if (o->n == 0)
        snprintf(o->common, sizeof o->common, "%s", name);
    size_t k = 0;
    while (o->common[k] && o->common[k] == name[k])
        k++;
    o->common[k] = 0;
    size_t at = strlen(o->list);
    snprintf(o->list + at, sizeof o->list - at, "%s%s", at ? "  " : "", name);
    o->n++;
}

static void add_files(offer *o) {
    char pattern[2 * PROMPT_MOST + 2];
    size_t n = 0;
    for (const char *p = o->word; *p; p++) {
        if (strchr("*?[\\", *p))
            pattern[n++] = '\\';
        pattern[n++] = *p;
    }
    snprintf(pattern + n, sizeof pattern - n, "*");
    glob_t g;
    if (glob(pattern, GLOB_MARK, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++)
            add(o, g.gl_pathv[i]);
    globfree(&g);
}

static void add_heads(offer *o, const dash *d) {
    const card *c = dash_card(d);
    for (int L = 0; c && L < c->n_layers; L++)
        for (int h = 0; h < c->heads[L]; h++) {
            char name[32];
            snprintf(name, sizeof name, "L%d.H%d", L, h);
            add(o, name);
        }
}

// What Tab completes in a line: the last word, or the part of a list behind its comma. A file's name is
// all that stands behind the command (behind `open b`): it may hold blanks and commas.
static const char *word_of(const char *line, const cmd *c) {
    const char *blank = strrchr(line, ' '), *comma = strrchr(line, ',');
    const char *word = blank ? blank + 1 : line;
    if (blank && c && c->complete == COMPLETE_FILE) {
        word = line + strlen(c->name) + strspn(line + strlen(c->name), " ");
        if (strcmp(c->name, "open") == 0 && strncmp(word, "b ", 2) == 0)
            word += 1 + strspn(word + 1, " ");
        return word;
    }
    return comma && comma > word ? comma + 1 : word;
}

static void complete(dash *d) {
    prompt *p = &d->prompt;
    char line[PROMPT_MOST], name[64];
    size_t lead = strspn(p->text, " "), n;
    snprintf(line, sizeof line, "%.*s", p->at > (int)lead ? p->at - (int)lead : 0, p->text + lead);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " "), line);
    const cmd *c = cmd_find(name);
    const char *word = word_of(line, c);
    offer o = {.word = word};
    const cmd *all = cmd_table(&n);
    if (word == line) {
        for (size_t i = 0; i < n; i++)
            add(&o, all[i].name);
    } else {
        switch (c ? c->complete : COMPLETE_NONE) {
        case COMPLETE_NONE:
            break;
        case COMPLETE_METRIC:
            for (int i = 0; i < METRICS; i++)
                add(&o, metric_name((metric)i));
            break;
        case COMPLETE_HEAD:
            add_heads(&o, d);
            break;
        case COMPLETE_FILE:
            add_files(&o);
            break;
        case COMPLETE_SETTING:
            for (int i = 0; i < settings_count(); i++)
                add(&o, settings_name(i));
            break;
        case COMPLETE_PANEL:
            for (int i = 0; i < n_panels; i++)
                add(&o, panels[i]->name);
            break;
        }
    }
    if (o.n == 0)
        return;
    size_t have = strlen(word);
    if (strlen(o.common) > have)
        insert(p, o.common + have);
    if (o.n == 1 && p->n > 0 && p->text[p->at - 1] != '/')
        insert(p, " ");
    snprintf(p->offers, sizeof p->offers, "%s", o.n > 1 ? o.list : "");
}

// Keys --------------------------------------------------------------------------------------------

static void fail(prompt *p, const err *e, int at) {
    snprintf(p->error, sizeof p->error, "%.199s", e->text);
    p->error_at = at;
}

static void accept(dash *d, const scene *x) {
    prompt *p = &d->prompt;
    char text[PROMPT_MOST];
    char kind = p->kind;
    int at = -1;
    err e = {0};
    snprintf(text, sizeof text, "%s", p->text);
    if (kind == '\\') {
        const char *expr = text + (text[0] == '\\');
        if (*expr && !heads_check(x, expr, &at, &e)) {
            fail(p, &e, at);
            return;
        }
        snprintf(d->look.filter, sizeof d->look.filter, "%s", expr);
        remember(p);
        prompt_close(p);
        return;
    }
    // The prompt stands until the command has worked, so that nothing typed is lost. A command may
    // open another prompt.
    remember(p);
    p->kind = 0;
    char line[PROMPT_MOST + 8];
    snprintf(line, sizeof line, "%s%s", kind == '/' ? "find " : "", text);
    if (kind == '/' && !text[0])
        snprintf(line, sizeof line, "find-next");
    if (cmd_run(d, x, line, &e)) {
        if (!p->kind)
            prompt_close(p);
        return;
    }
    p->kind = kind;
    fail(p, &e, -1);
}

void prompt_key(dash *d, const scene *x, const char *key) {
    prompt *p = &d->prompt;
    p->error[0] = 0;
    p->error_at = -1;
    if (strcmp(key, "Tab") == 0) {
        if (p->kind == ':')
            complete(d);
        return;
    }
    p->offers[0] = 0;
    if (strcmp(key, "Enter") == 0)
        accept(d, x);
    else if (strcmp(key, "Esc") == 0 || strcmp(key, "^C") == 0 || strcmp(key, "F10") == 0)
        prompt_close(p);
    else if (strcmp(key, "Backspace") == 0 && p->n == 0)
        prompt_close(p);
    else if (strcmp(key, "Backspace") == 0)
        erase(p, p->at - before(p), before(p));
    else if (strcmp(key, "Delete") == 0)
        erase(p, p->at, after(p));
    else if (strcmp(key, "Left") == 0)
        p->at -= before(p);
    else if (strcmp(key, "Right") == 0)
        p->at += after(p);
    else if (strcmp(key, "Home") == 0 || strcmp(key, "^A") == 0)
        p->at = 0;
    else if (strcmp(key, "End") == 0 || strcmp(key, "^E") == 0)
        p->at = p->n;
    else if (strcmp(key, "^U") == 0)
        erase(p, 0, p->at);
    else if (strcmp(key, "^W") == 0) {
        int at = p->at;
        while (at > 0 && p->text[at - 1] == ' ')
            at--;
        while (at > 0 && p->text[at - 1] != ' ')
            at--;
        erase(p, at, p->at - at);
    } else if (strcmp(key, "Up") == 0)
        recall(p, -1);
    else if (strcmp(key, "Down") == 0)
        recall(p, 1);
    else if (strcmp(key, "Space") == 0)
        insert(p, " ");
    else if (key[0] != '^' || !key[1]) {
        // One character; names of keys have more than one and begin with a capital letter.
        uint32_t cp;
        int w;
        if (surface_char(key, strlen(key), &cp, &w) == strlen(key))
            insert(p, key);
    }
}
