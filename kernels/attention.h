// kernels/attention.h - rotary positions and causal softmax attention, full or windowed.
//
//   rotate     pairs (x_i, x_{i+r/2}) of the first r = `turned` numbers of every head turn by
//              p base^(-2i/r), p = first_position + row (the first half against the second half);
//              x [T, heads * d] in place
//   attention  o_t = sum_j softmax_j(q_t . k_j / sqrt(d)) v_j over keys j with i-window < j <= i,
//              i = first_query + t; window 0: all j <= i. q [T, Hq * d], k [first_query + T, Hkv * d],
//              v [first_query + T, Hkv * c], o [T, Hq * c]; query head h reads key head
//              h / (Hq / Hkv). Online softmax. c follows from v.cols; mostly c = d.
#include "core/backend.h"

void FN(attention_rotate)(backend *be, mat x, int64_t head_dim, int64_t turned,
                          int64_t first_position, double base);
void FN(attention_run)(backend *be, mat q, mat k, mat v, int64_t head_dim, int64_t first_query,
                       int64_t window, mat o);
