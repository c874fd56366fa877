// tests/tiny_hf.h - a tiny model of FLA's layout rearranged into the layouts of Hugging Face's
// hybrids, so that one plain loop (naive_run, asked before) is the truth for all of them.
#ifndef DELTOP_TESTS_TINY_HF_H
#define DELTOP_TESTS_TINY_HF_H

#include "tests/tiny_model.h"

// A model that can become any of them: gated_deltanet (or kda) with output gate and convolution, norm
// weights in steps of 1/1024 so that w - 1 is exact. With s.heads, layer 1 is attention with norms of
// q and k.
tiny_model *tiny_hf(tiny_spec s);

// type: "qwen3_next" (fused per key head) or "qwen3_5_text". root: "model." or
// "model.language_model.". The attention's gate is half open everywhere, and o_proj twice as large.
void tiny_to_qwen(tiny_model *t, const char *type, const char *root);
// thirds: the convolutions cut as transformers cuts them. No attention layers.
void tiny_to_olmo(tiny_model *t, bool thirds);
// From kda; no attention layers.
void tiny_to_kimi(tiny_model *t);

// A tensor of normal numbers.
tiny_tensor *tiny_put(tiny_model *t, const char *name, int64_t rows, int64_t cols, double mean,
                      double deviation);

#endif
