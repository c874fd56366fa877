// Header, GPU strip, message row, key bar and prompt; and the few lines of a tiny screen.
#include "cli/dash/keys.h"
#include "cli/dash/losses.h"
#include "cli/dash/paint.h"
#include "cli/head_list.h"
#include "core/precision.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

void paint_progress(const scene *x, char *buf, size_t size) {
    if (x->s->fatal.code && (!x->r || x->T == 0))
        snprintf(buf, size, "failed");
    else if (!x->d->in.document)
        snprintf(buf, size, "no document");
    else if (!x->r || x->T == 0)
        snprintf(buf, size, "reading");
    else if (x->read >= x->T)
        snprintf(buf, size, "done");
    else
        snprintf(buf, size, "%d%%", (int)(100 * x->read / x->T));
}

void paint_rate(const scene *x, char *buf, size_t size) {
    double v = x->live->rate;
    if (!x->live->on || !(v > 0))
        snprintf(buf, size, "- tok/s");
    else if (v < 1000)
        snprintf(buf, size, "%.0f tok/s", v);
    else if (v < 1e6)
        snprintf(buf, size, v < 1e5 ? "%.1fk tok/s" : "%.0fk tok/s", v / 1e3);
    else
        snprintf(buf, size, "%.2f Mtok/s", v / 1e6);
}

void paint_left(const scene *x, char *buf, size_t size) {
    double v = x->live->left;
    if (!x->live->on || v < 0)
        snprintf(buf, size, "- left");
    else
        snprintf(buf, size, "%d:%02d left", (int)ceil(v) / 60, (int)ceil(v) % 60);
}

// Words with two blanks between them, dropped from the right where there is no room.
typedef struct field_line {
    surface *s;
    int y, at, end;
} field_line;

static void field(field_line *l, int attr, const char *text) {
    int w = surface_width(text);
    int gap = l->at > 0 ? 2 : 0;
    if (!*text || l->at < 0)
        return;
    if (l->at + gap + w > l->end) {
        l->at = -1; // this and all that follow
        return;
    }
    surface_text(l->s, l->y, l->at + gap, w, attr, INK_PLAIN, text);
    l->at += gap + w;
}

static void model_row(surface *s, const scene *x, int y) {
    const card *c = dash_card(x->d);
    char device[160] = "", names[300] = "", a[160];
    if (x->s->device)
        snprintf(device, sizeof device, "%s %s", x->s->device, precision_name(x->s->prec));
    int w = surface_width(device);
    field_line l = {s, y, 0, s->cols - (w ? w + 2 : 0)};
    field(&l, ATTR_BOLD, "deltop");
    for (int i = 0; i < x->d->in.n_models; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s%s", i ? "  " : "",
                 x->d->in.n_models > 1 ? (char[]){(char)('a' + i), ' ', 0} : "",
                 x->d->in.model[i]->name);
    field(&l, ATTR_BOLD, names);
    if (c) {
        field(&l, 0, c->line[0]);
        if (s->cols >= 100 || !c->s.K)
            field(&l, 0, c->line[1]);
        else {
            const char *count = strrchr(c->line[1], ' ');
            char sizes[48];
            if (c->s.K == c->s.V)
                snprintf(sizes, sizeof sizes, "K=V=%d", c->s.K);
            else
                snprintf(sizes, sizeof sizes, "K=%d V=%d", c->s.K, c->s.V);
            snprintf(a, sizeof a, "%dx%d heads %s %s", c->n_layers, c->widest, sizes,
                     count ? count + 1 : "");
            field(&l, 0, a);
        }
        if (c->train_length > 0) {
            char n[32];
            snprintf(a, sizeof a, "trained at %s", scene_count(c->train_length, n, sizeof n));
            field(&l, 0, a);
        }
        if (c->s.K && c->s.beta_max > 0) {
            snprintf(a, sizeof a, "beta 0..%g", c->s.beta_max);
            field(&l, 0, a);
        }
        if (c->s.K)
            field(&l, 0,
                  c->s.decay == DECAY_NONE   ? "no decay gate"
                  : c->s.decay == DECAY_HEAD ? "decay per head"
                                             : "decay per channel");
    }
    if (w && w < s->cols)
        surface_right(s, y, 0, s->cols, 0, INK_PLAIN, device);
}

