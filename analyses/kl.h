// analyses/kl.h - how far the next-token distribution of one model is from that of another.
//
//     KL(A || B) = sum_j p_A(j) (ln p_A(j) - ln p_B(j))          nats; what B's distribution costs where
//                                                                 the text follows A's
//
// Never [tokens x vocabulary]: logits are made a tile at a time, in float32 or wider, and folded with
// running maxima and sums in double:
//
//     KL = S / Z_A - ln sum e^a + ln sum e^b,   S = sum e^(a - m) (a - b),  Z_A = sum e^(a - m)
#ifndef DELTOP_KL_H
#define DELTOP_KL_H

#include "core/backend.h"

typedef struct kl_tiles kl_tiles;
// Scratch for vocabularies of n_vocab words: some MB, whatever they are. NULL: *e is filled.
kl_tiles *kl_tiles_new(backend *be, int64_t n_vocab, err *e);
void kl_tiles_free(kl_tiles *t); // NULL is fine

// ya, yb [T, D_A], [T, D_B] as probes' on_output gives them, both of the backend; heads [n_vocab, D].
// kl [T]; NaN where a logit is. Rounding may make a divergence of 0 negative: it is 0 then.
bool kl_rows(kl_tiles *t, mat ya, mat head_a, mat yb, mat head_b, double *kl, err *e);

#endif
