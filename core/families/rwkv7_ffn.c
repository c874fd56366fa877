#include "core/families/rwkv7_ffn.h"

#include "core/families/fla_group.h"
#include "core/forward.h"
#include "core/mem.h"

#include <stdlib.h>

typedef struct rwkv7_ffn {
    module base;
    mat mu, key, value; // [1, D], [I, D], [D, I]
    activation act;
    int before; // carry: the row before the block
} rwkv7_ffn;

static void ffn_free(module *base, backend *be) {
    rwkv7_ffn *m = (rwkv7_ffn *)base;
    if (be) {
        be->op->free(be, m->mu);
        be->op->free(be, m->key);
        be->op->free(be, m->value);
    }
    free(m);
}

static void ffn_run(module *base, fwd *f, mat x, mat y) {
    rwkv7_ffn *m = (rwkv7_ffn *)base;
    const backend_ops *op = f->be->op;
    mat in = fwd_tmp(f, x.rows, x.cols);
    if (mat_none(in))
        return;
    op->token_shift(f->be, x, fwd_carry(f, base, m->before), in);
    op->mix(f->be, x, in, m->mu, in);
    mat wide = fwd_linear(f, in, m->key, MAT_NONE);
    if (mat_none(wide))
        return;
    op->activate(f->be, wide, m->act, 1);
    fwd_output(f, base, wide, m->value, MAT_NONE, y);
}

module *rwkv7_ffn_new(builder *b, const char *prefix, err *e) {
    char mu[300], key[300], value[300];
    int64_t D = b->m->info.D, width = 0, cols = 0, said = 0;
    activation act = ACT_RELU2;
    build_name(mu, sizeof mu, prefix, "x_k");
    build_name(key, sizeof key, prefix, "key.weight");
    build_name(value, sizeof value, prefix, "value.weight");
    build_shape(b, key, &width, &cols);
    if (!config_int_or(b->cfg, "intermediate_size", 1, 1 << 24, width ? width : 1, &said, e) ||
        !fla_activation(b, "hidden_act", "sqrelu", &act, e))
        return NULL;
    rwkv7_ffn *m = mem_zalloc(1, sizeof *m, "a channel mix", e);
    if (!m)
        return NULL;
    m->base = (module){.kind = "RWKV-7 channel mix", .run = ffn_run, .free = ffn_free};
    m->act = act;
    m->before = module_carry(&m->base, "token before", 1, D);
    if (!build_weight(b, &m->mu, 1, D, mu, e) || !build_weight(b, &m->key, said, D, key, e) ||
        !build_weight(b, &m->value, D, said, value, e)) {
        ffn_free(&m->base, b->be);
        return NULL;
    }
    return &m->base;
}
