// An inspection as one JSON value: every fact, whatever the text folds or cuts.
#include "cli/inspect_print.h"

#include "core/text.h"

#include <string.h>

// Takes v; *bad grows when anything failed.
static void put(json_t *o, const char *key, json_t *v, int *bad) {
    *bad |= json_object_set_new(o, key, v);
}

static json_t *number_or_null(int64_t v) {
    return v >= 0 ? json_integer(v) : json_null();
}

static json_t *text_or_null(const char *s) {
    return s && *s ? output_json_text(s) : json_null();
}

static json_t *shape_json(const tensor *t, int *bad) {
    json_t *a = json_array();
    for (int i = 0; i < t->rank; i++)
        *bad |= json_array_append_new(a, json_integer(t->dims[i]));
    return a;
}

static json_t *stats_json(const tensor_stats *s, int *bad) {
    json_t *j = json_object();
    put(j, "finite", json_integer(s->finite), bad);
    put(j, "nan", json_integer(s->nan), bad);
    put(j, "inf", json_integer(s->inf), bad);
    put(j, "min", output_json_real(s->min), bad);
    put(j, "q01", output_json_real(s->q01), bad);
    put(j, "median", output_json_real(s->q50), bad);
    put(j, "q99", output_json_real(s->q99), bad);
    put(j, "max", output_json_real(s->max), bad);
    put(j, "mean", output_json_real(s->mean), bad);
    put(j, "std", output_json_real(s->std), bad);
    return j;
}

