#include "analyses/expr.h"

#include "core/text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { DEEPEST = 100 };

typedef struct parser {
    expr *x;
    const expr_language *l;
    const char *p; // where the reading is
    int behind;    // end of what was read last, before the blanks
    int depth;
    int *at;
    err *e;
} parser;

static int parse_or(parser *p);

static int here(const parser *p) {
    return (int)(p->p - p->x->text);
}

static int wrong_at(parser *p, int at, const char *what) {
    if (p->e->code == ERR_NONE)
        *p->at = at;
    err_set(p->e, ERR_INPUT, "%s", what);
    return EXPR_NONE;
}

static int wrong(parser *p, const char *what) {
    return wrong_at(p, here(p), what);
}

static void blanks(parser *p) {
    while (*p->p == ' ' || *p->p == '\t')
        p->p++;
}

// Moves over n bytes and the blanks behind them.
static void take(parser *p, size_t n) {
    p->p += n;
    p->behind = here(p);
    blanks(p);
}

static bool in_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// Bytes of the name that stands here, 0: none.
static size_t name_length(const parser *p) {
    size_t n = 0;
    for (const char *const *odd = p->l->odd_names; odd && *odd; odd++) {
        size_t k = strlen(*odd);
        if (strncmp(p->p, *odd, k) == 0 && !in_name(p->p[k]) && k > n)
            n = k;
    }
    if (n || (!isalpha((unsigned char)*p->p) && *p->p != '_'))
        return n;
    while (in_name(p->p[n]))
        n++;
    return n;
}

static bool take_word(parser *p, const char *word) {
    size_t n = strlen(word);
    if (name_length(p) != n || strncmp(p->p, word, n) != 0)
        return false;
    take(p, n);
    return true;
}

static bool take_sign(parser *p, const char *sign) {
    size_t n = strlen(sign);
    if (strncmp(p->p, sign, n) != 0)
        return false;
    take(p, n);
    return true;
}

static int make(parser *p, expr_op op, int at, int a, int b) {
    if (p->x->n == EXPR_MOST)
        return wrong_at(p, at, "too long an expression from here on");
    expr_node *v = &p->x->node[p->x->n];
    *v =
        (expr_node){.op = op, .truth = op >= EXPR_LESS, .at = at, .end = p->behind, .a = a, .b = b};
    v->next = EXPR_NONE;
    return p->x->n++;
}

static bool need_number(parser *p, int node) {
    const expr_node *v = &p->x->node[node];
    if (v->truth)
        wrong_at(p, v->at, "expected a number, this is true or false");
    return !v->truth;
}

static bool need_truth(parser *p, int node) {
    const expr_node *v = &p->x->node[node];
    bool ok = v->truth || (v->op == EXPR_NAME && p->l->names_are_truths);
    if (!ok)
        wrong_at(p, v->at, "expected a comparison, this is a number");
    return ok;
}

static int parse_number(parser *p) {
    char text[64];
    const char *s = p->p;
    int at = here(p);
    size_t n = strspn(s, "0123456789");
    if (s[n] == '.')
        n += 1 + strspn(s + n + 1, "0123456789");
    if (s[n] == 'e' || s[n] == 'E') {
        size_t sign = s[n + 1] == '+' || s[n + 1] == '-';
        n += 1 + sign + strspn(s + n + 1 + sign, "0123456789");
    }
    double v = 0, unit = s[n] == 'k' ? 1024 : s[n] == 'M' ? 1024 * 1024 : 1;
    if (n == 0 || n >= sizeof text)
        return wrong(p, "expected a number or a name");
    memcpy(text, s, n);
    text[n] = 0;
    n += unit > 1;
    if (!text_number(text, &v) || in_name(s[n]) || s[n] == '.')
        return wrong(p, "expected a number");
    if (!isfinite(v * unit))
        return wrong(p, "too large a number");
    take(p, n);
    int node = make(p, EXPR_NUMBER, at, EXPR_NONE, EXPR_NONE);
    if (node >= 0)
        p->x->node[node].number = v * unit;
    return node;
}

static int parse_call(parser *p, int at) {
    int first = EXPR_NONE, last = EXPR_NONE;
    take(p, 1);
    do {
        int arg = parse_or(p);
        if (arg < 0)
            return EXPR_NONE;
        if (first < 0)
            first = arg;
        else
            p->x->node[last].next = arg;
        last = arg;
    } while (take_sign(p, ","));
    if (*p->p != ')')
        return wrong(p, "expected \")\" or \",\"");
    take(p, 1);
    return make(p, EXPR_CALL, at, first, EXPR_NONE);
}

static bool is_word(const parser *p, size_t n) {
    static const char *const words[] = {"and", "or", "not"};
    for (int i = 0; i < 3; i++)
        if (n == strlen(words[i]) && strncmp(p->p, words[i], n) == 0)
            return true;
    return false;
}

static int parse_atom(parser *p) {
    int at = here(p);
    if (*p->p == '(') {
        take(p, 1);
        int node = parse_or(p);
        if (node >= 0 && *p->p != ')')
            return wrong(p, "expected \")\"");
        if (node >= 0)
            take(p, 1);
        return node;
    }
    size_t n = name_length(p);
    if (n == 0)
        return parse_number(p);
    if (n >= EXPR_NAME_SIZE)
        return wrong(p, "too long a name");
    if (is_word(p, n))
        return wrong(p, "expected a number or a name");
    take(p, n);
    return *p->p == '(' ? parse_call(p, at) : make(p, EXPR_NAME, at, EXPR_NONE, EXPR_NONE);
}

