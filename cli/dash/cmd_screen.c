// Commands that change what is on screen.
#include "cli/dash/cmd.h"
#include "cli/dash/panel.h"
#include "cli/dash/settings.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

static bool show_panel(dash *d, const scene *x, const char *rest, err *e) {
    int by = 0;
    (void)x;
    d->overlay = OVERLAY_NONE;
    if (strcmp(rest, "next") == 0 || strcmp(rest, "previous") == 0) {
        by = *rest == 'n' ? 1 : -1;
        int p = d->focus;
        do
            p = (p + by + PANELS) % PANELS;
        while (!(d->open >> p & 1));
        d->focus = p;
        return true;
    }
    const panel *p = rest[0] >= '0' && rest[0] <= '9' && !rest[1] ? panel_find(rest[0] - '0')
                                                                  : panel_named(rest);
    if (!p)
        return err_set(e, ERR_USAGE, "no panel \"%s\"", text_show(rest));
    dash_remember(d);
    d->scroll = 0;
    dash_focus(d, p->number);
    return true;
}

static bool zoom(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    if (d->overlay != OVERLAY_NONE) {
        d->overlay = OVERLAY_NONE;
        return true;
    }
    dash_remember(d);
    d->zoom = !d->zoom;
    return true;
}

static bool zoom_in(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    dash_zoom_view(d, 0.5, d->t);
    return true;
}

static bool zoom_out(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    dash_zoom_view(d, 2, d->t);
    return true;
}

static bool fit(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->t0 = d->t1 = 0;
    return true;
}

static bool pan(dash *d, const scene *x, const char *rest, err *e) {
    int sign;
    (void)x;
    if (!cmd_sign(rest, &sign, "pan", e))
        return false;
    int64_t w = dash_t1(d) - d->t0, by = sign * (w / 2);
    if (d->t1 == 0)
        return true;
    int64_t t0 = d->t0 + by;
    t0 = t0 < 0 ? 0 : t0 + w > d->T ? d->T - w : t0;
    dash_view(d, t0, t0 + w);
    dash_move_to(d, d->t < t0 ? t0 : d->t >= t0 + w ? t0 + w - 1 : d->t);
    return true;
}

static bool view(dash *d, const scene *x, const char *rest, err *e) {
    char a[64] = "", b[64] = "";
    int64_t t0, t1;
    int end = 0;
    (void)x;
    if (sscanf(rest, "%63s %63s%n", a, b, &end) != 2 || rest[end] ||
        !cmd_tokens(a, &t0, "view", e) || !cmd_tokens(b, &t1, "view", e))
        return err_set(e, ERR_USAGE, "view: expected two positions, like view 4k 8k");
    if (t0 >= t1)
        return err_set(e, ERR_USAGE, "view: %s is not before %s", a, b);
    dash_remember(d);
    dash_view(d, t0, t1);
    if (d->t < d->t0 || d->t >= dash_t1(d))
        dash_move_to(d, t0);
    return true;
}

static bool value_axis(dash *d, const scene *x, const char *rest, err *e) {
    static const char *const names[] = {"linear", "log", "signed log"};
    (void)x, (void)rest, (void)e;
    d->look.scale = (value_scale)((d->look.scale + 1) % SCALE_AXES);
    dash_say(d, ' ', "value axis: %s", names[d->look.scale]);
    return true;
}

static bool toggle(dash *d, bool *what, const char *name) {
    *what = !*what;
    dash_say(d, ' ', "%s %s", name, *what ? "on" : "off");
    return true;
}

static bool autoscale(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    return toggle(d, &d->look.autoscale, "autoscale");
}

static bool same_scale(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    return toggle(d, &d->look.same_scale, "whole scale from zero");
}

static bool band(dash *d, const scene *x, const char *rest, err *e) {
    (void)x;
    if (strcmp(rest, "on") == 0 || strcmp(rest, "off") == 0)
        d->look.band = strcmp(rest, "off") == 0;
    else if (*rest)
        return err_set(e, ERR_USAGE, "band takes on or off");
    d->look.points = !d->look.band;
    return toggle(d, &d->look.band, "band of 10 to 90% and points");
}

static bool smooth(dash *d, const scene *x, const char *rest, err *e) {
    static const int64_t steps[] = {0, 1, 51, 501, 2001};
    (void)x;
    if (*rest)
        return settings_set(d, "smooth", rest, e);
    int i = 0;
    while (i < 5 && steps[i] != d->look.smooth)
        i++;
    d->look.smooth = steps[(i + 1) % 5];
    if (d->look.smooth)
        dash_say(d, ' ', "loss: mean of %lld tokens", (long long)d->look.smooth);
    else
        dash_say(d, ' ', "loss: mean of as many tokens as suits the length");
    return true;
}

