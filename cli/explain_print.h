// cli/explain_print.h - rows of analyses/explain.h as text, as Markdown and as JSON.
#ifndef DELTOP_EXPLAIN_PRINT_H
#define DELTOP_EXPLAIN_PRINT_H

#include "analyses/explain.h"
#include "cli/output.h"

typedef struct explain_look {
    bool utf8;     // the terminal shows Greek and arrows; otherwise they are written out
    bool markdown; // always UTF-8
} explain_look;

// One row in full, 80 columns.
void explain_print(const output *out, const recurrence *r, const explain_figures *f,
                   const explain_look *look);
// All rows side by side, one line each; figures [n_recurrences].
void explain_print_table(const output *out, const explain_figures *f, const explain_look *look);
// NULL on failed allocation.
json_t *explain_json(const recurrence *r, const explain_figures *f);

// s as it is, or in ASCII: "β k kᵀ" becomes "beta k k'". Cut when it does not fit. Returns buf.
char *explain_symbols(const char *s, bool utf8, char *buf, size_t size);

#endif
