// kernels/recurrence.h - the recurrences of core/steps.h, and states inside a block.
//
//   recurrence  o[t, h, :] = scale H_t^T q_t for all tokens of the block; state [H * K, V] goes from
//               the block's start to its end.
//               Step form or chunk form (kernels/chunk.h), as be->recurrence says.
//   advance     one head, micro-steps first..last-1 (t n_h + j), no read-out. The
//               arithmetic of the step form, so that states looked at by an analysis are the states
//               the model had; under the chunk form they are that up to rounding.
#include "core/backend.h"

void FN(recurrence_run)(backend *be, const steps *s, mat state, mat o);

// S: [K, V] contiguous, of head h. Decay is applied at the first micro-step of a token. False: no
// memory for a tile (K above 500), S is as it was.
bool FN(recurrence_advance)(const steps *s, int h, int64_t first, int64_t last, void *S);
