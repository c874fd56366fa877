// analyses/spectrum_tokens.h - eigenvalues of single tokens, streamed into histograms.
#ifndef DELTOP_ANALYSES_SPECTRUM_TOKENS_H
#define DELTOP_ANALYSES_SPECTRUM_TOKENS_H

#include "analyses/spectrum.h"

// keep: most values kept for pictures.
bool spectrum_tokens_init(spectrum_tokens *s, int64_t keep, err *e);
void spectrum_tokens_free(spectrum_tokens *s);

// The tokens of a block, x, whose first one has position t0 in a row of T.
bool spectrum_tokens_add(spectrum_tokens *s, const transitions *x, int64_t t0, int64_t T,
                         backend *be, err *e);

// Values that a token contributes.
int spectrum_token_values(const transitions *x);

// Median of a histogram over [lo, hi], in the middle of its bin; NaN when empty.
double spectrum_bins_median(const int64_t *bin, double lo, double hi);

#endif
