// analyses/words/read.h - many short rows through a model: what it holds for most likely at scored
// positions.
//
// On a reentrant backend rows go side by side, one a thread; on others one after the other. The rows come
// from a source and the outcome goes to a sink in no fixed order, one at a time; both must depend on
// the row's number alone.
#ifndef DELTOP_WORDS_READ_H
#define DELTOP_WORDS_READ_H

#include "core/forward.h"

typedef struct word_source {
    void *ctx;
    int64_t rows, longest; // most tokens of a row
    // Row i: ids [n]; want[p] is the right answer behind token p, -1: not scored.
    void (*make)(void *ctx, int64_t i, int32_t *ids, int32_t *want, int64_t *n);
    // best [n]: what the model says behind each token.
    void (*took)(void *ctx, int64_t i, const int32_t *best, const int32_t *want, int64_t n);
} word_source;

// beta_max > 0: an intervention. Every write strength is cut to it before the recurrence
// (ERR_UNSUPPORTED for a model that has none). block: tokens at a time, 0: what suits.
bool words_read(const model *m, const word_source *s, int64_t block, double beta_max,
                progress_fn progress, void *progress_ctx, err *e);

#endif
