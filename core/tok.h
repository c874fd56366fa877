// core/tok.h - what the parts of the tokenizer share; nobody outside core/tokenizer*.c includes it.
//
// The way of a text: lossy UTF-8 -> cut at raw added tokens -> normalizer -> cut at normalized
// added tokens -> pre-tokenizer steps (spans of a buffer) -> BPE per span -> post-processor.
// Everything that depends on the file lives in `tokenizer` and is constant after opening;
// everything that depends on one call lives in `tok_work`.
#ifndef DELTOP_TOK_H
#define DELTOP_TOK_H

#include "core/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

// Ids above this are refused: tables are indexed by id, and no vocabulary comes near.
#define TOK_ID_LIMIT (1 << 24)
#define TOK_NONE     UINT32_MAX

// ---- buffers and UTF-8 (tokenizer_utf8.c) ----
typedef struct tok_buf {
    char *p; // owned
    size_t n, cap;
} tok_buf;
bool tok_buf_add(tok_buf *b, const char *s, size_t n, err *e);

// A stretch of a buffer. `front`: it starts where the original text starts.
typedef struct tok_span {
    size_t at, n;
    bool front;
} tok_span;
typedef struct tok_spans {
    tok_span *v; // owned
    size_t n, cap;
} tok_spans;
bool tok_spans_add(tok_spans *s, size_t at, size_t n, bool front, err *e);
bool ids_add(ids *x, const int32_t *v, size_t n, err *e);

// Length of the well-formed character at s (1..4), or 0 and *bad = bytes of the maximal bad part
// (Unicode 3.9, "maximal subpart"). n > 0.
int tok_char_check(const char *s, size_t n, int *bad);
bool tok_utf8_valid(const char *s, size_t n);
// Appends s with one U+FFFD for each maximal bad part.
bool tok_utf8_lossy(tok_buf *b, const char *s, size_t n, err *e);
// Code point of the character at s, which must be well-formed; *len its bytes.
uint32_t tok_char(const char *s, int *len);
int tok_char_put(uint32_t c, char out[4]);
// The byte-level alphabet: a printable character for each byte.
uint32_t tok_byte_char(unsigned char byte);
int tok_char_byte(uint32_t c); // -1: not of the alphabet
bool tok_blank(uint32_t c);    // White_Space
// Printable copy of s in one of a few per-thread buffers, for messages.
const char *tok_show(const char *s, size_t n);

// ---- tables (tokenizer_tables.c) ----
// String -> id; strings are those of `tok_vocab.text`.
typedef struct tok_vocab {
    char *text;        // owned, all token texts one after the other
    size_t *at;        // [size] where in text
    uint32_t *len;     // [size] bytes, TOK_NONE: no such id
    uint32_t size;     // largest id + 1
    uint32_t *slot;    // [mask + 1] id + 1, 0 empty
    size_t mask, used; // bytes of text in use
    size_t longest;    // bytes
} tok_vocab;
bool tok_vocab_init(tok_vocab *v, uint32_t size, size_t entries, size_t bytes, err *e);
// False without a message: the id or the text is there already (*other: the id that has the text).
bool tok_vocab_add(tok_vocab *v, uint32_t id, const char *s, size_t n, uint32_t *other);
uint32_t tok_vocab_find(const tok_vocab *v, const char *s, size_t n);
void tok_vocab_free(tok_vocab *v);
uint64_t tok_hash(const char *s, size_t n);

// (a, b) -> rank and the id of the merged token.
typedef struct tok_merge {
    uint32_t a, b, rank, id; // a = TOK_NONE: empty
} tok_merge;
typedef struct tok_merges {
    tok_merge *slot; // owned
    size_t mask;
} tok_merges;
bool tok_merges_init(tok_merges *m, size_t entries, err *e);
void tok_merges_put(tok_merges *m, uint32_t a, uint32_t b, uint32_t rank, uint32_t id);
const tok_merge *tok_merges_find(const tok_merges *m, uint32_t a, uint32_t b); // NULL: none

// Set of pairs of characters (x, y) such that some merge joins a text ending in x with one that
// begins with y. Between two characters whose pair is not in the set no merge ever reaches across.
typedef struct tok_joints {
    uint64_t *slot; // owned, key + 1, 0 empty
    size_t mask, n;
    uint8_t ascii[128][16]; // bit y of row x
} tok_joints;
bool tok_joints_add(tok_joints *j, uint32_t x, uint32_t y, err *e);
bool tok_joints_has(const tok_joints *j, uint32_t x, uint32_t y);