static void document_row(surface *s, const scene *x, int y) {
    const dash *d = x->d;
    char a[200], b[64], n[32], m[32], name[512];
    field_line l = {s, y, 0, s->cols};
    if (d->want.n_off) {
        snprintf(a, sizeof a, "abl %.180s",
                 head_list_name(d->want.off, d->want.n_off, name, sizeof name));
        field(&l, ATTR_REVERSE, a);
    }
    if (!d->in.document) {
        field(&l, 0, "no document: :open FILE reads one");
        return;
    }
    const char *slash = strrchr(d->in.document, '/');
    text_escape(slash ? slash + 1 : d->in.document, strlen(slash ? slash + 1 : d->in.document),
                name, sizeof name);
    field(&l, 0, name);
    if (d->want.paused)
        field(&l, ATTR_REVERSE, "paused");
    if (d->want.cancelled)
        field(&l, ATTR_REVERSE, "cancelled");
    bool failed = x->s->fatal.code != ERR_NONE;
    if (!x->r || x->T == 0 || failed) {
        static const char *const stage[] = {"reading", "opening the device", "loading the weights",
                                            "reading the document", "starting"};
        field(&l, failed ? ATTR_BOLD : 0, failed ? "failed: 0 tells why" : stage[x->s->stage]);
        if (!x->r)
            return;
    }
    int64_t read = x->read, T = x->T;
    const run *pass = x->r;
    if (read >= T && x->text->n_start)
        snprintf(a, sizeof a, "%s tok, %lld mark%s", scene_count(T, n, sizeof n),
                 (long long)x->text->n_start, x->text->n_start == 1 ? "" : "s");
    else
        snprintf(a, sizeof a, "%s tok", scene_count(T, n, sizeof n));
    if (read >= T) {
        field(&l, 0, a);
        paint_rate(x, b, sizeof b);
        snprintf(a, sizeof a, "forward done %s", b);
        field(&l, 0, a);
        if (x->s->to_refine > 0) {
            int percent = (int)(100 * x->s->refined / x->s->to_refine);
            snprintf(a, sizeof a, "erank 1/%d %d%%", atomic_load(&((run *)pass)->level), percent);
            field(&l, 0, a);
        } else if (x->r->n_heads) {
            snprintf(a, sizeof a, "erank 1/%d", atomic_load(&((run *)pass)->level));
            field(&l, 0, a);
        }
    } else {
        snprintf(a, sizeof a, "forward %s of %s %d%%", scene_count(read, n, sizeof n),
                 scene_count(T, m, sizeof m), (int)(100 * read / T));
        field(&l, 0, a);
        if (l.at >= 0 && l.at + 10 <= l.end) {
            double part = (double)read / (double)T;
            for (int i = 0; i < 8; i++)
                surface_put(s, y, l.at + 2 + i, 0xb7, 0, INK_PLAIN);
            panel_bar(s, y, l.at + 2, 8, part, INK_PLAIN);
            l.at += 10;
        }
        paint_rate(x, b, sizeof b);
        field(&l, 0, b);
        paint_left(x, b, sizeof b);
        field(&l, 0, b);
    }
    if (!isnan(run_loss_so_far(pass))) {
        snprintf(a, sizeof a, "loss %.3f", run_loss_so_far(pass));
        field(&l, 0, a);
    }
}

void paint_header(surface *s, const scene *x) {
    if (x->l.header.h >= 2) {
        model_row(s, x, x->l.header.y);
        document_row(s, x, x->l.header.y + 1);
        return;
    }
    const card *c = dash_card(x->d);
    char a[64], b[128];
    field_line l = {s, x->l.header.y, 0, s->cols};
    // One blank between the fields of a narrow row.
    paint_progress(x, a, sizeof a);
    snprintf(b, sizeof b, "%.40s %s", c ? c->name : "deltop", a);
    field(&l, 0, b);
    if (x->r && x->read > 1) {
        snprintf(a, sizeof a, "loss %.3f", run_loss_so_far(x->r));
        l.at -= l.at > 0;
        field(&l, 0, a);
        paint_rate(x, a, sizeof a);
        l.at -= l.at > 0;
        field(&l, 0, a);
    }
}

