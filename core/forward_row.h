// core/forward_row.h - the row that a forward pass is reading; for core/forward*.c only.
#ifndef DELTOP_FORWARD_ROW_H
#define DELTOP_FORWARD_ROW_H

#include "core/forward.h"

struct fwd_reading {
    const int32_t *ids; // borrowed
    int64_t n, at;
    const row_options *opt; // borrowed, may be NULL
    int64_t next_start;     // among opt->starts
    mat x, y;               // residual stream and scratch of a block
    int32_t *targets, *best;
    double *loss;
};

#endif
