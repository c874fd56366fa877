// Which fact a name means.
#include "analyses/rules/eval.h"

#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool rule_because(evaluation *x, const char *fmt, ...) {
    va_list ap;
    if (x->why[0])
        return false;
    va_start(ap, fmt);
    vsnprintf(x->why, sizeof x->why, fmt, ap);
    va_end(ap);
    return false;
}

static fact_depth depth_of(const fact_key *k) {
    return k->head >= 0 ? LEVEL_HEAD : k->layer >= 0 ? LEVEL_LAYER : LEVEL_MODEL;
}

// The keys of a name on this model: with the document at hand, else without any.
static void find_span(const place *p, const char *name, fact_where *w) {
    int id = word_find(&p->x->names, name);
    const int document[] = {p->document, p->none};
    for (int i = 0; i < 2 && id >= 0 && w->n == 0; i++)
        if (document[i] >= 0)
            w->k = fact_index_span(p->x, p->model, document[i], id, &w->n);
}

static const fact_where *find(evaluation *x, int node) {
    fact_where *w = &x->where[x->at == x->there][node];
    char name[EXPR_NAME_SIZE];
    if (w->known)
        return w;
    *w = (fact_where){.known = true, .largest = {FACT_NONE, FACT_NONE, FACT_NONE, FACT_NONE}};
    find_span(x->at, expr_name(&x->r->x, node, name), w);
    if (w->n == 0 && strcmp(name, "ppl") == 0) {
        w->exp_of_loss = true;
        find_span(x->at, "loss", w);
    }
    for (size_t i = 0; i < w->n; i++) {
        fact_depth d = depth_of(&w->k[i]);
        w->finest = d > w->finest ? d : w->finest;
        w->model |= d == LEVEL_MODEL;
        if (w->k[i].position > w->largest[d])
            w->largest[d] = w->k[i].position;
    }
    return w;
}

// Inside calls over heads the finest level that exists, outside that of the model.
static fact_depth level_here(const evaluation *x, const fact_where *w) {
    return x->depth ? w->finest : w->model ? LEVEL_MODEL : LEVEL_NOTHING;
}

static int layer_at(const evaluation *x, fact_depth d) {
    return d >= LEVEL_LAYER ? x->head.layer : FACT_NONE;
}

static int head_at(const evaluation *x, fact_depth d) {
    return d == LEVEL_HEAD ? x->head.head : FACT_NONE;
}

// The keys of the head, layer or model at hand: they are neighbours.
static const fact_key *at_hand(const evaluation *x, const fact_where *w, fact_depth d, size_t *n) {
    int layer = layer_at(x, d), head = head_at(x, d);
    size_t lo = 0, hi = w->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const fact_key *k = &w->k[mid];
        if (k->layer < layer || (k->layer == layer && k->head < head))
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*n = 0; lo + *n < w->n; (*n)++)
        if (w->k[lo + *n].layer != layer || w->k[lo + *n].head != head)
            break;
    return w->k + lo;
}

bool rule_known(evaluation *x, int node) {
    return find(x, node)->n > 0;
}

bool rule_applies(evaluation *x, int node) {
    const fact_where *w = find(x, node);
    size_t n = 0;
    fact_depth d = level_here(x, w);
    if (d != LEVEL_NOTHING)
        at_hand(x, w, d, &n);
    return n > 0;
}

static const char *tokens(int64_t n, char *buf, size_t size) {
    if (n % 1024 == 0 && n > 0)
        snprintf(buf, size, "%lldk", (long long)n / 1024);
    else
        snprintf(buf, size, "%lld", (long long)n);
    return buf;
}

// "erank(8k) of L9.H2", "loss".
static const char *call_it(const evaluation *x, const char *name, int64_t position, fact_depth d,
                           char *buf, size_t size) {
    char n[32], at[48] = "", of[48] = "";
    if (position >= 0)
        snprintf(at, sizeof at, "(%s)", tokens(position, n, sizeof n));
    if (d == LEVEL_HEAD)
        snprintf(of, sizeof of, " of L%d.H%d", x->head.layer, x->head.head);
    else if (d == LEVEL_LAYER)
        snprintf(of, sizeof of, " of layer %d", x->head.layer);
    snprintf(buf, size, "%s%s%s", name, at, of);
    return buf;
}

// "; it is given at 64, 128 ... 8k" of keys that are neighbours.
static void name_positions(const fact_key *k, size_t n, char *buf, size_t size) {
    enum { MOST = 16 };
    size_t used = 0, found = 0;
    buf[0] = 0;
    for (size_t i = 0; i < n; i++) {
        char word[32];
        if (k[i].position >= 0 && found++ < MOST && used < size)
            used += (size_t)snprintf(buf + used, size - used, "%s%s",
                                     found == 1 ? "; it is given at " : ", ",
                                     tokens(k[i].position, word, sizeof word));
    }
    if (found > MOST && used < size)
        snprintf(buf + used, size - used, " and %zu more", found - MOST);
    if (found == 0)
        snprintf(buf, size, "; it is given without a number of tokens");
}

static bool nothing(evaluation *x, const char *name, bool only_heads) {
    const place *p = x->at;
    if (only_heads)
        return rule_because(x,
                            "%s%s is given for each head only: write heads(%s ...), max(%s), "
                            "min(%s) or mean(%s)",
                            p->what, name, name, name, name, name);
    return rule_because(x, "%sthere is no %s for %s%s%s", p->what, name, text_show(p->model_name),
                        p->document_name[0] ? " on " : "", text_show(p->document_name));
}

static const fact *fact_at(const fact_key *k, size_t n, int64_t position) {
    for (size_t i = 0; i < n; i++)
        if (k[i].position == position)
            return k[i].f;
    return NULL;
}

bool rule_look_up(evaluation *x, int node, double *out) {
    const expr_node *v = &x->r->x.node[node];
    const fact_where *w = find(x, node);
    fact_depth d = level_here(x, w);
    char name[EXPR_NAME_SIZE], called[160], given[300];
    expr_name(&x->r->x, node, name);
    if (d == LEVEL_NOTHING)
        return nothing(x, name, w->n > 0);
    size_t n = 0;
    const fact_key *k = at_hand(x, w, d, &n);
    int64_t position = FACT_NONE;
    if (v->op == EXPR_CALL)
        position = (int64_t)x->r->x.node[v->a].number;
    else if (!fact_at(k, n, FACT_NONE)) // the whole, else the largest N of all at this level
        position = w->largest[d];
    const fact *f = fact_at(k, n, position);
    call_it(x, name, position, d, called, sizeof called);
    if (!f) {
        name_positions(k, n, given, sizeof given);
        return rule_because(x, "%sthere is no %s%s", x->at->what, called, n ? given : "");
    }
    *out = w->exp_of_loss ? exp(f->value) : f->value;
    return !isnan(f->value) ||
           rule_because(x, "%s%s is no number (null in the results%s%s)", x->at->what, called,
                        f->how[0] ? ": " : "", f->how[0] ? text_show(f->how) : "");
}
