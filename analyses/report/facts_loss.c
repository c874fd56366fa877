// Facts about reading, checks and losses.
#include "analyses/report/maker.h"

#include "analyses/resample.h"
#include "core/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Mean of losses from .. to - 1 of a row; NaN for none.
static double mean(const loss_result *r, int64_t row, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += r->loss[row * r->n + i];
    return to > from ? sum / (double)(to - from) : NAN;
}

// Losses "at N": N / 2 <= i < N, of those there are.
static int64_t last_of(const loss_result *r, int64_t N) {
    return N < r->n ? N : r->n;
}

void facts_of_reading(maker *m) {
    const pair *p = m->p;
    int64_t documents = 0, wild = 0, bad = 0;
    maker_number(m, "rows", (double)p->n, "1", PLACE_ALL, "");
    maker_number(m, "row_tokens", (double)(p->loss.n + 1), "tokens", PLACE_ALL, "");
    for (int64_t i = 0; i < p->n; i++) {
        documents += p->row[i].documents;
        for (int64_t k = 0; k < p->loss.n; k++)
            wild += !isfinite(p->loss.loss[i * p->loss.n + k]);
        bad += p->row[i].erank.broken;
    }
    maker_number(m, "documents", (double)documents, "1", PLACE_ALL, "that begin within the rows");
    maker_number(m, "loss_not_finite", (double)wild, "1", PLACE_ALL, "");
    maker_number(m, "state_not_finite", (double)bad, "1", PLACE_ALL, "of the sampled states");
    maker_number(m, "flags", (double)p->loss.n_flags, "1", PLACE_ALL, "");
    const row_record *first = &p->row[0];
    char how[400];
    if (first->n_check)
        snprintf(how, sizeof how, "against float64 over the first %" PRId64 " tokens",
                 first->n_check);
    else
        snprintf(how, sizeof how, "%s",
                 first->check_why[0] ? first->check_why : "not compared: computed in float64");
    maker_number(m, "precision_error", first->check_error, "nats", PLACE_ALL, how);
    maker_number(m, "precision_bias", first->check_bias, "nats/token", PLACE_ALL, how);
}

static void at(maker *m, int64_t N) {
    const loss_result *r = &m->p->loss;
    int64_t from = N / 2, to = last_of(r, N);
    for (int64_t i = 0; i < r->rows; i++)
        m->by_row[i] = mean(r, i, from, to);
    over_rows v = rows_mean(&m->draws, m->by_row);
    maker_fact(m, "loss", v, "nats/token", place_at(N), "");
    maker_fact(m, "ppl", (over_rows){exp(v.value), exp(v.lo), exp(v.hi)}, "1", place_at(N), "");
    for (int64_t i = 0; i < r->rows && r->rows > 1; i++)
        maker_number(m, "loss", mean(r, i, from, to), "nats/token",
                     (place){FACT_NONE, FACT_NONE, N, i}, "");
}

// v [rows] as a fact over all of them and, of several, one each.
static void over_and_each(maker *m, const char *name, const char *unit, const double *v,
                          const char *how) {
    maker_fact(m, name, rows_mean(&m->draws, v), unit, PLACE_ALL, how);
    for (int64_t i = 0; i < m->p->n && m->p->n > 1; i++)
        maker_number(m, name, v[i], unit, (place){FACT_NONE, FACT_NONE, FACT_NONE, i}, how);
}

void facts_of_loss(maker *m) {
    const loss_result *r = &m->p->loss;
    int64_t L = r->train_length;
    char how[160];
    for (size_t i = 0; i < m->n_positions; i++)
        at(m, m->position[i]);
    for (int64_t i = 0; i < r->rows; i++)
        m->by_row[i] = mean(r, i, 0, r->n);
    over_and_each(m, "loss_mean", "nats/token", m->by_row, "");
    for (int64_t i = 0; i < r->rows; i++)
        m->by_row[i] = (double)m->p->row[i].loss.right / (double)r->n;
    over_and_each(m, "accuracy", "1", m->by_row, "share of tokens that were the likeliest");
    bool known = L >= 2 && r->n > L;
    for (int64_t i = 0; i < r->rows; i++)
        m->by_row[i] = known ? mean(r, i, L, r->n) - mean(r, i, L / 2, L) : NAN;
    if (known)
        snprintf(how, sizeof how,
                 "losses %" PRId64 " to %" PRId64 " less losses %" PRId64 " to %" PRId64, L, r->n,
                 L / 2, L);
    else if (L >= 2)
        snprintf(how, sizeof how, "a row of %" PRId64 " tokens does not pass the training length",
                 r->n + 1);
    else
        snprintf(how, sizeof how, "training length unknown");
    over_and_each(m, "extrapolation_index", "nats/token", m->by_row, how);
}

