// Panel 1: one number for every head, as a grid of layers x heads or as a table.
#include "cli/dash/heads.h"
#include "cli/dash/heads_table.h"
#include "cli/dash/panel.h"
#include "core/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 4 };

// What a metric's number means, for the title.
static void metric_title(const scene *x, char *buf, size_t size) {
    char at[32];
    const card *c = dash_card(x->d);
    int rank = c ? (c->s.K < c->s.V ? c->s.K : c->s.V) : 0;
    scene_count(x->t, at, sizeof at);
    switch (x->d->look.metric) {
    case METRIC_ERANK:
        snprintf(buf, size, "heads: erank @ %s (of %d)", at, rank);
        break;
    case METRIC_NORM:
        snprintf(buf, size, "heads: norm |H|_F @ %s", at);
        break;
    case METRIC_GROWTH:
        snprintf(buf, size, "heads: growth of erank past training");
        break;
    case METRIC_GATE:
        snprintf(buf, size, "heads: gate, mean decay in view");
        break;
    case METRIC_BETA:
        snprintf(buf, size, "heads: beta, mean in view");
        break;
    case METRIC_RHO:
        snprintf(buf, size, "heads: rho W=%lld @ %s", (long long)x->d->look.W, at);
        break;
    case METRIC_HALF:
        snprintf(buf, size, "heads: t1/2 (tokens) W=%lld @ %s", (long long)x->d->look.W, at);
        break;
    case METRIC_ABL:
        snprintf(buf, size, "heads: abl, loss change (nats)");
        break;
    case METRICS:
        break;
    }
}

static const run *other_run(const scene *x) {
    const run *a = x->s->shown[0], *b = x->s->shown[1];
    if (x->d->look.compare != COMPARE_DIFFERENCE || x->d->in.n_models < 2 || !a || !b)
        return NULL;
    if (a->n_heads != b->n_heads || memcmp(a->first, b->first, (size_t)a->n_layers * sizeof(int)))
        return NULL;
    return x->d->in.slot == 0 ? b : a;
}

// Difference to the other model when that is asked for.
static double value_of(const scene *x, int head, char *state) {
    double v = scene_metric(x, x->d->look.metric, head, state);
    const run *other = other_run(x);
    if (!other || *state)
        return v;
    scene y = *x;
    y.r = other;
    y.read = run_read(other);
    y.spot = NULL;
    double w = scene_metric(&y, x->d->look.metric, head, state);
    return x->d->in.slot == 0 ? v - w : w - v;
}

typedef struct range {
    double lo, hi; // of the colours
    double least, most, median;
    int nan, n;
} range;

static range range_of(const scene *x) {
    enum { MOST = 4096 };
    double v[MOST];
    range g = {.least = NAN, .most = NAN, .median = NAN};
    for (int h = 0; h < x->r->n_heads && g.n < MOST; h++) {
        char state;
        double y = value_of(x, h, &state);
        if (state)
            continue;
        if (isfinite(y))
            v[g.n++] = y;
        else
            g.nan++;
    }
    const card *c = dash_card(x->d);
    head_shape s = c ? c->s : (head_shape){0};
    if (g.n) {
        g.median = order_median(v, (size_t)g.n);
        g.least = v[0];
        g.most = v[g.n - 1];
    }
    g.lo = g.least;
    g.hi = g.most;
    bool difference = other_run(x) != NULL;
    double about = x->d->look.metric == METRIC_GROWTH && !difference ? 1 : 0;
    if (difference || x->d->look.metric == METRIC_ABL || x->d->look.metric == METRIC_GROWTH) {
        double far = fmax(fabs(g.most - about), fabs(g.least - about));
        g.lo = about - far;
        g.hi = about + far;
    } else if (x->d->look.autoscale) {
        return g;
    } else if (x->d->look.metric == METRIC_ERANK) {
        g.lo = 0;
        g.hi = s.K < s.V ? s.K : s.V;
    } else if (x->d->look.metric == METRIC_BETA || x->d->look.metric == METRIC_GATE) {
        g.lo = 0;
        g.hi = x->d->look.metric == METRIC_BETA ? s.beta_max : 1;
    }
    return g;
}

