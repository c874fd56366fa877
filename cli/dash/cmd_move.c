// Commands that move: tokens, heads, hits.
#include "cli/dash/cmd.h"
#include "cli/dash/paint.h"
#include "cli/dash/reading.h"
#include "cli/head_list.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_STEP = 10, TEXT_STEP = 16 };

static bool page_open(const dash *d) {
    return d->overlay != OVERLAY_NONE || !d->in.document;
}

static void scroll(dash *d, const scene *x, int by) {
    int to = d->scroll + by, most = d->log.n > 0 ? d->log.n - 1 : 0;
    if (page_open(d))
        to = page_scroll(x, to);
    else
        to = to > most ? most : to;
    d->scroll = to < 0 ? 0 : to;
}

// One step of an arrow in the focused panel.
static bool arrow(dash *d, const scene *x, int down, int right) {
    if (page_open(d))
        scroll(d, x, down);
    else if (d->focus == PANEL_MESSAGES)
        scroll(d, x, -down);
    else if (d->focus == 1 && d->look.table && x->r)
        dash_next_head(d, down + right);
    else if (d->focus == 1)
        dash_step_head(d, down, right);
    else
        dash_move_to(d, d->t + right + down * (d->focus == PANEL_TEXT ? TEXT_STEP : ROW_STEP));
    return true;
}

static bool left(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    return arrow(d, x, 0, -1);
}

static bool right(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    return arrow(d, x, 0, 1);
}

static bool up(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    return arrow(d, x, -1, 0);
}

static bool down(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    return arrow(d, x, 1, 0);
}

static bool move(dash *d, const scene *x, const char *rest, err *e) {
    int64_t n = 0;
    (void)x;
    if ((*rest != '+' && *rest != '-') || !cmd_tokens(rest + 1, &n, "move", e))
        return err_set(e, ERR_USAGE, "move: expected +N or -N tokens");
    dash_move_to(d, d->t + (*rest == '-' ? -n : n));
    return true;
}

static bool page(dash *d, const scene *x, const char *rest, err *e) {
    int by;
    if (!cmd_sign(rest, &by, "page", e))
        return false;
    if (page_open(d) || d->focus == PANEL_MESSAGES) {
        int rows = x->l.body.h > 2 ? x->l.body.h - 2 : 1;
        scroll(d, x, d->focus == PANEL_MESSAGES && !page_open(d) ? -by * rows : by * rows);
    } else if (d->focus == 1) {
        dash_step_head(d, 0, 0);
        for (int i = 0; i < 8; i++)
            dash_step_head(d, by, 0);
    } else {
        int64_t w = dash_t1(d) - d->t0;
        dash_move_to(d, d->t + by * (w / 10 > 1 ? w / 10 : 1));
    }
    return true;
}

static bool first(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    if (page_open(d))
        d->scroll = 0;
    else
        dash_move_to(d, 0);
    return true;
}

static bool last(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    if (page_open(d))
        scroll(d, x, 1 << 20);
    else
        dash_move_to(d, x->read > 0 ? x->read - 1 : d->T - 1);
    return true;
}

static bool head(dash *d, const scene *x, const char *rest, err *e) {
    head_ref h;
    const char *p = rest;
    int by;
    (void)x;
    if (head_list_one(&p, &h) && !*p) {
        if (!dash_head(d, h.layer, h.head))
            return err_set(e, ERR_USAGE, "there is no head L%d.H%d", h.layer, h.head);
        return true;
    }
    if (!cmd_direction(rest, &by, e)) {
        err_clear(e);
        return err_set(e, ERR_USAGE, "head: expected L.H like L1.H3, next or previous");
    }
    dash_next_head(d, by);
    return true;
}

