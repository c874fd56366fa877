// cli/check_print.h - outcomes of rules as text, JSON and JUnit XML; `check` and `report --rules` share it.
#ifndef DELTOP_CHECK_PRINT_H
#define DELTOP_CHECK_PRINT_H

#include "analyses/rules/rules.h"
#include "cli/output.h"

#include <stdio.h>

// What is broken or not decided, with all also what holds; a line of counts.
void check_print(const output *x, const rule_outcomes *r, bool all);
// A test for each outcome; what is not decided is a failure of its own type.
void check_print_junit(const rule_outcomes *r, FILE *f);
// An array, one object an outcome (docs/json.md); {"holds": n, ...}. NULL on failed allocation.
json_t *check_json(const rule_outcomes *r);
json_t *check_counts_json(const rule_outcomes *r);

// The rules themselves, and the n token counts that they name.
void check_print_list(const output *x, const rules *r, const int64_t *at, size_t n);
json_t *check_list_json(const rules *r);
json_t *check_numbers_json(const int64_t *v, size_t n);

#endif
