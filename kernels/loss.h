// kernels/loss.h - per-token loss without ever holding [tokens x vocabulary].
//
//     loss[t] = ln sum_j exp(w_j . x_t) - w_target . x_t          nats
//
//     best[t] = argmax_j w_j . x_t, the lowest j among equals
//
// x [T, D] (after the final norm), head w [n_vocab, D], targets [T] (-1: no target, loss NaN).
// Logits live in tiles of tokens x vocabulary rows; the sums run online in double.
#include "core/backend.h"

void FN(loss_tokens)(backend *be, mat x, mat head, const int32_t *targets, double *loss,
                     int32_t *best);
