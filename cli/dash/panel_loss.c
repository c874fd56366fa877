// Panel 3: loss along the document, of up to four models or of the difference of two.
#include "cli/dash/losses.h"
#include "cli/dash/plotarea.h"
#include "cli/dash/reading.h"
#include "cli/head_list.h"

#include "analyses/loss.h"
#include "core/mem.h"
#include "core/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_COLUMN = 4, BAND_OF = 64 };

const char *losses_document(const reading *r) {
    static _Thread_local char name[512];
    snprintf(name, sizeof name, "%s", r->d.name);
    char *dot = strrchr(name, '.');
    if (dot && dot > name)
        *dot = 0;
    return name;
}

int64_t losses_window(const scene *x) {
    if (x->d->look.smooth > 0)
        return x->d->look.smooth | 1;
    int64_t w = x->T > 1 ? loss_default_smooth(x->T - 1) | 1 : 1;
    return w < 501 ? w : 501;
}

// Bits per byte of r over the bytes that tokens [from, to) of `on` hold; NaN where r has none.
static double bits_per_byte(const run *r, const run *on, int64_t from, int64_t to) {
    int64_t b0 = on->of->offset[from], b1 = on->of->offset[to];
    int64_t t0 = reading_token(r->of, b0), t1 = reading_token(r->of, b1), read = run_read(r);
    t0 = t0 < 1 ? 1 : t0;
    if (t1 <= t0 || t1 > read || r->odd[t1] != r->odd[t0])
        return NAN;
    int64_t bytes = r->of->offset[t1] - r->of->offset[t0];
    return bytes > 0 ? (r->sum[t1] - r->sum[t0]) / log(2) / (double)bytes : NAN;
}

double losses_at(const scene *x, const run *r, int64_t t) {
    int64_t h = losses_window(x) / 2;
    if (!x->bytes)
        return run_loss_mean(r, t, h, run_read(r));
    int64_t from = t - h < 0 ? 0 : t - h, to = t + h + 1 > x->r->T ? x->r->T : t + h + 1;
    return bits_per_byte(r, x->r, from, to);
}

static bool difference(const scene *x) {
    return x->d->look.compare == COMPARE_DIFFERENCE && x->d->in.n_models > 1 && x->s->shown[0] &&
           x->s->shown[1] && (x->bytes || x->s->shown[0]->T == x->s->shown[1]->T);
}

int losses_curves(const scene *x, int *model) {
    int n = 0;
    for (int m = 0; m < x->d->in.n_models && n < CURVES; m++) {
        bool only = (x->d->look.compare == COMPARE_A && m != 0) ||
                    (x->d->look.compare == COMPARE_B && m != 1);
        if (x->s->shown[m] && (!only || x->d->in.n_models == 1))
            model[n++] = m;
    }
    return n;
}

static double value(const scene *x, int model, bool diff, int64_t t) {
    if (diff)
        return losses_at(x, x->s->shown[0], t) - losses_at(x, x->s->shown[1], t);
    return losses_at(x, x->s->shown[model], t);
}

static void fill(const plotarea *p, const scene *x, int model, bool diff, plot_curve *c) {
    int64_t read = run_read(x->s->shown[model]);
    for (int i = 0; i < p->n; i++) {
        int64_t from, to;
        double sum = 0;
        int n = 0;
        plotarea_tokens(p, i, &from, &to);
        if (!x->bytes)
            to = to < read ? to : read;
        int64_t w = to - from, k = w < PER_COLUMN ? w : PER_COLUMN;
        for (int64_t j = 0; j < k; j++) {
            double v = value(x, model, diff, from + (2 * j + 1) * w / (2 * k));
            if (isfinite(v))
                sum += v, n++;
        }
        c->y[i] = n ? plotarea_scaled(sum / n, x->d->look.scale) : NAN;
    }
    c->points = x->t1 - x->t0 <= p->n || x->d->look.points;
}

// 10% and 90% of the raw losses of each dot column, as sparse dots.
static void draw_band(surface *s, const plotarea *p, const scene *x, const run *r, double lo,
                      double hi) {
    for (int i = 0; i < p->n; i += 2) {
        int64_t from, to, n = 0;
        double v[BAND_OF];
        plotarea_tokens(p, i, &from, &to);
        to = to < run_read(r) ? to : run_read(r);
        int64_t w = to - from, k = w < BAND_OF ? w : BAND_OF;
        for (int64_t j = 0; j < k; j++) {
            double y = r->loss[from + j * w / k];
            if (isfinite(y))
                v[n++] = y;
        }
        if (n < 2)
            continue;
        qsort(v, (size_t)n, sizeof *v, order_ascending);
        double low = plotarea_scaled(v[(n - 1) / 10], x->d->look.scale),
               high = plotarea_scaled(v[(n - 1) - (n - 1) / 10], x->d->look.scale);
        if (low >= lo && low <= hi)
            plotarea_dot(s, p, i, low, lo, hi, INK_A);
        if (high >= lo && high <= hi)
            plotarea_dot(s, p, i, high, lo, hi, INK_A);
    }
}

