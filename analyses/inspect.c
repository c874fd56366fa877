#include "analyses/inspect.h"

#include "core/families/family.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool inspect_note(inspection *x, bool wrong, err *e, const char *fmt, ...) {
    char text[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!mem_grow((void **)&x->finding, &x->cap_findings, x->n_findings + 1, sizeof *x->finding,
                  "findings", e))
        return false;
    char *s = mem_strdup(text, e);
    if (!s)
        return false;
    x->finding[x->n_findings++] = (finding){wrong, s};
    return true;
}

// Totals -------------------------------------------------------------------------------------

static void count_dtypes(inspection *x) {
    enum { MOST = sizeof x->dtype / sizeof *x->dtype };
    for (int64_t i = 0; i < ckpt_count(x->c); i++) {
        const tensor *t = ckpt_at(x->c, i);
        int k = 0;
        while (k < x->n_dtypes && strcmp(x->dtype[k].type, t->type_name) != 0)
            k++;
        if (k == MOST)
            k--; // more words than there are types: the last row takes the rest
        if (k == x->n_dtypes)
            x->dtype[x->n_dtypes++] = (dtype_total){.type = t->type_name};
        x->dtype[k].tensors++;
        x->dtype[k].count += t->count;
        x->dtype[k].bytes += t->bytes;
        x->parameters += t->count;
        x->bytes += t->bytes;
    }
}

static bool select_tensors(inspection *x, const inspect_options *o, err *e) {
    int64_t n = ckpt_count(x->c);
    x->selected = mem_zalloc((size_t)n + 1, sizeof *x->selected, "a list of tensors", e);
    if (!x->selected)
        return false;
    for (int64_t i = 0; i < n; i++) {
        const char *name = ckpt_at(x->c, i)->name;
        bool in = o->n_include == 0;
        for (size_t k = 0; k < o->n_include; k++)
            in |= inspect_glob(o->include[k], name);
        for (size_t k = 0; k < o->n_exclude; k++)
            in &= !inspect_glob(o->exclude[k], name);
        x->selected[i] = in;
        x->n_selected += in;
    }
    return inspect_fold(x->c, x->selected, o->full, &x->groups, e);
}

// Config -------------------------------------------------------------------------------------

