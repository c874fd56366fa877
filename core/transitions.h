// core/transitions.h - one head's transition matrices over a stretch of tokens, in host memory.
//
//     A_t = F_{t,n_h} ... F_{t,2} F_{t,1} D_t                           (science R06-R08, R11-R13)
//           F_j = I - beta_j k_j k_j^T
//
//     A_t = D_t + a_t b_t^T                DPLR kinds: b reads the undecayed state (R09, R10)
//
//     A_t = D_t                            diagonal kinds (R01-R05)
//
// D_t = I, g_t I, or Diag(w_t).
#ifndef DELTOP_TRANSITIONS_H
#define DELTOP_TRANSITIONS_H

#include <stdint.h>

typedef enum { TRANSITION_KEYS, TRANSITION_DPLR, TRANSITION_DIAGONAL } transition_kind;
typedef enum { TDECAY_NONE, TDECAY_HEAD, TDECAY_CHANNEL } transition_decay;

// Borrowed arrays, float64, tokens in reading order.
typedef struct transitions {
    transition_kind kind;
    transition_decay decay;
    int64_t T; // tokens
    int K;
    int n_h;            // micro-steps per token (1 for DPLR; 0 for DIAGONAL)
    const double *k;    // [T, n_h, K]   TRANSITION_KEYS
    const double *beta; // [T, n_h]      TRANSITION_KEYS
    const double *a;    // [T, K]        TRANSITION_DPLR: written along
    const double *b;    // [T, K]        TRANSITION_DPLR: read along
    const double *g;    // natural log decay: [T] (HEAD) or [T, K] (CHANNEL)
    int64_t token0;     // what messages call the first token
} transitions;

// What one window product P = A_t A_{t-1} ... A_{t-W+1} tells beside its eigenvalues.
typedef struct window_facts {
    double norm2;     // |P|_2, largest singular value
    double radius;    // largest |eigenvalue|
    double logabsdet; // ln |det P| from beta, k.k and gates alone (G12); -inf when singular
    double asymmetry; // |P - P^T|_F / |P|_F (G06)
    double log_scale; // natural log taken out of eig, norm2 and radius; 0 unless they would
                      // leave the doubles
    int frozen;       // directions the window cannot touch: max(0, K - W n_h) for an
                      // ungated or head-gated delta rule (G11), else 0
} window_facts;

#endif
