#include "core/model.h"

#include "core/families/family.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool name_list_add(name_list *l, err *e, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!mem_grow((void **)&l->v, &l->cap, l->n + 1, sizeof *l->v, "a list of names", e))
        return false;
    char *s = mem_strdup(text, e);
    if (!s)
        return false;
    l->v[l->n++] = s;
    return true;
}

void name_list_free(name_list *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
    *l = (name_list){0};
}

int module_carry(module *m, const char *what, int64_t rows, int64_t cols) {
    m->carry[m->n_carry] = (carry_spec){what, false, rows, cols};
    return m->n_carry++;
}

int module_state(module *m, const char *what, int64_t rows, int64_t cols) {
    int i = module_carry(m, what, rows, cols);
    m->carry[i].exact = true;
    return i;
}

// NULL: *e is filled.
static const family *read_info(model *m, const config *cfg, err *e) {
    model_info *i = &m->info;
    const char *type = NULL, *nearest = "";
    if (!family_type(cfg, &type, e))
        return NULL;
    if (!type) {
        err_set(e, ERR_INPUT, "%s: no model_type, so the family is unknown", config_path(cfg));
        return NULL;
    }
    snprintf(i->family, sizeof i->family, "%s", type);
    const family *f = family_find(type, &nearest);
    if (!f) {
        err_set(e, ERR_UNSUPPORTED,
                "%s: model_type \"%s\" is not known here; the closest known name is %s",
                config_path(cfg), text_show(type), nearest);
        return NULL;
    }
    if (!(f->sizes ? f->sizes : family_sizes)(cfg, i, e) ||
        !family_token(cfg, "bos_token_id", &i->bos, e) ||
        !family_token(cfg, "eos_token_id", &i->eos, e))
        return NULL;
    return f;
}

static void number_modules(model *m) {
    int n = 0;
    for (int L = 0; L < m->info.n_layers; L++)
        for (int b = 0; b < m->layers[L].n; b++) {
            m->layers[L].branch[b].body->index = n++;
            m->layers[L].branch[b].body->layer = L;
        }
}

static bool list_leftover(model *m, const ckpt *c, const bool *used, err *e) {
    for (int64_t i = 0; i < ckpt_count(c); i++)
        if (!used[i] && !name_list_add(&m->leftover, e, "%s", text_show(ckpt_at(c, i)->name)))
            return false;
    for (int i = 0; i < ckpt_note_count(c); i++)
        if (!name_list_add(&m->notes, e, "%s", ckpt_note(c, i)))
            return false;
    return true;
}

static model *load(const ckpt *c, const config *cfg, backend *be, model_wants_fn wants,
                   void *wants_ctx, err *e) {
    bool ok = false;
    model *m = mem_zalloc(1, sizeof *m, "a model", e);
    bool *used = mem_zalloc((size_t)ckpt_count(c) + 1, sizeof *used, "a list of tensors", e);
    if (!m || !used)
        goto done;
    m->be = be;
    m->embed_scale = m->logit_scale = 1;
    const family *f = read_info(m, cfg, e);
    if (!f)
        goto done;
    m->layers = mem_zalloc((size_t)m->info.n_layers, sizeof *m->layers, "layers", e);
    if (!m->layers)
        goto done;
    builder b = {.cfg = cfg,
                 .ck = c,
                 .be = be,
                 .m = m,
                 .family = f->names[0],
                 .layer = -1,
                 .used = used,
                 .wants = wants,
                 .wants_ctx = wants_ctx};
    if (!f->build(&b, e))
        goto done;
    number_modules(m);
    ok = list_leftover(m, c, used, e);
done:
    free(used);
    if (!ok) {
        model_free(m);
        return NULL;
    }
    return m;
}

model *model_load(const ckpt *c, const config *cfg, backend *be, err *e) {
    return load(c, cfg, be, NULL, NULL, e);
}

bool model_wants(const config *cfg, model_wants_fn fn, void *ctx, err *e) {
    ckpt *none = ckpt_none(e);
    model *m = none ? load(none, cfg, NULL, fn, ctx, e) : NULL;
    bool ok = m != NULL;
    model_free(m);
    ckpt_close(none);
    return ok;
}

model *model_open(const char *path, backend *be, err *e) {
    model *m = NULL;
    config *cfg = NULL;
    ckpt *c = ckpt_open(path, e);
    if (c)
        cfg = config_open(path, e);
    if (cfg)
        m = model_load(c, cfg, be, e);
    config_close(cfg);
    ckpt_close(c);
    return m;
}

static void norm_free(backend *be, const row_norm *n) {
    be->op->free(be, n->w);
    be->op->free(be, n->bias);
}

void model_free(model *m) {
    if (!m)
        return;
    for (int L = 0; m->layers && L < m->info.n_layers; L++)
        for (int i = 0; i < m->layers[L].n; i++) {
            branch *b = &m->layers[L].branch[i];
            if (b->body)
                b->body->free(b->body, m->be);
            if (m->be) {
                norm_free(m->be, &b->pre_norm);
                norm_free(m->be, &b->post_norm);
            }
        }
    if (m->be) {
        if (m->head.p != m->embed.p)
            m->be->op->free(m->be, m->head);
        m->be->op->free(m->be, m->embed);
        norm_free(m->be, &m->embed_norm);
        norm_free(m->be, &m->norm);
    }
    free(m->layers);
    name_list_free(&m->leftover);
    name_list_free(&m->missing);
    name_list_free(&m->notes);
    free(m);
}

const module *model_mixer(const model *m, int L) {
    for (int i = 0; i < m->layers[L].n; i++)
        if (m->layers[L].branch[i].body->linear)
            return m->layers[L].branch[i].body;
    return NULL;
}

bool model_has_states(const model *m) {
    for (int L = 0; L < m->info.n_layers; L++)
        if (model_mixer(m, L))
            return true;
    return false;
}

int64_t model_state_bytes(const model *m) {
    int64_t sum = 0;
    for (int L = 0; L < m->info.n_layers; L++) {
        const module *x = model_mixer(m, L);
        if (x)
            sum += 4 * (int64_t)x->heads.H * x->heads.K * x->heads.V;
    }
    return sum;
}

int64_t model_carry_bytes(const model *m, int esize) {
    int64_t sum = 0;
    for (int L = 0; L < m->info.n_layers; L++)
        for (int i = 0; i < m->layers[L].n; i++) {
            const module *x = m->layers[L].branch[i].body;
            for (int c = 0; c < x->n_carry; c++)
                sum += x->carry[c].rows * x->carry[c].cols * esize;
        }
    return sum;
}
