// kernels/cuda/tensor_map.h - tensor maps of rows of heads, for the copy engine of Hopper (copy_box in wgmma.h). Host code.
#ifndef DELTOP_CUDA_TENSOR_MAP_H
#define DELTOP_CUDA_TENSOR_MAP_H

#include "kernels/cuda/device.h"

#include <cudaTypedefs.h>

// The driver's maker of tensor maps, so that nothing is linked against the driver. bf16, boxes of lines of 128 bytes with
// their 16-byte pieces exchanged (swizzle() in wgmma.h); step: bytes, of dimensions 1 and up.
static cudaError_t map_encode(CUtensorMap *map, const bf16 *p, int rank, const cuuint64_t *size,
                              const cuuint64_t *step, const cuuint32_t *box) {
    static PFN_cuTensorMapEncodeTiled_v12000 encode;
    if (!encode) {
        void *f = NULL;
        cudaDriverEntryPointQueryResult found;
        cudaError_t r = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000,
                                                         cudaEnableDefault, &found);
        if (r != cudaSuccess || found != cudaDriverEntryPointSuccess)
            return r != cudaSuccess ? r : cudaErrorNotSupported;
        encode = (PFN_cuTensorMapEncodeTiled_v12000)f;
    }
    const cuuint32_t every[5] = {1, 1, 1, 1, 1};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)rank, (void *)p, size, step,
                  box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

static cudaError_t map_of(CUtensorMap *map, const bf16 *p, int width, int heads, int64_t rows,
                          int64_t ld, int box) {
    const cuuint64_t size[3] = {(cuuint64_t)width, (cuuint64_t)heads, (cuuint64_t)rows};
    const cuuint64_t step[2] = {(cuuint64_t)width * sizeof *p, (cuuint64_t)ld * sizeof *p};
    const cuuint32_t part[3] = {64, 1, (cuuint32_t)box};
    return map_encode(map, p, 3, size, step, part);
}

#endif
