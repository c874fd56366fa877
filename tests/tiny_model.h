// tests/tiny_model.h - tiny random models of the delta families, as files and as plain numbers.
//
// A tiny model is a list of named tensors and a config. Tests rename, drop, join and change them,
// write the folder and open it; naive_run reads the same numbers with plain loops (the formulas of
// science.md), token by token in double, and shares no code with the program.
#ifndef DELTOP_TESTS_TINY_MODEL_H
#define DELTOP_TESTS_TINY_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tiny_spec {
    const char *family; // delta_net, gated_deltanet, gated_deltaproduct, kda, comba
    int D, L, H, Hk, K, V, n_h, n_vocab, inter;
    int conv;               // width of the short convolution, 0: none
    bool gate, forget, neg; // output gate; forget gate (DeltaProduct); beta up to 2
    bool tied;              // no lm_head
    double lower_bound;     // of KDA; 0: none
    int window, heads, kv;  // hybrid: layer 1 is attention (heads 0: no hybrid; window 0: full)
    double key_bias;        // added to all conv/linear key weights: makes keys alike
    double qk_eps, o_eps;   // of the norms of q and k in attention (0: 1e-5), of o_norm (0: 1e-6)
    uint64_t seed;
} tiny_spec;

typedef struct tiny_tensor {
    char name[128];
    const char *dtype; // "F32", "F64", "F16", "BF16" or a name that is only written
    int rank;
    int64_t dims[4];
    int64_t n;
    double *v; // values that a float holds exactly
} tiny_tensor;

typedef struct tiny_model {
    tiny_spec s;
    tiny_tensor *t;
    int n, cap;
    json_t *config;
} tiny_model;

uint64_t tiny_next(uint64_t *seed);
double tiny_uniform(uint64_t *seed); // (-1, 1)
double tiny_normal(uint64_t *seed);

// Sizes that are 0 get small defaults.
tiny_model *tiny_new(tiny_spec s);
// The tensors and the config of a folder (its spec stays empty: no naive_run). BF16 becomes F32.
tiny_model *tiny_load(const char *folder);
void tiny_free(tiny_model *m);
tiny_tensor *tiny_find(const tiny_model *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); // NULL when absent
tiny_tensor *tiny_get(const tiny_model *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); // fails the test when absent
tiny_tensor *tiny_add(tiny_model *m, const char *name, int rank, const int64_t *dims);
void tiny_rename(tiny_model *m, const char *old, const char *name);
void tiny_drop(tiny_model *m, const char *name);
// Every tensor from then on written as DTYPE.
void tiny_dtype(tiny_model *m, const char *dtype);
// Takes VALUE; NULL removes the key.
void tiny_set(tiny_model *m, const char *key, json_t *value);
// Writes config.json and model.safetensors into the test's folder/NAME; the path, in a rotating
// buffer.
const char *tiny_save(const tiny_model *m, const char *name);

// What a plain loop makes of ids[0..T): loss [T-1], and per layer the final state [H, K, V].
typedef struct naive {
    double *loss;
    double **state; // [L], NULL for attention layers
    int L;
} naive;
naive naive_run(const tiny_model *m, const int32_t *ids, int64_t T);
void naive_free(naive *r);

#endif
