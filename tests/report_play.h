// tests/report_play.h - deltop report as users run it on examples/, and the facts that it leaves.
#ifndef DELTOP_TESTS_REPORT_PLAY_H
#define DELTOP_TESTS_REPORT_PLAY_H

#include "tests/run.h"
#include "tests/tiny_model.h"

#include <jansson.h>
#include <stdint.h>

#define DN   "examples/small-deltanet"
#define DP   "examples/small-deltaproduct2"
#define GDP  "examples/small-gated-deltaproduct2"
#define TEXT "examples/text_kjv.txt"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

// What was said, wrapped for 80 columns, as whole sentences again.
void report_unwrap(char *s);

// Runs it with words, NULL at the end; killed after so many ms, 0: not. `out` is unwrapped. The second fails the test when the
// exit code is another. run_free the result.
run report_start(const char *const *words, int kill_after_ms);
run report_ends(int code, const char *const *words);

// Keeps a path from files_path, whose buffers rotate.
const char *report_keep(const char *path);
const char *report_folder(const char *name);
// Saves m under this name with the tokenizer of DN, and frees it. The folder.
const char *report_model(tiny_model *m, const char *name);

typedef struct report_lines { // of results.jsonl
    json_t **v;
    size_t n;
} report_lines;
report_lines report_read(const char *folder);
void report_free_lines(report_lines *l);
// -1: without the key. Fails the test unless the fact stands there once. A value of null is NaN.
const json_t *report_fact(const report_lines *l, const char *name, const char *model, int layer,
                          int head, int64_t position, int row);
double report_value(const report_lines *l, const char *name, const char *model, int layer, int head,
                    int64_t position, int row);

#endif
