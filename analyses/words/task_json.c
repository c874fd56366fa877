// group.json and automaton.json: word problems as files.
#include "analyses/words/task.h"

#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASK_BYTES = 16 << 20 };

static const char left_words[] = "y_t = x_t . y_{t-1}; (a.b)[i] = a[b[i]]";
static const char right_words[] = "y_t = y_{t-1} . x_t; (a.b)[i] = a[b[i]]";

static bool wrong(const char *file, const char *what, err *e) {
    return err_set(e, ERR_INPUT, "%s: %s", text_show(file), what);
}

// An id: a whole number from 0 to 2^24.
static bool read_id(const json_t *v, const char *file, const char *what, int32_t *out, err *e) {
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1 << 24)
        return err_set(e, ERR_INPUT, "%s: %s is %s, need a token id", text_show(file), what,
                       jsonio_kind(v));
    *out = (int32_t)json_integer_value(v);
    return true;
}

static bool read_prefix(const json_t *root, const char *file, word_task *t, err *e) {
    const json_t *list = json_object_get(root, "prefix"), *bos = json_object_get(root, "bos");
    if (!list && !bos)
        return true;
    if (!list) {
        t->n_prefix = 1;
        return read_id(bos, file, "\"bos\"", &t->prefix[0], e);
    }
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > TASK_MAX_PREFIX)
        return err_set(e, ERR_INPUT, "%s: \"prefix\" is no list of at most %d ids", text_show(file),
                       TASK_MAX_PREFIX);
    t->n_prefix = (int)n;
    for (size_t i = 0; i < n; i++)
        if (!read_id(json_array_get(list, i), file, "a part of \"prefix\"", &t->prefix[i], e))
            return false;
    return true;
}

static bool read_origin(const json_t *root, const char *file, word_task *t, err *e) {
    const json_t *v = json_object_get(root, "train_length");
    if (v && !json_is_null(v)) {
        if (!json_is_integer(v) || json_integer_value(v) < 1)
            return wrong(file, "\"train_length\" is no whole number above 0", e);
        t->train_length = json_integer_value(v);
    }
    t->theory = json_is_string(json_object_get(root, "theory"));
    return true;
}

// ---- groups -----------------------------------------------------------------------------------------

static bool read_perms(const json_t *list, const char *file, int size, int degree, uint8_t *perm,
                       err *e) {
    for (int a = 0; a < size; a++) {
        const json_t *row = json_array_get(list, (size_t)a);
        if (json_array_size(row) != (size_t)degree)
            return wrong(file, "\"elements\" are no permutations of one length", e);
        for (int i = 0; i < degree; i++) {
            const json_t *v = json_array_get(row, (size_t)i);
            if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= degree)
                return wrong(file, "\"elements\" holds something that is no permutation", e);
            perm[a * degree + i] = (uint8_t)json_integer_value(v);
        }
    }
    return true;
}

// "y_t = x_t . y_{t-1}" or the other way round.
static bool read_order(const json_t *root, const char *file, bool *left, err *e) {
    const char *words = json_string_value(json_object_get(root, "convention"));
    *left = words && strstr(words, "x_t . y_{t-1}");
    if (*left || (words && strstr(words, "y_{t-1} . x_t")))
        return true;
    return wrong(file, "\"convention\" names neither y_t = x_t . y_{t-1} nor y_t = y_{t-1} . x_t",
                 e);
}

