#include "cli/dash/heads.h"

#include "cli/dash/expr.h"

#include <stdlib.h>
#include <string.h>

typedef struct one_head {
    const scene *x;
    int head;
} one_head;

static bool is_off(const dash *d, int layer, int head) {
    for (int i = 0; i < d->want.n_off; i++)
        if (d->want.off[i].layer == layer && d->want.off[i].head == head)
            return true;
    return false;
}

static bool is_marked(const dash *d, int layer, int head) {
    for (int i = 0; i < d->n_marks; i++)
        if (d->mark[i].layer == layer && d->mark[i].head == head)
            return true;
    return false;
}

char heads_sign(const dash *d, int layer, int head) {
    return is_off(d, layer, head) ? 'x' : is_marked(d, layer, head) ? '*' : 0;
}

static bool value_of(void *ctx, const char *name, double *out) {
    const one_head *o = ctx;
    const scene *x = o->x;
    metric m;
    char state = 0;
    int64_t at;
    *out = NAN;
    bool there = x->r && o->head >= 0;
    const run_head *h = there ? &x->r->head[o->head] : NULL;
    if (metric_find(name, &m))
        *out = there ? scene_metric(x, m, o->head, &state) : NAN;
    else if (strcmp(name, "layer") == 0)
        *out = there ? h->layer : NAN;
    else if (strcmp(name, "head") == 0)
        *out = there ? h->head : NAN;
    else if (strcmp(name, "stable") == 0)
        *out = there ? scene_rank(x, o->head, Q_STABLE, x->t, &at) : NAN;
    else if (strcmp(name, "cond") == 0)
        *out = there ? pow(10, scene_rank(x, o->head, Q_COND, x->t, &at)) : NAN;
    else if (strcmp(name, "dead") == 0) // a state of nothing: it has no rank
        *out = there ? !(scene_rank(x, o->head, Q_NORM, x->t, &at) > 1e-6) : NAN;
    else if (strcmp(name, "marked") == 0)
        *out = there && is_marked(x->d, h->layer, h->head);
    else if (strcmp(name, "off") == 0)
        *out = there && is_off(x->d, h->layer, h->head);
    else
        return false;
    return true;
}

bool heads_check(const scene *x, const char *text, int *at, err *e) {
    one_head o = {x, x->head};
    bool yes;
    return expr_eval(text, value_of, &o, &yes, at, e);
}

bool heads_pass(const scene *x, int head) {
    one_head o = {x, head};
    bool yes = true;
    int at;
    err e = {0};
    return !x->d->look.filter[0] || !expr_eval(x->d->look.filter, value_of, &o, &yes, &at, &e) ||
           yes;
}

const char *heads_column(int column) {
    if (column == 0)
        return "layer";
    if (column == 1)
        return "head";
    if (column < 2 + METRICS)
        return metric_name((metric)(column - 2));
    return column == 2 + METRICS ? "stable" : "log c";
}

double heads_value(const scene *x, int column, int head, char *state) {
    int64_t at;
    *state = 0;
    if (column < 2)
        return column == 0 ? x->r->head[head].layer : x->r->head[head].head;
    if (column < 2 + METRICS)
        return scene_metric(x, (metric)(column - 2), head, state);
    double v = scene_rank(x, head, column == 2 + METRICS ? Q_STABLE : Q_COND, x->t, &at);
    *state = at < 0 ? '?' : 0;
    return v;
}

typedef struct keyed {
    double v;
    int head;
    bool invert;
} keyed;

static int order(const void *a, const void *b) {
    const keyed *x = a, *y = b;
    bool nx = isnan(x->v), ny = isnan(y->v);
    if (nx != ny)
        return nx ? 1 : -1;
    if (!nx && x->v != y->v)
        return ((x->v > y->v) != x->invert) ? 1 : -1;
    return x->head - y->head;
}

int heads_sorted(const scene *x, int *out, int most) {
    enum { MOST = 4096 };
    keyed k[MOST];
    int n = 0;
    most = most < MOST ? most : MOST;
    for (int h = 0; h < x->r->n_heads && n < most; h++) {
        char state;
        if (heads_pass(x, h))
            k[n++] = (keyed){heads_value(x, x->d->look.sort, h, &state), h, x->d->look.invert};
    }
    qsort(k, (size_t)n, sizeof *k, order);
    for (int i = 0; i < n; i++)
        out[i] = k[i].head;
    return n;
}
