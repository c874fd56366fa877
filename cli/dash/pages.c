// Pages that cover the body: help from the key table, what the model is, options.
#include "cli/dash/keys.h"
#include "cli/dash/losses.h"
#include "cli/dash/paint.h"
#include "cli/dash/settings.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// A page that is written line by line; only what is in view is painted.
typedef struct page {
    surface *s;
    rect r;
    int scroll, n;
} page;

static void line(page *p, int attr, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void line(page *p, int attr, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    int y = p->n++ - p->scroll + 1;
    if (!p->s || y < 1 || y >= p->r.h) // without a surface lines are only counted
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    surface_text(p->s, p->r.y + y, p->r.x + 1, p->r.w - 1, attr, INK_PLAIN, text);
}

static page begin(surface *s, rect r, const char *title, int scroll) {
    for (int x = 0; s && x < r.w; x++)
        surface_put(s, r.y, r.x + x, 0x2550, ATTR_BOLD, INK_PLAIN);
    if (s)
        surface_printf(s, r.y, r.x + 1, r.w - 2, ATTR_BOLD, INK_PLAIN, "%s ", title);
    return (page){s, r, scroll, 0};
}

static int finish(page *p) {
    if (p->s && p->n - p->scroll > p->r.h - 1)
        surface_right(p->s, p->r.y, p->r.x, p->r.w, ATTR_BOLD, INK_PLAIN, " more: Down, PgDn ");
    return p->n;
}

static int page_help(surface *s, rect r, const scene *x, int scroll) {
    page p = begin(s, r, "help", scroll);
    const panel *f = panel_find(x->d->focus);
    if (f)
        line(&p, ATTR_BOLD, "panel %d, %s: %s", f->number, f->name, f->what);
    // What most concerns the focused panel first.
    key_group first = x->d->focus == 1                       ? GROUP_HEADS
                      : x->d->focus == 4 || x->d->focus == 7 ? GROUP_SCIENCE
                      : x->d->focus == PANEL_TEXT            ? GROUP_FIND
                                                             : GROUP_MOVE;
    size_t n;
    const key_row *rows = keys_rows(&n);
    for (int k = 0; k < GROUPS; k++) {
        key_group g = k == 0 ? first : (key_group)(k <= (int)first ? k - 1 : k);
        line(&p, 0, "%s", "");
        line(&p, ATTR_BOLD, "%s", keys_group(g));
        for (size_t i = 0; i < n; i++)
            if (rows[i].group == g)
                line(&p, 0, "  %-10s %-18s %s", rows[i].key, rows[i].command, rows[i].help);
    }
    line(&p, 0, "%s", "");
    line(&p, ATTR_BOLD, "panels");
    for (int i = 0; i < n_panels; i++)
        line(&p, 0, "  %d %-10s %s", panels[i]->number, panels[i]->name, panels[i]->what);
    line(&p, 0, "%s", "");
    line(&p, ATTR_BOLD, "the prompt :");
    line(&p, 0, "  5121  +200  50%%     move the cursor there");
    line(&p, 0, "  open FILE           read another document; open b MODEL: a second model");
    line(&p, 0, "  ablate L1.H3,...    switch heads off; ablate all: try every head, one by one");
    line(&p, 0, "  head L.H, metric NAME, window N, smooth N, view T0 T1, doc N, surprise max");
    line(&p, 0, "  data FILE.csv|.npy|.jsonl, export DIR, session FILE, set NAME VALUE");
    line(&p, 0, "%s", "");
    line(&p, 0,
         "Token losses are in nats; k is 1024 in positions. A wide terminal font may draw the");
    line(&p, 0, "lines and blocks two cells wide: -U (--glyphs ascii) helps.");
    return finish(&p);
}

static void config_lines(page *p, const card *c, int64_t T) {
    const inspection *i = &c->x;
    char a[64], b[64];
    line(p, ATTR_BOLD, "%s", c->name);
    line(p, 0, "  family           %s", i->type[0] ? text_show(i->type) : "not known");
    if (i->summary)
        line(p, 0, "                   %s", i->summary);
    if (i->layers >= 0)
        line(p, 0, "  layers, width    %" PRId64 ", %" PRId64, i->layers, i->hidden);
    for (size_t k = 0; k < i->n_kinds; k++) {
        const module *m = i->kind[k].body;
        if (m->linear)
            line(p, 0, "  layers %-9s %s: %d heads (%d of keys), K=%d V=%d, n_h=%d, beta 0..%g",
                 i->kind[k].layers, m->kind, m->heads.H, m->heads.Hk, m->heads.K, m->heads.V,
                 m->heads.n_h, m->heads.beta_max);
        else
            line(p, 0, "  layers %-9s %s", i->kind[k].layers, m->kind);
    }
    if (i->n_vocab >= 0)
        line(p, 0, "  vocabulary       %s", scene_count(i->n_vocab, a, sizeof a));
    if (c->train_length > 0)
        line(p, 0, "  trained at       %s tokens", scene_count(c->train_length, a, sizeof a));
    line(p, 0, "  parameters       %s in %" PRId64 " tensors, %s bytes",
         scene_count(i->parameters, a, sizeof a), ckpt_count(i->c),
         scene_count((int64_t)i->bytes, b, sizeof b));
    for (int k = 0; k < i->n_dtypes; k++)
        line(p, 0, "  %-16s %s", text_show(i->dtype[k].type),
             scene_count(i->dtype[k].count, a, sizeof a));
    for (int k = 0; k < ckpt_files(i->c); k++)
        line(p, 0, "  file             %s", text_show(ckpt_file(i->c, k)));
    for (int k = 0; k < ckpt_metadata_count(i->c); k++)
        line(p, 0, "  metadata         %s = %.200s", text_show(ckpt_metadata_key(i->c, k)),
             text_show(ckpt_metadata_value(i->c, k)));
    for (size_t k = 0; k < i->n_findings; k++)
        line(p, i->finding[k].wrong ? ATTR_BOLD : 0, "  %c %s", i->finding[k].wrong ? '!' : ' ',
             i->finding[k].text);
    (void)T;
}

// One line a group of tensors; statistics over all of its members that have been read.
static void tensor_lines(page *p, const scene *x, const card *c) {
    const stats *st = x->s->stats && c == x->d->in.model[0] ? x->s->stats : NULL;
    line(p, 0, "%s", "");
    if (st && st->n < st->total)
        line(p, ATTR_BOLD, "tensors; statistics of %" PRId64 " of %" PRId64, st->n, st->total);
    else
        line(p, ATTR_BOLD, "tensors%s", st ? "" : "; statistics when they are asked for");
    if (st)
        line(p, ATTR_DIM,
             "  folded names: least, largest, mean of medians, root mean square of stds");
    line(p, ATTR_DIM, "  %-38s %5s %-16s %-5s %10s %10s %10s %10s %s", "name", "n", "shape", "type",
         "min", "median", "max", "std", "NaN+Inf");
    for (size_t g = 0; g < c->x.groups.n; g++) {
        const tensor_group *t = &c->x.groups.v[g];
        char name[256], shape[64] = "", a[24], b[24], m[24], d[24];
        size_t at = 0;
        text_escape(t->pattern, strlen(t->pattern), name, sizeof name);
        for (int k = 0; k < t->of->rank && at < sizeof shape; k++)
            at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRId64, k ? "x" : "",
                                   t->of->dims[k]);
        double lo = INFINITY, hi = -INFINITY, median = NAN, var = 0;
        int64_t seen = 0, bad = 0, count = 0;
        for (int64_t k = 0; st && k < st->n; k++) {
            const tensor *one = ckpt_at(c->x.c, k);
            const tensor_stats *v = &st->v[k];
            if (!v->read || !settings_in_group(one->name, t->pattern))
                continue;
            lo = fmin(lo, v->min);
            hi = fmax(hi, v->max);
            var += v->std * v->std * (double)v->finite;
            count += v->finite;
            bad += v->nan + v->inf;
            median = seen ? (median * (double)seen + v->q50) / (double)(seen + 1) : v->q50;
            seen++;
        }
        if (seen)
            line(p, bad ? ATTR_BOLD : 0,
                 "  %-38.38s %5" PRId64 " %-16.16s %-5.5s %10s %10s %10s %10s %s%" PRId64, name,
                 t->n, shape, t->of->type_name, scene_number(lo, 8, a, sizeof a),
                 scene_number(median, 8, b, sizeof b), scene_number(hi, 8, m, sizeof m),
                 scene_number(count ? sqrt(var / (double)count) : NAN, 8, d, sizeof d),
                 bad ? "! " : "", bad);
        else
            line(p, 0, "  %-38.38s %5" PRId64 " %-16.16s %-5.5s", name, t->n, shape,
                 t->of->type_name);
    }
}