// ---- patterns (tokenizer_regex.c) ----
typedef struct tok_pattern {
    char *literal; // owned; NULL: a regular expression
    size_t literal_n;
    pcre2_code *code;
    pcre2_code *plain; // the same without what newer Unicode versions added: quicker, for text
                       // below U+0800; NULL: no such difference
    bool jit;
} tok_pattern;
typedef struct tok_finder { // what matching needs per call; made on first use
    pcre2_general_context *general;
    pcre2_match_context *context;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
} tok_finder;
typedef struct tok_find { // one scan
    size_t next, last_end;
    bool begun, plain, matched, done;
} tok_find;
bool tok_pattern_regex(tok_pattern *p, const char *regex, size_t n, err *e);
bool tok_pattern_literal(tok_pattern *p, const char *s, size_t n, err *e);
void tok_pattern_free(tok_pattern *p);
// Next match in s, in the order and with the rule for empty matches of the library. *found false
// at the end.
bool tok_pattern_next(const tok_pattern *p, tok_finder *f, tok_find *it, const char *s, size_t n,
                      size_t *start, size_t *end, bool *found, err *e);
void tok_finder_free(tok_finder *f);
// Ranges that newer Unicode versions added to a category or script ("" for most), to be put in a
// class (tokenizer_unicode.c).
const char *tok_unicode_added(const char *category);
// PCRE2 spelling of a pattern as the library reads it (Oniguruma, Ruby syntax), with or without the
// characters of newer Unicode versions.
bool tok_regex_translate(const char *regex, size_t n, bool newer, tok_buf *out, err *e);

// ---- the file's settings ----
typedef enum { NORM_FORM, NORM_PREPEND, NORM_REPLACE } tok_norm_kind;
typedef struct tok_norm {
    tok_norm_kind kind;
    bool compose, compat; // NORM_FORM: NFC NFD NFKC NFKD
    tok_pattern pattern;  // NORM_REPLACE
    char *text;           // owned; what is put there
    size_t n;
} tok_norm;

typedef enum {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_PREVIOUS,
    SPLIT_NEXT,
    SPLIT_CONTIGUOUS
} tok_cut;
typedef enum { PRE_SPLIT, PRE_METASPACE, PRE_SPACE_FRONT, PRE_BYTES } tok_pre_kind;
typedef enum { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } tok_prepend;
typedef struct tok_pre {
    tok_pre_kind kind;
    tok_pattern pattern; // PRE_SPLIT
    tok_cut cut;
    bool invert;
    char mark[8]; // PRE_METASPACE: the replacement character
    size_t mark_n;
    tok_prepend prepend;
} tok_pre;

typedef enum {
    DEC_BYTES,
    DEC_REPLACE,
    DEC_FALLBACK,
    DEC_FUSE,
    DEC_STRIP,
    DEC_METASPACE
} tok_dec_kind;
typedef struct tok_dec {
    tok_dec_kind kind;
    tok_pattern pattern; // DEC_REPLACE
    char *text;          // owned: DEC_REPLACE content, DEC_STRIP and DEC_METASPACE character
    size_t n;
    size_t start, stop; // DEC_STRIP
    tok_prepend prepend;
} tok_dec;

typedef struct tok_added {
    char *text;  // owned, as in the file
    char *match; // owned, what is looked for (normalized when the token says so)
    size_t n, match_n;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} tok_added;

// Byte trie over the added tokens; finds the longest that starts at a place.
typedef struct tok_trie_node {
    uint32_t child, sibling; // index, 0 none
    uint32_t token;          // index in added, TOK_NONE none
    unsigned char byte;
} tok_trie_node;
typedef struct tok_trie {
    tok_trie_node *v; // owned; first[byte] are indices into it
    size_t n, cap;
    uint32_t first[256];
} tok_trie;

typedef struct tok_work tok_work;

// A tokenizer that is no tokenizer.json: its own way from bytes to ids and back, over `vocab`.
typedef struct tok_other {
    const char *kind; // "RWKV World vocabulary"
    // s: UTF-8
    bool (*encode)(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out, err *e);
    // Every id is below t->size.
    bool (*decode)(const tokenizer *t, const int32_t *v, size_t n, tok_buf *out, err *e);
    bool (*piece)(const tokenizer *t, int32_t id, tok_buf *out, err *e);
    void (*close)(void *own); // may be NULL
} tok_other;

struct tokenizer {
    char *path;             // of the file, printable
    const tok_other *other; // NULL: a tokenizer.json
    void *own;              // of other
    tok_vocab vocab;
    tok_merges merges;
    tok_joints joints;
    uint32_t model_tokens;     // count of the vocabulary's entries
    uint32_t size;             // largest id + 1, added tokens included
    uint32_t byte_id[256];     // id of the byte's character in the byte-level alphabet
    uint32_t fallback_id[256]; // id of <0xNN>
    uint32_t *char_id;         // [65536] id of one-character tokens, TOK_NONE none
    bool bytes;                // the last pre-tokenizer step is byte-level: spans stay raw bytes
    bool fallback, fuse_unk, ignore_merges;
    uint32_t unk; // TOK_NONE none

