// A comparison of checkpoints as one JSON value.
#include "cli/diff_print.h"

#include <math.h>

static void put(json_t *o, const char *key, json_t *v, int *bad) {
    *bad |= json_object_set_new(o, key, v);
}

static json_t *done(json_t *v, int bad) {
    if (!bad)
        return v;
    json_decref(v);
    return NULL;
}

static json_t *side_json(const tensor *t, int *bad) {
    if (!t)
        return json_null();
    json_t *j = json_object(), *shape = json_array();
    for (int i = 0; i < t->rank; i++)
        *bad |= json_array_append_new(shape, json_integer(t->dims[i]));
    put(j, "dtype", output_json_text(t->type_name), bad);
    put(j, "shape", shape, bad);
    return j;
}

static void values_json(json_t *j, const tensor_diff *t, int *bad) {
    const value_diff *v = &t->v;
    if (!t->measured)
        return;
    put(j, "changed", json_integer(v->changed), bad);
    put(j, "not_finite", json_integer(v->not_finite), bad);
    put(j, "cosine", output_json_real(v->cosine), bad);
    put(j, "l2", output_json_real(v->l2), bad);
    put(j, "norm_a", output_json_real(v->norm_a), bad);
    put(j, "norm_b", output_json_real(v->norm_b), bad);
    put(j, "largest", output_json_real(v->largest), bad);
    put(j, "at", v->at < 0 ? json_null() : json_integer(v->at), bad);
}

static json_t *tensor_json(const tensor_diff *t, int *bad) {
    json_t *j = json_object();
    put(j, "name", output_json_text(t->name), bad);
    put(j, "class", json_string(diff_class_name(t->how)), bad);
    put(j, "a", side_json(t->a, bad), bad);
    put(j, "b", side_json(t->b, bad), bad);
    put(j, "retyped", json_boolean(t->retyped), bad);
    put(j, "reshaped", json_boolean(t->reshaped), bad);
    put(j, "transposed", json_boolean(t->transposed), bad);
    values_json(j, t, bad);
    if (!t->a || !t->b) {
        put(j, "same_bits_as", t->twin ? output_json_text(t->twin->name) : json_null(), bad);
        put(j, "stored_once", json_boolean(t->twin && t->stored_once), bad);
    }
    return j;
}

static json_t *decays_json(const ckpt_diff *d, const decay_list *decay, size_t n, int *bad) {
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++) {
        const decay_diff *v = &decay[i].v;
        json_t *j = json_object();
        put(j, "name", output_json_text(d->v[decay[i].at].name), bad);
        put(j, "median_a", output_json_real(v->median_a), bad);
        put(j, "median_b", output_json_real(v->median_b), bad);
        put(j, "longest_a", output_json_real(v->longest_a), bad);
        put(j, "longest_b", output_json_real(v->longest_b), bad);
        put(j, "kept_16k", output_json_real(v->kept), bad);
        put(j, "largest_change", output_json_real(v->largest), bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

static json_t *config_json_of(const config_diff *c, int *bad) {
    json_t *a = json_array();
    for (size_t i = 0; i < c->n; i++) {
        json_t *j = json_object();
        put(j, "key", output_json_text(c->v[i].key), bad);
        put(j, "a", c->v[i].a[0] ? output_json_text(c->v[i].a) : json_null(), bad);
        put(j, "b", c->v[i].b[0] ? output_json_text(c->v[i].b) : json_null(), bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

json_t *diff_json(const ckpt_diff *d, const config_diff *c, const decay_list *decay,
                  size_t n_decay) {
    int bad = 0;
    json_t *v = json_object(), *counts = json_object(), *tensors = json_array();
    for (int c = 0; c < DIFF_CLASSES; c++)
        put(counts, diff_class_name((diff_class)c), json_integer(d->count[c]), &bad);
    for (size_t i = 0; i < d->n; i++)
        bad |= json_array_append_new(tensors, tensor_json(&d->v[i], &bad));
    put(v, "config", config_json_of(c, &bad), &bad);
    put(v, "counts", counts, &bad);
    put(v, "retyped", json_integer(d->retyped), &bad);
    put(v, "reshaped", json_integer(d->reshaped), &bad);
    put(v, "stored_once", json_integer(d->stored_once), &bad);
    put(v, "renamed", json_integer(d->renamed), &bad);
    put(v, "left_out", json_integer(d->left_out), &bad);
    put(v, "half_lives", decays_json(d, decay, n_decay, &bad), &bad);
    put(v, "tensors", tensors, &bad);
    return done(v, bad);
}

// Two numbers, of A and B.
static json_t *both(const double v[2], int *bad) {
    json_t *a = json_array();
    for (int i = 0; i < 2; i++)
        *bad |= json_array_append_new(a, output_json_real(v[i]));
    return a;
}

static json_t *stretches_json(const contrast *c, int *bad) {
    json_t *a = json_array();
    for (int i = 0; i < c->n_stretches; i++) {
        const contrast_stretch *s = &c->stretch[i];
        json_t *j = json_object();
        put(j, "from", json_integer(s->from), bad);
        put(j, "to", json_integer(s->to), bad);
        put(j, "loss", both(s->loss, bad), bad);
        put(j, "change", output_json_real(s->change.mean), bad);
        put(j, "change_lo", output_json_real(s->change.lo), bad);
        put(j, "change_hi", output_json_real(s->change.hi), bad);
        put(j, "kl", output_json_real(s->kl), bad);
        put(j, "agree", output_json_real(s->agree), bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

json_t *diff_contrast_json(const contrast *c) {
    int bad = 0;
    json_t *v = json_object(), *heads = json_array();
    for (size_t i = 0; i < c->n_heads; i++) {
        const contrast_head *h = &c->head[i];
        json_t *j = json_object(), *never = json_array();
        put(j, "layer", json_integer(h->layer), &bad);
        put(j, "head", json_integer(h->head), &bad);
        put(j, "erank", both(h->erank, &bad), &bad);
        put(j, "norm", both(h->norm, &bad), &bad);
        put(j, "half_life", both(h->half_life, &bad), &bad);
        for (int k = 0; k < 2; k++)
            bad |= json_array_append_new(never, json_boolean(isinf(h->half_life[k])));
        put(j, "half_life_never", never, &bad);
        bad |= json_array_append_new(heads, j);
    }
    put(v, "rows", json_integer(c->rows), &bad);
    put(v, "row_tokens", json_integer(c->n + 1), &bad);
    put(v, "stretches", stretches_json(c, &bad), &bad);
    put(v, "kl_largest", output_json_real(c->kl_largest), &bad);
    put(v, "kl_row", c->kl ? json_integer(c->kl_row) : json_null(), &bad);
    put(v, "kl_position", c->kl ? json_integer(c->kl_at) : json_null(), &bad);
    put(v, "no_kl", c->why_no_kl[0] ? json_string(c->why_no_kl) : json_null(), &bad);
    put(v, "no_spectra", c->why_no_spectrum[0] ? json_string(c->why_no_spectrum) : json_null(),
        &bad);
    put(v, "heads", heads, &bad);
    return done(v, bad);
}
