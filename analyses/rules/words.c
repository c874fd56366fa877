// Outcomes in words.
#include "analyses/rules/eval.h"

#include "analyses/rules/names.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HEADS_SHOWN = 6 };

typedef struct sentence {
    char text[1600];
    size_t n;
    int compares; // described so far
} sentence;

static void say(sentence *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(sentence *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(s->text + s->n, sizeof s->text - s->n, fmt, ap);
    va_end(ap);
    s->n += n > 0 ? (size_t)n : 0;
    if (s->n >= sizeof s->text)
        s->n = sizeof s->text - 1;
}

// Few digits, but enough to tell a from b.
static void two_numbers(double a, double b, char *x, char *y, size_t size) {
    for (int digits = 5; digits <= 17; digits += 3) {
        text_real(a, digits, x, size);
        text_real(b, digits, y, size);
        if (a == b || strcmp(x, y) != 0)
            return;
    }
}

static expr_op opposite(expr_op op) {
    switch (op) {
    case EXPR_LESS:
        return EXPR_GREATER_EQUAL;
    case EXPR_LESS_EQUAL:
        return EXPR_GREATER;
    case EXPR_GREATER:
        return EXPR_LESS_EQUAL;
    case EXPR_GREATER_EQUAL:
        return EXPR_LESS;
    case EXPR_EQUAL:
        return EXPR_NOT_EQUAL;
    default:
        return EXPR_EQUAL;
    }
}

static void say_source(sentence *s, const expr *x, int node) {
    const expr_node *v = &x->node[node];
    say(s, "%.*s", v->end - v->at, x->text + v->at);
}

// The heads that calls below this node are about.
static void say_heads(sentence *s, const evaluation *x, int node) {
    const expr *t = &x->r->x;
    const expr_node *v = &t->node[node];
    int role = x->r->of[node].role;
    if (role_over_heads(role)) {
        size_t n = 0, shown = 0;
        if (role == ROLE_HEADS)
            say(s, " of %zu", x->looked[node]);
        for (size_t i = 0; i < x->n_hits; i++)
            n += x->hit[i].node == node;
        for (size_t i = 0; i < x->n_hits && shown < HEADS_SHOWN; i++) {
            const head_hit *h = &x->hit[i];
            char value[40] = "";
            if (h->node != node)
                continue;
            say(s, "%sL%d.H%d",
                shown++              ? ", "
                : role == ROLE_HEADS ? ": "
                                     : " at ",
                h->head.layer, h->head.head);
            if (role == ROLE_HEADS && !isnan(h->value)) {
                text_real(h->value, 4, value, sizeof value);
                say(s, " (%s)", value);
            }
        }
        if (n > shown)
            say(s, " and %zu more", n - shown);
        return;
    }
    if (v->op == EXPR_CALL) {
        for (int a = v->a; a >= 0 && role != ROLE_FACT_AT; a = t->node[a].next)
            say_heads(s, x, a);
        return;
    }
    if (v->a >= 0)
        say_heads(s, x, v->a);
    if (v->b >= 0)
        say_heads(s, x, v->b);
}

static void say_compare(sentence *s, const evaluation *x, int node, bool must, rule_outcome *out) {
    const expr_node *v = &x->r->x.node[node];
    const char *sign = expr_sign(must ? v->op : opposite(v->op));
    char value[40], bound[40];
    two_numbers(x->left[node], x->right[node], value, bound, sizeof value);
    if (s->compares++)
        say(s, "; ");
    else {
        out->value = x->left[node];
        out->bound = x->right[node];
        out->sign = sign;
    }
    say_source(s, &x->r->x, v->a);
    if (x->r->x.node[v->a].op != EXPR_NUMBER)
        say(s, " = %s", value);
    say_heads(s, x, v->a);
    say(s, ", must be %s %s", sign, bound);
    if (x->r->x.node[v->b].op != EXPR_NUMBER) {
        say(s, " = ");
        say_source(s, &x->r->x, v->b);
        say_heads(s, x, v->b);
    }
}

// The comparisons that make this node what it is; must: what the rule wants of it.
static void explain(sentence *s, const evaluation *x, int node, bool must, rule_outcome *out) {
    const expr_node *v = &x->r->x.node[node];
    bool good = x->truth[node] == must;
    if (expr_compares(v->op)) {
        say_compare(s, x, node, must, out);
    } else if (v->op == EXPR_NOT) {
        explain(s, x, v->a, !must, out);
    } else {
        const int side[] = {v->a, v->b};
        for (int i = 0; i < 2; i++)
            if ((x->truth[side[i]] == must) == good)
                explain(s, x, side[i], must, out);
    }
}

bool rule_words(const evaluation *x, rule_outcome *out, err *e) {
    sentence s = {0};
    out->value = out->bound = NAN;
    out->sign = "";
    out->verdict = !x->decided ? RULE_UNDECIDED : x->holds ? RULE_HOLDS : RULE_BROKEN;
    if (x->decided)
        explain(&s, x, x->r->x.root, true, out);
    else
        say(&s, "%s", x->why);
    return (out->sentence = mem_strdup(s.text, e)) != NULL;
}
