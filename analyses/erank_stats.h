// analyses/erank_stats.h - an erank_result in few numbers: stretches, growth, bins of positions.
//
// Means leave NaN out (zero states, not measured); of norms they are geometric means, since norms of
// heads lie orders of magnitude apart. A mean of nothing is NaN.
#ifndef DELTOP_ERANK_STATS_H
#define DELTOP_ERANK_STATS_H

#include "analyses/erank.h"

enum { ERANK_STRETCHES = 24 };

typedef struct erank_head {
    int layer, head;                 // numbers in the model; -1: over all of them
    double stretch[ERANK_STRETCHES]; // mean effective rank
    double within, past;             // over tokens [L/2, L) and [L, end), L = training length
    double growth;                   // past - within
    double norm, stable;             // over all positions
    double norm_growth;              // norm past / norm within
} erank_head;

typedef struct erank_stats {
    int n_stretches;
    int64_t edge[ERANK_STRETCHES + 1]; // tokens 0, 512, 2048, then doubling, the last cut short
    erank_head all;
    erank_head *head; // owned; layers outermost
    size_t n_heads;
    // Heads whose rank grows past the training length by more than one, and the one that grows most
    // (index into head; -1: nothing to compare).
    size_t growing;
    int most;
} erank_stats;

bool erank_stats_make(const erank_result *r, erank_stats *out, err *e);
void erank_stats_free(erank_stats *s); // an empty one is fine

// Mean over rows, layers and heads at the last position sampled at or before `tokens` tokens had
// been read; NaN before the first one. *found: those tokens.
double erank_mean_at(const erank_result *r, erank_quantity q, double tokens, double *found);

// Positions gathered for a picture: bin b holds positions first[b] .. first[b + 1] - 1.
typedef struct erank_bins {
    size_t n;
    int64_t *first; // [n + 1]
    double *edge;   // [n + 1] tokens; ascending, positive unless linear
    double *centre; // [n] geometric (linear: arithmetic) middle of the first and last token count
    bool single;    // every bin holds one position
} erank_bins;

// Log2: `bins` per octave; linear: `bins` in all. At least one position a bin. A position at zero
// tokens has no place on a log2 axis and is in no bin.
bool erank_bins_make(const erank_result *r, int bins, erank_bins *out, err *e);
void erank_bins_free(erank_bins *b);

// Mean of a quantity in bin b over rows, and over one layer and head (axis indices; -1: all).
// logarithm: of log10 of the values above 0.
double erank_bin_mean(const erank_result *r, erank_quantity q, const erank_bins *b, size_t bin,
                      int layer, int head, bool logarithm);

#endif
