// analyses/spectrum_pass.h - what a pass over rows keeps, between spectrum.c (set up, run) and
// spectrum_blocks.c (a block's windows, tokens and exponents).
#ifndef DELTOP_SPECTRUM_PASS_H
#define DELTOP_SPECTRUM_PASS_H

#include "analyses/spectrum.h"
#include "analyses/tape.h"

struct spectrum_pass {
    spectrum_options o;
    spectrum_result *r;
    tape **tape; // [n_tapes]: one a layer of the result
    int n_tapes;
    int *place;   // [layers of the model]: index into the result, -1
    const fwd *f; // borrowed: says where states were emptied
    int64_t row;
    // Progress over all rows; the last block, whose windows and exponents take far longer than its
    // tokens, counts its pieces instead.
    progress_fn progress;
    void *progress_ctx;
    int64_t piece, pieces; // of the last block; pieces 0: not there yet
};

// probe.on_steps of a pass (ctx: the pass): what a block of a layer makes possible is computed and goes into
// the result.
bool spectrum_on_steps(void *ctx, int layer, int64_t t0, const steps *s, mat state, backend *be,
                       err *e);

#endif
