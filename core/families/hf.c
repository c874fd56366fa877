#include "core/families/hf.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

static bool says_nothing(const json_t *v) {
    if (json_is_number(v))
        return json_number_value(v) == 0 || json_number_value(v) == 1;
    if (json_is_array(v))
        return json_array_size(v) == 0;
    if (json_is_object(v))
        return json_object_size(v) == 0;
    return json_is_false(v);
}

bool hf_refuse(builder *b, const char *const *keys, err *e) {
    if (config_has(b->cfg, "quantization_config"))
        return err_set(e, ERR_UNSUPPORTED, "%s: quantised weights are not read here",
                       config_path(b->cfg));
    for (; *keys; keys++) {
        const json_t *v = config_json(b->cfg, *keys);
        if (v && !says_nothing(v))
            return err_set(e, ERR_UNSUPPORTED, "%s: %s is set, and that is not known here (%s)",
                           config_path(b->cfg), *keys, b->family);
    }
    return true;
}

bool hf_activation(builder *b, const char *key, const char *otherwise, activation *act, err *e) {
    static const struct {
        const char *name;
        activation act;
    } known[] = {{"silu", ACT_SILU}, {"swish", ACT_SILU}, {"relu", ACT_RELU}, {"relu2", ACT_RELU2}};
    const char *name = NULL;
    if (!config_text_or(b->cfg, key, otherwise, &name, e))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            *act = known[i].act;
            return true;
        }
    return err_set(e, ERR_UNSUPPORTED, "%s: %s \"%s\" is not known here (silu, relu, relu2 are)",
                   config_path(b->cfg), key, text_show(name));
}

static bool default_rope(const config *c, const char *key, err *e) {
    const char *type = NULL;
    if (!config_text_or(c, key, "default", &type, e))
        return false;
    if (strcmp(type, "default") == 0)
        return true;
    return err_set(e, ERR_UNSUPPORTED, "%s: positions scaled by \"%s\" are not known here",
                   config_path(c), text_show(type));
}

bool hf_rotary(builder *b, double theta, double part, attention_spec *s, err *e) {
    if (!config_real_or(b->cfg, "rope_theta", theta, &theta, e) ||
        !config_real_or(b->cfg, "partial_rotary_factor", part, &part, e))
        return false;
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < 2; i++) {
        if (!config_has(b->cfg, objects[i]))
            continue;
        config *c = config_child(b->cfg, objects[i], e);
        bool ok = c && default_rope(c, "rope_type", e) && default_rope(c, "type", e) &&
                  config_real_or(c, "rope_theta", theta, &theta, e) &&
                  config_real_or(c, "partial_rotary_factor", part, &part, e);
        config_close(c);
        if (!ok)
            return false;
    }
    if (!(theta > 0 && part > 0 && part <= 1))
        return err_set(e, ERR_INPUT, "%s: rope_theta %g with partial_rotary_factor %g",
                       config_path(b->cfg), theta, part);
    s->rope_base = theta;
    s->turned = (int64_t)((double)s->head_dim * part);
    // Pairs turn; and 0 would stand for all.
    return (s->turned >= 2 && s->turned % 2 == 0) ||
           err_set(
               e, ERR_INPUT,
               "%s: partial_rotary_factor %g turns %lld of %lld numbers of a head: need an even "
               "number",
               config_path(b->cfg), part, (long long)s->turned, (long long)s->head_dim);
}

bool hf_attention(builder *b, attention_spec *s, err *e) {
    int64_t D = b->m->info.D;
    if (!config_int(b->cfg, "num_attention_heads", 1, 65536, &s->heads, e) ||
        !config_int_or(b->cfg, "num_key_value_heads", 1, 65536, s->heads, &s->kv_heads, e) ||
        !config_int_or(b->cfg, "head_dim", 1, 65536, D / s->heads, &s->head_dim, e) ||
        !config_bool_or(b->cfg, "attention_bias", false, &s->qkv_bias, e))
        return false;
    s->o_bias = s->qkv_bias;
    if (s->heads % s->kv_heads == 0 && s->head_dim > 0)
        return true;
    return err_set(e, ERR_INPUT,
                   "%s: num_attention_heads %lld is no multiple of "
                   "num_key_value_heads %lld, or no head fits hidden_size %lld",
                   config_path(b->cfg), (long long)s->heads, (long long)s->kv_heads, (long long)D);
}

bool hf_layer_name(builder *b, const char *key, int L, const char **name, err *e) {
    const json_t *list = config_json(b->cfg, key);
    *name = NULL;
    if (!list)
        return true;
    if (!json_is_array(list) || json_array_size(list) != (size_t)b->m->info.n_layers)
        return err_set(e, ERR_INPUT, "%s: %s is no list of %d layer kinds", config_path(b->cfg),
                       key, b->m->info.n_layers);
    *name = json_string_value(json_array_get(list, (size_t)L));
    return *name || err_set(e, ERR_INPUT, "%s: %s[%d] is no name", config_path(b->cfg), key, L);
}

bool hf_layer_listed(builder *b, const char *key, int L, bool *listed, err *e) {
    json_t *list = config_json(b->cfg, key), *item;
    size_t i;
    *listed = false;
    if (list && !json_is_array(list))
        return err_set(e, ERR_INPUT, "%s: %s is no list", config_path(b->cfg), key);
    json_array_foreach(list, i, item) {
        int64_t x = json_is_integer(item) ? json_integer_value(item) : -1;
        if (x < 0 || x >= b->m->info.n_layers)
            return err_set(e, ERR_INPUT, "%s: %s holds something that is no layer below %d",
                           config_path(b->cfg), key, b->m->info.n_layers);
        *listed |= x == L;
    }
    return true;
}

bool hf_ends(builder *b, const char *embed, const char *norm, const char *eps_key, double eps,
             err *e) {
    model *m = b->m;
    return build_eps(b, eps_key, eps, e) &&
           build_weight(b, &m->embed, m->info.n_vocab, m->info.D, embed, e) &&
           build_weight(b, &m->norm.w, 1, m->info.D, norm, e) &&
           build_head(b, "tie_word_embeddings", !build_has(b, "lm_head.weight"), embed, e);
}

bool hf_branch(builder *b, const char *layers, int L, const char *name, double scale, module *body,
               err *e) {
    char full[300];
    row_norm norm = {0};
    if (!body)
        return false;
    snprintf(full, sizeof full, "%s.%d.%s", layers, L, name);
    if (!build_norm(b, &norm, NORM_RMS, false, full, e)) {
        build_norm_free(b, &norm);
        body->free(body, b->be);
        return false;
    }
    if (build_branch_norms(b, L, norm, (row_norm){0}, scale, body, e))
        return true;
    build_norm_free(b, &norm);
    return false;
}
