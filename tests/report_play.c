#include "tests/report_play.h"

#include "tests/files.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_WORDS = 40 };

void report_unwrap(char *s) {
    char *to = s;
    while (*s) {
        size_t blanks = *s == '\n' ? strspn(s + 1, " ") : 0;
        *to++ = blanks ? ' ' : *s;
        s += 1 + blanks;
    }
    *to = 0;
}

run report_start(const char *const *words, int kill_after_ms) {
    const char *argv[MAX_WORDS + 2] = {"report"};
    run r = {.argv = argv, .timeout = 120};
    for (int i = 0; words[i] && i < MAX_WORDS; i++)
        argv[i + 1] = words[i];
    if (kill_after_ms) {
        r.signal = SIGKILL;
        r.signal_after = kill_after_ms / 1000.0;
    }
    assert_true(run_program(&r));
    r.argv = NULL;
    report_unwrap(r.out);
    return r;
}

run report_ends(int code, const char *const *words) {
    run r = report_start(words, 0);
    if (r.code != code)
        fail_msg("exit code %d, not %d: %s%s", r.code, code, r.out, r.err);
    return r;
}

// Keeps a path from files_path, whose buffers rotate.
const char *report_keep(const char *path) {
    static char kept[16][512];
    static int next;
    char *to = kept[next++ % 16];
    snprintf(to, sizeof kept[0], "%s", path);
    return to;
}

const char *report_folder(const char *name) {
    return report_keep(files_path("%s", name));
}

const char *report_model(tiny_model *m, const char *name) {
    const char *folder = report_keep(tiny_save(m, name));
    tiny_free(m);
    size_t n = 0;
    char *tokenizer = files_read(DN "/tokenizer.json", &n);
    files_write(files_path("%s/tokenizer.json", name), tokenizer, n);
    free(tokenizer);
    return folder;
}

report_lines report_read(const char *folder) {
    report_lines l = {0};
    size_t n = 0;
    char *text = files_read(files_path("%s/results.jsonl", folder), &n), *at = text;
    // files_path joins with the test's folder; OUT is below it.
    for (char *end; (end = strchr(at, '\n')); at = end + 1) {
        json_error_t why;
        l.v = realloc(l.v, (l.n + 1) * sizeof *l.v);
        l.v[l.n] = json_loadb(at, (size_t)(end - at), 0, &why);
        if (!l.v[l.n++])
            fail_msg("line %zu of results.jsonl: %s", l.n, why.text);
    }
    assert_int_equal(at - text, n); // the last line ends too
    free(text);
    return l;
}

void report_free_lines(report_lines *l) {
    for (size_t i = 0; i < l->n; i++)
        json_decref(l->v[i]);
    free(l->v);
}

// -1: without the key.
const json_t *report_fact(const report_lines *l, const char *name, const char *model, int layer,
                          int head, int64_t position, int row) {
    const json_t *found = NULL;
    for (size_t i = 0; i < l->n; i++) {
        const json_t *v = l->v[i], *x;
#define IS(key, want)                                                                              \
    ((x = json_object_get(v, key)) ? json_integer_value(x) == (want) : (want) == -1)
        if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0 &&
            strcmp(json_string_value(json_object_get(v, "model")), model) == 0 &&
            IS("layer", layer) && IS("head", head) && IS("position", position) && IS("row", row)) {
            assert_null(found); // a fact stands once
            found = v;
        }
#undef IS
    }
    if (!found)
        fail_msg("no fact %s of %s L%d.H%d at %lld row %d", name, model, layer, head,
                 (long long)position, row);
    return found;
}

double report_value(const report_lines *l, const char *name, const char *model, int layer, int head,
                    int64_t position, int row) {
    const json_t *v =
        json_object_get(report_fact(l, name, model, layer, head, position, row), "value");
    return json_is_null(v) ? NAN : json_number_value(v);
}
