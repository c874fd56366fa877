#include "cli/dash/cmd.h"

#include "cli/dash/keys.h"
#include "cli/dash/paint.h"
#include "core/mem.h"
#include "core/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMANDS_MOST = 96 };

const cmd *cmd_table(size_t *n) {
    static cmd all[COMMANDS_MOST];
    static size_t count;
    if (count == 0) {
        const cmd *part[] = {cmd_moves, cmd_views, cmd_grids, cmd_sciences, cmd_outs};
        const size_t size[] = {n_cmd_moves, n_cmd_views, n_cmd_grids, n_cmd_sciences, n_cmd_outs};
        for (int i = 0; i < 5; i++)
            for (size_t k = 0; k < size[i] && count < COMMANDS_MOST; k++)
                all[count++] = part[i][k];
    }
    *n = count;
    return all;
}

const cmd *cmd_find(const char *name) {
    size_t n;
    const cmd *c = cmd_table(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(c[i].name, name) == 0)
            return &c[i];
    return NULL;
}

bool cmd_tokens(const char *text, int64_t *out, const char *what, err *e) {
    if (!options_read_int(text, out) || *out < 0 || *out > (int64_t)1 << 40)
        return err_set(e, ERR_USAGE, "%s: \"%s\" is no number of tokens", what, text_show(text));
    return true;
}

bool cmd_direction(const char *text, int *out, err *e) {
    *out = 1;
    if (!*text || strcmp(text, "next") == 0)
        return true;
    *out = -1;
    if (strcmp(text, "previous") == 0)
        return true;
    return err_set(e, ERR_USAGE, "\"%s\": expected next or previous", text_show(text));
}

bool cmd_sign(const char *text, int *out, const char *what, err *e) {
    *out = strcmp(text, "-1") == 0 ? -1 : 1;
    if (*out < 0 || !*text || strcmp(text, "+1") == 0)
        return true;
    return err_set(e, ERR_USAGE, "%s: \"%s\": expected +1 or -1", what, text_show(text));
}

// 5121, +200, -64, 50%
static bool go_to(dash *d, const char *line, err *e) {
    int64_t n = 0;
    size_t len = strlen(line);
    if (len > 1 && line[len - 1] == '%') {
        char digits[32];
        double part;
        snprintf(digits, sizeof digits, "%.*s", (int)(len - 1), line);
        if (!text_number(digits, &part) || !(part >= 0 && part <= 100))
            return err_set(e, ERR_USAGE, "\"%s\": expected 0%% to 100%%", text_show(line));
        dash_move_to(d, (int64_t)(part / 100 * (double)(d->T - 1) + 0.5));
        return true;
    }
    bool relative = *line == '+' || *line == '-';
    if (!cmd_tokens(line + relative, &n, "position", e))
        return false;
    dash_move_to(d, relative ? d->t + (*line == '-' ? -n : n) : n);
    return true;
}

bool cmd_run(dash *d, const scene *x, const char *line, err *e) {
    char name[64], rest[PROMPT_MOST + 16];
    while (*line == ' ')
        line++;
    if (!*line)
        return true;
    if (isdigit((unsigned char)*line) || ((*line == '+' || *line == '-') && line[1]))
        return go_to(d, line, e);
    size_t n = strcspn(line, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, line);
    line += n;
    while (*line == ' ')
        line++;
    snprintf(rest, sizeof rest, "%s", line);
    for (size_t k = strlen(rest); k > 0 && rest[k - 1] == ' '; k--)
        rest[k - 1] = 0;
    const cmd *c = cmd_find(name);
    if (!c) {
        size_t many;
        int best = text_near(name) + 1;
        const cmd *all = cmd_table(&many), *near = NULL;
        for (size_t i = 0; i < many; i++) {
            int away = text_distance(name, all[i].name, best);
            if (away < best) {
                best = away;
                near = &all[i];
            }
        }
        return near ? err_set(e, ERR_USAGE, "no command \"%s\"; did you mean %s?", text_show(name),
                              near->name)
                    : err_set(e, ERR_USAGE, "no command \"%s\"; ? lists them", text_show(name));
    }
    if (!*c->args && *rest)
        return err_set(e, ERR_USAGE, "%s takes no arguments", c->name);
    return c->run(d, x, rest, e);
}