static int parse_sign(parser *p) {
    int at = here(p);
    if (*p->p != '-')
        return parse_atom(p);
    if (++p->depth > DEEPEST)
        return wrong(p, "expected fewer brackets");
    take(p, 1);
    int node = parse_sign(p);
    p->depth--;
    if (node < 0 || !need_number(p, node))
        return EXPR_NONE;
    return make(p, EXPR_MINUS, at, node, EXPR_NONE);
}

static int join(parser *p, expr_op op, int at, int a, int b) {
    if (b < 0 || !need_number(p, a) || !need_number(p, b))
        return EXPR_NONE;
    return make(p, op, at, a, b);
}

static int parse_product(parser *p) {
    int at = here(p), node = parse_sign(p);
    while (node >= 0 && (*p->p == '*' || *p->p == '/')) {
        expr_op op = *p->p == '*' ? EXPR_MULTIPLY : EXPR_DIVIDE;
        take(p, 1);
        node = join(p, op, at, node, parse_sign(p));
    }
    return node;
}

static int parse_sum(parser *p) {
    int at = here(p), node = parse_product(p);
    while (node >= 0 && (*p->p == '+' || *p->p == '-')) {
        expr_op op = *p->p == '+' ? EXPR_ADD : EXPR_SUBTRACT;
        take(p, 1);
        node = join(p, op, at, node, parse_product(p));
    }
    return node;
}

// Longer signs first.
static const struct {
    const char *sign;
    expr_op op;
} compares[] = {{"<=", EXPR_LESS_EQUAL}, {">=", EXPR_GREATER_EQUAL}, {"==", EXPR_EQUAL},
                {"!=", EXPR_NOT_EQUAL},  {"<", EXPR_LESS},           {">", EXPR_GREATER},
                {"=", EXPR_EQUAL}};

static bool take_compare(parser *p, expr_op *op) {
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
        if (take_sign(p, compares[i].sign)) {
            *op = compares[i].op;
            return true;
        }
    return false;
}

static int parse_compare(parser *p) {
    int at = here(p), node = parse_sum(p), second = 0;
    expr_op op, again;
    if (node < 0 || !take_compare(p, &op))
        return node;
    node = join(p, op, at, node, parse_sum(p));
    second = here(p);
    if (node >= 0 && take_compare(p, &again))
        return wrong_at(p, second, "expected \"and\" between two comparisons");
    return node;
}

static int parse_not(parser *p) {
    int at = here(p), node;
    if (++p->depth > DEEPEST)
        return wrong(p, "expected fewer brackets");
    if ((*p->p == '!' && p->p[1] != '=' && take_sign(p, "!")) || take_word(p, "not")) {
        node = parse_not(p);
        if (node >= 0)
            node = need_truth(p, node) ? make(p, EXPR_NOT, at, node, EXPR_NONE) : EXPR_NONE;
    } else {
        node = parse_compare(p);
    }
    p->depth--;
    return node;
}

static int parse_and(parser *p) {
    int at = here(p), node = parse_not(p);
    while (node >= 0 && (take_word(p, "and") || take_sign(p, "&&") || take_sign(p, "&"))) {
        int right = parse_not(p);
        if (right < 0 || !need_truth(p, node) || !need_truth(p, right))
            return EXPR_NONE;
        node = make(p, EXPR_AND, at, node, right);
    }
    return node;
}

static int parse_or(parser *p) {
    int at = here(p), node = parse_and(p);
    while (node >= 0 && (take_word(p, "or") || take_sign(p, "||") || take_sign(p, "|"))) {
        int right = parse_and(p);
        if (right < 0 || !need_truth(p, node) || !need_truth(p, right))
            return EXPR_NONE;
        node = make(p, EXPR_OR, at, node, right);
    }
    return node;
}

bool expr_parse(expr *x, const char *text, const expr_language *l, bool truth, int *at, err *e) {
    parser p = {.x = x, .l = l, .p = text, .at = at, .e = e};
    x->text = text;
    x->n = 0;
    blanks(&p);
    x->root = parse_or(&p);
    if (x->root < 0)
        return false;
    if (*p.p) {
        wrong(&p, "expected the end, an operator, \"and\" or \"or\"");
        return false;
    }
    return !truth || need_truth(&p, x->root);
}

char *expr_name(const expr *x, int node, char *buf) {
    const expr_node *v = &x->node[node];
    size_t n = 0;
    const char *s = x->text + v->at;
    if (v->op == EXPR_NAME)
        n = (size_t)(v->end - v->at);
    else
        while (in_name(s[n]))
            n++;
    memcpy(buf, s, n);
    buf[n] = 0;
    return buf;
}

const char *expr_sign(expr_op op) {
    static const char *const sign[] = {
        [EXPR_MINUS] = "-",       [EXPR_ADD] = "+",        [EXPR_SUBTRACT] = "-",
        [EXPR_MULTIPLY] = "*",    [EXPR_DIVIDE] = "/",     [EXPR_LESS] = "<",
        [EXPR_LESS_EQUAL] = "<=", [EXPR_GREATER] = ">",    [EXPR_GREATER_EQUAL] = ">=",
        [EXPR_EQUAL] = "==",      [EXPR_NOT_EQUAL] = "!=", [EXPR_AND] = "and",
        [EXPR_OR] = "or",         [EXPR_NOT] = "not"};
    return sign[op] ? sign[op] : "";
}

bool expr_compare(expr_op op, double a, double b) {
    switch (op) {
    case EXPR_LESS:
        return a < b;
    case EXPR_LESS_EQUAL:
        return a <= b;
    case EXPR_GREATER:
        return a > b;
    case EXPR_GREATER_EQUAL:
        return a >= b;
    case EXPR_EQUAL:
        return a == b;
    default:
        return a < b || a > b;
    }
}
