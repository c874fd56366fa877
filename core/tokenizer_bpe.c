// Byte-pair merging: of all neighbours that may merge, the pair of the lowest rank goes first, the
// leftmost of equals. Short spans are merged by scanning, long ones with a heap, so that a million
// letters without a break cost n log n.
#include "core/mem.h"
#include "core/tok.h"

#include <stdlib.h>
#include <string.h>

enum { SCAN_MOST = 40, WORD_MOST = 256, WORDS_MOST = 1 << 20 };

static uint32_t char_id(const tokenizer *t, const char *s, uint32_t c, int len) {
    return c < 0x10000 ? t->char_id[c] : tok_vocab_find(&t->vocab, s, (size_t)len);
}

// What a run of characters becomes before merging.
typedef struct builder {
    const tokenizer *t;
    uint32_t *sym;
    size_t n;
    bool unknown; // an unknown waits: with fuse_unk, later ones join it
} builder;

static void known(builder *b, uint32_t id) {
    if (b->unknown)
        b->sym[b->n++] = b->t->unk;
    b->unknown = false;
    b->sym[b->n++] = id;
}

// A character outside the vocabulary: its bytes when the file has byte tokens for all of them, else
// the unknown token, else nothing at all. (An unknown that waits stays behind byte tokens: so does
// the library.)
static void unknown(builder *b, const char *s, int len) {
    const tokenizer *t = b->t;
    bool bytes = t->fallback;
    for (int i = 0; bytes && i < len; i++)
        bytes = t->fallback_id[(unsigned char)s[i]] != TOK_NONE;
    if (bytes) {
        for (int i = 0; i < len; i++)
            b->sym[b->n++] = t->fallback_id[(unsigned char)s[i]];
        return;
    }
    if (t->unk == TOK_NONE)
        return;
    if (b->unknown && !t->fuse_unk)
        b->sym[b->n++] = t->unk;
    b->unknown = true;
}

// Room for two symbols a byte: a raw byte without a token may turn into two byte tokens.
static bool symbols(const tokenizer *t, tok_work *w, const char *s, size_t n, size_t *count,
                    err *e) {
    if (n >= UINT32_MAX / 4)
        return err_set(e, ERR_UNSUPPORTED, "a text of %zu bytes without a break is too long", n);
    if (!mem_grow((void **)&w->sym, &w->cap_sym, 2 * n + 2, sizeof *w->sym, "merging a text", e))
        return false;
    builder b = {t, w->sym, 0, false};
    for (size_t i = 0; i < n;) {
        int len = 1;
        uint32_t id = TOK_NONE;
        if (t->bytes) {
            id = t->byte_id[(unsigned char)s[i]];
        } else {
            uint32_t c = tok_char(s + i, &len);
            id = char_id(t, s + i, c, len);
        }
        if (id != TOK_NONE) {
            known(&b, id);
        } else if (t->bytes) {
            char one[4];
            unknown(&b, one, tok_char_put(tok_byte_char((unsigned char)s[i]), one));
        } else {
            unknown(&b, s + i, len);
        }
        i += (size_t)len;
    }
    if (b.unknown)
        b.sym[b.n++] = t->unk;
    *count = b.n;
    return true;
}

static size_t merge_scan(const tok_merges *m, uint32_t *sym, size_t n) {
    const tok_merge *pair[SCAN_MOST]; // of i and i + 1
    for (size_t i = 0; i + 1 < n; i++)
        pair[i] = tok_merges_find(m, sym[i], sym[i + 1]);
    while (n > 1) {
        size_t best = n;
        uint32_t rank = TOK_NONE;
        for (size_t i = 0; i + 1 < n; i++)
            if (pair[i] && pair[i]->rank < rank)
                best = i, rank = pair[i]->rank;
        if (best == n)
            break;
        sym[best] = pair[best]->id;
        n--;
        memmove(sym + best + 1, sym + best + 2, (n - best - 1) * sizeof *sym);
        if (n > best + 1)
            memmove(pair + best + 1, pair + best + 2, (n - best - 2) * sizeof *pair);
        if (best + 1 < n)
            pair[best] = tok_merges_find(m, sym[best], sym[best + 1]);
        if (best > 0)
            pair[best - 1] = tok_merges_find(m, sym[best - 1], sym[best]);
    }
    return n;
}

static void sift_down(uint64_t *heap, size_t n, size_t i) {
    uint64_t x = heap[i];
    while (2 * i + 1 < n) {
        size_t k = 2 * i + 1;
        k += k + 1 < n && heap[k + 1] < heap[k];
        if (heap[k] >= x)
            break;
        heap[i] = heap[k];
        i = k;
    }
    heap[i] = x;
}

