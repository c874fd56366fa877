// Panel 4: eigenvalues of the window product at the cursor, in the complex plane.
#include "cli/dash/panel.h"
#include "cli/plot/ticks.h"

#include "analyses/spectrum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACTS_W = 17, LEAST_PLANE = 12 };

// Where the plane lies: the middle of the circle in dots, and dots per unit.
typedef struct plane {
    rect in;
    double cx, cy, scale;
    bool whole;
} plane;

static plane plane_of(rect in, bool whole, double reach) {
    plane p = {.in = in, .whole = whole};
    double w = in.w * 2, h = in.h * 4;
    double r = whole ? fmin(w / 2, h / 2) - 1 : fmin(w / 2 - 1, h - 2);
    p.scale = (r > 1 ? r : 1) / reach;
    p.cx = w / 2;
    p.cy = whole ? h / 2 : h - 2;
    return p;
}

static void dot(surface *s, const plane *p, double re, double im) {
    int x = (int)(p->cx + re * p->scale), y = (int)(p->cy - im * p->scale);
    if (x >= 0 && y >= 0 && x < 2 * p->in.w && y < 4 * p->in.h)
        surface_dot(s, 4 * p->in.y + y, 2 * p->in.x + x, INK_PLAIN);
}

static void circle(surface *s, const plane *p) {
    int steps = (int)(p->scale * 8) + 16;
    for (int i = 0; i <= steps; i++) {
        double a = M_PI * i / steps;
        dot(s, p, cos(a), sin(a));
        if (p->whole)
            dot(s, p, cos(a), -sin(a));
    }
}

// Eigenvalues of each cell: 1..9, * for more; those off the plane at its edge.
static void values(surface *s, const plane *p, const spot_window *w, double unit) {
    if (p->in.w < 1 || p->in.h < 1)
        return;
    for (int i = 0; i < w->K; i++) {
        double re = w->eig[2 * i] * unit, im = w->eig[2 * i + 1] * unit;
        if (isnan(re) || isnan(im) || (!p->whole && im < 0))
            continue;
        int x = (int)(p->cx + re * p->scale) / 2, y = (int)(p->cy - im * p->scale) / 4;
        x = x < 0 ? 0 : x >= p->in.w ? p->in.w - 1 : x;
        y = y < 0 ? 0 : y >= p->in.h ? p->in.h - 1 : y;
        const cell *c = surface_at(s, p->in.y + y, p->in.x + x);
        uint32_t had = c && c->ink == INK_A ? c->cp : '0'; // a count stands there already
        surface_put(s, p->in.y + y, p->in.x + x, had >= '0' && had < '9' ? had + 1 : '*', ATTR_BOLD,
                    INK_A);
    }
}

typedef struct facts {
    char line[11][48];
    int n;
} facts;

static void fact(facts *f, const char *name, const char *value) {
    if (f->n < 11)
        snprintf(f->line[f->n++], sizeof f->line[0], "%-7s %s", name, value);
}