static void title(surface *s, rect r, const scene *x, bool diff, const int *model, int n) {
    char left[96], right[300] = "";
    const char *unit = x->bytes ? "bits/byte" : r.w > 60 ? "(nats/token)," : "nats/tok";
    snprintf(left, sizeof left, "loss%s %s mean%s %lld", diff ? " a - b" : "", unit,
             r.w > 60 ? " of" : "", (long long)losses_window(x));
    bool wide = r.w > 60;
    for (int i = 0; n > 1 && !diff && i < n; i++) {
        size_t at = strlen(right);
        snprintf(right + at, sizeof right - at, "%s%c %.*s", at ? "  " : "", 'a' + model[i],
                 wide ? 40 : 8, x->d->in.model[model[i]]->name);
    }
    panel_title(s, r, x, 3, left, right);
}

static void draw(surface *s, rect r, const scene *x) {
    static _Thread_local plot_curve c[CURVES];
    int model[CURVES], n = losses_curves(x, model);
    bool diff = difference(x);
    title(s, r, x, diff, model, n);
    if (panel_waits(s, r, x))
        return;
    if (x->T < 2) {
        panel_why(s, r, "one token has no loss");
        return;
    }
    if (losses_window(x) > x->T - 1) {
        panel_why(s, r,
                  "the mean of %lld is longer than the %lld losses there are; s makes it narrower",
                  (long long)losses_window(x), (long long)x->T - 1);
        return;
    }
    plotarea p = plotarea_make(r, x->t0, x->t1);
    if (diff)
        n = 1;
    for (int i = 0; i < n; i++) {
        c[i] = (plot_curve){.letter = (char)('a' + model[i]), .ink = INK_A + model[i]};
        fill(&p, x, model[i], diff, &c[i]);
    }
    double lo, hi;
    if (!plotarea_range(&p, c, n, &lo, &hi)) {
        panel_why(s, r, "no loss in this stretch yet");
        return;
    }
    if (x->d->look.same_scale && x->d->look.scale == SCALE_AXIS_LINEAR && !diff)
        lo = 0;
    if (x->d->look.band && x->d->look.scale == SCALE_AXIS_LINEAR)
        hi = fmax(hi, lo + 8);
    plotarea_draw(s, &p, x, c, n, lo, hi, x->d->look.scale, x->read);
    if (x->d->look.band && !diff && !x->bytes)
        draw_band(s, &p, x, x->s->shown[model[0]], lo, hi);
}

static void click(dash *d, const scene *x, rect r, int y, int at) {
    plotarea p = plotarea_make(r, x->t0, x->t1);
    (void)y;
    if (at >= p.in.x)
        dash_move_to(d, plotarea_token(&p, at));
}

// The losses as the loss command holds them.
static bool result_of(const run *r, const char *model, const char *document, int64_t train,
                      loss_result *out, err *e) {
    int64_t n = run_read(r) < r->T ? run_read(r) - 1 : r->T - 1;
    if (n < 1)
        return err_set(e, ERR_INPUT, "no losses yet");
    if (!loss_init(out, model, document, 1, n, train, e))
        return false;
    memcpy(out->loss, r->loss + 1, (size_t)n * sizeof *out->loss);
    out->ids_mark = r->of->mark;
    err none = {0};
    return loss_summarise(out, 0, 0, &none);
}

static bool add_result(const scene *x, int model, const run *r, loss_result *out, err *e) {
    const card *c = x->d->in.model[model];
    char heads[512], name[800];
    head_list_name(r->off, r->n_off, heads, sizeof heads);
    snprintf(name, sizeof name, "%s%s%s%s", c->name, r->n_off ? " " : "", heads,
             r->n_off ? " off" : "");
    return result_of(r, name, losses_document(x->text), c->train_length, out, e);
}

static bool make_figures(const scene *x, figures *out, err *e) {
    enum { MOST = 2 * CURVES };
    loss_result v[MOST] = {0};
    const loss_result *list[MOST];
    char how[128];
    int model[CURVES], n = losses_curves(x, model), k = 0;
    bool ok = n > 0;
    snprintf(how, sizeof how, "%s, %s", x->r->device, precision_name(x->r->prec));
    // With heads off the reading without comes first, as the command has it.
    for (int i = 0; ok && i < n; i++) {
        const run *base = x->s->base[model[i]], *r = x->s->shown[model[i]];
        if (r->n_off && base && run_read(base) >= base->T)
            ok = add_result(x, model[i], base, &v[k++], e);
        ok = ok && add_result(x, model[i], r, &v[k++], e);
    }
    for (int i = 0; i < k; i++)
        list[i] = &v[i];
    // The analysis begins a list of its own; here it joins what other panels have given.
    figures mine = {0};
    ok = ok ? loss_figures(list, (size_t)k, losses_window(x), 0, 0, how, &mine, e)
            : err_set(e, ERR_INPUT, "no losses yet");
    if (ok && out->n == 0)
        out->columns = mine.columns;
    for (size_t i = 0; ok && i < mine.n; i++) {
        ok = figures_add(out, mine.v[i], e);
        mine.v[i] = NULL;
    }
    figures_free(&mine);
    for (int i = 0; i < k; i++)
        loss_free(&v[i]);
    return ok;
}

const panel panel_loss = {
    .number = 3,
    .name = "loss",
    .what = "loss of every token, smoothed; several models or their difference",
    .draw = draw,
    .figures = make_figures,
    .click = click,
};
