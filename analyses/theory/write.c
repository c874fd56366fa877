// A construction becomes a folder: the model, its word problem, and a tokenizer of whole words.
#include "analyses/theory/theory.h"

#include "core/file.h"
#include "core/npy.h"
#include "core/outfile.h"
#include "core/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(err *e) {
    return err_set(e, ERR_NOMEM, "out of memory: a JSON file");
}

// Takes value; NULL is a failed allocation.
static bool save(const char *folder, const char *name, json_t *value, size_t flags, err *e) {
    char *path = file_join(folder, name, e);
    char *text = value ? json_dumps(value, flags) : NULL;
    bool ok = path && (text || no_memory(e)) && outfile_save(path, text, strlen(text), e);
    free(text);
    free(path);
    json_decref(value);
    return ok;
}

static bool is_input(const word_task *t, const char *name) {
    for (int i = 0; i < t->n_inputs; i++)
        if (strcmp(t->input[i], name) == 0)
            return true;
    return false;
}

// Text of each id: inputs, "<bos>", "<bos2>" ..., states; a state called like an input gets "=" in
// front.
static void words_of(const word_task *t, char (*word)[GROUP_LABEL], int n) {
    for (int i = 0; i < n; i++)
        snprintf(word[i], GROUP_LABEL, "<unused%d>", i);
    for (int i = 0; i < t->n_states; i++)
        snprintf(word[t->answer_id[i]], GROUP_LABEL, is_input(t, t->state[i]) ? "=%.70s" : "%s",
                 t->state[i]);
    for (int i = 0; i < t->n_inputs; i++)
        snprintf(word[t->input_id[i]], GROUP_LABEL, "%s", t->input[i]);
    for (int i = 0; i < t->n_prefix; i++)
        snprintf(word[t->prefix[i]], GROUP_LABEL, i ? "<bos%d>" : "<bos>", i + 1);
}

// Words are added tokens: text is cut at them wherever they stand, and blanks between them vanish,
// because the byte-pair part knows no piece for a blank.
static json_t *tokenizer(char (*word)[GROUP_LABEL], int n, const word_task *t) {
    json_t *vocab = json_object(), *added = json_array(), *single = json_array(),
           *special = json_object();
    int bad = 0;
    for (int i = 0; i < n; i++) {
        bool is_prefix = i >= t->prefix[0] && i < t->prefix[0] + t->n_prefix;
        bad |= json_object_set_new(vocab, word[i], json_integer(i));
        bad |= json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                                      i, "content", word[i], "single_word", 0,
                                                      "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                      "special", (int)is_prefix));
    }
    for (int i = 0; i < t->n_prefix; i++) {
        const char *w = word[t->prefix[i]];
        bad |= json_array_append_new(
            single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", w, "type_id", 0));
        bad |= json_object_set_new(
            special, w,
            json_pack("{s:s, s:[i], s:[s]}", "id", w, "ids", t->prefix[i], "tokens", w));
    }
    bad |= json_array_append_new(single,
                                 json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    json_t *pair = json_deep_copy(single);
    bad |= json_array_append_new(pair,
                                 json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1));
    json_t *root = json_pack(
        "{s:s, s:n, s:n, s:o, s:n, s:n, s:{s:s, s:o, s:o, s:o}, s:n, s:{s:s, s:n, s:n, s:n, s:n, "
        "s:b, s:b, s:b, s:o, s:[]}}",
        "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
        "pre_tokenizer", "post_processor", "type", "TemplateProcessing", "single", single, "pair",
        pair, "special_tokens", special, "decoder", "model", "type", "BPE", "dropout", "unk_token",
        "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
        "ignore_merges", 0, "vocab", vocab, "merges");
    if (bad) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static json_t *task_with_name(const theory_built *b, const char *name) {
    json_t *j = task_json(b->task);
    if (j && (json_object_set_new(j, "theory", json_string(name)) != 0 ||
              json_object_set_new(j, "train_length",
                                  json_integer((json_int_t)b->task->train_length)) != 0)) {
        json_decref(j);
        return NULL;
    }
    return j;
}

enum { SAMPLE = 4096 };

// One random word with its prefix, as token ids: something to read for erank, spectrum and loss.
static bool save_sample(const char *folder, const word_task *t, err *e) {
    int32_t ids[TASK_MAX_PREFIX + SAMPLE];
    uint64_t seed = 1;
    int64_t n = 0;
    for (int i = 0; i < t->n_prefix; i++)
        ids[n++] = t->prefix[i];
    for (int i = 0; i < SAMPLE; i++)
        ids[n++] = t->input_id[random_below(&seed, t->n_inputs)];
    char *path = file_join(folder, "sample.npy", e);
    bool ok = path && npy_write(path, NPY_I4, 1, &n, ids, e);
    free(path);
    return ok;
}

bool theory_write(const theory_built *b, const char *name, const char *folder, err *e) {
    int n = b->m->s.n_vocab;
    char(*word)[GROUP_LABEL] = malloc((size_t)n * sizeof *word);
    if (!word)
        return no_memory(e);
    words_of(b->task, word, n);
    const char *bos = word[b->task->prefix[0]];
    bool ok = product_save(b->m, folder, e) &&
              save(folder, "tokenizer.json", tokenizer(word, n, b->task), JSON_INDENT(1), e) &&
              save(folder, "tokenizer_config.json",
                   json_pack("{s:s, s:s, s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                             "bos_token", bos, "eos_token", bos, "clean_up_tokenization_spaces", 0),
                   JSON_INDENT(1), e) &&
              save(folder, task_file_name(b->task), task_with_name(b, name), JSON_COMPACT, e) &&
              save_sample(folder, b->task, e);
    free(word);
    return ok;
}
