#include "analyses/rules/names.h"

#include "analyses/facts_names.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What surrounds a node.
typedef struct around {
    int left;      // left side of the comparison whose right side this is; EXPR_NONE
    int heads;     // how many calls over heads are open
    bool baseline; // inside baseline(...)
} around;

typedef struct walk {
    rule *r;
    int *at;
    err *e;
} walk;

static bool visit(walk *w, int node, around in);

static bool wrong(walk *w, int node, const char *fmt, const char *name) {
    *w->at = w->r->x.node[node].at;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    err_set(w->e, ERR_INPUT, fmt, name);
#pragma GCC diagnostic pop
    return false;
}

// Calls that are no facts.
static const struct {
    const char *name;
    rule_role one, many; // by the number of arguments; ROLE_NONE: not so
    bool truth;          // of the argument
} calls[] = {
    {"heads", ROLE_HEADS, ROLE_NONE, true},   {"max", ROLE_MAX_HEADS, ROLE_MAX, false},
    {"min", ROLE_MIN_HEADS, ROLE_MIN, false}, {"mean", ROLE_MEAN_HEADS, ROLE_MEAN, false},
    {"abs", ROLE_ABS, ROLE_NONE, false},      {"exp", ROLE_EXP, ROLE_NONE, false},
    {"log", ROLE_LOG, ROLE_NONE, false},      {"baseline", ROLE_BASELINE_OF, ROLE_NONE, false},
};

static bool holds_baseline(const expr *x, int node) {
    char name[EXPR_NAME_SIZE];
    const expr_node *v = &x->node[node];
    if ((v->op == EXPR_NAME || v->op == EXPR_CALL) &&
        strcmp(expr_name(x, node, name), "baseline") == 0)
        return true;
    if (v->op == EXPR_CALL) {
        for (int a = v->a; a >= 0; a = x->node[a].next)
            if (holds_baseline(x, a))
                return true;
        return false;
    }
    return (v->a >= 0 && holds_baseline(x, v->a)) || (v->b >= 0 && holds_baseline(x, v->b));
}

static bool fact_name_here(walk *w, int node, const char *name, const around *in) {
    const expr_node *v = &w->r->x.node[node];
    const fact_name *known = fact_name_find(name);
    bool at = v->op == EXPR_CALL;
    w->r->of[node].role = at ? ROLE_FACT_AT : ROLE_FACT;
    if (at) {
        const expr_node *n = &w->r->x.node[v->a];
        if (!known && n->op != EXPR_NUMBER)
            return wrong(w, node,
                         "there is no %s(...); there are heads, max, min, mean, abs, exp, log, "
                         "baseline, and facts at a number of tokens",
                         name);
        if (n->next >= 0)
            return wrong(w, node, "\"%s\" takes one number of tokens", name);
        if (n->op != EXPR_NUMBER || n->number < 1 || n->number > 1e15 ||
            n->number != floor(n->number))
            return wrong(w, v->a, "%s(...) takes a number of tokens, such as 32k", name);
    }
    if (at && known && !known->at_n)
        return wrong(w, node, "%s is not given at a number of tokens: write it without brackets",
                     name);
    if (known && !in->heads && (known->level == FACT_OF_LAYER || known->level == FACT_OF_HEAD))
        return wrong(w, node,
                     "%s is a number of each head: write heads(%1$s ...), max(%1$s), min(%1$s) or "
                     "mean(%1$s)",
                     name);
    return true;
}

static bool call(walk *w, int node, const char *name, around in) {
    expr *x = &w->r->x;
    int first = x->node[node].a;
    bool many = x->node[first].next >= 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        rule_role role = many ? calls[i].many : calls[i].one;
        if (role == ROLE_NONE)
            return wrong(w, node, "%s(...) takes one argument", name);
        w->r->of[node].role = (int)role;
        if (role_over_heads((int)role) && ++in.heads > 2)
            return wrong(w, node, "%s(...) over heads inside two others: one too many", name);
        if (role == ROLE_BASELINE_OF) {
            if (in.baseline)
                return wrong(w, node, "%s inside baseline(...)", name);
            in.baseline = w->r->baseline = true;
            in.left = EXPR_NONE;
        }
        for (int a = first; a >= 0; a = x->node[a].next) {
            if (x->node[a].truth != calls[i].truth)
                return wrong(w, a,
                             calls[i].truth ? "%s(...) takes a comparison, this is a number"
                                            : "%s(...) takes a number, this is true or false",
                             name);
            if (!visit(w, a, in))
                return false;
        }
        return true;
    }
    for (int a = first; a >= 0; a = x->node[a].next)
        w->r->of[a].role = ROLE_NONE;
    return fact_name_here(w, node, name, &in);
}

