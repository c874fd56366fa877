// kernels/cuda/delta.h - the delta rule (ERASE_KEY of core/steps.h) on Hopper's tensor cores:
// up to 16 micro-steps a token, no or scalar decay, grouped value heads, K up to 128, any V.
//
// Equations, tiles and barriers: docs/kernels.md. The fields of delta_call stand in delta_tile.h.
// Results are exact up to the rounding of operands: states to bfloat16, what a chunk makes of keys and values to fp16
// (relative L2 error of outputs 1.7e-3, which is that of bfloat16 outputs, to 4.2e-3; 4.8e-3 with beta = 2 in every row), as are states
// between segments, and what a segment does to a state;
// a past that has decayed below 2^-26 may be dropped.
// Values, products of keys and, between segments, states that leave the range of fp16 (65504) come out as NaN or infinite, never as
// other numbers;
// like any NaN of the inputs they may spoil outputs of the whole chunk, up to 63 micro-steps before them.
#ifndef DELTOP_CUDA_DELTA_H
#define DELTOP_CUDA_DELTA_H

#include "kernels/cuda/delta_tile.h"

// Tokens of a chunk: as many as it has room for, fewer where boundary states would not lie at chunks' starts.
int delta_tokens(const delta_call *s);

// The table of rows that have tokens starts[i] .. starts[i + 1] - 1 (on the host, [n + 1]) for a call whose n_h and
// every are set: rows without tokens have no place in it. How many there are; rows: room for n.
int delta_rows_of(const delta_call *s, const int64_t *starts, int64_t n, delta_row *rows);

// How a call is cut: rows' chunks into segments that run side by side, and what the cost model expects, in
// microseconds, where all heads keep their past from segment to segment. first_pass makes segments' ends and transitions, scan
// their starts, second_pass the outputs.
typedef struct delta_plan {
    int segments;                     // of the longest row. Other rows have as many as they need
    delta_layout layout[LAYOUTS + 1]; // as in delta_call
    double first_pass, scan, second_pass;
    bool uneven; // rows have different numbers of chunks
    bool paired; // the first pass in clusters of two blocks (docs/kernels.md), where V <= 128
    int chunks, pieces;                             // chunks and segments of all rows
    int early, inner_pieces, longer[MOST_SEGMENTS]; // as in delta_call
} delta_plan;

// The cheapest plan on a device of so many multiprocessors, on the whole where decays, which the host does not know, decide
// how much of a past is kept; segments: about that many instead (0 = choose), as far as there are chunks. Reads H, V, n_h, T, n_rows, rows, every and decay's presence.
delta_plan delta_plan_for(const delta_call *s, int processors, int segments);

// Floats of scratch that delta_run needs for a plan: gates of all chunks (1.7 KB a chunk and head), and with segments
// 128 (64 + V) + 2, V in whole 64, for every segment and head, those of rows of a single segment included.
size_t delta_scratch(const delta_call *s, const delta_plan *plan);

// q [tokens, Hk K], k [tokens n_h, Hk K], v [tokens n_h, H V], o [tokens, H V], beta [tokens n_h, H], decay
// [tokens, H]; all on the device, tokens of all rows behind each other, fewer than 2^31 micro-steps in all. K, V
// multiples of 8, K <= 128, n_h <= 16, H a multiple of Hk; q, k, v 16-byte aligned with leading dimensions that are
// multiples of 8, o 4-byte aligned with an even one. state: [rows H K, V] float, from the rows' starts to
// their ends; ld >= V in floats. every: boundary states are written, too: s.states [boundaries H K, V] float, row by row.
// s.rows may be freed when the call returns. scratch: on the device, 16-byte aligned, free again when the stream has come
// to the end of the call. Nothing may overlap anything else. Nothing is checked but what the launches and the makers of tensor
// maps return; no tokens: nothing happens.
cudaError_t delta_run(delta_call s, const delta_plan *plan, float *state, int64_t ld,
                      float *scratch, cudaStream_t stream);

#endif
