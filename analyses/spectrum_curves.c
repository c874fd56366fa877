// Curves: norms and radii, ledger, Lyapunov exponents, half-lives.
#include "analyses/spectrum_draw.h"

#include "core/mem.h"
#include "core/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// x and y with a band, one allocation.
typedef struct curve {
    double *x, *y, *lo, *hi;
    size_t n;
} curve;

static bool curve_new(curve *c, size_t n, err *e) {
    *c = (curve){.n = n};
    c->x = mem_alloc(4 * n, sizeof *c->x, "a curve", e);
    if (!c->x)
        return false;
    c->y = c->x + n;
    c->lo = c->y + n;
    c->hi = c->lo + n;
    return true;
}

static bool add_curve(figure *f, const char *name, const curve *c, const char *band, err *e) {
    return figure_series(f, name, STYLE_LINE, c->n, c->x, c->y, band ? c->lo : NULL,
                         band ? c->hi : NULL, band, e);
}

// No place on a logarithmic axis, and none for what never ends.
static double finite_only(double v) {
    return isfinite(v) ? v : NAN;
}

figure *spectrum_draw_norms(const spectrum_item *x, size_t index, err *e) {
    const spectrum_result *r = x->result;
    char id[64], title[256];
    snprintf(id, sizeof id, "norm-%zu", index);
    snprintf(title, sizeof title, "norm and spectral radius of window products, %s", x->name);
    figure *f = figure_new(FIG_CURVES, id, title, x->subtitle, e);
    curve norm = {0}, radius = {0};
    bool ok = f && curve_new(&norm, (size_t)r->n_windows, e) &&
              curve_new(&radius, (size_t)r->n_windows, e) &&
              figure_axis(&f->x, "window W", "tokens", SCALE_LOG2, e) &&
              figure_axis(&f->y, "size of the product", "1", SCALE_LINEAR, e);
    int64_t over = 0;
    for (int w = 0; ok && w < r->n_windows; w++) {
        spectrum_span s;
        ok = spectrum_window_summary(r, -1, -1, w, &s, e);
        norm.x[w] = radius.x[w] = (double)r->windows[w];
        norm.lo[w] = s.norm2[0];
        norm.y[w] = s.norm2[1];
        norm.hi[w] = s.norm2[2];
        radius.lo[w] = s.radius[0];
        radius.y[w] = s.radius[1];
        radius.hi[w] = s.radius[2];
    }
    for (int i = 0; ok && i < r->n_layers; i++)
        for (int h = 0; h < r->layer[i].n_heads; h++)
            over += r->layer[i].head[h].over_norm;
    const char *band = "5-95% of products";
    ok = ok && add_curve(f, "norm |P|, median", &norm, band, e) &&
         add_curve(f, "radius, median", &radius, band, e) &&
         figure_mark(f, MARK_Y, 1, "contraction", e);
    if (ok)
        f->y.lo = 0;
    if (ok && over)
        ok = figure_note(f, e, "%lld products of a delta rule have a norm above 1 (G08).",
                         (long long)over);
    bool pair = false;
    for (int i = 0; i < r->n_layers; i++)
        pair |= r->layer[i].shape.erase == ERASE_PAIR;
    if (ok && pair)
        ok = figure_note(f, e,
                         "Vectors that are read along and written along differ: products are no "
                         "contraction (G15), a norm above 1 is no fault.");
    free(norm.x);
    free(radius.x);
    return spectrum_drawn(f, ok);
}

// A curve is drawn per layer when there is one result, else per result.
static bool by_layer(const spectrum_item *x, size_t n) {
    return n == 1 && x->result->n_layers <= SPECTRUM_MANY_LAYERS;
}

typedef bool (*fill_fn)(const spectrum_result *r, int layer, curve *c, err *e);

static bool add_curves(figure *f, const spectrum_item *x, size_t n,
                       size_t (*length)(const spectrum_result *), fill_fn fill, const char *band,
                       err *e) {
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        const spectrum_result *r = x[i].result;
        int parts = by_layer(x, n) ? r->n_layers : 1;
        for (int p = 0; ok && p < parts; p++) {
            char name[64];
            snprintf(name, sizeof name, "layer %d", r->layer[p].layer);
            curve c;
            ok = curve_new(&c, length(r), e);
            if (ok)
                ok = fill(r, by_layer(x, n) ? p : -1, &c, e) &&
                     add_curve(f, by_layer(x, n) ? name : x[i].name, &c, band, e);
            free(c.x);
        }
    }
    return ok;
}

