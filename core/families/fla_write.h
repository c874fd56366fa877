// core/families/fla_write.h - a DeltaProduct model of known numbers as a checkpoint in
// flash-linear-attention's layout (model_type gated_deltaproduct), which FLA's
// GatedDeltaProductForCausalLM loads and core/families/gated_deltaproduct.c reads back.
//
// Without short convolution and output gate; norms have weight 1 and eps PRODUCT_EPS. Per layer:
//
//     q, k_j, v_j = silu(W x)   (q and k then L2-normalised)   beta_j = 2 sigmoid(W_b x)
//     g = exp(-softplus(W_a x + dt_bias)) with A_log = 0                         (forget only)
//     x <- x + W_o rms_norm(o);   x <- x + W_down (silu(W_gate x') * W_up x')
//
// with x' = rms_norm(x) in front of both.
#ifndef DELTOP_FLA_WRITE_H
#define DELTOP_FLA_WRITE_H

#include "core/err.h"

#include <stdint.h>

#define PRODUCT_EPS 1e-6

typedef struct product_sizes {
    int D, n_vocab, n_layers;
    int H, K, V, n_h;
    int inter;   // width of the MLPs
    bool forget; // with a forget gate
    int bos;
    int64_t train_length; // max_position_embeddings
} product_sizes;

// Rows of one output each, as nn.Linear stores them. k, v and b are step-major: row
// (j H + h) K + i of k belongs to micro-step j, head h, channel i.
typedef struct product_layer {
    float *q;                // [H K, D]
    float *k, *v, *b;        // [n_h H K, D], [n_h H V, D], [n_h H, D]
    float *a, *dt, *a_log;   // [H, D], [H], [H]; NULL without a forget gate
    float *o;                // [D, H V]
    float *gate, *up, *down; // [inter, D], [inter, D], [D, inter]
} product_layer;

typedef struct product_model {
    product_sizes s;
    float *embed, *head; // [n_vocab, D]
    product_layer *layer;
    float *ones; // weights of all norms
    float *all;  // what the pointers above point into
} product_model;

// All zero. NULL: *e is filled.
product_model *product_new(const product_sizes *s, err *e);
void product_free(product_model *m); // NULL is fine

// Writes FOLDER/config.json and FOLDER/model.safetensors; the folder must exist.
bool product_save(const product_model *m, const char *folder, err *e);
int64_t product_parameters(const product_model *m);

#endif
