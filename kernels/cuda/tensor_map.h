// kernels/cuda/tensor_map.h - tensor maps of rows of heads, for the copy engine of Hopper (copy_box in wgmma.h). Host code.
#ifndef DELTOP_CUDA_TENSOR_MAP_H
#define DELTOP_CUDA_TENSOR_MAP_H

#include "kernels/cuda/device.h"

#include <cudaTypedefs.h>

// The driver's maker of tensor maps, so that nothing is linked against the driver: a tensor of AXES axes, the innermost
// without gaps; step: bytes from index to index of the others; part: the box, whose rows are 128 bytes, exchanged as
// swizzle() of wgmma.h says, or as they are (no swizzle). promotion: what a miss brings to the L2 cache. What lies outside the
// tensor is read as 0.
template <int AXES>
static cudaError_t
map_tensor(CUtensorMap *map, CUtensorMapDataType type, const void *p,
           const cuuint64_t (&size)[AXES], const cuuint64_t (&step)[AXES - 1],
           const cuuint32_t (&part)[AXES], CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
           CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
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
    return encode(map, type, AXES, (void *)p, size, step, part, every,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

static cudaError_t map_of(CUtensorMap *map, const bf16 *p, int width, int heads, int64_t rows,
                          int64_t ld, int box) {
    return map_tensor(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, p,
                      {(cuuint64_t)width, (cuuint64_t)heads, (cuuint64_t)rows},
                      {(cuuint64_t)width * sizeof *p, (cuuint64_t)ld * sizeof *p},
                      {64, 1, (cuuint32_t)box});
}

#endif