// ---- two models ---------------------------------------------------------------------------------

bool pair_same_tokens(const pair *a, const pair *b) {
    return a->loss.rows == b->loss.rows && a->loss.n == b->loss.n &&
           a->loss.ids_mark == b->loss.ids_mark;
}

bool pair_loss_change(const pair *base, const pair *p, int64_t from, int64_t to,
                      const pair_options *o, double *mean, double *lo, double *hi, err *e) {
    *mean = *lo = *hi = NAN;
    if (!pair_same_tokens(base, p) || to <= from)
        return true;
    size_t n = (size_t)(base->loss.rows * (to - from));
    double *before = mem_alloc(n, sizeof *before, "losses", e);
    double *after = mem_alloc(n, sizeof *after, "losses", e);
    paired_change c;
    bool ok = before && after;
    if (ok) {
        loss_gather(base->loss.loss, base->loss.rows, base->loss.n, from, to, before);
        loss_gather(p->loss.loss, p->loss.rows, p->loss.n, from, to, after);
        ok = resample_paired(before, after, (int64_t)n, 0, o->resamples, o->seed, &c, e);
    }
    if (ok) {
        *mean = c.mean;
        *lo = c.lo;
        *hi = c.hi;
    }
    free(before);
    free(after);
    return ok;
}

bool pair_difference(const pair *base, const pair *p, const pair_options *o, facts *out, err *e) {
    maker m;
    char how[400];
    if (!pair_same_tokens(base, p))
        return true;
    snprintf(how, sizeof how, "less that of %.200s, token by token; interval over blocks of tokens",
             base->model);
    bool ok = maker_open(&m, p, o, out, e);
    for (size_t i = 0; ok && i < m.n_positions; i++) {
        int64_t N = m.position[i];
        over_rows v = {NAN, NAN, NAN};
        ok = pair_loss_change(base, p, N / 2, last_of(&p->loss, N), o, &v.value, &v.lo, &v.hi, e);
        if (ok)
            maker_fact(&m, "loss_difference", v, "nats/token", place_at(N), how);
        ok = ok && m.ok;
    }
    maker_close(&m);
    return ok;
}

// ---- weights ------------------------------------------------------------------------------------

bool pair_model_facts(const pair *p, int n_layers, int64_t state_bytes, facts *out, err *e) {
    const head_stats *s = &p->row[0].heads;
    int64_t L = p->loss.train_length;
    fact f = FACT_EMPTY;
    f.model = (char *)p->model;
    f.name = "train_length", f.value = L ? (double)L : NAN, f.unit = "tokens";
    bool ok = facts_add(out, &f, e);
    f.name = "layers", f.value = n_layers, f.unit = "1";
    ok = ok && facts_add(out, &f, e);
    f.name = "state_bytes", f.value = (double)state_bytes, f.unit = "bytes";
    ok = ok && facts_add(out, &f, e);
    f.unit = "1";
    for (int i = 0; ok && i < s->n_layers; i++) {
        const head_shape *h = &s->shape[i];
        const struct {
            const char *name;
            double v;
        } x[] = {
            {"K", h->K}, {"V", h->V}, {"n_h", h->n_h}, {"heads", h->H}, {"beta_max", h->beta_max}};
        f.layer = s->layer[i];
        for (size_t k = 0; ok && k < sizeof x / sizeof *x; k++) {
            f.name = (char *)x[k].name;
            f.value = x[k].v;
            if (k < 4 || h->beta_max > 0)
                ok = facts_add(out, &f, e);
        }
    }
    return ok;
}