static int64_t config_number(const config *cfg, const char *key) {
    json_t *v = json_is_array(config_json(cfg, key)) ? json_array_get(config_json(cfg, key), 0)
                                                     : config_json(cfg, key);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

// For families that are known and for those that are not: the usual words, in the config or in the
// text part of a config for pictures and text.
static int64_t first_number(const config *cfg, const config *inner, const char *const *keys) {
    for (; *keys; keys++) {
        int64_t v = config_number(cfg, *keys);
        if (v < 0 && inner)
            v = config_number(inner, *keys);
        if (v >= 0)
            return v;
    }
    return -1;
}

static void read_sizes(inspection *x) {
    static const char *const layers[] = {"num_hidden_layers", "n_layer", "num_layers", NULL};
    static const char *const hidden[] = {"hidden_size", "d_model", "n_embd", NULL};
    static const char *const vocab[] = {"vocab_size", NULL};
    static const char *const length[] = {"max_position_embeddings", "model_max_length",
                                         "context_length", NULL};
    static const char *const bos[] = {"bos_token_id", NULL}, *const eos[] = {"eos_token_id", NULL};
    err ignored = {0};
    const char *type = NULL;
    config *inner = config_child(x->cfg, "text_config", &ignored);
    x->layers = first_number(x->cfg, inner, layers);
    x->hidden = first_number(x->cfg, inner, hidden);
    x->n_vocab = first_number(x->cfg, inner, vocab);
    x->train_length = first_number(x->cfg, inner, length);
    x->bos = first_number(x->cfg, inner, bos);
    x->eos = first_number(x->cfg, inner, eos);
    if (family_type(x->cfg, &type, &ignored) && type)
        snprintf(x->type, sizeof x->type, "%s", type);
    config_close(inner);
}

bool inspect_routine_key(const char *key) {
    static const char *const keys[] = {"_name_or_path",
                                       "architectures",
                                       "attn_mode",
                                       "auto_map",
                                       "bad_words_ids",
                                       "begin_suppress_tokens",
                                       "chunk_size_feed_forward",
                                       "dtype",
                                       "finetuning_task",
                                       "fuse_cross_entropy",
                                       "fuse_linear_cross_entropy",
                                       "fuse_norm",
                                       "fuse_swiglu",
                                       "id2label",
                                       "initializer_range",
                                       "is_decoder",
                                       "is_encoder_decoder",
                                       "label2id",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_scores",
                                       "pad_token_id",
                                       "problem_type",
                                       "return_dict",
                                       "return_dict_in_generate",
                                       "torch_dtype",
                                       "torchscript",
                                       "transformers_version",
                                       "use_bfloat16",
                                       "use_cache",
                                       "use_l2warp"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

// Asked before anything but the loader has put questions to the config.
static bool list_unread(inspection *x, err *e) {
    enum { MOST = 4096 };
    x->unread = mem_alloc(MOST, sizeof *x->unread, "config keys", e);
    if (!x->unread)
        return false;
    int n = config_unread(x->cfg, x->unread, MOST);
    for (int i = 0; i < n; i++) {
        // null and absent are the same thing
        if (inspect_routine_key(x->unread[i]) || !config_json(x->cfg, x->unread[i]))
            x->n_routine++;
        else
            x->unread[x->n_unread++] = x->unread[i];
    }
    return true;
}

// What the loader found ----------------------------------------------------------------------

// model_load escapes the names in its list.
static bool fold_leftover(inspection *x, err *e) {
    bool *take = mem_zalloc((size_t)ckpt_count(x->c) + 1, sizeof *take, "a list of tensors", e);
    if (!take)
        return false;
    size_t k = 0; // both lists are in natural order
    for (int64_t i = 0; i < ckpt_count(x->c) && k < x->m->leftover.n; i++)
        if (strcmp(text_show(ckpt_at(x->c, i)->name), x->m->leftover.v[k]) == 0) {
            take[i] = true;
            k++;
        }
    bool ok = inspect_fold(x->c, take, false, &x->leftover, e);
    free(take);
    return ok;
}

// "model.layers.3.attn.b" -> "model.layers.#.attn.b" and 3; the first whole number only.
static int64_t fold_missing(const char *name, char *buf, size_t size) {
    for (const char *s = name; *s;) {
        size_t n = strcspn(s, "."), digits = strspn(s, "0123456789");
        if (n == digits && n > 0 && n < 10) {
            snprintf(buf, size, "%.*s#%s", (int)(s - name), name, s + n);
            return atoll(s);
        }
        s += n + (s[n] == '.');
    }
    snprintf(buf, size, "%s", name);
    return -1;
}

static size_t common(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

// Is `other` nearer to `name` than what was found before? Of equally near ones, that which begins
// alike for longer.
static bool nearer(const char *name, const char *other, int *best, size_t *alike) {
    int d = text_distance(name, other, *best);
    size_t n = common(name, other);
    if (d > *best || (d == *best && n <= *alike))
        return false;
    *best = d;
    *alike = n;
    return true;
}

// Among what nothing reads if anything there is near, for such a tensor is likely the one that is
// missed; else among all but the same tensor of other layers.
static void nearest_name(const inspection *x, const char *name, const char *pattern, char *buf,
                         size_t size) {
    int best = 3 + (int)(strlen(name) / 4);
    size_t alike = 0;
    char other_pattern[600];
    for (size_t i = 0; i < x->m->leftover.n; i++)
        if (nearer(name, x->m->leftover.v[i], &best, &alike))
            snprintf(buf, size, "%s", x->m->leftover.v[i]);
    bool found = buf[0];
    for (int64_t i = 0; !found && i < ckpt_count(x->c); i++) {
        const char *other = ckpt_at(x->c, i)->name;
        fold_missing(other, other_pattern, sizeof other_pattern);
        if (strcmp(pattern, other_pattern) == 0 || !nearer(name, other, &best, &alike))
            continue;
        text_escape(other, strlen(other), buf, size);
    }
}

// False when the file has nothing of the layer that NAME belongs to: then no name is near it.
static bool layer_is_there(const ckpt *c, const char *name, const char *pattern) {
    if (!strchr(pattern, '#'))
        return true;
    size_t stem = strcspn(pattern, "#"), n = stem + strspn(name + stem, "0123456789");
    for (int64_t i = 0; i < ckpt_count(c); i++)
        if (strncmp(ckpt_at(c, i)->name, name, n + (name[n] == '.')) == 0)
            return true;
    return false;
}

static bool fold_all_missing(inspection *x, err *e) {
    const name_list *l = &x->m->missing;
    int64_t *number = mem_alloc(l->n + 1, sizeof *number, "layer numbers", e);
    bool *done = mem_zalloc(l->n + 1, sizeof *done, "layer numbers", e);
    bool ok = number && done;
    for (size_t i = 0; ok && i < l->n; i++) {
        char pattern[600], other[600];
        int64_t first = fold_missing(l->v[i], pattern, sizeof pattern);
        size_t n = 0;
        if (done[i])
            continue;
        for (size_t k = i; k < l->n; k++) {
            int64_t value = fold_missing(l->v[k], other, sizeof other);
            if (strcmp(pattern, other) == 0) {
                number[n++] = value;
                done[k] = true;
            }
        }
        ok = mem_grow((void **)&x->missing, &x->cap_missing, x->n_missing + 1, sizeof *x->missing,
                      "missing tensors", e);
        if (!ok)
            break;
        missing_group *g = &x->missing[x->n_missing];
        *g = (missing_group){.n = (int64_t)n};
        g->pattern = mem_strdup(n == 1 ? l->v[i] : pattern, e);
        ok = g->pattern != NULL;
        x->n_missing += ok;
        if (first >= 0 && n > 1)
            inspect_ranges(number, n, g->numbers, sizeof g->numbers);
        if (layer_is_there(x->c, l->v[i], pattern))
            nearest_name(x, l->v[i], pattern, g->nearest, sizeof g->nearest);
    }
    free(number);
    free(done);
    return ok;
}

static bool same_body(const module *a, const module *b) {
    if (strcmp(a->kind, b->kind) != 0 || a->linear != b->linear || a->window != b->window ||
        a->n_carry != b->n_carry)
        return false;
    for (int i = 0; i < a->n_carry; i++)
        if (a->carry[i].rows != b->carry[i].rows || a->carry[i].cols != b->carry[i].cols)
            return false;
    const head_shape *s = &a->heads, *r = &b->heads;
    return s->H == r->H && s->Hk == r->Hk && s->K == r->K && s->V == r->V && s->n_h == r->n_h &&
           s->decay == r->decay && s->erase == r->erase && s->scale == r->scale &&
           s->beta_max == r->beta_max;
}

static void measure_carries(layer_kind *k) {
    const module *b = k->body;
    if (b->linear)
        k->state_bytes = 4 * (int64_t)b->heads.H * b->heads.K * b->heads.V;
    for (int i = 0; i < b->n_carry; i++) {
        if (b->linear && i == b->state_carry)
            continue;
        if (b->carry[i].rows)
            k->carry_count += b->carry[i].rows * b->carry[i].cols;
        else
            k->growing += b->carry[i].cols;
    }
}

static bool group_layers(inspection *x, err *e) {
    const model *m = x->m;
    int64_t *of =
        mem_alloc((size_t)m->info.n_layers * MODEL_MAX_BRANCHES + 1, sizeof *of, "layers", e);
    x->kind =
        mem_zalloc((size_t)m->info.n_layers * MODEL_MAX_BRANCHES + 1, sizeof *x->kind, "layers", e);
    bool ok = of && x->kind;
    for (int L = 0; ok && L < m->info.n_layers; L++)
        for (int b = 0; b < m->layers[L].n; b++) {
            const module *body = m->layers[L].branch[b].body;
            size_t k = 0, n = 0;
            while (k < x->n_kinds && !same_body(x->kind[k].body, body))
                k++;
            if (k < x->n_kinds)
                continue;
            x->kind[x->n_kinds++].body = body;
            for (int l = L; l < m->info.n_layers; l++)
                for (int i = 0; i < m->layers[l].n; i++)
                    if (same_body(body, m->layers[l].branch[i].body))
                        of[n++] = l;
            x->kind[k].n = (int)n;
            inspect_ranges(of, n, x->kind[k].layers, sizeof x->kind[k].layers);
            measure_carries(&x->kind[k]);
        }
    free(of);
    return ok;
}

static bool take_model(inspection *x, err *e) {
    err why = {0};
    const family *f = NULL;
    if (!x->type[0])
        return inspect_note(x, true, e, "%s names no model_type: the family is not known",
                            text_show(config_path(x->cfg)));
    f = family_find(x->type, &x->nearest);
    if (!f)
        return inspect_note(x, true, e,
                            "model_type \"%s\" is not known here; the closest known family is %s",
                            text_show(x->type), x->nearest);
    x->nearest = NULL;
    x->summary = f->summary;
    x->m = model_load(x->c, x->cfg, NULL, &why);
    if (!x->m) {
        if (why.code == ERR_NOMEM)
            return err_set(e, why.code, "%s", why.text);
        return inspect_note(x, true, e, "the loader refuses this model: %s", why.text);
    }
    // The family may have them under other keys, or from a list of layers.
    x->layers = x->m->info.n_layers;
    x->hidden = x->m->info.D;
    x->n_vocab = x->m->info.n_vocab;
    for (size_t i = 0; i < x->m->notes.n; i++)
        if (!inspect_note(x, false, e, "%s", x->m->notes.v[i]))
            return false;
    return fold_leftover(x, e) && fold_all_missing(x, e) && group_layers(x, e) && list_unread(x, e);
}

// Contradictions that need no loader ---------------------------------------------------------

static void find_embedding(inspection *x) {
    static const char *const ends[] = {"embeddings.weight", "embedding.weight",
                                       "embed_tokens.weight", "emb.weight", "wte.weight"};
    for (int64_t i = 0; i < ckpt_count(x->c) && !x->embedding; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            const tensor *t = ckpt_at(x->c, i);
            if (t->rank == 2 && file_ends_with(t->name, ends[k]) && !strstr(t->name, "visual"))
                x->embedding = t;
        }
}

// Faults B23, B110: config against weights. The weights win wherever a number is needed.
static bool check_sizes(inspection *x, err *e) {
    const tensor *t = x->embedding;
    if (!t)
        return true;
    if (x->n_vocab >= 0 && t->dims[0] != x->n_vocab &&
        !inspect_note(x, true, e,
                      "config says vocab_size %" PRId64 ", but %s has %" PRId64
                      " rows; the rows count: ids 0 to %" PRId64 " exist",
                      x->n_vocab, text_show(t->name), t->dims[0], t->dims[0] - 1))
        return false;
    return x->hidden < 0 || t->dims[1] == x->hidden ||
           inspect_note(x, true, e,
                        "config says hidden_size %" PRId64 ", but %s has %" PRId64 " columns",
                        x->hidden, text_show(t->name), t->dims[1]);
}

// Fault B109: layers are counted by whole numbers in names only, and a gap is no smaller model.
static bool check_layers(inspection *x, err *e) {
    tensor_groups all = {0};
    if (!inspect_fold(x->c, NULL, false, &all, e))
        return false;
    // The stem with most tensors is the model's own stack of layers.
    size_t best = 0, best_length = 0;
    int64_t most = 0;
    for (size_t i = 0; i < all.n; i++) {
        const char *hash = strchr(all.v[i].pattern, '#');
        size_t length = hash ? (size_t)(hash - all.v[i].pattern) : 0;
        int64_t n = 0;
        for (size_t k = 0; length && k < all.n; k++)
            if (all.v[k].number && strncmp(all.v[k].pattern, all.v[i].pattern, length + 1) == 0)
                n += all.v[k].n;
        if (n > most) {
            most = n;
            best = i;
            best_length = length;
        }
        while (length && i + 1 < all.n &&
               strncmp(all.v[i + 1].pattern, all.v[i].pattern, length + 1) == 0)
            i++; // the same stem
    }
    enum { LAYERS = 4096 };
    static const size_t room = LAYERS * sizeof(bool);
    bool *there = mem_zalloc(room, 1, "layer numbers", e), ok = there != NULL;
    int64_t *absent = mem_alloc(LAYERS, sizeof *absent, "layer numbers", e), last = -1, n = 0;
    ok = ok && absent;
    for (size_t i = 0; ok && most && i < all.n; i++)
        if (all.v[i].number && strncmp(all.v[i].pattern, all.v[best].pattern, best_length + 1) == 0)
            for (int64_t k = 0; k < all.v[i].n; k++)
                if (all.v[i].number[k] < LAYERS) {
                    there[all.v[i].number[k]] = true;
                    last = all.v[i].number[k] > last ? all.v[i].number[k] : last;
                }
    for (int64_t i = 0; ok && i <= last; i++)
        if (!there[i])
            absent[n++] = i;
    char stem[300] = "", numbers[64];
    if (ok && most)
        text_escape(all.v[best].pattern, best_length, stem, sizeof stem);
    if (ok && n)
        ok = inspect_note(x, x->cfg != NULL, e,
                          "%s counts to %" PRId64 " with a gap: no tensors of %s", stem, last,
                          inspect_ranges(absent, (size_t)n, numbers, sizeof numbers));
    if (ok && x->layers >= 0 && last >= 0 && last + 1 != x->layers)
        ok = inspect_note(x, true, e,
                          "config says %" PRId64 " layers, but the tensors %s0 to %s%" PRId64
                          " make %" PRId64,
                          x->layers, stem, stem, last, last + 1);
    free(there);
    free(absent);
    tensor_groups_free(&all);
    return ok;
}

// Statistics ---------------------------------------------------------------------------------

static bool read_stats(inspection *x, const inspect_options *o, err *e) {
    int64_t n = ckpt_count(x->c), done = 0, total = 0;
    x->stats = mem_zalloc((size_t)n + 1, sizeof *x->stats, "statistics", e);
    if (!x->stats)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (x->selected[i])
            total += ckpt_at(x->c, i)->count;
    for (int64_t i = 0; i < n; i++) {
        const tensor *t = ckpt_at(x->c, i);
        tensor_stats *s = &x->stats[i];
        if (!x->selected[i])
            continue;
        if (!inspect_stats(x->c, t, s, o->progress, o->progress_ctx, done, total, e))
            return false;
        done += t->count;
        if (s->nan + s->inf &&
            !inspect_note(x, true, e,
                          "%s holds %" PRId64 " NaN and %" PRId64 " Inf among %" PRId64 " values",
                          text_show(t->name), s->nan, s->inf, t->count))
            return false;
    }
    return true;
}

// --------------------------------------------------------------------------------------------

static bool file_notes(inspection *x, err *e) {
    if (x->m)
        return true; // the model's notes hold them
    for (int i = 0; i < ckpt_note_count(x->c); i++)
        if (!inspect_note(x, false, e, "%s", ckpt_note(x->c, i)))
            return false;
    return true;
}

static bool take_config(inspection *x, const char *path, err *e) {
    err why = {0};
    x->cfg = config_open(path, &why);
    if (x->cfg) {
        read_sizes(x);
        return true;
    }
    if (why.code == ERR_NOMEM)
        return err_set(e, why.code, "%s", why.text);
    // A bare file is no mistake; a config that cannot be read is.
    if (why.code == ERR_MISSING)
        return inspect_note(x, false, e, "no config.json beside the file: the family is not known");
    return inspect_note(x, true, e, "%s", why.text);
}

bool inspect_open(inspection *x, const char *path, const inspect_options *o, err *e) {
    *x = (inspection){
        .layers = -1, .hidden = -1, .n_vocab = -1, .train_length = -1, .bos = -1, .eos = -1};
    x->tokenizer.bos = x->tokenizer.eos = -1;
    x->c = ckpt_open(path, e);
    bool ok = x->c != NULL;
    if (ok) {
        count_dtypes(x);
        find_embedding(x);
    }
    ok = ok && select_tensors(x, o, e) && take_config(x, path, e) &&
         (!x->cfg || ckpt_count(x->c) == 0 || take_model(x, e)) && file_notes(x, e) &&
         check_sizes(x, e) && check_layers(x, e) &&
         (o->no_tokenizer || inspect_tokenizer(x, path, o->tokenizer || o->full, e)) &&
         (!o->stats || read_stats(x, o, e));
    if (!ok)
        inspect_close(x);
    return ok;
}

void inspect_close(inspection *x) {
    tensor_groups_free(&x->groups);
    tensor_groups_free(&x->leftover);
    for (size_t i = 0; i < x->n_missing; i++)
        free(x->missing[i].pattern);
    for (size_t i = 0; i < x->n_findings; i++)
        free(x->finding[i].text);
    free(x->missing);
    free(x->finding);
    free(x->unread);
    free(x->kind);
    free(x->selected);
    free(x->stats);
    free(x->tokenizer.path);
    name_list_free(&x->tokenizer.special);
    model_free(x->m);
    config_close(x->cfg);
    ckpt_close(x->c);
    *x = (inspection){0};
}

bool inspect_is_wrong(const inspection *x) {
    for (size_t i = 0; i < x->n_findings; i++)
        if (x->finding[i].wrong)
            return true;
    return x->n_missing > 0 || x->leftover.n > 0;
}
