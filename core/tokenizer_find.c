// Which file of a folder holds the tokenizer, and what to say when none does.
#include "core/mem.h"
#include "core/tok.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *tok_join(const char *folder, const char *name, err *e) {
    size_t n = strlen(folder), size = n + strlen(name) + 2;
    char *p = mem_alloc(size, 1, "a path", e);
    if (p)
        snprintf(p, size, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
    return p;
}

static const char *show_path(const char *path) {
    return tok_show(path, strlen(path));
}

static bool fits(const char *name, const char *start, const char *end) {
    size_t n = strlen(name), a = strlen(start), b = strlen(end);
    return n >= a + b && !strncmp(name, start, a) && !strcmp(name + n - b, end);
}

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

tok_format tok_format_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return fits(name, "rwkv_vocab", ".txt") ? TOK_WORLD
           : fits(name, "", ".model")       ? TOK_SPM
                                            : TOK_JSON;
}

bool tokenizer_is_file(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return !strcmp(name, "tokenizer.json") || tok_format_of(path) != TOK_JSON;
}

// The last of the vocabularies in the folder, as their names end in a date. False: out of memory.
static bool find_world(const char *folder, char **found, err *e) {
    DIR *d = opendir(folder);
    char last[256] = "";
    for (struct dirent *f; d && (f = readdir(d));)
        if (fits(f->d_name, "rwkv_vocab", ".txt") && strcmp(f->d_name, last) > 0)
            snprintf(last, sizeof last, "%s", f->d_name);
    if (d)
        closedir(d);
    return !last[0] || (*found = tok_join(folder, last, e)) != NULL;
}

bool tokenizer_find(const char *folder, char **file, err *e) {
    static const char *const names[] = {"tokenizer.json", NULL, "tokenizer.model", "spiece.model",
                                        "sentencepiece.bpe.model"};
    *file = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!names[i]) {
            if (!find_world(folder, file, e))
                return false;
        } else if (!(*file = tok_join(folder, names[i], e))) {
            return false;
        }
        if (*file && is_file(*file))
            return true;
        free(*file);
        *file = NULL;
    }
    return true;
}

// "tokenizer_class KimiTokenizer": code that comes with the model and that nobody here runs.
static bool name_class(const char *folder, err *e) {
    char *path = tok_join(folder, "tokenizer_config.json", NULL);
    json_t *config = path ? json_load_file(path, JSON_DECODE_INT_AS_REAL, NULL) : NULL;
    const char *kind = json_string_value(json_object_get(config, "tokenizer_class"));
    bool own = json_is_object(json_object_get(config, "auto_map"));
    bool said = kind != NULL;
    if (kind)
        err_set(e, ERR_MISSING,
                "%s: no tokenizer.json in this folder, and its tokenizer_class %s %s; save the "
                "tokenizer as tokenizer.json, or make the ids with it and pass them as .npy",
                show_path(folder), tok_show(kind, strlen(kind)),
                own ? "is code of the model's own, which is not run" : "has no file here to read");
    json_decref(config);
    free(path);
    return said;
}

bool tok_explain_missing(const char *folder, err *e) {
    static const struct {
        const char *start, *end, *say;
    } hints[] = {
        {"merges", ".txt",
         "vocab.json and merges.txt are not read: convert them to tokenizer.json"},
        {"vocab", ".txt", "WordPiece vocabularies are not read: pass token ids as .npy"},
        {"", ".tiktoken", "tiktoken files are not read: convert it to tokenizer.json"},
        {"tiktoken", ".model", "tiktoken files are not read: convert it to tokenizer.json"},
    };
    DIR *d = opendir(folder);
    if (!d)
        return err_set(e, ERR_IO, "%s: %s", show_path(folder), err_system(errno));
    char seen[256] = "";
    size_t which = sizeof hints / sizeof *hints;
    for (struct dirent *f; (f = readdir(d));)
        for (size_t k = 0; k < which; k++)
            if (fits(f->d_name, hints[k].start, hints[k].end)) {
                snprintf(seen, sizeof seen, "%s", f->d_name);
                which = k;
            }
    closedir(d);
    if (seen[0])
        return err_set(e, ERR_MISSING, "%s: no tokenizer.json in this folder; %s found, but %s",
                       show_path(folder), show_path(seen), hints[which].say);
    if (name_class(folder, e))
        return false;
    return err_set(e, ERR_MISSING,
                   "%s: no tokenizer.json in this folder (and no rwkv_vocab_*.txt, no "
                   "tokenizer.model); copy the model's own there, or pass token ids as .npy",
                   show_path(folder));
}