static bool doc(dash *d, const scene *x, const char *rest, err *e) {
    int64_t n = 0;
    const reading *r = x->text;
    if (!r)
        return err_set(e, ERR_USAGE, "the document is not read yet");
    if (*rest >= '0' && *rest <= '9') {
        if (!cmd_tokens(rest, &n, "doc", e))
            return false;
        if (n < 1 || n > r->n_start + 1)
            return err_set(e, ERR_USAGE, "doc: there are %lld (1 is the beginning)",
                           (long long)r->n_start + 1);
        dash_move_to(d, n == 1 ? 0 : r->start[n - 2]);
        return true;
    }
    int by;
    if (!cmd_direction(rest, &by, e))
        return false;
    int64_t to = by > 0 ? -1 : 0;
    for (int64_t i = 0; i < r->n_start; i++) {
        if (by > 0 && r->start[i] > d->t) {
            to = r->start[i];
            break;
        }
        if (by < 0 && r->start[i] < d->t)
            to = r->start[i];
    }
    if (to < 0 || (by < 0 && d->t == 0))
        dash_say(d, ' ',
                 r->n_start ? "no document start %s here" : "no document starts or marks %s here",
                 by > 0 ? "behind" : "before");
    else
        dash_move_to(d, to);
    return true;
}

static bool surprise(dash *d, const scene *x, const char *rest, err *e) {
    const run *r = x->r;
    if (!r || x->read < 2)
        return err_set(e, ERR_USAGE, "no losses yet");
    if (strcmp(rest, "max") == 0) {
        int64_t best = 1;
        for (int64_t t = 1; t < x->read; t++)
            if (r->loss[t] > r->loss[best] || !isfinite(r->loss[best]))
                best = t;
        dash_move_to(d, best);
        dash_say(d, ' ', "the highest loss: %.2f nats at %lld", r->loss[best], (long long)best);
        return true;
    }
    int by;
    if (!cmd_direction(rest, &by, e))
        return false;
    for (int64_t t = d->t + by; t > 0 && t < x->read; t += by)
        if (r->loss[t] >= d->look.surprise) {
            dash_move_to(d, t);
            return true;
        }
    dash_say(d, ' ', "no token with %g nats or more %s here", d->look.surprise,
             by > 0 ? "behind" : "before");
    return true;
}

// Finding -----------------------------------------------------------------------------------------

static void go_to_hit(dash *d, const scene *x, int64_t i, const char *note) {
    d->search.at = i;
    dash_move_to(d, reading_token(x->text, d->search.hits.at[i]));
    dash_say(d, ' ', "find \"%s\": %lld of %zu%s; n next, N previous, Esc clears%s",
             text_show(d->search.text), (long long)i + 1, d->search.hits.n,
             d->search.hits.cut ? " or more (search cut short)" : "", note);
}

static bool search(dash *d, const scene *x, err *e) {
    if (!x->text || !x->text->offset)
        return err_set(e, ERR_USAGE,
                       x->text ? "find: these are ids without a text"
                               : "find: the document is not read yet");
    if (d->search.of == x->text)
        return true;
    found f;
    if (!find_all(x->text->text, (size_t)x->text->offset[x->text->T], d->search.text, false, &f, e))
        return false;
    found_free(&d->search.hits);
    d->search.hits = f;
    d->search.of = x->text;
    d->search.at = -1;
    return true;
}

static bool find(dash *d, const scene *x, const char *rest, err *e) {
    char before[PROMPT_MOST];
    if (!*rest)
        return err_set(e, ERR_USAGE, "find: what?");
    snprintf(before, sizeof before, "%s", d->search.text);
    snprintf(d->search.text, sizeof d->search.text, "%s", rest);
    d->search.of = NULL;
    if (!search(d, x, e)) {
        snprintf(d->search.text, sizeof d->search.text, "%s", before);
        return false;
    }
    if (d->search.hits.n == 0) {
        dash_say(d, '!', "find \"%s\": nothing in the %lld tokens read from the document%s",
                 text_show(rest), (long long)x->text->T,
                 d->search.hits.cut ? "; the pattern is too costly, the search was cut short" : "");
        return true;
    }
    for (size_t i = 0; i < d->search.hits.n; i++)
        if (reading_token(x->text, d->search.hits.at[i]) >= d->t) {
            go_to_hit(d, x, (int64_t)i, "");
            return true;
        }
    go_to_hit(d, x, 0, "; from the beginning again");
    return true;
}

