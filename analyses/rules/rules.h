// analyses/rules/rules.h - rules over measured facts: what must hold of every model and document.
//
//     # rules.ini
//     drift      = loss(32k) - loss(4k) < 0.10
//     heads(erank > 0.9*K) == 0                     ; a rule without a name is called by its text
//
//     [small models]
//     model      = small-*                          ; only where a glob fits; may be repeated
//     document   = text_*
//     no worse   = ppl(16k) <= baseline*1.02
//
// The language is that of analyses/expr.h. In it:
//
//   NAME(N)      the fact NAME at N tokens (docs/facts.md); ppl(N) is exp(loss(N)) where it is not given
//   NAME         the fact without a position; where there is none, the one at the largest N
//   heads(TEST)  how many heads pass; inside, a name is the head's own fact, else its layer's, else the
//                model's (the finest that exists of that name), and `layer`, `head` are its numbers. Heads
//                that have no fact of a name at all are left out: it does not apply to them
//   max(X), min(X), mean(X)   over heads, likewise;  max(X, Y, ...), min, mean: of these numbers
//   abs(X), exp(X), log(X)
//   baseline     the left side of its comparison in the baseline's facts; baseline(X): X there
//
// Every rule is checked for every model and document that it fits. It holds, it is broken, or it is not
// decided: a fact that is missing or NaN, a division by zero or any other number that is not finite
// makes it so, also where `or` could do without it. Only what holds is good.
#ifndef DELTOP_RULES_H
#define DELTOP_RULES_H

#include "analyses/expr.h"
#include "analyses/facts.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rule_globs {
    char **v; // owned
    size_t n, room;
} rule_globs;

typedef struct rule {
    char *name;                 // "drift"; in a section "small models: no worse"; printable
    char *text;                 // the expression as written
    int line;                   // of the file
    int column;                 // where the expression begins in it, in characters from 1 on
    rule_globs model, document; // empty: all
    bool baseline;              // it needs one
    expr x;
    // Of names and calls in x: what the node is (enum in analyses/rules/names.h), and for `baseline` the
    // node of the left side.
    struct {
        int role, left;
    } of[EXPR_MOST];
} rule;

typedef struct rules {
    char *path; // as given
    rule *v;    // owned, in the order of the file
    size_t n, room;
} rules;

// Reads PATH. Every mistake that needs no facts is found here: ERR_INPUT with file, line and character.
// A file without a rule is a mistake too. On failure *r is empty.
bool rules_read(const char *path, rules *r, err *e);
void rules_free(rules *r); // an empty one is fine

// The token counts N that rules name, ascending, without doubles: whoever measures gives facts there.
// *n of them; the array is the caller's to free. NULL: *e is filled.
int64_t *rules_positions(const rules *r, size_t *n, err *e);
// The first rule that needs a baseline, NULL: none does.
const rule *rules_baseline(const rules *r);

// False, ERR_INPUT, when a rule asks for a name that neither a report gives nor *f holds (NULL: no facts
// yet); the nearest name is in the message. rules_check does it too: a report calls it before it begins.
bool rules_names_known(const rules *r, const facts *f, err *e);

typedef enum { RULE_HOLDS, RULE_BROKEN, RULE_UNDECIDED } rule_verdict;
const char *rule_verdict_name(rule_verdict v); // "holds", "BROKEN", "NOT DECIDED"

typedef struct rule_outcome {
    const rule *rule;       // lent
    char *model, *document; // "" where the rule fits none; owned
    rule_verdict verdict;
    // Both sides of the comparison that decides: the only one, or the first that makes the rule broken.
    // NaN: not decided, or no single one decides.
    double value, bound;
    const char *sign; // "<"; "": see above
    // "loss(32k) - loss(4k) = 0.213, must be < 0.1"; for heads with those that are meant, for what is
    // not decided with the reason. Printable, without rule, model and document. Owned.
    char *sentence;
} rule_outcome;

typedef struct rule_outcomes {
    rule_outcome *v; // rule by rule, models and documents in the order of their first facts
    size_t n, room;
    size_t count[3];      // by verdict
    size_t models, pairs; // that the facts are of: models, and models on documents
} rule_outcomes;

// Checks every rule on every model and document of *f that it fits; one that fits none is not decided.
// baseline: facts of another run, NULL: none. The model is looked for by its name there, and by being
// the only one; the document by its name. ERR_USAGE: a rule needs a baseline and there is none;
// ERR_INPUT: a name that nobody knows, no facts at all, two values of one fact that differ.
// On failure *out is empty.
bool rules_check(const rules *r, const facts *f, const facts *baseline, rule_outcomes *out, err *e);
void rule_outcomes_free(rule_outcomes *o); // an empty one is fine
// Nothing is broken and nothing undecided, and something was checked.
bool rule_outcomes_good(const rule_outcomes *o);

#endif
