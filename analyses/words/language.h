// analyses/words/language.h - formal languages whose answer stands behind a whole expression
// (science.md X04): parity, and arithmetic modulo m without and with brackets.
//
//     parity      0 1 1 0             the answer to a last bit is the id of "1" or "0"
//     arithmetic  2 + 3 * 4 - 1 =     * binds tighter than + and -, which go from the left
//     brackets    ( 2 * ( - 3 ) ) =   every operation has its own brackets, - may stand alone
//
// An expression of length L has L tokens in front of the "=", which parity lacks. Scaled accuracy is 0 for guessing and 1
// for no mistakes: (accuracy - chance) / (1 - chance), chance = 1 / m.
#ifndef DELTOP_LANGUAGE_H
#define DELTOP_LANGUAGE_H

#include "analyses/figure.h"
#include "analyses/words/read.h"

typedef enum { LANGUAGE_PARITY, LANGUAGE_ARITHMETIC, LANGUAGE_BRACKETS } language_kind;

enum { LANGUAGE_MOST = 32, LANGUAGE_SIGNS = 6 };

typedef struct language {
    language_kind kind;
    int modulus;                   // 2 for parity
    int32_t digit[LANGUAGE_MOST];  // ids of 0 .. modulus-1
    int32_t answer[LANGUAGE_MOST]; // ids that answer; the digits' unless a model has others
    int32_t sign[LANGUAGE_SIGNS];  // ids of + - * ( ) =; not used by parity
    int32_t prefix[8];
    int n_prefix;
} language;

// Ids as a model without a tokenizer has them: digits from 0 on, then + - * ( ) =, then one BOS.
void language_init(language *l, language_kind kind, int modulus);
const char *language_name(const language *l);
// "0" .. "31", "+", "-", "*", "(", ")", "=": the text of symbol i (digits first).
const char *language_symbol(const language *l, int i, char *buf, size_t size);

// An expression of about `length` tokens (the next one that there is) with its "=", if any: symbols, digits
// as 0 .. modulus-1 and signs as modulus + 0 .. 5. Returns their number, at most length + 4, and the
// value.
int language_draw(const language *l, int64_t length, uint64_t *seed, int *symbols, int *value);

typedef struct language_result {
    char model[128], name[64];
    int64_t from, to;     // lengths drawn
    int64_t count, right; // expressions
    int64_t *seen, *hit;  // [to + 8]: of each length
    int64_t *value;       // [modulus]: expressions with each value; they need not be balanced
    int modulus;
    double chance;
    int64_t train_length;
    double beta_max;
} language_result;

// Share of expressions with the commonest value: what a model that always says it would score.
double language_commonest(const language_result *r);

// count expressions with lengths from .. to, all alike likely.
bool language_run(const model *m, const language *l, int64_t from, int64_t to, int64_t count,
                  uint64_t seed, int64_t block, double beta_max, progress_fn progress,
                  void *progress_ctx, language_result *r, err *e);
void language_free(language_result *r);
double language_scaled(double accuracy, double chance);
// Scaled accuracy over length in at most 24 stretches; one picture a language.
bool language_figures(const language_result *r, size_t n, const char *how, figures *out, err *e);

#endif
