#include "analyses/diff.h"

#include "analyses/inspect.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

const char *diff_class_name(diff_class c) {
    static const char *const name[] = {"equal", "differs", "missing", "extra", "incompatible"};
    return name[c];
}

static bool same_shape(const tensor *a, const tensor *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

// The same sides but for those of 1: the elements are where they were.
static bool same_but_ones(const tensor *a, const tensor *b) {
    int i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1)
            i++;
        while (k < b->rank && b->dims[k] == 1)
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (a->dims[i++] != b->dims[k++])
            return false;
    }
}

static bool sides_swapped(const tensor *a, const tensor *b) {
    return a->rank == 2 && b->rank == 2 && a->dims[0] == b->dims[1] && a->dims[1] == b->dims[0] &&
           !same_but_ones(a, b);
}

static bool comparable(const tensor *a, const tensor *b) {
    if (a->count != b->count)
        return false;
    if (dtype_is_weight(a->type) && dtype_is_weight(b->type))
        return true;
    return strcmp(a->type_name, b->type_name) == 0 && a->bytes == b->bytes;
}

// Type and shape are set; what do the values say?
static bool compare_values(const ckpt *ca, const ckpt *cb, tensor_diff *t, err *e) {
    bool same = false;
    if (!t->retyped && !diff_same_bits(ca, t->a, cb, t->b, &same, e))
        return false;
    if (same) {
        t->how = t->reshaped ? DIFF_DIFFERS : DIFF_EQUAL;
        return true;
    }
    t->how = DIFF_DIFFERS;
    if (!dtype_is_weight(t->a->type))
        return true;
    t->measured = true;
    if (!diff_values(ca, t->a, cb, t->b, false, &t->v, e))
        return false;
    value_diff v;
    if (!sides_swapped(t->a, t->b))
        return true;
    if (!diff_values(ca, t->a, cb, t->b, true, &v, e))
        return false;
    t->transposed = v.l2 < t->v.l2;
    if (t->transposed)
        t->v = v;
    return true;
}

static bool compare_pair(const ckpt *ca, const ckpt *cb, tensor_diff *t, err *e) {
    t->retyped = strcmp(t->a->type_name, t->b->type_name) != 0;
    bool shapes = same_shape(t->a, t->b);
    t->reshaped = !shapes && t->a->count == t->b->count;
    t->how = DIFF_INCOMPATIBLE;
    return !comparable(t->a, t->b) || compare_values(ca, cb, t, e);
}

bool diff_takes(const diff_options *o, const char *name) {
    bool in = o->n_include == 0;
    for (size_t k = 0; k < o->n_include; k++)
        in |= inspect_glob(o->include[k], name);
    for (size_t k = 0; k < o->n_exclude; k++)
        in &= !inspect_glob(o->exclude[k], name);
    return in;
}

// Natural order, with a border for names that it takes for the same ("x1" and "x01").
static int by_name(const char *a, const char *b) {
    int c = text_natural_cmp(a, b);
    return c ? c : strcmp(a, b);
}

static int by_diff(const void *a, const void *b) {
    return by_name(((const tensor_diff *)a)->name, ((const tensor_diff *)b)->name);
}

// One entry a name of either file.
static bool match_names(const ckpt *a, const ckpt *b, const diff_options *o, ckpt_diff *d, err *e) {
    int64_t n = ckpt_count(a), m = ckpt_count(b);
    d->v = mem_zalloc((size_t)(n + m) + 1, sizeof *d->v, "a comparison", e);
    if (!d->v)
        return false;
    for (int64_t i = 0; i < n + m; i++) {
        bool first = i < n;
        const tensor *t = first ? ckpt_at(a, i) : ckpt_at(b, i - n);
        const tensor *other = ckpt_get(first ? b : a, t->name);
        if (!first && other)
            continue; // it is there already
        if (!diff_takes(o, t->name)) {
            d->left_out++;
            continue;
        }
        d->v[d->n++] = (tensor_diff){.name = t->name,
                                     .a = first ? t : NULL,
                                     .b = first ? other : t,
                                     .how = !first   ? DIFF_EXTRA
                                            : !other ? DIFF_MISSING
                                                     : DIFF_EQUAL};
    }
    qsort(d->v, d->n, sizeof *d->v, by_diff);
    return true;
}

static void count(ckpt_diff *d) {
    for (size_t i = 0; i < d->n; i++) {
        const tensor_diff *t = &d->v[i];
        d->count[t->how]++;
        d->elements[t->how] += t->a ? t->a->count : t->b->count;
        d->retyped += t->retyped;
        d->reshaped += t->reshaped;
        d->stored_once += t->twin && t->stored_once;
        d->renamed += t->how == DIFF_MISSING && t->twin && !t->stored_once;
    }
}

bool ckpt_diff_make(const ckpt *a, const ckpt *b, const diff_options *o, ckpt_diff *out, err *e) {
    *out = (ckpt_diff){0};
    bool ok = match_names(a, b, o, out, e);
    int64_t done = 0, total = 0;
    for (size_t i = 0; i < out->n; i++)
        total += out->v[i].a && out->v[i].b ? (int64_t)out->v[i].a->bytes : 0;
    for (size_t i = 0; ok && i < out->n; i++) {
        tensor_diff *t = &out->v[i];
        if (!t->a || !t->b)
            continue;
        ok = compare_pair(a, b, t, e);
        done += (int64_t)t->a->bytes;
        if (ok && o->progress && !o->progress(o->progress_ctx, done, total))
            ok = err_set(e, ERR_CANCELLED, "stopped at tensor %s", text_show(t->name));
    }
    ok = ok && diff_twins(a, b, out, e);
    if (ok)
        count(out);
    else
        ckpt_diff_free(out);
    return ok;
}

void ckpt_diff_free(ckpt_diff *d) {
    free(d->v);
    *d = (ckpt_diff){0};
}

bool ckpt_diff_same(const ckpt_diff *d) {
    return d->count[DIFF_EQUAL] == (int64_t)d->n;
}
