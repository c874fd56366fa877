// analyses/report/head_stats.h - what heads write, forget and look for along a row: delta-rule loss,
// write sizes, gates, betas, keys (science S05, S06), and, where asked, the size of the state around
// every token (S07).
//
// Everything but the keys' shape is a mean over bins of `every` tokens: bin b holds tokens
// b every .. (b + 1) every - 1, the last one may be shorter. A signal that a kind of head does not
// have is NaN. Heads are value heads; those that share a key head have the same keys.
//
// States are replayed on the host in float64, from the state each block starts from:
//
//     H <- D_t H,   n_h times:  e = v - H^T k,  H <- H + beta k e^T                 (ERASE_KEY)
//     H <- D_t H + a (b^T H) + beta k v^T                                           (ERASE_PAIR)
//     H <- D_t H + beta k v^T                                                       (ERASE_NONE)
//
// so a bin's numbers do not depend on the precision of the run beyond its inputs.
#ifndef DELTOP_REPORT_HEAD_STATS_H
#define DELTOP_REPORT_HEAD_STATS_H

#include "core/forward.h"

typedef enum {
    HEAD_DELTA_LOSS,  // |e| / |v|, writes of a zero v left out; ERASE_KEY only
    HEAD_WRITE_SIZE,  // beta |e|; ERASE_KEY only
    HEAD_GATE,        // decay g = exp(log decay); over channels where each has its own
    HEAD_FORGET,      // -ln g
    HEAD_GATE_OPEN,   // share of g >= 0.999
    HEAD_GATE_CLOSED, // share of g <= 0.001
    HEAD_BETA,
    HEAD_BETA_LOW,    // share <= 0.01 beta_max
    HEAD_BETA_HIGH,   // share >= 0.99 beta_max
    HEAD_REFLECTING,  // share of beta |k|^2 > 1; ERASE_KEY only
    HEAD_KEY_NORM,    // |k|
    HEAD_KEY_OVERLAP, // |cos| between neighbouring keys of a token; n_h > 1 only
    HEAD_SIGNALS,
} head_signal;

// Shape of all keys of a row: eigenvalues w of their second moments (S06).
typedef enum {
    HEAD_KEY_TOP3,         // share of the three largest, mean left in
    HEAD_KEY_TOP3_CENTRED, // mean taken out
    HEAD_KEY_RANK,         // exp of the entropy of w / sum w, mean left in
    HEAD_KEY_SHAPES,
} head_key_shape;

typedef struct head_stats {
    int64_t T, every, bins;
    int n_layers; // with a recurrent state
    int *layer;   // [n_layers] numbers
    head_shape *shape;
    double **mean; // [n_layers] -> [H, HEAD_SIGNALS, bins]
    double **keys; // [n_layers] -> [H, HEAD_KEY_SHAPES]
    // With `traces`: for each token of the row, else NULL. float: there are many, and they are only
    // ranked and averaged.
    float **gate; // [n_layers] -> [H, T] mean -ln g of the token; NULL for a layer without decay
    float **step; // [n_layers] -> [H, T] ln |H_t| - ln |H_{t-1}|, norms after the token and before
                  // it; NaN for the first token and where either is zero
} head_stats;

// bins are sized for a row of T tokens.
bool head_stats_open(head_stats *s, const model *m, int64_t T, int64_t every, bool traces, err *e);
void head_stats_free(head_stats *s); // an empty one is fine
void head_stats_drop_traces(head_stats *s);

// The numbers of one signal: [bins].
static inline const double *head_stats_line(const head_stats *s, int layer, int head,
                                            head_signal x) {
    return s->mean[layer] + ((int64_t)head * HEAD_SIGNALS + x) * s->bins;
}

// One pass over one row fills *s: give the probe to fwd_row, then end. NULL: *e is filled.
typedef struct head_pass head_pass;
head_pass *head_pass_new(head_stats *s, const model *m, err *e);
probe head_pass_probe(head_pass *p);
bool head_pass_end(head_pass *p, err *e);
void head_pass_free(head_pass *p); // NULL is fine

#endif
