// From tokenizer.json to tables: the model (vocabulary and merges) and the added tokens.
#include "core/mem.h"
#include "core/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tok_json_bool(const json_t *o, const char *key, bool *out, const char *where, err *e) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v))
        return true;
    if (!json_is_boolean(v))
        return err_set(e, ERR_INPUT, "%s.%s: not true or false", where, key);
    *out = json_is_true(v);
    return true;
}

bool tok_json_text(const json_t *o, const char *key, const char **s, size_t *n, const char *where,
                   err *e) {
    const json_t *v = json_object_get(o, key);
    if (!v)
        return err_set(e, ERR_INPUT, "%s.%s: missing", where, key);
    if (!json_is_string(v))
        return err_set(e, ERR_INPUT, "%s.%s: not a string", where, key);
    *s = json_string_value(v);
    *n = json_string_length(v);
    return true;
}

bool tok_json_keys(const json_t *o, const char *const *known, const char *where, err *e) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)o, key, v) {
        bool found = false;
        for (int k = 0; !found && known[k]; k++)
            found = !strcmp(known[k], key);
        if (!found)
            return err_set(e, ERR_UNSUPPORTED, "%s.%s: unknown setting", where,
                           tok_show(key, strlen(key)));
    }
    return true;
}

static bool refuse_text(const json_t *m, const char *key, err *e) {
    const json_t *v = json_object_get(m, key);
    if (!v || json_is_null(v) || (json_is_string(v) && json_string_length(v) == 0))
        return true;
    return err_set(e, ERR_UNSUPPORTED, "model.%s: only null or \"\" is supported", key);
}

static bool load_settings(tokenizer *t, const json_t *m, err *e) {
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL};
    const json_t *type = json_object_get(m, "type"), *dropout = json_object_get(m, "dropout");
    // Old files leave the type out; only BPE has merges.
    if (type && !json_is_string(type))
        return err_set(e, ERR_INPUT, "model.type: not a string");
    if (type ? strcmp(json_string_value(type), "BPE") != 0 : !json_object_get(m, "merges"))
        return err_set(e, ERR_UNSUPPORTED, "model.type: \"%s\" is not supported (only \"BPE\" is)",
                       type ? tok_show(json_string_value(type), json_string_length(type)) : "");
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return err_set(e, ERR_UNSUPPORTED,
                       "model.dropout: random merges are not supported, set it to null");
    return tok_json_keys(m, known, "model", e) && refuse_text(m, "continuing_subword_prefix", e) &&
           refuse_text(m, "end_of_word_suffix", e) &&
           tok_json_bool(m, "fuse_unk", &t->fuse_unk, "model", e) &&
           tok_json_bool(m, "byte_fallback", &t->fallback, "model", e) &&
           tok_json_bool(m, "ignore_merges", &t->ignore_merges, "model", e);
}

static bool load_vocab(tokenizer *t, json_t *o, err *e) {
    size_t bytes = 0, count = json_object_size(o);
    json_int_t most = -1;
    if (!json_is_object(o) || count == 0)
        return err_set(e, ERR_INPUT, "model.vocab: missing or not an object with tokens");
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        const json_t *v = json_object_iter_value(it);
        const char *key = json_object_iter_key(it);
        size_t n = json_object_iter_key_len(it);
        if (!json_is_integer(v))
            return err_set(e, ERR_INPUT, "model.vocab[\"%s\"]: not an integer", tok_show(key, n));
        json_int_t id = json_integer_value(v);
        if (id < 0 || id >= TOK_ID_LIMIT)
            return err_set(e, ERR_INPUT, "model.vocab[\"%s\"]: id %lld is out of range (0..%d)",
                           tok_show(key, n), (long long)id, TOK_ID_LIMIT - 1);
        most = id > most ? id : most;
        bytes += n;
    }
    t->model_tokens = (uint32_t)count;
    if (!tok_vocab_init(&t->vocab, (uint32_t)most + 1, count, bytes, e))
        return false;
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        const char *key = json_object_iter_key(it);
        size_t n = json_object_iter_key_len(it);
        uint32_t id = (uint32_t)json_integer_value(json_object_iter_value(it)), other = 0;
        if (!tok_vocab_add(&t->vocab, id, key, n, &other))
            return err_set(e, ERR_INPUT, "model.vocab[\"%s\"]: id %u belongs to \"%s\" already",
                           tok_show(key, n), (unsigned)id,
                           tok_show(t->vocab.text + t->vocab.at[id], t->vocab.len[id]));
    }
    return true;
}

static uint32_t last_char(const char *s, size_t n) {
    int len = 0;
    size_t i = n - 1;
    while (i > 0 && ((unsigned char)s[i] & 0xC0) == 0x80)
        i--;
    return tok_char(s + i, &len);
}

typedef struct part {
    const char *s;
    size_t n;
} part;

