// analyses/facts.h - measured facts: what `results.jsonl` holds, one a line.
//
// A fact is one number with its name and where it belongs:
//
//   {"name": "erank", "value": 31.25, "unit": "of 64", "model": "dp3", "document": "kjv",
//    "layer": 9, "head": 2, "position": 8192, "how": "mean over tokens 4096 to 8192 of 2 rows"}
//
// Keys that do not apply are left out (a model's loss has no layer). A value that could not be
// computed is `null` in the file and NaN here; it is a fact too. `position` is a token count N;
// means that end there are over tokens N/2 to N unless `how` says otherwise. `row` is given for
// numbers of one row; without it a fact is over all rows, and `lo`, `hi` are its 95 % interval by
// bootstrap over rows where there are several. Unknown keys of a line are kept out of nobody's way:
// readers ignore them.
#ifndef DELTOP_FACTS_H
#define DELTOP_FACTS_H

#include "core/err.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FACT_NONE = -1 }; // layer, head, position, row: does not apply

typedef struct fact {
    char *name;     // "loss", "erank", "extrapolation_index": lower case, digits, underscores
    double value;   // NaN: could not be computed
    double lo, hi;  // 95 % interval, NaN: none
    char *unit;     // "nats/token", "of 64", "1", "tokens"; never NULL
    char *model;    // name as in folders and pictures; never NULL
    char *document; // "" for facts of the weights alone
    int layer, head;
    int64_t position, row;
    char *how; // in words; "" = nothing to say
} fact;

typedef struct facts {
    fact *v; // owned, in the order they were added
    size_t n, room;
} facts;

// Adds a copy of *f: NULL strings count as "". A fact that starts from FACT_EMPTY needs only what
// applies to it.
#define FACT_EMPTY                                                                                 \
    ((fact){.value = NAN,                                                                          \
            .lo = NAN,                                                                             \
            .hi = NAN,                                                                             \
            .layer = FACT_NONE,                                                                    \
            .head = FACT_NONE,                                                                     \
            .position = FACT_NONE,                                                                 \
            .row = FACT_NONE})
bool facts_add(facts *s, const fact *f, err *e);
void facts_free(facts *s); // an empty one is fine

// One line of JSON each, keys in the order of the example above, numbers with 17 significant digits
// in the C locale. Names that are not UTF-8 or hold control bytes are escaped (core/text.h).
bool facts_write(const facts *s, FILE *out, err *e);
// The same into PATH, which appears whole or not at all.
bool facts_save(const facts *s, const char *path, err *e);

#endif
