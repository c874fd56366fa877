// From tokenizer.json to steps: normalizer, pre-tokenizer, decoder, post-processor. Every type and
// every key must be known: an ignored setting would give other ids in silence.
#include "core/mem.h"
#include "core/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// GPT-2's pattern, which ByteLevel uses by itself when use_regex is set.
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static bool type_of(const json_t *j, const char *where, const char **type, err *e) {
    size_t n = 0;
    if (!json_is_object(j))
        return err_set(e, ERR_INPUT, "%s: not an object", where);
    return tok_json_text(j, "type", type, &n, where, e);
}

static bool unknown_type(const char *where, const char *type, err *e) {
    return err_set(e, ERR_UNSUPPORTED, "%s.type: \"%s\" is not supported", where,
                   tok_show(type, strlen(type)));
}

static bool keys(const json_t *j, const char *where, const char *a, const char *b, const char *c,
                 const char *d, err *e) {
    const char *known[] = {"type", a, b, c, d, NULL};
    return tok_json_keys(j, known, where, e);
}

static bool own_text(char **p, size_t *n, const char *s, size_t len, err *e) {
    *p = mem_alloc(len + 1, 1, "a setting", e);
    if (!*p)
        return false;
    memcpy(*p, s, len);
    (*p)[len] = 0;
    *n = len;
    return true;
}

// {"String": s} or {"Regex": s}
static bool load_pattern(const json_t *o, tok_pattern *p, const char *where, err *e) {
    const json_t *v = json_object_get(o, "pattern");
    const json_t *text = json_object_get(v, "String"), *regex = json_object_get(v, "Regex");
    if (json_object_size(v) == 1 && json_is_string(text) && json_string_length(text))
        return tok_pattern_literal(p, json_string_value(text), json_string_length(text), e);
    if (json_object_size(v) == 1 && json_is_string(regex))
        return tok_pattern_regex(p, json_string_value(regex), json_string_length(regex), e) ||
               err_prefix(e, "%s.pattern", where);
    return err_set(e, ERR_INPUT, "%s.pattern: neither {\"String\": ...} nor {\"Regex\": ...}",
                   where);
}

// A "Sequence" calls `load` for each entry of `key`; depth is bounded by the JSON reader.
typedef bool (*load_fn)(tokenizer *t, const json_t *j, const char *where, err *e);
static bool load_sequence(tokenizer *t, const json_t *j, const char *key, load_fn load,
                          const char *where, err *e) {
    const json_t *list = json_object_get(j, key);
    if (!keys(j, where, key, NULL, NULL, NULL, e))
        return false;
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s.%s: missing or not a list", where, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char inner[256];
        snprintf(inner, sizeof inner, "%s.%s[%zu]", where, key, i);
        if (!load(t, json_array_get(list, i), inner, e))
            return false;
    }
    return true;
}

static tok_norm *new_norm(tokenizer *t, tok_norm_kind kind, err *e) {
    if (!mem_grow((void **)&t->norm, &t->cap_norm, t->n_norm + 1, sizeof *t->norm, "a normalizer",
                  e))
        return NULL;
    t->norm[t->n_norm] = (tok_norm){.kind = kind};
    return &t->norm[t->n_norm++];
}

static bool load_form(tokenizer *t, bool compose, bool compat, err *e) {
    tok_norm *f = new_norm(t, NORM_FORM, e);
    if (!f)
        return false;
    f->compose = compose;
    f->compat = compat;
    return true;
}

static bool load_inserted(tokenizer *t, const json_t *j, tok_norm_kind kind, const char *where,
                          err *e) {
    const char *s = NULL, *key = kind == NORM_PREPEND ? "prepend" : "content";
    size_t n = 0;
    tok_norm *f = new_norm(t, kind, e);
    return f && tok_json_text(j, key, &s, &n, where, e) && own_text(&f->text, &f->n, s, n, e) &&
           (kind == NORM_PREPEND ? keys(j, where, key, NULL, NULL, NULL, e)
                                 : keys(j, where, key, "pattern", NULL, NULL, e) &&
                                       load_pattern(j, &f->pattern, where, e));
}

