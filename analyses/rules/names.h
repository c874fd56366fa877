// analyses/rules/names.h - what names and calls of a rule stand for; for analyses/rules only.
#ifndef DELTOP_RULES_NAMES_H
#define DELTOP_RULES_NAMES_H

#include "analyses/rules/rules.h"

typedef enum {
    ROLE_NONE,    // neither a name nor a call
    ROLE_FACT,    // NAME
    ROLE_FACT_AT, // NAME(N); the argument is a number node
    ROLE_LAYER,   // of the head at hand
    ROLE_HEAD,
    ROLE_HEADS,     // heads(TEST)
    ROLE_MAX_HEADS, // max(X) over heads
    ROLE_MIN_HEADS,
    ROLE_MEAN_HEADS,
    ROLE_MAX, // max(X, Y, ...)
    ROLE_MIN,
    ROLE_MEAN,
    ROLE_ABS,
    ROLE_EXP,
    ROLE_LOG,
    ROLE_BASELINE,    // the left side of its comparison, there
    ROLE_BASELINE_OF, // baseline(X)
} rule_role;

static inline bool role_over_heads(int role) {
    return role >= ROLE_HEADS && role <= ROLE_MEAN_HEADS;
}

// Finds out the role of every name and call of r->x. False: *e (ERR_INPUT) says what is wrong, *at is
// the byte of the expression.
bool rule_names(rule *r, int *at, err *e);

#endif