static json_t *tensors_json(const inspection *x, const inspect_look *look, int *bad) {
    json_t *a = json_array();
    for (int64_t i = 0; i < ckpt_count(x->c); i++) {
        const tensor *t = ckpt_at(x->c, i);
        if (!x->selected[i])
            continue;
        json_t *j = json_object();
        put(j, "name", output_json_text(t->name), bad);
        put(j, "dtype", output_json_text(t->type_name), bad);
        put(j, "shape", shape_json(t, bad), bad);
        put(j, "elements", json_integer(t->count), bad);
        put(j, "bytes", json_integer((json_int_t)t->bytes), bad);
        put(j, "file", json_integer(t->file), bad);
        if (look->stats && x->stats && x->stats[i].read)
            put(j, "stats", stats_json(&x->stats[i], bad), bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

static json_t *groups_json(const tensor_groups *g, int *bad) {
    json_t *a = json_array();
    for (size_t i = 0; i < g->n; i++) {
        const tensor_group *t = &g->v[i];
        json_t *j = json_object(), *layers = json_array();
        put(j, "pattern", output_json_text(t->pattern), bad);
        put(j, "members", json_integer(t->n), bad);
        put(j, "dtype", output_json_text(t->of->type_name), bad);
        put(j, "shape", shape_json(t->of, bad), bad);
        put(j, "elements", json_integer(t->count), bad);
        put(j, "bytes", json_integer((json_int_t)t->bytes), bad);
        for (int64_t k = 0; t->number && k < t->n; k++)
            if (k == 0 || t->number[k] != t->number[k - 1])
                *bad |= json_array_append_new(layers, json_integer(t->number[k]));
        put(j, "numbers", layers, bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

static json_t *layers_json(const inspection *x, int *bad) {
    json_t *a = json_array();
    for (size_t i = 0; i < x->n_kinds; i++) {
        const layer_kind *k = &x->kind[i];
        const head_shape *s = &k->body->heads;
        json_t *j = json_object();
        put(j, "kind", json_string(k->body->kind), bad);
        put(j, "layers", json_string(k->layers), bad);
        put(j, "n_layers", json_integer(k->n), bad);
        if (k->body->linear) {
            put(j, "H", json_integer(s->H), bad);
            put(j, "Hk", json_integer(s->Hk), bad);
            put(j, "K", json_integer(s->K), bad);
            put(j, "V", json_integer(s->V), bad);
            put(j, "n_h", json_integer(s->n_h), bad);
            put(j, "decay", json_string(inspect_decay_word(s->decay)), bad);
            put(j, "erase", json_string(inspect_erase_word(s->erase)), bad);
            put(j, "beta_max", s->beta_max > 0 ? json_real(s->beta_max) : json_null(), bad);
            put(j, "state_bytes_per_layer", json_integer(k->state_bytes), bad);
        }
        if (k->body->window)
            put(j, "window", json_integer(k->body->window), bad);
        put(j, "other_carried_bytes_per_layer", json_integer(4 * k->carry_count), bad);
        put(j, "carried_bytes_per_layer_and_token", json_integer(4 * k->growing), bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

static json_t *missing_json(const inspection *x, int *bad) {
    json_t *a = json_array();
    for (size_t i = 0; i < x->n_missing; i++) {
        const missing_group *g = &x->missing[i];
        json_t *j = json_object();
        put(j, "pattern", output_json_text(g->pattern), bad);
        put(j, "members", json_integer(g->n), bad);
        put(j, "numbers", json_string(g->numbers), bad);
        put(j, "nearest", text_or_null(g->nearest), bad);
        *bad |= json_array_append_new(a, j);
    }
    return a;
}

static json_t *tokenizer_json(const tokenizer_facts *f, int *bad) {
    if (!f->path)
        return json_null();
    json_t *j = json_object(), *special = json_array();
    put(j, "path", output_json_text(f->path), bad);
    put(j, "bytes", json_integer((json_int_t)f->bytes), bad);
    put(j, "loaded", json_boolean(f->loaded), bad);
    put(j, "kind", text_or_null(f->kind), bad);
    put(j, "ids", f->loaded ? json_integer(f->size) : json_null(), bad);
    put(j, "bos", number_or_null(f->bos), bad);
    put(j, "eos", number_or_null(f->eos), bad);
    put(j, "adds", text_or_null(f->adds), bad);
    for (size_t i = 0; i < f->special.n; i++)
        *bad |= json_array_append_new(special, output_json_text(f->special.v[i]));
    put(j, "special", special, bad);
    return j;
}

static json_t *need_json(const memory_need *n, int *bad) {
    json_t *j = json_object();
    put(j, "length", json_integer(n->length), bad);
    put(j, "block", json_integer(n->block), bad);
    put(j, "weights", json_integer(n->weights), bad);
    put(j, "carried", json_integer(n->carries), bad);
    put(j, "activations_estimate", json_integer(n->activations), bad);
    put(j, "losses", json_integer(n->losses), bad);
    put(j, "together_estimate", json_integer(n->total), bad);
    put(j, "while_loading", json_integer(n->loading), bad);
    put(j, "erank_adds", json_integer(n->erank), bad);
    return j;
}

static void put_lists(json_t *v, const inspection *x, int *bad) {
    json_t *findings = json_array(), *unread = json_array(), *metadata = json_array(),
           *files = json_array(), *dtypes = json_array();
    for (size_t i = 0; i < x->n_findings; i++) {
        json_t *j = json_object();
        put(j, "wrong", json_boolean(x->finding[i].wrong), bad);
        put(j, "text", output_json_text(x->finding[i].text), bad);
        *bad |= json_array_append_new(findings, j);
    }
    for (int i = 0; i < x->n_unread; i++)
        *bad |= json_array_append_new(unread, output_json_text(x->unread[i]));
    for (int i = 0; i < ckpt_metadata_count(x->c); i++) {
        json_t *j = json_object();
        put(j, "key", output_json_text(ckpt_metadata_key(x->c, i)), bad);
        put(j, "value", output_json_text(ckpt_metadata_value(x->c, i)), bad);
        *bad |= json_array_append_new(metadata, j);
    }
    for (int i = 0; i < ckpt_files(x->c); i++) {
        json_t *j = json_object();
        put(j, "path", output_json_text(ckpt_file(x->c, i)), bad);
        put(j, "bytes", json_integer((json_int_t)ckpt_file_bytes(x->c, i)), bad);
        *bad |= json_array_append_new(files, j);
    }
    for (int i = 0; i < x->n_dtypes; i++) {
        json_t *j = json_object();
        put(j, "dtype", output_json_text(x->dtype[i].type), bad);
        put(j, "tensors", json_integer(x->dtype[i].tensors), bad);
        put(j, "elements", json_integer(x->dtype[i].count), bad);
        put(j, "bytes", json_integer((json_int_t)x->dtype[i].bytes), bad);
        *bad |= json_array_append_new(dtypes, j);
    }
    put(v, "files", files, bad);
    put(v, "dtypes", dtypes, bad);
    put(v, "findings", findings, bad);
    put(v, "unread_config_keys", unread, bad);
    put(v, "metadata", metadata, bad);
}

json_t *inspect_json(const char *name, const inspection *x, const inspect_look *look) {
    int bad = 0;
    int64_t states = 0;
    json_t *v = json_object();
    for (size_t i = 0; i < x->n_kinds; i++)
        states += x->kind[i].n * x->kind[i].state_bytes;
    put(v, "model", output_json_text(name), &bad);
    put(v, "model_type", text_or_null(x->type), &bad);
    put(v, "known", json_boolean(x->summary != NULL), &bad);
    put(v, "closest_family", text_or_null(x->nearest), &bad);
    put(v, "summary", text_or_null(x->summary), &bad);
    put(v, "strict_pass", json_boolean(!inspect_is_wrong(x)), &bad);
    put(v, "n_layers", number_or_null(x->layers), &bad);
    put(v, "hidden_size", number_or_null(x->hidden), &bad);
    put(v, "vocab_size", number_or_null(x->n_vocab), &bad);
    put(v, "train_length", number_or_null(x->train_length), &bad);
    put(v, "bos", number_or_null(x->bos), &bad);
    put(v, "eos", number_or_null(x->eos), &bad);
    put(v, "tied_head", x->m ? json_boolean(x->m->info.tied) : json_null(), &bad);
    put(v, "parameters", json_integer(x->parameters), &bad);
    put(v, "bytes", json_integer((json_int_t)x->bytes), &bad);
    put(v, "state_bytes", x->m ? json_integer(states) : json_null(), &bad);
    put(v, "layers", layers_json(x, &bad), &bad);
    put_lists(v, x, &bad);
    put(v, "missing", missing_json(x, &bad), &bad);
    put(v, "left_over", groups_json(&x->leftover, &bad), &bad);
    put(v, "tokenizer", tokenizer_json(&x->tokenizer, &bad), &bad);
    if (look->need)
        put(v, "memory", need_json(look->need, &bad), &bad);
    put(v, "groups", groups_json(&x->groups, &bad), &bad);
    put(v, "tensors", tensors_json(x, look, &bad), &bad);
    if (bad) {
        json_decref(v);
        return NULL;
    }
    return v;
}