bool tok_load_normalizer(tokenizer *t, const json_t *j, const char *where, err *e) {
    const char *type = NULL;
    if (!j || json_is_null(j))
        return true;
    if (!type_of(j, where, &type, e))
        return false;
    if (!strcmp(type, "Sequence"))
        return load_sequence(t, j, "normalizers", tok_load_normalizer, where, e);
    if (!strcmp(type, "NFC") || !strcmp(type, "NFD") || !strcmp(type, "NFKC") ||
        !strcmp(type, "NFKD"))
        return keys(j, where, NULL, NULL, NULL, NULL, e) &&
               load_form(t, type[strlen(type) - 1] == 'C', type[2] == 'K', e);
    if (!strcmp(type, "Prepend"))
        return load_inserted(t, j, NORM_PREPEND, where, e);
    if (!strcmp(type, "Replace"))
        return load_inserted(t, j, NORM_REPLACE, where, e);
    return unknown_type(where, type, e);
}

static tok_pre *new_pre(tokenizer *t, tok_pre_kind kind, err *e) {
    if (!mem_grow((void **)&t->pre, &t->cap_pre, t->n_pre + 1, sizeof *t->pre, "a pre-tokenizer",
                  e))
        return NULL;
    t->pre[t->n_pre] = (tok_pre){.kind = kind};
    return &t->pre[t->n_pre++];
}

static bool load_behavior(const json_t *j, tok_cut *cut, const char *where, err *e) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *s = NULL;
    size_t n = 0;
    if (!tok_json_text(j, "behavior", &s, &n, where, e))
        return false;
    for (int k = 0; k < 5; k++)
        if (!strcmp(names[k], s)) {
            *cut = (tok_cut)k;
            return true;
        }
    return err_set(e, ERR_UNSUPPORTED, "%s.behavior: \"%s\" is not supported", where,
                   tok_show(s, n));
}

static bool add_split(tokenizer *t, const char *regex, tok_cut cut, bool invert, err *e) {
    tok_pre *p = new_pre(t, PRE_SPLIT, e);
    if (!p)
        return false;
    p->cut = cut;
    p->invert = invert;
    return tok_pattern_regex(&p->pattern, regex, strlen(regex), e);
}

static bool load_split(tokenizer *t, const json_t *j, const char *where, err *e) {
    tok_pre *p = new_pre(t, PRE_SPLIT, e);
    return p && keys(j, where, "pattern", "behavior", "invert", NULL, e) &&
           load_behavior(j, &p->cut, where, e) &&
           tok_json_bool(j, "invert", &p->invert, where, e) &&
           load_pattern(j, &p->pattern, where, e);
}

static bool load_byte_level(tokenizer *t, const json_t *j, const char *where, err *e) {
    bool front = true, regex = true, trim = true; // trim_offsets moves offsets, not ids
    return keys(j, where, "add_prefix_space", "trim_offsets", "use_regex", NULL, e) &&
           tok_json_bool(j, "add_prefix_space", &front, where, e) &&
           tok_json_bool(j, "trim_offsets", &trim, where, e) &&
           tok_json_bool(j, "use_regex", &regex, where, e) &&
           (!front || new_pre(t, PRE_SPACE_FRONT, e)) &&
           (!regex || add_split(t, gpt2_pattern, SPLIT_ISOLATED, false, e)) &&
           new_pre(t, PRE_BYTES, e);
}

// The pre-tokenizer and the decoder of this name have the same settings.
static bool metaspace_settings(const json_t *j, const char **mark, size_t *n, tok_prepend *prepend,
                               bool *split, const char *where, err *e) {
    static const char *const names[] = {"always", "first", "never"};
    static const char *const known[] = {
        "type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep", NULL};
    bool front = true;
    int len = 0, bad = 0;
    if (!tok_json_keys(j, known, where, e) || !tok_json_text(j, "replacement", mark, n, where, e) ||
        !tok_json_bool(j, "add_prefix_space", &front, where, e) ||
        !tok_json_bool(j, "split", split, where, e))
        return false;
    len = *n ? tok_char_check(*mark, *n, &bad) : 0;
    if (len == 0 || (size_t)len != *n)
        return err_set(e, ERR_INPUT, "%s.replacement: not one character", where);
    *prepend = front ? PREPEND_ALWAYS : PREPEND_NEVER;
    const json_t *scheme = json_object_get(j, "prepend_scheme");
    if (!scheme || json_is_null(scheme))
        return true;
    for (int k = 0; k < 3; k++)
        if (json_is_string(scheme) && !strcmp(json_string_value(scheme), names[k])) {
            *prepend = (tok_prepend)k;
            return front || k == PREPEND_NEVER ||
                   err_set(e, ERR_INPUT, "%s: add_prefix_space and prepend_scheme disagree", where);
        }
    return err_set(e, ERR_INPUT, "%s.prepend_scheme: not \"always\", \"first\" or \"never\"",
                   where);
}

