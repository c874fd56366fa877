#include "core/parcel.h"

#include "core/mem.h"
#include "core/outfile.h"
#include "core/safetensors.h"
#include "core/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const void *v;
    size_t bytes;
} entry;

struct parcel {
    // Writing
    json_t *root, *texts;
    entry *v;
    size_t n, room, bytes;
    err fail;
    // Reading
    safetensors f;
};

parcel *parcel_new(err *e) {
    parcel *p = mem_zalloc(1, sizeof *p, "a file of results", e);
    if (!p)
        return NULL;
    p->root = json_object();
    p->texts = json_object();
    if (p->root && p->texts && json_object_set(p->root, "__metadata__", p->texts) == 0)
        return p;
    parcel_free(p);
    err_set(e, ERR_NOMEM, "out of memory: a file of results");
    return NULL;
}

void parcel_free(parcel *p) {
    if (!p)
        return;
    json_decref(p->root);
    json_decref(p->texts);
    free(p->v);
    safetensors_close(&p->f);
    free(p);
}

static void add(parcel *p, const char *name, const char *type, const void *v, size_t n) {
    if (p->fail.code != ERR_NONE ||
        !mem_grow((void **)&p->v, &p->room, p->n + 1, sizeof *p->v, "a file of results", &p->fail))
        return;
    size_t from = p->bytes;
    p->v[p->n++] = (entry){v, 8 * n};
    p->bytes += 8 * n;
    json_t *about = json_pack("{s:s, s:[I], s:[I, I]}", "dtype", type, "shape", (json_int_t)n,
                              "data_offsets", (json_int_t)from, (json_int_t)p->bytes);
    if (json_object_set_new(p->root, name, about) != 0)
        err_set(&p->fail, ERR_NOMEM, "out of memory: a file of results");
}

void parcel_add_f64(parcel *p, const char *name, const double *v, size_t n) {
    add(p, name, "F64", v, n);
}

void parcel_add_i64(parcel *p, const char *name, const int64_t *v, size_t n) {
    add(p, name, "I64", v, n);
}

void parcel_add_text(parcel *p, const char *name, const char *text) {
    if (json_object_set_new(p->texts, name, json_string(text)) != 0)
        err_set(&p->fail, ERR_NOMEM, "out of memory: a file of results");
}

bool parcel_save(parcel *p, const char *path, err *e) {
    if (p->fail.code != ERR_NONE)
        return err_set(e, p->fail.code, "%s", p->fail.text);
    outfile *o = NULL;
    char *text = json_dumps(p->root, JSON_COMPACT);
    if (!text)
        return err_set(e, ERR_NOMEM, "out of memory: %s", text_show(path));
    // Padded, so that the numbers are aligned in the mapped file.
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    bool ok = (o = outfile_open(path, e)) != NULL && outfile_write(o, size, 8, e) &&
              outfile_write(o, text, length, e) && outfile_write(o, "       ", padded - length, e);
    for (size_t i = 0; ok && i < p->n; i++)
        ok = outfile_write(o, p->v[i].v, p->v[i].bytes, e);
    ok = ok && outfile_commit(o, e);
    outfile_close(o);
    free(text);
    return ok;
}

parcel *parcel_load(const char *path, err *e) {
    parcel *p = mem_zalloc(1, sizeof *p, "a file of results", e);
    if (!p)
        return NULL;
    if (safetensors_open(path, 0, &p->f, e))
        return p;
    free(p);
    return NULL;
}

static const tensor *find(const parcel *p, const char *name) {
    for (size_t i = 0; i < p->f.n; i++)
        if (strcmp(p->f.tensors[i].name, name) == 0)
            return &p->f.tensors[i];
    return NULL;
}

static const void *get(const parcel *p, const char *name, dtype type, size_t n, err *e) {
    const tensor *t = find(p, name);
    if (t && t->type == type && (size_t)t->count == n && (uintptr_t)t->data % 8 == 0)
        return t->data;
    err_set(e, ERR_INPUT, "%s: %s is not %zu numbers", text_show(p->f.path), name, n);
    return NULL;
}

const double *parcel_f64(const parcel *p, const char *name, size_t n, err *e) {
    return get(p, name, DT_F64, n, e);
}

const int64_t *parcel_i64(const parcel *p, const char *name, size_t n, err *e) {
    return get(p, name, DT_I64, n, e);
}

size_t parcel_length(const parcel *p, const char *name) {
    const tensor *t = find(p, name);
    return t ? (size_t)t->count : 0;
}

const char *parcel_text(const parcel *p, const char *name) {
    return json_string_value(json_object_get(safetensors_metadata(&p->f), name));
}
