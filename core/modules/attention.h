// core/modules/attention.h - softmax attention inside hybrids: full, or a sliding window that
// counts the token itself; grouped key/value heads; rotary positions; optional norms of q and k.
#ifndef DELTOP_ATTENTION_MODULE_H
#define DELTOP_ATTENTION_MODULE_H

#include "core/families/family.h"

typedef struct attention_spec {
    int64_t heads, kv_heads, head_dim;
    int64_t window;   // 0 = all earlier tokens
    double rope_base; // 0 = no rotation
    bool qkv_bias, qk_norm;
    double norm_eps;
    // Hybrids of other houses; 0 stands for what FLA does.
    int64_t turned;  // rotated numbers of a head, from its front; 0 = all
    double scale;    // of q . k; 0 = head_dim^-1/2
    double in_scale; // of the input; 0 = 1
    bool o_bias;
    // The output times sigmoid(gate) before o_proj; q_proj then holds, head by head, the rows of the
    // query and as many of the gate.
    bool out_gate;
    bool norm_offset; // q_norm and k_norm are stored as differences from 1
    bool norm_whole;  // they run over all heads at once
    // lit-gpt: one matrix of this name holds, key/value head by key/value head, the rows of its query
    // heads, its key and its value; `out` is the name that o_proj has then. NULL: matrices apart.
    const char *fused, *out;
} attention_spec;

// Reads PREFIX.{q,k,v,o}_proj.weight or PREFIX.{FUSED,OUT}.weight (+ .bias), and
// PREFIX.{q,k}_norm.weight. NULL: *e is filled.
module *attention_new(builder *b, const char *prefix, const attention_spec *s, err *e);

#endif
