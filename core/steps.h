// core/steps.h - what every linear mixer of every family reduces to, for one layer and one block.
//
// State H_t is K x V per value head (science.md section 0). With D_t = I, g_t I or Diag(w_t):
//
//   ERASE_NONE   H_t = D_t H_{t-1} + beta k v^T                                   (R01-R05)
//
//   ERASE_KEY    H <- D_t H_{t-1}, then n_h times                            (R06-R08, R12, R13)
//                H <- (I - beta k k^T) H + beta k v^T
//
//   ERASE_PAIR   H_t = (D_t + a b^T) H_{t-1} + beta k v^T                           (R09, R10)
//                b reads the UNDECAYED state
//
//   read-out     o_t = scale H_t^T q_t, after the last micro-step
//
// Decay comes once per token, before the first micro-step. A micro-step row index is t * n_h + j.
// Value head h uses query/key head h / (H / Hk). Everything is lent by the forward pass and valid
// until the probe returns.
#ifndef DELTOP_STEPS_H
#define DELTOP_STEPS_H

#include "core/mat.h"

typedef enum { DECAY_NONE, DECAY_HEAD, DECAY_CHANNEL } decay_kind;
typedef enum { ERASE_NONE, ERASE_KEY, ERASE_PAIR } erase_kind;

// Sizes that do not change from block to block.
typedef struct head_shape {
    int H;  // value heads: states
    int Hk; // key heads; H is a multiple
    int K, V;
    int n_h; // micro-steps per token
    decay_kind decay;
    erase_kind erase;
    double scale;    // of the read-out
    double beta_max; // upper bound of beta: 1 or 2 (0: no beta)
} head_shape;

typedef struct steps {
    head_shape s;
    int64_t T; // tokens in this block
    mat q;     // [T, Hk * K]
    mat k;     // [T * n_h, Hk * K]
    mat v;     // [T * n_h, H * V]
    mat beta;  // [T * n_h, H]; none = 1
    mat decay; // natural log: [T, H] (DECAY_HEAD), [T, H * K] (DECAY_CHANNEL), none
    mat a;     // [T, H * K]  ERASE_PAIR: written along
    mat b;     // [T, Hk * K] ERASE_PAIR: read along
} steps;

// Tokens first .. first + T - 1 of s, lent by it.
static inline steps steps_part(const steps *s, int64_t first, int64_t T) {
    int64_t n = s->s.n_h;
    steps x = *s;
    x.T = T;
    x.q = mat_rows(s->q, first, T);
    x.k = mat_rows(s->k, first * n, T * n);
    x.v = mat_rows(s->v, first * n, T * n);
    x.beta = mat_rows_or_none(s->beta, first * n, T * n);
    x.decay = mat_rows_or_none(s->decay, first, T);
    x.a = mat_rows_or_none(s->a, first, T);
    x.b = mat_rows_or_none(s->b, first, T);
    return x;
}

#endif
