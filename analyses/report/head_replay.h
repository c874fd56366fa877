// analyses/report/head_replay.h - one block of one layer, token by token: what head_stats.c sums.
#ifndef DELTOP_REPORT_HEAD_REPLAY_H
#define DELTOP_REPORT_HEAD_REPLAY_H

#include "analyses/report/head_stats.h"

// Sums of one layer while its row is read.
typedef struct layer_sums {
    double *sum;       // [H, HEAD_SIGNALS, bins]
    int64_t *n;        // the same
    double *second;    // [Hk, K, K] of keys
    double *first;     // [Hk, K]
    int64_t n_keys;    // keys of one head so far
    double *last_norm; // [H] |H| after the last token read; NaN: none
} layer_sums;

// The steps of a block on the host, float64; NULL where a kind has none.
typedef struct head_block {
    head_shape s;
    int64_t T, t0;
    double *k, *v, *beta, *decay, *a, *b;
    double *state; // [H K, V]; run through the block by head_block_run
} head_block;

// replayed: the states are asked for too.
bool head_block_take(head_block *x, const steps *s, int64_t t0, mat state, bool replayed,
                     backend *be, err *e);
void head_block_free(head_block *x); // also after a failed take

// One head through the block; at: its layer's place in *out, whose traces it fills. Heads may run side
// by side.
bool head_block_run(const head_block *x, int head, layer_sums *sums, const head_stats *out, int at,
                    bool replayed, err *e);
// The moments of one key head.
void head_block_keys(const head_block *x, int key_head, layer_sums *sums);

#endif
