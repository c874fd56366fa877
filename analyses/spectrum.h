// analyses/spectrum.h - what the transitions of a trained model do: eigenvalues of single tokens and
// of window products P = A_t ... A_{t-W+1} (G17), their norms beside their radii (G14), the
// determinant ledger (G12), Lyapunov exponents and half-lives (G11).
//
// One pass over the document: transitions are kept on a tape as long as the longest window, single
// tokens go into histograms, windows are evaluated when their last token arrives. Memory depends on
// windows x samples and on the block, not on the document (unless the whole ledger is kept).
#ifndef DELTOP_ANALYSES_SPECTRUM_H
#define DELTOP_ANALYSES_SPECTRUM_H

#include "analyses/figure.h"
#include "core/forward.h"

#include <complex.h>

enum {
    SPECTRUM_BINS = 2000,  // of each token histogram; a multiple of every count it is drawn in
    SPECTRUM_POINTS = 256, // most points of the running ledger
};
// Most eigenvalues of windows that a run keeps: 4 GiB as complex128.
#define SPECTRUM_MOST 268435456.0

typedef struct spectrum_options {
    const int64_t *windows; // ascending, no doubles, >= 1
    int n_windows;
    int64_t samples; // last tokens of windows in a row, spread evenly, the last token among them
    const int64_t *ends; // or these positions in the row, ascending; NULL: spread
    int64_t n_ends;
    int64_t lyapunov;              // exponents over so many last tokens of the last row; 0: none
    bool cond;                     // condition numbers of the eigenvalues as well
    bool keep_ledger;              // ln |det A_t| of every token
    const int64_t *layers, *heads; // selection, ascending; n = 0: all
    size_t n_layers, n_heads;
    // Told, with the context of progress, when a stretch of work with a pace of its own begins:
    // "tokens", then "pieces" (the exponents, windows and tokens of the last block). NULL: nobody
    // asks.
    void (*phase)(void *ctx, const char *unit);
} spectrum_options;

// Eigenvalues of single tokens of one head. Delta kinds: the n_h that are not frozen, of every
// token. Channel decays: all K, of some tokens only. Diagonal kinds with one decay: that one.
typedef struct spectrum_tokens {
    int64_t tokens, complex_tokens; // looked at, and those with a complex pair
    int64_t values, negative;       // eigenvalues, and the real ones below 0
    int64_t *modulus, *real;        // [SPECTRUM_BINS] over [0, 1] and [-1, 1]; beyond: the end bins
    int64_t *angle;                 // [SPECTRUM_BINS] over [0, pi], one count per complex pair
    double least_real, largest;     // smallest real value, largest modulus
    double complex *kept;           // every some-th token's values, for pictures
    int64_t n_kept, cap_kept;
    double complex *rotating; // the first complex values, all of them up to 512: they may be rare
    int64_t n_rotating;
    int64_t strong;   // micro-steps with beta |k|^2 above 2 (G08)
    double strongest; // largest beta |k|^2; NaN for kinds without
} spectrum_tokens;

typedef struct spectrum_head {
    int head;
    double complex *eig; // [windows, samples, K]; NaN where no whole window lies behind the end
    double *cond;        // the same, or NULL
    window_facts *facts; // [windows, samples]; norm2 is NaN where not evaluated
    int64_t over_norm;   // windows of a delta rule with |P|_2 above 1 (G08)
    double *lyapunov;    // [K] descending, nats per token; NULL: off
    double *ledger;      // [rows T], -inf for singular tokens; NULL: not kept
    double *rate;        // [points] sum of ln |det A_t| over the stretch, singular tokens left out
    int64_t *rate_n;     // [points] tokens in it
    int64_t singular;
    spectrum_tokens tokens;
} spectrum_head;

typedef struct spectrum_layer {
    int layer;
    head_shape shape;
    spectrum_head *head;
    int n_heads;
} spectrum_layer;

typedef struct spectrum_result { // everything owned
    int64_t T, rows;
    int64_t *windows;
    int n_windows;
    int64_t samples; // of all rows together
    int64_t *ends;   // [samples] position in its row
    int64_t *end_row;
    int points;
    int64_t lyapunov_tokens; // 0: off
    precision prec;
    spectrum_layer *layer; // linear layers only
    int n_layers;
    int K; // largest of all layers
} spectrum_result;

// Largest beta |k|^2 and |P|_2 that rounding alone may give where theory says 2 and 1 (G08).
double spectrum_strength_limit(precision p);
double spectrum_norm_limit(precision p);

