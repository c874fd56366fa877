// core/families/qwen.h - the skeleton of Qwen3-Next and Qwen3.5: gated delta rule in most layers,
// gated softmax attention in the others, dense or mixed MLPs, norms stored as differences from 1.
//
//     ROOTlayers.N.{input_layernorm, linear_attn | self_attn, post_attention_layernorm, mlp}
#ifndef DELTOP_QWEN_H
#define DELTOP_QWEN_H

#include "core/families/fla.h"

typedef struct qwen_layout {
    // Reads q, k, v, b, g (the output gate, z) and the decay's a from PREFIX.*.
    bool (*project)(fla_gated *d, builder *b, const char *prefix, const head_shape *s, err *e);
    const char *root; // "model.", "model.language_model."
    bool experts;     // MLPs are mixtures, but for mlp_only_layers and decoder_sparse_step
    bool may_keep;    // norm_topk_prob false is known
} qwen_layout;

// Everything but lm_head: embedding, layers, final norm. Asks b->cfg.
bool qwen_build(builder *b, const qwen_layout *how, err *e);

#endif
