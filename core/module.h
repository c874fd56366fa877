// core/module.h - the body of one branch: a mixer, an attention, an MLP.
//
// A family makes modules: a struct that begins with `module`, holds its weights, and reads like the
// paper in its `run`. What a row carries from block to block (states, convolution tails, key/value
// windows) is only declared here; the forward pass owns it, so one model serves many rows.
#ifndef DELTOP_MODULE_H
#define DELTOP_MODULE_H

#include "core/backend.h"

struct fwd;

typedef struct carry_spec {
    const char *what;   // "state", "q tail"
    int64_t rows, cols; // rows = 0: as many as the longest row has tokens (full attention)
    bool exact;         // float32 where activations are bfloat16; the state always is
} carry_spec;

enum { MODULE_MAX_CARRY = 8 };

typedef struct module module;
struct module {
    const char *kind; // "gated delta rule", "sliding-window attention", "SwiGLU MLP"
    // y [T, D] = body(x [T, D]); failures are sticky in the backend or in the fwd.
    void (*run)(module *m, struct fwd *f, mat x, mat y);
    void (*free)(module *m, backend *be); // frees the weights and m itself

    bool linear;      // has a recurrent state that the analyses look at
    head_shape heads; // linear mixers
    int state_carry;  // index of the state among the carries (linear mixers)
    int64_t window;   // attention: tokens seen including itself, 0 = all
    carry_spec carry[MODULE_MAX_CARRY];
    int n_carry;
    int index; // place among all modules of the model: set by model_load
    int layer; // set by model_load
};

// Declares a carry and returns its index.
int module_carry(module *m, const char *what, int64_t rows, int64_t cols);

#endif
