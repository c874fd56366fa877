#include "cli/diff_print.h"

#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 50, MOST_HEADS = 6, MOST_DECAYS = 12, NAME_COLUMNS = 48 };

static const char *number(double v, char buf[32]) {
    if (isnan(v))
        snprintf(buf, 32, "-");
    else
        text_real(v, 4, buf, 32);
    return buf;
}

// A cosine near 1 keeps the digits that tell it from 1.
static const char *cosine(double v, char buf[32]) {
    if (!(v > 0.9999))
        return number(v, buf);
    text_real(v, 10, buf, 32);
    return buf;
}

// "[2, 1]" of the element at place i.
static const char *place_of(const tensor *t, int64_t i, char *buf, size_t size) {
    int64_t index[TENSOR_MAX_RANK];
    size_t n = 0;
    for (int k = t->rank - 1; k >= 0; k--) {
        index[k] = i % t->dims[k];
        i /= t->dims[k];
    }
    n = (size_t)snprintf(buf, size, "[");
    for (int k = 0; k < t->rank && n < size; k++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", k ? ", " : "", (long long)index[k]);
    if (n < size)
        snprintf(buf + n, size - n, "]");
    return buf;
}

static const char *kind(const tensor *t, char *buf, size_t size) {
    char shape[200];
    snprintf(buf, size, "%.60s %s", text_show(t->type_name),
             tensor_shape_text(t, shape, sizeof shape));
    return buf;
}

static const char *kinds(const tensor_diff *t, char *buf, size_t size) {
    char a[300], b[300];
    snprintf(buf, size, "%s -> %s", kind(t->a, a, sizeof a), kind(t->b, b, sizeof b));
    return buf;
}

// "layers.#.up.weight [6] 0-5".
static void print_name(const output *x, const diff_group *g) {
    char name[300];
    if (g->n == 1)
        snprintf(name, sizeof name, "%s", text_show(g->pattern));
    else
        snprintf(name, sizeof name, "%.200s [%lld] %s", text_show(g->pattern), (long long)g->n,
                 g->numbers);
    output_print(x, "    %-*s", NAME_COLUMNS, name);
}

// What is to be said beside the numbers: types, shapes, bits.
static void print_remarks(const output *x, const diff_group *g) {
    const tensor_diff *t = g->first;
    char both[700];
    if (t->retyped || t->reshaped)
        output_print(x, "      %s%s%s: %s%s\n", t->retyped ? "re-typed" : "",
                     t->retyped && t->reshaped ? " and " : "", t->reshaped ? "reshaped" : "",
                     kinds(t, both, sizeof both), t->transposed ? ", compared transposed" : "");
    if (g->not_finite)
        output_print(x, "      %lld pairs with NaN or infinity left out of the numbers\n",
                     (long long)g->not_finite);
}

static void print_changed(const output *x, const diff_group *g) {
    char c[32], l2[32], rel[32], most[32], a[32], b[32], at[200], in[32] = "";
    const tensor_diff *t = g->first;
    if (!t->measured) {
        output_print(x, "  %s\n", t->reshaped ? "same values" : "other values");
    } else if (!g->most) {
        output_print(x, "  %s%s\n", g->changed ? "other values" : "same values",
                     t->retyped || t->reshaped || g->changed
                         ? ""
                         : ", other bits (zeros of other sign, NaNs)");
    } else {
        const value_diff *v = &g->most->v;
        if (g->n > 1)
            snprintf(in, sizeof in, " in %lld", (long long)g->most_number);
        output_print(x, " %13s %9s %9s  %s%s at %s: %s -> %s\n", cosine(g->cosine, c),
                     number(g->l2, l2), number(g->norm_a > 0 ? g->l2 / g->norm_a : NAN, rel),
                     number(v->largest, most), in, place_of(g->most->a, v->at, at, sizeof at),
                     number(v->a_at, a), number(v->b_at, b));
    }
    print_remarks(x, g);
}

static void print_lonely(const output *x, const tensor_diff *t) {
    char k[300];
    output_print(x, "  %s", kind(t->a ? t->a : t->b, k, sizeof k));
    if (t->twin && t->stored_once)
        output_print(x, "; same weights, stored %s, as %s", t->a ? "once in B" : "once in A",
                     text_show(t->twin->name));
    else if (t->twin)
        output_print(x, "; the same bits are %s in %s", text_show(t->twin->name), t->a ? "B" : "A");
    output_print(x, "\n");
}

static void print_group(const output *x, const diff_group *g) {
    char both[700];
    print_name(x, g);
    if (g->first->how == DIFF_DIFFERS)
        print_changed(x, g);
    else if (g->first->how == DIFF_INCOMPATIBLE)
        output_print(x, "  %s\n", kinds(g->first, both, sizeof both));
    else if (g->first->how == DIFF_EQUAL)
        output_print(x, "\n");
    else
        print_lonely(x, g->first);
}

static void print_class(const output *x, const diff_groups *l, diff_class c, bool full) {
    static const char *const title[] = {
        [DIFF_EQUAL] = "equal",
        [DIFF_DIFFERS] = "differs",
        [DIFF_MISSING] = "missing: only in A",
        [DIFF_EXTRA] = "extra: only in B",
        [DIFF_INCOMPATIBLE] = "incompatible: cannot be compared",
    };
    int64_t shown = 0, left = 0;
    if (c == DIFF_EQUAL && !full)
        return;
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].first->how != c)
            continue;
        if (!full && shown == MOST_ROWS) {
            left += l->v[i].n;
            continue;
        }
        if (shown++ == 0 && c == DIFF_DIFFERS)
            output_print(x, "  %-*s %13s %9s %9s  largest change\n", NAME_COLUMNS + 2, title[c],
                         "cosine", "|B - A|", "by |A|");
        else if (shown == 1)
            output_print(x, "  %s\n", title[c]);
        print_group(x, &l->v[i]);
    }
    if (left)
        output_print(x, "    and %lld more (--full)\n", (long long)left);
}

