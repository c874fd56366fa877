// bench/bisect.h - which commit made a case slower: builds commits between a good and a bad one in a
// worktree of their own and measures each against the good build, in turns.
#ifndef DELTOP_BENCH_BISECT_H
#define DELTOP_BENCH_BISECT_H

#include "core/err.h"

#include <jansson.h>

typedef struct bisect_plan {
    const char *good, *bad;       // anything git takes for a commit
    const char *build;            // shell command that leaves ./deltop in the worktree's root
    const char *const *arguments; // for `deltop bench`, NULL at the end (bench/ab.h)
    int turns;
    double threshold;                         // share
    void (*say)(void *ctx, const char *text); // a line for every step; NULL: nobody listens
    void *ctx;
} bisect_plan;

typedef struct bisect_result {
    char commit[64], subject[256];
    int measured;  // commits that were built and measured
    json_t *steps; // [{"commit", "verdict", "ratio"}]; owned
    char *table;   // the same as text, a line each; owned
} bisect_result;

// Only commits on the first-parent line from GOOD to BAD. One that does not build is passed over.
// ERR_INPUT: no such commit, GOOD is no ancestor of BAD, a build fails at either end, or BAD is not
// slower than GOOD. The worktrees are removed again whatever happens.
bool bench_bisect(const bisect_plan *p, bisect_result *r, err *e);
void bisect_free(bisect_result *r);

#endif
