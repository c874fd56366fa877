#include "cli/dash/heads_table.h"

#include "cli/dash/heads.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 4096, NAME_W = 8, COLUMN_W = 7, HEAD_ROWS = 2 };

// Heads in their order, and the first one on screen: the cursor's stands in the middle.
typedef struct rows {
    int head[MOST], n, first;
} rows;

static void list(rows *l, rect r, const scene *x) {
    int at = 0, shown = r.h - HEAD_ROWS;
    l->n = heads_sorted(x, l->head, MOST);
    for (int i = 0; i < l->n; i++)
        if (l->head[i] == x->head)
            at = i;
    l->first = at - shown / 2;
    l->first = l->first > l->n - shown ? l->n - shown : l->first;
    l->first = l->first < 0 ? 0 : l->first;
}

static void draw_row(surface *s, rect r, const scene *x, int y, int h, int col0, int shown) {
    const run_head *p = &x->r->head[h];
    char name[40];
    int attr = (h == x->head ? ATTR_REVERSE : 0) | (x->stale ? ATTR_DIM : 0);
    scene_head_name(x, h, name, sizeof name);
    char sign = heads_sign(x->d, p->layer, p->head);
    if (sign)
        strncat(name, &sign, 1);
    surface_text(s, y, r.x, NAME_W, attr, INK_PLAIN, name);
    for (int c = col0; c < TABLE_COLUMNS && c < col0 + shown; c++) {
        char text[32], state;
        double v = heads_value(x, c, h, &state);
        if (state)
            snprintf(text, sizeof text, "%c", state);
        else
            scene_number(v, 5, text, sizeof text);
        surface_right(s, y, r.x + NAME_W + (c - col0) * COLUMN_W, COLUMN_W - 1, attr, INK_PLAIN,
                      text);
    }
}

void heads_table_draw(surface *s, rect r, const scene *x) {
    rows l;
    list(&l, r, x);
    int shown = (r.w - NAME_W) / COLUMN_W, sort = x->d->look.sort, col0 = sort - shown + 1;
    col0 = col0 < 2 ? 2 : col0; // the sorted column is always in view
    surface_text(s, r.y + 1, r.x + 1, NAME_W, sort < 2 ? ATTR_REVERSE : ATTR_BOLD, INK_PLAIN,
                 sort == 1 ? "head" : "layer");
    for (int c = col0; c < TABLE_COLUMNS && c < col0 + shown; c++) {
        char text[32];
        snprintf(text, sizeof text, "%s%s", heads_column(c),
                 c == sort ? (x->d->look.invert ? "v" : "^") : "");
        surface_right(s, r.y + 1, r.x + NAME_W + (c - col0) * COLUMN_W, COLUMN_W - 1,
                      c == sort ? ATTR_REVERSE : ATTR_BOLD, INK_PLAIN, text);
    }
    for (int i = 0; i < r.h - HEAD_ROWS && l.first + i < l.n; i++)
        draw_row(s, r, x, r.y + HEAD_ROWS + i, l.head[l.first + i], col0, shown);
}

int heads_table_at(rect r, const scene *x, int y) {
    rows l;
    list(&l, r, x);
    int i = l.first + y - r.y - HEAD_ROWS;
    return y >= r.y + HEAD_ROWS && i < l.n ? l.head[i] : -1;
}