static void print_decays(const output *x, const ckpt_diff *d, const decay_list *decay, size_t n,
                         bool full) {
    char a[32], b[32], la[32], lb[32], kept[32], most[32];
    if (n)
        output_print(x,
                     "  half-lives at a gate input of 0, in tokens (median; the longest, and what "
                     "B keeps of it over 16k tokens by what A keeps)\n");
    for (size_t i = 0; i < n && (full || i < MOST_DECAYS); i++) {
        const decay_diff *v = &decay[i].v;
        output_print(x, "    %-*s  %s -> %s; %s -> %s, x %s; largest change %s%%\n", NAME_COLUMNS,
                     text_show(d->v[decay[i].at].name), number(v->median_a, a),
                     number(v->median_b, b), number(v->longest_a, la), number(v->longest_b, lb),
                     number(v->kept, kept), number(100 * v->largest, most));
    }
    if (!full && n > MOST_DECAYS)
        output_print(x, "    and %zu more (--full)\n", n - MOST_DECAYS);
}

bool diff_print(const output *x, const ckpt_diff *d, const decay_list *decay, size_t n_decay,
                bool full, err *e) {
    diff_groups groups;
    if (!diff_fold(d, full, &groups, e))
        return false;
    for (int c = 0; c < DIFF_CLASSES; c++)
        if (d->count[c] || c == DIFF_EQUAL)
            output_print(x, "  %-13s %6lld tensor%s %14lld elements\n",
                         diff_class_name((diff_class)c), (long long)d->count[c],
                         d->count[c] == 1 ? " " : "s", (long long)d->elements[c]);
    if (d->left_out)
        output_print(x, "  left out by --include, --exclude: %lld\n", (long long)d->left_out);
    if (d->stored_once)
        output_print(x, "  same weights, stored once on one side: %lld\n",
                     (long long)d->stored_once);
    for (int c = DIFF_EQUAL; c < DIFF_CLASSES; c++)
        print_class(x, &groups, (diff_class)c, full);
    print_decays(x, d, decay, n_decay, full);
    if (ckpt_diff_same(d) && (d->n || !d->left_out))
        output_print(x, "  no tensor differs\n");
    diff_groups_free(&groups);
    return true;
}

void diff_print_config(const output *x, const config_diff *c) {
    if (c->n)
        output_print(x, "  config.json\n");
    for (size_t i = 0; i < c->n; i++)
        output_print(x, "    %-*s  %s -> %s\n", NAME_COLUMNS, text_show(c->v[i].key),
                     c->v[i].a[0] ? c->v[i].a : "(absent)", c->v[i].b[0] ? c->v[i].b : "(absent)");
    if (c->has_a != c->has_b)
        output_print(x, "  only %s has a config.json\n", c->has_a ? "A" : "B");
}

