#include "cli/dash/card.h"

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool name_card(card *c, err *e) {
    char base[512], shown[512];
    size_t n = strlen(c->path);
    char *path = mem_strdup(c->path, e);
    if (!path)
        return false;
    while (n > 1 && path[n - 1] == '/')
        path[--n] = 0;
    // A file is called as its folder: "model.safetensors" says nothing.
    char *slash = strrchr(path, '/');
    if (file_ends_with(path, ".safetensors") && slash && slash > path)
        *slash = 0;
    const char *last = file_base(path, base, sizeof base);
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0) {
        char real[4096];
        if (realpath(path, real))
            last = file_base(real, base, sizeof base);
    }
    text_escape(last, strlen(last), shown, sizeof shown);
    free(path);
    return (c->name = mem_strdup(shown, e)) != NULL;
}

static bool count_heads(card *c, err *e) {
    const model *m = c->x.m;
    c->n_layers = m ? m->info.n_layers : 0;
    c->heads = mem_zalloc((size_t)c->n_layers + 1, sizeof *c->heads, "layers", e);
    for (int L = 0; c->heads && L < c->n_layers; L++) {
        const module *x = model_mixer(m, L);
        if (!x)
            continue;
        c->heads[L] = x->heads.H;
        c->n_heads += x->heads.H;
        c->widest = x->heads.H > c->widest ? x->heads.H : c->widest;
        if (!c->s.K)
            c->s = x->heads;
    }
    return c->heads != NULL;
}

// "7.8M"
static void short_count(int64_t n, char *buf, size_t size) {
    double v = (double)n;
    if (n < 1000)
        snprintf(buf, size, "%lld", (long long)n);
    else
        snprintf(buf, size,
                 v < 1e6   ? "%.0fk"
                 : v < 1e9 ? "%.1fM"
                           : "%.1fB",
                 v < 1e6   ? v / 1e3
                 : v < 1e9 ? v / 1e6
                           : v / 1e9);
}

static void describe(card *c) {
    const char *sum = c->x.summary ? c->x.summary : c->x.type[0] ? text_show(c->x.type) : "unknown";
    char count[32], kv[48], micro[24] = "";
    int family = (int)strcspn(sum, ":");
    short_count(c->x.parameters, count, sizeof count);
    if (c->s.n_h > 1)
        snprintf(micro, sizeof micro, " n_h=%d", c->s.n_h);
    snprintf(c->line[0], sizeof c->line[0], "%.*s%s", family, sum, micro);
    if (c->s.K == c->s.V)
        snprintf(kv, sizeof kv, "K=V=%d", c->s.K);
    else
        snprintf(kv, sizeof kv, "K=%d V=%d", c->s.K, c->s.V);
    if (c->s.K)
        snprintf(c->line[1], sizeof c->line[1], "%d layers x %d heads, %s  %s", c->n_layers,
                 c->widest, kv, count);
    else
        snprintf(c->line[1], sizeof c->line[1], "%lld layers, no matrix states  %s",
                 (long long)c->x.layers, count);
}

card *card_open(const char *path, int64_t train_length, err *e) {
    card *c = mem_zalloc(1, sizeof *c, "a model's sizes", e);
    if (!c)
        return NULL;
    c->path = mem_strdup(path, e);
    inspect_options how = {.no_tokenizer = true}; // the first frame does not wait for it
    if (!c->path || !inspect_open(&c->x, path, &how, e) || !name_card(c, e) || !count_heads(c, e)) {
        card_free(c);
        return NULL;
    }
    c->train_length = train_length ? train_length : c->x.train_length;
    describe(c);
    return c;
}

void card_free(card *c) {
    if (!c)
        return;
    inspect_close(&c->x);
    free(c->path);
    free(c->name);
    free(c->heads);
    free(c);
}

head_shape card_shape(const card *c, int layer) {
    const module *x =
        c && c->x.m && layer >= 0 && layer < c->n_layers ? model_mixer(c->x.m, layer) : NULL;
    return x ? x->heads : (head_shape){0};
}