static bool load_metaspace(tokenizer *t, const json_t *j, const char *where, err *e) {
    const char *mark = NULL;
    size_t n = 0;
    bool split = true;
    tok_prepend prepend = PREPEND_ALWAYS;
    if (!metaspace_settings(j, &mark, &n, &prepend, &split, where, e))
        return false;
    tok_pre *p = new_pre(t, PRE_METASPACE, e);
    if (!p)
        return false;
    p->prepend = prepend;
    p->mark_n = n;
    memcpy(p->mark, mark, n);
    if (!split)
        return true;
    p = new_pre(t, PRE_SPLIT, e);
    if (p)
        p->cut = SPLIT_NEXT;
    return p && tok_pattern_literal(&p->pattern, mark, n, e);
}

static bool load_digits(tokenizer *t, const json_t *j, const char *where, err *e) {
    bool single = false;
    return keys(j, where, "individual_digits", NULL, NULL, NULL, e) &&
           tok_json_bool(j, "individual_digits", &single, where, e) &&
           add_split(t, "\\p{N}", single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, e);
}

static bool load_punctuation(tokenizer *t, const json_t *j, const char *where, err *e) {
    tok_cut cut = SPLIT_ISOLATED;
    return keys(j, where, "behavior", NULL, NULL, NULL, e) &&
           (!json_object_get(j, "behavior") || load_behavior(j, &cut, where, e)) &&
           add_split(t, "[!-/:-@\\[-`{-~\\p{P}]", cut, false, e);
}

bool tok_load_pre(tokenizer *t, const json_t *j, const char *where, err *e) {
    const char *type = NULL;
    if (!j || json_is_null(j))
        return true;
    if (!type_of(j, where, &type, e))
        return false;
    if (!strcmp(type, "Sequence"))
        return load_sequence(t, j, "pretokenizers", tok_load_pre, where, e);
    if (!strcmp(type, "Split"))
        return load_split(t, j, where, e);
    if (!strcmp(type, "ByteLevel"))
        return load_byte_level(t, j, where, e);
    if (!strcmp(type, "Metaspace"))
        return load_metaspace(t, j, where, e);
    if (!strcmp(type, "Digits"))
        return load_digits(t, j, where, e);
    if (!strcmp(type, "Punctuation"))
        return load_punctuation(t, j, where, e);
    if (!strcmp(type, "WhitespaceSplit"))
        return keys(j, where, NULL, NULL, NULL, NULL, e) &&
               add_split(t, "\\s", SPLIT_REMOVED, false, e);
    if (!strcmp(type, "Whitespace"))
        return keys(j, where, NULL, NULL, NULL, NULL, e) &&
               add_split(t, "\\w+|[^\\w\\s]+", SPLIT_REMOVED, true, e);
    return unknown_type(where, type, e);
}

static tok_dec *new_dec(tokenizer *t, tok_dec_kind kind, err *e) {
    if (!mem_grow((void **)&t->dec, &t->cap_dec, t->n_dec + 1, sizeof *t->dec, "a decoder", e))
        return NULL;
    t->dec[t->n_dec] = (tok_dec){.kind = kind};
    return &t->dec[t->n_dec++];
}

