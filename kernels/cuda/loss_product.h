// kernels/cuda/loss_product.h - losses on Hopper's tensor cores, for loss.cu: no logits in memory.
#ifndef DELTOP_CUDA_LOSS_PRODUCT_H
#define DELTOP_CUDA_LOSS_PRODUCT_H

#include "kernels/cuda/ops.h"
#include "kernels/cuda/wide.h"

// Of each tile of words, [tile][token]: the largest logit, the lowest word that has it, the sum of e^(logit - top).
struct loss_parts {
    float *top, *sum;
    int *best;
    float *target; // [token] logit
};

// bf16 x [T, D] and head [words, D] on Hopper, enough of both.
bool loss_product_takes(backend *be, mat x, mat head);
size_t loss_product_bytes(mat x, mat head); // of scratch
// As kernels/loss.h; everything on the device.
void loss_product_run(backend *be, mat x, mat head, const int32_t *targets, void *scratch,
                      double *loss, int32_t *best);

#endif
