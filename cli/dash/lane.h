// cli/dash/lane.h - one pass of one model through the document, which can be left and taken up
// again: losses, gates and ranks as they appear, and states to come back to.
//
// Worker's side only. The pass publishes into its run (run.h). Between its blocks the same forward
// pass can be sent back to any place it has read (lane_replay) to look closer: finer ranks, window
// products. Those reruns start at the nearest point kept.
#ifndef DELTOP_DASH_LANE_H
#define DELTOP_DASH_LANE_H

#include "cli/dash/run.h"

typedef bool (*lane_stop)(void *ctx); // asked between blocks and between layers

typedef struct lane {
    run *r;
    fwd *f;
    row_options how;
    int64_t block;
    bool losses_only; // no ranks, no points
    lane_stop stop;
    void *stop_ctx;
    // States to come back to, ascending, at least `apart` tokens from each other
    fwd_point **point;
    size_t n_points, cap_points;
    int64_t apart, most_points;
    fwd_point *resume; // where the pass itself stands while f is elsewhere
    int at_layers;     // layers that f has run to get where it is; 0: the pass stands there itself
    double **last_key; // [layers] the key before this block, for angles with n_h = 1
    // Fine ranks
    uint8_t *stride; // [n_heads, chunks] finest stride done in a chunk of RANK_EVERY tokens
    int64_t chunks;
    size_t fine_bytes, most_fine;
    // Scratch of one layer and block
    double *host, *sv, *fro;
    size_t cap_host, cap_sv, cap_fro;
    int *all; // 0, 1, 2 ... heads of the widest layer
} lane;

// how: resets and switched-off heads, copied; arrays in it stay the caller's. state_mem: bytes.
lane *lane_new(const model *m, run *r, const row_options *how, int64_t block, int64_t state_mem,
               bool losses_only, lane_stop stop, void *ctx, err *e);
void lane_free(lane *l); // NULL is fine

bool lane_over(const lane *l);
// Reads one block of the pass, up to token `hold` (-1: no limit). After a failure (ERR_CANCELLED:
// stop() said so) the lane is good for nothing but lane_free.
bool lane_step(lane *l, int64_t hold, err *e);

// Everything about one place: the states of all heads after token s->t, and windows s->W for the
// head s->head or for all. t must have been read.
bool lane_spot(lane *l, spot *s, err *e);
// One window of W tokens that ends with token t, of one head: adds its half-lives.
bool lane_mode(lane *l, modes *m, int64_t t, err *e);

// Brings heads[0..n) to the next finer stride in the first chunk of [t0, t1) that lacks it, the
// whole range first at 16, then 4, then `finest`. *done: nothing is left to do. *left, *total: head
// chunks.
bool lane_refine(lane *l, const int *heads, int n, int64_t t0, int64_t t1, int finest, bool *done,
                 int64_t *left, int64_t *total, err *e);
// The stride that a view of so many tokens wants: 64, 16, 4 or 1, so that it holds 512 samples.
int lane_wanted_stride(int64_t tokens);

#endif
