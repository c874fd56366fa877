#include "analyses/erank_stats.h"

#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

// A mean of the finite values it is given.
typedef struct mean {
    double sum;
    int64_t n;
} mean;

static void mean_add(mean *m, double x) {
    if (isfinite(x)) {
        m->sum += x;
        m->n++;
    }
}

static void mean_join(mean *m, const mean *x) {
    m->sum += x->sum;
    m->n += x->n;
}

static double mean_of(const mean *m) {
    return m->n ? m->sum / (double)m->n : NAN;
}

// log of 0 is left out: a zero state has no size on a logarithmic scale.
static double log_or_nan(double x) {
    return x > 0 ? log(x) : NAN;
}

// ---- stretches ----------------------------------------------------------------------------------

typedef struct sums {
    mean stretch[ERANK_STRETCHES], within, past, norm, norm_within, norm_past, stable;
} sums;

static void make_edges(erank_stats *s, int64_t length) {
    int64_t next = 512;
    s->edge[0] = 0;
    while (s->edge[s->n_stretches] < length && s->n_stretches < ERANK_STRETCHES) {
        bool last = next >= length || s->n_stretches == ERANK_STRETCHES - 1;
        s->edge[++s->n_stretches] = last ? length : next;
        next = next == 512 ? 2048 : 2 * next;
    }
}

// The token that position i belongs to.
static int64_t token_of(const erank_result *r, int64_t i) {
    int64_t step = (i + 1) * r->every - 1;
    return r->micro ? step / r->n_h : step;
}

static void gather(const erank_result *r, erank_stats *s, int layer, int head, sums *x) {
    int64_t L = r->train_length;
    for (int64_t row = 0; row < r->rows; row++) {
        const double *rank = erank_line(r, ERANK_RANK, row, layer, head);
        const double *norm = erank_line(r, ERANK_NORM, row, layer, head);
        const double *stable = erank_line(r, ERANK_STABLE, row, layer, head);
        int k = 0;
        for (int64_t i = 0; i < r->positions; i++) {
            int64_t t = token_of(r, i);
            while (t >= s->edge[k + 1])
                k++;
            double size = log_or_nan(norm[i]);
            mean_add(&x->stretch[k], rank[i]);
            mean_add(&x->norm, size);
            mean_add(&x->stable, stable[i]);
            if (L > 0 && t >= L) {
                mean_add(&x->past, rank[i]);
                mean_add(&x->norm_past, size);
            } else if (L > 0 && t >= L / 2) {
                mean_add(&x->within, rank[i]);
                mean_add(&x->norm_within, size);
            }
        }
    }
}

static void join(sums *all, const sums *x) {
    for (int k = 0; k < ERANK_STRETCHES; k++)
        mean_join(&all->stretch[k], &x->stretch[k]);
    mean_join(&all->within, &x->within);
    mean_join(&all->past, &x->past);
    mean_join(&all->norm, &x->norm);
    mean_join(&all->norm_within, &x->norm_within);
    mean_join(&all->norm_past, &x->norm_past);
    mean_join(&all->stable, &x->stable);
}

static erank_head settle(const sums *x, int layer, int head) {
    erank_head h = {.layer = layer, .head = head};
    for (int k = 0; k < ERANK_STRETCHES; k++)
        h.stretch[k] = mean_of(&x->stretch[k]);
    h.within = mean_of(&x->within);
    h.past = mean_of(&x->past);
    h.growth = h.past - h.within;
    h.norm = exp(mean_of(&x->norm));
    h.norm_growth = exp(mean_of(&x->norm_past) - mean_of(&x->norm_within));
    h.stable = mean_of(&x->stable);
    return h;
}