// "a b" (exactly one space) or ["a", "b"], whose parts may hold spaces (B67).
static bool merge_parts(const json_t *v, size_t rank, part *a, part *b, err *e) {
    if (json_is_array(v) && json_array_size(v) == 2) {
        const json_t *x = json_array_get(v, 0), *y = json_array_get(v, 1);
        if (json_is_string(x) && json_is_string(y)) {
            *a = (part){json_string_value(x), json_string_length(x)};
            *b = (part){json_string_value(y), json_string_length(y)};
            if (a->n && b->n)
                return true;
        }
    } else if (json_is_string(v)) {
        const char *s = json_string_value(v);
        size_t n = json_string_length(v);
        const char *space = memchr(s, ' ', n);
        if (space && !memchr(space + 1, ' ', n - (size_t)(space + 1 - s))) {
            *a = (part){s, (size_t)(space - s)};
            *b = (part){space + 1, n - a->n - 1};
            if (a->n && b->n)
                return true;
        }
    }
    return err_set(e, ERR_INPUT, "model.merges[%zu]: neither \"a b\" nor [\"a\", \"b\"]", rank);
}

static bool find_part(const tokenizer *t, part p, size_t rank, uint32_t *id, err *e) {
    *id = tok_vocab_find(&t->vocab, p.s, p.n);
    return *id != TOK_NONE ||
           err_set(e, ERR_INPUT, "model.merges[%zu]: \"%s\" is not in model.vocab", rank,
                   tok_show(p.s, p.n));
}

static bool load_merge(tokenizer *t, const json_t *v, size_t rank, tok_buf *room, err *e) {
    part a = {0}, b = {0};
    uint32_t x = 0, y = 0, xy = 0;
    if (!merge_parts(v, rank, &a, &b, e))
        return false;
    room->n = 0;
    if (!tok_buf_add(room, a.s, a.n, e) || !tok_buf_add(room, b.s, b.n, e))
        return false;
    if (!find_part(t, a, rank, &x, e) || !find_part(t, b, rank, &y, e) ||
        !find_part(t, (part){room->p, room->n}, rank, &xy, e))
        return false;
    int len = 0;
    tok_merges_put(&t->merges, x, y, (uint32_t)rank, xy);
    return t->bytes || tok_joints_add(&t->joints, last_char(a.s, a.n), tok_char(b.s, &len), e);
}

static bool load_merges(tokenizer *t, const json_t *list, err *e) {
    size_t n = json_array_size(list);
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "model.merges: missing or not a list");
    if (n >= TOK_ID_LIMIT)
        return err_set(e, ERR_INPUT, "model.merges: %zu entries are too many", n);
    if (!tok_merges_init(&t->merges, n, e))
        return false;
    tok_buf room = {0};
    bool ok = true;
    for (size_t rank = 0; ok && rank < n; rank++) {
        const json_t *v = json_array_get(list, rank);
        // the header line of a merges.txt that was copied in
        if (json_is_string(v) && !strncmp(json_string_value(v), "#version", 8))
            continue;
        ok = load_merge(t, v, rank, &room, e);
    }
    free(room.p);
    return ok;
}

static bool load_char_ids(tokenizer *t, err *e) {
    t->char_id = mem_alloc(0x10000, sizeof *t->char_id, "the vocabulary", e);
    if (!t->char_id)
        return false;
    memset(t->char_id, 0xFF, 0x10000 * sizeof *t->char_id);
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        uint32_t n = t->vocab.len[id];
        if (n == TOK_NONE || n == 0 || n > 3)
            continue;
        int len = 0;
        uint32_t c = tok_char(t->vocab.text + t->vocab.at[id], &len);
        if ((uint32_t)len == n)
            t->char_id[c] = id;
    }
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        t->fallback_id[b] = tok_vocab_find(&t->vocab, name, 6);
        t->byte_id[b] = t->char_id[tok_byte_char((unsigned char)b)];
    }
    return true;
}

bool tok_load_model(tokenizer *t, const json_t *m, err *e) {
    if (!json_is_object(m))
        return err_set(e, ERR_INPUT, "model: missing or not an object");
    if (!load_settings(t, m, e) || !load_vocab(t, json_object_get(m, "vocab"), e) ||
        !load_merges(t, json_object_get(m, "merges"), e) || !load_char_ids(t, e))
        return false;
    t->size = t->vocab.size;
    t->unk = TOK_NONE;
    const json_t *unk = json_object_get(m, "unk_token");
    if (!unk || json_is_null(unk))
        return true;
    if (!json_is_string(unk))
        return err_set(e, ERR_INPUT, "model.unk_token: not a string");
    t->unk = tok_vocab_find(&t->vocab, json_string_value(unk), json_string_length(unk));
    return t->unk != TOK_NONE ||
           err_set(e, ERR_INPUT, "model.unk_token: \"%s\" is not in model.vocab",
                   tok_show(json_string_value(unk), json_string_length(unk)));
}

