// Facts about writes, gates, betas and keys (S05, S06), and about boundaries (S07).
#include "analyses/report/maker.h"

#include <math.h>
#include <stdlib.h>

static double mean_of(const head_stats *s, int at, int head, head_signal x, int64_t N,
                      int64_t *used) {
    return maker_mean_at(head_stats_line(s, at, head, x), s->bins, s->every, s->T, N, false, used);
}

// m->v from signal x at N. False: no bin lies there.
static bool fill(maker *m, head_signal x, int64_t N) {
    int64_t used = 0;
    for (int64_t i = 0; i < m->p->n; i++)
        for (size_t h = 0; h < m->n_heads; h++)
            m->v[(size_t)i * m->n_heads + h] =
                mean_of(&m->p->row[i].heads, m->head[h].at, m->head[h].head, x, N, &used);
    return used > 0;
}

static void signal(maker *m, const char *name, head_signal x, bool (*has)(const head_shape *s)) {
    for (size_t k = 0; k < m->n_positions; k++)
        if (fill(m, x, m->position[k]))
            maker_heads(m, name, "1", OVER_MEAN, m->position[k], has, "");
}

// Sum of two shares.
static void sum_of(maker *m, const char *name, head_signal x, head_signal y,
                   bool (*has)(const head_shape *s)) {
    int64_t used;
    for (size_t k = 0; k < m->n_positions; k++) {
        int64_t N = m->position[k];
        if (!fill(m, x, N))
            continue;
        for (int64_t i = 0; i < m->p->n; i++)
            for (size_t h = 0; h < m->n_heads; h++)
                m->v[(size_t)i * m->n_heads + h] +=
                    mean_of(&m->p->row[i].heads, m->head[h].at, m->head[h].head, y, N, &used);
        maker_heads(m, name, "1", OVER_MEAN, N, has, "");
    }
}

// ln 2 / mean of -ln g.
static void gate_half_life(maker *m) {
    for (size_t k = 0; k < m->n_positions; k++) {
        int64_t N = m->position[k];
        if (!fill(m, HEAD_FORGET, N))
            continue;
        for (size_t i = 0; i < (size_t)m->p->n * m->n_heads; i++)
            m->v[i] = m->v[i] > 0 ? M_LN2 / m->v[i] : NAN;
        maker_heads(m, "gate_half_life", "tokens", OVER_MEDIAN, N, has_decay,
                    "ln 2 / mean of -ln g");
    }
}

static void key_shape(maker *m, const char *name, const char *unit, head_key_shape x) {
    for (int64_t i = 0; i < m->p->n; i++)
        for (size_t h = 0; h < m->n_heads; h++)
            m->v[(size_t)i * m->n_heads + h] =
                m->p->row[i].heads.keys[m->head[h].at][m->head[h].head * HEAD_KEY_SHAPES + x];
    maker_heads(m, name, unit, OVER_MEAN, FACT_NONE, has_all, "");
}

void facts_of_writes(maker *m) {
    char unit[32];
    if (m->n_heads == 0)
        return;
    signal(m, "delta_loss", HEAD_DELTA_LOSS, has_erase);
    signal(m, "write_size", HEAD_WRITE_SIZE, has_erase);
    signal(m, "gate", HEAD_GATE, has_decay);
    gate_half_life(m);
    signal(m, "gate_open", HEAD_GATE_OPEN, has_decay);
    signal(m, "gate_closed", HEAD_GATE_CLOSED, has_decay);
    sum_of(m, "gate_saturated", HEAD_GATE_OPEN, HEAD_GATE_CLOSED, has_decay);
    signal(m, "beta", HEAD_BETA, has_beta);
    signal(m, "beta_low", HEAD_BETA_LOW, has_beta);
    signal(m, "beta_high", HEAD_BETA_HIGH, has_beta);
    sum_of(m, "beta_saturated", HEAD_BETA_LOW, HEAD_BETA_HIGH, has_beta);
    signal(m, "reflecting", HEAD_REFLECTING, has_erase);
    signal(m, "key_norm", HEAD_KEY_NORM, has_all);
    signal(m, "key_overlap", HEAD_KEY_OVERLAP, has_several);
    key_shape(m, "key_pca3", "1", HEAD_KEY_TOP3);
    key_shape(m, "key_pca3_centred", "1", HEAD_KEY_TOP3_CENTRED);
    snprintf(unit, sizeof unit, "of %d", m->p->erank.K);
    key_shape(m, "key_rank", unit, HEAD_KEY_RANK);
}

// ---- boundaries ---------------------------------------------------------------------------------

static double boundary_of(const maker *m, int64_t row, size_t h, boundary_number x) {
    const row_record *r = &m->p->row[row];
    return r->boundary[m->head[h].at][m->head[h].head * BOUNDARY_NUMBERS + x];
}

static void boundary(maker *m, const char *name, boundary_number x, over_heads kind, double sign,
                     bool (*has)(const head_shape *s), const char *how) {
    for (int64_t i = 0; i < m->p->n; i++)
        for (size_t h = 0; h < m->n_heads; h++)
            m->v[(size_t)i * m->n_heads + h] = sign * boundary_of(m, i, h, x);
    maker_heads(m, name, "1", kind, FACT_NONE, has, how);
}

void facts_of_boundaries(maker *m) {
    int64_t all = 0;
    for (int64_t i = 0; i < m->p->n; i++)
        all += m->p->row[i].boundaries;
    if (all == 0)
        return;
    maker_number(m, "boundaries", (double)all, "tokens", PLACE_ALL,
                 "document starts and BOS tokens inside rows");
    if (m->n_heads == 0)
        return;
    boundary(m, "boundary_gate", BOUNDARY_FORGET, OVER_GEOMETRIC, -1, has_decay,
             "geometric mean of the decay at boundaries");
    boundary(m, "boundary_norm", BOUNDARY_STEP, OVER_GEOMETRIC, 1, has_all,
             "norm of the state after a boundary over the norm before it");
    boundary(m, "boundary_auc_gate", BOUNDARY_AUC_GATE, OVER_BEST, 1, has_decay, "");
    boundary(m, "boundary_auc_norm", BOUNDARY_AUC_NORM, OVER_BEST, 1, has_all, "");
    for (int64_t i = 0; i < m->p->n; i++)
        for (size_t h = 0; h < m->n_heads; h++)
            m->v[(size_t)i * m->n_heads + h] =
                fmax(boundary_of(m, i, h, BOUNDARY_AUC_GATE), // passes over a NaN
                     boundary_of(m, i, h, BOUNDARY_AUC_NORM));
    maker_heads(m, "boundary_auc", "1", OVER_BEST, FACT_NONE, has_all, "");
}