    tok_norm *norm;
    size_t n_norm, cap_norm;
    tok_pre *pre;
    size_t n_pre, cap_pre;
    tok_dec *dec;
    size_t n_dec, cap_dec;
    bool no_decoder; // tokens joined by spaces
    tok_added *added;
    size_t n_added, cap_added;
    tok_trie raw, normalized;
    tok_pattern word;   // \w, for single_word
    uint32_t *added_of; // [size] index in added, TOK_NONE: a token of the model alone
    ids front, back;    // the post-processor
    int32_t bos, eos;
};

// ---- one call ----
typedef struct tok_word { // a span seen before, and its ids
    uint64_t hash;
    size_t key; // in tok_work.keys
    uint32_t key_n, n;
    size_t ids; // in tok_work.found
} tok_word;
struct tok_work {
    progress_fn progress; // NULL: nobody watches
    void *progress_ctx;
    size_t done, total; // bytes of the text: those that are ids now, and all
    unsigned asked;
    tok_finder finder;
    tok_word *word; // cache: [word_mask + 1], key_n 0 empty
    size_t word_mask, words;
    tok_buf keys;
    ids found;
    uint32_t *sym; // symbols of a span: [cap]; prev, next and rank for long ones
    size_t cap_sym;
    uint32_t *prev, *next, *rank;
    size_t cap_list;
    uint64_t *heap; // rank << 32 | position
    size_t n_heap, cap_heap;
    tok_buf text[2], mapped;
    tok_spans span[2];
};
void tok_work_free(tok_work *w);
// For every loop over a text: false with ERR_CANCELLED when the user wants to stop. Cheap enough for a
// loop over words, not for one over bytes.
// One call in so many asks: a call through a pointer costs as much as a short word.
enum { TOK_ASK_EVERY = 256 };
bool tok_ask(tok_work *w, err *e);
static inline bool tok_go_on(tok_work *w, err *e) {
    return ++w->asked % TOK_ASK_EVERY != 0 || tok_ask(w, e);
}

// Normalizes s (well-formed) into out, replacing its content (tokenizer_normal.c).
bool tok_normalize(const tokenizer *t, tok_work *w, const char *s, size_t n, tok_buf *out, err *e);
// Cuts s as the pre-tokenizer does; *text and *spans stay valid until the next call with w
// (tokenizer_pieces.c).
bool tok_pieces(const tokenizer *t, tok_work *w, const char *s, size_t n, bool front,
                const char **text, const tok_spans **spans, err *e);
// Appends the ids of one span (tokenizer_bpe.c).
bool tok_bpe(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out, err *e);
// Next added token in s (tokenizer_added.c). *at: where the search goes on; `floor`: where the
// token before ended, further back no blank is swallowed. *token is its index, TOK_NONE at the end;
// [*start, *stop) what it takes, swallowed blanks included.
bool tok_added_next(const tokenizer *t, tok_work *w, const tok_trie *trie, const char *s, size_t n,
                    size_t *at, size_t floor, size_t *start, size_t *stop, uint32_t *token, err *e);
// Token of the longest entry that s (n > 0) begins with, TOK_NONE when there is none.
uint32_t tok_trie_longest(const tok_trie *trie, const char *s, size_t n, size_t *len);
bool tok_trie_add(tok_trie *trie, const char *s, size_t n, uint32_t token, err *e);

// ---- reading (tokenizer_load.c, tokenizer_parts.c) ----
// Every loader names the key (`where`) in its message; the caller puts the file in front.
bool tok_load_model(tokenizer *t, const json_t *model, err *e);
bool tok_load_added(tokenizer *t, const json_t *list, err *e);
bool tok_load_normalizer(tokenizer *t, const json_t *j, const char *where, err *e);
bool tok_load_pre(tokenizer *t, const json_t *j, const char *where, err *e);
bool tok_load_decoder(tokenizer *t, const json_t *j, const char *where, err *e);
bool tok_load_post(tokenizer *t, const json_t *j, const char *where, bool *template_seen, err *e);
// The other formats (tokenizer_world.c, tokenizer_spm.c), from the bytes of the file.
bool tok_load_world(tokenizer *t, const char *text, size_t n, err *e);
bool tok_load_spm(tokenizer *t, const char *model, size_t n, err *e);
// ---- files of a folder (tokenizer_find.c) ----
typedef enum { TOK_JSON, TOK_WORLD, TOK_SPM } tok_format;
tok_format tok_format_of(const char *path); // by its name
char *tok_join(const char *folder, const char *name, err *e);
bool tok_explain_missing(const char *folder, err *e); // false, always
// Small readers: a missing or null key gives the default; a wrong kind is an error.
bool tok_json_bool(const json_t *o, const char *key, bool *out, const char *where, err *e);
bool tok_json_text(const json_t *o, const char *key, const char **s, size_t *n, const char *where,
                   err *e); // required
// All keys of o must be in the list (NULL-terminated).
bool tok_json_keys(const json_t *o, const char *const *known, const char *where, err *e);

#endif
