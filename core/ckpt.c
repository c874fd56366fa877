#include "core/ckpt.h"

#include "core/busguard.h"
#include "core/ckpt_source.h"
#include "core/mem.h"
#include "core/safetensors.h"
#include "core/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    const char *key, *value;
} pair;

struct ckpt {
    ckpt_source source;
    safetensors *files; // source.n of them
    const tensor **tensors;
    size_t n;
    pair *meta;
    size_t n_meta;
};

static int by_name(const void *a, const void *b) {
    const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
    int c = text_natural_cmp(x->name, y->name);
    return c ? c : (x->file > y->file) - (x->file < y->file);
}

static int by_key(const void *a, const void *b) {
    const pair *x = a, *y = b;
    int c = strcmp(x->key, y->key);
    return c ? c : strcmp(x->value, y->value);
}

// The file that the index gives for a tensor, -1 when it does not mention it.
static int place_of(const ckpt *c, const char *name) {
    const char *shard = json_string_value(json_object_get(c->source.map, name));
    const json_t *place = shard ? json_object_get(c->source.places, shard) : NULL;
    return place ? (int)json_integer_value(place) : -1;
}

// Gathers all tensors in order of their names. With an index, its word on a name decides between
// two files that both hold it; a name that it does not mention is read, as other loaders do, and
// remarked on.
static bool gather_tensors(ckpt *c, err *e) {
    size_t all = 0, extra = 0;
    const tensor *first_extra = NULL;
    for (size_t f = 0; f < c->source.n; f++)
        all += c->files[f].n;
    c->tensors = mem_alloc(all, sizeof *c->tensors, "the list of tensors", e);
    if (!c->tensors)
        return false;
    for (size_t f = 0; f < c->source.n; f++)
        for (size_t i = 0; i < c->files[f].n; i++) {
            const tensor *t = &c->files[f].tensors[i];
            int place = c->source.map ? place_of(c, t->name) : (int)f;
            if (place < 0) {
                extra++;
                first_extra = first_extra ? first_extra : t;
            }
            if (place < 0 || place == (int)f)
                c->tensors[c->n++] = t;
        }
    if (c->n > 1)
        qsort(c->tensors, c->n, sizeof *c->tensors, by_name);
    for (size_t i = 1; i < c->n; i++)
        if (strcmp(c->tensors[i - 1]->name, c->tensors[i]->name) == 0)
            return err_set(e, ERR_INPUT, "%s: tensor %s is also in %s, and the index names neither",
                           text_show(c->source.files[c->tensors[i]->file]),
                           text_show(c->tensors[i]->name),
                           text_show(c->source.files[c->tensors[i - 1]->file]));
    if (extra == 1)
        return ckpt_source_note(&c->source, e,
                                "the index does not mention tensor %s, which is in its files",
                                text_show(first_extra->name));
    if (extra > 1)
        return ckpt_source_note(&c->source, e,
                                "the index does not mention tensor %s and %zu more, which are in "
                                "its files",
                                text_show(first_extra->name), extra - 1);
    return true;
}

// Every tensor of the index is in the file where it should be.
static bool index_holds(const ckpt *c, err *e) {
    if (!c->source.map)
        return true;
    json_t *map = c->source.map;
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        const char *name = json_object_iter_key(it);
        if (!ckpt_get(c, name))
            return err_set(e, ERR_MISSING, "%s: no tensor %s, although the index says so",
                           text_show(c->source.files[place_of(c, name)]), text_show(name));
    }
    return true;
}

// Shards mostly repeat the same metadata: equal pairs are told once.
static bool gather_metadata(ckpt *c, err *e) {
    size_t all = 0, kept = 0;
    for (size_t f = 0; f < c->source.n; f++)
        all += json_object_size(safetensors_metadata(&c->files[f]));
    c->meta = mem_alloc(all, sizeof *c->meta, "metadata", e);
    if (!c->meta)
        return false;
    for (size_t f = 0; f < c->source.n; f++) {
        json_t *m = safetensors_metadata(&c->files[f]);
        for (void *it = json_object_iter(m); it; it = json_object_iter_next(m, it))
            c->meta[c->n_meta++] =
                (pair){json_object_iter_key(it), json_string_value(json_object_iter_value(it))};
    }
    if (all > 1)
        qsort(c->meta, all, sizeof *c->meta, by_key);
    for (size_t i = 0; i < all; i++)
        if (kept == 0 || by_key(&c->meta[kept - 1], &c->meta[i]) != 0)
            c->meta[kept++] = c->meta[i];
    c->n_meta = kept;
    return true;
}

ckpt *ckpt_open(const char *path, err *e) {
    ckpt *c = mem_zalloc(1, sizeof *c, "a checkpoint", e);
    if (!c || !ckpt_source_find(path, &c->source, e))
        goto fail;
    c->files = mem_zalloc(c->source.n, sizeof *c->files, "the files of a checkpoint", e);
    if (!c->files)
        goto fail;
    for (size_t f = 0; f < c->source.n; f++)
        if (!safetensors_open(c->source.files[f], (int)f, &c->files[f], e))
            goto fail;
    if (gather_tensors(c, e) && index_holds(c, e) && gather_metadata(c, e))
        return c;
fail:
    ckpt_close(c);
    return NULL;
}

