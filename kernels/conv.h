// kernels/conv.h - causal depthwise short convolution that carries its past from block to block.
//
//     y[t, d] = act(bias[d] + sum_{i=0}^{w-1} W[d, i] x[t - (w-1) + i, d])
//
// x, y [T, D] (apart from each other), W [D, w], bias [1, D] or none. tail [w-1, D]: the last w-1
// rows before the block (zeros at a row's start), brought up to date. w = 1 needs no tail.
#include "core/backend.h"

void FN(conv_short)(backend *be, mat x, mat w, mat bias, mat tail, activation act, mat y);
