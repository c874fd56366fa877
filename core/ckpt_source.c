#include "core/ckpt_source.h"

#include "core/file.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SINGLE[] = "model.safetensors";
static const char INDEX[] = "model.safetensors.index.json";
static const char WEIGHTS[] = ".safetensors";
enum { INDEX_MAX = 100 << 20 };

// File kinds that hold weights but are not read here, with what to do.
static const char *other_kind(const char *name) {
    static const char *const torch[] = {".bin", ".pth", ".pt", ".ckpt"};
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        if (file_ends_with(name, torch[i]))
            return "is a PyTorch pickle, which can run code when read: save the model as "
                   "safetensors first";
    if (file_ends_with(name, ".gguf"))
        return "is a GGUF file (mostly quantised): use the safetensors files it was made from";
    if (file_ends_with(name, ".npz") || file_ends_with(name, ".h5") ||
        file_ends_with(name, ".msgpack") || file_ends_with(name, ".onnx"))
        return "is not a safetensors file: save the model as safetensors first";
    return NULL;
}

// "model-00002-of-00003.safetensors": the 3; 0 for other names.
static int shards_of(const char *name) {
    const char *of = strstr(name, "-of-");
    int total = 0, used = 0;
    if (of && sscanf(of, "-of-%d%n", &total, &used) == 1 && strcmp(of + used, WEIGHTS) == 0)
        return total > 0 ? total : 0;
    return 0;
}

bool ckpt_source_note(ckpt_source *s, err *e, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!mem_grow((void **)&s->notes, &s->cap_notes, s->n_notes + 1, sizeof *s->notes, "notes", e))
        return false;
    char *copy = mem_strdup(text, e);
    if (!copy)
        return false;
    s->notes[s->n_notes++] = copy;
    return true;
}

static bool add_file_take(ckpt_source *s, char *path, err *e) {
    if (!path)
        return false;
    if (!mem_grow((void **)&s->files, &s->cap, s->n + 1, sizeof *s->files, "a list of files", e)) {
        free(path);
        return false;
    }
    s->files[s->n++] = path;
    return true;
}

void ckpt_source_free(ckpt_source *s) {
    for (size_t i = 0; i < s->n; i++)
        free(s->files[i]);
    for (size_t i = 0; i < s->n_notes; i++)
        free(s->notes[i]);
    free(s->files);
    free(s->notes);
    free(s->index_path);
    json_decref(s->index);
    json_decref(s->places);
    memset(s, 0, sizeof *s);
}

// Names in FOLDER that `want` accepts, in natural order.
typedef struct names {
    char **v;
    size_t n, cap;
} names;

static void names_free(names *x) {
    for (size_t i = 0; i < x->n; i++)
        free(x->v[i]);
    free(x->v);
    memset(x, 0, sizeof *x);
}

static int by_name(const void *a, const void *b) {
    return text_natural_cmp(*(char *const *)a, *(char *const *)b);
}

static bool is_weights(const char *name) {
    return name[0] != '.' && file_ends_with(name, WEIGHTS);
}

static bool is_other(const char *name) {
    return name[0] != '.' && other_kind(name) != NULL && strcmp(name, "training_args.bin") != 0;
}

static bool names_list(const char *folder, bool (*want)(const char *), names *out, err *e) {
    memset(out, 0, sizeof *out);
    DIR *d = opendir(folder);
    if (!d)
        return err_set(e, ERR_IO, "%s: %s", text_show(folder), err_system(errno));
    bool ok = true;
    for (struct dirent *x; ok && (x = readdir(d));) {
        if (!want(x->d_name))
            continue;
        char *copy = mem_strdup(x->d_name, e);
        ok = copy && mem_grow((void **)&out->v, &out->cap, out->n + 1, sizeof *out->v,
                              "a list of files", e);
        if (ok)
            out->v[out->n++] = copy;
        else
            free(copy);
    }
    closedir(d);
    if (out->n > 1)
        qsort(out->v, out->n, sizeof *out->v, by_name);
    if (!ok)
        names_free(out);
    return ok;
}

// A shard's name comes from a downloaded file: it must stay inside the folder.
static bool stays_inside(const char *name) {
    if (name[0] == '/' || name[0] == 0)
        return false;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == 0))
            return false;
    }
    return true;
}

static bool read_map(ckpt_source *s, const char *folder, err *e) {
    const char *file = text_show(s->index_path);
    s->map = json_object_get(s->index, "weight_map");
    if (!json_is_object(s->map))
        return err_set(e, ERR_INPUT, "%s: weight_map is %s, need an object", file,
                       jsonio_kind(s->map));
    if (json_object_size(s->map) == 0)
        return err_set(e, ERR_INPUT, "%s: weight_map names no tensor", file);
    s->places = json_object();
    if (!s->places)
        return err_set(e, ERR_NOMEM, "%s: out of memory", file);
    for (void *it = json_object_iter(s->map); it; it = json_object_iter_next(s->map, it)) {
        const json_t *v = json_object_iter_value(it);
        const char *shard = json_string_value(v);
        if (!shard)
            return err_set(e, ERR_INPUT, "%s: weight_map: %s is %s, need a file name", file,
                           text_show(json_object_iter_key(it)), jsonio_kind(v));
        if (json_object_get(s->places, shard))
            continue;
        if (!stays_inside(shard))
            return err_set(e, ERR_INPUT, "%s: weight_map: file \"%s\" lies outside the folder",
                           file, text_show(shard));
        if (!add_file_take(s, file_join(folder, shard, e), e))
            return false;
        if (json_object_set_new_nocheck(s->places, shard, json_integer((json_int_t)s->n - 1)) != 0)
            return err_set(e, ERR_NOMEM, "%s: out of memory", file);
    }
    return true;
}

