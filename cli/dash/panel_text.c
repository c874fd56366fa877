// Panel 5: the document around the cursor, token by token.
#include "cli/dash/panel.h"

#include <stdio.h>
#include <string.h>

static uint32_t shown(uint32_t cp, const char *at) {
    return *at == '\n' ? 0x21b5 : *at == '\t' ? 0x21e5 : cp;
}

// One step of the layout: a glyph, its width, and the token it belongs to.
typedef struct walker {
    const scene *x;
    int64_t token; // whose glyphs come next
    int stage;     // 0 opening sign, 1 text, 2 closing sign
    int64_t byte;  // next byte of the text
    char ids[32];  // text of a token without text
    int at;
} walker;

static bool surprising(const scene *x, int64_t t) {
    return t > 0 && t < x->read && x->r->loss[t] >= x->d->look.surprise;
}

static void begin(walker *w, const scene *x, int64_t token) {
    *w = (walker){.x = x, .token = token};
    if (x->text->offset)
        w->byte = x->text->offset[token];
}

// The next glyph; false at the end of the document. *attr: how it looks.
static bool next_glyph(walker *w, uint32_t *cp, int *width, int *attr, int64_t *token) {
    const scene *x = w->x;
    const reading *r = x->text;
    while (w->token < r->T) {
        int64_t t = w->token;
        bool cursor = t == x->t, loud = surprising(x, t);
        *attr = (cursor ? ATTR_REVERSE : 0) | (loud ? ATTR_UNDERLINE : 0);
        *token = t;
        *width = 1;
        if (w->stage == 0) {
            w->stage = 1;
            w->at = 0;
            if (!r->offset)
                snprintf(w->ids, sizeof w->ids, "[%d]", r->d.ids[t]);
            if (cursor || loud) {
                *cp = cursor ? 0xab : 0x2039;
                return true;
            }
        }
        if (w->stage == 1 && !r->offset && w->ids[w->at]) {
            *cp = (uint32_t)w->ids[w->at++];
            return true;
        }
        if (w->stage == 1 && r->offset && w->byte < r->offset[t + 1]) {
            // A character over a border belongs to the token with its first byte.
            const char *p = r->text + w->byte;
            size_t n = surface_char(p, (size_t)(r->offset[r->T] - w->byte), cp, width);
            *cp = shown(*cp, p);
            w->byte += (int64_t)n;
            if (*width > 0)
                return true;
            continue;
        }
        w->stage = 0;
        w->token++;
        if (cursor || loud) {
            *cp = cursor ? 0xbb : 0x203a;
            return true;
        }
    }
    return false;
}

// Cells of one token with its signs.
static int token_cells(const scene *x, int64_t t) {
    walker w;
    uint32_t cp;
    int width, attr, cells = 0;
    int64_t token;
    begin(&w, x, t);
    while (next_glyph(&w, &cp, &width, &attr, &token) && token == t)
        cells += width;
    return cells;
}

// The first token to show so that the cursor stands in the middle.
static int64_t first_token(const scene *x, int cells) {
    int64_t t = x->t < x->text->T ? x->t : x->text->T - 1;
    int before = 0;
    while (t > 0 && before < cells) {
        before += token_cells(x, t - 1);
        if (before >= cells)
            break;
        t--;
    }
    return t;
}

// Cells of the cursor's token and all behind it, counted up to `most`.
static int cells_from_cursor(const scene *x, int most) {
    int n = 0;
    for (int64_t t = x->t; t < x->text->T && n < most; t++)
        n += token_cells(x, t);
    return n;
}

// Lays the text out; draws when s is there, else looks for the token at a cell.
static int64_t walk(surface *s, rect r, const scene *x, int want_y, int want_x) {
    walker w;
    uint32_t cp;
    int width, attr, cy = r.y + 1, cx = r.x;
    int64_t token = -1, found = -1;
    int rows = r.h - 1, cells = rows * r.w / 2 - r.w / 2;
    // Rows that the end of the document would leave empty go to what stands before. A row may lose
    // a cell to a wide character.
    int left = rows * (r.w - 1) - cells_from_cursor(x, rows * r.w);
    cells = cells > left ? cells : left;
    begin(&w, x, first_token(x, cells > 8 ? cells : r.w / 2));
    while (next_glyph(&w, &cp, &width, &attr, &token)) {
        if (width > r.w)
            continue;
        if (cx + width > r.x + r.w) {
            cy++;
            cx = r.x;
        }
        if (cy >= r.y + r.h)
            break;
        if (s) {
            surface_put(s, cy, cx, cp, attr, INK_PLAIN);
            if (width == 2) {
                surface_put(s, cy, cx + 1, 0, attr, INK_PLAIN);
                cell *c = surface_at(s, cy, cx + 1);
                if (c)
                    c->cp = CELL_REST;
            }
        } else if (cy == want_y && want_x >= cx && want_x < cx + width) {
            found = token;
        }
        cx += width;
    }
    return found;
}

static void draw(surface *s, rect r, const scene *x) {
    char left[64], right[160] = "", at[32], a[24], name[24];
    scene_count(x->t, at, sizeof at);
    snprintf(left, sizeof left, "text @ %s", at);
    if (x->r && x->t < x->read) {
        int n = 0;
        int64_t where;
        if (x->t > 0)
            n = snprintf(right, sizeof right, "loss %.2f  ", x->r->loss[x->t]);
        n += snprintf(right + n, sizeof right - (size_t)n, "\u2039\u203a at least %g nats",
                      x->d->look.surprise);
        if (x->head >= 0 && r.w >= 64) {
            double rank = scene_rank(x, x->head, Q_ERANK, x->t, &where);
            if (where >= 0)
                n += snprintf(right + n, sizeof right - (size_t)n, "  erank a %s",
                              scene_number(rank, 4, a, sizeof a));
            double norm = scene_rank(x, x->head, Q_NORM, x->t, &where);
            if (where >= 0 && r.w >= 76)
                snprintf(right + n, sizeof right - (size_t)n, "  |H| %s",
                         scene_number(norm, 4, name, sizeof name));
        }
    }
    panel_title(s, r, x, PANEL_TEXT, left, right);
    if (!x->text) {
        panel_waits(s, r, x);
        return;
    }
    if (r.h >= 2)
        walk(s, r, x, 0, 0);
}

static void click(dash *d, const scene *x, rect r, int y, int at) {
    if (!x->text)
        return;
    int64_t t = walk(NULL, r, x, y, at);
    if (t >= 0)
        dash_move_to(d, t);
}

const panel panel_text = {
    .number = PANEL_TEXT,
    .name = "text",
    .what = "the document around the cursor; loud tokens between \u2039 and \u203a",
    .draw = draw,
    .click = click,
};