static int page_info(surface *s, rect r, const scene *x, int scroll) {
    page p = begin(s, r, "info", scroll);
    if (x->text) {
        char a[32];
        line(&p, ATTR_BOLD, "%s", text_show(x->text->d.name));
        line(&p, 0, "  tokens           %s of %lld", scene_count(x->text->T, a, sizeof a),
             (long long)x->text->d.n);
        line(&p, 0, "  bytes            %s", scene_count((int64_t)x->text->d.bytes, a, sizeof a));
        line(&p, 0, "  SHA-256          %s", x->text->d.sha256);
        if (x->text->d.added[0])
            line(&p, 0, "  added ids        %s", x->text->d.added);
        if (x->s->device)
            line(&p, 0, "  computed on      %s, %s", x->s->device, precision_name(x->s->prec));
        line(&p, 0, "%s", "");
    }
    const card *c = dash_card(x->d);
    if (c) {
        config_lines(&p, c, x->T);
        tensor_lines(&p, x, c);
    }
    return finish(&p);
}

static int page_options(surface *s, rect r, const scene *x, int scroll) {
    page p = begin(s, r, "options: :set NAME VALUE, F12 keeps them", scroll);
    for (int i = 0; i < settings_count(); i++) {
        char v[300];
        settings_show(x->d, i, v, sizeof v);
        line(&p, 0, "  %-12s %-24s %s", settings_name(i), v, settings_help(i));
    }
    return finish(&p);
}

int page_draw(surface *s, const scene *x, int scroll) {
    rect r = x->l.body;
    overlay o = x->d->overlay;
    if (o == OVERLAY_NONE && !x->d->in.document)
        o = OVERLAY_INFO;
    switch (o) {
    case OVERLAY_NONE:
        return 0;
    case OVERLAY_HELP:
        return page_help(s, r, x, scroll);
    case OVERLAY_INFO:
        return page_info(s, r, x, scroll);
    case OVERLAY_OPTIONS:
        return page_options(s, r, x, scroll);
    }
    return 0;
}

int page_scroll(const scene *x, int scroll) {
    int most = page_draw(NULL, x, 0) - (x->l.body.h - 1);
    scroll = scroll > most ? most : scroll;
    return scroll < 0 ? 0 : scroll;
}
