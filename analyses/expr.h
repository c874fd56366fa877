// analyses/expr.h - small expressions, as text and as a tree.
//
// One language for the rules of a report (analyses/rules/rules.h) and for the filters of the dashboard
// (cli/dash/expr.h). What a name or a call means, whoever evaluates the tree decides.
//
//     or      = and { ("or" | "||" | "|") and }
//     and     = not { ("and" | "&&" | "&") not }
//     not     = ("not" | "!") not | compare
//     compare = sum [ ("<" | "<=" | ">" | ">=" | "==" | "=" | "!=") sum ]
//     sum     = product { ("+" | "-") product }
//     product = sign { ("*" | "/") sign }
//     sign    = "-" sign | atom
//     atom    = number [ "k" | "M" ] | name [ "(" or { "," or } ")" ] | "(" or ")"
//
// 1k is 1024, 1M is 1024k. A comparison is true or false, everything else is a number, and one does
// not stand for the other: `1 < 2 < 3` and `3 and 4` are refused.
#ifndef DELTOP_EXPR_H
#define DELTOP_EXPR_H

#include "core/err.h"

#include <stddef.h>

typedef enum {
    EXPR_NUMBER,
    EXPR_NAME,
    EXPR_CALL,
    EXPR_MINUS,
    EXPR_ADD,
    EXPR_SUBTRACT,
    EXPR_MULTIPLY,
    EXPR_DIVIDE,
    EXPR_LESS,
    EXPR_LESS_EQUAL,
    EXPR_GREATER,
    EXPR_GREATER_EQUAL,
    EXPR_EQUAL,
    EXPR_NOT_EQUAL,
    EXPR_AND,
    EXPR_OR,
    EXPR_NOT,
} expr_op;

enum { EXPR_NONE = -1, EXPR_MOST = 256, EXPR_NAME_SIZE = 64 };

typedef struct expr_node {
    expr_op op;
    bool truth;    // is true or false, no number
    int at, end;   // its text: bytes [at, end) of the expression
    double number; // EXPR_NUMBER
    int a, b;      // operands, or the first argument (a); EXPR_NONE: there is none
    int next;      // the argument behind this one
} expr_node;

typedef struct expr {
    const char *text; // lent
    expr_node node[EXPR_MOST];
    int n, root;
} expr;

// How an owner's language differs.
typedef struct expr_language {
    bool names_are_truths; // a name may stand where something true or false is needed
    const char *const
        *odd_names; // names that hold more than letters, digits and _; NULL-terminated
} expr_language;

// Parses all of TEXT, which must live as long as *x. truth: it must be true or false in the end. False:
// *e (ERR_INPUT) says what was expected, *at is the byte where.
bool expr_parse(expr *x, const char *text, const expr_language *l, bool truth, int *at, err *e);

// The name of a name or a call, into buf[EXPR_NAME_SIZE]; returns buf.
char *expr_name(const expr *x, int node, char *buf);
// "<=" and the like for operators, "" for the rest.
const char *expr_sign(expr_op op);
static inline bool expr_compares(expr_op op) {
    return op >= EXPR_LESS && op <= EXPR_NOT_EQUAL;
}
// The value of a comparison, EXPR_LESS to EXPR_NOT_EQUAL; false for NaN, also for EXPR_NOT_EQUAL.
bool expr_compare(expr_op op, double a, double b);

#endif