static bool name(walk *w, int node, const char *called, const around *in) {
    if (strcmp(called, "layer") == 0 || strcmp(called, "head") == 0) {
        w->r->of[node].role = called[0] == 'l' ? ROLE_LAYER : ROLE_HEAD;
        return in->heads || wrong(w, node,
                                  "\"%s\" needs a head: it stands inside heads(...), "
                                  "max(...), min(...) or mean(...)",
                                  called);
    }
    if (strcmp(called, "baseline") != 0)
        return fact_name_here(w, node, called, in);
    if (in->baseline)
        return wrong(w, node, "\"%s\" inside baseline(...)", called);
    if (in->left < 0)
        return wrong(w, node,
                     "\"%s\" stands for the left side of a comparison and needs one: write it on "
                     "the right, or baseline(...) of something",
                     called);
    if (holds_baseline(&w->r->x, in->left))
        return wrong(w, node, "\"%s\" stands for the left side, which asks for it itself", called);
    w->r->of[node].role = ROLE_BASELINE;
    w->r->of[node].left = in->left;
    w->r->baseline = true;
    return true;
}

static bool visit(walk *w, int node, around in) {
    char called[EXPR_NAME_SIZE];
    const expr_node *v = &w->r->x.node[node];
    w->r->of[node].role = ROLE_NONE;
    if (v->op == EXPR_NAME)
        return name(w, node, expr_name(&w->r->x, node, called), &in);
    if (v->op == EXPR_CALL)
        return call(w, node, expr_name(&w->r->x, node, called), in);
    around right = in;
    if (expr_compares(v->op))
        right.left = v->a;
    return (v->a < 0 || visit(w, v->a, in)) && (v->b < 0 || visit(w, v->b, right));
}

bool rule_names(rule *r, int *at, err *e) {
    walk w = {r, at, e};
    r->baseline = false;
    return visit(&w, r->x.root, (around){.left = EXPR_NONE});
}

// What rules ask for ------------------------------------------------------------------------------

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t *rules_positions(const rules *r, size_t *n, err *e) {
    size_t room = 0, k = 0;
    int64_t *v = NULL;
    for (size_t i = 0; i < r->n; i++)
        for (int node = 0; node < r->v[i].x.n; node++) {
            if (r->v[i].of[node].role != ROLE_FACT_AT)
                continue;
            if (!mem_grow((void **)&v, &room, k + 1, sizeof *v, "token counts", e)) {
                free(v);
                return NULL;
            }
            v[k++] = (int64_t)r->v[i].x.node[r->v[i].x.node[node].a].number;
        }
    if (!v && !(v = mem_alloc(1, sizeof *v, "token counts", e)))
        return NULL;
    qsort(v, k, sizeof *v, by_number);
    *n = 0;
    for (size_t i = 0; i < k; i++)
        if (i == 0 || v[i] != v[i - 1])
            v[(*n)++] = v[i];
    return v;
}

const rule *rules_baseline(const rules *r) {
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].baseline)
            return &r->v[i];
    return NULL;
}

static void consider(const char *name, const char *candidate, int *best, const char **nearest) {
    int d = text_distance(name, candidate, *best - 1);
    if (d < *best) {
        *best = d;
        *nearest = candidate;
    }
}

static bool held(const facts *f, const char *name) {
    for (size_t i = 0; f && i < f->n; i++)
        if (strcmp(f->v[i].name, name) == 0)
            return true;
    return false;
}

static bool unknown(const rules *r, const rule *u, int node, const char *name, const facts *f,
                    err *e) {
    int best = strlen(name) < 5 ? 2 : 4;
    const char *nearest = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        consider(name, calls[i].name, &best, &nearest);
    for (size_t i = 0; i < n_fact_names; i++)
        consider(name, fact_names[i].name, &best, &nearest);
    for (size_t i = 0; f && i < f->n; i++)
        consider(name, f->v[i].name, &best, &nearest);
    int column = u->column + u->x.node[node].at;
    return err_set(e, ERR_INPUT, "%s, line %d, character %d: no fact is called \"%s\"%s%s%s",
                   text_show(r->path), u->line, column, name, nearest ? " (did you mean " : "",
                   nearest ? text_show(nearest) : "",
                   nearest ? "?)" : "; docs/facts.md lists them");
}

bool rules_names_known(const rules *r, const facts *f, err *e) {
    char name[EXPR_NAME_SIZE];
    for (size_t i = 0; i < r->n; i++)
        for (int node = 0; node < r->v[i].x.n; node++) {
            int role = r->v[i].of[node].role;
            if (role != ROLE_FACT && role != ROLE_FACT_AT)
                continue;
            expr_name(&r->v[i].x, node, name);
            if (!fact_name_find(name) && !held(f, name))
                return unknown(r, &r->v[i], node, name, f, e);
        }
    return true;
}
