#include "core/mem.h"
#include "core/tok.h"

#include <stdlib.h>
#include <string.h>

// Multiply-and-fold over 8-byte words (the idea of wyhash): spans are short, so what counts is few
// steps, and the top bits must be good because tables mask.
uint64_t tok_hash(const char *s, size_t n) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ (n * 0xD6E8FEB86659FD93u), w = 0;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        __uint128_t m = (__uint128_t)(h ^ w) * 0xA0761D6478BD642Fu;
        h = (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    w = 0;
    memcpy(&w, s, n);
    __uint128_t m = (__uint128_t)(h ^ w ^ 0xE7037ED1A0B428DBu) * 0x8EBC6AF09C88C6E3u;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

// Slots for `entries` at a load of at most one half.
static size_t table_size(size_t entries) {
    size_t n = 16;
    while (n < entries * 2)
        n *= 2;
    return n;
}

bool tok_vocab_init(tok_vocab *v, uint32_t size, size_t entries, size_t bytes, err *e) {
    size_t slots = table_size(entries);
    v->size = size;
    v->mask = slots - 1;
    v->text = mem_alloc(bytes + 1, 1, "the vocabulary", e);
    v->at = v->text ? mem_alloc(size, sizeof *v->at, "the vocabulary", e) : NULL;
    v->len = v->at ? mem_alloc(size, sizeof *v->len, "the vocabulary", e) : NULL;
    v->slot = v->len ? mem_zalloc(slots, sizeof *v->slot, "the vocabulary", e) : NULL;
    if (!v->slot)
        return false;
    memset(v->len, 0xFF, size * sizeof *v->len);
    return true;
}

static size_t vocab_slot(const tok_vocab *v, const char *s, size_t n) {
    size_t i = tok_hash(s, n) & v->mask;
    for (; v->slot[i]; i = (i + 1) & v->mask) {
        uint32_t id = v->slot[i] - 1;
        if (v->len[id] == n && !memcmp(v->text + v->at[id], s, n))
            break;
    }
    return i;
}

bool tok_vocab_add(tok_vocab *v, uint32_t id, const char *s, size_t n, uint32_t *other) {
    size_t i = vocab_slot(v, s, n);
    *other = v->slot[i] - 1; // TOK_NONE when the slot is empty
    if (v->slot[i] || v->len[id] != TOK_NONE)
        return false;
    memcpy(v->text + v->used, s, n);
    v->at[id] = v->used;
    v->len[id] = (uint32_t)n;
    v->used += n;
    v->slot[i] = id + 1;
    if (n > v->longest)
        v->longest = n;
    return true;
}

uint32_t tok_vocab_find(const tok_vocab *v, const char *s, size_t n) {
    return v->slot[vocab_slot(v, s, n)] - 1;
}

void tok_vocab_free(tok_vocab *v) {
    free(v->text);
    free(v->at);
    free(v->len);
    free(v->slot);
    *v = (tok_vocab){0};
}

static size_t pair_hash(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

bool tok_merges_init(tok_merges *m, size_t entries, err *e) {
    size_t slots = table_size(entries);
    m->slot = mem_alloc(slots, sizeof *m->slot, "the merges", e);
    m->mask = slots - 1;
    if (m->slot)
        memset(m->slot, 0xFF, slots * sizeof *m->slot);
    return m->slot != NULL;
}

static size_t merge_slot(const tok_merges *m, uint32_t a, uint32_t b) {
    size_t i = pair_hash((uint64_t)a << 32 | b) & m->mask;
    while (m->slot[i].a != TOK_NONE && (m->slot[i].a != a || m->slot[i].b != b))
        i = (i + 1) & m->mask;
    return i;
}

// A pair that is listed twice keeps its last rank, as in the library.
void tok_merges_put(tok_merges *m, uint32_t a, uint32_t b, uint32_t rank, uint32_t id) {
    m->slot[merge_slot(m, a, b)] = (tok_merge){a, b, rank, id};
}

const tok_merge *tok_merges_find(const tok_merges *m, uint32_t a, uint32_t b) {
    const tok_merge *p = &m->slot[merge_slot(m, a, b)];
    return p->a == TOK_NONE ? NULL : p;
}

static size_t joint_slot(const uint64_t *slot, size_t mask, uint64_t key) {
    size_t i = pair_hash(key) & mask;
    while (slot[i] && slot[i] != key)
        i = (i + 1) & mask;
    return i;
}

static uint64_t joint_key(uint32_t x, uint32_t y) {
    return ((uint64_t)x << 32 | y) + 1;
}

bool tok_joints_add(tok_joints *j, uint32_t x, uint32_t y, err *e) {
    if (x < 128 && y < 128) {
        j->ascii[x][y / 8] |= (uint8_t)(1u << (y % 8));
        return true;
    }
    if (!j->slot || j->n * 2 > j->mask) {
        size_t slots = j->slot ? (j->mask + 1) * 2 : 1024;
        uint64_t *grown = mem_zalloc(slots, sizeof *grown, "the merges", e);
        if (!grown)
            return false;
        for (size_t i = 0; j->slot && i <= j->mask; i++)
            if (j->slot[i])
                grown[joint_slot(grown, slots - 1, j->slot[i])] = j->slot[i];
        free(j->slot);
        j->slot = grown;
        j->mask = slots - 1;
    }
    size_t i = joint_slot(j->slot, j->mask, joint_key(x, y));
    j->n += !j->slot[i];
    j->slot[i] = joint_key(x, y);
    return true;
}

bool tok_joints_has(const tok_joints *j, uint32_t x, uint32_t y) {
    if (x < 128 && y < 128)
        return j->ascii[x][y / 8] >> (y % 8) & 1;
    return j->slot && j->slot[joint_slot(j->slot, j->mask, joint_key(x, y))];
}
