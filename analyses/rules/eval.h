// analyses/rules/eval.h - one rule on one model and document; for analyses/rules only.
#ifndef DELTOP_RULES_EVAL_H
#define DELTOP_RULES_EVAL_H

#include "analyses/rules/index.h"
#include "analyses/rules/rules.h"

// A model on a document in one set of facts.
typedef struct place {
    const fact_index *x;
    int model, document; // numbers in *x; document may be INDEX_MISSING
    int none;            // the number of document ""
    const char *model_name, *document_name;
    fact_head *heads; // owned
    size_t n_heads;
    const char *what; // "" or "the baseline: ", for messages
} place;

// Where the facts of a name stand, for one node of a rule.
typedef enum { LEVEL_NOTHING, LEVEL_MODEL, LEVEL_LAYER, LEVEL_HEAD } fact_depth;
typedef struct fact_where {
    bool known;        // it has been looked for
    bool exp_of_loss;  // a perplexity that only its loss tells
    const fact_key *k; // all of the name on this model and document
    size_t n;
    fact_depth finest;  // the level that calls over heads look at
    bool model;         // is there one of the model?
    int64_t largest[4]; // by level: the largest N, FACT_NONE: none
} fact_where;

// A head that a call over heads at the top level is about.
typedef struct head_hit {
    int node; // the call
    fact_head head;
    double value;  // left side of its comparison, or what max and min took; NaN: none
    double margin; // how far beyond the other side
} head_hit;

typedef struct evaluation {
    const rule *r;
    const place *here, *there; // there NULL: no baseline, and why_not says why
    const char *why_not;
    // While it runs
    const place *at;
    fact_head head;
    int depth;                      // calls over heads that are open
    err *e;                         // memory
    fact_where where[2][EXPR_MOST]; // here and there
    // Results
    bool decided, holds;
    char why[600];                            // what keeps it from being decided; printable
    double left[EXPR_MOST], right[EXPR_MOST]; // of comparisons
    bool truth[EXPR_MOST];
    size_t looked[EXPR_MOST]; // heads that a call went over
    head_hit *hit;            // owned; ascending margin last first within a call
    size_t n_hits, room;
} evaluation;

// Fills x->decided and the rest; r, here, there, why_not and e are set. False only without memory.
bool rule_evaluate(evaluation *x);
void evaluation_free(evaluation *x);

// For the parts of an evaluation -----------------------------------------------------------------

// Notes why the rule is not decided (the first reason stays); printf text. Returns false.
bool rule_because(evaluation *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// The fact that a node (NAME or NAME(N)) means at this point. False: it is missing or NaN, and the reason
// is noted.
bool rule_look_up(evaluation *x, int node, double *out);
// Is there any fact of its name for the head at hand?
bool rule_applies(evaluation *x, int node);
// Is there any for this model and document at all?
bool rule_known(evaluation *x, int node);

// The outcome in words, into an outcome whose rule, model and document are filled. analyses/rules/words.c
bool rule_words(const evaluation *x, rule_outcome *out, err *e);

#endif
