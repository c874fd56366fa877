// core/families/rwkv7_ffn.h - the channel mix of RWKV-7: y = W_value relu(W_key (x + d x_k))^2 with
// d = x_{t-1} - x_t.
#ifndef DELTOP_RWKV7_FFN_H
#define DELTOP_RWKV7_FFN_H

#include "core/families/family.h"

// Reads PREFIX.{x_k, key.weight, value.weight}; the width is the tensors', checked against
// intermediate_size. NULL: *e is filled.
module *rwkv7_ffn_new(builder *b, const char *prefix, err *e);

#endif
