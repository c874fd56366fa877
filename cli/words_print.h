// cli/words_print.h - results of deltop words as text and as JSON.
#ifndef DELTOP_WORDS_PRINT_H
#define DELTOP_WORDS_PRINT_H

#include "analyses/words/language.h"
#include "analyses/words/mechanism.h"
#include "analyses/words/words.h"
#include "cli/output.h"

void words_print(const output *out, const words_result *r, const word_task *t);
void words_print_mechanism(const output *out, const mechanism *x, const word_task *t);
void words_print_language(const output *out, const language_result *r);

// NULL on failed allocation. x NULL: without a mechanism.
json_t *words_json(const words_result *r, const word_task *t, const mechanism *x);
json_t *words_language_json(const language_result *r);

#endif
