// Two config.json key by key.
#include "analyses/diff.h"

#include "analyses/inspect.h"
#include "core/config.h"
#include "core/jsonio.h"
#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20, SHOWN = 120, LONGEST_KEY = 400, DEEPEST = 32 };

void config_diff_free(config_diff *d) {
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].key);
        free(d->v[i].a);
        free(d->v[i].b);
    }
    free(d->v);
    *d = (config_diff){0};
}

// The config of a model, NULL without an error when there is none.
static bool read_config(const char *path, json_t **v, err *e) {
    err why = {0};
    config *c = config_open(path, &why);
    *v = NULL;
    if (!c)
        return why.code == ERR_MISSING || err_set(e, why.code, "%s", why.text);
    *v = jsonio_read_infinity(config_path(c), MOST_BYTES, e);
    config_close(c);
    return *v != NULL;
}

static bool nothing(const json_t *v) {
    return !v || json_is_null(v);
}

static bool same(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) // 10000 and 10000.0
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static char *shown(const json_t *v, err *e) {
    char buf[SHOWN];
    return mem_strdup(nothing(v) ? "" : jsonio_show(v, buf, sizeof buf), e);
}

typedef struct walk {
    config_diff *out;
    const diff_options *o;
    int depth;
    err *e;
} walk;

static bool add(walk *w, const char *key, const json_t *a, const json_t *b) {
    config_diff *d = w->out;
    if (!mem_grow((void **)&d->v, &d->room, d->n + 1, sizeof *d->v, "keys of a config", w->e))
        return false;
    config_change *c = &d->v[d->n++];
    *c = (config_change){mem_strdup(key, w->e), shown(a, w->e), shown(b, w->e)};
    return c->key && c->a && c->b;
}

static bool compare(walk *w, const char *before, json_t *a, json_t *b);

static bool one_key(walk *w, const char *before, const char *key, json_t *a, json_t *b) {
    char full[LONGEST_KEY], called[LONGEST_KEY + 8];
    snprintf(full, sizeof full, "%s%s%s", before, before[0] ? "." : "", key);
    snprintf(called, sizeof called, "config:%s", full);
    if ((nothing(a) && nothing(b)) || inspect_routine_key(key))
        return true;
    if (json_is_object(a) && json_is_object(b) && w->depth < DEEPEST) {
        w->depth++;
        bool ok = compare(w, full, a, b);
        w->depth--;
        return ok;
    }
    if (!diff_takes(w->o, called))
        return true;
    w->out->taken++;
    return (!nothing(a) && !nothing(b) && same(a, b)) || add(w, full, a, b);
}

static bool compare(walk *w, const char *before, json_t *a, json_t *b) {
    const char *key;
    json_t *v;
    json_object_foreach(a, key,
                        v) if (!one_key(w, before, key, v, json_object_get(b, key))) return false;
    json_object_foreach(b, key, v) if (!json_object_get(a, key) &&
                                       !one_key(w, before, key, NULL, v)) return false;
    return true;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const config_change *)a)->key, ((const config_change *)b)->key);
}

bool config_diff_make(const char *a, const char *b, const diff_options *o, config_diff *out,
                      err *e) {
    json_t *x = NULL, *y = NULL;
    walk w = {.out = out, .o = o, .e = e};
    *out = (config_diff){0};
    bool ok = read_config(a, &x, e) && read_config(b, &y, e);
    out->has_a = x != NULL;
    out->has_b = y != NULL;
    if (ok && json_is_object(x) && json_is_object(y))
        ok = compare(&w, "", x, y);
    json_decref(x);
    json_decref(y);
    if (!ok)
        config_diff_free(out);
    else if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_key);
    return ok;
}
