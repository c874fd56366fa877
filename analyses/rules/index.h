// analyses/rules/index.h - facts to be found by name and place; for analyses/rules only.
//
// Facts of single rows are left out: rules are about all rows.
#ifndef DELTOP_RULES_INDEX_H
#define DELTOP_RULES_INDEX_H

#include "analyses/facts.h"

enum { INDEX_MISSING = -1 };

// Where a fact stands; names are numbers of `index`'s lists.
typedef struct fact_key {
    int model, document, name, layer, head;
    int64_t position;
    const fact *f; // lent
} fact_key;

typedef struct word_list { // distinct words in the order of their first appearance; lent
    const char **v;
    size_t n, room;
} word_list;

typedef struct fact_index {
    word_list models, documents, names; // document "" is one of them
    fact_key *v;                        // ascending
    size_t n;
} fact_index;

// f must outlive the index. ERR_INPUT: two facts of one place have different values.
bool fact_index_make(const facts *f, fact_index *x, err *e);
void fact_index_free(fact_index *x); // an empty one is fine

int word_find(const word_list *l, const char *s); // INDEX_MISSING
// The fact at exactly this place, NULL: none.
const fact *fact_index_get(const fact_index *x, fact_key key);
// The keys of one model, document and name: *n of them, by layer, head and position.
const fact_key *fact_index_span(const fact_index *x, int model, int document, int name, size_t *n);

typedef struct fact_head {
    int layer, head;
} fact_head;
// The heads that any fact of the model has, with this document or without one, ascending. The caller
// frees the array; NULL: *e is filled.
fact_head *fact_index_heads(const fact_index *x, int model, int document, size_t *n, err *e);

#endif
