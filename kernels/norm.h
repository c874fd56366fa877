// kernels/norm.h - norms over a row, and over the heads inside a row.
//
//   rms         y = x / sqrt(mean(x^2) + eps) * w         x, y [rows, D], w [1, D] or none; y may be x
//                                                       w [G, D]: row t takes w's row t mod G (norms of
//                                                       groups, rows reshaped to [T * G, D])
//   heads, L2   x_h = x_h / sqrt(sum(x_h^2) + eps)        x [rows, heads * head_dim], in place
//   heads, L2_FLOOR  x_h = x_h / max(|x_h|, eps)
//   heads, L1   x_h = x_h / (sum(x_h) + eps)              the plain sum, signs kept
//   layer       y_g = (x_g - mean) / sqrt(var + eps) * w + bias   for every group g of `group` columns,
//               var = mean((x_g - mean)^2); w, bias [1, cols] or none; y may be x. LayerNorm has one
//               group, a GroupNorm over heads one per head.
//   head_norms  y_h = sqrt(sum(x_h^2)) over the rows h n .. (h+1) n - 1, n = rows / H      x [H n, V],
//               y [1, H], both exact; summed in double. Not finite where x_h is not, and only there.
//
// A zero head stays zero under both L2 forms (fault B59). Where a row's sum of squares (heads, L1: its sum)
// overflows, the row is NaN all along, never the 0 of a division by infinity.
#include "core/backend.h"

void FN(norm_rms)(backend *be, mat x, mat w, double eps, mat y);
void FN(norm_heads)(backend *be, mat x, int64_t head_dim, head_norm kind, double eps);
void FN(norm_of_heads)(backend *be, mat x, mat y);
void FN(norm_layer)(backend *be, mat x, mat w, mat bias, int64_t group, double eps, mat y);
