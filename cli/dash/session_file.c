#include "cli/dash/session_file.h"

#include "cli/output.h"
#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/outfile.h"
#include "core/sha256.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SESSION_MOST = 1 << 20, FORMAT = 1 };

bool session_path(const char *name, char *buf, size_t size, err *e) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (strchr(name, '/') || file_ends_with(name, ".json")) {
        snprintf(buf, size, "%s", name);
        return true;
    }
    if (!*name)
        name = "last";
    if (state && *state)
        snprintf(buf, size, "%s/deltop/%s.json", state, name);
    else if (home && *home)
        snprintf(buf, size, "%s/.local/state/deltop/%s.json", home, name);
    else
        return err_set(e, ERR_IO,
                       "neither XDG_STATE_HOME nor HOME is set: give the session a path");
    return true;
}

// SHA-256 of the headers of all files: names, shapes and places of tensors, not their numbers.
static void header_sum(const card *c, char out[65]) {
    sha256 s;
    sha256_init(&s);
    for (int i = 0; i < ckpt_files(c->x.c); i++) {
        FILE *f = fopen(ckpt_file(c->x.c, i), "rb");
        unsigned char piece[4096], size[8] = {0};
        uint64_t n = 0;
        if (f && fread(size, 1, 8, f) == 8)
            for (int k = 7; k >= 0; k--)
                n = n << 8 | size[k];
        sha256_add(&s, size, 8);
        for (size_t k; f && n > 0 &&
                       (k = fread(piece, 1, n < sizeof piece ? (size_t)n : sizeof piece, f)) > 0;
             n -= k)
            sha256_add(&s, piece, k);
        if (f)
            fclose(f);
    }
    sha256_hex(&s, out);
}

static json_t *heads_json(const head_ref *v, int n) {
    json_t *a = json_array();
    for (int i = 0; a && i < n; i++)
        json_array_append_new(a, json_pack("[ii]", v[i].layer, v[i].head));
    return a;
}

static json_t *models_json(const dash *d) {
    json_t *a = json_array();
    for (int i = 0; a && i < d->in.n_models; i++) {
        char sum[65];
        header_sum(d->in.model[i], sum);
        json_array_append_new(
            a, json_pack("{s:o,s:I,s:s}", "path", output_json_text(d->in.model[i]->path), "bytes",
                         (json_int_t)d->in.model[i]->x.bytes, "header_sha256", sum));
    }
    return a;
}

bool session_save(const dash *d, const reading *text, const char *path, err *e) {
    json_t *document = json_null();
    if (d->in.document)
        document =
            json_pack("{s:o,s:I,s:s}", "path", output_json_text(d->in.document), "bytes",
                      (json_int_t)(text ? text->d.bytes : 0), "sha256", text ? text->d.sha256 : "");
    json_t *j = json_pack(
        "{s:i,s:s,s:o,s:o,s:I,s:[I,I],s:[i,i],s:i,s:i,s:b,s:s,s:I,s:I,s:i,s:b,s:b,s:o,s:o,s:o,s:o}",
        "format", FORMAT, "version", DELTOP_VERSION, "models", models_json(d), "document", document,
        "cursor", (json_int_t)d->t, "view", (json_int_t)d->t0, (json_int_t)d->t1, "head", d->layer,
        d->head, "open", (int)d->open, "focus", d->focus, "zoom", (int)d->zoom, "metric",
        metric_name(d->look.metric), "window", (json_int_t)d->look.W, "smooth",
        (json_int_t)d->look.smooth, "compare", (int)d->look.compare, "table", (int)d->look.table,
        "follow", (int)d->follow, "marks", heads_json(d->mark, d->n_marks), "off",
        heads_json(d->want.off, d->want.n_off), "filter", output_json_text(d->look.filter), "find",
        output_json_text(d->search.text));
    char *dump = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    json_decref(j);
    if (!dump)
        return err_set(e, ERR_NOMEM, "out of memory: a session");
    char *folder = file_folder(path, e);
    bool ok = folder && output_make_folder(folder, e);
    outfile *o = ok ? outfile_open(path, e) : NULL;
    ok = o && outfile_write(o, dump, strlen(dump), e) && outfile_write(o, "\n", 1, e) &&
         outfile_commit(o, e);
    outfile_close(o);
    free(folder);
    free(dump);
    return ok;
}

