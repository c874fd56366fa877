// The table of families: a new one is a file in this folder and a line here.
#include "core/families/family.h"
#include "core/text.h"

#include <string.h>

// One line each; the last one ends in a backslash, too, so that a new one touches no other.
// clang-format off
#define FAMILIES(ONE)       \
    ONE(delta_net)          \
    ONE(gated_deltanet)     \
    ONE(gated_deltaproduct) \
    ONE(kda)                \
    ONE(comba)              \
    ONE(gla)                \
    ONE(retnet)             \
    ONE(hgrn2)              \
    ONE(linear_attn)        \
    ONE(rwkv7)              \
    ONE(mamba2)             \
    ONE(bamba)              \
    ONE(granitemoehybrid)   \
    ONE(falcon_h1)          \
    ONE(nemotron_h)         \
    ONE(qwen3_next)         \
    ONE(qwen3_5)            \
    ONE(olmo_hybrid)        \
    ONE(kimi_linear)        \
    ONE(rwkv4)              \
    ONE(lit_gpt)            \

#define DECLARE(name) extern const family family_##name;
#define ENTRY(name) &family_##name,
// clang-format on

FAMILIES(DECLARE)
const family *const families[] = {FAMILIES(ENTRY) NULL};

const family *family_find(const char *model_type, const char **nearest) {
    int best = 1 << 20;
    for (const family *const *f = families; *f; f++)
        for (int i = 0; i < 4 && (*f)->names[i]; i++) {
            if (strcmp((*f)->names[i], model_type) == 0)
                return *f;
            int d = text_distance((*f)->names[i], model_type, 64);
            if (d < best) {
                best = d;
                if (nearest)
                    *nearest = (*f)->names[i];
            }
        }
    return NULL;
}

bool family_type(const config *cfg, const char **type, err *e) {
    if (!config_text_or(cfg, "model_type", NULL, type, e))
        return false;
    for (const family *const *f = families; *f && !*type; f++)
        if ((*f)->claims && (*f)->claims(cfg))
            *type = (*f)->names[0];
    return true;
}

bool family_sizes(const config *cfg, model_info *i, err *e) {
    int64_t L = 0;
    if (!config_int(cfg, "hidden_size", 1, 1 << 24, &i->D, e) ||
        !config_int(cfg, "num_hidden_layers", 1, 4096, &L, e) ||
        !config_int(cfg, "vocab_size", 1, INT32_MAX, &i->n_vocab, e) ||
        !config_int_or(cfg, "max_position_embeddings", 0, INT64_MAX / 2, 0, &i->train_length, e))
        return false;
    i->n_layers = (int)L;
    return true;
}