// The library numbers added tokens itself: the model's id when the text is a token of the model,
// else the next free one. A file that says something else has no ids that two programs agree on.
static bool check_added_id(const tokenizer *t, const char *s, size_t n, json_int_t id,
                           const char *where, err *e) {
    uint32_t expected = tok_vocab_find(&t->vocab, s, n);
    if (expected == TOK_NONE) {
        expected = t->model_tokens; // their count: a vocabulary may have gaps
        for (size_t k = 0; k < t->n_added; k++)
            if ((uint32_t)t->added[k].id >= expected)
                expected = (uint32_t)t->added[k].id + 1;
    }
    if (id == (json_int_t)expected)
        return true;
    return err_set(e, ERR_INPUT, "%s.id: \"%s\" has id %lld, but by its place it would be %u",
                   where, tok_show(s, n), (long long)id, (unsigned)expected);
}

static bool load_one_added(tokenizer *t, const json_t *o, const char *where, err *e) {
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL};
    const char *s = NULL;
    size_t n = 0;
    if (!json_is_object(o))
        return err_set(e, ERR_INPUT, "%s: not an object", where);
    if (!tok_json_keys(o, known, where, e) || !tok_json_text(o, "content", &s, &n, where, e))
        return false;
    const json_t *number = json_object_get(o, "id");
    if (!json_is_integer(number))
        return err_set(e, ERR_INPUT, "%s.id: missing or not an integer", where);
    json_int_t id = json_integer_value(number);
    if (id < 0 || id >= TOK_ID_LIMIT)
        return err_set(e, ERR_INPUT, "%s.id: %lld is out of range (0..%d)", where, (long long)id,
                       TOK_ID_LIMIT - 1);
    if (n == 0)
        return err_set(e, ERR_INPUT, "%s.content: empty", where);
    for (size_t k = 0; k < t->n_added; k++)
        if (t->added[k].id == id || (t->added[k].n == n && !memcmp(t->added[k].text, s, n)))
            return err_set(e, ERR_INPUT, "%s: \"%s\" (id %lld) is listed twice", where,
                           tok_show(s, n), (long long)id);
    if (!check_added_id(t, s, n, id, where, e))
        return false;
    if (!mem_grow((void **)&t->added, &t->cap_added, t->n_added + 1, sizeof *t->added,
                  "added tokens", e))
        return false;
    tok_added *a = &t->added[t->n_added];
    *a = (tok_added){.id = (int32_t)id, .n = n, .normalized = true};
    a->text = mem_alloc(n + 1, 1, "an added token", e);
    if (!a->text)
        return false;
    t->n_added++;
    memcpy(a->text, s, n);
    a->text[n] = 0;
    if ((uint32_t)id >= t->size)
        t->size = (uint32_t)id + 1;
    return tok_json_bool(o, "single_word", &a->single_word, where, e) &&
           tok_json_bool(o, "lstrip", &a->lstrip, where, e) &&
           tok_json_bool(o, "rstrip", &a->rstrip, where, e) &&
           tok_json_bool(o, "normalized", &a->normalized, where, e) &&
           tok_json_bool(o, "special", &a->special, where, e);
}

// What is looked for in the text: raw, or as the normalizer would leave it.
static bool load_match(tokenizer *t, size_t k, err *e) {
    tok_added *a = &t->added[k];
    tok_buf text = {0};
    tok_work w = {0};
    bool ok = a->normalized ? tok_normalize(t, &w, a->text, a->n, &text, e)
                            : tok_buf_add(&text, a->text, a->n, e);
    tok_work_free(&w);
    a->match = text.p;
    a->match_n = text.n;
    return ok && tok_trie_add(a->normalized ? &t->normalized : &t->raw, a->match, a->match_n,
                              (uint32_t)k, e);
}

bool tok_load_added(tokenizer *t, const json_t *list, err *e) {
    bool ok = true, words = false;
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(e, ERR_INPUT, "added_tokens: not a list");
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        char where[48];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        ok = load_one_added(t, json_array_get(list, i), where, e) && load_match(t, i, e);
        words = words || (ok && t->added[i].single_word);
    }
    t->added_of = ok ? mem_alloc(t->size, sizeof *t->added_of, "added tokens", e) : NULL;
    if (!t->added_of)
        return false;
    memset(t->added_of, 0xFF, t->size * sizeof *t->added_of);
    for (size_t k = 0; k < t->n_added; k++)
        t->added_of[t->added[k].id] = (uint32_t)k;
    // Rust's \w, which is not Oniguruma's: decimal digits and letter numbers alone, and the joiners
    static const char word[] =
        "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"
        "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}\\x{200C}\\x{200D}]";
    return !words || tok_pattern_regex(&t->word, word, sizeof word - 1, e);
}
