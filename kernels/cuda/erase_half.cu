// The chunked erase recurrences on bfloat16 matrices with fp16 operands (kernels/cuda/erase.h).
#include "kernels/cuda/erase_run.h"

erase_sizes erase_half_sizes(const erase_job *j) {
    FOR_FORM(half_terms, bf16, j, 64, 64, 32, sizes_of, j);
}

cudaError_t erase_half_run(const erase_job *j, const erase_plan *plan, erase_space *space) {
    FOR_FORM(half_terms, bf16, j, 64, 64, 32, run_form, j, plan, space);
}
