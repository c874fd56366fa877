#include "cli/dash/expr.h"

#include "analyses/expr.h"

#include <math.h>

static double number(const expr *x, int node, const double *named) {
    const expr_node *v = &x->node[node];
    switch (v->op) {
    case EXPR_NUMBER:
        return v->number;
    case EXPR_MINUS:
        return -number(x, v->a, named);
    case EXPR_ADD:
        return number(x, v->a, named) + number(x, v->b, named);
    case EXPR_SUBTRACT:
        return number(x, v->a, named) - number(x, v->b, named);
    case EXPR_MULTIPLY:
        return number(x, v->a, named) * number(x, v->b, named);
    case EXPR_DIVIDE:
        return number(x, v->a, named) / number(x, v->b, named);
    default:
        return named[node];
    }
}

static bool truth(const expr *x, int node, const double *named) {
    const expr_node *v = &x->node[node];
    if (v->op == EXPR_AND)
        return truth(x, v->a, named) && truth(x, v->b, named);
    if (v->op == EXPR_OR)
        return truth(x, v->a, named) || truth(x, v->b, named);
    if (v->op == EXPR_NOT)
        return !truth(x, v->a, named);
    if (expr_compares(v->op))
        return expr_compare(v->op, number(x, v->a, named), number(x, v->b, named));
    return !isnan(named[node]) && named[node] != 0;
}

// The values of all names, also of those that and/or would not look at: a name that is not there is a
// mistake wherever it stands.
static bool look_up(const expr *x, expr_value value, void *ctx, double *named, int *at, err *e) {
    char name[EXPR_NAME_SIZE];
    for (int i = 0; i < x->n; i++) {
        const expr_node *v = &x->node[i];
        if (v->op != EXPR_NAME && v->op != EXPR_CALL)
            continue;
        *at = v->at;
        if (v->op == EXPR_CALL)
            return err_set(e, ERR_USAGE, "no \"%s(...)\" in a filter", expr_name(x, i, name));
        if (!value(ctx, expr_name(x, i, name), &named[i]))
            return err_set(e, ERR_USAGE,
                           "no \"%s\"; there are layer, head, erank, norm, stable, cond, growth, "
                           "gate, beta, rho, t1/2, abl, dead, marked, off",
                           name);
    }
    return true;
}

bool expr_eval(const char *text, expr_value value, void *ctx, bool *out, int *at, err *e) {
    static const char *const odd[] = {"t1/2", NULL};
    const expr_language language = {.names_are_truths = true, .odd_names = odd};
    double named[EXPR_MOST];
    expr x;
    err why = {0};
    *out = false;
    if (!expr_parse(&x, text, &language, true, at, &why) ||
        !look_up(&x, value, ctx, named, at, &why))
        return err_set(e, ERR_USAGE, "filter, character %d: %s", *at + 1, why.text);
    *out = truth(&x, x.root, named);
    return true;
}
