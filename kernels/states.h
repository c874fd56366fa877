// kernels/states.h - singular values of the states inside a block, replayed and never stored whole.
//
// For each head in heads[0..n_heads) and each at[i] (ascending; micro-steps taken, 0 = the state the
// block starts from, T n_h = its end): sv [n_heads, n, min(K, V)] descending, fro [n_heads, n].
// float32 runs use SVALS_FAST, float64 runs SVALS_EXACT (kernels/svals.h).
#include "core/backend.h"

bool FN(states_svals)(backend *be, const steps *s, mat state, const int *heads, int n_heads,
                      const int64_t *at, int64_t n, double *sv, double *fro, err *e);
