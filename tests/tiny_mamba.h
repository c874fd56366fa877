// tests/tiny_mamba.h - a tiny random Mamba-2 in FLA's layout, and plain loops that read it token by
// token in double (the formulas of core/modules/mamba2.h; no code of the program).
#ifndef DELTOP_TESTS_TINY_MAMBA_H
#define DELTOP_TESTS_TINY_MAMBA_H

#include "tests/tiny_model.h"

typedef struct tiny_mamba_spec {
    int D, L, H, V, G, N, n_vocab, width;
    double lo, hi; // limits of dt; hi 0: none
    bool tied, bias, plain, norm_first;
    uint64_t seed;
} tiny_mamba_spec;

// Sizes that are 0 get small defaults. tiny_free it.
tiny_model *tiny_mamba(tiny_mamba_spec s);

// Ways to get it wrong, to show that a test can tell.
typedef enum { RIGHT, WHOLE_WIDTH_NORM, NO_LIMITS, GROUP_MODULO } mamba_mistake;
// Loss [T-1]; the sizes are those of the spec (defaults filled in the same way).
void tiny_mamba_run(const tiny_model *m, tiny_mamba_spec s, const int32_t *ids, int64_t T,
                    mamba_mistake wrong, double *loss);

#endif
