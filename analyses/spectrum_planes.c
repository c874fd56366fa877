// Eigenvalues in the complex plane.
#include "analyses/spectrum_draw.h"

#include "core/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLANE_POINTS = 3000 };

bool spectrum_has_products(const spectrum_result *r, int window) {
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; h < r->layer[i].n_heads; h++)
            for (int64_t k = 0; k < r->samples; k++)
                if (!isnan(r->layer[i].head[h].facts[window * r->samples + k].norm2))
                    return true;
    return false;
}

// Does a window of W tokens reach every direction, in all layers?
static bool whole_window(const spectrum_result *r, int64_t W) {
    bool whole = true;
    for (int i = 0; i < r->n_layers; i++) {
        const head_shape *s = &r->layer[i].shape;
        bool scalar = s->erase != ERASE_NONE && s->decay != DECAY_CHANNEL;
        whole &= !scalar || W >= s->K || W * s->n_h >= s->K;
    }
    return whole;
}

int spectrum_pick_window(const spectrum_result *r, int64_t least, bool whole) {
    for (int w = 0; w < r->n_windows; w++)
        if (r->windows[w] >= least && (!whole || whole_window(r, r->windows[w])) &&
            spectrum_has_products(r, w))
            return w;
    return -1;
}

figure *spectrum_drawn(figure *f, bool ok) {
    if (ok)
        return f;
    figure_free(f);
    return NULL;
}

// Bits of a counter that look random (splitmix64): thinning by a fixed stride would always take
// the same partner of a complex pair.
static uint64_t scramble(uint64_t i) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef struct cloud {
    double *x, *y;
    size_t n, cap;
    int64_t seen, shown;
    double share; // to keep
} cloud;

static void keep(cloud *c, double complex z) {
    if (c->n == c->cap)
        return;
    c->x[c->n] = creal(z);
    c->y[c->n++] = cimag(z);
    c->shown++;
}

static void drop_in(cloud *c, double complex z) {
    if (isnan(creal(z)))
        return;
    double u = (double)(scramble((uint64_t)c->seen++) >> 11) * 0x1p-53;
    if (u < c->share)
        keep(c, z);
}

// A layer's values: of tokens (window < 0) or of one window, true scale.
static void drop_layer(cloud *c, const spectrum_result *r, const spectrum_layer *l, int window) {
    for (int h = 0; h < l->n_heads; h++) {
        const spectrum_head *x = &l->head[h];
        int64_t K = l->shape.K;
        if (window < 0)
            for (int64_t i = 0; i < x->tokens.n_kept; i++)
                drop_in(c, x->tokens.kept[i]);
        // Complex values are drawn whatever the share: thinned with the rest, rare ones would vanish.
        int64_t few = PLANE_POINTS / 4 / l->n_heads;
        for (int64_t i = 0; window < 0 && i < x->tokens.n_rotating && i < few; i++)
            keep(c, x->tokens.rotating[i]);
        for (int64_t k = 0; window >= 0 && k < r->samples; k++) {
            int64_t at = window * r->samples + k;
            double back = exp(x->facts[at].log_scale);
            for (int64_t i = 0; i < K; i++)
                drop_in(c, x->eig[at * K + i] * back);
        }
    }
}

static int64_t values_of(const spectrum_result *r, int window) {
    int64_t n = 0;
    for (int i = 0; i < r->n_layers; i++)
        for (int h = 0; h < r->layer[i].n_heads; h++) {
            const spectrum_head *x = &r->layer[i].head[h];
            if (window < 0)
                n += x->tokens.n_kept + x->tokens.n_rotating;
            for (int64_t k = 0; window >= 0 && k < r->samples; k++)
                if (!isnan(x->facts[window * r->samples + k].norm2))
                    n += r->layer[i].shape.K;
        }
    return n;
}

static bool add_points(figure *f, const spectrum_result *r, int window, err *e) {
    int64_t total = values_of(r, window), all = 0;
    cloud c = {.cap = (size_t)total,
               .share = total > PLANE_POINTS ? PLANE_POINTS / (double)total : 1};
    bool ok = (c.x = mem_alloc(c.cap, sizeof *c.x, "points", e)) &&
              (c.y = mem_alloc(c.cap, sizeof *c.y, "points", e));
    bool each = r->n_layers <= SPECTRUM_MANY_LAYERS;
    for (int i = 0; ok && i < r->n_layers; i++) {
        if (each || i == 0)
            c.n = 0;
        drop_layer(&c, r, &r->layer[i], window);
        char name[32] = "all layers";
        if (each)
            snprintf(name, sizeof name, "layer %d", r->layer[i].layer);
        if (each || i == r->n_layers - 1)
            ok = figure_series(f, name, STYLE_POINTS, c.n, c.x, c.y, NULL, NULL, NULL, e);
    }
    if (window < 0)
        for (int i = 0; i < r->n_layers; i++)
            for (int h = 0; h < r->layer[i].n_heads; h++)
                all += r->layer[i].head[h].tokens.values;
    else
        all = total;
    if (ok && c.shown < all)
        ok = figure_note(f, e, "%lld of %lld eigenvalues drawn%s.", (long long)c.shown,
                         (long long)all, window < 0 ? ", complex ones first" : "");
    free(c.x);
    free(c.y);
    return ok;
}

