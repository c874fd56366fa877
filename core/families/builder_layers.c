// The tools of core/families/family.h that put a model together: notes, flags that the file confirms,
// the head, norms and branches.
#include "core/busguard.h"
#include "core/families/family.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool build_note(builder *b, err *e, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < b->m->notes.n; i++)
        if (strcmp(b->m->notes.v[i], text) == 0)
            return true;
    return name_list_add(&b->m->notes, e, "%s", text);
}

bool build_switch(builder *b, const char *key, const char *old_key, const char *tensor_name,
                  bool *out, err *e) {
    const char *found = config_has(b->cfg, key)                  ? key
                        : old_key && config_has(b->cfg, old_key) ? old_key
                                                                 : NULL;
    bool there = build_has(b, "%s", tensor_name);
    if (!found) {
        *out = there;
        return true;
    }
    if (!config_bool_or(b->cfg, found, false, out, e))
        return false;
    if (!*out && there) {
        err_set(e, ERR_INPUT, "%s says %s false, but the file has %s", config_path(b->cfg), found,
                text_show(tensor_name));
        return build_where(b, e);
    }
    if (*out && !there && b->be) {
        err_set(e, ERR_MISSING, "%s says %s true, but the file has no %s", config_path(b->cfg),
                found, text_show(tensor_name));
        return build_where(b, e);
    }
    return true;
}

typedef struct pair {
    const tensor *x, *y;
    bool same;
} pair;

static void compare(void *arg) {
    pair *p = arg;
    p->same = memcmp(p->x->data, p->y->data, p->x->bytes) == 0;
}

// Are two tensors the same, byte by byte? The data are read where they are mapped (fault B8).
static bool same_tensors(const builder *b, const tensor *x, const tensor *y, bool *same, err *e) {
    pair p = {x, y, false};
    *same = false;
    if (x->type != y->type || x->bytes != y->bytes)
        return true;
    bool whole = busguard_run(compare, &p);
    if (!ckpt_still_whole(b->ck, e))
        return false;
    if (!whole)
        return err_set(e, ERR_IO,
                       "%s: tensor %s: a part of the file cannot be read (disk or network error)",
                       text_show(ckpt_file(b->ck, x->file)), text_show(x->name));
    *same = p.same;
    return true;
}

// Four cases of tie flag and head: what the flag says must be what the file holds.
bool build_head_named(builder *b, const char *tie_key, bool otherwise, const char *embed,
                      const char *head, err *e) {
    model_info *i = &b->m->info;
    if (!config_bool_or(b->cfg, tie_key, otherwise, &i->tied, e))
        return false;
    if (!i->tied)
        return build_weight(b, &b->m->head, i->n_vocab, i->D, head, e);
    b->m->head = b->m->embed;
    const tensor *x = ckpt_get(b->ck, head), *y = ckpt_get(b->ck, embed);
    if (!x)
        return true;
    bool same = true;
    if (y && !same_tensors(b, x, y, &same, e))
        return false;
    if (!same)
        return err_set(e, ERR_INPUT, "%s says %s true, but %s differs from %s", config_path(b->cfg),
                       tie_key, head, embed);
    build_dead(b, "a second copy of the tied embedding", head);
    return true;
}

bool build_head(builder *b, const char *tie_key, bool otherwise, const char *embed, err *e) {
    return build_head_named(b, tie_key, otherwise, embed, "lm_head.weight", e);
}

bool build_eps(builder *b, const char *key, double otherwise, err *e) {
    double *eps = &b->m->info.norm_eps;
    if (!config_real_or(b->cfg, key, otherwise, eps, e))
        return false;
    return (*eps >= 0 && *eps < 1) || err_set(e, ERR_INPUT, "%s: %s %g is no small positive number",
                                              config_path(b->cfg), key, *eps);
}

bool build_norm(builder *b, row_norm *out, norm_kind kind, bool bias, const char *prefix, err *e) {
    char name[300];
    int64_t D = b->m->info.D;
    *out = (row_norm){.kind = kind};
    snprintf(name, sizeof name, "%s.weight", prefix);
    if (!build_weight(b, &out->w, 1, D, name, e))
        return false;
    snprintf(name, sizeof name, "%s.bias", prefix);
    return !bias || build_weight(b, &out->bias, 1, D, name, e);
}

void build_norm_free(builder *b, row_norm *n) {
    if (b->be) {
        b->be->op->free(b->be, n->w);
        b->be->op->free(b->be, n->bias);
    }
    *n = (row_norm){0};
}

static bool add_branch(builder *b, int L, branch new, err *e) {
    layer *l = &b->m->layers[L];
    if (l->n == MODEL_MAX_BRANCHES) {
        new.body->free(new.body, b->be);
        return err_set(e, ERR_UNSUPPORTED, "layer %d has more than %d branches", L,
                       MODEL_MAX_BRANCHES);
    }
    new.body->layer = L;
    l->branch[l->n++] = new;
    return true;
}

bool build_branch(builder *b, int L, mat pre_norm, mat post_norm, double scale, module *body,
                  err *e) {
    return build_branch_norms(b, L, (row_norm){.w = pre_norm}, (row_norm){.w = post_norm}, scale,
                              body, e);
}

bool build_branch_norms(builder *b, int L, row_norm pre_norm, row_norm post_norm, double scale,
                        module *body, err *e) {
    return add_branch(b, L, (branch){pre_norm, post_norm, scale, body, false}, e);
}

bool build_beside(builder *b, int L, double scale, module *body, err *e) {
    return add_branch(b, L, (branch){.scale = scale, .body = body, .beside = true}, e);
}
