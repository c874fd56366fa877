// bench/match.h - two results, or several baselines and one result, row by row.
#ifndef DELTOP_BENCH_MATCH_H
#define DELTOP_BENCH_MATCH_H

#include "bench/record.h"
#include "bench/verdict.h"

typedef struct pairing {
    const bench_row *old, *new; // lent; one may be NULL
    change c;
} pairing;

typedef struct comparison {
    pairing *v; // in the order of the new result, then what is gone
    size_t n;
    size_t count[N_VERDICTS];
    record pooled;    // baselines of several files put together; owned
    bool same_binary; // both were measured with one file (fault B130)
    char places[512]; // why devices differ; "" when they do not
} comparison;

typedef struct match_rules {
    verdict_rules verdict; // rows is filled by match
    bool across_devices;   // compare although device or driver differ
} match_rules;

// Rows are matched by all their parameters and their source (row_key). Samples of several baselines
// are pooled (record_merge). A case that is there twice: the second is matched with the second.
bool match(const record *old, size_t n_old, const record *new, const match_rules *rules,
           comparison *out, err *e);
void comparison_free(comparison *c);
// [{"name", "params", "verdict", "ratio", ...}] and {"SLOWER": 2, ...}. NULL: no memory.
json_t *comparison_rows_json(const comparison *c);
json_t *comparison_counts_json(const comparison *c);

// design.md section 5: 4 something is slower or wrong, 5 nothing was compared (strict: or something
// stayed undecided), 0 else.
int comparison_exit(const comparison *c, bool strict);

#endif
