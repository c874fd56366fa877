// analyses/erank.h - effective rank of every state while rows are read, and the numbers beside it.
//
// For every asked layer with a recurrent state, every asked value head and every sampled position:
// effective rank (science S01, S03), Frobenius and spectral norm, stable rank, nuclear norm,
// condition number and top-k energy (S04; analyses/rank.h has the formulas). Effective rank is about
// shape only, so norms always come with it.
//
// Positions. A step is a token, or with `micro` a micro-step (index t n_h + j). Position i is step
// p = (i + 1) every - 1: every = 64 samples steps 63, 127, ... The state is the one after step p,
// or with `before` the one that step p starts from (undecayed): what the authors of DeltaProduct
// sample, and zero at p = 0.
//
// Nothing but the results is kept: 7 doubles a position and head, and the singular values of one
// block.
#ifndef DELTOP_ERANK_H
#define DELTOP_ERANK_H

#include "analyses/figure.h"
#include "core/forward.h"

typedef enum {
    ERANK_RANK,      // exp(entropy of the normalised singular values), 1 .. min(K, V)
    ERANK_NORM,      // Frobenius norm
    ERANK_SPECTRAL,  // largest singular value
    ERANK_STABLE,    // stable rank
    ERANK_NUCLEAR,   // sum of singular values
    ERANK_CONDITION, // may be +inf; above 1 / cut it is not resolved
    ERANK_ENERGY,    // share of the `top` largest in the squared norm
    ERANK_QUANTITIES,
} erank_quantity;

// "erank", "norm", "spectral", "stable_rank", "nuclear", "condition", "top_energy": file stems.
const char *erank_quantity_name(erank_quantity q);

typedef struct erank_options {
    int64_t every; // 0 counts as 1
    bool micro, before;
    bool authors; // rank as the authors' script counts: absolute cut 2.2e-16, a zero state gives 0
    double cut;   // values at most cut x the largest count as zero; negative: by precision, 0 for
                  // float64 and RANK_CUT otherwise (what a float32 state resolves)
    int top;      // k of the top-k energy; 0 counts as 1
    bool linear;  // figures: positions on a linear axis instead of log2
    const int *layers, *heads; // ascending; NULL: all
    int n_layers, n_heads;
    int64_t block;                // tokens at a time; 0: 1024
    int64_t train_length;         // for marks and growth; 0: unknown
    const char *model, *document; // names for titles; copied; NULL: ""
} erank_options;

enum { ERANK_MAX_STARTS = 8 };

typedef struct erank_result {
    // What was asked, as used
    char *model, *document; // owned
    const char *device;     // lent by the backend
    precision prec;
    int64_t every, train_length;
    bool micro, before, authors, linear;
    double cut;
    int top;
    // Axes
    int64_t rows, length; // length: tokens of the longest row
    int n_layers, n_heads;
    int64_t positions;
    int *layer;    // [n_layers] numbers along the layers axis
    int *head;     // [n_heads]
    int *left_out; // [n_left_out] asked layers without a recurrent state
    int n_left_out;
    int K, V, n_h; // of the layers shown; where they differ, the largest
    int max_rank;  // min(K, V), the largest
    // [rows, n_layers, n_heads, positions]; NaN: not measured, or undefined for a zero state
    double *v[ERANK_QUANTITIES];
    // Tokens of row 0 at which its state was emptied, the first ones; n_starts may exceed the array
    int64_t starts[ERANK_MAX_STARTS];
    int64_t n_starts;
    int64_t zero, broken; // states that were zero, and that held a NaN or an infinity
    int64_t alive;        // states that are neither

    // While rows are read
    int64_t row;
    progress_fn progress; // told between groups of heads; NULL: nobody
    void *progress_ctx;
} erank_result;

// Sets *r up for `rows` rows of at most `length` tokens, all NaN. mixer[L]: heads of layer L, NULL
// for a layer without a recurrent state. ERR_INPUT when no layer, head or position remains, or when
// layers differ in n_h and micro-steps are asked for.
bool erank_open(erank_result *r, const head_shape *const *mixer, int n_mixers, const backend *be,
                int64_t rows, int64_t length, const erank_options *o, err *e);
// The same for the layers of a model.
bool erank_open_model(erank_result *r, const model *m, int64_t rows, int64_t length,
                      const erank_options *o, err *e);
// Whether no state holds a NaN or an infinity, and tokens have left one that is not zero; else *e says what is wrong.
bool erank_check_ranks(const erank_result *r, err *e);
void erank_free(erank_result *r); // an empty one is fine

// For a pass of one's own: say which row comes, then give the probe to fwd_row.
void erank_begin_row(erank_result *r, int64_t row, const int32_t *ids, int64_t n,
                     const row_options *how);
probe erank_probe(erank_result *r);

// Reads ids[0 .. rows length) as rows, each from a zero state; how: [rows], or NULL. progress counts
// tokens of all rows.
// On failure *r is empty.
bool erank_run(const model *m, const int32_t *ids, int64_t rows, int64_t length,
               const row_options *how, const erank_options *o, progress_fn progress,
               void *progress_ctx, erank_result *r, err *e);

// The numbers of one head, and the tokens that had been read when position i was sampled.
const double *erank_line(const erank_result *r, erank_quantity q, int64_t row, int layer, int head);
double erank_tokens(const erank_result *r, int64_t i);

// Frees what no figure and no summary looks at; the lines of ERANK_SPECTRAL, _NUCLEAR, _CONDITION
// and _ENERGY are gone then.
void erank_keep_for_figures(erank_result *r);

// Figures, ranks beside norms: "erank" and "norm" (means over layers and heads against position, one
// curve a result), per result "erank-heads" and "norm-heads" (heat maps), and "erank-table". With
// several results the ids of heat maps end in -1, -2 ... n >= 1. On failure *out is empty.
bool erank_figures(const erank_result *const *results, size_t n, figures *out, err *e);

#endif
