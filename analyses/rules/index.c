#include "analyses/rules/index.h"

#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int word_find(const word_list *l, const char *s) {
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->v[i], s) == 0)
            return (int)i;
    return INDEX_MISSING;
}

// last: where the word before was found; neighbours mostly share it.
static bool word_add(word_list *l, const char *s, int *last, err *e) {
    if (l->n && strcmp(l->v[*last], s) == 0)
        return true;
    int i = word_find(l, s);
    if (i < 0) {
        if (!mem_grow((void **)&l->v, &l->room, l->n + 1, sizeof *l->v, "names of facts", e))
            return false;
        i = (int)l->n;
        l->v[l->n++] = s;
    }
    *last = i;
    return true;
}

#define COMPARE(a, b)                                                                              \
    if ((a) != (b))                                                                                \
    return (a) < (b) ? -1 : 1

static int by_name(const fact_key *a, const fact_key *b) {
    COMPARE(a->model, b->model);
    COMPARE(a->document, b->document);
    COMPARE(a->name, b->name);
    return 0;
}

static int by_key(const void *x, const void *y) {
    const fact_key *a = x, *b = y;
    int c = by_name(a, b);
    if (c)
        return c;
    COMPARE(a->layer, b->layer);
    COMPARE(a->head, b->head);
    COMPARE(a->position, b->position);
    return 0;
}

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static bool clash(const fact *a, const fact *b, err *e) {
    char where[64] = "", at[64] = "";
    if (a->head >= 0)
        snprintf(where, sizeof where, ", L%d.H%d", a->layer, a->head);
    else if (a->layer >= 0)
        snprintf(where, sizeof where, ", layer %d", a->layer);
    if (a->position >= 0)
        snprintf(at, sizeof at, " at %lld tokens", (long long)a->position);
    return err_set(e, ERR_INPUT,
                   "two values of %s%s for %s on %s%s, %.6g and %.6g: results of one run only, "
                   "please",
                   text_show(a->name), at, text_show(a->model),
                   a->document[0] ? text_show(a->document) : "no document", where, a->value,
                   b->value);
}

bool fact_index_make(const facts *f, fact_index *x, err *e) {
    int model = 0, document = 0, name = 0;
    bool ok = true;
    *x = (fact_index){.v = mem_alloc(f->n + 1, sizeof *x->v, "an index of facts", e)};
    if (!x->v)
        return false;
    for (size_t i = 0; ok && i < f->n; i++) {
        const fact *one = &f->v[i];
        if (one->row >= 0)
            continue;
        ok = word_add(&x->models, one->model, &model, e) &&
             word_add(&x->documents, one->document, &document, e) &&
             word_add(&x->names, one->name, &name, e);
        x->v[x->n++] = (fact_key){model, document, name, one->layer, one->head, one->position, one};
    }
    qsort(x->v, x->n, sizeof *x->v, by_key);
    for (size_t i = 1; ok && i < x->n; i++)
        if (by_key(&x->v[i - 1], &x->v[i]) == 0 && !same(x->v[i - 1].f->value, x->v[i].f->value))
            ok = clash(x->v[i - 1].f, x->v[i].f, e);
    if (!ok)
        fact_index_free(x);
    return ok;
}

void fact_index_free(fact_index *x) {
    free(x->models.v);
    free(x->documents.v);
    free(x->names.v);
    free(x->v);
    *x = (fact_index){0};
}

const fact *fact_index_get(const fact_index *x, fact_key key) {
    const fact_key *k = bsearch(&key, x->v, x->n, sizeof *x->v, by_key);
    return k ? k->f : NULL;
}

// The first key that is not below (above: that is above) this model, document and name.
static size_t border(const fact_index *x, const fact_key *key, bool above) {
    size_t lo = 0, hi = x->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = by_name(&x->v[mid], key);
        if (c < 0 || (above && c == 0))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const fact_key *fact_index_span(const fact_index *x, int model, int document, int name, size_t *n) {
    const fact_key key = {.model = model, .document = document, .name = name};
    size_t first = border(x, &key, false);
    *n = border(x, &key, true) - first;
    return x->v + first;
}

static int by_head(const void *x, const void *y) {
    const fact_head *a = x, *b = y;
    COMPARE(a->layer, b->layer);
    COMPARE(a->head, b->head);
    return 0;
}

fact_head *fact_index_heads(const fact_index *x, int model, int document, size_t *n, err *e) {
    size_t room = 0, k = 0;
    fact_head *v = NULL;
    int none = word_find(&x->documents, "");
    for (size_t i = 0; i < x->n; i++) {
        const fact_key *key = &x->v[i];
        if (key->model != model || key->head < 0 ||
            (key->document != document && key->document != none))
            continue;
        if (k && v[k - 1].layer == key->layer && v[k - 1].head == key->head)
            continue;
        if (!mem_grow((void **)&v, &room, k + 1, sizeof *v, "heads", e)) {
            free(v);
            return NULL;
        }
        v[k++] = (fact_head){key->layer, key->head};
    }
    if (!v && !(v = mem_alloc(1, sizeof *v, "heads", e)))
        return NULL;
    qsort(v, k, sizeof *v, by_head);
    *n = 0;
    for (size_t i = 0; i < k; i++)
        if (i == 0 || by_head(&v[i], &v[i - 1]) != 0)
            v[(*n)++] = v[i];
    return v;
}
