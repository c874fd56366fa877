// analyses/loss.h - loss along a document: curves, stretches, perplexities, extrapolation.
//
// loss[r, i] is the loss in nats of token i + 1 of row r given the i + 1 tokens before it; every row
// starts from a zero state. Three perplexities, which are three different numbers (faults B78, B80):
//
//     running  exp(mean of loss[0..i])     a curve; what length-extrapolation scripts print
//     block    exp(mean over a stretch)    one number a stretch
//     total    exp(mean over everything)   one number
#ifndef DELTOP_LOSS_H
#define DELTOP_LOSS_H

#include "analyses/figure.h"
#include "core/forward.h"

typedef struct loss_stretch {
    int64_t from, to; // positions i, to exclusive
    double mean;      // over rows and positions, nats per token
    double block_ppl;
} loss_stretch;

enum { LOSS_MAX_STRETCHES = 32 };

typedef enum { FLAG_JUMP, FLAG_LOOP, FLAG_NOT_FINITE, FLAG_LARGE_STATE } loss_flag_kind;
typedef struct loss_flag {
    int64_t row, position;
    loss_flag_kind kind;
    char what[96]; // "loss jumps by 3.1 nats", "the likeliest token stays the same for 256 tokens"
} loss_flag;

enum { LOSS_MAX_FLAGS = 16 };
#define LOSS_STATE_BOUND 1e6 // Frobenius norm of a head's state that is flagged (fault B124)

// One model on one document.
typedef struct loss_result {
    char *model, *document; // names, owned
    int64_t train_length;   // 0: unknown
    int64_t rows, n;        // n = tokens of a row - 1
    double *loss;           // [rows, n], owned
    // Filled by loss_summarise:
    int64_t scored;     // rows * n
    int64_t not_finite; // of them
    double mean, total_ppl;
    double mean_lo, mean_hi; // 95% bootstrap over rows; NaN with fewer than 2 rows
    double accuracy;         // share of tokens that were the likeliest
    int64_t n_stretches;
    loss_stretch stretch[LOSS_MAX_STRETCHES]; // 0-512, 512-2048, then doubling
    double
        extrapolation; // mean beyond the training length L less the mean over L/2..L; NaN: n <= L
    int64_t n_flags;
    loss_flag flag[LOSS_MAX_FLAGS]; // the first ones
    loss_flag first_broken;         // first state that was not finite behind a block; what "": none
    int64_t right;                  // tokens that were the likeliest, counted while reading
    uint64_t ids_mark; // equal for models that read the same tokens; filled while reading
} loss_result;

// Whether every loss, and every state that was looked at, is finite; else *e says what is not.
bool loss_check_finite(const loss_result *r, err *e);

// NULL-safe free; init copies the names and allocates the losses as NaN.
bool loss_init(loss_result *r, const char *model, const char *document, int64_t rows, int64_t n,
               int64_t train_length, err *e);
void loss_free(loss_result *r);

// Reads one row of n + 1 ids into loss[row, :]; rows in order. Flagged (fault B124): a loss that is
// not finite; a mean of 64 losses more than `jump` nats above that of the 64 before; the same
// likeliest token 256 times on end; at block borders, a head whose state is not finite or larger
// than LOSS_STATE_BOUND.
bool loss_read_row(loss_result *r, int64_t row, fwd *f, const int32_t *ids, const row_options *opt,
                   double jump, progress_fn progress, void *ctx, err *e);

// The same for a pass of one's own, beside other probes: give the probe to fwd_row with r->n + 1 ids,
// then end. ids are borrowed.
typedef struct loss_watch loss_watch;
loss_watch *loss_watch_new(loss_result *r, int64_t row, const model *m, const int32_t *ids, err *e);
probe loss_watch_probe(loss_watch *w);
bool loss_watch_end(loss_watch *w, double jump, err *e);
void loss_watch_free(loss_watch *w); // NULL is fine

// FNV-1a over ids: tells whether two models read the same tokens. mark 0: from the beginning, else
// what the rows before gave.
uint64_t loss_ids_mark(uint64_t mark, const int32_t *ids, int64_t n);

// Means, perplexities, index and intervals (resamples over rows, seeded).
bool loss_summarise(loss_result *r, int resamples, uint64_t seed, err *e);

// Mean over a centred window of `window` values (odd), cut at the ends so that it never extends past
// the data: out[i] over [i-h, i+h] within [0, n-1], h = window/2. NaN where that holds a value that
// is not finite, and only there.
void loss_smooth(const double *x, int64_t n, int64_t window, double *out);
// Columns from .. to - 1 of v [rows, n], row behind row: out [rows, to - from].
void loss_gather(const double *v, int64_t rows, int64_t n, int64_t from, int64_t to, double *out);

// Window that suits a row of n losses: wide enough for long rows, narrow enough to leave a short one
// its shape. May be even; users make it odd.
int64_t loss_default_smooth(int64_t n);

// Per document: loss against position, with several models also the paired difference to the first
// one (same tokens, so what the text itself adds cancels; models that cut the text into other tokens
// are left out), and the perplexities. Bands with two rows or more. smooth 0: 501, but a 32nd of a
// row beyond 16k and an eighth of one below 4k; made odd.
bool loss_figures(const loss_result *const *results, size_t n, int64_t smooth, int resamples,
                  uint64_t seed, const char *how, figures *out, err *e);

#endif
