#include "cli/dash/app.h"

#include "cli/dash/session_file.h"
#include "cli/dash/settings.h"
#include "cli/head_list.h"
#include "core/mem.h"
#include "core/text.h"

#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool heads_of(const char *option, const char *text, const model *m, head_ref *out, int most,
                     int *n, err *e) {
    head_ref list[HEAD_LIST_MOST];
    int k = 0;
    if (!text)
        return true;
    if (!head_list_read(text, list, &k, e) || (m && !fwd_check_heads(m, list, k, e)))
        return err_prefix(e, "option --%s", option);
    if (k > most)
        return err_set(e, ERR_USAGE, "option --%s: at most %d heads", option, most);
    memcpy(out, list, (size_t)k * sizeof *list);
    *n = k;
    return true;
}

static bool choose_panels(dash *d, const char *text, err *e) {
    unsigned open = 0;
    for (const char *p = text; *p;) {
        const panel *of = *p >= '0' && *p <= '9' ? panel_find(*p - '0') : NULL;
        if (!of || (p[1] && p[1] != ','))
            return err_set(e, ERR_USAGE,
                           "option --panels: \"%s\": expected numbers of panels like 1,2,5",
                           text_show(text));
        open |= 1u << of->number;
        p += p[1] ? 2 : 1;
    }
    d->open = open ? open : d->open;
    while (!(d->open >> d->focus & 1))
        d->focus = (d->focus + 1) % PANELS;
    return true;
}

static bool apply(app *a, err *e) {
    const view_options *v = a->v;
    dash *d = &a->d;
    const model *m = d->in.model[0]->x.m;
    head_ref h;
    int n = 0;
    if (v->at >= 0) {
        d->t = v->at;
        d->follow = false;
    }
    if (v->view) {
        char from[64] = "", to[64] = "";
        int64_t t0, t1;
        if (sscanf(v->view, "%63[^:]:%63s", from, to) != 2 || !cmd_tokens(from, &t0, "--view", e) ||
            !cmd_tokens(to, &t1, "--view", e) || t0 >= t1) {
            err_clear(e);
            return err_set(e, ERR_USAGE, "option --view: \"%s\": expected T0:T1, like 4k:8k",
                           text_show(v->view));
        }
        dash_view(d, t0, t1);
    }
    if (!heads_of("head", v->head, m, &h, 1, &n, e))
        return false;
    if (n)
        dash_head(d, h.layer, h.head);
    if (!heads_of("marked", v->marked, m, d->mark, MARKS_MOST, &d->n_marks, e) ||
        !heads_of("ablate", v->ablate, m, d->want.off, OFF_MOST, &d->want.n_off, e))
        return false;
    if (d->want.n_off)
        d->want.generation = d->want.next_generation++;
    if (v->metric >= 0)
        d->look.metric = (metric)v->metric;
    if (v->window)
        d->look.W = v->window;
    if (v->smooth >= 0)
        d->look.smooth = v->smooth;
    if (v->surprise >= 0)
        d->look.surprise = v->surprise;
    if (v->panels && !choose_panels(d, v->panels, e))
        return false;
    if (v->focus >= 0) {
        if (!panel_find((int)v->focus))
            return err_set(e, ERR_USAGE, "option --focus: there is no panel %d", (int)v->focus);
        d->open |= 1u << v->focus;
        d->focus = (int)v->focus;
    }
    if (v->zoom)
        d->zoom = true;
    if (v->glyphs >= 0)
        d->look.glyphs = (glyph_set)v->glyphs;
    if (v->ascii)
        d->look.glyphs = GLYPHS_ASCII;
    if (v->no_mouse)
        d->look.mouse = false;
    if (v->compare) {
        scene x = app_scene(a);
        char line[64];
        snprintf(line, sizeof line, "compare %.40s", v->compare);
        if (!cmd_run(d, &x, line, e))
            return err_prefix(e, "option --compare");
    }
    if (v->export == 9) { // its numbers are measured only when that is asked for
        scene x = app_scene(a);
        if (!cmd_run(d, &x, "bench", e))
            return false;
    }
    d->log.n = d->log.first = 0; // what these said is no news
    return true;
}

static bool open_inputs(app *a, err *e) {
    const options *o = a->o;
    const char *models[MODELS_MOST];
    const char *document = o->n_documents ? o->document[0] : NULL;
    int n = (int)o->n_models;
    if (n > MODELS_MOST)
        return err_set(e, ERR_USAGE, "view: at most %d models, got %d", MODELS_MOST, n);
    for (int i = 0; i < n; i++)
        models[i] = o->model[i];
    if (a->v->session) {
        char path[4200], *document_of = NULL;
        char *of[MODELS_MOST] = {0};
        int saved = 0;
        bool ok = session_path(strcmp(a->v->session, "last") == 0 ? "" : a->v->session, path,
                               sizeof path, e) &&
                  session_inputs(path, of, &saved, &document_of, e);
        memcpy(a->inputs, of, sizeof of);
        a->inputs[MODELS_MOST] = document_of;
        if (!ok || !(a->restored = mem_strdup(path, e)))
            return false;
        // The command line wins over the session.
        for (int i = 0; n == 0 && i < saved; i++)
            models[i] = of[i];
        n = n == 0 ? saved : n;
        document = document ? document : document_of;
    }
    if (n == 0)
        return err_set(
            e, ERR_USAGE,
            "view: a model is missing; usage: deltop [view] [OPTIONS] MODEL... [DOCUMENT]");
    for (int i = 0; i < n; i++) {
        card *c = card_open(models[i], o->train_length, e);
        if (!c)
            return false;
        a->d.in.model[a->d.in.n_models++] = c;
        if (document && !c->x.m) {
            const char *why = "cannot be run";
            for (size_t k = 0; k < c->x.n_findings; k++)
                why = c->x.finding[k].wrong ? c->x.finding[k].text : why;
            return err_set(e, ERR_UNSUPPORTED, "%s: %s", text_show(models[i]), why);
        }
    }
    if (document && !(a->d.in.document = mem_strdup(document, e)))
        return false;
    dash_head(&a->d, 0, 0);
    for (int L = 0; L < a->d.in.model[0]->n_layers && a->d.in.model[0]->heads[a->d.layer] == 0; L++)
        a->d.layer = L;
    return true;
}

