// kernels/shift.h - mixing a token with the one before it, and what is done channel by channel and
// head by head around that (RWKV-7).
//
//   token_shift   y[t] = x[t-1] - x[t]       x, y [T, D] (apart from each other); tail [1, D]: the row
//                                            before the block (zeros at a row's start), brought up to
//                                            date
//   mix           y = x + d * m              x, d, y [T, D]; m [1, D] or [T, D]; x none: y = d * m;
//                                            y may be x or d
//   dot_heads     y[t, h] = sum_i w[h, i] x[t, h, i] z[t, h, i]    x, z [T, H * d], w [1, H * d] or
//                                            none, y [T, H]
//   divide_heads  x[t, h, :] /= d[t, h] + eps           x [T, H * head_dim] in place, d [T, H]
//   broadcast     y[t, :] = row              row [1, D], y [T, D]
#include "core/backend.h"

void FN(shift_tokens)(backend *be, mat x, mat tail, mat y);
void FN(shift_mix)(backend *be, mat x, mat d, mat m, mat y);
void FN(shift_dot_heads)(backend *be, mat x, mat z, mat w, int64_t head_dim, mat y);
void FN(shift_divide_heads)(backend *be, mat d, double eps, int64_t head_dim, mat x);
void FN(shift_broadcast)(backend *be, mat row, mat y);
