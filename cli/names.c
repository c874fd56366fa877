#include "cli/names.h"

#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utf8proc.h>

// Extensions that say how to read a file, not what it is.
static const char *const extensions[] = {".safetensors", ".jsonl", ".json", ".txt", ".npy"};

typedef struct parts {
    char base[256], parent[256];
} parts;

static void last_part(const char *s, size_t n, char *buf, size_t size) {
    size_t from = n;
    while (from > 0 && s[from - 1] != '/')
        from--;
    size_t len = n - from < size - 1 ? n - from : size - 1;
    memcpy(buf, s + from, len);
    buf[len] = 0;
}

// A name becomes a folder and stands in JSON and in pictures: bytes that disturb a shell, a file
// system or a reader become '_', and it never starts with a dot. Visible UTF-8 stays.
static void make_safe(char *s) {
    utf8proc_uint8_t *u = (utf8proc_uint8_t *)s;
    while (*u) {
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t len = utf8proc_iterate(u, -1, &c);
        utf8proc_category_t kind = len > 0 ? utf8proc_category(c) : UTF8PROC_CATEGORY_CC;
        bool bad = kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
                   kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP ||
                   (c < 0x80 && strchr(" /\\\"'`*?<>|:;&$", (int)c));
        for (utf8proc_ssize_t i = 0; i < (len > 0 ? len : 1); i++, u++)
            if (bad)
                *u = '_';
    }
    if (s[0] == '.' || s[0] == '-')
        s[0] = '_';
}

static void split(const char *path, parts *p) {
    if (strcmp(path, "-") == 0) {
        snprintf(p->base, sizeof p->base, "stdin");
        p->parent[0] = 0;
        return;
    }
    // "." and ".." are named after the folder they mean.
    char *real = NULL;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    last_part(path, n, p->base, sizeof p->base);
    if (strcmp(p->base, ".") == 0 || strcmp(p->base, "..") == 0 || !p->base[0]) {
        real = realpath(path, NULL);
        if (real) {
            path = real;
            n = strlen(path);
            last_part(path, n, p->base, sizeof p->base);
        }
    }
    size_t up = n;
    while (up > 0 && path[up - 1] != '/')
        up--;
    while (up > 0 && path[up - 1] == '/')
        up--;
    last_part(path, up, p->parent, sizeof p->parent);
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        size_t len = strlen(p->base);
        for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++) {
            size_t m = strlen(extensions[i]);
            if (len > m && strcmp(p->base + len - m, extensions[i]) == 0) {
                p->base[len - m] = 0;
                break;
            }
        }
        // "run7/model.safetensors" and "run7/tokenizer.json" are run7.
        if ((strcmp(p->base, "model") == 0 || strcmp(p->base, "tokenizer") == 0) && p->parent[0] &&
            strcmp(p->parent, ".") != 0 && strcmp(p->parent, "..") != 0)
            memcpy(p->base, p->parent, sizeof p->base);
    }
    free(real);
    make_safe(p->base);
    make_safe(p->parent);
    if (!p->base[0])
        snprintf(p->base, sizeof p->base, "root");
}

static bool taken(char *const *names, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

char **names_of_paths(const char *const *path, size_t n, err *e) {
    parts *p = mem_zalloc(n, sizeof *p, "names", e);
    char **out = mem_zalloc(n + 1, sizeof *out, "names", e);
    if (!p || !out)
        goto failed;
    for (size_t i = 0; i < n; i++)
        split(path[i], &p[i]);
    for (size_t i = 0; i < n; i++) {
        bool alone = true;
        for (size_t j = 0; j < n; j++)
            alone = alone && (j == i || strcmp(p[i].base, p[j].base) != 0);
        char name[600];
        if (alone || !p[i].parent[0])
            snprintf(name, sizeof name, "%s", p[i].base);
        else
            snprintf(name, sizeof name, "%s-%s", p[i].parent, p[i].base);
        size_t len = strlen(name);
        for (size_t k = 2; taken(out, i, name); k++)
            snprintf(name + len, sizeof name - len, "-%zu", k);
        out[i] = mem_strdup(name, e);
        if (!out[i])
            goto failed;
    }
    free(p);
    return out;
failed:
    free(p);
    names_free(out, n);
    return NULL;
}

void names_free(char **names, size_t n) {
    for (size_t i = 0; names && i < n; i++)
        free(names[i]);
    free(names);
}
