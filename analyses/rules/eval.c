#include "analyses/rules/eval.h"

#include "analyses/rules/names.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool number(evaluation *x, int node, double *out);
static bool truth(evaluation *x, int node, bool *out);

// The text of a node, cut when long: for messages.
static const char *source(const evaluation *x, int node, char buf[80]) {
    const expr_node *v = &x->r->x.node[node];
    int n = v->end - v->at;
    snprintf(buf, 80, "%.*s%s", n > 60 ? 60 : n, x->r->x.text + v->at, n > 60 ? "..." : "");
    return buf;
}

static bool finite_or(evaluation *x, int node, double v) {
    char text[80];
    return isfinite(v) || rule_because(x, "%s is not a finite number", source(x, node, text));
}

// Do all facts below this node apply to the head at hand? Calls over heads below look for themselves.
static bool applies(evaluation *x, int node) {
    const expr *t = &x->r->x;
    const expr_node *v = &t->node[node];
    int role = x->r->of[node].role;
    if (role == ROLE_FACT || role == ROLE_FACT_AT)
        return rule_applies(x, node);
    if (role_over_heads(role) || role == ROLE_BASELINE_OF)
        return true;
    if (v->op == EXPR_CALL) {
        for (int a = v->a; a >= 0; a = t->node[a].next)
            if (!applies(x, a))
                return false;
        return true;
    }
    return (v->a < 0 || applies(x, v->a)) && (v->b < 0 || applies(x, v->b));
}

static bool remember(evaluation *x, int node, double value, double margin) {
    if (!mem_grow((void **)&x->hit, &x->room, x->n_hits + 1, sizeof *x->hit, "heads", x->e))
        return false;
    x->hit[x->n_hits++] = (head_hit){node, x->head, value, margin};
    return true;
}

// One head of a call over heads: what it adds to the count, the sum, the extreme.
static bool one_head(evaluation *x, int node, bool tell, double *sum, double *extreme,
                     head_hit *best) {
    int arg = x->r->x.node[node].a, role = x->r->of[node].role;
    double v = 0;
    bool yes = false;
    if (role == ROLE_HEADS) {
        if (!truth(x, arg, &yes))
            return false;
        *sum += yes;
        if (!yes || !tell)
            return true;
        bool compares = expr_compares(x->r->x.node[arg].op);
        return remember(x, node, compares ? x->left[arg] : NAN,
                        compares ? fabs(x->left[arg] - x->right[arg]) : 0);
    }
    if (!number(x, arg, &v))
        return false;
    *sum += v;
    if (isnan(*extreme) || (role == ROLE_MAX_HEADS ? v > *extreme : v < *extreme)) {
        *extreme = v;
        *best = (head_hit){node, x->head, v, 0};
    }
    return true;
}

// A fact below this node that the model has nothing of, EXPR_NONE.
static int unknown_below(evaluation *x, int node) {
    const expr *t = &x->r->x;
    const expr_node *v = &t->node[node];
    int role = x->r->of[node].role, found = EXPR_NONE;
    if (role == ROLE_FACT || role == ROLE_FACT_AT)
        return rule_known(x, node) ? EXPR_NONE : node;
    if (v->op == EXPR_CALL) {
        for (int a = v->a; a >= 0 && found < 0; a = t->node[a].next)
            found = unknown_below(x, a);
        return found;
    }
    if (v->a >= 0)
        found = unknown_below(x, v->a);
    return found < 0 && v->b >= 0 ? unknown_below(x, v->b) : found;
}

static bool no_heads(evaluation *x, int arg) {
    char text[80];
    int missing = unknown_below(x, arg);
    return rule_because(x,
                        "%sno head of %s has a number for %s (does it apply? a section with "
                        "model = GLOB leaves models out)",
                        x->at->what, text_show(x->at->model_name),
                        source(x, missing < 0 ? arg : missing, text));
}

static bool over_heads(evaluation *x, int node, double *out) {
    int role = x->r->of[node].role, arg = x->r->x.node[node].a;
    const fact_head outer = x->head;
    bool tell = x->depth == 0 && x->at == x->here, ok = true;
    double sum = 0, extreme = NAN;
    head_hit best = {0};
    size_t n = 0;
    x->depth++;
    for (size_t i = 0; ok && i < x->at->n_heads; i++) {
        x->head = x->at->heads[i];
        if (!applies(x, arg))
            continue;
        n++;
        ok = one_head(x, node, tell, &sum, &extreme, &best);
    }
    x->depth--;
    x->head = outer;
    if (ok && n == 0)
        ok = no_heads(x, arg);
    if (!ok)
        return false;
    x->looked[node] = n;
    if (tell && (role == ROLE_MAX_HEADS || role == ROLE_MIN_HEADS)) {
        x->head = best.head;
        ok = remember(x, node, best.value, 0);
        x->head = outer;
    }
    *out = role == ROLE_HEADS ? sum : role == ROLE_MEAN_HEADS ? sum / (double)n : extreme;
    return ok;
}