static bool comparing(dash *d, const scene *x, const char *rest, err *e) {
    static const char *const names[COMPARES] = {"both", "a", "b", "a-b"};
    (void)x;
    if (d->in.n_models < 2)
        return err_set(e, ERR_USAGE,
                       "compare: there is one model; :open b MODEL loads a second one");
    int to = *rest ? -1 : (int)((d->look.compare + 1) % COMPARES);
    for (int i = 0; i < COMPARES; i++)
        if (strcmp(rest, names[i]) == 0)
            to = i;
    if (to < 0)
        return err_set(e, ERR_USAGE, "compare takes both, a, b or a-b");
    d->look.compare = (compare)to;
    d->in.slot = d->look.compare == COMPARE_B ? 1 : 0;
    if (!dash_head(d, d->layer, d->head)) {
        d->layer = d->head = 0;
        dash_step_head(d, 0, 0);
    }
    dash_say(d, ' ', "comparing: %s", names[to]);
    return true;
}

static bool open_page(dash *d, const scene *x, overlay o, err *e) {
    if (x->l.lines)
        return err_set(e, ERR_USAGE, "no room: 8 rows of 36");
    d->overlay = d->overlay == o ? OVERLAY_NONE : o;
    d->scroll = 0;
    return true;
}

static bool help(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    return open_page(d, x, OVERLAY_HELP, e);
}

static bool info(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    return open_page(d, x, OVERLAY_INFO, e);
}

static bool options_page(dash *d, const scene *x, const char *rest, err *e) {
    (void)rest;
    return open_page(d, x, OVERLAY_OPTIONS, e);
}

static bool set(dash *d, const scene *x, const char *rest, err *e) {
    char name[64] = "";
    (void)x;
    int n = (int)strcspn(rest, " =");
    snprintf(name, sizeof name, "%.*s", n, rest);
    const char *value = rest + n;
    while (*value == ' ' || *value == '=')
        value++;
    if (!*value)
        return err_set(e, ERR_USAGE, "set: expected NAME VALUE; o lists them");
    return settings_set(d, name, value, e);
}

static bool save_options(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest;
    if (!settings_save(d, settings_path(), e))
        return false;
    dash_say(d, ' ', "options kept in %s", text_show(settings_path()));
    return true;
}

static bool open_prompt(dash *d, const scene *x, const char *rest, err *e) {
    (void)x;
    if (strlen(rest) != 1 || !strchr(":/\\", *rest))
        return err_set(e, ERR_USAGE, "prompt: expected :, / or \\");
    prompt_open(&d->prompt, *rest, *rest == '\\' ? d->look.filter : "");
    return true;
}

// One thing at a time, the topmost first.
static bool escape(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    if (d->overlay != OVERLAY_NONE) {
        d->overlay = OVERLAY_NONE;
    } else if (d->search.text[0]) {
        d->search.text[0] = 0;
        found_free(&d->search.hits);
        d->search.of = NULL;
        d->search.at = -1;
        dash_say(d, ' ', "search cleared");
    } else if (d->zoom) {
        d->zoom = false;
    } else if (d->look.filter[0]) {
        d->look.filter[0] = 0;
        dash_say(d, ' ', "filter cleared");
    }
    return true;
}

static bool quit(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    if (d->overlay != OVERLAY_NONE)
        d->overlay = OVERLAY_NONE;
    else
        d->quit = true;
    return true;
}

static bool redraw(dash *d, const scene *x, const char *rest, err *e) {
    (void)x, (void)rest, (void)e;
    d->redraw = true;
    return true;
}

const cmd cmd_views[] = {
    {"panel", "N|NAME|next|previous", COMPLETE_PANEL, show_panel},
    {"zoom", "", COMPLETE_NONE, zoom},
    {"zoom-in", "", COMPLETE_NONE, zoom_in},
    {"zoom-out", "", COMPLETE_NONE, zoom_out},
    {"fit", "", COMPLETE_NONE, fit},
    {"pan", "+1|-1", COMPLETE_NONE, pan},
    {"view", "T0 T1", COMPLETE_NONE, view},
    {"axis", "", COMPLETE_NONE, value_axis},
    {"autoscale", "", COMPLETE_NONE, autoscale},
    {"same-scale", "", COMPLETE_NONE, same_scale},
    {"band", "on|off", COMPLETE_NONE, band},
    {"smooth", "N", COMPLETE_NONE, smooth},
    {"compare", "both|a|b|a-b", COMPLETE_NONE, comparing},
    {"help", "", COMPLETE_NONE, help},
    {"info", "", COMPLETE_NONE, info},
    {"options", "", COMPLETE_NONE, options_page},
    {"set", "NAME VALUE", COMPLETE_SETTING, set},
    {"save-options", "", COMPLETE_NONE, save_options},
    {"prompt", ":|/|\\", COMPLETE_NONE, open_prompt},
    {"escape", "", COMPLETE_NONE, escape},
    {"quit", "", COMPLETE_NONE, quit},
    {"redraw", "", COMPLETE_NONE, redraw},
};
const size_t n_cmd_views = sizeof cmd_views / sizeof *cmd_views;
