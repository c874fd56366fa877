#include "tests/inspect_models.h"

#include "tests/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void text(tensor_file *f, const char *fmt, ...) {
    va_list ap;
    if (f->cap - f->n < 4096) {
        f->cap = 2 * f->cap + 8192;
        f->header = realloc(f->header, f->cap);
    }
    va_start(ap, fmt);
    f->n += (size_t)vsnprintf(f->header + f->n, f->cap - f->n, fmt, ap);
    va_end(ap);
}

void tensor_file_metadata(tensor_file *f, const char *json) {
    text(f, "%s\"__metadata__\":%s", f->n ? "," : "", json);
}

void tensor_file_add(tensor_file *f, const char *name, const char *type, size_t size,
                     const char *shape, size_t count, const void *values) {
    size_t n = size * count;
    text(f, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", f->n ? "," : "",
         name, type, shape, f->bytes, f->bytes + n);
    if (f->room - f->bytes < n) {
        f->room = 2 * f->room + n;
        f->data = realloc(f->data, f->room);
    }
    if (values)
        memcpy(f->data + f->bytes, values, n);
    else if (n)
        memset(f->data + f->bytes, 0, n);
    f->bytes += n;
}

void tensor_file_write(tensor_file *f, const char *path) {
    char *header = malloc(f->n + 3);
    sprintf(header, "{%s}", f->n ? f->header : "");
    files_safetensors(path, header, f->data ? (void *)f->data : "", f->bytes);
    free(header);
    free(f->header);
    free(f->data);
    *f = (tensor_file){0};
}

static void add(tensor_file *f, const small_model *m, int L, const char *part, int rows, int cols) {
    char name[200], shape[64];
    if (L < 0)
        snprintf(name, sizeof name, "%s", part);
    else
        snprintf(name, sizeof name, "model.layers.%d.%s", L, part);
    if (m->without && strcmp(name, m->without) == 0)
        return;
    bool bf16 = L == 0 && m->a_log_type && strcmp(part, "attn.A_log") == 0;
    if (strstr(part, "conv1d"))
        snprintf(shape, sizeof shape, "[%d,1,%d]", rows, cols);
    else if (cols)
        snprintf(shape, sizeof shape, "[%d,%d]", rows, cols);
    else
        snprintf(shape, sizeof shape, "[%d]", rows);
    tensor_file_add(f, name, bf16 ? m->a_log_type : "F32", bf16 ? 2 : 4, shape,
                    (size_t)rows * (size_t)(cols ? cols : 1), NULL);
}

void small_model_write(const char *folder, const small_model *m) {
    tensor_file f = {0};
    int HK = m->H * m->K, HV = m->H * m->V, n = m->n_h, D = m->D;
    char config[2048], path[600];
    add(&f, m, -1, "model.embeddings.weight", m->n_vocab, D);
    add(&f, m, -1, "model.norm.weight", D, 0);
    for (int L = 0; L < m->layers; L++) {
        add(&f, m, L, "attn_norm.weight", D, 0);
        add(&f, m, L, "mlp_norm.weight", D, 0);
        add(&f, m, L, "attn.q_proj.weight", HK, D);
        add(&f, m, L, "attn.k_proj.weight", HK * n, D);
        add(&f, m, L, "attn.v_proj.weight", HV * n, D);
        add(&f, m, L, "attn.b_proj.weight", m->H * n, D);
        add(&f, m, L, "attn.a_proj.weight", m->H, D);
        add(&f, m, L, "attn.A_log", m->H, 0);
        add(&f, m, L, "attn.dt_bias", m->H, 0);
        add(&f, m, L, "attn.q_conv1d.weight", HK, 4);
        add(&f, m, L, "attn.k_conv1d.weight", HK * n, 4);
        add(&f, m, L, "attn.v_conv1d.weight", HV * n, 4);
        add(&f, m, L, "attn.g_proj.weight", HV, D);
        add(&f, m, L, "attn.o_norm.weight", m->V, 0);
        add(&f, m, L, "attn.o_proj.weight", D, HV);
        add(&f, m, L, "mlp.gate_proj.weight", m->mlp, D);
        add(&f, m, L, "mlp.up_proj.weight", m->mlp, D);
        add(&f, m, L, "mlp.down_proj.weight", D, m->mlp);
    }
    if (m->extra)
        tensor_file_add(&f, m->extra, "F32", 4, "[1]", 1, NULL);
    snprintf(config, sizeof config,
             "{\"model_type\":\"%s\",\"hidden_size\":%d,\"num_hidden_layers\":%d,"
             "\"vocab_size\":%d,\"num_heads\":%d,\"head_dim\":%d,\"expand_v\":%d,"
             "\"intermediate_size\":%d,\"use_gate\":true,\"use_output_gate\":true,"
             "\"use_forget_gate\":true,\"allow_neg_eigval\":true,\"tie_word_embeddings\":true,"
             "\"max_position_embeddings\":64,\"num_householder\":%d%s}\n",
             n == 1 ? "gated_deltanet" : "gated_deltaproduct", D, m->layers, m->n_vocab, m->H, m->K,
             m->V / m->K, m->mlp, n, m->config ? m->config : "");
    files_mkdir(folder);
    snprintf(path, sizeof path, "%s/config.json", folder);
    files_text(path, config);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    tensor_file_write(&f, path);
}

void small_open(inspection *x, const char *path, const inspect_options *o) {
    static const inspect_options plain;
    err e = {0};
    if (!inspect_open(x, path, o ? o : &plain, &e))
        fail_msg("%s", e.text);
}

const tensor_group *small_group(const tensor_groups *g, const char *pattern, int nth) {
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->v[i].pattern, pattern) == 0 && nth-- == 0)
            return &g->v[i];
    fail_msg("no group %s", pattern);
    return NULL;
}

bool small_finding(const inspection *x, bool wrong, const char *part) {
    for (size_t i = 0; i < x->n_findings; i++)
        if (x->finding[i].wrong == wrong && strstr(x->finding[i].text, part))
            return true;
    return false;
}