bool app_open(app *a, const options *o, int rows, int cols, err *e) {
    *a = (app){.o = o, .v = o->own};
    dash_init(&a->d, o);
    // Curves need a character set that has them.
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        a->d.look.glyphs = GLYPHS_ASCII;
    glyph_set by_locale = a->d.look.glyphs;
    settings_load(&a->d, settings_path());
    if (by_locale == GLYPHS_ASCII)
        a->d.look.glyphs = GLYPHS_ASCII;
    message *kept = a->d.log.v;
    int warnings = a->d.log.n;
    if (!kept || !app_resize(a, rows, cols, e) || !open_inputs(a, e) ||
        (a->restored && !session_restore(&a->d, a->restored, e)))
        return false;
    int told = a->d.log.n;
    if (!apply(a, e))
        return false;
    a->d.log.n = told > warnings ? told : warnings;
    a->w = worker_start(o, a->v->mark, a->v->state_mem << 20, e);
    return a->w != NULL;
}

bool app_close(app *a, int milliseconds) {
    if (!worker_stop(a->w, milliseconds))
        return false;
    snap_drop(&a->s);
    surface_close(&a->screen);
    dash_free(&a->d);
    free(a->restored);
    for (int i = 0; i <= MODELS_MOST; i++)
        free(a->inputs[i]);
    return true;
}

bool app_resize(app *a, int rows, int cols, err *e) {
    surface fresh;
    if (!surface_open(&fresh, rows, cols, e))
        return false;
    surface_close(&a->screen);
    a->screen = fresh;
    a->rows = fresh.rows;
    a->cols = fresh.cols;
    // Other panels may be in view, and the worker may have nothing left that would make anybody ask.
    if (a->seq > 0)
        app_ask(a);
    return true;
}

void app_pump(app *a) {
    work_message m;
    worker_seen(a->w);
    while (worker_message(a->w, &m))
        dash_message(&a->d, m.level, m.seconds, m.text);
    worker_snap(a->w, &a->s);
    const run *r = a->s.shown[a->d.in.slot];
    if (r) {
        dash_set_length(&a->d, r->T);
        if (a->restored && a->check != r->of) {
            a->check = r->of;
            session_check_document(&a->d, r->of, a->restored);
        }
        int64_t read = run_read(r);
        if (a->d.follow && read > 0 && read - 1 != a->d.t) {
            dash_move_to(&a->d, read - 1);
            a->d.follow = true;
        }
        a->d.newest = read;
    }
    a->d.busy = a->seq > 0 && !app_idle(a);
}

void app_ask(app *a) {
    request r;
    unsigned visible = 0;
    layout l = layout_make(a->rows, a->cols, a->d.open, a->d.focus, a->d.zoom, a->gpu);
    for (int p = 0; p < PANELS; p++)
        visible |= l.panel[p].h ? 1u << p : 0;
    if (a->v->export >= 0)
        visible |= 1u << a->v->export;
    dash_request(&a->d, visible, &r);
    if (a->seq > 0 && memcmp(&r, &a->asked, sizeof r) == 0)
        return;
    a->asked = r;
    a->seq++;
    a->d.busy = true;
    worker_ask(a->w, &r);
}

scene app_scene(const app *a) {
    return scene_make(&a->d, &a->s, &a->live, a->rows, a->cols, a->gpu);
}

const surface *app_paint(app *a) {
    scene x = app_scene(a);
    surface_clear(&a->screen);
    paint_frame(&a->screen, &x);
    surface_glyphs(&a->screen, a->d.look.glyphs);
    return &a->screen;
}

bool app_idle(const app *a) {
    return a->s.served == a->seq || app_fatal(a)->code != ERR_NONE;
}

bool app_forward(const app *a) {
    if (!a->d.in.document)
        return true;
    for (int i = 0; i < a->d.in.n_models; i++) {
        const run *r = a->s.shown[i];
        if (!r || r->generation != (i == a->d.in.slot ? a->d.want.generation : 0))
            return false;
        int64_t read = run_read(r);
        if (read < r->T && (a->d.want.hold < 0 || read < a->d.want.hold))
            return false;
    }
    return true;
}

const err *app_fatal(const app *a) {
    return &a->s.fatal;
}
