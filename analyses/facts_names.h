// analyses/facts_names.h - the names that a report gives (docs/facts.md), so that a rule with a slip of
// the pen is refused before a night of work, not behind it.
#ifndef DELTOP_FACTS_NAMES_H
#define DELTOP_FACTS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    FACT_OF_MODEL,          // one number: of a model, or of a model on a document
    FACT_OF_LAYER,          // one number for each layer with a recurrent state
    FACT_OF_HEAD,           // one for each head
    FACT_OF_HEAD_AND_MODEL, // one for each head, and one over all of them
} fact_level;

typedef struct fact_name {
    const char *name;
    bool at_n; // given at token counts N
    fact_level level;
} fact_name;

extern const fact_name fact_names[];
extern const size_t n_fact_names;
const fact_name *fact_name_find(const char *name); // NULL: a report does not give it

#endif
