// Panel 0: what happened, newest last.
#include "cli/dash/panel.h"

#include <stdio.h>

static void draw(surface *s, rect r, const scene *x) {
    const dash *d = x->d;
    panel_title(s, r, x, PANEL_MESSAGES, "messages", "");
    int rows = r.h - 1, back = d->focus == PANEL_MESSAGES ? d->scroll : 0;
    int n = d->log.n, first = n - rows - back;
    first = first < 0 ? 0 : first;
    for (int i = 0; i < rows && first + i < n; i++) {
        const message *m = &d->log.v[(d->log.first + first + i) % MESSAGES_MOST];
        char when[32] = "    -";
        if (x->live->on && m->seconds >= 0)
            snprintf(when, sizeof when, "%5.2f", m->seconds);
        surface_printf(s, r.y + 1 + i, r.x, r.w, m->level == ' ' ? 0 : ATTR_BOLD,
                       m->level == ' ' ? INK_PLAIN : INK_WARN, "%s %c%s%s", when, m->level,
                       m->level == ' ' ? "" : " ", m->text);
    }
}

const panel panel_messages = {
    .number = PANEL_MESSAGES,
    .name = "messages",
    .what = "what happened, newest last",
    .draw = draw,
};