static bool step_hit(dash *d, const scene *x, int by, err *e) {
    if (!d->search.text[0])
        return err_set(e, ERR_USAGE, "nothing to find again: / asks for it");
    if (!search(d, x, e))
        return false;
    if (d->search.hits.n == 0) {
        dash_say(d, '!', "find \"%s\": nothing", text_show(d->search.text));
        return true;
    }
    // From where the cursor is, which may have moved since.
    int64_t n = (int64_t)d->search.hits.n, i = by > 0 ? 0 : n - 1;
    if (by > 0)
        while (i < n && reading_token(x->text, d->search.hits.at[i]) <= d->t &&
               !(d->search.at >= 0 && i == d->search.at + 1))
            i++;
    else
        while (i >= 0 && reading_token(x->text, d->search.hits.at[i]) >= d->t &&
               !(d->search.at >= 0 && i == d->search.at - 1))
            i--;
    bool wrapped = i < 0 || i >= n;
    go_to_hit(d, x,
              i < 0    ? n - 1
              : i >= n ? 0
                       : i,
              !wrapped ? ""
              : by > 0 ? "; from the beginning again"
                       : "; from the end again");
    return true;
}

static bool find_next(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    return step_hit(d, x, 1, e);
}

static bool find_previous(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    return step_hit(d, x, -1, e);
}

static bool follow(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest, (void)e;
    bool on = !d->follow;
    if (on && x->read > 0)
        dash_move_to(d, x->read - 1);
    d->follow = on;
    dash_say(d, ' ', d->follow ? "the cursor follows the newest token" : "the cursor stays");
    return true;
}

static bool back(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    place p = d->last;
    dash_remember(d);
    if (p.open == 0)
        return true;
    d->t0 = p.t0;
    d->t1 = p.t1;
    d->open = p.open;
    d->focus = p.focus;
    d->zoom = p.zoom;
    dash_head(d, p.layer, p.head);
    dash_move_to(d, p.t);
    return true;
}

static bool go(dash *d, const scene *x, const char *rest, err *e) {
    if (!strchr("0123456789+-", *rest) || !*rest)
        return err_set(e, ERR_USAGE, "goto: expected a token like 5121, +200, -64 or 50%%");
    dash_remember(d);
    return cmd_run(d, x, rest, e);
}

const cmd cmd_moves[] = {
    {"left", "", COMPLETE_NONE, left},
    {"right", "", COMPLETE_NONE, right},
    {"up", "", COMPLETE_NONE, up},
    {"down", "", COMPLETE_NONE, down},
    {"move", "+N|-N", COMPLETE_NONE, move},
    {"page", "+1|-1", COMPLETE_NONE, page},
    {"first", "", COMPLETE_NONE, first},
    {"last", "", COMPLETE_NONE, last},
    {"goto", "N|+N|N%", COMPLETE_NONE, go},
    {"head", "L.H|next|previous", COMPLETE_HEAD, head},
    {"doc", "N|next|previous", COMPLETE_NONE, doc},
    {"surprise", "next|previous|max", COMPLETE_NONE, surprise},
    {"find", "TEXT", COMPLETE_NONE, find},
    {"find-next", "", COMPLETE_NONE, find_next},
    {"find-previous", "", COMPLETE_NONE, find_previous},
    {"follow", "", COMPLETE_NONE, follow},
    {"back", "", COMPLETE_NONE, back},
};
const size_t n_cmd_moves = sizeof cmd_moves / sizeof *cmd_moves;
