// The chunked linear recurrences for float32 inputs (kernels/cuda/linear.h).
#include "kernels/cuda/linear_launch.h"

cudaError_t linear_launch_f32(const linear_call &c, const linear_cut &cut, linear_pass pass,
                              cudaStream_t stream, size_t *shared) {
    return launch_linear<float>(c, cut, pass, stream, shared);
}
