// analyses/report/maker.h - how the facts of a pair are made: the list of its heads, values over rows
// and heads, and from them one fact a head and one over all heads.
#ifndef DELTOP_REPORT_MAKER_H
#define DELTOP_REPORT_MAKER_H

#include "analyses/report/over_rows.h"
#include "analyses/report/pair.h"

typedef struct maker_head {
    int at, head; // layer's place in head_stats (erank and spectrum have the same), head in it
    int layer;    // number in the model
    const head_shape *shape;
} maker_head;

typedef struct maker {
    const pair *p;
    const pair_options *o;
    facts *out;
    err *e; // filled once something failed; everything after does nothing
    bool ok;
    row_draws draws;
    int64_t *position; // [n_positions]
    size_t n_positions;
    maker_head *head;
    size_t n_heads;
    double *v;      // [rows, n_heads]: what maker_heads takes
    double *by_row; // [rows]
} maker;

bool maker_open(maker *m, const pair *p, const pair_options *o, facts *out, err *e);
void maker_close(maker *m);

// Where a fact belongs; FACT_NONE for what does not apply.
typedef struct place {
    int layer, head;
    int64_t position, row;
} place;
#define PLACE_ALL ((place){FACT_NONE, FACT_NONE, FACT_NONE, FACT_NONE})
static inline place place_at(int64_t position) {
    return (place){FACT_NONE, FACT_NONE, position, FACT_NONE};
}

void maker_fact(maker *m, const char *name, over_rows v, const char *unit, place where,
                const char *how);
void maker_number(maker *m, const char *name, double v, const char *unit, place where,
                  const char *how);

// How heads become one number.
typedef enum {
    OVER_MEAN,
    OVER_GEOMETRIC, // values are logarithms; facts are not
    OVER_MEDIAN,
    OVER_BEST,    // the largest of a row's heads; mean over rows
    OVER_LARGEST, // over rows too
    OVER_SUM,
    OVER_NOTHING, // no fact over all heads
} over_heads;

// One fact a head from m->v, the mean over rows (OVER_LARGEST: the largest, OVER_SUM: the sum), and one
// over heads: in each row over heads, then over rows in the same way. Heads for which `has` is false
// have no fact; no head at all: nothing. NaN: could not be computed. position FACT_NONE: the row.
void maker_heads(maker *m, const char *name, const char *unit, over_heads kind, int64_t position,
                 bool (*has)(const head_shape *s), const char *how);

bool has_all(const head_shape *s);
bool has_erase(const head_shape *s); // along the key
bool has_decay(const head_shape *s);
bool has_beta(const head_shape *s);
bool has_several(const head_shape *s); // keys a token

// Mean of v[i], i < n, that ends after more than N / 2 and at most N tokens, where number i ends after
// min((i + 1) every, T) tokens; NaN left out, NaN for none. *used: how many there were.
double maker_mean_at(const double *v, int64_t n, int64_t every, int64_t T, int64_t N, bool logs,
                     int64_t *used);

// Parts of pair_facts.
void facts_of_reading(maker *m);
void facts_of_loss(maker *m);
void facts_of_states(maker *m);
void facts_of_writes(maker *m);
void facts_of_spectra(maker *m);
void facts_of_boundaries(maker *m);

#endif
