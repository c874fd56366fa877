// Tensors that one file has under another name, or twice: re-saved models lose the head that shares its
// weights with the embedding (fault B113).
#include "analyses/diff.h"

#include "core/mem.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

// A tensor of one side that may be a twin of a lonely one.
typedef struct entry {
    const tensor *t;
    int64_t lonely; // place in the comparison, -1: both sides have this name
    bool of_a;
    uint64_t mark;
    bool used;
} entry;

typedef struct entries {
    entry *v;
    size_t n, room;
} entries;

static int by_kind(const tensor *a, const tensor *b) {
    int c = strcmp(a->type_name, b->type_name);
    if (c == 0 && a->rank != b->rank)
        c = a->rank < b->rank ? -1 : 1;
    for (int i = 0; c == 0 && i < a->rank; i++)
        c = (a->dims[i] > b->dims[i]) - (a->dims[i] < b->dims[i]);
    return c;
}

static int by_kind_of(const void *a, const void *b) {
    return by_kind(*(const tensor *const *)a, *(const tensor *const *)b);
}

static int by_mark(const void *x, const void *y) {
    const entry *a = x, *b = y;
    if (a->mark != b->mark)
        return a->mark < b->mark ? -1 : 1;
    if (a->of_a != b->of_a)
        return a->of_a ? -1 : 1;
    return text_natural_cmp(a->t->name, b->t->name);
}

static bool add(entries *l, const ckpt *c, const tensor *t, int64_t lonely, bool of_a, err *e) {
    if (!mem_grow((void **)&l->v, &l->room, l->n + 1, sizeof *l->v, "tensors", e))
        return false;
    l->v[l->n] = (entry){.t = t, .lonely = lonely, .of_a = of_a};
    return diff_mark(c, t, &l->v[l->n++].mark, e);
}

// All lonely tensors, and those of both sides that have the type and shape of one.
static bool gather(const ckpt *a, const ckpt *b, const ckpt_diff *d, entries *l, err *e) {
    const tensor **kind = mem_alloc(d->n + 1, sizeof *kind, "kinds of tensors", e);
    size_t n = 0;
    bool ok = kind != NULL;
    for (size_t i = 0; ok && i < d->n; i++)
        if (!d->v[i].a || !d->v[i].b)
            kind[n++] = d->v[i].a ? d->v[i].a : d->v[i].b;
    if (ok)
        qsort(kind, n, sizeof *kind, by_kind_of);
    for (size_t i = 0; ok && n && i < d->n; i++) {
        const tensor *x = d->v[i].a, *y = d->v[i].b;
        bool lonely = !x || !y;
        int64_t place = lonely ? (int64_t)i : -1;
        if (x && (lonely || bsearch(&x, kind, n, sizeof *kind, by_kind_of)))
            ok = add(l, a, x, place, true, e);
        if (ok && y && (lonely || bsearch(&y, kind, n, sizeof *kind, by_kind_of)))
            ok = add(l, b, y, place, false, e);
    }
    free(kind);
    return ok;
}

static size_t same_end(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), k = 0;
    while (k < n && k < m && a[n - 1 - k] == b[m - 1 - k])
        k++;
    return k;
}

// In a run of equal marks: the other side's entry whose name ends most alike. A name that both sides
// have is a twin as often as it likes, a lonely one once.
static entry *nearest(const entry *x, entry *run, size_t n, bool shared) {
    entry *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        entry *y = &run[i];
        if (y->of_a == x->of_a || (y->lonely < 0) != shared || (!shared && y->used))
            continue;
        size_t k = same_end(x->t->name, y->t->name);
        if (!best || k > most) {
            best = y;
            most = k;
        }
    }
    return best;
}

// Does the lonely tensor's own side have these bits under the twin's name, too?
static bool own_side_has(const entry *x, const entry *twin, const entry *run, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (run[i].of_a == x->of_a && strcmp(run[i].t->name, twin->t->name) == 0)
            return true;
    return false;
}

static bool pair_run(const ckpt *a, const ckpt *b, ckpt_diff *d, entry *run, size_t n, err *e) {
    for (size_t i = 0; i < n; i++) {
        entry *x = &run[i];
        if (x->lonely < 0 || d->v[x->lonely].twin || x->t->count == 0)
            continue;
        entry *y = nearest(x, run, n, true);
        bool once = y && own_side_has(x, y, run, n), same = false;
        if (!once && !(y = nearest(x, run, n, false)))
            continue;
        if (by_kind(x->t, y->t) != 0)
            continue;
        if (!diff_same_bits(x->of_a ? a : b, x->t, y->of_a ? a : b, y->t, &same, e))
            return false;
        if (!same)
            continue;
        d->v[x->lonely].twin = y->t;
        d->v[x->lonely].stored_once = once;
        if (!once) {
            d->v[y->lonely].twin = x->t;
            x->used = y->used = true;
        }
    }
    return true;
}

bool diff_twins(const ckpt *a, const ckpt *b, ckpt_diff *d, err *e) {
    entries l = {0};
    bool ok = gather(a, b, d, &l, e);
    if (ok && l.n)
        qsort(l.v, l.n, sizeof *l.v, by_mark);
    for (size_t i = 0, end = 0; ok && i < l.n; i = end) {
        for (end = i + 1; end < l.n && l.v[end].mark == l.v[i].mark; end++)
            ;
        ok = pair_run(a, b, d, l.v + i, end - i, e);
    }
    free(l.v);
    return ok;
}
