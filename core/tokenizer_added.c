// Added tokens: found in the text before anything else happens to it, the leftmost first and of
// those that start together the longest.
#include "core/mem.h"
#include "core/tok.h"

static uint32_t node_new(tok_trie *trie, unsigned char byte, uint32_t sibling, err *e) {
    if (trie->n == 0)
        trie->n = 1; // index 0 means none
    if (!mem_grow((void **)&trie->v, &trie->cap, trie->n + 1, sizeof *trie->v, "added tokens", e))
        return 0;
    trie->v[trie->n] = (tok_trie_node){0, sibling, TOK_NONE, byte};
    return (uint32_t)trie->n++;
}

static uint32_t find_child(const tok_trie *trie, uint32_t node, unsigned char byte) {
    uint32_t k = trie->v[node].child;
    while (k && trie->v[k].byte != byte)
        k = trie->v[k].sibling;
    return k;
}

bool tok_trie_add(tok_trie *trie, const char *s, size_t n, uint32_t token, err *e) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)s[i];
        uint32_t k = i ? find_child(trie, node, byte) : trie->first[byte];
        if (!k) {
            k = node_new(trie, byte, i ? trie->v[node].child : 0, e);
            if (!k)
                return false;
            if (i)
                trie->v[node].child = k;
            else
                trie->first[byte] = k;
        }
        node = k;
    }
    if (node)
        trie->v[node].token = token;
    return true;
}

uint32_t tok_trie_longest(const tok_trie *trie, const char *s, size_t n, size_t *len) {
    uint32_t token = TOK_NONE, node = trie->first[(unsigned char)s[0]];
    for (size_t i = 1; node; i++) {
        if (trie->v[node].token != TOK_NONE) {
            token = trie->v[node].token;
            *len = i;
        }
        if (i == n)
            break;
        node = find_child(trie, node, (unsigned char)s[i]);
    }
    return token;
}

static size_t char_before(const char *s, size_t at) {
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80);
    return at;
}

static bool is_word(const tokenizer *t, tok_work *w, const char *s, bool *word, err *e) {
    int len = 0;
    size_t a = 0, b = 0;
    tok_find it = {0};
    tok_char(s, &len);
    return tok_pattern_next(&t->word, &w->finder, &it, s, (size_t)len, &a, &b, word, e);
}

// A single_word token must not touch a word character on either side.
static bool stands_alone(const tokenizer *t, tok_work *w, const char *s, size_t n, size_t start,
                         size_t stop, bool *alone, err *e) {
    bool left = false, right = false;
    if (start > 0 && !is_word(t, w, s + char_before(s, start), &left, e))
        return false;
    if (stop < n && !is_word(t, w, s + stop, &right, e))
        return false;
    *alone = !left && !right;
    return true;
}

bool tok_added_next(const tokenizer *t, tok_work *w, const tok_trie *trie, const char *s, size_t n,
                    size_t *at, size_t floor, size_t *start, size_t *stop, uint32_t *token,
                    err *e) {
    *token = TOK_NONE;
    for (size_t i = *at, len = 0; i < n; i++) {
        if (!trie->first[(unsigned char)s[i]])
            continue;
        if (!tok_go_on(w, e))
            return false;
        uint32_t found = tok_trie_longest(trie, s + i, n - i, &len);
        if (found == TOK_NONE)
            continue;
        const tok_added *a = &t->added[found];
        bool alone = true;
        if (a->single_word && !stands_alone(t, w, s, n, i, i + len, &alone, e))
            return false;
        if (!alone) {
            i += len - 1;
            continue;
        }
        *token = found;
        *at = i + len;
        *start = i;
        *stop = i + len;
        int bytes = 0;
        while (a->lstrip && *start > floor &&
               tok_blank(tok_char(s + char_before(s, *start), &bytes)))
            *start -= (size_t)bytes;
        while (a->rstrip && *stop < n && tok_blank(tok_char(s + *stop, &bytes)))
            *stop += (size_t)bytes;
        return true;
    }
    *at = n;
    return true;
}