static facts facts_of(const scene *x, const spot_window *w) {
    facts f = {.n = 0};
    const run_head *h = &x->r->head[x->head];
    int complex_ones = 0, vanished = 0, live = 0;
    double bwd = 0, halves[1024];
    int n = w->K < 1024 ? w->K : 1024;
    double unit = exp(w->facts.log_scale), noise = 1e-15 * w->facts.norm2;
    for (int i = 0; i < w->K; i++) {
        double m = hypot(w->eig[2 * i], w->eig[2 * i + 1]);
        live += m > noise;
        complex_ones += m > noise && w->eig[2 * i + 1] != 0;
        vanished += m * unit < 0.01;
        bwd = fmax(bwd, 1e-15 * w->facts.norm2 * w->cond[i]);
        if (i < n)
            halves[i] = spectrum_mode_half_life(m, w->facts.log_scale, x->spot->W);
    }
    char a[32], b[32];
    snprintf(a, sizeof a, w->facts.radius * unit < 1e-3 ? "%.1e" : "%.4f", w->facts.radius * unit);
    fact(&f, "rho", a);
    snprintf(a, sizeof a, w->facts.norm2 * unit < 1e-3 ? "%.1e" : "%.4f", w->facts.norm2 * unit);
    fact(&f, "norm2", a);
    snprintf(a, sizeof a, "%.0f%%", live ? 100.0 * complex_ones / live : 0.0);
    fact(&f, "complex", a);
    if (spectrum_window_tells(&h->s, x->spot->W)) {
        double v = n ? halves[0] : NAN; // eig comes by modulus: the slowest mode
        scene_number(v, 4, a, sizeof a);
        // The column has room for four digits and their unit; 2e+07 speaks for itself.
        snprintf(b, sizeof b, "%s%s", isinf(v) ? "never" : a,
                 isinf(v) || strlen(a) > 4 ? "" : " tok");
    } else {
        snprintf(b, sizeof b, "W short");
    }
    fact(&f, "t1/2", b);
    snprintf(a, sizeof a, "%d/%d", vanished, w->K);
    fact(&f, "|l|<.01", a);
    snprintf(a, sizeof a, isinf(w->facts.logabsdet) ? "-inf" : "%.1f", w->facts.logabsdet);
    snprintf(f.line[f.n++], sizeof f.line[0], "ln|det| %s", a);
    snprintf(a, sizeof a, "%.0e", bwd);
    fact(&f, "bwd", a);
    snprintf(a, sizeof a, "%d", w->facts.frozen);
    fact(&f, "frozen", a);
    bool delta = h->s.erase == ERASE_KEY;
    if (delta && w->facts.norm2 * unit > spectrum_norm_limit(x->r->prec) &&
        w->facts.norm2 * unit > 1.001)
        fact(&f, "norm", "> 1");
    if (w->facts.log_scale != 0)
        fact(&f, "scale", "log");
    snprintf(f.line[f.n < 11 ? f.n++ : 10], sizeof f.line[0], "1-9,* = count");
    return f;
}

static void draw(surface *s, rect r, const scene *x) {
    char left[96], name[32];
    scene_head_name(x, x->head, name, sizeof name);
    snprintf(left, sizeof left, "eigenvalues %s W=%lld", name, (long long)x->d->look.W);
    bool whole = x->d->zoom && x->d->focus == 4;
    char right[64], at[32];
    if (x->spot && x->spot->t != x->t && scene_window(x, x->head))
        snprintf(right, sizeof right, "@ %s  %s", scene_count(x->spot->t, at, sizeof at),
                 whole ? "whole plane" : "Im>=0");
    else
        snprintf(right, sizeof right, "%s", whole ? "whole plane" : "Im>=0");
    panel_title(s, r, x, 4, left, right);
    if (panel_waits(s, r, x))
        return;
    if (x->head < 0) {
        panel_why(s, r, "no head with a matrix state");
        return;
    }
    const spot_window *w = scene_window(x, x->head);
    if (!w) {
        const spot *p = x->spot;
        if (p && p->t == x->t && p->why[0])
            panel_why(s, r, "%s", p->why);
        else
            panel_why(s, r, x->t >= x->read ? "the pass has not come here yet" : "computing");
        return;
    }
    facts f = facts_of(x, w);
    bool side = r.w >= FACTS_W + LEAST_PLANE + 2;
    rect in = {r.y + 1, r.x, r.h - 2, side ? r.w - FACTS_W : r.w};
    double unit = exp(w->facts.log_scale), reach = 1.02, largest = 0;
    if (w->facts.log_scale != 0)
        unit = 1; // the circle would be empty: shown without the factor, and said
    for (int i = 0; i < w->K; i++)
        largest = fmax(largest, hypot(w->eig[2 * i], w->eig[2 * i + 1]) * unit);
    if (isfinite(largest) && largest > reach)
        reach = largest * 1.02;
    plane p = plane_of(in, whole, reach);
    circle(s, &p);
    values(s, &p, w, unit);
    for (int v = -1; v <= 1; v++) {
        char label[8];
        snprintf(label, sizeof label, "%d", v);
        int at = in.x + (int)(p.cx + v * p.scale) / 2 - (v < 0);
        surface_text(s, r.y + r.h - 1, at < in.x ? in.x : at, 2, 0, INK_PLAIN, label);
    }
    int rows = r.h - 1;
    for (int i = 0; side && i < f.n && i < rows; i++)
        surface_text(s, r.y + 1 + i, r.x + r.w - FACTS_W + 1, FACTS_W - 1, 0, INK_PLAIN, f.line[i]);
    if (x->stale)
        surface_attr(s, (rect){r.y + 1, r.x, r.h - 1, r.w}, ATTR_DIM);
}

