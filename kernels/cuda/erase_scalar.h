// kernels/cuda/erase_scalar.h - chunks that erase (ERASE_KEY) with one decay a head or none and keys of up to 256
// channels, bfloat16, on Hopper: what erase.h does for such calls elsewhere, by products of whole warpgroups.
//
// A chunk has C = 64 rows; l_i is the log decay summed through row i. One decay for all channels is a factor of a
// score, not of a channel (erase_tile.h has the general case):
//
//   S_ij = exp(l_i - l_j) k_i . k_j, j < i        P^k_ij = exp(l_i - l_j) q_i . k_j, j <= i
//   T = (I + beta S)^-1 beta      X = (diag(exp(l_C - l)) T)^T K      P = P^k T
//   E = -exp(l) K                 Q^ = exp(l) Q
//   R = V + E H                   O = Q^ H + P R                      H <- exp(l_C) H + X^T R
//
// Keys and queries go into S and P^k as they are, so that no exponent but l_i - l_j <= 0, from sums in double, ever
// appears: nothing depends on how strong decays are.
#ifndef DELTOP_CUDA_ERASE_SCALAR_H
#define DELTOP_CUDA_ERASE_SCALAR_H

#include "kernels/cuda/erase.h"

// K above 128 (delta.h is faster below) and at most 256, a multiple of 8 as V is; q, k, v, o bf16, 16-byte aligned,
// leading dimensions multiples of 8; beta and decay (one a head, or none) float or bf16.
bool erase_scalar_takes(const erase_job *j, int device);
erase_sizes erase_scalar_sizes(const erase_job *j);
// Segments of so many chunks side by side on so many multiprocessors; us: microseconds that are expected.
int erase_scalar_segments(const erase_job *j, int chunks, int processors, double *us);
cudaError_t erase_scalar_run(const erase_job *j, const erase_plan *plan, erase_space *space);

#endif
