// core/progress.h - how a long computation says how far it is, and learns that it should stop.
#ifndef DELTOP_PROGRESS_FN_H
#define DELTOP_PROGRESS_FN_H

#include <stdbool.h>
#include <stdint.h>

// done of total, in whatever unit the job counts (tokens, states); total <= 0: not known. False
// means that the user wants to stop: release everything and fail with ERR_CANCELLED. Called from
// one thread at a time; cheap enough for an inner loop over tokens. A NULL function is "nobody
// watches".
typedef bool (*progress_fn)(void *ctx, int64_t done, int64_t total);

#endif
