// analyses/parity.h - a model against a reference dump: is the program right on this model?
//
// A dump is a folder of .npy files (input_ids, nll, logits_last, hidden_last, and per layer state,
// erank, erank_micro, beta, loggate, eig with eig_ends, eig_windows, eig_cond, norm2, logabsdet); a
// file that is absent is not compared. Conventions are those of science.md section 0.
#ifndef DELTOP_PARITY_H
#define DELTOP_PARITY_H

#include "core/model.h"
#include "core/progress.h"

typedef struct parity_row {
    char what[32];
    int layer;        // -1: of the whole model
    int64_t count;    // numbers compared
    double error;     // largest, in the measure named by `how`
    double tolerance; // 0: reported only
    const char *how;  // "absolute", "relative to the largest", "of its bound"
    bool pass;
} parity_row;

typedef struct parity {
    parity_row *row; // owned
    size_t n, cap;
    int64_t tokens;
    bool pass; // all rows pass and at least the losses were compared
} parity;

// Tolerances by the model's precision: float64 1e-9 (float32 log gates of a dump: 1e-6), float32
// 3e-4, 1e-4 for kinds without a correction along keys; eigenvalues against 1e-15 norm2 cond, the size of the reference's own error, with a factor
// for the difference of the forward passes (see parity.c). False only when the comparison itself
// could not be made. progress counts the dump's tokens; NULL: nobody watches.
bool parity_run(const model *m, const char *folder, int64_t block, progress_fn progress,
                void *progress_ctx, parity *out, err *e);
void parity_free(parity *p);

#endif
