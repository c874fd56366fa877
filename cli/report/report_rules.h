// cli/report/report_rules.h - the rules of `report --rules`: read before the work begins, checked on its
// facts at the end.
#ifndef DELTOP_REPORT_RULES_H
#define DELTOP_REPORT_RULES_H

#include "analyses/rules/rules.h"

typedef struct report_rules {
    rules rules;
    facts baseline;
    bool has_baseline;
    int64_t *at; // positions that rules name, ascending
    size_t n_at;
} report_rules;

// path NULL: no rules, which is fine. baseline: results.jsonl or its folder, NULL: none. Everything that
// can be wrong without results is told here. On failure *r is empty.
bool report_rules_open(report_rules *r, const char *path, const char *baseline, err *e);
void report_rules_free(report_rules *r); // an empty one is fine

#endif
