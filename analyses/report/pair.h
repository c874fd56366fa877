// analyses/report/pair.h - all rows of one document read by one model, and the facts they give
// (docs/facts.md).
#ifndef DELTOP_REPORT_PAIR_H
#define DELTOP_REPORT_PAIR_H

#include "analyses/facts.h"
#include "analyses/report/row.h"

typedef struct pair {
    const char *model, *document; // names, borrowed
    int64_t n;                    // rows
    row_record *row;              // [n], owned
    // The same rows in one result each, for figures and for numbers over all rows; owned. Without a
    // recurrent state erank and spectrum are empty, and spectrum also when a row has none.
    loss_result loss;
    erank_result erank;
    spectrum_result spectrum;
} pair;

// Takes row [n] (malloc; also on failure), n >= 1, all of one length and shape (ERR_INPUT otherwise).
// *p must stay where it is.
bool pair_join(pair *p, const char *model, const char *document, row_record *row, int64_t n,
               err *e);
void pair_free(pair *p); // an empty one is fine

typedef struct pair_options {
    const int64_t *at; // positions N beside the powers of two, ascending; those that rules name
    size_t n_at;
    int resamples;
    uint64_t seed;
} pair_options;

// Positions at which facts of rows of T tokens are given, ascending: powers of two from 64 on, L, what
// is asked for, as far as they are within the row, and T. *n of them; caller frees.
int64_t *pair_positions(int64_t T, int64_t L, const pair_options *o, size_t *n, err *e);

// Adds all facts of the pair but those that compare models.
bool pair_facts(const pair *p, const pair_options *o, facts *out, err *e);

// Have both read the same token ids? Only then do their losses say which is better.
bool pair_same_tokens(const pair *a, const pair *b);

// Adds loss_difference of p against base, nothing when they did not read the same tokens.
bool pair_difference(const pair *base, const pair *p, const pair_options *o, facts *out, err *e);
// The same number over losses from .. to - 1, for tables; NaN when they did not read the same.
bool pair_loss_change(const pair *base, const pair *p, int64_t from, int64_t to,
                      const pair_options *o, double *mean, double *lo, double *hi, err *e);

// Facts of the weights: sizes. From any pair of the model.
bool pair_model_facts(const pair *p, int n_layers, int64_t state_bytes, facts *out, err *e);

#endif