static word_task *read_group(const json_t *root, const char *file, err *e) {
    const json_t *list = json_object_get(root, "elements"), *names = json_object_get(root, "names");
    const char *name = json_string_value(json_object_get(root, "group"));
    size_t size = json_array_size(list), degree = json_array_size(json_array_get(list, 0));
    bool left = true;
    if (!name || size < 1 || size > GROUP_MAX_SIZE || degree < 1 || degree > GROUP_MAX_DEGREE) {
        wrong(file, "needs \"group\", a name, and \"elements\", a list of permutations", e);
        return NULL;
    }
    if (names && json_array_size(names) != size) {
        wrong(file, "\"names\" and \"elements\" differ in length", e);
        return NULL;
    }
    uint8_t *perm = mem_alloc(size * degree, 1, "a group", e);
    const char **label = mem_zalloc(size, sizeof *label, "names of elements", e);
    bool ok = perm && label && read_perms(list, file, (int)size, (int)degree, perm, e) &&
              read_order(root, file, &left, e);
    for (size_t i = 0; ok && names && i < size; i++)
        if (!(label[i] = json_string_value(json_array_get(names, i))))
            ok = wrong(file, "\"names\" holds something that is no text", e);
    group *g = ok ? group_from(name, (int)degree, (int)size, perm, names ? label : NULL, e) : NULL;
    free(perm);
    free(label);
    word_task *t = g ? task_of_group(g, left, 1, e) : NULL;
    if (!t || !read_prefix(root, file, t, e) || !read_origin(root, file, t, e)) {
        if (e->code == ERR_INPUT && strncmp(e->text, "group ", 6) == 0)
            err_prefix(e, "%s", text_show(file));
        task_free(t);
        return NULL;
    }
    return t;
}

// ---- automata ---------------------------------------------------------------------------------------

// A list of different names; the array is the caller's, the strings are lent.
static const char **read_names(const json_t *root, const char *key, const char *file, int most,
                               int *n, err *e) {
    const json_t *list = json_object_get(root, key);
    size_t count = json_array_size(list);
    if (count < 1 || count > (size_t)most) {
        err_set(e, ERR_INPUT, "%s: \"%s\" is no list of 1 to %d names", text_show(file), key, most);
        return NULL;
    }
    const char **v = mem_zalloc(count, sizeof *v, "names", e);
    for (size_t i = 0; v && i < count; i++) {
        v[i] = json_string_value(json_array_get(list, i));
        bool good = v[i] && v[i][0] && strlen(v[i]) < GROUP_LABEL;
        for (size_t k = 0; good && k < i; k++)
            good = strcmp(v[i], v[k]) != 0;
        if (!good) {
            err_set(e, ERR_INPUT,
                    "%s: entry %zu of \"%s\" is no name of 1 to %d bytes, or stands there twice",
                    text_show(file), i, key, GROUP_LABEL - 1);
            free(v);
            return NULL;
        }
    }
    *n = (int)count;
    return v;
}

