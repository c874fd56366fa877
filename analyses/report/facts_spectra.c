// Facts about transitions: single tokens, window products, half-lives, contraction (G03, G08, G11,
// G12).
#include "analyses/report/maker.h"
#include "analyses/spectrum_tokens.h"
#include "core/mem.h"

#include <math.h>
#include <stdlib.h>

static const spectrum_head *head_of(const maker *m, int64_t row, size_t h) {
    return &m->p->row[row].spectrum.layer[m->head[h].at].head[m->head[h].head];
}

typedef double (*head_value)(const maker *m, const spectrum_head *x, const head_shape *s);

static void each(maker *m, const char *name, const char *unit, head_value value, over_heads kind,
                 bool (*has)(const head_shape *s), const char *how) {
    for (int64_t i = 0; i < m->p->n; i++)
        for (size_t h = 0; h < m->n_heads; h++)
            m->v[(size_t)i * m->n_heads + h] = value(m, head_of(m, i, h), m->head[h].shape);
    maker_heads(m, name, unit, kind, FACT_NONE, has, how);
}

static double complex_share(const maker *m, const spectrum_head *x, const head_shape *s) {
    (void)m, (void)s;
    return x->tokens.tokens ? (double)x->tokens.complex_tokens / (double)x->tokens.tokens : NAN;
}

static double negative_share(const maker *m, const spectrum_head *x, const head_shape *s) {
    (void)m, (void)s;
    return x->tokens.values ? (double)x->tokens.negative / (double)x->tokens.values : NAN;
}

static double median_modulus(const maker *m, const spectrum_head *x, const head_shape *s) {
    (void)m, (void)s;
    return spectrum_bins_median(x->tokens.modulus, 0, 1);
}

static double rate(const maker *m, const spectrum_head *x, const head_shape *s) {
    double sum = 0;
    int64_t n = 0;
    for (int b = 0; b < m->p->spectrum.points; b++) {
        sum += x->rate[b];
        n += x->rate_n[b];
    }
    return n ? sum / (double)n / s->K : NAN;
}

static double strength(const maker *m, const spectrum_head *x, const head_shape *s) {
    (void)m, (void)s;
    return x->tokens.strongest;
}

static double largest_norm(const maker *m, const spectrum_head *x, const head_shape *s) {
    double most = NAN; // fmax passes over it
    (void)s;
    for (int64_t i = 0; i < m->p->spectrum.n_windows * m->p->row[0].spectrum.samples; i++)
        most = fmax(most, x->facts[i].norm2 * exp(x->facts[i].log_scale));
    return most;
}

static double not_contracting(const maker *m, const spectrum_head *x, const head_shape *s) {
    (void)m, (void)s;
    return (double)(x->tokens.strong + x->over_norm);
}

// ---- the longest window that tells --------------------------------------------------------------

// Index of the longest window of which a product was evaluated; -1: none.
static int longest(const maker *m, size_t h) {
    const spectrum_result *r = &m->p->row[0].spectrum;
    for (int w = r->n_windows - 1; w >= 0; w--)
        for (int64_t k = 0;
             k < r->samples && spectrum_window_tells(m->head[h].shape, r->windows[w]); k++)
            if (!isnan(head_of(m, 0, h)->facts[w * r->samples + k].norm2))
                return w;
    return -1;
}

// Stands for a mode that is known to have decayed and not how fast: sorts before all others, and a
// median that falls on it is not known.
#define LOST -INFINITY

// Half-lives of the modes of one head's products of window w, behind v[n]; returns the new n.
static size_t lives(const maker *m, size_t h, int w, row_value *v, size_t n) {
    int K = m->head[h].shape->K;
    for (int64_t row = 0; row < m->p->n; row++) {
        const spectrum_result *r = &m->p->row[row].spectrum;
        const spectrum_head *x = head_of(m, row, h);
        for (int64_t k = 0; k < r->samples; k++) {
            int64_t at = w * r->samples + k;
            const window_facts *f = &x->facts[at];
            double noise = spectrum_noise(m->head[h].shape, f);
            for (int i = 0; i < K && !isnan(f->norm2); i++) {
                double modulus = cabs(x->eig[at * K + i]);
                double life = modulus > noise || modulus == 0
                                  ? spectrum_mode_half_life(modulus, f->log_scale, r->windows[w])
                                  : LOST;
                v[n++] = (row_value){life, (int32_t)row};
            }
        }
    }
    return n;
}

static over_rows known_only(over_rows x) {
    bool value = isfinite(x.value) && x.value >= 0;
    bool ends = value && isfinite(x.lo) && isfinite(x.hi) && x.lo >= 0 && x.hi >= 0;
    return (over_rows){value ? x.value : NAN, ends ? x.lo : NAN, ends ? x.hi : NAN};
}

// Share of modes that do not decay, in each row: m->by_row.
static void never(maker *m, const row_value *v, size_t n) {
    for (int64_t i = 0; i < m->p->n; i++) {
        int64_t all = 0, kept = 0;
        for (size_t k = 0; k < n; k++)
            if (v[k].row == i) {
                all++;
                kept += v[k].v == INFINITY; // and not LOST
            }
        m->by_row[i] = all ? (double)kept / (double)all : NAN;
    }
}

