// The tokenizer beside a model, and the memory that a run needs.
#include "analyses/inspect.h"
#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/text.h"
#include "core/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Larger files take longer to load than everything else in an inspection.
enum { TOKENIZER_SMALL = 1 << 20, PEEK = 256 << 10 };

// The first of the model types that tokenizer.json files have.
static void peek_kind(const char *path, tokenizer_facts *f, err *e) {
    static const char *const kinds[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    size_t size = 0;
    if (!file_ends_with(path, ".json")) {
        snprintf(f->kind, sizeof f->kind, "%s",
                 file_ends_with(path, ".txt") ? "RWKV World vocabulary" : "SentencePiece model");
        return;
    }
    int fd = file_open(path, &size, e);
    size_t n = size < PEEK ? size : PEEK;
    char *text = fd >= 0 ? mem_alloc(n + 1, 1, "the beginning of a tokenizer", e) : NULL;
    if (text && file_read_at(fd, path, 0, text, n, e)) {
        text[n] = 0;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !f->kind[0]; i++) {
            char tight[40], wide[40];
            snprintf(tight, sizeof tight, "\"type\":\"%s\"", kinds[i]);
            snprintf(wide, sizeof wide, "\"type\": \"%s\"", kinds[i]);
            if (strstr(text, tight) || strstr(text, wide))
                snprintf(f->kind, sizeof f->kind, "%s", kinds[i]);
        }
    }
    free(text);
    if (fd >= 0)
        close(fd);
}

static bool mentions(const json_t *v, const char *type) {
    if (!json_is_object(v))
        return false;
    const char *own = json_string_value(json_object_get(v, "type"));
    if (own && strcmp(own, type) == 0)
        return true;
    json_t *list = json_object_get(v, "pretokenizers"), *item;
    size_t i;
    json_array_foreach(list, i, item) if (mentions(item, type)) return true;
    return false;
}

static bool describe(const json_t *root, tokenizer_facts *f, err *e) {
    const json_t *m = json_object_get(root, "model");
    const char *type = json_string_value(json_object_get(m, "type"));
    char shown[24];
    if (type)
        text_escape(type, strlen(type), shown, sizeof shown);
    else // files of 2020 leave the type out
        snprintf(shown, sizeof shown, "%s", json_object_get(m, "merges") ? "BPE" : "unnamed");
    bool bytes = mentions(json_object_get(root, "pre_tokenizer"), "ByteLevel");
    bool fallback = json_is_true(json_object_get(m, "byte_fallback"));
    snprintf(f->kind, sizeof f->kind, "%s%s%s", bytes ? "byte-level " : "", shown,
             fallback ? " with byte fallback" : "");
    json_t *item, *added = json_object_get(root, "added_tokens");
    size_t i;
    json_array_foreach(added, i, item) {
        const char *text = json_string_value(json_object_get(item, "content"));
        if (text && json_is_true(json_object_get(item, "special")) &&
            !name_list_add(&f->special, e, "%s (%lld)", text_show(text),
                           (long long)json_integer_value(json_object_get(item, "id"))))
            return false;
    }
    return true;
}

static bool load(inspection *x, err *e) {
    tokenizer_facts *f = &x->tokenizer;
    err why = {0};
    bool json = file_ends_with(f->path, ".json");
    json_t *root = json ? jsonio_read(f->path, (size_t)1 << 30, &why) : NULL;
    bool ok = !root || describe(root, f, e);
    json_decref(root);
    if (!ok)
        return false;
    tokenizer *t = root || !json ? tokenizer_open(f->path, &why) : NULL;
    if (!t)
        return why.code == ERR_NOMEM ? err_set(e, why.code, "%s", why.text)
                                     : inspect_note(x, true, e, "tokenizer: %s", why.text);
    f->loaded = true;
    if (!json)
        snprintf(f->kind, sizeof f->kind, "%s", tokenizer_kind(t));
    f->size = tokenizer_size(t);
    f->bos = tokenizer_bos(t);
    f->eos = tokenizer_eos(t);
    if (!tokenizer_adds_special(t, f->adds, sizeof f->adds))
        f->adds[0] = 0;
    tokenizer_close(t);
    return true;
}

