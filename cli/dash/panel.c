#include "cli/dash/panel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DECLARE(name) extern const panel panel_##name;
PANEL_LIST(DECLARE)
#define ADDRESS(name) &panel_##name,
const panel *const panels[] = {PANEL_LIST(ADDRESS)};
const int n_panels = sizeof panels / sizeof *panels;

const panel *panel_find(int number) {
    for (int i = 0; i < n_panels; i++)
        if (panels[i]->number == number)
            return panels[i];
    return NULL;
}

const panel *panel_named(const char *name) {
    for (int i = 0; i < n_panels; i++)
        if (strcmp(panels[i]->name, name) == 0)
            return panels[i];
    return NULL;
}

void panel_title(surface *s, rect r, const scene *x, int number, const char *left,
                 const char *right) {
    if (r.h < 2)
        return;
    bool focus = x->d->focus == number;
    uint32_t line = focus ? 0x2550 : 0x2500;
    int attr = focus ? ATTR_BOLD : 0;
    for (int c = 0; c < r.w; c++)
        surface_put(s, r.y, r.x + c, line, attr, INK_PLAIN);
    char head[512];
    snprintf(head, sizeof head, "%d %s ", number, left);
    int used = surface_text(s, r.y, r.x + 1, r.w - 2, attr, INK_PLAIN, head);
    const char *state = x->stale && number != 0 && number != 5 ? "stale" : "";
    char tail[512];
    snprintf(tail, sizeof tail, " %s%s%s", state, *state && *right ? "  " : "", right);
    int w = surface_width(tail);
    if (w > 1 && used + w + 3 <= r.w)
        surface_text(s, r.y, r.x + r.w - w, w, attr, INK_PLAIN, tail);
    else if (*state && used + 8 <= r.w)
        surface_text(s, r.y, r.x + r.w - 6, 6, attr, INK_PLAIN, " stale");
}

void panel_why(surface *s, rect r, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int y = r.h >= 2 ? r.y + 1 + (r.h - 2) / 2 : r.y;
    // Wrapped at blanks over the rows there are.
    const char *p = text;
    for (; *p && y < r.y + r.h; y++) {
        int n = (int)strlen(p), room = r.w - 2;
        if (n > room && room > 0) {
            n = room;
            while (n > 0 && p[n] != ' ')
                n--;
            n = n ? n : room;
        }
        surface_bytes(s, y, r.x + 1, r.w - 1, ATTR_DIM, INK_PLAIN, p, (size_t)n);
        p += n;
        while (*p == ' ')
            p++;
    }
}

bool panel_waits(surface *s, rect r, const scene *x) {
    if (x->r && x->read > 0)
        return false;
    static const char *const stage[] = {"reading", "opening the device", "loading the weights",
                                        "reading the document",
                                        "the first tokens are on their way"};
    if (x->s->fatal.code != ERR_NONE)
        panel_why(s, r, "%s", x->s->fatal.text);
    else if (!x->d->in.document)
        panel_why(s, r, "no document: :open FILE reads one");
    else
        panel_why(s, r, "%s", stage[x->s->stage]);
    return true;
}

int panel_ramp(double v, double lo, double hi) {
    if (isnan(v))
        return -1;
    if (!(hi > lo))
        return 4;
    double p = (v - lo) / (hi - lo);
    int k = (int)(p * 8);
    return k < 0 ? 0 : k > 7 ? 7 : k;
}

uint32_t panel_block(int level) {
    return level < 0 ? 0 : 0x2581 + (uint32_t)level;
}

void panel_bar(surface *s, int y, int x, int cells, double part, int ink) {
    if (isnan(part))
        return;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    int eighths = (int)(part * cells * 8 + 0.5);
    for (int i = 0; i < cells && eighths > 0; i++, eighths -= 8)
        surface_put(s, y, x + i, eighths >= 8 ? 0x2588 : 0x2590 - (uint32_t)eighths, 0, ink);
}
