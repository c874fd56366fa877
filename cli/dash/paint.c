#include "cli/dash/paint.h"

#include <stdio.h>
#include <string.h>

// Where separators meet title rows, lines join.
static void join(surface *s, const layout *l) {
    for (int i = 0; i < l->n_sep; i++) {
        const separator *a = &l->sep[i];
        for (int y = a->y; y < a->y + a->h; y++)
            surface_put(s, y, a->x, 0x2502, 0, INK_PLAIN);
    }
    for (int i = 0; i < l->n_sep; i++) {
        const separator *a = &l->sep[i];
        bool above = false;
        for (int k = 0; k < l->n_sep; k++)
            above |= l->sep[k].x == a->x && l->sep[k].y + l->sep[k].h == a->y;
        surface_put(s, a->y, a->x, above ? 0x253c : 0x252c, 0, INK_PLAIN);
        // A title below without a separator of its own, where nothing is written.
        bool below = false;
        for (int k = 0; k < l->n_sep; k++)
            below |= l->sep[k].x == a->x && l->sep[k].y == a->y + a->h;
        cell *c = surface_at(s, a->y + a->h, a->x);
        if (!below && c && (c->cp == 0x2500 || c->cp == 0x2550) &&
            a->y + a->h < l->body.y + l->body.h)
            c->cp = 0x2534;
    }
}

static void draw_panels(surface *s, const scene *x) {
    for (int i = 0; i < n_panels; i++) {
        rect r = x->l.panel[panels[i]->number];
        if (r.h > 0)
            panels[i]->draw(s, r, x);
    }
    join(s, &x->l);
}

void paint_frame(surface *s, const scene *x) {
    if (x->l.lines) {
        paint_lines(s, x);
        return;
    }
    paint_header(s, x);
    paint_strip(s, x);
    if (page_draw(NULL, x, 0) > 0)
        page_draw(s, x, page_scroll(x, x->d->scroll));
    else
        draw_panels(s, x);
    paint_bottom(s, x);
}