// Median, least and largest of v[0..n), NaN left out.
static void spread(double *v, int n, double *mid, double *lo, double *hi) {
    int k = 0;
    for (int i = 0; i < n; i++)
        if (!isnan(v[i]))
            v[k++] = v[i];
    qsort(v, (size_t)k, sizeof *v, order_ascending);
    *mid = k ? (v[(k - 1) / 2] + v[k / 2]) / 2 : NAN;
    *lo = k ? v[0] : NAN;
    *hi = k ? v[k - 1] : NAN;
}

static int count_heads(const spectrum_result *r, int layer) {
    int n = 0;
    for (int i = 0; i < r->n_layers; i++)
        n += layer < 0 || i == layer ? r->layer[i].n_heads : 0;
    return n;
}

static size_t ledger_length(const spectrum_result *r) {
    return (size_t)r->points;
}

// Running mean of ln |det A_t| / K up to the end of each stretch, over heads.
static bool fill_ledger(const spectrum_result *r, int layer, curve *c, err *e) {
    int heads = count_heads(r, layer);
    double *sum = mem_zalloc(3 * (size_t)heads, sizeof *sum, "a ledger", e);
    if (!sum)
        return false;
    double *seen = sum + heads, *mean = seen + heads;
    for (int b = 0; b < r->points; b++) {
        int k = 0;
        for (int i = 0; i < r->n_layers; i++)
            for (int h = 0; (layer < 0 || i == layer) && h < r->layer[i].n_heads; h++, k++) {
                const spectrum_head *x = &r->layer[i].head[h];
                sum[k] += x->rate[b] / r->layer[i].shape.K;
                seen[k] += (double)x->rate_n[b];
                mean[k] = seen[k] > 0 ? sum[k] / seen[k] : NAN;
            }
        c->x[b] = (double)((int64_t)(b + 1) * r->T / r->points);
        spread(mean, heads, &c->y[b], &c->lo[b], &c->hi[b]);
    }
    free(sum);
    return true;
}

figure *spectrum_draw_ledger(const spectrum_item *x, size_t n, err *e) {
    figure *f = figure_new(FIG_CURVES, "ledger", "mean Lyapunov rate from determinants",
                           n == 1 ? x->subtitle : "running mean, all chosen layers and heads", e);
    if (!f)
        return NULL;
    int64_t singular = 0;
    for (size_t i = 0; i < n; i++)
        for (int l = 0; l < x[i].result->n_layers; l++)
            for (int h = 0; h < x[i].result->layer[l].n_heads; h++)
                singular += x[i].result->layer[l].head[h].singular;
    bool ok = figure_axis(&f->x, "position", "tokens", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "ln|det A| / K", "nats/token", SCALE_LINEAR, e) &&
              add_curves(f, x, n, ledger_length, fill_ledger, "least to largest head", e);
    if (ok) {
        f->x.tokens = true;
        f->x.lo = 0;
    }
    if (ok && singular)
        ok = figure_note(f, e, "%lld token%s with a singular transition %s left out.",
                         (long long)singular, singular == 1 ? "" : "s",
                         singular == 1 ? "is" : "are");
    return spectrum_drawn(f, ok);
}

static size_t lyapunov_length(const spectrum_result *r) {
    return (size_t)r->K;
}

static bool fill_lyapunov(const spectrum_result *r, int layer, curve *c, err *e) {
    int heads = count_heads(r, layer);
    double *v = mem_alloc((size_t)heads, sizeof *v, "exponents", e);
    if (!v)
        return false;
    for (int j = 0; j < r->K; j++) {
        int k = 0;
        for (int i = 0; i < r->n_layers; i++)
            for (int h = 0; (layer < 0 || i == layer) && h < r->layer[i].n_heads; h++)
                v[k++] =
                    j < r->layer[i].shape.K ? finite_only(r->layer[i].head[h].lyapunov[j]) : NAN;
        c->x[j] = j + 1;
        spread(v, heads, &c->y[j], &c->lo[j], &c->hi[j]);
    }
    free(v);
    return true;
}

