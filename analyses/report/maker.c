#include "analyses/report/maker.h"

#include "core/mem.h"
#include "core/order.h"

#include <math.h>
#include <stdlib.h>

// ---- positions ----------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t *pair_positions(int64_t T, int64_t L, const pair_options *o, size_t *n, err *e) {
    enum { LEAST = 64, POWERS = 64 };
    int64_t *v = mem_alloc(POWERS + 2 + o->n_at, sizeof *v, "positions", e);
    size_t k = 0, m = 0;
    if (!v)
        return NULL;
    for (int64_t N = LEAST; N <= T; N *= 2)
        v[k++] = N;
    if (L > 1 && L <= T)
        v[k++] = L;
    for (size_t i = 0; i < o->n_at; i++)
        if (o->at[i] > 0 && o->at[i] <= T) // others are no facts: "the largest N" must not be one
            v[k++] = o->at[i];
    v[k++] = T;
    qsort(v, k, sizeof *v, ascending);
    for (size_t i = 0; i < k; i++)
        if (m == 0 || v[m - 1] != v[i])
            v[m++] = v[i];
    *n = m;
    return v;
}

double maker_mean_at(const double *v, int64_t n, int64_t every, int64_t T, int64_t N, bool logs,
                     int64_t *used) {
    double sum = 0;
    int64_t known = 0;
    *used = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t end = (i + 1) * every < T ? (i + 1) * every : T;
        if (2 * end <= N || end > N)
            continue;
        double x = logs ? log(v[i]) : v[i];
        ++*used;
        if (isfinite(x)) {
            sum += x;
            known++;
        }
    }
    return known ? sum / (double)known : NAN;
}

// ---- life ---------------------------------------------------------------------------------------

static bool list_heads(maker *m, err *e) {
    const head_stats *s = &m->p->row[0].heads;
    size_t n = 0;
    for (int i = 0; i < s->n_layers; i++)
        n += (size_t)s->shape[i].H;
    m->head = mem_alloc(n, sizeof *m->head, "heads", e);
    for (int i = 0; m->head && i < s->n_layers; i++)
        for (int h = 0; h < s->shape[i].H; h++)
            m->head[m->n_heads++] = (maker_head){i, h, s->layer[i], &s->shape[i]};
    return m->head != NULL;
}

bool maker_open(maker *m, const pair *p, const pair_options *o, facts *out, err *e) {
    *m = (maker){.p = p, .o = o, .out = out, .e = e};
    size_t rows = (size_t)p->n;
    m->ok = row_draws_make(&m->draws, p->n, o->resamples, o->seed, e) && list_heads(m, e) &&
            (m->position = pair_positions(p->loss.n + 1, p->loss.train_length, o, &m->n_positions,
                                          e)) != NULL;
    m->v = m->ok ? mem_alloc(rows * m->n_heads, sizeof *m->v, "values of heads", e) : NULL;
    m->by_row = m->ok ? mem_alloc(rows, sizeof *m->by_row, "values of rows", e) : NULL;
    m->ok = m->v && m->by_row;
    return m->ok;
}

void maker_close(maker *m) {
    row_draws_free(&m->draws);
    free(m->position);
    free(m->head);
    free(m->v);
    free(m->by_row);
    *m = (maker){0};
}

// ---- facts --------------------------------------------------------------------------------------

void maker_fact(maker *m, const char *name, over_rows v, const char *unit, place where,
                const char *how) {
    fact f = {.name = (char *)name,
              .value = v.value,
              .lo = v.lo,
              .hi = v.hi,
              .unit = (char *)unit,
              .model = (char *)m->p->model,
              .document = (char *)m->p->document,
              .layer = where.layer,
              .head = where.head,
              .position = where.position,
              .row = where.row,
              .how = (char *)how};
    m->ok = m->ok && facts_add(m->out, &f, m->e);
}

void maker_number(maker *m, const char *name, double v, const char *unit, place where,
                  const char *how) {
    maker_fact(m, name, (over_rows){v, NAN, NAN}, unit, where, how);
}

// v [n] without NaN, in any order.
static double one_of(double *v, size_t n, over_heads kind) {
    double sum = 0, largest = -INFINITY;
    if (n == 0)
        return NAN;
    if (kind == OVER_MEDIAN)
        return order_median(v, n);
    for (size_t i = 0; i < n; i++) {
        sum += v[i];
        largest = fmax(largest, v[i]);
    }
    return kind == OVER_LARGEST || kind == OVER_BEST ? largest
           : kind == OVER_SUM                        ? sum
                                                     : sum / (double)n;
}

static over_rows over_all_rows(maker *m, over_heads kind) {
    if (kind == OVER_LARGEST || kind == OVER_SUM) {
        size_t n = 0;
        for (int64_t i = 0; i < m->p->n; i++)
            if (!isnan(m->by_row[i]))
                m->by_row[n++] = m->by_row[i];
        return (over_rows){one_of(m->by_row, n, kind), NAN, NAN};
    }
    return kind == OVER_GEOMETRIC ? rows_geometric(&m->draws, m->by_row)
                                  : rows_mean(&m->draws, m->by_row);
}

void maker_heads(maker *m, const char *name, const char *unit, over_heads kind, int64_t position,
                 bool (*has)(const head_shape *s), const char *how) {
    size_t any = 0;
    double *some = m->ok ? mem_alloc(m->n_heads, sizeof *some, "values of heads", m->e) : NULL;
    if (!some) {
        m->ok = false;
        return;
    }
    for (size_t h = 0; h < m->n_heads; h++) {
        const maker_head *x = &m->head[h];
        if (!has(x->shape))
            continue;
        any++;
        for (int64_t i = 0; i < m->p->n; i++)
            m->by_row[i] = m->v[(size_t)i * m->n_heads + h];
        maker_fact(m, name, over_all_rows(m, kind), unit,
                   (place){x->layer, x->head, position, FACT_NONE}, how);
    }
    for (int64_t i = 0; i < m->p->n; i++) {
        size_t n = 0;
        for (size_t h = 0; h < m->n_heads; h++) {
            double v = m->v[(size_t)i * m->n_heads + h];
            if (has(m->head[h].shape) && !isnan(v))
                some[n++] = v;
        }
        m->by_row[i] = one_of(some, n, kind);
    }
    free(some);
    if (any && kind != OVER_NOTHING)
        maker_fact(m, name, over_all_rows(m, kind), unit, place_at(position), how);
}

bool has_all(const head_shape *s) {
    (void)s;
    return true;
}
bool has_erase(const head_shape *s) {
    return s->erase == ERASE_KEY;
}
bool has_decay(const head_shape *s) {
    return s->decay != DECAY_NONE;
}
bool has_beta(const head_shape *s) {
    return s->beta_max > 0;
}
bool has_several(const head_shape *s) {
    return s->n_h > 1;
}

bool pair_facts(const pair *p, const pair_options *o, facts *out, err *e) {
    maker m;
    if (maker_open(&m, p, o, out, e)) {
        facts_of_reading(&m);
        facts_of_loss(&m);
        facts_of_states(&m);
        facts_of_writes(&m);
        facts_of_spectra(&m);
        facts_of_boundaries(&m);
    }
    bool ok = m.ok;
    maker_close(&m);
    return ok;
}