void paint_strip(surface *s, const scene *x) {
    if (x->l.strip.h == 0)
        return;
    field_line l = {s, x->l.strip.y, 0, s->cols};
    for (int i = 0; i < 8 && x->live->strip[i]; i++)
        field(&l, 0, x->live->strip[i]);
}

// Bottom ------------------------------------------------------------------------------------------

static void key_bar(surface *s, const scene *x, rect r) {
    size_t n;
    const key_row *rows = keys_rows(&n);
    char hidden[40] = "";
    for (int p = 0; p < PANELS; p++)
        if (x->l.hidden >> p & 1)
            snprintf(hidden + strlen(hidden), sizeof hidden - strlen(hidden), "%s%d",
                     *hidden ? " " : "hidden ", p);
    int tail = 6 + (*hidden ? 2 + (int)strlen(hidden) : 0), at = 0, room = r.w - tail;
    for (int rank = 1; rank <= 24; rank++)
        for (size_t i = 0; i < n; i++) {
            if (!rows[i].bar || rows[i].bar_rank != rank)
                continue;
            int w = surface_width(rows[i].bar) + 2;
            if (at + w > room)
                continue;
            surface_text(s, r.y, r.x + at, w, 0, INK_PLAIN, rows[i].bar);
            at += w;
        }
    if (at + 6 <= r.w)
        at += surface_text(s, r.y, r.x + at, 6, 0, INK_PLAIN, "q quit") + 2;
    if (*hidden && at + (int)strlen(hidden) <= r.w)
        surface_right(s, r.y, r.x, r.w, 0, INK_PLAIN, hidden);
}

enum { CARET_ROOM = 12, ERROR_ROOM = 60 };

static int prompt_shift(const prompt *p, int w) {
    int at = surface_width(p->kind == ':' ? ":" : "/");
    char before[PROMPT_MOST + 1];
    snprintf(before, sizeof before, "%.*s", p->at, p->text);
    int caret = at + surface_width(before);
    return caret >= w ? caret - w + CARET_ROOM : 0;
}

static void draw_prompt(surface *s, const scene *x, rect r) {
    const prompt *p = &x->d->prompt;
    char line[PROMPT_MOST + 2];
    int shift = prompt_shift(p, r.w);
    snprintf(line, sizeof line, "%c%s", p->kind, p->text);
    surface_fill(s, r, 0, 0, INK_PLAIN);
    // Whole characters are left out at the left.
    const char *from = line;
    for (int w = 0; w < shift && *from;) {
        uint32_t cp;
        int one;
        from += surface_char(from, strlen(from), &cp, &one);
        w += one;
    }
    int at = surface_text(s, r.y, r.x, r.w, ATTR_BOLD, INK_PLAIN, from);
    const char *side = p->error[0] ? p->error : p->offers;
    // The line stays open, so that it can be mended: how to get rid of it is said with the error.
    const char *leave = p->error[0] ? "; Esc leaves" : "";
    int tail = surface_width(leave), width = surface_width(side) + tail;
    if (width > r.w) // the reason before the way out
        leave = "", width -= tail, tail = 0;
    if (p->error[0] && p->error_at >= 0) {
        cell *c = surface_at(s, r.y, r.x + 1 + p->error_at - shift);
        if (c)
            c->attr |= ATTR_REVERSE;
    }
    // An error without room to be read behind the line covers its end: the next key shows that again.
    at += 3;
    if (p->error[0] && at + width > r.w && r.w - at < ERROR_ROOM) {
        at = r.w > width ? r.w - width : 0;
        surface_fill(s, (rect){r.y, r.x + at, 1, r.w - at}, 0, 0, INK_PLAIN);
    }
    if (!*side)
        return;
    int attr = p->error[0] ? ATTR_BOLD : ATTR_DIM, ink = p->error[0] ? INK_WARN : INK_PLAIN;
    at += surface_text(s, r.y, r.x + at, r.w - at - tail, attr, ink, side);
    surface_text(s, r.y, r.x + at, r.w - at, attr, ink, leave);
}