static void heap_push(tok_work *w, uint64_t x) {
    size_t i = w->n_heap++;
    while (i > 0 && w->heap[(i - 1) / 2] > x) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = x;
}

static uint64_t heap_pop(tok_work *w) {
    uint64_t top = w->heap[0];
    w->heap[0] = w->heap[--w->n_heap];
    if (w->n_heap)
        sift_down(w->heap, w->n_heap, 0);
    return top;
}

static bool heap_room(tok_work *w, size_t n, err *e) {
    size_t list = w->cap_list;
    // n pairs at first, and each of n - 1 merges makes at most two new ones
    if (!mem_grow((void **)&w->heap, &w->cap_heap, 3 * n, sizeof *w->heap, "merging a text", e))
        return false;
    if (n <= list)
        return true;
    size_t a = list, b = list, c = list;
    if (!mem_grow((void **)&w->prev, &a, n, sizeof *w->prev, "merging a text", e) ||
        !mem_grow((void **)&w->next, &b, n, sizeof *w->next, "merging a text", e) ||
        !mem_grow((void **)&w->rank, &c, n, sizeof *w->rank, "merging a text", e))
        return false;
    w->cap_list = a;
    return true;
}

static uint32_t rank_of(const tok_merges *m, uint32_t a, uint32_t b) {
    const tok_merge *p = tok_merges_find(m, a, b);
    return p ? p->rank : TOK_NONE;
}

// Symbols are a linked list over positions; rank[i] is that of the pair that begins at i, so a heap
// entry is out of date exactly when its rank is no longer rank[i].
static bool merge_heap(const tok_merges *m, tok_work *w, size_t *count, err *e) {
    size_t n = *count;
    if (!heap_room(w, n, e))
        return false;
    uint32_t *sym = w->sym, *prev = w->prev, *next = w->next, *rank = w->rank;
    w->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        if (!tok_go_on(w, e))
            return false;
        prev[i] = i ? (uint32_t)i - 1 : TOK_NONE;
        next[i] = i + 1 < n ? (uint32_t)i + 1 : TOK_NONE;
        rank[i] = i + 1 < n ? rank_of(m, sym[i], sym[i + 1]) : TOK_NONE;
        if (rank[i] != TOK_NONE)
            w->heap[w->n_heap++] = (uint64_t)rank[i] << 32 | i;
    }
    for (size_t i = w->n_heap / 2; i-- > 0;)
        sift_down(w->heap, w->n_heap, i);
    while (w->n_heap) {
        if (!tok_go_on(w, e))
            return false;
        uint64_t top = heap_pop(w);
        uint32_t i = (uint32_t)top;
        if (rank[i] != (uint32_t)(top >> 32))
            continue;
        uint32_t gone = next[i], after = next[gone];
        sym[i] = tok_merges_find(m, sym[i], sym[gone])->id;
        next[i] = after;
        rank[gone] = TOK_NONE;
        if (after != TOK_NONE)
            prev[after] = i;
        rank[i] = after != TOK_NONE ? rank_of(m, sym[i], sym[after]) : TOK_NONE;
        if (rank[i] != TOK_NONE)
            heap_push(w, (uint64_t)rank[i] << 32 | i);
        uint32_t before = prev[i];
        if (before == TOK_NONE)
            continue;
        rank[before] = rank_of(m, sym[before], sym[i]);
        if (rank[before] != TOK_NONE)
            heap_push(w, (uint64_t)rank[before] << 32 | before);
    }
    size_t out = 0;
    for (uint32_t i = 0; i != TOK_NONE; i = next[i])
        sym[out++] = sym[i];
    *count = out;
    return true;
}

// ignore_merges: a span that is a token as it stands is taken whole. *id TOK_NONE: it is not.
static bool whole_token(const tokenizer *t, tok_work *w, const char *s, size_t n, uint32_t *id,
                        err *e) {
    *id = TOK_NONE;
    if (!t->ignore_merges || n > t->vocab.longest)
        return true;
    w->mapped.n = 0;
    for (size_t i = 0; t->bytes && i < n; i++) {
        char one[4];
        int len = tok_char_put(tok_byte_char((unsigned char)s[i]), one);
        if (!tok_buf_add(&w->mapped, one, (size_t)len, e))
            return false;
    }
    *id = t->bytes ? tok_vocab_find(&t->vocab, w->mapped.p, w->mapped.n)
                   : tok_vocab_find(&t->vocab, s, n);
    return true;
}

