// cli/report/parts.h - what the parts of assembling share.
#ifndef DELTOP_REPORT_PARTS_H
#define DELTOP_REPORT_PARTS_H

#include "analyses/report/pair.h"
#include "cli/report/page.h"
#include "cli/report/tasks.h"

typedef struct assembly_pair {
    pair p;          // n 0: nothing of it is there
    size_t first, n; // its facts
} assembly_pair;

typedef struct assembly_picture {
    char *path; // relative to DIR
    char *text; // what it shows
} assembly_picture;

typedef struct assembly {
    const report *r;
    assembly_pair *pair; // [r->n_pairs]
    size_t n_there;      // pairs of which something is there
    char **missing;      // sentences, escaped
    size_t n_missing, cap_missing;
    int64_t *at; // positions that rules name, ascending
    size_t n_at;
    facts facts;
    page page;
} assembly;

static inline bool assembly_has(const assembly_pair *x) {
    return x->p.n > 0;
}
static inline assembly_pair *assembly_at(const assembly *a, size_t model, size_t document) {
    return &a->pair[model * a->r->o->n_documents + document];
}

// A fact of a pair; NULL when there is none. FACT_NONE where a key does not apply.
const fact *assembly_fact(const assembly *a, const assembly_pair *x, const char *name, int layer,
                          int head, int64_t position);
// Of all heads and rows; NaN when there is none.
double assembly_value(const assembly *a, const assembly_pair *x, const char *name,
                      int64_t position);

bool report_pictures(assembly *a, err *e); // PNG and CSV
bool report_arrays(assembly *a, err *e);   // NPY
bool report_page(assembly *a, err *e);     // fills a->page
void report_say(const assembly *a);        // a few lines on standard output

#endif
