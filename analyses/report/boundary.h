// analyses/report/boundary.h - do heads notice where a document begins? (science S07)
//
// A boundary is a token at which a document starts, or a BOS token, behind the first token of a row.
// A head that resets there has a small gate, or a state that shrinks, at boundaries and not elsewhere:
//
//     AUC = P(signal of a boundary token > signal of another token) + 1/2 P(equal)
//
// (Mann-Whitney), over the tokens of a row. Signals: what the gate forgets, -ln g, and by how much
// the state shrinks, ln |H_{t-1}| - ln |H_t|. 1/2 is chance, 1 a head that resets at every boundary
// and nowhere else.
#ifndef DELTOP_REPORT_BOUNDARY_H
#define DELTOP_REPORT_BOUNDARY_H

#include "analyses/report/head_stats.h"

typedef enum {
    BOUNDARY_FORGET,   // mean of -ln g at boundaries; NaN without a decay
    BOUNDARY_STEP,     // mean of ln |H_t| - ln |H_{t-1}| at boundaries
    BOUNDARY_AUC_GATE, // NaN without a decay
    BOUNDARY_AUC_NORM,
    BOUNDARY_NUMBERS,
} boundary_number;

// The aligned response: means over boundaries of what happens BOUNDARY_BEFORE tokens before them to
// BOUNDARY_SPAN - BOUNDARY_BEFORE - 1 after them, as far as the row reaches.
enum { BOUNDARY_BEFORE = 8, BOUNDARY_SPAN = 40 };
typedef enum {
    BOUNDARY_ALIGNED_FORGET, // -ln g of that token; NaN without a decay
    BOUNDARY_ALIGNED_SIZE,   // ln |H| after that token less ln |H| before the boundary
    BOUNDARY_ALIGNED,
} boundary_aligned;

// Marks [T] the boundaries of a row and returns how many: positions of `starts` (n ascending, relative
// to the row; those outside are left out) and tokens with the id bos (-1: none).
int64_t boundary_mark(const int32_t *ids, int64_t T, const int64_t *starts, int64_t n, int32_t bos,
                      bool *mark);

// signal, mark [n]; sign 1 when boundaries are looked for among large signals, -1 among small ones. NaNs
// are left out; NaN when either kind of token is missing. False: no memory.
bool boundary_auc(const float *signal, const bool *mark, int64_t n, double sign, double *auc,
                  err *e);

// Probability that n boundaries (>= 1) have an AUC above `auc` (0.5 .. 1) by a signal that has nothing to do
// with them, among many other tokens: that the mean of n numbers, each anywhere in 0 .. 1 alike, is larger
// (Irwin 1927, Hall 1927). Few boundaries and many heads always give some that seem to notice them.
double boundary_by_chance(int64_t n, double auc);

// One row's numbers [H, BOUNDARY_NUMBERS] of a layer (index into *s, which has traces), and its aligned
// response [H, BOUNDARY_ALIGNED, BOUNDARY_SPAN].
bool boundary_layer(const head_stats *s, int layer, const bool *mark, double *out, double *aligned,
                    err *e);

#endif