static bool load_count(const json_t *j, const char *key, size_t *out, const char *where, err *e) {
    const json_t *v = json_object_get(j, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return err_set(e, ERR_INPUT, "%s.%s: not a count", where, key);
    *out = (size_t)json_integer_value(v);
    return true;
}

static bool load_decoder_text(tokenizer *t, const json_t *j, tok_dec_kind kind, const char *where,
                              err *e) {
    const char *s = NULL;
    size_t n = 0;
    int bad = 0;
    tok_dec *d = new_dec(t, kind, e);
    if (!d || !tok_json_text(j, "content", &s, &n, where, e) || !own_text(&d->text, &d->n, s, n, e))
        return false;
    if (kind == DEC_REPLACE)
        return keys(j, where, "content", "pattern", NULL, NULL, e) &&
               load_pattern(j, &d->pattern, where, e);
    if (n == 0 || (size_t)tok_char_check(s, n, &bad) != n)
        return err_set(e, ERR_INPUT, "%s.content: not one character", where);
    return keys(j, where, "content", "start", "stop", NULL, e) &&
           load_count(j, "start", &d->start, where, e) && load_count(j, "stop", &d->stop, where, e);
}

static bool load_decoder_metaspace(tokenizer *t, const json_t *j, const char *where, err *e) {
    const char *mark = NULL;
    size_t n = 0;
    bool split = true;
    tok_dec *d = new_dec(t, DEC_METASPACE, e);
    return d && metaspace_settings(j, &mark, &n, &d->prepend, &split, where, e) &&
           own_text(&d->text, &d->n, mark, n, e);
}

bool tok_load_decoder(tokenizer *t, const json_t *j, const char *where, err *e) {
    const char *type = NULL;
    if (!j || json_is_null(j)) {
        t->no_decoder = true;
        return true;
    }
    if (!type_of(j, where, &type, e))
        return false;
    if (!strcmp(type, "Sequence"))
        return load_sequence(t, j, "decoders", tok_load_decoder, where, e);
    if (!strcmp(type, "Replace"))
        return load_decoder_text(t, j, DEC_REPLACE, where, e);
    if (!strcmp(type, "Strip"))
        return load_decoder_text(t, j, DEC_STRIP, where, e);
    if (!strcmp(type, "Metaspace"))
        return load_decoder_metaspace(t, j, where, e);
    if (!strcmp(type, "ByteLevel")) // its settings are the pre-tokenizer's and change nothing here
        return keys(j, where, "add_prefix_space", "trim_offsets", "use_regex", NULL, e) &&
               new_dec(t, DEC_BYTES, e);
    if (!strcmp(type, "ByteFallback"))
        return keys(j, where, NULL, NULL, NULL, NULL, e) && new_dec(t, DEC_FALLBACK, e);
    if (!strcmp(type, "Fuse"))
        return keys(j, where, NULL, NULL, NULL, NULL, e) && new_dec(t, DEC_FUSE, e);
    return unknown_type(where, type, e);
}

static bool load_template_ids(tokenizer *t, const json_t *table, const char *name, ids *out,
                              const char *where, err *e) {
    const json_t *list = json_object_get(json_object_get(table, name), "ids");
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s.special_tokens: no ids for \"%s\"", where,
                       tok_show(name, strlen(name)));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= (json_int_t)t->size)
            return err_set(e, ERR_INPUT, "%s.special_tokens[\"%s\"].ids[%zu]: no token has this id",
                           where, tok_show(name, strlen(name)), i);
        if (!ids_add(out, &(int32_t){(int32_t)id}, 1, e))
            return false;
    }
    return true;
}

// What stands before the sequence A goes in front of the text, what stands behind it to its end.
static bool load_template(tokenizer *t, const json_t *j, const char *where, err *e) {
    const json_t *single = json_object_get(j, "single");
    int sequences = 0;
    if (!keys(j, where, "single", "pair", "special_tokens", NULL, e))
        return false;
    if (!json_is_array(single))
        return err_set(e, ERR_INPUT, "%s.single: missing or not a list", where);
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *v = json_array_get(single, i);
        const json_t *token = json_object_get(v, "SpecialToken");
        const json_t *text = json_object_get(v, "Sequence");
        const json_t *id = json_object_get(token ? token : text, "id");
        if (!json_is_string(id) || (text && strcmp(json_string_value(id), "A") != 0))
            return err_set(e, ERR_INPUT,
                           "%s.single[%zu]: neither a SpecialToken nor the Sequence A", where, i);
        sequences += text != NULL;
        if (token &&
            !load_template_ids(t, json_object_get(j, "special_tokens"), json_string_value(id),
                               sequences ? &t->back : &t->front, where, e))
            return false;
    }
    return sequences == 1 ||
           err_set(e, ERR_UNSUPPORTED, "%s.single: the text must stand in it exactly once", where);
}

bool tok_load_post(tokenizer *t, const json_t *j, const char *where, bool *template_seen, err *e) {
    const char *type = NULL;
    if (!j || json_is_null(j))
        return true;
    if (!type_of(j, where, &type, e))
        return false;
    if (!strcmp(type, "ByteLevel")) // moves offsets, adds nothing
        return keys(j, where, "add_prefix_space", "trim_offsets", "use_regex", NULL, e);
    if (!strcmp(type, "TemplateProcessing")) {
        if (*template_seen)
            return err_set(e, ERR_UNSUPPORTED, "%s: a second TemplateProcessing is not supported",
                           where);
        *template_seen = true;
        return load_template(t, j, where, e);
    }
    if (strcmp(type, "Sequence") != 0)
        return unknown_type(where, type, e);
    const json_t *list = json_object_get(j, "processors");
    if (!keys(j, where, "processors", NULL, NULL, NULL, e))
        return false;
    if (!json_is_array(list))
        return err_set(e, ERR_INPUT, "%s.processors: missing or not a list", where);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char inner[256];
        snprintf(inner, sizeof inner, "%s.processors[%zu]", where, i);
        if (!tok_load_post(t, json_array_get(list, i), inner, template_seen, e))
            return false;
    }
    return true;
}
