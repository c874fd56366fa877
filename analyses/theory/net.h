// analyses/theory/net.h - weights that compute what a proof says, inside the limits of the layer
// (science.md 3, 3.2).
//
// The residual stream has a coordinate for each token and one for each number that a layer leaves to
// later ones. A token's embedding is sqrt(D) on its own coordinate; what layers add has a known
// norm, because o_norm and the look-ups see to it. So the RMS of the stream in front of every norm
// is known (`ms` below, its mean square), and a weight of
// w / value_on_the_coordinate times that RMS makes the pre-activation w.
//
// Keys, queries and values pass SiLU, which never goes below -0.2784645: a vector is scaled as a
// whole, never entry by entry, so that no entry is below -SILU_LOW (T02).
#ifndef DELTOP_NET_H
#define DELTOP_NET_H

#include "core/families/fla_write.h"

#include <stdbool.h>

#define SILU_LOW 0.27
// Largest entry of a vector without negative ones: the L2 norm's eps is lost in float32 from there
// on.
#define SILU_HIGH 4.0
// Pre-activations of beta = 2 sigmoid(z): 2.0f, 1 and 0 exactly in float32 (T02).
#define BETA_TWO  17.0
#define BETA_ONE  0.0
#define BETA_ZERO -120.0
// Arguments of the gate's softplus: g = 1 and g = 0 in float32.
#define GATE_KEEP -120.0
#define GATE_WIPE 200.0

// The z with silu(z) = y on the branch z >= -1.2784645; y >= -0.2784645.
double silu_inverse(double y);

// Pre-activations of a vector in direction x [n], whose sign may be chosen (a key) or not: every
// entry is silu_inverse of a common positive multiple of x (or -x). The multiple is as large as the
// most negative entry allows, and 64 / max for vectors without one: then eps of the L2 norm
// vanishes.
void silu_vector(const double *x, int n, bool either_sign, double *z);

// What one micro-step of one head does at one token.
typedef struct micro {
    double beta;       // 0, 1 or 2
    const double *key; // [K], any length; NULL with beta 0
    const double *v;   // [V], all entries >= -SILU_LOW; NULL: zero
} micro;

// What a layer writes for a token: pre-activations of the one-hot coordinate `at`, which holds
// `value` when it is on, where the stream has the mean square ms. Adds to what stands there, so that
// several coordinates may share a projection.
typedef struct source {
    int at;       // coordinate of the residual stream
    double value; // on it
    double ms;    // mean square of the stream
} source;

// w / (value / rms): the weight that turns the coordinate into the pre-activation z.
double net_weight(const source *s, double z);

// Adds the pre-activation z to row `row` of a projection [rows, D].
void net_add(const product_model *m, float *w, int64_t row, const source *s, double z);
void net_query(product_model *m, int L, int head, const source *s, const double *q);
void net_micro(product_model *m, int L, int head, int j, const source *s, const micro *x);
// The gate of a head at a token: wiped or kept; net_gate_bias makes "kept" what holds elsewhere.
void net_wipe(product_model *m, int L, int head, const source *s);
void net_gate_bias(product_model *m, int L);
// The first n numbers of the head's output (norm sqrt(V) after o_norm) go to coordinates at ..
// at+n-1.
void net_output(product_model *m, int L, int head, int at, int n);
// Logits: row `id` of the head reads template [n] from coordinates at .. at+n-1, where the stream
// has the mean square ms.
void net_template(product_model *m, int id, int at, const double *x, int n, double scale,
                  double ms);
// Embeddings: token id on coordinate id, sqrt(D).
void net_embed(product_model *m);

// Largest cosine between two different rows of x [n, d], all of norm 1: 1 less it is the margin.
double net_worst_cosine(const double *x, int n, int d);

#endif
