// cli/dash/lane_parts.h - what the two halves of a lane share; for lane*.c only.
#ifndef DELTOP_DASH_LANE_PARTS_H
#define DELTOP_DASH_LANE_PARTS_H

#include "cli/dash/lane.h"

// Q_N numbers of the states after at[0..n) micro-steps of heads[0..n_heads) (numbers in the layer)
// go to put(ctx, head, i, q).
typedef void (*lane_put)(void *ctx, int head, int64_t i, const float *q);
bool lane_look(lane *l, const steps *s, mat state, const int *heads, int n_heads, const int64_t *at,
               int64_t n, lane_put put, void *ctx, backend *be, err *e);

// A probe's on_hidden: ERR_CANCELLED when the lane is to stop.
bool lane_may_go_on(void *ctx, int layer, int64_t t0, mat x, backend *be, err *e);

#endif
