#include "cli/dash/expr.h"

#include "core/text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { DEEPEST = 100 };

typedef struct parser {
    const char *all, *p;
    expr_value value;
    void *ctx;
    err *e;
    int *at;
    int depth;
} parser;

static bool parse_or(parser *x, bool *out);

static void blanks(parser *x) {
    while (*x->p == ' ')
        x->p++;
}

static bool wrong(parser *x, const char *want) {
    *x->at = (int)(x->p - x->all);
    return err_set(x->e, ERR_USAGE, "filter, character %d: expected %s", *x->at + 1, want);
}

static bool number(parser *x, double *out) {
    char text[64];
    size_t n = strspn(x->p, "0123456789.+-eE");
    blanks(x);
    if (n == 0 || n >= sizeof text)
        return wrong(x, "a number");
    memcpy(text, x->p, n);
    text[n] = 0;
    if (!text_number(text, out))
        return wrong(x, "a number");
    x->p += n;
    return true;
}

static bool parse_test(parser *x, bool *out) {
    char name[32];
    size_t n = 0;
    const char *begin = x->p;
    while (isalnum((unsigned char)*x->p) || *x->p == '_' || *x->p == '/') {
        if (n + 1 < sizeof name)
            name[n++] = *x->p;
        x->p++;
    }
    name[n] = 0;
    double v = NAN, with = 0;
    if (n == 0)
        return wrong(x, "a name like erank, layer, dead");
    if (!x->value(x->ctx, name, &v)) {
        x->p = begin;
        *x->at = (int)(begin - x->all);
        return err_set(
            x->e, ERR_USAGE,
            "filter: no \"%s\"; there are layer, head, erank, norm, stable, cond, growth, "
            "gate, beta, rho, t1/2, abl, dead, marked, off",
            name);
    }
    blanks(x);
    static const char *const op[] = {"<=", ">=", "!=", "<", ">", "="};
    for (int i = 0; i < 6; i++) {
        size_t k = strlen(op[i]);
        if (strncmp(x->p, op[i], k) != 0)
            continue;
        x->p += k;
        blanks(x);
        if (!number(x, &with))
            return false;
        *out = i == 0   ? v <= with
               : i == 1 ? v >= with
               : i == 2 ? v < with || v > with
               : i == 3 ? v < with
               : i == 4 ? v > with
                        : v == with;
        return true;
    }
    *out = !isnan(v) && v != 0;
    return true;
}

static bool parse_not(parser *x, bool *out) {
    blanks(x);
    if (++x->depth > DEEPEST)
        return wrong(x, "fewer brackets");
    bool ok;
    if (*x->p == '!') {
        x->p++;
        ok = parse_not(x, out);
        *out = !*out;
    } else if (*x->p == '(') {
        x->p++;
        ok = parse_or(x, out);
        blanks(x);
        if (ok && *x->p != ')')
            return wrong(x, "\")\"");
        x->p += ok;
    } else {
        ok = parse_test(x, out);
    }
    x->depth--;
    blanks(x);
    return ok;
}

static bool parse_and(parser *x, bool *out) {
    if (!parse_not(x, out))
        return false;
    while (*x->p == '&') {
        bool right = false;
        x->p += x->p[1] == '&' ? 2 : 1;
        if (!parse_not(x, &right))
            return false;
        *out = *out && right;
    }
    return true;
}

static bool parse_or(parser *x, bool *out) {
    if (!parse_and(x, out))
        return false;
    while (*x->p == '|') {
        bool right = false;
        x->p += x->p[1] == '|' ? 2 : 1;
        if (!parse_and(x, &right))
            return false;
        *out = *out || right;
    }
    return true;
}

bool expr_eval(const char *text, expr_value value, void *ctx, bool *out, int *at, err *e) {
    parser x = {.all = text, .p = text, .value = value, .ctx = ctx, .e = e, .at = at};
    *out = false;
    if (!parse_or(&x, out))
        return false;
    blanks(&x);
    return *x.p ? wrong(&x, "the end, & or |") : true;
}