// "rho 0.9934, norm2 0.9949, ...": without the blanks that align them in a column, and without the last
// line, which is the key to the screen's digits.
static char *facts_line(const facts *f, char *buf, size_t size) {
    size_t n = 0;
    for (int i = 0; i + 1 < f->n; i++) {
        if (i && n + 3 < size)
            buf[n++] = ',', buf[n++] = ' ';
        for (const char *s = f->line[i]; *s && n + 1 < size; s++)
            if (*s != ' ' || s[1] != ' ')
                buf[n++] = *s;
    }
    buf[n] = 0;
    return buf;
}

// The product's own numbers, to the last digit.
static bool add_facts(const spot_window *w, figures *out, err *e) {
    double unit = exp(w->facts.log_scale);
    const struct {
        const char *name;
        double v;
    } column[] = {{"spectral radius", w->facts.radius * unit},
                  {"largest singular value", w->facts.norm2 * unit},
                  {"ln |det|", w->facts.logabsdet},
                  {"directions left alone", (double)w->facts.frozen}};
    figure *f = figure_new(FIG_TABLE, "window", "the window product", "", e);
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < sizeof column / sizeof *column; i++)
        ok = figure_column(f, column[i].name, "", 1, &column[i].v, NULL, 5, e);
    if (ok)
        return figures_add(out, f, e);
    figure_free(f);
    return false;
}

static bool make_figures(const scene *x, figures *out, err *e) {
    const spot_window *w = scene_window(x, x->head);
    const card *c = dash_card(x->d);
    char title[300], sub[300], name[32];
    if (!w)
        return err_set(e, ERR_INPUT, "no window at the cursor yet");
    scene_head_name(x, x->head, name, sizeof name);
    snprintf(title, sizeof title, "eigenvalues of a window product, %s %s", c->name, name);
    snprintf(sub, sizeof sub, "tokens %lld to %lld of %s, W = %lld; %s",
             (long long)(x->t - x->d->look.W + 1), (long long)x->t, x->text->d.name,
             (long long)x->d->look.W, x->r->device);
    figure *f = figure_new(FIG_SCATTER, "eigenvalues", title, sub, e);
    double re[w->K + 1], im[w->K + 1];
    for (int i = 0; i < w->K; i++) {
        re[i] = w->eig[2 * i] * exp(w->facts.log_scale);
        im[i] = w->eig[2 * i + 1] * exp(w->facts.log_scale);
    }
    bool ok = f && figure_axis(&f->x, "Re lambda", "1", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "Im lambda", "1", SCALE_LINEAR, e) &&
              figure_series(f, name, STYLE_POINTS, (size_t)w->K, re, im, NULL, NULL, NULL, e) &&
              figure_mark(f, MARK_CIRCLE, 1, "|lambda| = 1", e);
    if (ok) {
        f->equal_scale = true;
        f->series[0].silent = true; // the title names the head
        // One sentence: a note for each would take the plane's room.
        char line[640];
        facts k = facts_of(x, w);
        ok = figure_note(f, e, "%s", facts_line(&k, line, sizeof line));
    }
    if (!ok) {
        figure_free(f);
        return false;
    }
    return figures_add(out, f, e) && add_facts(w, out, e);
}

const panel panel_eigen = {
    .number = 4,
    .name = "eigen",
    .what = "eigenvalues of the product of the last W transitions; digits count values in a cell",
    .draw = draw,
    .figures = make_figures,
};
