// Tensor names with their numbers folded, globs on names.
#include "analyses/inspect.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLD_SECOND = 4 }; // a second number is folded when it joins more groups than this

// Copies name with its first `level` whole-number parts replaced by "#" (never longer than the
// name). *number: the value of the first one, -1 when there is none.
static void fold_name(const char *name, int level, char *buf, int64_t *number) {
    const char *s = name;
    *number = -1;
    while (*s) {
        size_t n = strcspn(s, "."), digits = strspn(s, "0123456789");
        if (level > 0 && n == digits && n > 0 && n < 10) {
            if (*number < 0)
                *number = atoll(s);
            *buf++ = '#';
            level--;
        } else {
            memcpy(buf, s, n);
            buf += n;
        }
        s += n;
        if (*s)
            *buf++ = *s++;
    }
    *buf = 0;
}

// What a scan over all tensors remembers of one.
typedef struct folded {
    char *one, *two; // the name with one and with two numbers folded, in shared storage
    int64_t number;
    int64_t group; // index of the first tensor with the same key
} folded;

static bool same_kind(const tensor *a, const tensor *b) {
    if (a->rank != b->rank || strcmp(a->type_name, b->type_name) != 0)
        return false;
    return memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static size_t hash(const char *s) {
    size_t h = 1469598103u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h ^ h >> 29;
}

// For every i with take[i]: the first j with an equal key and the same dtype and shape. table is
// scratch of `size` (a power of two above the number of tensors) entries.
static void find_first(const ckpt *c, const bool *take, folded *f, bool two, int64_t *table,
                       size_t size) {
    for (size_t i = 0; i < size; i++)
        table[i] = -1;
    for (int64_t i = 0; i < ckpt_count(c); i++) {
        if (take && !take[i])
            continue;
        const char *key = two ? f[i].two : f[i].one;
        size_t at = hash(key) & (size - 1);
        for (; table[at] >= 0; at = (at + 1) & (size - 1)) {
            int64_t j = table[at];
            if (strcmp(two ? f[j].two : f[j].one, key) == 0 &&
                same_kind(ckpt_at(c, i), ckpt_at(c, j)))
                break;
        }
        if (table[at] < 0)
            table[at] = i;
        f[i].group = table[at];
    }
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

char *inspect_ranges(const int64_t *v, size_t n, char *buf, size_t size) {
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < n;) {
        size_t k = i;
        while (k + 1 < n && v[k + 1] - v[k] <= 1)
            k++;
        char piece[48];
        snprintf(piece, sizeof piece, v[k] > v[i] ? "%s%lld-%lld" : "%s%lld", at ? "," : "",
                 (long long)v[i], (long long)v[k]);
        size_t w = strlen(piece);
        if (at + w + 5 > size) {
            snprintf(buf + at, size - at, ",...");
            break;
        }
        memcpy(buf + at, piece, w + 1);
        at += w;
        i = k + 1;
    }
    return buf;
}

static bool add(tensor_groups *out, const tensor *t, const folded *f, const char *pattern,
                int64_t room, err *e) {
    if (!mem_grow((void **)&out->v, &out->cap, out->n + 1, sizeof *out->v, "tensor groups", e))
        return false;
    tensor_group *g = &out->v[out->n];
    *g = (tensor_group){.of = t, .pattern = mem_strdup(pattern, e)};
    if (!g->pattern)
        return false;
    out->n++;
    if (f->number < 0)
        return true;
    g->number = mem_alloc((size_t)room, sizeof *g->number, "layer numbers", e);
    return g->number != NULL;
}

static void finish(tensor_groups *out) {
    for (size_t i = 0; i < out->n; i++) {
        tensor_group *g = &out->v[i];
        if (!g->number)
            continue;
        qsort(g->number, (size_t)g->n, sizeof *g->number, by_value);
        inspect_ranges(g->number, (size_t)g->n, g->numbers, sizeof g->numbers);
    }
}

// Members per group, and which groups two-number folding joins.
static bool collect(const ckpt *c, const bool *take, const folded *f, const int64_t *final,
                    const bool *second, tensor_groups *out, err *e) {
    int64_t n = ckpt_count(c);
    int64_t *index = mem_alloc((size_t)n + 1, sizeof *index, "tensor groups", e);
    int64_t *size = mem_zalloc((size_t)n + 1, sizeof *size, "tensor groups", e);
    bool ok = index && size;
    for (int64_t i = 0; ok && i < n; i++)
        if (!take || take[i])
            size[final[i]]++;
    for (int64_t i = 0; ok && i < n; i++) {
        if (take && !take[i])
            continue;
        if (final[i] == i) {
            index[i] = (int64_t)out->n;
            ok = add(out, ckpt_at(c, i), &f[i], second[i] ? f[i].two : f[i].one, size[i], e);
        }
        if (!ok)
            break;
        tensor_group *g = &out->v[index[final[i]]];
        if (g->number)
            g->number[g->n] = f[i].number;
        g->n++;
        g->count += ckpt_at(c, i)->count;
        g->bytes += ckpt_at(c, i)->bytes;
    }
    free(index);
    free(size);
    return ok;
}

bool inspect_fold(const ckpt *c, const bool *take, bool unfolded, tensor_groups *out, err *e) {
    int64_t n = ckpt_count(c);
    size_t text = 1, table_size = 16;
    *out = (tensor_groups){0};
    for (int64_t i = 0; i < n; i++)
        text += 2 * (strlen(ckpt_at(c, i)->name) + 1);
    while (table_size < 2 * (size_t)n + 2)
        table_size *= 2;
    folded *f = mem_zalloc((size_t)n + 1, sizeof *f, "folded names", e);
    char *store = mem_alloc(text, 1, "folded names", e), *at = store;
    int64_t *table = mem_alloc(table_size, sizeof *table, "folded names", e);
    int64_t *first = mem_alloc((size_t)n + 1, sizeof *first, "folded names", e);
    int64_t *joins = mem_zalloc((size_t)n + 1, sizeof *joins, "folded names", e);
    bool *second = mem_zalloc((size_t)n + 1, sizeof *second, "folded names", e);
    bool ok = f && store && table && first && joins && second;
    for (int64_t i = 0; ok && i < n; i++) {
        const char *name = ckpt_at(c, i)->name;
        int64_t ignored;
        fold_name(name, unfolded ? 0 : 2, f[i].two = at, &ignored);
        at += strlen(at) + 1;
        fold_name(name, unfolded ? 0 : 1, f[i].one = at, &f[i].number);
        at += strlen(at) + 1;
    }
    if (ok) {
        find_first(c, take, f, false, table, table_size);
        for (int64_t i = 0; i < n; i++)
            first[i] = f[i].group;
        find_first(c, take, f, true, table, table_size);
        for (int64_t i = 0; i < n; i++)
            if ((!take || take[i]) && first[i] == i)
                joins[f[i].group]++;
        for (int64_t i = 0; i < n; i++)
            if ((!take || take[i]) && joins[f[i].group] > FOLD_SECOND) {
                first[i] = f[i].group;
                second[i] = true;
            }
        ok = collect(c, take, f, first, second, out, e);
    }
    free(f);
    free(store);
    free(table);
    free(first);
    free(joins);
    free(second);
    if (ok)
        finish(out);
    else
        tensor_groups_free(out);
    return ok;
}

void tensor_groups_free(tensor_groups *g) {
    for (size_t i = 0; i < g->n; i++) {
        free(g->v[i].pattern);
        free(g->v[i].number);
    }
    free(g->v);
    *g = (tensor_groups){0};
}

// One character against the pattern's next element; *p moves behind it.
static bool one(const char **p, unsigned char c) {
    const char *s = *p;
    if (*s == '[') {
        bool not = s[1] == '!' || s[1] == '^', hit = false;
        const char *q = s + 1 + not, *start = q;
        for (; *q && (*q != ']' || q == start); q++) { // a ] in front stands for itself
            unsigned char lo = (unsigned char)*q, hi = lo;
            if (q[1] == '-' && q[2] && q[2] != ']') {
                hi = (unsigned char)q[2];
                q += 2;
            }
            hit |= lo <= c && c <= hi;
        }
        if (*q) {
            *p = q + 1;
            return hit != not ;
        }
    }
    if (*s == '\\' && s[1])
        s++;
    else if (*s == '?') {
        *p = s + 1;
        return true;
    }
    *p = s + 1;
    return (unsigned char)*s == c;
}

bool inspect_glob(const char *p, const char *s) {
    const char *star = NULL, *back = NULL; // behind the last *, and where it stopped matching
    while (*s) {
        if (*p == '*') {
            star = ++p;
            back = s;
            continue;
        }
        const char *next = p;
        if (*p && one(&next, (unsigned char)*s)) {
            p = next;
            s++;
        } else if (star) {
            p = star;
            s = ++back;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return !*p;
}
