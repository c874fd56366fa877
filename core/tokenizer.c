// Opening, closing and asking a tokenizer; encoding and decoding lie in files of their own.
#include "core/tokenizer.h"

#include "core/mem.h"
#include "core/tok.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MOST ((size_t)1 << 30)

static const char *show_path(const char *path) {
    return tok_show(path, strlen(path));
}

static char *read_file(const char *path, size_t *n, err *e) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t cap = 0, got = 0;
    if (!f) {
        err_set(e, errno == ENOENT ? ERR_MISSING : ERR_IO, "%s: %s", show_path(path),
                err_system(errno));
        return NULL;
    }
    *n = 0;
    struct stat st;
    size_t want = fstat(fileno(f), &st) == 0 && st.st_size > 0 ? (size_t)st.st_size + 1 : 65536;
    do {
        if (*n > FILE_MOST ||
            !mem_grow((void **)&text, &cap, *n + want, 1, "a tokenizer file", e)) {
            err_set(e, ERR_INPUT, "%s: larger than a tokenizer can be", show_path(path));
            goto failed;
        }
        got = fread(text + *n, 1, cap - *n, f);
        *n += got;
        want = 65536;
    } while (got > 0);
    if (ferror(f)) {
        err_set(e, ERR_IO, "%s: reading failed: %s", show_path(path), err_system(errno));
        goto failed;
    }
    fclose(f);
    return text;
failed:
    fclose(f);
    free(text);
    return NULL;
}

static json_t *read_json(const char *path, size_t flags, err *e) {
    size_t n = 0;
    char *text = read_file(path, &n, e);
    json_error_t why;
    if (!text)
        return NULL;
    json_t *j = json_loadb(text, n, flags, &why);
    free(text);
    if (!j) {
        bool memory = json_error_code(&why) == json_error_out_of_memory;
        err_set(e, memory ? ERR_NOMEM : ERR_INPUT, "%s: not valid JSON at line %d, column %d: %s",
                show_path(path), why.line, why.column, tok_show(why.text, strlen(why.text)));
    }
    return j;
}

static bool check_limits(const json_t *root, err *e) {
    const json_t *cut = json_object_get(root, "truncation"),
                 *pad = json_object_get(root, "padding");
    if (cut && !json_is_null(cut))
        return err_set(e, ERR_UNSUPPORTED,
                       "truncation: would cut every document short, set it to null");
    const json_t *strategy = json_object_get(pad, "strategy");
    bool longest = json_is_string(strategy) && !strcmp(json_string_value(strategy), "BatchLongest");
    if (pad && !json_is_null(pad) && !longest) // one text is its own longest
        return err_set(e, ERR_UNSUPPORTED, "padding: would fill up short texts, set it to null");
    return true;
}

static bool load(tokenizer *t, const json_t *root, err *e) {
    static const char *const known[] = {
        "version",       "truncation", "padding",        "added_tokens", "normalizer",
        "pre_tokenizer", "decoder",    "post_processor", "model",        NULL};
    bool seen = false;
    if (!json_is_object(root))
        return err_set(e, ERR_INPUT, "not a JSON object");
    if (!tok_json_keys(root, known, "tokenizer", e) || !check_limits(root, e) ||
        !tok_load_normalizer(t, json_object_get(root, "normalizer"), "normalizer", e) ||
        !tok_load_pre(t, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", e) ||
        !tok_load_decoder(t, json_object_get(root, "decoder"), "decoder", e))
        return false;
    // Bytes map to the alphabet one to one: as a last step this need not be carried out.
    if (t->n_pre && t->pre[t->n_pre - 1].kind == PRE_BYTES) {
        t->bytes = true;
        t->n_pre--;
    }
    return tok_load_model(t, json_object_get(root, "model"), e) &&
           tok_load_added(t, json_object_get(root, "added_tokens"), e) &&
           tok_load_post(t, json_object_get(root, "post_processor"), "post_processor", &seen, e);
}

// "bos_token": "<s>" or {"content": "<s>", ...}. A file that is silent leaves what the vocabulary
// itself says; null takes it away.
static void named_token(const tokenizer *t, const json_t *config, const char *key, int32_t *id) {
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v))
        v = json_object_get(v, "content");
    if (json_is_string(v)) {
        int32_t found = tokenizer_id(t, json_string_value(v));
        *id = found < 0 && t->other ? *id : found;
    } else if (json_is_null(v)) {
        *id = -1;
    }
}