static void half_life_of(maker *m, row_value *v, size_t n, int64_t W, place where) {
    char how[128];
    snprintf(how, sizeof how, "median over modes of products of %lld tokens", (long long)W);
    never(m, v, n);
    over_rows stay = rows_mean(&m->draws, m->by_row);
    over_rows life = rows_median(&m->draws, v, n);
    if (n == 0)
        snprintf(how, sizeof how, "no window tells: K / n_h tokens are too many for these rows");
    else if (life.value == INFINITY)
        snprintf(how, sizeof how,
                 "never: the median mode of products of %lld tokens does not decay", (long long)W);
    else if (life.value == LOST)
        snprintf(
            how, sizeof how,
            "shorter than products of %lld tokens resolve: the median mode is lost in rounding",
            (long long)W);
    maker_fact(m, "half_life", known_only(life), "tokens", where, how);
    maker_fact(m, "half_life_never", stay, "1", where, "");
}

static void half_lives(maker *m) {
    const spectrum_result *r = &m->p->row[0].spectrum;
    size_t most = (size_t)m->p->n * (size_t)r->samples, all = 0, n = 0, modes = 0;
    int best = -1;
    for (size_t h = 0; h < m->n_heads; h++) {
        modes += (size_t)m->head[h].shape->K;
        best = longest(m, h) > best ? longest(m, h) : best;
    }
    row_value *v = mem_alloc(most * modes, sizeof *v, "half-lives", m->e);
    if (!v) {
        m->ok = false;
        return;
    }
    for (size_t h = 0; h < m->n_heads; h++) {
        int w = longest(m, h);
        n = w < 0 ? 0 : lives(m, h, w, v, 0);
        half_life_of(m, v, n, w < 0 ? 0 : r->windows[w],
                     (place){m->head[h].layer, m->head[h].head, FACT_NONE, FACT_NONE});
    }
    // Over all heads: one window length, that of the longest that tells for any of them.
    for (size_t h = 0; h < m->n_heads; h++)
        if (best >= 0 && longest(m, h) == best)
            all = lives(m, h, best, v, all);
    half_life_of(m, v, all, best < 0 ? 0 : r->windows[best], PLACE_ALL);
    free(v);
}

static double radius(const maker *m, const spectrum_head *x, const head_shape *s) {
    const spectrum_result *r = &m->p->row[0].spectrum;
    (void)s;
    for (int w = r->n_windows - 1; w >= 0; w--) {
        double sum = 0;
        int64_t n = 0;
        for (int64_t k = 0; k < r->samples; k++) {
            const window_facts *f = &x->facts[w * r->samples + k];
            if (!isnan(f->radius)) {
                sum += f->radius * exp(f->log_scale);
                n++;
            }
        }
        if (n)
            return sum / (double)n;
    }
    return NAN;
}

// A row whose spectra could not be computed: null, with the reason.
static void unknown(maker *m) {
    static const struct {
        const char *name, *unit;
        bool (*has)(const head_shape *s);
    } all[] = {{"complex_share", "1", has_all},  {"negative_share", "1", has_all},
               {"median_modulus", "1", has_all}, {"lyapunov_rate", "nats/token", has_all},
               {"half_life", "tokens", has_all}, {"half_life_never", "1", has_all},
               {"product_radius", "1", has_all}, {"strength", "1", has_erase},
               {"product_norm", "1", has_all},   {"not_contracting", "1", has_erase}};
    const char *why = "";
    for (int64_t i = 0; i < m->p->n; i++)
        why = m->p->row[i].spectrum_why[0] ? m->p->row[i].spectrum_why : why;
    for (size_t i = 0; i < (size_t)m->p->n * m->n_heads; i++)
        m->v[i] = NAN;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        maker_heads(m, all[k].name, all[k].unit, OVER_MEAN, FACT_NONE, all[k].has, why);
}

void facts_of_spectra(maker *m) {
    if (m->n_heads == 0)
        return;
    if (m->p->spectrum.n_layers == 0) {
        unknown(m);
        return;
    }
    each(m, "complex_share", "1", complex_share, OVER_MEAN, has_all,
         "share of tokens with a complex pair");
    each(m, "negative_share", "1", negative_share, OVER_MEAN, has_all,
         "share of single tokens' eigenvalues");
    each(m, "median_modulus", "1", median_modulus, OVER_MEAN, has_all,
         "of single tokens' eigenvalues that are not frozen");
    each(m, "lyapunov_rate", "nats/token", rate, OVER_MEAN, has_all,
         "mean of ln |det A_t| / K; singular tokens left out");
    half_lives(m);
    each(m, "product_radius", "1", radius, OVER_MEAN, has_all,
         "mean spectral radius of the longest windows");
    each(m, "strength", "1", strength, OVER_LARGEST, has_erase, "largest beta |k|^2");
    each(m, "product_norm", "1", largest_norm, OVER_LARGEST, has_all,
         "largest |P|_2 of the sampled windows");
    each(m, "not_contracting", "1", not_contracting, OVER_SUM, has_erase,
         "factors with beta |k|^2 above 2 and windows with |P|_2 above 1");
}
