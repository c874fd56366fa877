#include "core/config.h"

#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 16 << 20 };

struct config {
    char *path;   // of the JSON file
    char *prefix; // "" or "text_config." in messages
    json_t *root; // our reference
    bool *asked;  // one per key of root, in its order; a cache of questions, not of answers
    size_t keys;
};

// Takes `root` and `path`, also on failure.
static config *config_take(json_t *root, char *path, const char *prefix, err *e) {
    config *c = mem_zalloc(1, sizeof *c, "a config", e);
    if (!c) {
        json_decref(root);
        free(path);
        return NULL;
    }
    c->root = root;
    c->path = path;
    c->keys = json_object_size(root);
    c->prefix = mem_strdup(prefix, e);
    c->asked = mem_zalloc(c->keys, sizeof *c->asked, "the keys of a config", e);
    if (!c->prefix || !c->asked) {
        config_close(c);
        return NULL;
    }
    return c;
}

static char *config_find_file(const char *path, err *e) {
    if (file_is_folder(path))
        return file_join(path, "config.json", e);
    if (!file_ends_with(path, ".safetensors"))
        return mem_strdup(path, e);
    char *folder = file_folder(path, e);
    char *found = folder ? file_join(folder, "config.json", e) : NULL;
    free(folder);
    return found;
}

config *config_open(const char *path, err *e) {
    char *file = config_find_file(path, e);
    if (!file)
        return NULL;
    json_t *root = jsonio_read_infinity(file, CONFIG_MAX, e);
    if (root && !json_is_object(root)) {
        err_set(e, ERR_INPUT,
                "%s: line 1, column 1: %s at the top, need an object of keys and values",
                text_show(file), jsonio_kind(root));
        json_decref(root);
        root = NULL;
    }
    if (!root) {
        free(file);
        return NULL;
    }
    return config_take(root, file, "", e);
}

void config_close(config *c) {
    if (!c)
        return;
    json_decref(c->root);
    free(c->asked);
    free(c->prefix);
    free(c->path);
    free(c);
}

const char *config_path(const config *c) {
    return c->path;
}

static json_t *look(const config *c, const char *key) {
    json_t *v = json_object_get(c->root, key);
    if (!v)
        return NULL;
    size_t i = 0;
    for (void *it = json_object_iter(c->root); it; it = json_object_iter_next(c->root, it), i++)
        if (strcmp(json_object_iter_key(it), key) == 0)
            c->asked[i] = true;
    return json_is_null(v) ? NULL : v;
}

bool config_has(const config *c, const char *key) {
    return look(c, key) != NULL;
}

json_t *config_json(const config *c, const char *key) {
    return look(c, key);
}

static bool wrong(const config *c, const char *key, const json_t *v, const char *need, err *e) {
    char shown[128];
    return err_set(e, ERR_INPUT, "%s: %s%s is %s, need %s", text_show(c->path), c->prefix,
                   text_show(key), jsonio_show(v, shown, sizeof shown), need);
}

static bool as_int(const config *c, const char *key, const json_t *v, int64_t lo, int64_t hi,
                   int64_t *out, err *e) {
    char need[96];
    int64_t x;
    double r = json_is_real(v) ? json_real_value(v) : 0;
    if (json_is_integer(v))
        x = json_integer_value(v);
    else if (json_is_real(v) && r == floor(r) && fabs(r) < 0x1p53)
        x = (int64_t)r;
    else
        return wrong(c, key, v, "a whole number", e);
    if (x < lo || x > hi) {
        if (hi == INT64_MAX)
            snprintf(need, sizeof need, "%lld or more", (long long)lo);
        else
            snprintf(need, sizeof need, "a number from %lld to %lld", (long long)lo, (long long)hi);
        return wrong(c, key, v, need, e);
    }
    *out = x;
    return true;
}

bool config_int(const config *c, const char *key, int64_t lo, int64_t hi, int64_t *out, err *e) {
    const json_t *v = look(c, key);
    if (!v)
        return err_set(e, ERR_MISSING, "%s: %s%s is %s, need a whole number", text_show(c->path),
                       c->prefix, text_show(key),
                       json_object_get(c->root, key) ? "null" : "absent");
    return as_int(c, key, v, lo, hi, out, e);
}

bool config_int_or(const config *c, const char *key, int64_t lo, int64_t hi, int64_t otherwise,
                   int64_t *out, err *e) {
    const json_t *v = look(c, key);
    if (v)
        return as_int(c, key, v, lo, hi, out, e);
    *out = otherwise;
    return true;
}

bool config_real_or(const config *c, const char *key, double otherwise, double *out, err *e) {
    const json_t *v = look(c, key);
    if (v && !json_is_number(v))
        return wrong(c, key, v, "a number", e);
    *out = v ? json_number_value(v) : otherwise;
    return true;
}

static bool limit(const json_t *v, double *out) {
    if (json_is_object(v) && json_object_size(v) == 1)
        v = json_object_get(v, "__float__");
    if (json_is_string(v)) {
        const char *s = json_string_value(v);
        *out = INFINITY;
        return strcmp(s, JSONIO_INFINITY) == 0 || strcmp(s, "Infinity") == 0;
    }
    *out = json_number_value(v);
    return json_is_number(v);
}

bool config_limits_or(const config *c, const char *key, double lo, double hi, double *out_lo,
                      double *out_hi, err *e) {
    const json_t *v = look(c, key);
    *out_lo = lo;
    *out_hi = hi;
    if (!v)
        return true;
    if (!json_is_array(v) || json_array_size(v) != 2 || !limit(json_array_get(v, 0), out_lo) ||
        !limit(json_array_get(v, 1), out_hi) || !(*out_lo >= 0 && *out_lo <= *out_hi) ||
        isinf(*out_lo))
        return wrong(c, key, v, "two numbers [low, high], 0 <= low <= high, high may be Infinity",
                     e);
    return true;
}

bool config_bool_or(const config *c, const char *key, bool otherwise, bool *out, err *e) {
    const json_t *v = look(c, key);
    if (v && !json_is_boolean(v))
        return wrong(c, key, v, "true or false", e);
    *out = v ? json_is_true(v) : otherwise;
    return true;
}

bool config_text_or(const config *c, const char *key, const char *otherwise, const char **out,
                    err *e) {
    const json_t *v = look(c, key);
    if (v && !json_is_string(v))
        return wrong(c, key, v, "a string", e);
    *out = v ? json_string_value(v) : otherwise;
    return true;
}

config *config_child(const config *c, const char *key, err *e) {
    json_t *v = look(c, key);
    if (!v)
        return NULL;
    if (!json_is_object(v)) {
        wrong(c, key, v, "an object", e);
        return NULL;
    }
    char prefix[256];
    snprintf(prefix, sizeof prefix, "%s%s.", c->prefix, text_show(key));
    char *path = mem_strdup(c->path, e);
    return path ? config_take(json_incref(v), path, prefix, e) : NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int config_unread(const config *c, const char **keys, int max) {
    int n = 0;
    size_t i = 0;
    for (void *it = json_object_iter(c->root); it; it = json_object_iter_next(c->root, it), i++)
        if (!c->asked[i] && n < max)
            keys[n++] = json_object_iter_key(it);
    if (n > 1)
        qsort(keys, (size_t)n, sizeof *keys, by_name);
    return n;
}