static int place(const char *const *names, int n, const char *name) {
    for (int i = 0; name && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static bool read_next(const json_t *root, const char *file, const char *const *state, int n_states,
                      const char *const *input, int n_inputs, int32_t *next, err *e) {
    const json_t *table = json_object_get(root, "next");
    for (int s = 0; s < n_states; s++)
        for (int x = 0; x < n_inputs; x++) {
            const json_t *to = json_object_get(json_object_get(table, state[s]), input[x]);
            int at = place(state, n_states, json_string_value(to));
            if (at < 0)
                return err_set(e, ERR_INPUT,
                               "%s: \"next\" names no state for state \"%s\" and token \"%s\"",
                               text_show(file), text_show(state[s]), text_show(input[x]));
            next[s * n_inputs + x] = at;
        }
    return true;
}

static bool read_ids(const json_t *root, const char *key, const char *file,
                     char (*name)[GROUP_LABEL], int n, int32_t *id, err *e) {
    const json_t *map = json_object_get(root, key);
    char what[GROUP_LABEL + 32];
    for (int i = 0; map && i < n; i++) {
        snprintf(what, sizeof what, "\"%s\" of \"%.79s\"", key, name[i]);
        if (!read_id(json_object_get(map, name[i]), file, what, &id[i], e))
            return false;
    }
    return true;
}

static word_task *read_automaton(const json_t *root, const char *file, err *e) {
    int n_inputs = 0, n_states = 0;
    word_task *t = NULL;
    int32_t *next = NULL;
    const char *name = json_string_value(json_object_get(root, "automaton"));
    const char **input = read_names(root, "tokens", file, 1024, &n_inputs, e);
    const char **state = input ? read_names(root, "states", file, 1024, &n_states, e) : NULL;
    int start =
        state ? place(state, n_states, json_string_value(json_object_get(root, "start"))) : -1;
    if (state && start < 0)
        wrong(file, "\"start\" is none of the states", e);
    if (start >= 0)
        next = mem_alloc((size_t)n_inputs * (size_t)n_states, sizeof *next, "an automaton", e);
    if (next && read_next(root, file, state, n_states, input, n_inputs, next, e))
        t = task_of_automaton(name, n_inputs, input, n_states, state, start, next, e);
    if (t && (!read_prefix(root, file, t, e) || !read_origin(root, file, t, e) ||
              !read_ids(root, "ids", file, t->input, n_inputs, t->input_id, e) ||
              !read_ids(root, "answers", file, t->state, n_states, t->answer_id, e))) {
        task_free(t);
        t = NULL;
    }
    free(next);
    free(input);
    free(state);
    return t;
}

word_task *task_read(const char *file, err *e) {
    json_t *root = jsonio_read(file, TASK_BYTES, e);
    if (!root)
        return NULL;
    word_task *t = NULL;
    if (json_is_string(json_object_get(root, "automaton")))
        t = read_automaton(root, file, e);
    else if (json_object_get(root, "group"))
        t = read_group(root, file, e);
    else
        wrong(file, "neither \"automaton\" nor \"group\" names a word problem", e);
    json_decref(root);
    return t;
}

word_task *task_of_model(const char *path, err *e) {
    static const char *const names[] = {"group.json", "automaton.json"};
    char *folder = file_is_folder(path) ? mem_strdup(path, e) : file_folder(path, e);
    word_task *t = NULL;
    for (int i = 0; folder && i < 2; i++) {
        char *file = file_join(folder, names[i], e);
        bool there = file && file_exists(file);
        if (there)
            t = task_read(file, e);
        free(file);
        if (there || !file)
            break;
    }
    free(folder);
    return t;
}

// ---- writing ----------------------------------------------------------------------------------------

static json_t *names_json(char (*name)[GROUP_LABEL], int n) {
    json_t *list = json_array();
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad |= json_array_append_new(list, json_string(name[i]));
    if (bad) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *perms_json(const group *g) {
    json_t *list = json_array();
    for (int a = 0; a < g->size; a++) {
        json_t *row = json_array();
        for (int i = 0; i < g->degree; i++)
            json_array_append_new(row, json_integer(group_perm(g, a)[i]));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *map_json(char (*name)[GROUP_LABEL], const int32_t *id, int n) {
    json_t *map = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(map, name[i], json_integer(id[i]));
    return map;
}

static json_t *next_json(const word_task *t) {
    json_t *table = json_object();
    for (int s = 0; s < t->n_states; s++) {
        json_t *row = json_object();
        for (int x = 0; x < t->n_inputs; x++)
            json_object_set_new(row, t->input[x],
                                json_string(t->state[t->next[s * t->n_inputs + x]]));
        json_object_set_new(table, t->state[s], row);
    }
    return table;
}

json_t *task_json(const word_task *t) {
    json_t *j = json_object(), *prefix = json_array();
    int bad = 0;
    for (int i = 0; i < t->n_prefix; i++)
        bad |= json_array_append_new(prefix, json_integer(t->prefix[i]));
    if (t->g) {
        bad |= json_object_set_new(j, "group", json_string(t->g->name));
        bad |= json_object_set_new(j, "elements", perms_json(t->g));
        bad |= json_object_set_new(j, "names", names_json(t->input, t->n_inputs));
        bad |=
            json_object_set_new(j, "convention", json_string(t->left ? left_words : right_words));
    } else {
        bad |= json_object_set_new(j, "automaton", json_string(t->name));
        bad |= json_object_set_new(j, "tokens", names_json(t->input, t->n_inputs));
        bad |= json_object_set_new(j, "states", names_json(t->state, t->n_states));
        bad |= json_object_set_new(j, "start", json_string(t->state[t->start]));
        bad |= json_object_set_new(j, "next", next_json(t));
        bad |= json_object_set_new(j, "ids", map_json(t->input, t->input_id, t->n_inputs));
        bad |= json_object_set_new(j, "answers", map_json(t->state, t->answer_id, t->n_states));
    }
    if (t->n_prefix)
        bad |= json_object_set_new(j, "bos", json_integer(t->prefix[0]));
    bad |= json_object_set_new(j, "prefix", prefix);
    if (bad) {
        json_decref(j);
        return NULL;
    }
    return j;
}