// Faults B106, B110: a tokenizer whose ids the embedding has no rows for. Rows without a token are
// the usual padding.
static bool check_vocabulary(inspection *x, err *e) {
    const tokenizer_facts *f = &x->tokenizer;
    int64_t rows = x->embedding ? x->embedding->dims[0] : x->n_vocab;
    if (!f->loaded || rows < 0)
        return true;
    if (f->size > rows)
        return inspect_note(x, true, e,
                            "the tokenizer has ids 0 to %d, but the embedding has %" PRId64
                            " rows: texts with ids from %" PRId64 " on cannot be read",
                            f->size - 1, rows, rows);
    if (f->size < rows &&
        !inspect_note(x, false, e,
                      "%" PRId64 " embedding row%s no token (%d ids, %" PRId64 " rows)",
                      rows - f->size, rows - f->size == 1 ? " has" : "s have", f->size, rows))
        return false;
    if (x->bos >= 0 && f->bos >= 0 && x->bos != f->bos &&
        !inspect_note(x, false, e, "BOS is %" PRId64 " in the config and %d in the tokenizer",
                      x->bos, f->bos))
        return false;
    return x->eos < 0 || f->eos < 0 || x->eos == f->eos ||
           inspect_note(x, false, e, "EOS is %" PRId64 " in the config and %d in the tokenizer",
                        x->eos, f->eos);
}

bool inspect_tokenizer(inspection *x, const char *path, bool always, err *e) {
    tokenizer_facts *f = &x->tokenizer;
    char *folder = file_is_folder(path) ? mem_strdup(path, e) : file_folder(path, e);
    char *file = NULL;
    bool ok = folder && tokenizer_find(folder, &file, e);
    free(folder);
    if (!ok || !file)
        return ok;
    f->path = file;
    err why = {0};
    int fd = file_open(file, &f->bytes, &why);
    if (fd < 0)
        return inspect_note(x, true, e, "tokenizer: %s", why.text);
    close(fd);
    if (f->bytes <= TOKENIZER_SMALL || always)
        return load(x, e) && check_vocabulary(x, e);
    peek_kind(file, f, &why);
    return true;
}

// Memory -------------------------------------------------------------------------------------

// The branch of a layer that a tensor belongs to: its name up to the part behind the first number
// ("model.layers.3.attn"), 0 when there is none.
static size_t branch_length(const char *name) {
    for (const char *s = name; *s;) {
        size_t n = strcspn(s, "."), digits = strspn(s, "0123456789");
        if (n == digits && n > 0 && s[n] == '.')
            return (size_t)(s - name) + n + 1 + strcspn(s + n + 1, ".");
        s += n + (s[n] == '.');
    }
    return 0;
}

// Every matrix of a branch writes one number a row and token, every convolution once more.
static int64_t widest_branch(const ckpt *c) {
    int64_t widest = 0, sum = 0;
    const char *before = "";
    size_t before_length = 0;
    for (int64_t i = 0; i < ckpt_count(c); i++) {
        const tensor *t = ckpt_at(c, i);
        size_t n = branch_length(t->name);
        if (n == 0 || t->rank < 2)
            continue;
        if (n != before_length || strncmp(before, t->name, n) != 0)
            sum = 0;
        before = t->name;
        before_length = n;
        sum += t->dims[0];
        widest = sum > widest ? sum : widest;
    }
    return widest;
}

bool inspect_need(const inspection *x, precision p, int64_t length, int64_t block, memory_need *n) {
    const model *m = x->m;
    if (!m)
        return false;
    int64_t esize = p == PRECISION_F64 ? 8 : p == PRECISION_BF16 ? 2 : 4;
    int64_t state_size = esize < 4 ? 4 : esize, largest = 0, unread = 0, heads = 0, out = 0;
    *n = (memory_need){.length = length, .block = block < length ? block : length};
    for (size_t i = 0; i < x->leftover.n; i++)
        unread += x->leftover.v[i].count;
    for (int64_t i = 0; i < ckpt_count(x->c); i++)
        largest = ckpt_at(x->c, i)->count > largest ? ckpt_at(x->c, i)->count : largest;
    for (size_t i = 0; i < x->n_kinds; i++) {
        const layer_kind *k = &x->kind[i];
        const head_shape *s = &k->body->heads;
        n->carries += k->n * (k->state_bytes / 4 * state_size +
                              (k->carry_count + k->growing * length) * esize);
        if (k->body->linear) {
            heads += (int64_t)k->n * s->H;
            out = (int64_t)s->H * s->V > out ? (int64_t)s->H * s->V : out;
        } else {
            // keys and values of the past are joined with those of the block
            int64_t past = k->carry_count + k->growing * length;
            n->activations = past * esize > n->activations ? past * esize : n->activations;
        }
    }
    n->weights = (x->parameters - unread) * esize;
    // x, its normed copy, the branch's output and the block's final norm: 4 D
    n->activations += n->block * (widest_branch(x->c) + out + 4 * m->info.D) * esize;
    n->losses = 8 * length;
    n->erank = 8 * heads * length;
    n->loading = 8 * largest;
    n->total = n->weights + n->carries + n->activations + n->losses;
    return true;
}
