// core/families/hf.h - what Hugging Face's configs have in common: activation names, rotary
// settings, lists of layer kinds, attention sizes.
#ifndef DELTOP_HF_H
#define DELTOP_HF_H

#include "core/families/family.h"
#include "core/modules/attention.h"

// Settings that change what the model computes and that nobody here knows, quantised weights among
// them: each of `keys` (NULL-terminated) must be absent, null, false, 0, 1 (a factor) or empty.
bool hf_refuse(builder *b, const char *const *keys, err *e);

// "silu" (also "swish"), "relu", "relu2"; others are refused by name.
bool hf_activation(builder *b, const char *key, const char *otherwise, activation *act, err *e);

// rope_theta and partial_rotary_factor, from rope_parameters or from the top level, else `theta` and
// `part`, into rope_base and turned of *s, whose head_dim is known. Scaled positions (rope_type or
// rope_scaling other than the default) are refused by name, and so is an odd number of turned ones.
bool hf_rotary(builder *b, double theta, double part, attention_spec *s, err *e);

// num_attention_heads, num_key_value_heads, head_dim (default: hidden_size / heads) and
// attention_bias (of q, k, v and o) into *s, checked; rope and the rest are the caller's.
bool hf_attention(builder *b, attention_spec *s, err *e);

// Entry L of the list KEY of names; NULL without error when the key is absent. An entry that is no
// string, or a list of another length than the model's layers, is an error.
bool hf_layer_name(builder *b, const char *key, int L, const char **name, err *e);
// Whether L is in the list KEY of numbers (absent: no).
bool hf_layer_listed(builder *b, const char *key, int L, bool *listed, err *e);

// The embedding EMBED, the last norm NORM and the head (tie_word_embeddings; a config without it:
// tied when the file has no lm_head.weight); eps of all norms from eps_key.
bool hf_ends(builder *b, const char *embed, const char *norm, const char *eps_key, double eps,
             err *e);

// Appends x <- x + scale body(rms_norm(x)) to layer L; the norm is LAYERS.L.NAME.weight. Takes
// body; NULL (it could not be made, *e is filled) is passed on as false.
bool hf_branch(builder *b, const char *layers, int L, const char *name, double scale, module *body,
               err *e);

#endif