static bool encode_span(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out,
                        err *e) {
    size_t count = 0;
    uint32_t whole = TOK_NONE;
    if (t->bytes && !whole_token(t, w, s, n, &whole, e))
        return false;
    if (whole != TOK_NONE)
        return ids_add(out, &(int32_t){(int32_t)whole}, 1, e);
    if (!symbols(t, w, s, n, &count, e))
        return false;
    if (count > SCAN_MOST) {
        if (!merge_heap(&t->merges, w, &count, e))
            return false;
    } else {
        count = merge_scan(&t->merges, w->sym, count);
    }
    return ids_add(out, (const int32_t *)w->sym, count, e);
}

static bool cache_grow(tok_work *w, err *e) {
    size_t slots = w->word ? (w->word_mask + 1) * 2 : 1024;
    tok_word *v = mem_zalloc(slots, sizeof *v, "the words of a text", e);
    if (!v)
        return false;
    for (size_t i = 0; w->word && i <= w->word_mask; i++) {
        if (!w->word[i].key_n)
            continue;
        size_t k = w->word[i].hash & (slots - 1);
        while (v[k].key_n)
            k = (k + 1) & (slots - 1);
        v[k] = w->word[i];
    }
    free(w->word);
    w->word = v;
    w->word_mask = slots - 1;
    return true;
}

// Words repeat: what a span became is kept for the rest of the call.
static bool encode_word(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out,
                        err *e) {
    if (n > WORD_MOST)
        return encode_span(t, w, s, n, out, e);
    if (!w->word && !cache_grow(w, e))
        return false;
    uint64_t hash = tok_hash(s, n);
    size_t k = hash & w->word_mask;
    for (; w->word[k].key_n; k = (k + 1) & w->word_mask) {
        const tok_word *hit = &w->word[k];
        if (hit->hash == hash && hit->key_n == n && !memcmp(w->keys.p + hit->key, s, n))
            return ids_add(out, w->found.v + hit->ids, hit->n, e);
    }
    size_t before = out->n;
    if (!encode_span(t, w, s, n, out, e))
        return false;
    if (w->words >= WORDS_MOST)
        return true;
    tok_word word = {hash, w->keys.n, (uint32_t)n, (uint32_t)(out->n - before), w->found.n};
    if (!tok_buf_add(&w->keys, s, n, e) || !ids_add(&w->found, out->v + before, word.n, e))
        return false;
    w->word[k] = word;
    w->words++;
    return w->words * 2 <= w->word_mask || cache_grow(w, e);
}

// A text without a pre-tokenizer is one span, however long. Two neighbouring characters that stand
// in the vocabulary and that no merge joins cut it in two: what is left and right of them is merged
// independently, so the pieces may be looked up as words. Next to an unknown character there is no
// cut: unknowns fuse, and byte tokens have merges of their own.
bool tok_bpe(const tokenizer *t, tok_work *w, const char *s, size_t n, ids *out, err *e) {
    if (n == 0)
        return true;
    if (t->bytes)
        return encode_word(t, w, s, n, out, e);
    uint32_t whole = TOK_NONE;
    if (!whole_token(t, w, s, n, &whole, e))
        return false;
    if (whole != TOK_NONE)
        return ids_add(out, &(int32_t){(int32_t)whole}, 1, e);
    size_t start = 0;
    uint32_t last = 0;
    bool last_known = false;
    for (size_t i = 0; i < n;) {
        int len = 0;
        uint32_t c = tok_char(s + i, &len);
        bool has = char_id(t, s + i, c, len) != TOK_NONE;
        if (has && last_known && !tok_joints_has(&t->joints, last, c)) {
            if (!tok_go_on(w, e) || !encode_word(t, w, s + start, i - start, out, e))
                return false;
            start = i;
        }
        last = c;
        last_known = has;
        i += (size_t)len;
    }
    return encode_word(t, w, s + start, n - start, out, e);
}

void tok_work_free(tok_work *w) {
    tok_finder_free(&w->finder);
    free(w->word);
    free(w->keys.p);
    ids_free(&w->found);
    free(w->sym);
    free(w->prev);
    free(w->next);
    free(w->rank);
    free(w->heap);
    for (int i = 0; i < 2; i++) {
        free(w->text[i].p);
        free(w->span[i].v);
    }
    free(w->mapped.p);
    *w = (tok_work){0};
}
