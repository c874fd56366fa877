// analyses/trend.h - how facts change along a training run: one curve a document, one point a
// checkpoint.
#ifndef DELTOP_TREND_H
#define DELTOP_TREND_H

#include "analyses/facts.h"
#include "analyses/figure.h"

#include <stdbool.h>

// The fact that says where a model stands on the way: one a model, without a document.
#define TREND_STEP "step"

// Is it a fact that the figures are made of (or TREND_STEP)?
bool trend_takes(const fact *x);

// One point for each model that has a TREND_STEP of 0 or more, by ascending step. One figure for each
// of: loss at the training length and at the longest position, extrapolation index, effective rank
// there, heads that still grow, complex pairs, half-lives, saturated gates and betas; those that no
// checkpoint has are left out. A fact that was not computed leaves a gap. No figure (out is empty)
// without a point.
bool trend_figures(const facts *f, figures *out, err *e);

#endif
