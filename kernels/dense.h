// kernels/dense.h - embedding, matrix products, residual sums.
//
//   embed   y[t, :] = table[ids[t], :]                    table [n_vocab, D], ids [T] in range
//   linear  y = x w^T + bias    x [T, in], w [out, in], bias [1, out] or none, y [T, out]
//   add     y += scale x
//   add_rows  y[rows[i], :] += scale[i] x[i, :]           rows and scale on the host, rows distinct
//
// Sums of a row do not depend on how many threads there are: rows are cut into fixed tiles.
#include "core/backend.h"

void FN(dense_embed)(backend *be, mat table, const int32_t *ids, mat y);
void FN(dense_linear)(backend *be, mat x, mat w, mat bias, mat y);
void FN(dense_add)(backend *be, mat x, double scale, mat y);
void FN(dense_add_rows)(backend *be, mat x, const int32_t *rows, const double *scale, mat y);