static void draw_cell(surface *s, int y, int at, int wide, const scene *x, const range *g,
                      int layer, int head) {
    const dash *d = x->d;
    char state = '?', text[32] = "";
    int index = run_find(x->r, layer, head);
    double v = index < 0 ? NAN : value_of(x, index, &state);
    bool cursor = d->layer == layer && d->head == head;
    int level = state ? -1 : panel_ramp(v, g->lo, g->hi);
    int attr = (cursor ? ATTR_BOLD : 0) | (x->stale || !heads_pass(x, index) ? ATTR_DIM : 0);
    int ink = level < 0 ? INK_PLAIN : INK_RAMP + level;
    char sign = heads_sign(d, layer, head);
    if (state)
        snprintf(text, sizeof text, "%c", state);
    else
        scene_number(v, wide >= 8 ? 4 : 3, text, sizeof text);
    if (wide >= 6) {
        surface_put(s, y, at, cursor ? '[' : 0, attr, INK_PLAIN);
        if (level >= 0)
            surface_put(s, y, at + 1, panel_block(level), attr, ink);
        int room = wide >= 8 ? 5 : 3;
        int n = surface_text(s, y, at + 2, room, attr, INK_PLAIN, text);
        int end = wide >= 8 ? (n > 4 ? 7 : 6) : 5;
        surface_put(s, y, at + end, cursor ? ']' : (uint32_t)sign, attr, INK_PLAIN);
        if (cursor && sign && wide >= 8)
            surface_put(s, y, at + end + 1, (uint32_t)sign, attr, INK_PLAIN);
    } else {
        uint32_t cp = state ? (uint32_t)state : level < 0 ? 'n' : panel_block(level);
        surface_put(s, y, at, cp, attr | (cursor ? ATTR_REVERSE : 0), ink);
        if (wide == 2)
            surface_put(s, y, at + 1, cursor ? '<' : (uint32_t)sign, attr, INK_PLAIN);
    }
}

typedef struct grid {
    int wide, rows, cols, row0, col0; // cells on screen and the first layer and head of them
} grid;

// The same arithmetic for drawing and for clicks.
static grid grid_of(rect r, const scene *x) {
    const card *c = dash_card(x->d);
    grid g = {.wide = 1, .rows = r.h - 2};
    if (!c || c->widest == 0)
        return g;
    int room = r.w - LEFT;
    static const int wides[] = {8, 6, 2, 1};
    for (int i = 0; i < 4; i++) {
        g.wide = wides[i];
        if (c->widest * wides[i] <= room)
            break;
    }
    g.cols = room / g.wide < c->widest ? room / g.wide : c->widest;
    g.rows = g.rows < c->n_layers ? g.rows : c->n_layers;
    g.rows = g.rows < 1 ? 1 : g.rows;
    g.cols = g.cols < 1 ? 1 : g.cols;
    // The cursor stays on screen.
    g.row0 = x->d->layer - g.rows / 2;
    g.row0 = g.row0 < 0 ? 0 : g.row0 > c->n_layers - g.rows ? c->n_layers - g.rows : g.row0;
    g.col0 = x->d->head - g.cols / 2;
    g.col0 = g.col0 < 0 ? 0 : g.col0 > c->widest - g.cols ? c->widest - g.cols : g.col0;
    return g;
}

// Four digits are enough for a scale.
static double round4(double v) {
    double unit = v == 0 || !isfinite(v) ? 1 : pow(10, floor(log10(fabs(v))) - 3);
    return round(v / unit) * unit;
}

static void draw_grid(surface *s, rect r, const scene *x, const range *n) {
    const card *c = dash_card(x->d);
    grid g = grid_of(r, x);
    char text[64];
    for (int i = 0; g.wide >= 2 && i < g.cols; i++) {
        snprintf(text, sizeof text, "H%d", g.col0 + i);
        if (g.wide >= 6 || (g.col0 + i) % 4 == 0)
            surface_text(s, r.y + 1, r.x + LEFT + i * g.wide + (g.wide >= 6),
                         g.wide >= 6 ? g.wide : 4 * g.wide, 0, INK_PLAIN, text);
    }
    for (int i = 0; i < g.rows; i++) {
        int L = g.row0 + i, y = r.y + 2 + i;
        snprintf(text, sizeof text, "L%d", L);
        surface_text(s, y, r.x + 1, LEFT - 1, x->d->layer == L ? ATTR_BOLD : 0, INK_PLAIN, text);
        if (c->heads[L] == 0)
            surface_put(s, y, r.x + LEFT + (g.wide >= 6), '-', ATTR_DIM, INK_PLAIN);
        for (int k = 0; k < g.cols && g.col0 + k < c->heads[L]; k++)
            draw_cell(s, y, r.x + LEFT + k * g.wide, g.wide, x, n, L, g.col0 + k);
    }
    int below = c->n_layers - g.row0 - g.rows, beside = c->widest - g.col0 - g.cols;
    if (below > 0) {
        snprintf(text, sizeof text, "+%d", below);
        surface_right(s, r.y + r.h - 1, r.x, r.w, ATTR_REVERSE, INK_PLAIN, text);
    }
    if (beside > 0) {
        snprintf(text, sizeof text, "+%d", beside);
        surface_right(s, r.y + 1, r.x, r.w, ATTR_REVERSE, INK_PLAIN, text);
    }
    int y = r.y + 2 + g.rows + 1;
    char a[24], b[24], m[24];
    if (y < r.y + r.h && n->n) {
        surface_printf(s, y++, r.x + 1, r.w - 1, 0, INK_PLAIN, "min %s  median %s  max %s",
                       scene_number(n->least, 4, a, sizeof a),
                       scene_number(n->median, 4, m, sizeof m),
                       scene_number(n->most, 4, b, sizeof b));
    }
    if (y < r.y + r.h)
        surface_text(s, y++, r.x + 1, r.w - 1, ATTR_DIM, INK_PLAIN,
                     r.w > 48 ? "[] cursor  * marked  ? not computed  x ablated"
                              : "[] cursor * marked ? not yet x off");
    if (y < r.y + r.h && n->n) {
        char scale[64];
        snprintf(scale, sizeof scale, "scale %g..%g", round4(n->lo), round4(n->hi));
        const char *const hint[] = {scale, "U unmark all", "t table", "\\ filter"};
        surface_hints(s, y++, r.x + 1, r.w - 1, ATTR_DIM, INK_PLAIN, hint,
                      sizeof hint / sizeof *hint);
    }
}

