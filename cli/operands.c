#include "cli/operands.h"

#include "cli/commands.h"
#include "core/mem.h"
#include "core/text.h"
#include "core/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef enum { IS_MODEL, IS_DOCUMENT, IS_WRONG } operand_kind;

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

// False also, with *e set, where nobody can tell: the folder may not be entered, say.
static bool holds(const char *folder, const char *name, err *e) {
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = mem_alloc(n, 1, "a path", e);
    if (!path)
        return false;
    snprintf(path, n, "%s/%s", folder, name);
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR)
        err_set(e, ERR_IO, "%s: %s", text_show(path), err_system(errno));
    free(path);
    return there;
}

// "org/name", as models are called on a hub: one slash, no dot in front, the word before the slash
// no folder here.
static bool looks_like_hub(const char *s) {
    const char *slash = strchr(s, '/');
    if (!slash || slash == s || !slash[1] || strchr(slash + 1, '/') || s[0] == '.' || s[0] == '~')
        return false;
    for (const char *c = s; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/", *c))
            return false;
    static const char *const files[] = {".txt", ".jsonl", ".npy", ".json", ".safetensors", ".md"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (ends_with(s, files[i]))
            return false;
    char org[256];
    snprintf(org, sizeof org, "%.*s", (int)(slash - s), s);
    struct stat st;
    return stat(org, &st) != 0;
}

static operand_kind not_there(const char *s, err *e) {
    int why = errno;
    if (why != ENOENT && why != ENOTDIR)
        err_set(e, ERR_IO, "%s: %s", text_show(s), err_system(why));
    else if (looks_like_hub(s))
        err_set(e, ERR_MISSING,
                "%s: no such file or folder; a model is read from a local folder, so download it "
                "first if this is a name on a model hub",
                text_show(s));
    else
        err_set(e, ERR_MISSING, "%s: %s", text_show(s), err_system(ENOENT));
    return IS_WRONG;
}

// A folder with a tokenizer and nothing else.
static bool holds_tokenizer(const char *folder, err *e) {
    char *file = NULL;
    bool there = tokenizer_find(folder, &file, e) && file;
    free(file);
    return there;
}

static operand_kind classify(const command *c, const char *s, err *e) {
    if (strcmp(s, "-") == 0)
        return IS_DOCUMENT;
    if (!*s) {
        err_set(e, ERR_USAGE, "an empty word stands where a model or document is expected");
        return IS_WRONG;
    }
    struct stat st;
    if (stat(s, &st) != 0)
        return not_there(s, e);
    if (S_ISDIR(st.st_mode)) {
        bool config = holds(s, "config.json", e);
        if (e->code != ERR_NONE)
            return IS_WRONG;
        if (config || (c->tokenizer_is_model && holds_tokenizer(s, e)))
            return IS_MODEL;
        err_set(e, ERR_INPUT,
                "%s: a folder without config.json%s is no model, and a document is a file%s",
                text_show(s), c->tokenizer_is_model ? " or a tokenizer" : "",
                holds(s, "model.safetensors", e) || holds(s, "model.safetensors.index.json", e)
                    ? "; put the model's config.json beside its weights"
                    : "");
        return IS_WRONG;
    }
    if (ends_with(s, ".safetensors") || (c->tokenizer_is_model && tokenizer_is_file(s)))
        return IS_MODEL;
    static const char *const foreign[] = {".bin", ".pth", ".pt", ".gguf", ".ckpt", ".onnx"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (ends_with(s, foreign[i])) {
            err_set(e, ERR_INPUT, "%s: %s files are not read; convert the model to safetensors",
                    text_show(s), foreign[i]);
            return IS_WRONG;
        }
    return IS_DOCUMENT;
}

static bool check_number(const command *c, const char *noun, size_t n, int least, int most,
                         const char *first, err *e) {
    if (n < (size_t)least)
        return err_set(e, ERR_USAGE, "%s: %s %s is missing; usage: deltop %s [OPTIONS] %s", c->name,
                       n == 0 ? "a" : "another", noun, c->name, c->usage);
    if (most == 0 && n > 0)
        return err_set(e, ERR_USAGE,
                       "%s: takes no %s, but %s is one; usage: deltop %s [OPTIONS] %s", c->name,
                       noun, text_show(first), c->name, c->usage);
    if (most != ANY_NUMBER && n > (size_t)most)
        return err_set(e, ERR_USAGE, "%s: takes %d %s%s, got %zu; usage: deltop %s [OPTIONS] %s",
                       c->name, most, noun, most == 1 ? "" : "s", n, c->name, c->usage);
    return true;
}

// The values of the option that names documents; NULL: the command has none.
static const text_list *named_documents(const options *o) {
    const command *c = o->command;
    for (size_t i = 0; c->document_option && i < c->n_own; i++)
        if (strcmp(c->own[i].name, c->document_option) == 0)
            return (const text_list *)((const char *)o->own + c->own[i].at);
    return NULL;
}

static bool add_named(options *o, const text_list *named, size_t *dashes, err *e) {
    for (size_t i = 0; named && i < named->n; i++) {
        operand_kind k = classify(o->command, named->v[i], e);
        if (k == IS_WRONG)
            return false;
        if (k == IS_MODEL)
            return err_set(e, ERR_USAGE, "option --%s: %s is a model, not a document",
                           o->command->document_option, text_show(named->v[i]));
        o->document[o->n_documents++] = named->v[i];
        *dashes += strcmp(named->v[i], "-") == 0;
    }
    return true;
}

bool operands_split(options *o, err *e) {
    const command *c = o->command;
    if (c->words)
        return true;
    const text_list *named = named_documents(o);
    size_t n_named = named ? named->n : 0;
    if (o->n_operands + n_named == 0 && c->min_models + c->min_documents > 0)
        return err_set(e, ERR_USAGE, "%s: nothing to work on; usage: deltop %s [OPTIONS] %s",
                       c->name, c->name, c->usage);
    o->model = mem_zalloc(o->n_operands + 1, sizeof *o->model, "the command line", e);
    o->document =
        mem_zalloc(o->n_operands + n_named + 1, sizeof *o->document, "the command line", e);
    if (!o->model || !o->document)
        return false;
    size_t dashes = 0;
    for (size_t i = 0; i < o->n_operands; i++) {
        const char *s = o->operand[i];
        operand_kind k = classify(c, s, e);
        if (k == IS_WRONG)
            return false;
        if (k == IS_MODEL)
            o->model[o->n_models++] = s;
        else
            o->document[o->n_documents++] = s;
        dashes += strcmp(s, "-") == 0;
    }
    if (!add_named(o, named, &dashes, e))
        return false;
    if (dashes > 1)
        return err_set(e, ERR_USAGE, "%s: standard input (-) can be read only once", c->name);
    return check_number(c, "model", o->n_models, c->min_models, c->max_models,
                        o->n_models ? o->model[0] : "", e) &&
           check_number(c, "document", o->n_documents, c->min_documents, c->max_documents,
                        o->n_documents ? o->document[0] : "", e);
}