// Reads `rows` rows of T tokens, one behind the other in ids. row: [rows], or NULL; progress may be
// NULL. Windows do not reach over a place where the state is emptied. ERR_USAGE for a selection that is not there
// and for a model without a linear layer (among the selected).
bool spectrum_run(const model *m, const int32_t *ids, int64_t rows, int64_t T, int64_t block,
                  const row_options *row, const spectrum_options *o, progress_fn progress,
                  void *progress_ctx, spectrum_result *out, err *e);
// The same for a pass of one's own, beside other probes: before each row say which one comes and who
// reads it, then give the probe to fwd_row; end once all rows are read, then free. *o may go, what it
// points to may not. Unlike spectrum_run it tells progress only between windows, in tokens of all
// rows and then in pieces. NULL: *out is empty.
typedef struct spectrum_pass spectrum_pass;
spectrum_pass *spectrum_pass_new(const model *m, int64_t rows, int64_t T, int64_t block,
                                 const spectrum_options *o, progress_fn progress,
                                 void *progress_ctx, spectrum_result *out, err *e);
void spectrum_begin_row(spectrum_pass *p, int64_t row, const fwd *f);
probe spectrum_probe(spectrum_pass *p);
void spectrum_pass_end(spectrum_pass *p);
void spectrum_pass_free(spectrum_pass *p); // NULL is fine

void spectrum_result_free(spectrum_result *r); // an empty one is fine

// Half-life in tokens of a mode whose modulus over W tokens is exp(log_scale) modulus; inf ("never")
// from 1 - 1e-6 on.
double spectrum_mode_half_life(double modulus, double log_scale, int64_t W);
// Where a mode of a product ends and rounding begins: moduli up to this (beside f->norm2, without
// f->log_scale) have no value of their own. 0 for diagonal products, whose eigenvalues are exponentials
// of sums.
double spectrum_noise(const head_shape *s, const window_facts *f);
// Does a window of W tokens say something about half-lives? Not while an ungated kind has frozen
// directions, W n_h < K (G11).
bool spectrum_window_tells(const head_shape *s, int64_t W);

// What a kind of head says about its spectra in one sentence without a full stop: what is exact, what
// is real, what is no contraction (G15, G16); NULL for a delta rule with one decay per head or none.
const char *spectrum_kind_note(const head_shape *s);

// One window length over several heads.
typedef struct spectrum_span {
    int64_t W;
    int64_t products;     // evaluated
    int frozen;           // most directions a product cannot touch
    double norm2[3];      // 5, 50, 95 % over products
    double radius[3];     // likewise
    double asymmetry;     // median
    double half_life[3];  // 10, 50, 90 % over modes; NaN: the window does not tell, or the mode is
                          // lost; inf: never
    double never;         // share of modes that do not decay
    double lost;          // share of modes below the rounding noise of their product: they rank as
                          // the shortest half-lives and have no value
    double vanished;      // share of eigenvalues below 0.01
    double complex_share; // not real, of eigenvalues above the rounding noise
    double cond, error;   // median condition number, largest 1e-15 norm2 cond; NaN without
} spectrum_span;

// layer, head: indices into the result, -1 = all of them.
bool spectrum_window_summary(const spectrum_result *r, int layer, int head, int window,
                             spectrum_span *out, err *e);

typedef struct spectrum_summary {
    double complex_share;      // of tokens
    double negative_share;     // of single-token eigenvalues
    double median_modulus;     // of single-token eigenvalues
    double rate;               // mean Lyapunov rate, ledger / (K tokens); singular tokens left out
    double half_life;          // median over modes of the longest window that tells; NaN: none does
    double exponent_half_life; // median over Lyapunov exponents; NaN: off
    int64_t half_life_window;  // that window, 0: none
    double largest_exponent, smallest_exponent; // Lyapunov, NaN: off
    int64_t singular, strong, over_norm;
    double strongest, largest_norm;
} spectrum_summary;
bool spectrum_summarise(const spectrum_result *r, int layer, int head, spectrum_summary *out,
                        err *e);

// Pictures of one or more results side by side.
typedef struct spectrum_item {
    const char *name;     // "small-deltanet"
    const char *subtitle; // document, length, device, precision
    const spectrum_result *result;
} spectrum_item;
bool spectrum_figures(const spectrum_item *item, size_t n, figures *out, err *e);

#endif