ckpt *ckpt_none(err *e) {
    return mem_zalloc(1, sizeof(ckpt), "a checkpoint", e);
}

void ckpt_close(ckpt *c) {
    if (!c)
        return;
    for (size_t f = 0; c->files && f < c->source.n; f++)
        safetensors_close(&c->files[f]);
    free(c->files);
    free(c->tensors);
    free(c->meta);
    ckpt_source_free(&c->source);
    free(c);
}

int64_t ckpt_count(const ckpt *c) {
    return (int64_t)c->n;
}

const tensor *ckpt_at(const ckpt *c, int64_t i) {
    assert(i >= 0 && i < (int64_t)c->n);
    return c->tensors[i];
}

int64_t ckpt_index(const ckpt *c, const char *name) {
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int d = text_natural_cmp(c->tensors[mid]->name, name);
        if (d == 0)
            return (int64_t)mid;
        if (d < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

const tensor *ckpt_get(const ckpt *c, const char *name) {
    int64_t i = ckpt_index(c, name);
    return i < 0 ? NULL : c->tensors[i];
}

bool ckpt_find(const ckpt *c, const char *name, const tensor **out, err *e) {
    *out = ckpt_get(c, name);
    if (*out)
        return true;
    int best = 4 + (int)(strlen(name) / 4); // farther than that is another word
    const char *close = NULL;
    for (size_t i = 0; i < c->n && best > 0; i++) {
        int d = text_distance(name, c->tensors[i]->name, best - 1);
        if (d < best) {
            best = d;
            close = c->tensors[i]->name;
        }
    }
    const char *where = text_show(c->source.index_path ? c->source.index_path : c->source.files[0]);
    if (close)
        return err_set(e, ERR_MISSING, "%s: no tensor %s (the closest name is %s)", where,
                       text_show(name), text_show(close));
    return err_set(e, ERR_MISSING, "%s: no tensor %s among its %zu", where, text_show(name), c->n);
}

int ckpt_files(const ckpt *c) {
    return (int)c->source.n;
}

const char *ckpt_file(const ckpt *c, int i) {
    return c->source.files[i];
}

size_t ckpt_file_bytes(const ckpt *c, int i) {
    return c->files[i].bytes;
}

int ckpt_metadata_count(const ckpt *c) {
    return (int)c->n_meta;
}

const char *ckpt_metadata_key(const ckpt *c, int i) {
    return c->meta[i].key;
}

const char *ckpt_metadata_value(const ckpt *c, int i) {
    return c->meta[i].value;
}

int ckpt_note_count(const ckpt *c) {
    return (int)c->source.n_notes;
}

const char *ckpt_note(const ckpt *c, int i) {
    return c->source.notes[i];
}

bool ckpt_still_whole(const ckpt *c, err *e) {
    for (size_t f = 0; f < c->source.n; f++)
        if (!safetensors_still_whole(&c->files[f], e))
            return false;
    return true;
}

typedef struct copy {
    dtype type;
    const void *src;
    size_t n;
    double *f64;
    float *f32;
} copy;

static void copy_run(void *arg) {
    const copy *x = arg;
    if (x->f64)
        dtype_to_f64(x->type, x->src, x->n, x->f64);
    else
        dtype_to_f32(x->type, x->src, x->n, x->f32);
}

static bool read_as(const ckpt *c, const tensor *t, int64_t first, int64_t n, double *f64,
                    float *f32, err *e) {
    const safetensors *f = &c->files[t->file];
    if (!dtype_is_weight(t->type))
        return err_set(e, ERR_UNSUPPORTED,
                       "%s: tensor %s is stored as %s; weights must be F64, F32, F16 or BF16",
                       text_show(f->path), text_show(t->name), text_show(t->type_name));
    assert(first >= 0 && n >= 0 && n <= t->count && first <= t->count - n);
    copy x = {t->type, (const char *)t->data + (size_t)first * dtype_size(t->type), (size_t)n, f64,
              f32};
    bool whole = busguard_run(copy_run, &x);
    // Where a file ends inside a page the rest of the page reads as zeros, without a signal: its
    // size is asked after every copy.
    if (!safetensors_still_whole(f, e))
        return false;
    if (!whole)
        return err_set(e, ERR_IO,
                       "%s: tensor %s: a part of the file cannot be read (disk or "
                       "network error)",
                       text_show(f->path), text_show(t->name));
    return true;
}

bool ckpt_read_f64(const ckpt *c, const tensor *t, int64_t first, int64_t n, double *dst, err *e) {
    return read_as(c, t, first, n, dst, NULL, e);
}

bool ckpt_read_f32(const ckpt *c, const tensor *t, int64_t first, int64_t n, float *dst, err *e) {
    return read_as(c, t, first, n, NULL, dst, e);
}
