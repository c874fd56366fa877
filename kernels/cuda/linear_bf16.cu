// The chunked linear recurrences for bfloat16 inputs (kernels/cuda/linear.h).
#include "kernels/cuda/linear_launch.h"

cudaError_t linear_launch_bf16(const linear_call &c, const linear_cut &cut, linear_pass pass,
                               cudaStream_t stream, size_t *shared) {
    return launch_linear<bf16>(c, cut, pass, stream, shared);
}