// Behaviour ---------------------------------------------------------------------------------------

static void print_stretches(const output *x, const contrast *c) {
    output_print(x, "  %-14s %9s %9s %10s %21s %10s %7s\n", "positions", "loss A", "loss B",
                 "B - A", "95%", "KL", "agree");
    for (int i = 0; i < c->n_stretches; i++) {
        const contrast_stretch *s = &c->stretch[i];
        char range[48] = "all", interval[48] = "-", kl[32] = "-", change[32] = "-";
        if (i + 1 < c->n_stretches)
            snprintf(range, sizeof range, "%lld-%lld", (long long)s->from, (long long)s->to);
        if (isfinite(s->change.lo))
            snprintf(interval, sizeof interval, "%+.4f to %+.4f", s->change.lo, s->change.hi);
        if (isfinite(s->change.mean))
            snprintf(change, sizeof change, "%+.4f", s->change.mean);
        if (c->kl)
            number(s->kl, kl);
        output_print(x, "  %-14s %9.4f %9.4f %10s %21s %10s %6.1f%%\n", range, s->loss[0],
                     s->loss[1], change, interval, kl, 100 * s->agree);
    }
    if (c->kl)
        output_print(x,
                     "  (KL of B's next token from A's, in nats; agree: the same likeliest "
                     "token); largest KL %.4g, row %lld, position %lld\n",
                     c->kl_largest, (long long)c->kl_row, (long long)c->kl_at);
    else
        output_print(x, "  no KL: %s\n", c->why_no_kl);
    if (c->why_no_spectrum[0])
        output_print(x, "  no spectra: %s\n", c->why_no_spectrum);
}

static double change_of(const contrast_head *h) {
    double d = fabs(h->erank[1] - h->erank[0]);
    return isnan(d) ? -1 : d;
}

static int by_change(const void *a, const void *b) {
    const contrast_head *x = *(const contrast_head *const *)a,
                        *y = *(const contrast_head *const *)b;
    double p = change_of(x), q = change_of(y);
    if (p != q)
        return p > q ? -1 : 1;
    return (x > y) - (x < y);
}

static const char *life(double v, char buf[32]) {
    if (isinf(v))
        snprintf(buf, 32, "never");
    else if (isnan(v))
        snprintf(buf, 32, "-");
    else
        text_real(v, 4, buf, 32);
    return buf;
}

static void print_heads(const output *x, const contrast *c) {
    const contrast_head **order = malloc((c->n_heads + 1) * sizeof *order);
    if (!order || c->n_heads == 0) {
        free(order);
        return;
    }
    for (size_t i = 0; i < c->n_heads; i++)
        order[i] = &c->head[i];
    qsort(order, c->n_heads, sizeof *order, by_change);
    output_print(x,
                 "  heads whose effective rank changes most (second half of the rows)\n"
                 "    %-8s %18s %22s %22s\n",
                 "", "effective rank", "norm", "half-life");
    for (size_t i = 0; i < c->n_heads && i < MOST_HEADS; i++) {
        const contrast_head *h = order[i];
        char name[32], a[32], b[32], norm[80], lives[80];
        snprintf(name, sizeof name, "L%d.H%d", h->layer, h->head);
        snprintf(norm, sizeof norm, "%s -> %s", number(h->norm[0], a), number(h->norm[1], b));
        snprintf(lives, sizeof lives, "%s -> %s", life(h->half_life[0], a),
                 life(h->half_life[1], b));
        output_print(x, "    %-8s %7.2f -> %7.2f %22s %22s\n", name, h->erank[0], h->erank[1], norm,
                     lives);
    }
    free(order);
}

void diff_print_contrast(const output *x, const contrast *c, const contrast_options *o,
                         const char *how) {
    output_print(x, "on %s: %lld row%s of %lld tokens (%s); A is %s, B is %s\n", o->document,
                 (long long)c->rows, c->rows == 1 ? "" : "s", (long long)c->n + 1, how, o->name[0],
                 o->name[1]);
    print_stretches(x, c);
    print_heads(x, c);
}