static void log_key(dash *d, const char *key) {
    err e = {0};
    size_t n = strlen(key) + 8;
    if (d->keys.n > 1 << 20 ||
        !mem_grow((void **)&d->keys.text, &d->keys.cap, d->keys.n + n, 1, "the key log", &e))
        return;
    d->keys.n += (size_t)sprintf(d->keys.text + d->keys.n, "key %s\n", key);
}

void cmd_key(dash *d, const scene *x, const char *key) {
    log_key(d, key);
    d->log.notice = false;
    if (d->prompt.kind) {
        prompt_key(d, x, key);
        return;
    }
    const char *command = keys_command(key);
    err e = {0};
    if (command && !cmd_run(d, x, command, &e))
        dash_say(d, '!', "%s", e.text);
}

void cmd_type(dash *d, const scene *x, const char *text) {
    while (*text) {
        uint32_t cp;
        int w;
        char one[8];
        size_t n = surface_char(text, strlen(text), &cp, &w);
        snprintf(one, sizeof one, "%.*s", (int)(n < 7 ? n : 7), text);
        cmd_key(d, x, strcmp(one, " ") == 0 ? "Space" : one);
        text += n;
    }
}

// Mouse -------------------------------------------------------------------------------------------

static int panel_at(const scene *x, int y, int col) {
    for (int p = 0; p < PANELS; p++) {
        rect r = x->l.panel[p];
        if (r.h > 0 && y >= r.y && y < r.y + r.h && col >= r.x && col < r.x + r.w)
            return p;
    }
    return -1;
}

void cmd_mouse(dash *d, const scene *x, int y, int col, int wheel, bool twice) {
    if (d->overlay != OVERLAY_NONE || !d->in.document) {
        d->scroll = page_scroll(x, d->scroll + 3 * wheel);
        return;
    }
    int p = panel_at(x, y, col);
    const panel *of = p < 0 ? NULL : panel_find(p);
    if (!of)
        return;
    d->focus = p;
    if (wheel && (p == 2 || p == 3 || p == 8)) { // the position axis, about the pointer
        int64_t t = d->t;
        if (of->click)
            of->click(d, x, x->l.panel[p], y, col);
        dash_zoom_view(d, wheel < 0 ? 0.5 : 2, d->t);
        d->t = t;
    } else if (wheel && p == PANEL_MESSAGES) {
        d->scroll = d->scroll - 3 * wheel < 0 ? 0 : d->scroll - 3 * wheel;
    } else if (wheel && p == 1) {
        dash_step_head(d, wheel, 0);
    } else if (wheel) {
        dash_move_to(d, d->t + 16 * wheel);
    } else if (twice) {
        d->zoom = !d->zoom;
    } else if (of->click) {
        of->click(d, x, x->l.panel[p], y, col);
    }
}

void cmd_drag(dash *d, const scene *x, int y0, int col0, int y1, int col1) {
    int p = panel_at(x, y0, col0);
    const panel *of = p < 0 ? NULL : panel_find(p);
    if (!of || !of->click || p == 1 || panel_at(x, y1, col1) != p)
        return;
    of->click(d, x, x->l.panel[p], y0, col0);
    int64_t a = d->t;
    of->click(d, x, x->l.panel[p], y1, col1);
    int64_t b = d->t;
    if (a > b) {
        int64_t c = a;
        a = b;
        b = c;
    }
    if (b - a >= 2) {
        dash_remember(d);
        dash_view(d, a, b + 1);
    }
}