// Values with defaults: a session of another version or changed by hand is taken as far as it goes.
static int64_t whole(const json_t *j, const char *key, int64_t otherwise) {
    const json_t *v = json_object_get(j, key);
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

static int64_t item(const json_t *j, const char *key, size_t i) {
    const json_t *v = json_array_get(json_object_get(j, key), i);
    return json_is_integer(v) ? json_integer_value(v) : 0;
}

static const char *word(const json_t *j, const char *key) {
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

static json_t *load(const char *path, err *e) {
    json_t *j = jsonio_read(path, SESSION_MOST, e);
    if (j && (!json_is_object(j) || whole(j, "format", 0) != FORMAT)) {
        err_set(e, ERR_INPUT, "%s: is no session of this program", text_show(path));
        json_decref(j);
        return NULL;
    }
    return j;
}

bool session_inputs(const char *path, char *models[MODELS_MOST], int *n, char **document, err *e) {
    json_t *j = load(path, e);
    *n = 0;
    *document = NULL;
    if (!j)
        return false;
    const json_t *list = json_object_get(j, "models");
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(list) && *n < MODELS_MOST; i++) {
        const char *s = word(json_array_get(list, i), "path");
        ok = !*s || (models[(*n)++] = mem_strdup(s, e)) != NULL;
    }
    const char *s = word(json_object_get(j, "document"), "path");
    if (ok && *s)
        ok = (*document = mem_strdup(s, e)) != NULL;
    if (ok && *n == 0)
        ok = err_set(e, ERR_INPUT, "%s: names no model", text_show(path));
    json_decref(j);
    return ok;
}

static int heads(const dash *d, const json_t *list, head_ref *out, int most) {
    int n = 0;
    const card *c = dash_card(d);
    for (size_t i = 0; c && i < json_array_size(list) && n < most; i++) {
        const json_t *v = json_array_get(list, i);
        int64_t L = json_integer_value(json_array_get(v, 0)),
                h = json_integer_value(json_array_get(v, 1));
        if (L >= 0 && L < c->n_layers && h >= 0 && h < c->heads[L])
            out[n++] = (head_ref){(int)L, (int)h};
    }
    return n;
}

bool session_restore(dash *d, const char *path, err *e) {
    json_t *j = load(path, e);
    if (!j)
        return false;
    const json_t *models = json_object_get(j, "models");
    for (int i = 0; i < d->in.n_models; i++) {
        char sum[65];
        header_sum(d->in.model[i], sum);
        const char *was = word(json_array_get(models, (size_t)i), "header_sha256");
        if (*was && strcmp(was, sum) != 0)
            dash_say(d, '!', "%s has changed since the session was saved", d->in.model[i]->name);
    }
    d->t = whole(j, "cursor", 0);
    d->t = d->t < 0 ? 0 : d->t;
    d->follow = json_is_true(json_object_get(j, "follow"));
    d->t0 = item(j, "view", 0);
    d->t1 = item(j, "view", 1);
    if (d->t0 < 0 || d->t1 < 0 || d->t0 >= d->t1)
        d->t0 = d->t1 = 0;
    int64_t compare_as = whole(j, "compare", 0);
    if (d->in.n_models > 1 && compare_as >= 0 && compare_as < COMPARES) {
        d->look.compare = (compare)compare_as;
        d->in.slot = d->look.compare == COMPARE_B ? 1 : 0;
    }
    dash_head(d, (int)item(j, "head", 0), (int)item(j, "head", 1));
    unsigned open = (unsigned)whole(j, "open", d->open) & ((1u << PANELS) - 1);
    int64_t focus = whole(j, "focus", 1);
    if (open && focus >= 0 && focus < PANELS && open >> focus & 1) {
        d->open = open;
        d->focus = (int)focus;
    }
    d->zoom = json_is_true(json_object_get(j, "zoom"));
    d->look.table = json_is_true(json_object_get(j, "table"));
    metric m;
    if (metric_find(word(j, "metric"), &m))
        d->look.metric = m;
    int64_t W = whole(j, "window", d->look.W), smooth = whole(j, "smooth", d->look.smooth);
    d->look.W = W >= 1 && W <= 512 ? W : d->look.W;
    d->look.smooth = smooth >= 0 && smooth <= 1000000 ? smooth : d->look.smooth;
    d->n_marks = heads(d, json_object_get(j, "marks"), d->mark, MARKS_MOST);
    d->want.n_off = heads(d, json_object_get(j, "off"), d->want.off, OFF_MOST);
    d->want.generation = d->want.n_off ? d->want.next_generation++ : 0;
    snprintf(d->look.filter, sizeof d->look.filter, "%s", word(j, "filter"));
    snprintf(d->search.text, sizeof d->search.text, "%s", word(j, "find"));
    json_decref(j);
    return true;
}

void session_check_document(dash *d, const reading *text, const char *path) {
    err e = {0};
    json_t *j = load(path, &e);
    const char *was = word(json_object_get(j, "document"), "sha256");
    if (*was && strcmp(was, text->d.sha256) != 0)
        dash_say(d, '!',
                 "%s has changed since the session was saved: positions may mean something else",
                 text_show(text->d.name));
    json_decref(j);
}
