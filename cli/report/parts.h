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

typedef struct assembly {
    const report *r;
    assembly_pair *pair; // [r->n_pairs]
    size_t n_there;      // pairs of which something is there
    char **missing;      // sentences, escaped
    size_t n_missing, cap_missing;
    facts facts;
    rule_outcomes outcomes; // of --rules
    page page;
    bool has_trend;                    // trend.png is there
    bool *has_writes, *has_boundaries; // [documents] so are these of a document; owned
} assembly;

static inline bool assembly_has(const assembly_pair *x) {
    return x->p.n > 0;
}
static inline assembly_pair *assembly_at(const assembly *a, size_t model, size_t document) {
    return &a->pair[model * a->r->o->n_documents + document];
}

// A fact over all heads and rows of a pair; NULL when there is none.
const fact *assembly_fact(const assembly *a, const assembly_pair *x, const char *name,
                          int64_t position);
// Its value; NaN when there is none.
double assembly_value(const assembly *a, const assembly_pair *x, const char *name,
                      int64_t position);
// The values of a fact for every head, layers outermost, NaN where there is none: v [n_heads].
size_t assembly_n_heads(const assembly_pair *x);
void assembly_heads(const assembly *a, const assembly_pair *x, const char *name, int64_t position,
                    double *v);
// "L9.H2" of the i-th of them, into buf; returns buf.
const char *assembly_head_name(const assembly_pair *x, size_t i, char *buf, size_t size);
// Tokens of a row.
static inline int64_t assembly_end(const assembly_pair *x) {
    return x->p.loss.n + 1;
}

// The command line without what changes no number (where to, how many threads, how much is said), so
// that a report is the same bytes wherever it lies. Caller frees.
char *report_command_line(const report *r, err *e);

// ---- parts --------------------------------------------------------------------------------------

// Figures over the steps of the training run that the models are checkpoints of (r->of); keeps its
// facts in DIR/trend.jsonl.
bool report_trend(assembly *a, figures *out, err *e);
bool report_pictures(assembly *a, err *e); // PNG and CSV
bool report_arrays(assembly *a, err *e);   // NPY
bool report_page(assembly *a, err *e);     // fills a->page
// Sentences about one pair onto the page: what is wrong (only that), or what else is worth saying.
bool report_problems(assembly *a, const assembly_pair *x, size_t *n, err *e);
bool report_remarks(assembly *a, const assembly_pair *x, err *e);
// How the models of a document compare.
bool report_comparison(assembly *a, size_t document, err *e);
// Tables; a->page takes them.
bool report_overview_table(assembly *a, size_t document, err *e);
bool report_difference_table(assembly *a, size_t document, err *e); // nothing for one model
bool report_outlier_table(assembly *a, err *e);
bool report_heads_table(assembly *a, const assembly_pair *x, err *e);
// The end: a few lines on standard output, or one JSON value.
bool report_say(const assembly *a, err *e);

#endif
