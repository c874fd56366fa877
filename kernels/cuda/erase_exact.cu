// The chunked erase recurrences on float matrices with operands in three terms (kernels/cuda/erase.h).
#include "kernels/cuda/erase_run.h"

erase_sizes erase_exact_sizes(const erase_job *j) {
    FOR_FORM(exact_terms, float, j, 32, 32, 16, sizes_of, j);
}

cudaError_t erase_exact_run(const erase_job *j, const erase_plan *plan, erase_space *space) {
    FOR_FORM(exact_terms, float, j, 32, 32, 16, run_form, j, plan, space);
}