static bool shards_exist(const ckpt_source *s, err *e) {
    size_t missing = 0;
    const char *first = NULL;
    for (size_t i = 0; i < s->n; i++)
        if (!file_exists(s->files[i])) {
            missing++;
            first = first ? first : s->files[i];
        }
    if (missing == 0)
        return true;
    return err_set(e, ERR_MISSING,
                   "%s: the index names this file, but it is not there (%zu of %zu "
                   "files missing)",
                   text_show(first), missing, s->n);
}

static bool note_strays(ckpt_source *s, const char *folder, err *e) {
    names all;
    if (!names_list(folder, is_weights, &all, e))
        return false;
    size_t strays = 0;
    const char *first = NULL;
    for (size_t i = 0; i < all.n; i++)
        if (!json_object_get(s->places, all.v[i])) {
            strays++;
            first = first ? first : all.v[i];
        }
    bool ok = true;
    if (strays == 1)
        ok = ckpt_source_note(s, e, "%s is beside an index that does not name it, and was not read",
                              text_show(first));
    else if (strays > 1)
        ok = ckpt_source_note(
            s, e, "%s and %zu more are beside an index that does not name them, and were not read",
            text_show(first), strays - 1);
    names_free(&all);
    return ok;
}

static bool from_index(ckpt_source *s, const char *folder, err *e) {
    s->index = jsonio_read(s->index_path, INDEX_MAX, e);
    return s->index && read_map(s, folder, e) && shards_exist(s, e) && note_strays(s, folder, e);
}

static bool from_folder(ckpt_source *s, const char *folder, err *e) {
    s->index_path = file_join(folder, INDEX, e);
    if (!s->index_path)
        return false;
    if (file_exists(s->index_path))
        return from_index(s, folder, e);
    free(s->index_path);
    s->index_path = NULL;
    char *single = file_join(folder, SINGLE, e);
    if (!single)
        return false;
    if (file_exists(single))
        return add_file_take(s, single, e);
    free(single);
    names all, other;
    if (!names_list(folder, is_weights, &all, e))
        return false;
    bool ok = false;
    const char *where = text_show(folder);
    if (all.n == 1 && shards_of(all.v[0]) <= 1)
        ok = add_file_take(s, file_join(folder, all.v[0], e), e);
    else if (all.n > 0 && shards_of(all.v[0]) > 0)
        err_set(e, ERR_MISSING, "%s: holds %s (%zu of %d shards) but no %s", where,
                text_show(all.v[0]), all.n, shards_of(all.v[0]), INDEX);
    else if (all.n > 0)
        err_set(e, ERR_INPUT,
                "%s: holds %zu .safetensors files (%s, %s%s) and no index: name the one to read",
                where, all.n, text_show(all.v[0]), text_show(all.v[1]), all.n > 2 ? ", ..." : "");
    else if (names_list(folder, is_other, &other, e)) {
        if (other.n > 0)
            err_set(e, ERR_UNSUPPORTED, "%s: holds no .safetensors file; %s %s", where,
                    text_show(other.v[0]), other_kind(other.v[0]));
        else
            err_set(e, ERR_MISSING, "%s: no .safetensors file in this folder", where);
        names_free(&other);
    }
    names_free(&all);
    return ok;
}

// "org/name" that is no path: one slash, and the part in front of it is no folder here.
static bool looks_like_hub_name(const char *path) {
    const char *slash = strchr(path, '/');
    if (!slash || slash == path || !slash[1] || strchr(slash + 1, '/') || path[0] == '.' ||
        path[0] == '~' || file_ends_with(path, WEIGHTS))
        return false;
    char first[256];
    if ((size_t)(slash - path) >= sizeof first)
        return false;
    memcpy(first, path, (size_t)(slash - path));
    first[slash - path] = 0;
    return !file_exists(first);
}

static bool find(ckpt_source *s, const char *path, err *e) {
    const char *kind = other_kind(path);
    if (file_is_folder(path))
        return from_folder(s, path, e);
    if (!file_exists(path)) {
        if (looks_like_hub_name(path))
            return err_set(e, ERR_MISSING,
                           "%s: no such file or folder. If this is a model on a hub, download it "
                           "first and give the folder",
                           text_show(path));
        return err_set(e, ERR_MISSING, "%s: %s", text_show(path), err_system(ENOENT));
    }
    if (kind)
        return err_set(e, ERR_UNSUPPORTED, "%s: %s", text_show(path), kind);
    if (file_ends_with(path, ".json"))
        return err_set(e, ERR_INPUT, "%s: is JSON, not weights: give its folder or a %s file",
                       text_show(path), WEIGHTS);
    if (!add_file_take(s, mem_strdup(path, e), e))
        return false;
    char base[256];
    int total = shards_of(file_base(path, base, sizeof base));
    return total <= 1 || ckpt_source_note(s, e,
                                          "%s is one of %d shards; the others were not read "
                                          "(give the folder to read all)",
                                          text_show(base), total);
}

bool ckpt_source_find(const char *path, ckpt_source *s, err *e) {
    memset(s, 0, sizeof *s);
    if (find(s, path, e))
        return true;
    ckpt_source_free(s);
    return false;
}
