// kernels/chunk.h - the recurrences of core/steps.h in chunks of up to 64 micro-steps, as matrix
// products.
//
// Micro-steps i = 0..C-1 of one head (rows of Q, K, V), H the state before the chunk, D_i the decay
// of step i: g_i I or Diag(w_i) at a token's first micro-step, I at the others (K01).
// Gamma_ij = D_i .. D_{j+1} for i >= j, gamma_i = D_i .. D_0; A . Gamma stands for the scores
// (A . Gamma)_ij = l_i^T Gamma_ij x_j with i >= j, "-1" for i > j only. Every kind adds X^T U to H:
//
//   ERASE_NONE   U = beta V, X = K                                                  (R01-R05)
//   ERASE_KEY    T = (I + tril(diag(beta) (K K^T . Gamma), -1))^-1 diag(beta)       (K03, K04)
//                U = T (V - gamma K H), X = K: residual form, no W and no U of K02  (K02, K05)
//   ERASE_PAIR   n_h = 1. b reads before its own step: Gamma_{i-1,j} and gamma_{i-1} (K09)
//                R = (I - tril(B A^T . Gamma, -1))^-1 (gamma B H + tril(B K^T . Gamma, -1) beta V)
//                U = R along X = A, and beta V along X = K
//   read-out     O = scale (gamma Q H + sum (Q X^T . Gamma) U), rows of last micro-steps
//   state        H <- gamma_{C-1} H + sum (Gamma_{C-1} X)^T U                        (K05)
//
// Gamma is never a quotient gamma_i / gamma_j: it is a running product of factors in [0, 1], so log
// decays of -50, -500 or -inf a token and products that underflow stay right (fault B40). With decay
// per channel, where Gamma_ij does not fit in one number, scores are cut into sub-blocks of 16 rows,
// anchored just before their first row r: l_i^T (D_i .. D_r) (D_{r-1} .. D_{j+1}) x_j.
//
// (I + ..)^-1 is applied by substitution and T never formed: a float T costs another digit when keys
// repeat. What remains in float: one key 64 times with beta near 2 gives 2e-5 to 6e-5 where the step
// form gives 2e-6, because U then holds terms of alternating sign that cancel; 5e-7 with random keys.
//
// The results are those of kernels/recurrence.h up to rounding, and so is a block cut elsewhere:
// chunks start at the block's first token. Sums do not depend on the number of threads.
#include "core/backend.h"

// False for what only the step form does: ERASE_PAIR with several micro-steps per token.
bool FN(chunk_covers)(const head_shape *p);

// Contract of recurrence_run. Out of memory: be->fail, state and o are unspecified.
void FN(chunk_run)(backend *be, const steps *s, mat state, mat o);
