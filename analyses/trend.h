// analyses/trend.h - how facts change along a training run: one curve a document, one point a
// checkpoint.
#ifndef DELTOP_TREND_H
#define DELTOP_TREND_H

#include "analyses/facts.h"
#include "analyses/figure.h"

typedef struct trend_point {
    const char *model; // name, as in the facts
    int64_t step;      // -1: not known, left out
} trend_point;

// Points by ascending step. One figure for each of: loss at the training length and at the longest
// position, extrapolation index, effective rank there, heads that still grow, complex pairs, half-lives,
// saturated gates and betas; those that no checkpoint has are left out. A fact that was not computed
// leaves a gap. No figure (out is empty) when no point has a step.
bool trend_figures(const facts *f, const trend_point *point, size_t n, figures *out, err *e);

#endif
