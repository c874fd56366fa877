// A comparison of many layers in few lines.
#include "analyses/diff.h"

#include "analyses/inspect.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// "layers.3.mlp.experts.7.up" becomes "layers.#.mlp.experts.#.up"; the first number, -1: there is none.
static int64_t fold_name(const char *name, char *out) {
    int64_t number = -1;
    for (const char *s = name; *s;) {
        size_t n = strcspn(s, "."), digits = strspn(s, "0123456789");
        if (digits == n && n > 0 && n < 10) {
            number = number < 0 ? atoll(s) : number;
            *out++ = '#';
        } else {
            memcpy(out, s, n);
            out += n;
        }
        s += n;
        if (*s)
            *out++ = *s++;
    }
    *out = 0;
    return number;
}

static bool same_kind(const tensor *a, const tensor *b) {
    if (!a || !b)
        return a == b;
    return strcmp(a->type_name, b->type_name) == 0 && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static bool fits(const diff_group *g, const tensor_diff *t, const char *pattern) {
    const tensor_diff *f = g->first;
    return f->how == t->how && f->measured == t->measured && f->transposed == t->transposed &&
           !f->twin && !t->twin && same_kind(f->a, t->a) && same_kind(f->b, t->b) &&
           strcmp(g->pattern, pattern) == 0;
}

static void join(diff_group *g, const tensor_diff *t, int64_t number) {
    g->number[g->n++] = number;
    if (!t->measured)
        return;
    g->norm_a = hypot(g->norm_a, t->v.norm_a);
    g->l2 = hypot(g->l2, t->v.l2);
    if (!(g->cosine <= t->v.cosine)) // also over NaN
        g->cosine = t->v.cosine;
    g->changed += t->v.changed;
    g->not_finite += t->v.not_finite;
    if (t->v.at >= 0 && (!g->most || t->v.largest > g->most->v.largest)) {
        g->most = t;
        g->most_number = number;
    }
}

static diff_group *find(diff_groups *out, const tensor_diff *t, const char *pattern, int64_t number,
                        err *e) {
    for (size_t i = 0; number >= 0 && i < out->n; i++)
        if (fits(&out->v[i], t, pattern))
            return &out->v[i];
    if (!mem_grow((void **)&out->v, &out->room, out->n + 1, sizeof *out->v, "groups of tensors", e))
        return NULL;
    diff_group *g = &out->v[out->n];
    *g = (diff_group){.first = t, .cosine = NAN, .pattern = mem_strdup(pattern, e)};
    if (!g->pattern)
        return NULL;
    out->n++;
    return g;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool finish(diff_groups *out, err *e) {
    for (size_t i = 0; i < out->n; i++) {
        diff_group *g = &out->v[i];
        if (g->number[0] < 0)
            continue;
        if (g->n == 1) {
            free(g->pattern);
            if (!(g->pattern = mem_strdup(g->first->name, e)))
                return false;
            continue;
        }
        qsort(g->number, (size_t)g->n, sizeof *g->number, by_value);
        inspect_ranges(g->number, (size_t)g->n, g->numbers, sizeof g->numbers);
    }
    return true;
}

bool diff_fold(const ckpt_diff *d, bool unfolded, diff_groups *out, err *e) {
    size_t longest = 0;
    *out = (diff_groups){0};
    for (size_t i = 0; i < d->n; i++)
        longest = strlen(d->v[i].name) > longest ? strlen(d->v[i].name) : longest;
    char *pattern = mem_alloc(longest + 1, 1, "a name", e);
    bool ok = pattern != NULL;
    for (size_t i = 0; ok && i < d->n; i++) {
        const tensor_diff *t = &d->v[i];
        int64_t number = fold_name(t->name, pattern);
        if (unfolded)
            number = -1;
        diff_group *g = find(out, t, number < 0 ? t->name : pattern, number, e);
        size_t room = g ? (size_t)g->n : 0; // a power of two is full
        if (g && (room & (room - 1)) == 0) {
            int64_t *more = realloc(g->number, (room ? 2 * room : 1) * sizeof *more);
            if (more)
                g->number = more;
            else
                g = NULL, err_set(e, ERR_NOMEM, "out of memory: groups of tensors");
        }
        ok = g != NULL;
        if (ok)
            join(g, t, number);
    }
    free(pattern);
    ok = ok && finish(out, e);
    if (!ok)
        diff_groups_free(out);
    return ok;
}

void diff_groups_free(diff_groups *g) {
    for (size_t i = 0; i < g->n; i++) {
        free(g->v[i].pattern);
        free(g->v[i].number);
    }
    free(g->v);
    *g = (diff_groups){0};
}
