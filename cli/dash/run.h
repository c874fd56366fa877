// cli/dash/run.h - what one reading of a document by one model has given so far.
//
// One worker writes, the screen reads while it does. Nothing is ever changed once it can be seen:
// per-token arrays are allocated for the whole document, filled in order and published by a release
// store of their count (run_read, run_sampled); finer ranks are cells that are written once. A run
// belongs to one generation (a set of switched-off heads); another set is another run.
//
// Positions are tokens from 0. loss[t] belongs to token t (token 0 has none); states are those after
// token t.
#ifndef DELTOP_DASH_RUN_H
#define DELTOP_DASH_RUN_H

#include "cli/dash/shared.h"
#include "core/document.h"
#include "core/forward.h"

#include <math.h>

// Numbers of a state. Undefined ones (zero state) are NaN.
typedef enum {
    Q_ERANK,
    Q_NORM,
    Q_STABLE,
    Q_COND, // log10
    Q_S1,   // shares of the sum of singular values: the first,
    Q_S4,   // the 2nd to 4th,
    Q_S16,  // 5th to 16th (NaN: no such values),
    Q_REST, // the others
    Q_N
} quantity;

enum { RANK_EVERY = 64, MICRO_MOST = 8, OFF_MOST = 64 };

// A document as one model's tokenizer cuts it.
typedef struct reading {
    shared ref;
    document d;
    int64_t T;       // tokens read: --length cuts
    uint64_t mark;   // equal for readings with the same ids
    char *text;      // what the tokens say, one behind the other; NULL: ids without a tokenizer
    int64_t *offset; // [T + 1] into text; NULL without
    int64_t *start;  // [n_start] token positions of document starts and --mark matches, ascending
    int64_t n_start;
} reading;

typedef struct run_head {
    int layer, head;
    head_shape s;
    // [i * stored + t / every]; NULL: the family has none. Valid below run_read.
    float *beta;  // n_h rows
    float *decay; // factor per token, mean over channels
    float *least; // smallest channel; NULL unless decays are per channel
    float *angle; // degrees between lines, n_h - 1 rows (n_h = 1: one row, to the token before)
    float *base;  // [n_base, Q_N]: sample i is token (i + 1) RANK_EVERY - 1, the last one T - 1
    _Atomic(float *) fine; // [T, Q_N], cells RUN_PENDING until written; NULL until wanted
} run_head;

typedef struct run {
    shared ref;
    int generation;
    int slot;    // model 0..3
    reading *of; // held
    int64_t T;
    int n_layers, n_heads;
    run_head *head; // layers outermost
    int *first;     // [n_layers + 1] index of a layer's first head
    bool *linear;   // [n_layers]
    head_ref off[OFF_MOST];
    int n_off;
    int64_t every, stored; // gates are kept of every so many tokens
    int64_t n_base;
    double *loss; // [T]; NaN where there is none
    double *sum;  // [T + 1] of the finite losses before t
    int32_t *odd; // [T + 1] how many before t are none or not finite
    const char *device;
    precision prec;
    _Atomic int64_t read;    // tokens read: gates below, losses below
    _Atomic int64_t sampled; // base samples of every head
    _Atomic int level;       // finest stride that cursor and marks have in the view
    _Atomic bool over;       // the whole document is read
} run;

// off: heads that are switched off. NULL on failure.
run *run_new(const model *m, reading *of, int slot, int generation, const head_ref *off, int n_off,
             int64_t most_bytes, err *e);
int run_find(const run *r, int layer, int head); // index, -1: none

static inline int64_t run_read(const run *r) {
    return atomic_load_explicit(&((run *)r)->read, memory_order_acquire);
}

// Cells of the fine ranks: relaxed, each written once.
#define RUN_PENDING (-INFINITY)
static inline float run_cell(const float *p) {
    float v;
    __atomic_load((float *)p, &v, __ATOMIC_RELAXED);
    return v;
}
static inline void run_set_cell(float *p, float v) {
    __atomic_store(p, &v, __ATOMIC_RELAXED);
}

// Token of base sample i.
static inline int64_t run_base_token(const run *r, int64_t i) {
    int64_t t = (i + 1) * RANK_EVERY - 1;
    return t < r->T ? t : r->T - 1;
}

// The last sample at or before token t: the value, and its token in *at (-1: none yet, value NaN).
double run_rank(const run *r, int head, quantity q, int64_t t, int64_t *at);

// Mean of the losses of tokens within h of t, cut at both ends of what is read (and of the
// document); NaN when one of them is none.
double run_loss_mean(const run *r, int64_t t, int64_t h, int64_t read);
double run_loss_so_far(const run *r); // mean of all

// Singular values [n], descending -> Q_N numbers.
void run_quantities(const double *sv, int n, double norm, double cut, float *out);

// What was found out about one place: every head's state there, and window products.
typedef struct spot_window {
    int K;        // 0: no window here
    double *eig;  // [K] complex pairs
    double *cond; // [K]
    window_facts facts;
} spot_window;

typedef struct spot {
    shared ref;
    int slot, generation;
    int64_t t, W;
    int head; // whose eigenvalues
    bool all; // windows of all heads
    int n_heads;
    float *q;         // [n_heads, Q_N]
    spot_window *win; // [n_heads]; K = 0 where not asked for
    char why[160];    // why there is no window; "" otherwise
} spot;
spot *spot_new(int n_heads, err *e);

enum { MODE_BINS = 11 }; // < 8, 8, 16, ... in powers of two, the last one open
// Half-lives of all eigenvalues of windows spread over the view.
typedef struct modes {
    shared ref;
    int slot, generation, head;
    int64_t t0, t1, W;
    int windows, wanted;
    int64_t n, never, bin[MODE_BINS]; // bin 0: below 8 tokens; then [8, 16) ...
    char why[160];
} modes;

// Paired change of the loss with one set of heads off.
typedef struct effect {
    head_ref off[OFF_MOST];
    int n_off;
    int64_t upto[2]; // over tokens below these
    double mean[2], lo[2], hi[2];
} effect;

#endif