figure *spectrum_draw_lyapunov(const spectrum_item *x, size_t n, err *e) {
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= x[i].result->lyapunov_tokens > 0;
    if (!any)
        return NULL;
    figure *f = figure_new(FIG_CURVES, "lyapunov", "Lyapunov exponents, sorted",
                           n == 1 ? x->subtitle : "all chosen layers and heads", e);
    bool ok = f && figure_axis(&f->x, "number of the exponent", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "exponent", "nats/token", SCALE_LINEAR, e) &&
              add_curves(f, x, n, lyapunov_length, fill_lyapunov, "least to largest head", e) &&
              figure_note(f, e,
                          "By QR over the last %lld tokens; directions that are annihilated have "
                          "no finite exponent and leave a gap.",
                          (long long)x[0].result->lyapunov_tokens);
    if (ok)
        f->x.whole = true;
    return spectrum_drawn(f, ok);
}

static size_t window_count(const spectrum_result *r) {
    return (size_t)r->n_windows;
}

static bool fill_half_lives(const spectrum_result *r, int layer, curve *c, err *e) {
    for (int w = 0; w < r->n_windows; w++) {
        spectrum_span s;
        if (!spectrum_window_summary(r, layer, -1, w, &s, e))
            return false;
        c->x[w] = (double)r->windows[w];
        c->y[w] = finite_only(s.half_life[1]);
        c->lo[w] = finite_only(s.half_life[0]);
        c->hi[w] = finite_only(s.half_life[2]);
        // A mode may be gone within one product: no half-life that a log axis could show.
        c->y[w] = c->y[w] > 0 ? c->y[w] : NAN;
        c->lo[w] = c->lo[w] > 0 ? c->lo[w] : NAN;
    }
    return true;
}

// One sentence each for all items: many notes would squeeze the picture.
static bool half_life_notes(figure *f, const spectrum_item *x, size_t n, err *e) {
    int64_t least = 0, most = 0; // tokens that an ungated layer needs
    double never = 0, lost = 0;
    for (size_t i = 0; i < n; i++) {
        const spectrum_result *r = x[i].result;
        for (int l = 0; l < r->n_layers; l++) {
            const head_shape *h = &r->layer[l].shape;
            int64_t need = h->n_h ? (h->K + h->n_h - 1) / h->n_h : 0;
            if (spectrum_window_tells(h, 1))
                continue;
            least = least == 0 || need < least ? need : least;
            most = need > most ? need : most;
        }
        int last = r->n_windows - 1;
        while (last > 0 && !spectrum_has_products(r, last))
            last--;
        spectrum_span s;
        if (!spectrum_window_summary(r, -1, -1, last, &s, e))
            return false;
        never = fmax(never, s.never); // fmax passes over NaN
        lost = fmax(lost, s.lost);
    }
    bool ok = true;
    char range[64];
    snprintf(range, sizeof range, least == most ? "%lld" : "%lld to %lld", (long long)least,
             (long long)most);
    if (most)
        ok = figure_note(f, e,
                         "Without a gate, windows below K / n_h = %s tokens leave directions "
                         "frozen and are left out.",
                         range);
    if (ok && never > 0)
        ok = figure_note(f, e, "Up to %.3g %% of the modes of the longest window never decay.",
                         100 * never);
    if (ok && lost > 0)
        ok = figure_note(f, e,
                         "Up to %.3g %% of the modes of the longest window are below rounding: "
                         "ranked shortest, without a value.",
                         100 * lost);
    return ok;
}

figure *spectrum_draw_half_lives(const spectrum_item *x, size_t n, err *e) {
    figure *f = figure_new(FIG_CURVES, "half-life", "half-life of window modes",
                           n == 1 ? x->subtitle : "all chosen layers and heads", e);
    bool ok = f && figure_axis(&f->x, "window W", "tokens", SCALE_LOG2, e) &&
              figure_axis(&f->y, "median half-life", "tokens", SCALE_LOG10, e) &&
              add_curves(f, x, n, window_count, fill_half_lives, "10-90% of modes", e) &&
              half_life_notes(f, x, n, e);
    return spectrum_drawn(f, ok);
}
