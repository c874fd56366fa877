// Facts about states (S01, S04): ranks, norms, growth past the training length, outliers.
#include "analyses/erank_stats.h"
#include "analyses/report/maker.h"
#include "core/mem.h"
#include "core/order.h"

#include <math.h>
#include <stdlib.h>

static void sampled(maker *m, const char *name, const char *unit, erank_quantity q, over_heads kind,
                    bool only_end) {
    int64_t T = m->p->loss.n + 1;
    for (size_t k = only_end ? m->n_positions - 1 : 0; k < m->n_positions; k++) {
        int64_t N = only_end ? T : m->position[k], used = 0;
        for (int64_t i = 0; i < m->p->n; i++)
            for (size_t h = 0; h < m->n_heads; h++) {
                const erank_result *r = &m->p->row[i].erank;
                const double *line = erank_line(r, q, 0, m->head[h].at, m->head[h].head);
                m->v[(size_t)i * m->n_heads + h] = maker_mean_at(line, r->positions, r->every, T, N,
                                                                 kind == OVER_GEOMETRIC, &used);
            }
        if (used)
            maker_heads(m, name, unit, kind, N, has_all, "");
    }
}

// Mean of v[0], v[stride] ..., n of them, as maker_heads takes it: without those that are not known, such
// as the rank of a state that nothing was written to.
static double known_mean(const double *v, size_t n, size_t stride) {
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i * stride])) {
            sum += v[i * stride];
            known++;
        }
    return known ? sum / (double)known : NAN;
}

// Past the training length against the second half of it.
static void growth(maker *m) {
    int64_t L = m->p->loss.train_length;
    bool known = L > 0 && m->p->loss.n + 1 > L;
    const char *how = known   ? "samples past the training length against those of its second half"
                      : L > 0 ? "the rows do not pass the training length"
                              : "training length unknown";
    size_t n = m->n_heads, growing = 0;
    double *norm = mem_alloc((size_t)m->p->n * n, sizeof *norm, "growth of norms", m->e);
    if (!norm) {
        m->ok = false;
        return;
    }
    for (int64_t i = 0; m->ok && i < m->p->n; i++) {
        erank_stats s;
        const erank_result *r = &m->p->row[i].erank;
        m->ok = erank_stats_make(r, &s, m->e);
        for (size_t h = 0; m->ok && h < n; h++) {
            const erank_head *x = &s.head[m->head[h].at * r->n_heads + m->head[h].head];
            m->v[(size_t)i * n + h] = x->growth;
            norm[(size_t)i * n + h] = log(x->norm_growth);
        }
        erank_stats_free(&s);
    }
    for (size_t h = 0; h < n; h++)
        growing += known_mean(m->v + h, (size_t)m->p->n, n) > 1;
    maker_heads(m, "erank_growth", "1", OVER_MEAN, FACT_NONE, has_all, how);
    for (int64_t i = 0; i < m->p->n && m->p->n > 1; i++)
        maker_number(m, "erank_growth", known_mean(m->v + (size_t)i * n, n, 1), "1",
                     (place){FACT_NONE, FACT_NONE, FACT_NONE, i}, how);
    maker_number(m, "erank_growing", known ? (double)growing : NAN, "heads", PLACE_ALL,
                 known ? "whose effective rank grows by more than 1" : how);
    for (size_t i = 0; i < (size_t)m->p->n * n; i++)
        m->v[i] = norm[i];
    maker_heads(m, "state_norm_growth", "1", OVER_GEOMETRIC, FACT_NONE, has_all, how);
    free(norm);
}

// x [n] -> how many robust standard deviations each lies from their median.
static void robust(double *x, size_t n, double *scratch) {
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            scratch[known++] = x[i];
    double middle = order_median(scratch, known);
    known = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            scratch[known++] = fabs(x[i] - middle);
    double spread = 1.4826 * order_median(scratch, known);
    for (size_t i = 0; i < n; i++)
        x[i] = spread > 0 ? (x[i] - middle) / spread : x[i] == middle ? 0 : NAN;
}

static void outliers(maker *m) {
    int64_t used, T = m->p->loss.n + 1;
    double *scratch = mem_alloc(m->n_heads, sizeof *scratch, "norms", m->e);
    if (!scratch) {
        m->ok = false;
        return;
    }
    for (int64_t i = 0; i < m->p->n; i++) {
        const erank_result *r = &m->p->row[i].erank;
        double *v = m->v + (size_t)i * m->n_heads;
        for (size_t h = 0; h < m->n_heads; h++)
            v[h] = maker_mean_at(erank_line(r, ERANK_NORM, 0, m->head[h].at, m->head[h].head),
                                 r->positions, r->every, T, T, true, &used);
        robust(v, m->n_heads, scratch);
    }
    free(scratch);
    maker_heads(m, "norm_outlier", "1", OVER_NOTHING, FACT_NONE, has_all,
                "robust standard deviations of ln state_norm from the model's median");
}

void facts_of_states(maker *m) {
    char unit[32];
    if (m->n_heads == 0)
        return;
    snprintf(unit, sizeof unit, "of %d", m->p->erank.max_rank);
    sampled(m, "erank", unit, ERANK_RANK, OVER_MEAN, false);
    sampled(m, "state_norm", "1", ERANK_NORM, OVER_GEOMETRIC, false);
    sampled(m, "state_spectral", "1", ERANK_SPECTRAL, OVER_GEOMETRIC, false);
    sampled(m, "stable_rank", "1", ERANK_STABLE, OVER_MEAN, false);
    sampled(m, "top_energy", "1", ERANK_ENERGY, OVER_MEAN, false);
    sampled(m, "state_nuclear", "1", ERANK_NUCLEAR, OVER_GEOMETRIC, true);
    sampled(m, "state_condition", "1", ERANK_CONDITION, OVER_GEOMETRIC, true);
    growth(m);
    outliers(m);
}
