// Histograms: moduli, rotation angles, real eigenvalues. Shares in per cent, so that models with
// different numbers of values can be laid over each other.
#include "analyses/spectrum_draw.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BARS = 50 };

static bool hist_series(figure *f, const char *name, const double *count, double lo, double hi,
                        err *e) {
    double edge[BARS + 1], share[BARS], sum = 0;
    for (int i = 0; i < BARS; i++)
        sum += count[i];
    for (int i = 0; i <= BARS; i++)
        edge[i] = lo + (hi - lo) * i / BARS;
    for (int i = 0; i < BARS; i++)
        share[i] = sum > 0 ? 100 * count[i] / sum : NAN;
    return figure_series(f, name, STYLE_LINE, BARS, edge, share, NULL, NULL, NULL, e);
}

typedef enum { TOKEN_MODULUS, TOKEN_REAL, TOKEN_ANGLE } token_bins;

static void pool_tokens(const spectrum_result *r, token_bins what, double *count) {
    for (int i = 0; i < BARS; i++)
        count[i] = 0;
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->layer[l].n_heads; h++) {
            const spectrum_tokens *s = &r->layer[l].head[h].tokens;
            const int64_t *bin = what == TOKEN_MODULUS ? s->modulus
                                 : what == TOKEN_REAL  ? s->real
                                                       : s->angle;
            for (int i = 0; i < SPECTRUM_BINS; i++)
                count[i / (SPECTRUM_BINS / BARS)] += (double)bin[i];
        }
}

static void pool_window(const spectrum_result *r, int window, double *count) {
    for (int i = 0; i < BARS; i++)
        count[i] = 0;
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->layer[l].n_heads; h++) {
            const spectrum_head *x = &r->layer[l].head[h];
            int64_t K = r->layer[l].shape.K;
            for (int64_t k = 0; k < r->samples; k++) {
                int64_t at = window * r->samples + k;
                double back = exp(x->facts[at].log_scale);
                if (isnan(x->facts[at].norm2))
                    continue;
                for (int64_t i = 0; i < K; i++) {
                    int b = (int)(cabs(x->eig[at * K + i]) * back * BARS);
                    count[b < BARS ? b : BARS - 1]++;
                }
            }
        }
}

// Windows to lay over each other: the shortest without frozen directions, one between, the longest.
static int pick_three(const spectrum_result *r, int *pick) {
    int first = spectrum_pick_window(r, 1, true), last = r->n_windows - 1, n = 0;
    while (last >= 0 && !spectrum_has_products(r, last))
        last--;
    if (first < 0 || last < first)
        return 0;
    pick[n++] = first;
    if (last - first >= 2)
        pick[n++] = (first + last) / 2;
    if (last > first)
        pick[n++] = last;
    return n;
}

figure *spectrum_draw_moduli(const spectrum_item *x, size_t index, err *e) {
    const spectrum_result *r = x->result;
    char id[64], title[256];
    snprintf(id, sizeof id, "modulus-%zu", index);
    snprintf(title, sizeof title, "modulus of eigenvalues, %s", x->name);
    figure *f = figure_new(FIG_HIST, id, title, x->subtitle, e);
    if (!f)
        return NULL;
    double count[BARS];
    pool_tokens(r, TOKEN_MODULUS, count);
    bool ok = figure_axis(&f->x, "|lambda|", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "share", "%", SCALE_LINEAR, e) &&
              hist_series(f, "single tokens, not frozen", count, 0, 1, e);
    int pick[3], n = pick_three(r, pick);
    for (int i = 0; ok && i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "W = %lld", (long long)r->windows[pick[i]]);
        pool_window(r, pick[i], count);
        ok = hist_series(f, name, count, 0, 1, e);
    }
    if (ok)
        ok = figure_note(f, e, "Windows that leave directions frozen are not shown.");
    return spectrum_drawn(f, ok);
}

// Does any token of any result rotate? True as well where that was not measured.
static bool any_rotates(const spectrum_item *x, size_t n, bool *any, err *e) {
    *any = false;
    for (size_t i = 0; i < n && !*any; i++) {
        spectrum_summary s;
        if (!spectrum_summarise(x[i].result, -1, -1, &s, e))
            return false;
        *any = s.complex_share != 0;
    }
    return true;
}

// NULL without an error when no token rotates: the picture of the real values says so.
figure *spectrum_draw_angles(const spectrum_item *x, size_t n, err *e) {
    bool any;
    if (!any_rotates(x, n, &any, e) || !any)
        return NULL;
    figure *f = figure_new(FIG_HIST, "angles", "rotation angle of a token's complex pairs",
                           n == 1 ? x->subtitle : "single tokens, all chosen layers and heads", e);
    if (!f)
        return NULL;
    bool ok = figure_axis(&f->x, "angle of lambda", "rad", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "share", "%", SCALE_LINEAR, e);
    for (size_t i = 0; ok && i < n; i++) {
        double count[BARS];
        char name[256];
        spectrum_summary s;
        pool_tokens(x[i].result, TOKEN_ANGLE, count);
        ok = spectrum_summarise(x[i].result, -1, -1, &s, e);
        if (ok && s.complex_share > 0)
            snprintf(name, sizeof name, "%s: %.3g %% of tokens rotate", x[i].name,
                     100 * s.complex_share);
        else if (ok)
            snprintf(name, sizeof name, "%s: no token rotates", x[i].name);
        ok = ok && hist_series(f, name, count, 0, M_PI, e);
    }
    if (ok) {
        f->x.lo = 0;
        f->x.hi = M_PI;
    }
    return spectrum_drawn(f, ok);
}

figure *spectrum_draw_reals(const spectrum_item *x, size_t n, err *e) {
    figure *f = figure_new(FIG_HIST, "reals", "real eigenvalues of single tokens",
                           n == 1 ? x->subtitle : "all chosen layers and heads", e);
    if (!f)
        return NULL;
    bool ok = figure_axis(&f->x, "lambda", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "share", "%", SCALE_LINEAR, e);
    for (size_t i = 0; ok && i < n; i++) {
        double count[BARS];
        char name[256];
        spectrum_summary s;
        pool_tokens(x[i].result, TOKEN_REAL, count);
        ok = spectrum_summarise(x[i].result, -1, -1, &s, e);
        if (ok)
            snprintf(name, sizeof name, "%s: %.3g %% below 0", x[i].name, 100 * s.negative_share);
        ok = ok && hist_series(f, name, count, -1, 1, e);
    }
    bool frozen = false;
    for (size_t i = 0; i < n; i++)
        for (int l = 0; l < x[i].result->n_layers; l++) {
            const head_shape *s = &x[i].result->layer[l].shape;
            frozen |= s->erase != ERASE_NONE && s->decay != DECAY_CHANNEL;
        }
    if (ok && frozen)
        ok = figure_note(f, e, "Frozen directions (eigenvalue = the decay) are not counted.");
    bool any = true;
    if (ok)
        ok = any_rotates(x, n, &any, e);
    if (ok && !any)
        ok = figure_note(f, e, "No token rotates: all eigenvalues of single tokens are real.");
    return spectrum_drawn(f, ok);
}
