#include "cli/dash/dash.h"

#include "core/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const metric_names[METRICS] = {"erank", "norm", "growth", "gate",
                                                  "beta",  "rho",  "t1/2",   "abl"};

const char *metric_name(metric m) {
    return metric_names[m];
}

bool metric_find(const char *name, metric *out) {
    for (int i = 0; i < METRICS; i++)
        if (strcmp(name, metric_names[i]) == 0) {
            *out = (metric)i;
            return true;
        }
    return false;
}

void dash_init(dash *d, const options *o) {
    *d = (dash){.o = o,
                .open = 0x3fe, // all but the messages
                .focus = 1,
                .follow = true,
                .look = {.W = 32, .surprise = 6, .mouse = true},
                .search = {.at = -1},
                .log = {.shown_at = -10},
                .want = {.hold = -1, .next_generation = 1, .next_kernels = 1, .cancelled_at = -10}};
    snprintf(d->look.export_dir, sizeof d->look.export_dir, ".");
    d->prompt.error_at = -1;
    err e = {0};
    d->log.v = mem_zalloc(MESSAGES_MOST, sizeof *d->log.v, "messages", &e);
}

void dash_free(dash *d) {
    for (int i = 0; i < MODELS_MOST; i++)
        card_free(d->in.model[i]);
    for (int i = 0; i < d->in.n_documents_before; i++)
        free(d->in.documents_before[i]);
    for (int i = 0; i < d->prompt.n_history; i++)
        free(d->prompt.history[i]);
    free(d->in.document);
    free(d->log.v);
    free(d->keys.text);
    found_free(&d->search.hits);
    *d = (dash){0};
}

void dash_message(dash *d, char level, double seconds, const char *text) {
    if (!d->log.v)
        return;
    if (d->log.n == MESSAGES_MOST) {
        d->log.first = (d->log.first + 1) % MESSAGES_MOST;
        d->log.n--;
    }
    message *m = &d->log.v[(d->log.first + d->log.n++) % MESSAGES_MOST];
    m->level = level;
    m->seconds = seconds;
    snprintf(m->text, sizeof m->text, "%s", text);
    d->log.shown_at = -1; // the loop fills in when it is first seen
}

void dash_say(dash *d, char level, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dash_message(d, level, -1, text);
    d->log.notice = true;
}

const message *dash_newest(const dash *d) {
    if (!d->log.v || d->log.n == 0)
        return NULL;
    return &d->log.v[(d->log.first + d->log.n - 1) % MESSAGES_MOST];
}

const card *dash_card(const dash *d) {
    return d->in.slot < d->in.n_models ? d->in.model[d->in.slot] : NULL;
}

// Positions ---------------------------------------------------------------------------------------

int64_t dash_t1(const dash *d) {
    return d->t1 > 0 ? d->t1 : d->T;
}

void dash_view(dash *d, int64_t t0, int64_t t1) {
    t0 = t0 < 0 ? 0 : t0;
    t1 = d->T > 0 && t1 > d->T ? d->T : t1;
    if (t0 >= t1 || (t0 == 0 && d->T > 0 && t1 == d->T)) {
        d->t0 = d->t1 = 0;
        return;
    }
    d->t0 = t0;
    d->t1 = t1;
}

void dash_move_to(dash *d, int64_t t) {
    d->follow = false;
    if (d->T > 0 && t >= d->T)
        t = d->T - 1;
    d->t = t < 0 ? 0 : t;
    // The view goes along, keeping its width.
    int64_t w = dash_t1(d) - d->t0;
    if (d->t1 > 0 && d->t < d->t0)
        dash_view(d, d->t, d->t + w);
    else if (d->t1 > 0 && d->t >= d->t1)
        dash_view(d, d->t + 1 - w, d->t + 1);
}

void dash_set_length(dash *d, int64_t T) {
    if (d->T == T)
        return;
    d->T = T;
    if (d->t1 > T)
        dash_view(d, d->t0, T);
    if (d->t0 >= T)
        d->t0 = d->t1 = 0;
    bool follow = d->follow;
    dash_move_to(d, d->t);
    d->follow = follow;
}

void dash_zoom_view(dash *d, double factor, int64_t about) {
    int64_t t1 = dash_t1(d), w = t1 - d->t0;
    if (w <= 0)
        return;
    int64_t wide = (int64_t)((double)w * factor + 0.5);
    wide = wide < 16 ? 16 : wide;
    if (d->T > 0 && wide >= d->T) {
        d->t0 = d->t1 = 0;
        return;
    }
    double part = (double)(about - d->t0) / (double)w;
    int64_t t0 = about - (int64_t)(part * (double)wide);
    t0 = t0 < 0 ? 0 : t0;
    if (d->T > 0 && t0 + wide > d->T)
        t0 = d->T - wide;
    dash_view(d, t0, t0 + wide);
}

void dash_remember(dash *d) {
    d->last = (place){d->t, d->t0, d->t1, d->open, d->focus, d->layer, d->head, d->zoom};
}

