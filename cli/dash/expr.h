// cli/dash/expr.h - filters over heads: `erank>30 & layer=9`, `!dead`, `norm<1 | beta>1.5`.
//
// The language is that of analyses/expr.h, without calls. A name alone is true when it is neither 0 nor
// NaN; a comparison with NaN is false.
#ifndef DELTOP_DASH_EXPR_H
#define DELTOP_DASH_EXPR_H

#include "core/err.h"

// Value of a name; NaN: not known for this head. False: there is no such name.
typedef bool (*expr_value)(void *ctx, const char *name, double *out);

// Evaluates TEXT. False: *e (ERR_USAGE) names the place in characters, *at is its byte.
bool expr_eval(const char *text, expr_value value, void *ctx, bool *out, int *at, err *e);

#endif
