// tests/tok_support.h - what the tokenizer tests share: golden cases in the form of
// ../shared/golden/tokenizers/NAME.corner.json, files, SHA-256.
#ifndef DELTOP_TOK_SUPPORT_H
#define DELTOP_TOK_SUPPORT_H

#include "core/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// DELTOP_SHARED or ../shared, joined with a name; one of a few static buffers.
const char *tok_shared(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Prints the SKIP line and skips the running test when the file is not there.
void tok_need(const char *path);

char *tok_slurp(const char *path, size_t *n); // fails the test when it cannot be read
json_t *tok_json(const char *path);
tokenizer *tok_open(const char *path); // fails the test with the message

// Both fail the test, naming the case. Return how many cases ran.
size_t tok_run_corner(const tokenizer *t, const char *path);
size_t tok_run_decode(const tokenizer *t, const char *path);

void tok_sha256(const void *data, size_t n, char hex[65]);
double tok_seconds(void);     // a clock
double tok_cpu_seconds(void); // processor time: a busy machine does not make it longer

// Ids of text, which must work; free with ids_free.
ids tok_encode(const tokenizer *t, const char *text, size_t n, bool special);
void tok_expect(const tokenizer *t, const char *text, size_t n, bool special, const int32_t *want,
                size_t n_want, const char *what);

#endif
