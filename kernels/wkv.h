// kernels/wkv.h - the weighted average of RWKV-4: each channel forgets at its own rate.
//
//     o_t = (sum_{i<t} e^{(t-1-i) w + k_i} v_i + e^{u + k_t} v_t)
//         / (sum_{i<t} e^{(t-1-i) w + k_i}     + e^{u + k_t})
//
// k, v, o [T, C]; u, w [1, C], w < 0. state [3, C]: numerator and denominator of the past, divided by
// e to the third row, which is the largest exponent seen; all zero at a row's start. Neither
// overflows, whatever k is.
#include "core/backend.h"

void FN(wkv_run)(backend *be, mat k, mat v, mat u, mat w, mat state, mat o);