static bool of_numbers(evaluation *x, int node, double *out) {
    int role = x->r->of[node].role, n = 0;
    double v = 0, sum = 0, high = -INFINITY, low = INFINITY;
    for (int a = x->r->x.node[node].a; a >= 0; a = x->r->x.node[a].next, n++) {
        if (!number(x, a, &v))
            return false;
        sum += v;
        high = v > high ? v : high;
        low = v < low ? v : low;
    }
    *out = role == ROLE_MAX ? high : role == ROLE_MIN ? low : sum / n;
    return true;
}

static bool in_baseline(evaluation *x, int node, double *out) {
    const place *was = x->at;
    if (!x->there)
        return rule_because(x, "%s", x->why_not);
    x->at = x->there;
    bool ok = number(x, node, out);
    x->at = was;
    return ok;
}

static bool named(evaluation *x, int node, double *out) {
    const expr_node *v = &x->r->x.node[node];
    int role = x->r->of[node].role;
    switch (role) {
    case ROLE_LAYER:
        *out = x->head.layer;
        return true;
    case ROLE_HEAD:
        *out = x->head.head;
        return true;
    case ROLE_FACT:
    case ROLE_FACT_AT:
        return rule_look_up(x, node, out);
    case ROLE_BASELINE:
        return in_baseline(x, x->r->of[node].left, out);
    case ROLE_BASELINE_OF:
        return in_baseline(x, v->a, out);
    case ROLE_MAX:
    case ROLE_MIN:
    case ROLE_MEAN:
        return of_numbers(x, node, out);
    case ROLE_ABS:
    case ROLE_EXP:
    case ROLE_LOG:
        if (!number(x, v->a, out))
            return false;
        *out = role == ROLE_ABS ? fabs(*out) : role == ROLE_EXP ? exp(*out) : log(*out);
        return true;
    default:
        return over_heads(x, node, out);
    }
}

static bool arithmetic(evaluation *x, int node, double *out) {
    const expr_node *v = &x->r->x.node[node];
    double a = 0, b = 0;
    char text[80];
    if (!number(x, v->a, &a))
        return false;
    if (v->op == EXPR_MINUS) {
        *out = -a;
        return true;
    }
    if (!number(x, v->b, &b))
        return false;
    if (v->op == EXPR_DIVIDE && b == 0)
        return rule_because(x, "%s divides by zero", source(x, node, text));
    *out = v->op == EXPR_ADD        ? a + b
           : v->op == EXPR_SUBTRACT ? a - b
           : v->op == EXPR_MULTIPLY ? a * b
                                    : a / b;
    return true;
}

static bool number(evaluation *x, int node, double *out) {
    const expr_node *v = &x->r->x.node[node];
    if (v->op == EXPR_NUMBER) {
        *out = v->number;
        return true;
    }
    bool ok =
        v->op == EXPR_NAME || v->op == EXPR_CALL ? named(x, node, out) : arithmetic(x, node, out);
    return ok && finite_or(x, node, *out);
}

// Both sides of and/or, always: a rule that cannot be decided in one part is not good by another.
static bool truth(evaluation *x, int node, bool *out) {
    const expr_node *v = &x->r->x.node[node];
    bool a = false, b = false, ok;
    if (expr_compares(v->op)) {
        ok = number(x, v->a, &x->left[node]) && number(x, v->b, &x->right[node]);
        *out = ok && expr_compare(v->op, x->left[node], x->right[node]);
    } else if (v->op == EXPR_NOT) {
        ok = truth(x, v->a, &a);
        *out = !a;
    } else {
        ok = truth(x, v->a, &a) && truth(x, v->b, &b);
        *out = v->op == EXPR_AND ? a && b : a || b;
    }
    x->truth[node] = *out;
    return ok;
}

static int by_call_and_margin(const void *a, const void *b) {
    const head_hit *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->margin != y->margin)
        return x->margin > y->margin ? -1 : 1;
    if (x->head.layer != y->head.layer)
        return x->head.layer < y->head.layer ? -1 : 1;
    return (x->head.head > y->head.head) - (x->head.head < y->head.head);
}

bool rule_evaluate(evaluation *x) {
    x->at = x->here;
    x->depth = 0;
    x->why[0] = 0;
    x->n_hits = 0;
    x->holds = false;
    memset(x->where, 0, sizeof x->where);
    x->decided = truth(x, x->r->x.root, &x->holds);
    if (x->n_hits)
        qsort(x->hit, x->n_hits, sizeof *x->hit, by_call_and_margin);
    return x->decided || x->why[0];
}

void evaluation_free(evaluation *x) {
    free(x->hit);
    x->hit = NULL;
    x->n_hits = x->room = 0;
}