// Do tokenizers of this class put BOS and EOS where add_bos_token and add_eos_token say, whatever
// the file's own post-processor does?
static bool follows_switches(const char *class) {
    static const char *const classes[] = {"Llama", "CodeLlama", "Gemma"};
    for (size_t i = 0; class && i < sizeof classes / sizeof *classes; i++)
        if (!strncmp(class, classes[i], strlen(classes[i])))
            return true;
    return false;
}

// One side of a text: ID there or nothing.
static bool set_side(ids *side, bool on, int32_t id, const char *key, err *e) {
    if (on && id < 0)
        return err_set(e, ERR_INPUT, "%s is true, but the vocabulary has no such token", key);
    side->n = 0;
    return !on || ids_add(side, &id, 1, e);
}

static bool apply_switches(tokenizer *t, const json_t *config, err *e) {
    const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
    const json_t *bos = json_object_get(config, "add_bos_token"),
                 *eos = json_object_get(config, "add_eos_token");
    bool follows = follows_switches(class), spm = t->other && t->own;
    if (!follows && !spm)
        return true;
    if (json_is_boolean(bos) && !set_side(&t->front, json_is_true(bos), t->bos, "add_bos_token", e))
        return false;
    // A bare tokenizer.model has no post-processor; tokenizers of these classes add a BOS unless
    // they are told not to.
    if (!bos && spm && follows && !set_side(&t->front, t->bos >= 0, t->bos, "bos_token", e))
        return false;
    return !json_is_boolean(eos) ||
           set_side(&t->back, json_is_true(eos), t->eos, "add_eos_token", e);
}

static bool load_names(tokenizer *t, const char *file, err *e) {
    const char *slash = strrchr(file, '/');
    char *folder = slash ? strndup(file, (size_t)(slash - file + 1)) : mem_strdup(".", e);
    char *path = folder ? tok_join(folder, "tokenizer_config.json", e) : NULL;
    bool ok = path != NULL;
    struct stat st;
    free(folder);
    if (ok && stat(path, &st) == 0) {
        // model_max_length is often 10^30
        json_t *config = read_json(path, JSON_DECODE_INT_AS_REAL, e);
        ok = config != NULL;
        if (ok) {
            named_token(t, config, "bos_token", &t->bos);
            named_token(t, config, "eos_token", &t->eos);
            ok = apply_switches(t, config, e) || err_prefix(e, "%s", show_path(path));
        }
        json_decref(config);
    } else if (!ok) {
        err_set(e, ERR_NOMEM, "out of memory: a path");
    }
    free(path);
    return ok;
}

// The formats that are no tokenizer.json.
static bool load_other(tokenizer *t, const char *file, tok_format format, err *e) {
    size_t n = 0;
    char *text = read_file(file, &n, e);
    bool ok = text && ((format == TOK_WORLD ? tok_load_world : tok_load_spm)(t, text, n, e) ||
                       err_prefix(e, "%s", t->path));
    free(text);
    return ok;
}