// Heads -------------------------------------------------------------------------------------------

bool dash_head(dash *d, int layer, int head) {
    const card *c = dash_card(d);
    if (!c || layer < 0 || layer >= c->n_layers || head < 0 || head >= c->heads[layer])
        return false;
    d->layer = layer;
    d->head = head;
    return true;
}

void dash_step_head(dash *d, int layers, int heads) {
    const card *c = dash_card(d);
    if (!c || c->n_heads == 0)
        return;
    for (int L = d->layer + layers; layers && L >= 0 && L < c->n_layers; L += layers)
        if (c->heads[L] > 0) {
            d->layer = L;
            break;
        }
    int h = d->head + heads, most = c->heads[d->layer] - 1;
    d->head = h < 0 ? 0 : h > most ? most : h;
}

void dash_next_head(dash *d, int by) {
    const card *c = dash_card(d);
    if (!c || c->n_heads == 0)
        return;
    int h = d->head + by, L = d->layer;
    while (h < 0 || h >= c->heads[L]) {
        L = (L + by + c->n_layers) % c->n_layers;
        if (c->heads[L] > 0)
            h = by > 0 ? 0 : c->heads[L] - 1;
        else
            h = -1;
        if (c->heads[L] > 0)
            break;
    }
    d->layer = L;
    d->head = h;
}

void dash_toggle_mark(dash *d) {
    for (int i = 0; i < d->n_marks; i++)
        if (d->mark[i].layer == d->layer && d->mark[i].head == d->head) {
            memmove(&d->mark[i], &d->mark[i + 1], (size_t)(d->n_marks - i - 1) * sizeof *d->mark);
            d->n_marks--;
            d->oldest_mark = 0;
            return;
        }
    head_ref h = {d->layer, d->head};
    if (d->n_marks < MARKS_MOST) {
        d->mark[d->n_marks++] = h;
        return;
    }
    d->mark[d->oldest_mark] = h; // a fourth takes the oldest one's letter
    d->oldest_mark = (d->oldest_mark + 1) % MARKS_MOST;
}

void dash_focus(dash *d, int panel) {
    if (d->open >> panel & 1 && d->focus == panel) {
        unsigned rest = d->open & ~(1u << panel);
        if (!rest)
            return;
        d->open = rest;
        d->zoom = false;
        while (!(d->open >> d->focus & 1))
            d->focus = (d->focus + 1) % PANELS;
        return;
    }
    d->open |= 1u << panel;
    d->focus = panel;
}

// The worker's orders -----------------------------------------------------------------------------

int64_t dash_mode_window(const dash *d) {
    head_shape s = card_shape(dash_card(d), d->layer);
    if (s.K == 0 || s.decay == DECAY_CHANNEL || s.erase != ERASE_KEY)
        return d->look.W;
    int64_t least = (s.K + s.n_h - 1) / s.n_h;
    return d->look.W < least ? least : d->look.W;
}

static int head_index(const card *c, int layer, int head) {
    if (!c || layer < 0 || layer >= c->n_layers || head < 0 || head >= c->heads[layer])
        return -1;
    int at = head;
    for (int L = 0; L < layer; L++)
        at += c->heads[L];
    return at;
}

void dash_request(const dash *d, unsigned visible, request *out) {
    const card *c = dash_card(d);
    memset(out, 0, sizeof *out); // padding too: requests are compared byte by byte
    out->n_models = d->in.n_models;
    out->document = d->in.document;
    out->generation = d->want.generation;
    out->reload = d->want.reload;
    out->slot = d->in.slot;
    out->head = head_index(c, d->layer, d->head);
    out->t = d->t;
    out->follow = d->follow;
    out->t0 = d->t0;
    out->t1 = dash_t1(d);
    out->W = d->look.W;
    out->mode_W = dash_mode_window(d);
    out->cancelled = d->want.cancelled;
    out->paused = d->want.paused;
    out->hold = d->want.hold;
    out->sweep = d->want.sweep;
    out->n_off = d->want.n_off;
    for (int i = 0; i < d->in.n_models; i++)
        out->model[i] = d->in.model[i]->path;
    for (int i = 0; i < MARKS_MOST; i++)
        out->marks[i] = i < d->n_marks ? head_index(c, d->mark[i].layer, d->mark[i].head) : -1;
    memcpy(out->off, d->want.off, sizeof out->off);
    out->want_window = visible >> 4 & 1;
    out->want_all_windows =
        visible >> 1 & 1 && (d->look.metric == METRIC_RHO || d->look.metric == METRIC_HALF);
    out->want_modes = visible >> 7 & 1;
    out->want_kernels = visible >> 9 & 1;
    out->kernels = d->want.kernels;
    out->kernels_slot = d->want.kernels ? d->want.kernels_slot : d->in.slot;
    out->want_stats = !d->in.document || d->overlay == OVERLAY_INFO;
}
