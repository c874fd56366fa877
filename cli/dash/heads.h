// cli/dash/heads.h - heads by number and by property: filters, orders, names.
#ifndef DELTOP_DASH_HEADS_H
#define DELTOP_DASH_HEADS_H

#include "cli/dash/scene.h"

// True when the head passes the filter, or there is none (an expression that is wrong lets all
// pass; the prompt has told so).
bool heads_pass(const scene *x, int head);
// An expression on heads, evaluated for one: for the prompt's check.
bool heads_check(const scene *x, const char *text, int *at, err *e);

// 'x' for a head that is off, '*' for a marked one, else 0.
char heads_sign(const dash *d, int layer, int head);

// Columns of the table.
enum { TABLE_COLUMNS = 2 + METRICS + 2 };
const char *heads_column(int column);
double heads_value(const scene *x, int column, int head, char *state);
// The heads in the order of d->look.sort and d->look.invert, NaN last either way; their number, at most most.
int heads_sorted(const scene *x, int *out, int most);

#endif