// Delta kinds with one decay per channel: real by similarity to a symmetric matrix.
static bool real_by_similarity(const spectrum_result *r) {
    bool any = false;
    for (int i = 0; i < r->n_layers; i++)
        any |= r->layer[i].shape.decay == DECAY_CHANNEL && r->layer[i].shape.erase != ERASE_NONE &&
               r->layer[i].shape.n_h == 1;
    return any;
}

// Kinds without erasing: nothing is approximated there.
static bool diagonal_note(figure *f, const spectrum_result *r, err *e) {
    for (int i = 0; i < r->n_layers; i++)
        if (r->layer[i].shape.erase == ERASE_NONE)
            return figure_note(f, e,
                               "Diagonal transitions: eigenvalues are the exponentials of "
                               "the summed log decays, exact.");
    return true;
}

static bool token_notes(figure *f, const spectrum_result *r, err *e) {
    spectrum_summary s;
    if (!spectrum_summarise(r, -1, -1, &s, e))
        return false;
    bool ok = true;
    if (real_by_similarity(r))
        ok =
            figure_note(f, e,
                        "One decay per channel: a single step is similar to a symmetric matrix, "
                        "all its eigenvalues are real; they were solved for a part of the tokens.");
    if (ok && s.strong)
        ok = figure_note(f, e,
                         "%lld factors have beta |k|^2 above 2 (largest %.6g): no contraction.",
                         (long long)s.strong, s.strongest);
    return ok;
}

static bool window_notes(figure *f, const spectrum_result *r, int window, err *e) {
    spectrum_span s;
    if (!spectrum_window_summary(r, -1, -1, window, &s, e))
        return false;
    bool ok = true;
    if (s.frozen)
        ok = figure_note(f, e,
                         "Up to %d directions per product are untouched by %lld tokens: their "
                         "eigenvalue is the decay alone (1 without a gate).",
                         s.frozen, (long long)s.W);
    if (ok && !isnan(s.cond))
        ok = figure_note(f, e, "Condition number: median %.3g; largest error estimate %.1e.",
                         s.cond, s.error);
    return ok;
}

// The shortest window that leaves no direction frozen and takes K keys or more, beyond the middle one.
static int pick_long(const spectrum_result *r) {
    int middle = spectrum_pick_window(r, 8, false);
    const head_shape *s = &r->layer[0].shape;
    int64_t least = s->n_h > 0 ? s->K / s->n_h : s->K;
    if (middle >= 0 && least <= r->windows[middle])
        least = r->windows[middle] + 1;
    return spectrum_pick_window(r, least, true);
}

figure *spectrum_draw_plane(const spectrum_item *x, size_t index, spectrum_plane which, err *e) {
    static const char *const ids[] = {"plane-tokens", "plane-middle", "plane-long"};
    const spectrum_result *r = x->result;
    int window = -1;
    if (which == PLANE_MIDDLE)
        window = spectrum_pick_window(r, 8, false);
    else if (which == PLANE_LONG)
        window = pick_long(r);
    if (which != PLANE_TOKENS && window < 0)
        return NULL;
    char id[64], title[256];
    snprintf(id, sizeof id, "%s-%zu", ids[which], index);
    if (window < 0)
        snprintf(title, sizeof title, "eigenvalues of single tokens, %s", x->name);
    else
        snprintf(title, sizeof title, "eigenvalues of products over W = %lld, %s",
                 (long long)r->windows[window], x->name);
    figure *f = figure_new(FIG_SCATTER, id, title, x->subtitle, e);
    if (!f)
        return NULL;
    f->equal_scale = true;
    bool ok = figure_axis(&f->x, "Re lambda", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "Im lambda", "1", SCALE_LINEAR, e) &&
              add_points(f, r, window, e) && figure_mark(f, MARK_CIRCLE, 1, "|lambda| = 1", e) &&
              (window < 0 ? token_notes(f, r, e) : window_notes(f, r, window, e)) &&
              diagonal_note(f, r, e);
    if (ok) {
        f->x.lo = f->y.lo = -1.1;
        f->x.hi = f->y.hi = 1.1;
    }
    return spectrum_drawn(f, ok);
}