bool erank_stats_make(const erank_result *r, erank_stats *out, err *e) {
    *out = (erank_stats){.most = -1, .n_heads = (size_t)r->n_layers * (size_t)r->n_heads};
    out->head = mem_alloc(out->n_heads, sizeof *out->head, "a summary of ranks", e);
    if (!out->head)
        return false;
    make_edges(out, r->length);
    sums all = {0};
    for (int l = 0; l < r->n_layers; l++)
        for (int h = 0; h < r->n_heads; h++) {
            sums x = {0};
            int i = l * r->n_heads + h;
            gather(r, out, l, h, &x);
            join(&all, &x);
            out->head[i] = settle(&x, r->layer[l], r->head[h]);
            double growth = out->head[i].growth;
            out->growing += growth > 1;
            if (!isnan(growth) && (out->most < 0 || growth > out->head[out->most].growth))
                out->most = i;
        }
    out->all = settle(&all, -1, -1);
    return true;
}

void erank_stats_free(erank_stats *s) {
    free(s->head);
    *s = (erank_stats){0};
}

double erank_mean_at(const erank_result *r, erank_quantity q, double tokens, double *found) {
    int64_t i = -1;
    while (i + 1 < r->positions && erank_tokens(r, i + 1) <= tokens)
        i++;
    *found = i < 0 ? NAN : erank_tokens(r, i);
    mean m = {0};
    for (int64_t row = 0; i >= 0 && row < r->rows; row++)
        for (int l = 0; l < r->n_layers; l++)
            for (int h = 0; h < r->n_heads; h++)
                mean_add(&m, erank_line(r, q, row, l, h)[i]);
    return mean_of(&m);
}

// ---- bins ---------------------------------------------------------------------------------------

bool erank_bins_make(const erank_result *r, int bins, erank_bins *out, err *e) {
    size_t most = (size_t)r->positions;
    *out = (erank_bins){.single = true};
    out->first = mem_alloc(most + 1, sizeof *out->first, "bins", e);
    out->edge = mem_alloc(most + 1, sizeof *out->edge, "bins", e);
    out->centre = mem_alloc(most, sizeof *out->centre, "bins", e);
    if (!out->first || !out->edge || !out->centre) {
        erank_bins_free(out);
        return false;
    }
    int64_t i = 0, end = r->positions, width = (end + bins - 1) / bins;
    while (!r->linear && i < end && !(erank_tokens(r, i) > 0))
        i++;
    double step = exp2(1.0 / bins);
    while (i < end) {
        int64_t j = i + 1;
        double from = erank_tokens(r, i);
        if (r->linear)
            j = i + width < end ? i + width : end;
        else
            // The factor keeps a count that is the edge itself from falling to either side by
            // rounding.
            while (j < end && erank_tokens(r, j) < from * step * (1 - 1e-12))
                j++;
        double last = erank_tokens(r, j - 1);
        out->first[out->n] = i;
        out->edge[out->n] = from;
        out->centre[out->n++] = r->linear ? (from + last) / 2 : sqrt(from * last);
        out->single &= j == i + 1;
        i = j;
    }
    out->first[out->n] = end;
    out->edge[out->n] = erank_tokens(r, end); // where the next position would be
    return true;
}

void erank_bins_free(erank_bins *b) {
    free(b->first);
    free(b->edge);
    free(b->centre);
    *b = (erank_bins){0};
}

double erank_bin_mean(const erank_result *r, erank_quantity q, const erank_bins *b, size_t bin,
                      int layer, int head, bool logarithm) {
    int l0 = layer < 0 ? 0 : layer, l1 = layer < 0 ? r->n_layers : layer + 1;
    int h0 = head < 0 ? 0 : head, h1 = head < 0 ? r->n_heads : head + 1;
    mean m = {0};
    for (int64_t row = 0; row < r->rows; row++)
        for (int l = l0; l < l1; l++)
            for (int h = h0; h < h1; h++) {
                const double *v = erank_line(r, q, row, l, h);
                for (int64_t i = b->first[bin]; i < b->first[bin + 1]; i++)
                    mean_add(&m, logarithm ? log_or_nan(v[i]) / M_LN10 : v[i]);
            }
    return mean_of(&m);
}
