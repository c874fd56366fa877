// analyses/contrast.h - two models on the same tokens, in one pass: losses, ranks, spectra, and how far
// the next-token distribution of B is from that of A at every position (analyses/kl.h).
//
// Both models are on one backend and walk the rows block by block in turn, so that memory depends on the
// block, not on the document.
#ifndef DELTOP_CONTRAST_H
#define DELTOP_CONTRAST_H

#include "analyses/erank.h"
#include "analyses/loss.h"
#include "analyses/resample.h"
#include "analyses/spectrum.h"

typedef struct contrast_options {
    int64_t block;           // tokens at a time
    int64_t every;           // tokens between samples of the states
    int64_t train_length[2]; // 0: unknown
    const char *name[2], *document;
    spectrum_options spectrum; // keeps no ledger, selects nothing
    double jump;               // as in loss_read_row
    int resamples;
    uint64_t seed;
    progress_fn progress; // tokens of all rows; may be NULL
    void *progress_ctx;
} contrast_options;

// Numbers of one head in both models, over the second half of a row; NaN: not measured.
typedef struct contrast_head {
    int layer, head;
    double erank[2], norm[2]; // means, of norms geometric ones
    double half_life[2];      // of the longest window that tells, in tokens; inf: never; NaN also
                              // without spectra
} contrast_head;

typedef struct contrast_stretch {
    int64_t from, to;
    double loss[2];
    paired_change change; // of B's losses against A's on the same tokens, with a block bootstrap
    double kl, agree; // means; agree: share of positions where both hold one token for likeliest
} contrast_stretch;

typedef struct contrast {
    int64_t rows, n; // n = tokens of a row - 1
    loss_result loss[2];
    bool states[2]; // the model has recurrent states; else the next two are empty
    erank_result erank[2];
    // Both empty when one of them cannot be computed, such as of keys that are NaN; then why.
    spectrum_result spectrum[2];
    char why_no_spectrum[256];
    double *kl; // [rows, n] nats at the position before token i + 1; NULL: see why
    char why_no_kl[160];
    bool *same_best;   // [rows, n]
    double kl_largest; // and where; NaN without
    int64_t kl_row, kl_at;
    contrast_stretch stretch[LOSS_MAX_STRETCHES + 1]; // the last one: everything
    int n_stretches;                                  // the whole included
    contrast_head *head; // those that both models have, by layer and head
    size_t n_heads;
} contrast;

// Reads `rows` rows of T tokens (>= 2), one behind the other in ids. On failure *c is empty.
bool contrast_run(const model *const m[2], const int32_t *ids, int64_t rows, int64_t T,
                  const row_options *row, const contrast_options *o, contrast *c, err *e);
void contrast_free(contrast *c); // an empty one is fine

// Fills what is made of the readings: stretches, heads, the largest divergence. contrast_run does it.
// analyses/contrast_numbers.c
bool contrast_summarise(contrast *c, const model *const m[2], const contrast_options *o, err *e);

// Losses and their difference, KL, ranks, spectra. how: "cpu, f32". On failure *out is empty.
bool contrast_figures(const contrast *c, const contrast_options *o, const char *how, figures *out,
                      err *e);

#endif
