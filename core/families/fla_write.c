#include "core/families/fla_write.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/safetensors_write.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Hands out n floats of an arena whose size is counted in a first pass with m->all = NULL.
static float *cut(product_model *m, size_t *used, size_t n) {
    float *p = m->all ? m->all + *used : NULL;
    *used += n;
    return p;
}

static size_t lay_out(product_model *m) {
    const product_sizes *s = &m->s;
    size_t used = 0, D = (size_t)s->D, nk = (size_t)s->H * (size_t)s->K,
           nv = (size_t)s->H * (size_t)s->V, n_h = (size_t)s->n_h, inter = (size_t)s->inter;
    m->embed = cut(m, &used, (size_t)s->n_vocab * D);
    m->head = cut(m, &used, (size_t)s->n_vocab * D);
    m->ones = cut(m, &used, D > (size_t)s->V ? D : (size_t)s->V);
    for (int L = 0; L < s->n_layers; L++) {
        product_layer *l = &m->layer[L];
        l->q = cut(m, &used, nk * D);
        l->k = cut(m, &used, n_h * nk * D);
        l->v = cut(m, &used, n_h * nv * D);
        l->b = cut(m, &used, n_h * (size_t)s->H * D);
        if (s->forget) {
            l->a = cut(m, &used, (size_t)s->H * D);
            l->dt = cut(m, &used, (size_t)s->H);
            l->a_log = cut(m, &used, (size_t)s->H);
        }
        l->o = cut(m, &used, D * nv);
        l->gate = cut(m, &used, inter * D);
        l->up = cut(m, &used, inter * D);
        l->down = cut(m, &used, D * inter);
    }
    return used;
}

product_model *product_new(const product_sizes *s, err *e) {
    product_model *m = mem_zalloc(1, sizeof *m, "a model", e);
    if (!m)
        return NULL;
    m->s = *s;
    m->layer = mem_zalloc((size_t)s->n_layers, sizeof *m->layer, "layers", e);
    if (m->layer)
        m->all = mem_zalloc(lay_out(m), sizeof *m->all, "weights", e);
    if (!m->all) {
        product_free(m);
        return NULL;
    }
    lay_out(m);
    for (int i = 0; i < (s->D > s->V ? s->D : s->V); i++)
        m->ones[i] = 1;
    return m;
}

void product_free(product_model *m) {
    if (!m)
        return;
    free(m->layer);
    free(m->all);
    free(m);
}

typedef struct list {
    tensor_out *t;
    size_t n;
} list;

static void put(list *l, const float *v, int64_t rows, int64_t cols, const char *name) {
    tensor_out *t = &l->t[l->n++];
    *t = (tensor_out){.rank = cols ? 2 : 1, .dims = {rows, cols}, .v = v};
    snprintf(t->name, sizeof t->name, "%s", name);
}

static void put_layer(list *l, const product_model *m, int L) {
    const product_sizes *s = &m->s;
    const product_layer *w = &m->layer[L];
    int64_t D = s->D, nk = (int64_t)s->H * s->K, nv = (int64_t)s->H * s->V;
    const struct {
        const char *name;
        const float *v;
        int64_t rows, cols;
    } part[] = {
        {"attn.A_log", w->a_log, s->H, 0},
        {"attn.a_proj.weight", w->a, s->H, D},
        {"attn.b_proj.weight", w->b, (int64_t)s->n_h * s->H, D},
        {"attn.dt_bias", w->dt, s->H, 0},
        {"attn.k_proj.weight", w->k, s->n_h * nk, D},
        {"attn.o_norm.weight", m->ones, s->V, 0},
        {"attn.o_proj.weight", w->o, D, nv},
        {"attn.q_proj.weight", w->q, nk, D},
        {"attn.v_proj.weight", w->v, s->n_h * nv, D},
        {"attn_norm.weight", m->ones, D, 0},
        {"mlp.down_proj.weight", w->down, D, s->inter},
        {"mlp.gate_proj.weight", w->gate, s->inter, D},
        {"mlp.up_proj.weight", w->up, s->inter, D},
        {"mlp_norm.weight", m->ones, D, 0},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.%d.%s", L, part[i].name);
        if (part[i].v)
            put(l, part[i].v, part[i].rows, part[i].cols, name);
    }
}

// Every tensor of the model, in the order of the file; the caller frees l->t.
static bool tensors(const product_model *m, list *l, err *e) {
    *l = (list){mem_zalloc(3 + 14 * (size_t)m->s.n_layers, sizeof *l->t, "tensors", e), 0};
    if (!l->t)
        return false;
    put(l, m->head, m->s.n_vocab, m->s.D, "lm_head.weight");
    put(l, m->embed, m->s.n_vocab, m->s.D, "model.embeddings.weight");
    for (int L = 0; L < m->s.n_layers; L++)
        put_layer(l, m, L);
    put(l, m->ones, m->s.D, 0, "model.norm.weight");
    return true;
}

int64_t product_parameters(const product_model *m) {
    list l;
    err e = {0};
    int64_t n = 0;
    if (!tensors(m, &l, &e))
        return 0;
    for (size_t i = 0; i < l.n; i++)
        n += l.t[i].dims[0] * (l.t[i].rank > 1 ? l.t[i].dims[1] : 1);
    free(l.t);
    return n;
}

static json_t *config(const product_sizes *s) {
    return json_pack(
        "{s:[s], s:s, s:b, s:s, s:b, s:b, s:b, s:b, s:i, s:i, s:i, s:f, s:i, s:i, s:i, s:i, s:i, "
        "s:f, s:b, s:s, s:I, s:i, s:i, s:b}",
        "architectures", "GatedDeltaProductForCausalLM", "model_type", "gated_deltaproduct",
        "allow_neg_eigval", 1, "attn_mode", "chunk", "use_short_conv", 0, "use_output_gate", 0,
        "use_forget_gate", s->forget ? 1 : 0, "tie_word_embeddings", 0, "hidden_size", s->D,
        "num_heads", s->H, "head_dim", s->K, "expand_v", (double)s->V / s->K, "num_householder",
        s->n_h, "num_hidden_layers", s->n_layers, "intermediate_size", s->inter, "vocab_size",
        s->n_vocab, "conv_size", 4, "norm_eps", PRODUCT_EPS, "use_cache", 1, "hidden_act", "swish",
        "max_position_embeddings", (json_int_t)s->train_length, "bos_token_id", s->bos,
        "eos_token_id", s->bos, "fuse_cross_entropy", 0);
}

bool product_save(const product_model *m, const char *folder, err *e) {
    list l = {0};
    json_t *c = config(&m->s);
    char *text = c ? json_dumps(c, JSON_INDENT(2)) : NULL;
    char *json = file_join(folder, "config.json", e);
    char *file = file_join(folder, "model.safetensors", e);
    bool ok = json && file && (text || err_set(e, ERR_NOMEM, "out of memory: a config")) &&
              tensors(m, &l, e) && safetensors_write(file, l.t, l.n, e) &&
              outfile_save(json, text, strlen(text), e);
    free(l.t);
    free(json);
    free(file);
    free(text);
    json_decref(c);
    return ok;
}