tokenizer *tokenizer_open(const char *path, err *e) {
    struct stat st;
    char *file = NULL;
    json_t *root = NULL;
    tokenizer *t = mem_zalloc(1, sizeof *t, "a tokenizer", e);
    bool ok = false;
    if (!t)
        return NULL;
    t->bos = t->eos = -1;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (folder && !tokenizer_find(path, &file, e))
        goto done;
    if (folder && !file) {
        tok_explain_missing(path, e);
        goto done;
    }
    file = folder ? file : mem_strdup(path, e);
    if (!file)
        goto done;
    t->path = mem_strdup(show_path(file), e);
    if (!t->path)
        goto done;
    tok_format format = tok_format_of(file);
    if (format != TOK_JSON) {
        ok = load_other(t, file, format, e) && load_names(t, file, e);
        goto done;
    }
    root = read_json(file, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, e);
    if (!root)
        goto done;
    if (!load(t, root, e)) {
        err_prefix(e, "%s", t->path);
        goto done;
    }
    ok = load_names(t, file, e);
done:
    json_decref(root);
    free(file);
    if (!ok) {
        tokenizer_close(t);
        return NULL;
    }
    return t;
}

void tokenizer_close(tokenizer *t) {
    if (!t)
        return;
    if (t->other && t->other->close)
        t->other->close(t->own);
    free(t->path);
    tok_vocab_free(&t->vocab);
    free(t->merges.slot);
    free(t->joints.slot);
    free(t->char_id);
    for (size_t i = 0; i < t->n_norm; i++) {
        tok_pattern_free(&t->norm[i].pattern);
        free(t->norm[i].text);
    }
    free(t->norm);
    // a last byte-level step is not counted, and owns nothing
    for (size_t i = 0; i < t->n_pre; i++)
        tok_pattern_free(&t->pre[i].pattern);
    free(t->pre);
    for (size_t i = 0; i < t->n_dec; i++) {
        tok_pattern_free(&t->dec[i].pattern);
        free(t->dec[i].text);
    }
    free(t->dec);
    for (size_t i = 0; i < t->n_added; i++) {
        free(t->added[i].text);
        free(t->added[i].match);
    }
    free(t->added);
    free(t->raw.v);
    free(t->normalized.v);
    tok_pattern_free(&t->word);
    free(t->added_of);
    ids_free(&t->front);
    ids_free(&t->back);
    free(t);
}

int32_t tokenizer_size(const tokenizer *t) {
    return (int32_t)t->size;
}

const char *tokenizer_kind(const tokenizer *t) {
    return t->other ? t->other->kind : "tokenizer.json";
}

int32_t tokenizer_bos(const tokenizer *t) {
    return t->bos;
}

int32_t tokenizer_eos(const tokenizer *t) {
    return t->eos;
}

int32_t tokenizer_id(const tokenizer *t, const char *token) {
    size_t n = strlen(token);
    for (size_t k = 0; k < t->n_added; k++)
        if (t->added[k].n == n && !memcmp(t->added[k].text, token, n))
            return t->added[k].id;
    uint32_t id = tok_vocab_find(&t->vocab, token, n);
    return id == TOK_NONE ? -1 : (int32_t)id;
}

static size_t describe(const tokenizer *t, const ids *x, const char *where, char *buf, size_t size,
                       size_t used) {
    for (size_t i = 0; i < x->n; i++) {
        size_t n = 0;
        char *s = tokenizer_piece(t, x->v[i], &n, NULL);
        int k = snprintf(used < size ? buf + used : NULL, used < size ? size - used : 0,
                         "%s%s (%ld)", used ? ", " : "", s ? tok_show(s, n) : "?", (long)x->v[i]);
        used += k > 0 ? (size_t)k : 0;
        free(s);
    }
    if (x->n) {
        int k =
            snprintf(used < size ? buf + used : NULL, used < size ? size - used : 0, " %s", where);
        used += k > 0 ? (size_t)k : 0;
    }
    return used;
}

bool tokenizer_adds_special(const tokenizer *t, char *buf, size_t size) {
    if (size)
        buf[0] = 0;
    size_t used = describe(t, &t->front, "in front", buf, size, 0);
    describe(t, &t->back, "at the end", buf, size, used);
    return t->front.n + t->back.n > 0;
}