static rect prompt_row(const scene *x) {
    return x->l.message.h ? x->l.message : x->l.keys;
}

bool paint_caret(const scene *x, int *y, int *col) {
    const prompt *p = &x->d->prompt;
    if (!p->kind || x->l.lines)
        return false;
    rect r = prompt_row(x);
    char before[PROMPT_MOST + 1];
    snprintf(before, sizeof before, "%.*s", p->at, p->text);
    *y = r.y;
    *col = r.x + 1 + surface_width(before) - prompt_shift(p, r.w);
    return *col < r.w;
}

// On small screens an answer covers the key bar until the next key, and for 3 s at most.
static bool notice_stands(const scene *x) {
    return x->d->log.notice && !(x->live->on && x->live->now - x->d->log.shown_at > 3);
}

void paint_bottom(surface *s, const scene *x) {
    const dash *d = x->d;
    const message *m = dash_newest(d);
    key_bar(s, x, x->l.keys);
    if (d->prompt.kind) {
        draw_prompt(s, x, prompt_row(x));
        return;
    }
    if (!m)
        return;
    rect r = x->l.message;
    if (!r.h) {
        if (!notice_stands(x))
            return;
        r = x->l.keys;
        surface_fill(s, r, 0, 0, INK_PLAIN);
    }
    surface_text(s, r.y, r.x, r.w, m->level == ' ' ? 0 : ATTR_BOLD,
                 m->level == ' ' ? INK_PLAIN : INK_WARN, m->text);
}

// Lines -------------------------------------------------------------------------------------------

void paint_lines(surface *s, const scene *x) {
    char a[64], b[64], name[32];
    int w = s->cols, y = 0;
    if (w < 6) { // tenths of the progress, one digit
        char c = x->s->fatal.code ? '!' : x->T && x->read >= x->T ? '=' : '0';
        if (c == '0' && x->T)
            c = (char)('0' + 10 * x->read / x->T);
        surface_put(s, 0, 0, (uint32_t)c, 0, INK_PLAIN);
        return;
    }
    paint_progress(x, a, sizeof a);
    if (x->r && x->read > 1)
        surface_printf(s, y++, 0, w, 0, INK_PLAIN, "%s loss %.3f", a, run_loss_so_far(x->r));
    else
        surface_printf(s, y++, 0, w, 0, INK_PLAIN, "%s", a);
    if (x->r && x->t < x->read && x->t > 0)
        surface_printf(s, y++, 0, w, 0, INK_PLAIN, "@%s loss %.2f", scene_count(x->t, a, sizeof a),
                       x->r->loss[x->t]);
    else
        surface_printf(s, y++, 0, w, 0, INK_PLAIN, "@%s", scene_count(x->t, a, sizeof a));
    if (x->head >= 0) {
        int64_t at;
        double v = scene_rank(x, x->head, Q_ERANK, x->t, &at);
        if (at >= 0)
            snprintf(b, sizeof b, "%s", scene_number(v, 4, a, sizeof a));
        else
            snprintf(b, sizeof b, "?");
        surface_printf(s, y++, 0, w, 0, INK_PLAIN, "%s erank %s",
                       scene_head_name(x, x->head, name, sizeof name), b);
    }
    paint_rate(x, a, sizeof a);
    paint_left(x, b, sizeof b);
    char *blank = strchr(b, ' ');
    if (blank)
        *blank = 0;
    surface_printf(s, y++, 0, w, 0, INK_PLAIN, "%s %s", a, b);
    surface_text(s, y, 0, w, 0, INK_PLAIN, "q quit  : command");
    // What was asked and answered takes the last row, however few there are.
    const message *m = dash_newest(x->d);
    rect last = {s->rows - 1, 0, 1, w};
    if (x->d->prompt.kind) {
        draw_prompt(s, x, last);
    } else if (m && m->level != ' ' && notice_stands(x)) {
        surface_fill(s, last, 0, 0, INK_PLAIN);
        surface_text(s, last.y, 0, w, ATTR_BOLD, INK_WARN, m->text);
    }
}