static void draw(surface *s, rect r, const scene *x) {
    char left[128], right[64] = "";
    const card *c = dash_card(x->d);
    metric_title(x, left, sizeof left);
    if (other_run(x))
        snprintf(left + strlen(left), sizeof left - strlen(left), ", a - b");
    if (!c || c->n_heads == 0) {
        panel_title(s, r, x, 1, "heads", "");
        panel_why(s, r, "this model has no matrix states: losses only");
        return;
    }
    bool ready = x->r && x->read > 0;
    range g = ready ? range_of(x) : (range){0};
    if (g.nan)
        snprintf(right, sizeof right, "%d nan", g.nan);
    else if (x->s->sweeping && x->d->look.metric == METRIC_ABL)
        snprintf(right, sizeof right, "%d to try", x->s->sweeping);
    else if (x->d->look.filter[0])
        snprintf(right, sizeof right, "\\%.20s", x->d->look.filter);
    else
        snprintf(right, sizeof right, "m metric");
    panel_title(s, r, x, 1, left, right);
    if (panel_waits(s, r, x))
        return;
    if (x->d->look.table)
        heads_table_draw(s, r, x);
    else
        draw_grid(s, r, x, &g);
}

static void click(dash *d, const scene *x, rect r, int y, int at) {
    const card *c = dash_card(d);
    if (!c || c->n_heads == 0 || !x->r)
        return;
    if (d->look.table) {
        int h = heads_table_at(r, x, y);
        if (h >= 0)
            dash_head(d, x->r->head[h].layer, x->r->head[h].head);
        return;
    }
    grid g = grid_of(r, x);
    if (y >= r.y + 2 && y < r.y + 2 + g.rows && at >= r.x + LEFT)
        dash_head(d, g.row0 + y - r.y - 2, g.col0 + (at - r.x - LEFT) / g.wide);
}

static bool make_figures(const scene *x, figures *out, err *e) {
    const card *c = dash_card(x->d);
    char title[300], sub[256];
    size_t rows = (size_t)c->n_layers, cols = (size_t)c->widest;
    double cell[rows * cols + 1], edge[cols + 1];
    char names[rows + 1][24], columns[cols + 1][24];
    const char *label[rows + 1], *head[cols + 1];
    for (size_t L = 0; L < rows; L++) {
        snprintf(names[L], sizeof names[L], "L%zu", L);
        label[L] = names[L];
        for (size_t h = 0; h < cols; h++) {
            int i = run_find(x->r, (int)L, (int)h);
            char state = 0;
            cell[L * cols + h] = i < 0 ? NAN : value_of(x, i, &state);
            if (state)
                cell[L * cols + h] = NAN;
        }
    }
    for (size_t h = 0; h < cols; h++) {
        snprintf(columns[h], sizeof columns[h], "H%zu", h);
        head[h] = columns[h];
    }
    for (size_t h = 0; h <= cols; h++)
        edge[h] = (double)h;
    metric_title(x, sub, sizeof sub);
    snprintf(title, sizeof title, "%s, %s%s", sub + 7, c->name, other_run(x) ? ", a - b" : "");
    snprintf(sub, sizeof sub, "after token %lld of %s; %s", (long long)x->t, x->text->d.name,
             x->r->device);
    range g = range_of(x);
    figure *f = figure_new(FIG_HEATMAP, "heads", title, sub, e);
    bool signed_map = other_run(x) || x->d->look.metric == METRIC_ABL;
    bool ok = f && figure_axis(&f->x, "head", "", SCALE_LINEAR, e) &&
              figure_axis(&f->y, "layer", "", SCALE_LINEAR, e) &&
              figure_heat(f, rows, cols, cell, edge, label, metric_name(x->d->look.metric),
                          x->d->look.metric == METRIC_ABL ? "nats/token" : "1", g.lo, g.hi,
                          signed_map ? MAP_DIVERGING : MAP_SEQUENTIAL, e) &&
              figure_heat_columns(f, head, e);
    if (!ok) {
        figure_free(f);
        return false;
    }
    return figures_add(out, f, e);
}

const panel panel_heads = {
    .number = 1,
    .name = "heads",
    .what = "one number for every head: grid or table, cursor, marks",
    .draw = draw,
    .figures = make_figures,
    .click = click,
};
